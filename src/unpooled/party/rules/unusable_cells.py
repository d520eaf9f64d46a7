"""Cells for which a step would be refused in the middle of a fit: a plan finds them.

A step meets a missing cell, an infinite one, or a row without a label only as it reads
the rows, when earlier rounds of the fit have left. So a silo looks for them when it is
asked for a plan, and once for each version of its table and selection of rows.

What crosses is the rule and the names of columns; how many cells there are, and in
which rows, stays in the silo's own log (`describe`) and in ``unpooled silo check``.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final
from weakref import WeakKeyDictionary

import numpy as np

from unpooled.arrays import Array, Bool, Shaped
from unpooled.data.row_filter import is_missing
from unpooled.data.table import Table
from unpooled.party.steps.asked_step import AskedStep
from unpooled.party.views.view import View
from unpooled.protocol.refusal import Refusal

log = logging.getLogger("unpooled.party")

# Rules about cells, with what the log calls such cells.
MISSING, INFINITE, UNLABELLED = "missing_values", "infinite_values", "missing_labels"
KINDS = {MISSING: "missing", INFINITE: "infinite", UNLABELLED: "without a label"}
CONSTANT, EMPTY = "constant_columns", "empty_column"
# Rows of a column that are named.
_MOST_ROWS = 8


@final
class RefusedColumns(Refusal):
    """A rule about cells refused a plan, because of these columns.

    Parameters
    ----------
    rule : str
        The rule.
    columns : sequence of str
        Names of the silo's columns, in its own order.
    about : JSON value, optional
        What the verdict is about; None: the cells of the rows that are selected.
    """

    def __init__(self, rule: str, columns: Sequence[str], about: Any = None) -> None:
        super().__init__(rule, about=about)
        self.columns = tuple(columns)


@final
@dataclass(frozen=True)
class Cells:
    """Which cells of a column are missing, or infinite.

    Attributes
    ----------
    column : str
        The column.
    kind : str
        One of `KINDS`.
    count : int
        Number of such cells.
    rows : tuple of int
        The first of their rows in the silo's source, counted from 1.
    """

    column: str
    kind: str
    count: int
    rows: tuple[int, ...]

    def __str__(self) -> str:
        more = ", ..." if self.count > len(self.rows) else ""
        rows = ", ".join(f"{row:,}" for row in self.rows)
        cells = "row" if self.kind == UNLABELLED else "cell"
        s = "" if self.count == 1 else "s"
        return (
            f"{self.column}: {self.count:,} {cells}{s} {KINDS[self.kind]} "
            f"(data row{s} {rows}{more})"
        )


@final
class UnusableCells:
    """Missing and infinite cells of a silo's tables, from reading each table once."""

    def __init__(self) -> None:
        # By table; in it by selection of rows and column.
        self._known = WeakKeyDictionary[Table, dict[Any, dict[str, frozenset[str]]]]()
        # By table and column that was looked at its only value, None if it has several.
        self._constant = WeakKeyDictionary[Table, dict[str, float | None]]()

    def check(self, asked: AskedStep, label: str | None, *, complete: bool) -> None:
        """Refuse a planned step that would meet cells which its model does not take.

        Parameters
        ----------
        asked : AskedStep
            The planned step.
        label : str or None
            The silo's label.
        complete : bool
            Whether the model takes no missing cells.

        Raises
        ------
        RefusedColumns
            "infinite_values", "missing_values" or "missing_labels".
        """
        view, reads = asked.view, asked.step.reads
        if not isinstance(view, View):
            return
        if "y" in reads and label is not None:
            self._refuse(view, [label], UNLABELLED)
        # What a step kept of the rows, it kept after it had read them.
        if {"X", "cells", "kept"} & set(reads):
            self._refuse(view, view.source_columns, INFINITE)
            if complete:
                # A missing category is a category, or is counted as missing.
                coded = set(view.table.categorical)
                numbers = [name for name in view.unfilled if name not in coded]
                self._refuse(view, numbers, MISSING)

    def doubt(
        self, asked: AskedStep, label: str | None, *, complete: bool
    ) -> RefusedColumns | None:
        """Return the refusal by `check` of all rows, if any, before rows are matched.

        The rows with such cells may turn out not to be read.
        """
        try:
            self.check(asked, label, complete=complete)
        except RefusedColumns as refusal:
            return refusal
        return None

    def constant(self, asked: AskedStep, least: int) -> dict[str, float]:
        """Return the columns of a planned step's view that have one value in all rows.

        With the value, NaN where no cell has one. None where the view has some of the
        rows, so that it tells nothing of these, and of columns with a value in fewer
        than `least` cells. Columns that a transform combines with others may vary, and
        so may those whose missing cells the study fills with a number of its own.
        """
        view = asked.view
        if not isinstance(view, View) or view.cut is not None:
            return {}
        read = set(view.origins())
        columns = [name for name in view.source_columns if name in read]
        known = self._constant.setdefault(view.table, {})
        if new := [name for name in columns if name not in known]:
            known |= dict.fromkeys(new) | constant_columns(view.table, new, least)
        found = {c: v for c in columns if (v := known[c]) is not None}
        if filled := view.filled_otherwise & found.keys():
            lacking = filled.intersection(self.lacking(view))
            found = {c: value for c, value in found.items() if c not in lacking}
        return found

    def lacking(self, view: View) -> list[str]:
        """Return the source columns of a view in which some row has a missing cell."""
        columns = view.source_columns
        of_rows = self._of_rows(view.of_all_rows([]), columns)
        return [name for name in columns if MISSING in of_rows[name]]

    def _refuse(self, view: View, columns: Sequence[str], kind: str) -> None:
        of_rows = self._of_rows(view, columns)
        if bad := [name for name in columns if kind in of_rows[name]]:
            raise RefusedColumns(kind, bad)

    def _of_rows(
        self, view: View, columns: Sequence[str]
    ) -> Mapping[str, frozenset[str]]:
        """Return the kinds of cells that columns have in the rows of a view."""
        known = self._known.setdefault(view.table, {})
        of_rows = known.setdefault(view.selection, {})
        if new := [name for name in columns if name not in of_rows]:
            found = dict.fromkeys(new, frozenset[str]())
            for cells in unusable_cells(view, new):
                found[cells.column] |= {cells.kind}
                log.info("%s", cells)
            of_rows |= found
        return of_rows


