"""Rules against differencing: subtracting two totals to disclose one silo or one row.

Totals over overlapping rosters combine to one silo's own value even when no silo sees
both (A+B+C, C+D+E and A+B+D+E give C twice). So each silo answers about its table for
one set of parties only, whatever the study, the columns, the step or the public
arguments, for ever or for a period that it chooses
(`unpooled.party.rules.answered_rosters`). A table's totals before and after a few rows
changed are refused too (`unpooled.party.rules.table_versions`), and so are those with
and without a few incomplete rows (`unpooled.party.rules.complete_rows`), two
imputations of a few cells (`unpooled.party.rules.imputed_cells`) or of rows that few
others are like (`unpooled.party.rules.imputed_rows`), two settings of a step that is
not additive (`unpooled.party.rules.one_setting`), and products with two columns that
differ in one row (`unpooled.party.rules.leverage_together`). Folds and splits need no
rule here: they are unions of blocks (`unpooled.party.views.cut`), and so are their
differences.

What the rules compare with is the audit log's, one account of all studies and processes
of a silo: it is written with the round, in one transaction, before the reply leaves.
"""

from collections.abc import Sequence
from typing import final

from unpooled.party.memory.audit_log import AuditLog, Note
from unpooled.party.memory.hash_chain import now
from unpooled.party.rules.changed_rows import ChangedRows
from unpooled.party.rules.combined_rows import CombinedRows, RowsAlone
from unpooled.party.rules.complete_rows import CompleteRows
from unpooled.party.rules.imputed_cells import ImputedCells
from unpooled.party.rules.imputed_rows import ImputedRows
from unpooled.party.rules.leverage_together import LeverageTogether
from unpooled.party.rules.one_setting import OneSetting
from unpooled.party.rules.policy import Policy
from unpooled.party.rules.table_versions import TableVersions
from unpooled.party.steps.asked_step import AskedStep
from unpooled.party.views.view import IdColumn, View
from unpooled.protocol.privacy_cost import is_private
from unpooled.protocol.refusal import Refusal
from unpooled.protocol.step import Step, find_step


@final
class DifferencingRules:
    """The rules about a silo's earlier answers, over all its studies.

    Parameters
    ----------
    audit_log : AuditLog
        Has the rosters, the versions of the table, how its cells were filled, and the
        settings of steps.
    key : bytes
        Key of the digests of rows, at most 64.
    policy : Policy
        The silo's rules.
    """

    def __init__(self, audit_log: AuditLog, key: bytes, policy: Policy) -> None:
        self._audit_log, self._policy = audit_log, policy
        self._versions = TableVersions(key, audit_log, policy)
        self._fillings = ImputedCells(key, audit_log, policy)
        self._imputed = ImputedRows(audit_log, self._versions, policy)
        self._settings = OneSetting(audit_log, policy)
        self._complete = CompleteRows(audit_log, policy)
        self._changed = ChangedRows(self._versions, policy)
        self._combined = CombinedRows(audit_log)
        self._together = LeverageTogether(audit_log, policy)

    def check(self, asked: AskedStep, parties: tuple[str, ...]) -> None:
        """Refuse a step that, with earlier answers, gives a few rows or one party.

        Where few cells are missing, the step's view is given their earlier fillings.
        """
        view = asked.view
        self.check_parties(view, parties)
        if isinstance(view, View):
            versions, whole = self._names(view)
            self._check_cells(asked.step, view)
            # Noise hides a few rows more or less, and a refusal would tell of them.
            if not is_private(asked.step):
                self._check_rows(view, whole)
            came = self._came(view, whole)
            self._settings.check(asked, versions)
            self._fillings.check(view, versions)
            self._imputed.check(asked.step, view)
            self._changed.check(asked.step, view, came)
            some = [one.rows for one in came.values()]
            self._together.check(asked.step, view, whole, some)
        else:
            self._versions.check(view.table, only_ids=True)

    def check_parties(self, view: View | IdColumn, parties: tuple[str, ...]) -> None:
        """Refuse a table that was answered about for another set of parties."""
        if self._policy.allow_roster_change:
            return
        days = self._policy.roster_period_days
        for table in self._audit_log.state().rosters.others(parties, now(), days):
            if self._versions.overlaps(view.table, table):
                raise Refusal("allow_roster_change")

    def foresee(self, step: Step, view: View, planned: Sequence[Sequence[str]]) -> None:
        """Refuse a planned step for its rows and columns, whatever numbers are fitted.

        Parameters
        ----------
        planned : sequence of sequence of str
            The rows of answers that a plan has before this one; see
            `CompleteRows.foresee`.
        """
        self._check_cells(step, view)
        _, whole = self._names(view)
        if not is_private(step):
            self._check_rows(view, whole, planned)
        came = self._came(view, whole)
        self._imputed.foresee(step, view)
        self._changed.check(step, view, came, planned=True)
        some = [one.rows for one in came.values()]
        self._together.check(step, view, whole, some)

    def rows_that_came(self, step: Step, view: View) -> list[View]:
        """Return views of the rows that two answers to a step subtract to."""
        _, whole = self._names(view)
        return self._changed.of_step(step, view, self._came(view, whole))

    def _came(self, view: View, whole: list[str]) -> dict[str, RowsAlone]:
        """Return the rows that two answers subtract to, or three or four combine to."""
        return self._changed.tables(view) | self._combined.tables(view, whole)

    def _check_cells(self, step: Step, view: View) -> None:
        """Refuse to show a number of columns that cells of the silo's own changed.

        The mean of a column that its median fills, next to that of the cells that are
        there, is an equation for the median. How many columns are made of each is not.
        """
        if step.verb != "disclosed" or self._policy.allow_order_statistics:
            return
        if all(one.counts == "columns" for one in step.leaves.values()):
            return
        if any(find_step(name).by_cells for name in view.transforms):
            raise Refusal("own_cells")

    def _names(self, view: View) -> tuple[list[str], list[str]]:
        """Return the names of a view's table, and of the silo's whole table."""
        versions = self._versions.names(view.table)
        if view.whole is view.table:
            return versions, versions
        return versions, self._versions.names(view.whole)

    def _check_rows(
        self, view: View, whole: list[str], planned: Sequence[Sequence[str]] = ()
    ) -> None:
        """Refuse rows that differ in a few from those of an earlier answer."""
        self._versions.check(view.table)
        self._complete.check(view, whole)
        self._complete.foresee(view, planned)

    def table_name(self, view: View | IdColumn) -> str:
        """Return the name of the version of the table that a view is of."""
        return self._versions.name(view.table)

    def notes(self, asked: AskedStep) -> list[Note]:
        """Return the notes about a step for the log, beside its round."""
        view = asked.view
        only_ids = not isinstance(view, View)
        notes = self._versions.notes(view.table, only_ids=only_ids)
        if isinstance(view, View):
            versions, whole = self._names(view)
            notes += self._fillings.notes(view, versions)
            notes += self._imputed.notes(asked.step, view)
            notes += self._settings.notes(asked, versions)
            notes += self._complete.notes(view, whole)
            notes += self._together.notes(asked.step, view, whole)
        return notes
