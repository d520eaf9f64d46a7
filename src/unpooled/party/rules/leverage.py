"""Leverage: releases over pairs of columns of which one row carries a direction.

A covariance is closed under differences: where two columns differ in one person only,
the difference of their covariances with all others is that person's record. The same
holds for a category of one person, and for any direction of the columns that one row
carries. A silo decides about the rows and columns of a view once, and the audit log
keeps the decision. Which columns it was about stays in the silo: in its audit log and
its own log.

With about as many columns as rows every leverage is 1, whatever the data are. There,
and where a p × p matrix is too large, each column is judged by itself: of products of a
block of directions, the row of a column that differs in one person is this person's
record along all of them.

Where a step releases the scatter of the view's own rows, the step runs first: by that
matrix rows are cleared at little cost, and nothing leaves before.
"""

import logging
from collections.abc import Iterator
from functools import partial
from typing import Any, final

import numpy as np

from unpooled.arrays import Array, Float
from unpooled.data.columns import listing
from unpooled.data.table import Table
from unpooled.linalg.leverage import (
    Leverage,
    largest_in_a_column,
    largest_leverage,
)
from unpooled.linalg.leverage_by_scatter import leverage_by_scatter
from unpooled.linalg.moments import Rows, unpack
from unpooled.party.memory.audit_log import AuditLog
from unpooled.party.rules.policy import Policy
from unpooled.party.rules.row_digests import row_digests
from unpooled.party.views.view import View
from unpooled.protocol.declaration import FEATURE_AXES, ROW_AXES
from unpooled.protocol.message import digest
from unpooled.protocol.refusal import Refusal
from unpooled.protocol.step import Step

NOTEWORTHY = 0.5
_MOST_NAMES = 10
# With more columns a step that forms no p × p matrix is left alone: leverage needs one.
_MOST_FACTORISED = 4096
# Multiplications n p² below which the exact leverage, which tells more, is cheap too.
_LEAST_WORK = 2**24
# The limit for single columns, of which there may be 200,000: with ten normal rows, one
# has a larger leverage by chance in one of 10^12 columns.
_OF_A_COLUMN = 0.999

log = logging.getLogger("unpooled.party")


@final
class LeverageRule:
    """The silo's decisions about the leverage of its rows, over all studies.

    Parameters
    ----------
    audit_log : AuditLog
        Keeps the decisions.
    key : bytes
        Key of the digests of rows, at most 64.
    policy : Policy
        The silo's rules.
    """

    def __init__(self, audit_log: AuditLog, key: bytes, policy: Policy) -> None:
        self._audit_log, self._key, self._policy = audit_log, key, policy
        # Decisions about the present table, by the digest of the view.
        self._decided: dict[str, dict[str, Any]] = {}
        self._table: Table | None = None
        # Columns of the present table in whose directions one row has a leverage of
        # `NOTEWORTHY` or more, though not so much that they are refused.
        self.noteworthy: tuple[str, ...] = ()

    def check(
        self,
        step: Step,
        view: View,
        scatter: Float[Array, "..."] | None = None,
        about: Float[Array, " p"] | None = None,
    ) -> None:
        """Refuse pairs of columns where one row carries a direction of them.

        Parameters
        ----------
        scatter : (p, p) or (p (p + 1) / 2,) array, optional
            What the step releases under the name of `scatter_in`.
        about : (p,) array, optional
            The point that it is believed to be about.
        """
        p, limit = len(view.columns), self._policy.max_leverage
        if limit >= 1.0 or not tells_pairs(step, min(p, _MOST_FACTORISED)):
            return
        wide = p + 1 >= view.n_rows or not tells_pairs(step, p)
        # On a column partition they are products with people, which other rules govern.
        if wide and view.is_by_columns:
            return
        limit = max(limit, _OF_A_COLUMN) if wide else limit
        found = self._of(view, limit, scatter, about, wide=wide)
        if found["at_least"] > limit:
            # The same verdict behind shifts and scales, and in each fold.
            verdict = ["leverage", view.up_to_scale().digest(), wide]
            detail = f"Here of {listing(found['columns'])}."
            raise Refusal("max_leverage", detail, verdict)
        if found["at_least"] >= NOTEWORTHY:
            new = [name for name in found["columns"] if name not in self.noteworthy]
            self.noteworthy = (*self.noteworthy, *new)

    def _of(
        self,
        asked_view: View,
        limit: float,
        scatter: Float[Array, "..."] | None,
        about: Float[Array, " p"] | None,
        *,
        wide: bool,
    ) -> dict[str, Any]:
        """Return the note of a view's leverage, computed unless it is known."""
        view = asked_view.up_to_scale()
        if view.table is not self._table:
            self._decided, self._table, self.noteworthy = {}, view.table, ()
        asked = view.digest() + " by column" * wide
        found = self._decided.get(asked, {})
        if _decides(found, limit):
            return found
        key = {"view": asked}
        if self._audit_log.path is not None:
            # A log in memory ends with the process, which has one table at a time.
            rows = row_digests(view.table, view.source_columns, "", self._key)
            key["rows"] = digest(np.sort(rows).tobytes())
        for note in self._audit_log.notes("leverage"):
            if key.items() <= note.items() and _decides(note, limit):
                self._decided[asked] = note
                return note
        found = None
        if wide:
            found = largest_in_a_column(partial(_rows, view), len(view.columns))
        elif scatter is not None:
            found = _by_scatter(asked_view, limit, scatter, about)
        found = {**key, **_note(view, found or _measured(view, limit))}
        self._audit_log.note("leverage", found)
        self._decided[asked] = found
        if found["at_least"] >= NOTEWORTHY:
            named, most = ", ".join(found["columns"]), found["at_most"]
            log.info("one row has leverage %.2f in the columns %s", most, named)
        return found


