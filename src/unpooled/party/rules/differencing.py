"""Rules against differencing: subtracting two totals to disclose one silo or one row.

Totals over overlapping rosters combine to one silo's own value even when no silo sees
both (A+B+C, C+D+E and A+B+D+E give C twice). So each silo answers about a column for
one set of parties only, whatever the study, the step or the public arguments, for ever
or for a period that it chooses (`unpooled.party.rules.answered_columns`). A table's
totals before and after a few rows changed are refused too
(`unpooled.party.rules.table_versions`), and so are two imputations of a few cells
(`unpooled.party.rules.imputed_cells`). Folds and splits need no rule here: they are
unions of blocks (`unpooled.party.views.cut`), and so are their differences.
"""

from typing import final

from unpooled.party.memory.audit_log import AuditLog
from unpooled.party.memory.hash_chain import now
from unpooled.party.rules.imputed_cells import ImputedCells
from unpooled.party.rules.policy import Policy
from unpooled.party.rules.table_versions import TableVersions
from unpooled.party.steps.asked_step import AskedStep
from unpooled.party.views.view import IdColumn, View
from unpooled.protocol.refusal import Refusal


@final
class DifferencingRules:
    """The rules about a silo's earlier answers, over all its studies.

    Parameters
    ----------
    audit_log : AuditLog
        Has the rosters, the versions of the table and how its cells were filled.
    key : bytes
        Of the digests of rows, at most 64.
    """

    def __init__(self, audit_log: AuditLog, key: bytes) -> None:
        self._audit_log = audit_log
        self._versions = TableVersions(key, audit_log)
        self._fillings = ImputedCells(key, audit_log)

    def check(self, policy: Policy, asked: AskedStep, parties: tuple[str, ...]) -> None:
        """Refuse a step that, with earlier answers, gives a few rows or one party."""
        view = asked.view
        self.check_parties(policy, view, parties)
        self.check_rows(policy, view)
        if isinstance(view, View):
            self._fillings.check(policy, view, asked.request.study)

    def check_parties(
        self, policy: Policy, view: View | IdColumn, parties: tuple[str, ...]
    ) -> None:
        """Refuse columns that were answered for another set of parties."""
        days = policy.roster_period_days
        answered = self._audit_log.answered_columns()
        before = answered.rosters(view.source_columns, now(), days)
        if before - {parties} and not policy.allow_roster_change:
            raise Refusal("allow_roster_change")

    def check_rows(self, policy: Policy, view: View | IdColumn) -> None:
        """Refuse rows that differ in a few from those of an earlier answer."""
        if isinstance(view, View):
            self._versions.check(policy, view.table, view.source_columns)

    def record(self, policy: Policy, asked: AskedStep) -> None:
        """Remember what an answered step read; the log has the rest of its round."""
        view = asked.view
        if isinstance(view, View):
            self._versions.record(view.table, view.source_columns)
            self._fillings.record(policy, view, asked.request.study)
