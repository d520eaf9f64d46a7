"""Earlier values for a silo's missing cells: two fillings subtract to rows.

    products with a filled column = those of the cells that are there
                                    + the filling × the rows whose cell is missing

So two numbers, fitted on two sets of rows or chosen, give the sum of those rows, and a
person's own row where one cell is missing; folds add up to all rows, so it does not
help that the two totals are about different rows. All selections are unions of blocks
of rows (`unpooled.party.views.cut`), and so are the rows that two fillings give the
sum of. Where a block has a few missing cells of a column, the silo fills the column in
one way only for each version of its table, over all studies:

    first filling     second filling    the silo
    a fit's           the same fit's    fills as the first time, whatever is asked
    a fit's           another fit's     refuses, unless both are the same number
    chosen or a fit's chosen            refuses, unless both are the same number

A mean that was fitted on other folds, or next month when another silo's rows have
changed, is another number. An analyst who cross-validates meant no particular one, so
the first stays. An analyst who names a number means that number, and one who asks for a
median after a mean means a median.
"""

import hashlib
from collections.abc import Sequence
from typing import Any, final

import numpy as np

from unpooled.arrays import Array, UInt8
from unpooled.data.table import Table
from unpooled.party.memory.audit_log import AuditLog, Note
from unpooled.party.memory.audit_state import Filling
from unpooled.party.rules.policy import Policy
from unpooled.party.views.view import View
from unpooled.protocol.refusal import Refusal

_CHOSEN = "chosen "


@final
class ImputedCells:
    """The fillings that a silo answered about.

    Parameters
    ----------
    key : bytes
        Key of the digests of cells in the notes of earlier versions of the library.
    audit_log : AuditLog
        Keeps the fillings.
    policy : Policy
        The silo's rules.
    """

    def __init__(self, key: bytes, audit_log: AuditLog, policy: Policy) -> None:
        self._key, self._audit_log, self._policy = key, audit_log, policy
        # For the present table, by column: the fewest missing cells of a block that has
        # any.
        self._fewest: dict[str, int] = {}
        self._table: Table | None = None

    def check(self, view: View, versions: list[str]) -> None:
        """Have a view filled as before where few cells are missing, or refuse.

        Parameters
        ----------
        versions : list of str
            Names of the answered versions with the rows of the view's table.
        """
        stay: dict[str, float] = {}
        for column, now in self._few(view).items():
            first = self._first(versions, column)
            if first is None:
                notes = self._audit_log.state().notes["filled"]
                _check_former(notes, view.table, column, now, self._key)
            elif now != first:
                of_two = bool(first.step) and now.step != first.step
                if of_two or now.chosen or first.chosen or now.before != first.before:
                    raise Refusal("another_filling")
                stay[column] = float.fromhex(first.value)
        view.fill_as(stay)

    def notes(self, view: View, versions: list[str]) -> list[Note]:
        """Return a note of what fills the columns that lack a few cells in a block."""
        new = {
            column: now.as_record()
            for column, now in self._few(view).items()
            if self._first(versions, column) is None
        }
        return [("filling", {"table": versions[0], "columns": new})] if new else []

    def _first(self, versions: list[str], column: str) -> Filling | None:
        fillings = self._audit_log.state().fillings
        found = (fillings.get((name, column)) for name in versions)
        return next(filter(None, found), None)

    def _few(self, view: View) -> dict[str, Filling]:
        """Return the fillings of columns of which a block lacks a few cells."""
        if self._policy.min_rows <= 1 or not (fillings := view.fillings):
            return {}
        if view.table is not self._table:
            self._fewest, self._table = {}, view.table
        if new := [column for column in fillings if column not in self._fewest]:
            in_all = np.zeros(view.table.n_rows, np.uint8)
            self._fewest |= _fewest(view.table, new, in_all)
            # Few in all are few in a block, and the blocks need not be known.
            if many := [c for c in new if self._fewest[c] >= self._policy.min_rows]:
                self._fewest |= _fewest(view.table, many, view.blocks_of_rows)
        return {
            column: filling
            for column, filling in fillings.items()
            if 0 < self._fewest[column] < self._policy.min_rows
        }


def _fewest(
    table: Table, columns: list[str], block_of: UInt8[Array, " n"]
) -> dict[str, int]:
    """Return the fewest missing cells of a block that has any, by column."""
    missing = np.zeros((int(block_of.max(initial=0)) + 1, len(columns)), int)
    for rows in table.blocks(columns):
        places = block_of[rows.start : rows.start + len(rows.X)]
        np.add.at(missing, places, np.isnan(rows.X))
    none = table.n_rows + 1
    fewest = np.where(missing > 0, missing, none).min(axis=0) % none
    return dict(zip(columns, fewest.tolist(), strict=True))


def _check_former(
    notes: Sequence[dict[str, Any]],
    table: Table,
    column: str,
    now: Filling,
    key: bytes,
) -> None:
    """Refuse a chosen number where a column was filled otherwise, or by one before.

    Earlier versions of the library noted, for all rows and each column, how it was
    filled and a digest of its cells. They did not note the number, so a filling that a
    fit gave cannot stay: the first one under the present notes does.
    """
    for note in notes:
        if note["rows"] != "all" or column not in note["columns"]:
            continue
        how, cells, _ = note["columns"][column]
        other = how != now.former and (now.chosen or how.startswith(_CHOSEN))
        # Other cells are other data: the table has changed.
        if other and cells == _digest(table, column, key):
            raise Refusal("another_filling")


def _digest(table: Table, column: str, key: bytes) -> str:
    found = hashlib.blake2b(digest_size=16, key=key)
    for block in table.blocks([column]):
        cells = block.X[:, 0]
        found.update(np.where(np.isnan(cells), np.nan, cells + 0.0).tobytes())
    return found.hexdigest()
