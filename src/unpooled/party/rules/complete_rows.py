"""Rows that are left out for a missing cell: those with other cells must not be few.

    column    a  b      sums over cells that are there:      a of all rows but 1
    row 1     ·  ·      sums over complete rows:             a of all rows but 1 and 2
    row 2     5  ·      their difference:                    5, the cell of row 2
    row 3     1  2

A silo answers about its complete rows and about all of them only where at least
`min_changed_rows` are incomplete (`unpooled.party.rules.table_versions`). Sums of a
column over the cells that are there, as an imputer asks for, leave out some of the same
rows. The others are counted here, by column: where they are few, the silo answers about
its complete rows or about all of them, whichever came first.
"""

from collections.abc import Sequence
from typing import final
from weakref import WeakKeyDictionary

import numpy as np

from unpooled.data.filtered_table import complete_rows
from unpooled.data.table import Table
from unpooled.linalg.moments import observed_sums
from unpooled.party.memory.audit_log import AuditLog, Note
from unpooled.party.rules.policy import Policy
from unpooled.party.rules.unusable_cells import RefusedColumns
from unpooled.party.views.view import View
from unpooled.protocol.refusal import Refusal


@final
class CompleteRows:
    """The choices of complete rows that a silo answered about.

    Parameters
    ----------
    audit_log : AuditLog
        Keeps the columns in which rows had to be complete.
    policy : Policy
        The silo's rules.
    """

    def __init__(self, audit_log: AuditLog, policy: Policy) -> None:
        self._audit_log, self._policy = audit_log, policy
        # By table of complete rows: for each column, its observed cells in the rows
        # left out.
        self._others = WeakKeyDictionary[Table, dict[str, int]]()

    def check(self, view: View, whole: list[str]) -> None:
        """Refuse sums over complete rows next to such over observed cells, if telling.

        Parameters
        ----------
        whole : list of str
            Names of the versions of the silo's table, before rows were left out.
        """
        if view.complete_in:
            answered = not self._audit_log.state().tables.keys().isdisjoint(whole)
            if answered and self._few(view.whole, view.complete_in):
                raise Refusal("min_changed_rows")
            return
        for columns in self._noted(whole):
            if not set(columns) <= set(view.whole.columns):
                continue
            few = self._few(view.whole, columns)
            if not few.isdisjoint(view.source_columns):
                raise Refusal("min_changed_rows")

    def foresee(self, view: View, earlier: Sequence[Sequence[str]]) -> None:
        """Refuse a planned step whose rows differ in a few from those planned before.

        Parameters
        ----------
        earlier : sequence of sequence of str
            For each choice of rows before this one the columns in which they are
            complete; none for all rows.

        Raises
        ------
        RefusedColumns
            "min_changed_rows", with the columns whose cells the two choices differ in.
        """
        whole, own = view.whole, view.complete_in
        for columns in map(list, earlier):
            if not set(columns) <= set(whole.columns):
                raise Refusal("unknown_columns")
            other = complete_rows(whole, columns) if columns else whole
            if 0 < _n_changed(view.table, other) < self._policy.min_changed_rows:
                differ = sorted({*own} ^ {*columns})
                raise RefusedColumns(
                    *("min_changed_rows", _incomplete(whole, differ)),
                    about=sorted([own, columns]),
                )
            few = set[str]()
            if own and not columns:
                few = self._few(whole, own)
            elif columns and not own:
                few = self._few(whole, columns) & {*view.source_columns}
            if few:
                raise RefusedColumns(
                    "min_changed_rows", sorted(few), about=[own or columns, sorted(few)]
                )

    def notes(self, view: View, whole: list[str]) -> list[Note]:
        """Return a note of columns whose few incomplete rows a view leaves out."""
        columns = view.complete_in
        if columns in self._noted(whole):
            return []
        if not columns or not self._few(view.whole, columns):
            return []
        return [("complete", {"table": whole[0], "columns": columns})]

    def _noted(self, whole: list[str]) -> list[list[str]]:
        notes = self._audit_log.state().notes["complete"]
        return [note["columns"] for note in notes if note["table"] in whole]

    def _few(self, table: Table, columns: list[str]) -> set[str]:
        """Return the columns with a few cells in the rows that are left out."""
        left = complete_rows(table, columns)
        if left not in self._others:
            self._others[left] = _cells_in_others(table, columns, left.n_rows)
        found = self._others[left].items()
        return {c for c, n in found if 0 < n < self._policy.min_changed_rows}


def _n_changed(one: Table, other: Table) -> int:
    """Return how many rows only one of two tables has: of that which has more such."""
    if one is other:
        return 0
    has = [table.source_rows(np.arange(table.n_rows)) for table in (one, other)]
    return max(
        len(np.setdiff1d(*pair, assume_unique=True)) for pair in (has, has[::-1])
    )


def _incomplete(table: Table, columns: list[str]) -> list[str]:
    """Return those of the columns that have a missing cell."""
    there = sum(observed_sums(block.X)[0] for block in table.blocks(columns))
    known = zip(columns, np.ravel(there), strict=True)
    return [column for column, n in known if n < table.n_rows]


def _cells_in_others(table: Table, columns: list[str], n: int) -> dict[str, int]:
    """Return the cells of each column in incomplete rows, of which all but n are."""
    there = np.zeros(len(columns), int)
    for block in table.blocks(columns):
        there += observed_sums(block.X)[0]
    # In complete rows each column has a cell.
    others = there - n
    return dict(zip(columns, others.tolist(), strict=True))