def tells_pairs(step: Step, p: int) -> bool:
    """Whether a step releases sums over pairs of p columns, or such with directions.

    Noise hides any one row, also one that carries a direction. Products with a few
    directions of very many columns tell as few numbers of such a row.
    """
    directions = set[str]()
    # Without rows there is nothing to multiply: totals alone have been judged before.
    if p <= _MOST_FACTORISED and {"X", "cells", "kept"} & set(step.reads):
        # As ``image`` (p, l) of directions ``V`` (p, l), by the covariance; but sums by
        # groups (g, p) about means (g, p) multiply no two columns.
        directions = {
            taken.axes
            for taken in step.takes.values()
            if len(letters := taken.axes.split()) == 2
            and letters[0] in FEATURE_AXES | ROW_AXES
        }
    return any(
        declared.noise is None
        and (declared.pairs_features or declared.axes in directions)
        for declared in step.leaves.values()
    )


def scatter_in(step: Step, view: View) -> str:
    """Return the name of the array that may be the scatter of the view's rows.

    Empty where there is none, or where it is no use: a decision is about all rows of
    the table, and about few of them the exact leverage is cheap.
    """
    if view.left_out or view.n_rows * len(view.columns) ** 2 < _LEAST_WORK:
        return ""
    names = (
        name
        for name, declared in step.leaves.items()
        if declared.axes == "p p" and declared.symmetric and declared.noise is None
    )
    return next(names, "")


def _by_scatter(
    view: View,
    limit: float,
    scatter: Float[Array, "..."],
    about: Float[Array, " p"] | None,
) -> Leverage | None:
    """Return the verdict by a scatter of the view's rows; None if it has none."""
    n, p = view.n_rows, len(view.columns)
    A = unpack(scatter, p) if scatter.shape == (p * (p + 1) // 2,) else scatter
    if A.shape != (p, p):
        return None  # the step breaks its declaration, for which it is refused
    judge = partial(
        leverage_by_scatter,
        *(A, partial(_rows, view), n, limit),
        noteworthy=min(NOTEWORTHY, limit),
    )
    mean, found = view.known_mean, None
    if mean is not None and about is not None and about.shape == mean.shape:
        found = judge(mean=mean, about=about)
    found = found or judge()
    return found if found and _is_beside(found, limit) else None


def _measured(view: View, limit: float) -> Leverage:
    n, p = view.n_rows, len(view.columns)
    found = largest_leverage(partial(_rows, view), n, p, min(NOTEWORTHY, limit))
    if _is_beside(found, limit):
        return found
    return largest_leverage(partial(_rows, view), n, p, limit)


def one_row_carries(view: View, limit: float) -> bool:
    """Whether some row of a view carries a direction of its columns.

    In a view with about as many columns as rows, one of its columns.
    """
    view = view.up_to_scale()
    n, p = view.n_rows, len(view.columns)
    if p + 1 >= n:
        found = largest_in_a_column(partial(_rows, view), p)
        return found.at_least > max(limit, _OF_A_COLUMN)
    return largest_leverage(partial(_rows, view), n, p, limit).at_least > limit


def _rows(view: View) -> Iterator[Rows]:
    return (block.X for block in view.blocks(sparse=True))


def _is_beside(found: Leverage, limit: float) -> bool:
    return found.at_least > limit or found.at_most <= limit


def _decides(found: dict[str, Any], limit: float) -> bool:
    return bool(found) and (found["at_least"] > limit or found["at_most"] <= limit)


def _note(view: View, found: Leverage) -> dict[str, Any]:
    columns = [view.columns[j] for j in found.columns[:_MOST_NAMES]]
    return {
        "at_least": found.at_least,
        "at_most": found.at_most,
        "columns": columns,
    }
