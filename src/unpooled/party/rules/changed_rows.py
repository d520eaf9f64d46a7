"""Rows that came since an earlier answer: they are judged as a table of their own.

    version 1   Σ over 100 rows
    version 2   Σ over these and 12 more      2 - 1 = Σ over the 12

Where no other silo's table changed, the difference of two answers is about these rows
alone. So a silo answers about a changed table what it would answer about the rows that
came by themselves: each of their classes has `min_rows_per_class` rows, each column
with missing cells `min_rows` values, they are enough for the columns
(`max_feature_ratio`), and no row among them carries a direction (`max_leverage`): among
12 new people there is often one alone with a certain diagnosis, whose products with all
other columns are that person's record. The rules about derived columns, and in a
session those about single classes and about weights, are asked about these rows too.

A choice of complete rows is a table of its own. It may come after an answer about all
rows: the rows that it leaves out are judged likewise.

Of rows that are gone the silo has digests, how many there were of each class, and no
cells. How many must at least have changed (`rules.table_versions`), and of a class
where sums are by class, is all that it can judge of them: a label that was corrected
beside ten other cells would otherwise take one person out of a class.
"""

from collections.abc import Mapping
from typing import final
from weakref import WeakKeyDictionary

import numpy as np

from unpooled.data.aligned_table import AlignedTable
from unpooled.data.table import Table
from unpooled.linalg.moments import observed_sums
from unpooled.party.rules.combined_rows import RowsAlone
from unpooled.party.rules.leverage import one_row_carries, tells_pairs
from unpooled.party.rules.leverage_of_products import LeverageOfProducts
from unpooled.party.rules.policy import Policy
from unpooled.party.rules.table_versions import TableVersions
from unpooled.party.views.view import View
from unpooled.protocol.refusal import Refusal
from unpooled.protocol.step import Step


@final
class ChangedRows:
    """The silo's verdicts about rows that came since it answered.

    Parameters
    ----------
    versions : TableVersions
        The versions that it answered about.
    policy : Policy
        The silo's rules.
    """

    def __init__(self, versions: TableVersions, policy: Policy) -> None:
        self._versions, self._policy = versions, policy
        self._products = LeverageOfProducts(policy)
        self._tables = WeakKeyDictionary[Table, dict[str, AlignedTable]]()
        # By table, the steps and views that were judged and passed.
        self._passed = WeakKeyDictionary[Table, set[str]]()
        # By table, how many rows of each class left since each earlier answer.
        self._gone = WeakKeyDictionary[Table, list[int]]()

    def check(
        self,
        step: Step,
        view: View,
        came: Mapping[str, RowsAlone],
        *,
        planned: bool = False,
    ) -> None:
        """Refuse a step that would not be answered about rows that came alone.

        Parameters
        ----------
        came : mapping of str to RowsAlone
            These rows, as `tables` and `CombinedRows.tables` return them.
        planned : bool, default False
            Whether the numbers of the view's transforms are placeholders.

        Raises
        ------
        Refusal
            As "changed_rows", with the rule that they break for the silo's log.
        """
        if not any(one.noise is None for one in step.leaves.values()):
            return
        if _by_class(step) and view.table is view.whole:
            self._check_gone(view.table)
        for version, some in came.items():
            new, p = view.of_rows(some.rows), some.n_columns
            try:
                self._judge(step, view, new, p, version, planned=planned)
            except Refusal as broken:
                detail = f"By {broken.rule}. {broken.detail}".rstrip()
                raise Refusal("changed_rows", detail) from None

    def of_step(
        self, step: Step, view: View, came: Mapping[str, RowsAlone]
    ) -> list[View]:
        """Return views of the rows that came, for each earlier version.

        None of a step that does not add over rows: of it no two answers subtract.
        """
        if step.by != "rows":
            return []
        return [view.of_rows(some.rows) for some in came.values()]

    def tables(self, view: View) -> dict[str, RowsAlone]:
        """Return the rows by which the view's table differs from earlier versions.

        Those that came, and those of the silo's table that a choice of complete rows
        leaves out.
        """
        known = self._tables.setdefault(view.table, {})
        for version, came in self._versions.came(view.table).items():
            if version not in known and 0 < int(came.sum()) < len(came):
                known[version] = AlignedTable(view.table, np.flatnonzero(came))
        for version, left in self._versions.left(view.table, view.whole).items():
            name = f"{version} left"
            if name not in known and left.any():
                known[name] = AlignedTable(view.whole, np.flatnonzero(left))
        p = len(view.columns)
        return {name: RowsAlone(rows, p) for name, rows in known.items()}

    def _check_gone(self, table: Table) -> None:
        """Refuse sums by class of which a few people left some class."""
        if table not in self._gone:
            found = self._versions.gone_by_class(table).values()
            self._gone[table] = [n for own in found for n in own]
        try:
            self._policy.check_classes(self._gone[table])
        except Refusal as broken:
            detail = f"By {broken.rule}, of rows that left a class."
            raise Refusal("changed_rows", detail) from None

    def _judge(
        self, step: Step, view: View, new: View, p: int, version: str, *, planned: bool
    ) -> None:
        for one in step.leaves.values():
            if one.noise is None:
                self._policy.check_features(one, p, new.n_rows)
        declared = [*step.declared.values(), *step.takes.values()]
        label = view.table.label
        if _by_class(step) and label is not None:
            self._policy.check_classes(n for n, _ in new.class_sizes(label))
        if any(one.counts == "cells" for one in declared):
            cells = sum(observed_sums(block.X)[0] for block in new.blocks())
            self._policy.check_cells(np.ravel(cells).tolist())
        passed = self._passed.setdefault(view.table, set())
        key = f"{version} {step.name} {view.up_to_scale().digest()}"
        if key in passed:
            return
        if not planned:
            self._products.check(step, new)
        limit = self._policy.max_leverage
        if limit < 1.0 and new.n_rows:
            # A prediction, or a rotation, is a product of what it is made of.
            pairs = tells_pairs(step, len(view.columns))
            judged = [*new.mixed, *([new] if pairs else [])]
            if any(one_row_carries(one, limit) for one in judged):
                raise Refusal("max_leverage")
        passed.add(key)


def _by_class(step: Step) -> bool:
    declared = [*step.declared.values(), *step.takes.values()]
    return "y" in step.reads and any("c" in d.axes.split() for d in declared)