def describe(view: View, label: str | None, rule: str) -> None:
    """Write the cells for which a step was refused into the silo's own log.

    Parameters
    ----------
    view : View
        The rows and columns that the step reads.
    label : str or None
        The silo's label.
    rule : str
        The rule; others than those of `KINDS` are ignored.
    """
    if rule in KINDS:
        columns = [label] if rule == UNLABELLED and label else view.source_columns
        for cells in unusable_cells(view, columns):
            if cells.kind == rule:
                log.info("%s", cells)


def unusable_cells(view: View, columns: Sequence[str]) -> Iterator[Cells]:
    """Yield the cells of columns that a model might not take, column by column.

    Parameters
    ----------
    view : View
        Its rows are read, before any transform.
    columns : sequence of str
        Source columns, or the label.
    """
    features = [name for name in columns if name in view.table.columns]
    others = [name for name in columns if name not in view.table.columns]
    kept, first = view.rows(), 0
    kinds = {name: (MISSING, INFINITE) for name in features}
    kinds |= {name: (UNLABELLED,) for name in others}
    counts = {(name, kind): 0 for name in columns for kind in kinds[name]}
    rows = {key: list[int]() for key in counts}
    for block in view.table.sparse_blocks(features, others):
        n = block.X.shape[0]
        here = kept[first : first + n]
        bad = dict[tuple[str, str], Bool[Array, " n"]]()
        for place in _doubtful(block.X):
            cells = _column(block.X, place)
            bad[features[place], MISSING] = np.isnan(cells)
            bad[features[place], INFINITE] = np.isinf(cells)
        bad |= {(name, UNLABELLED): is_missing(block.extra[name]) for name in others}
        for key, cells in bad.items():
            found = np.flatnonzero(cells & here)
            counts[key] += len(found)
            room = _MOST_ROWS - len(rows[key])
            places = view.table.source_rows(found[:room] + first)
            rows[key] += (places + 1).tolist()
        first += n
    for (name, kind), count in counts.items():
        if count:
            yield Cells(name, kind, count, tuple(rows[name, kind]))


def constant_columns(
    table: Table, columns: Sequence[str], least: int = 0
) -> dict[str, float]:
    """Return the columns of which all cells with a value have the same, with it.

    NaN for columns without any value. None of those with a value in fewer than `least`
    cells: it would be that of few people.
    """
    some = np.zeros(len(columns), np.int64)
    low = np.full(len(columns), np.inf)
    high = np.full(len(columns), -np.inf)
    for block in table.sparse_blocks(list(columns)):
        X = block.X
        some += X.shape[0]
        if hasattr(X, "indptr"):
            lowest, highest = X.nanmin(axis=0).toarray(), X.nanmax(axis=0).toarray()
            lacking = X.indices[np.isnan(X.data)]
            some -= np.bincount(lacking, minlength=len(columns))
        else:
            lowest = np.fmin.reduce(X, axis=0, initial=np.inf)
            highest = np.fmax.reduce(X, axis=0, initial=-np.inf)
            some -= np.isnan(X).sum(axis=0)
        low, high = np.fmin(low, lowest.ravel()), np.fmax(high, highest.ravel())
    values = np.where(some == 0, np.nan, low).tolist()
    found = (some == 0) | ((low >= high) & (some >= least))
    return {columns[i]: values[i] for i in np.flatnonzero(found).tolist()}


def _doubtful(X: Any) -> list[int]:
    """Return the columns of a block, dense or sparse, that have a cell of no number."""
    if hasattr(X, "indptr"):
        return np.unique(X.indices[~np.isfinite(X.data)]).tolist()
    # Adding up is cheap, and a sum is not finite where a cell is not.
    with np.errstate(all="ignore"):
        sums = X.sum(axis=0)
    return np.flatnonzero(~np.isfinite(sums)).tolist()


def _column(X: Any, place: int) -> Shaped[Array, " n"]:
    return X[:, [place]].toarray()[:, 0] if hasattr(X, "indptr") else X[:, place]
