"""One setting of a step that is not additive over rows, or a silo's part comes out.

    M(r) = Σ_s A_s (B_s + r I)^-1        one total for each ridge r

As a function of r it has poles at the eigenvalues of each silo's own B_s, and totals
at a few r are enough to find them (a rational fit). The same holds for any total of
functions of a silo's rows together, with a number that the asker is free to choose. So
a silo answers such a step about its columns for one setting of these numbers in each
version of its table, over all studies, unless it allows its own values to be seen.

Other columns of the same setting are another question; but the same columns and rows
under another transform are the same one: a scaler in front is a ridge.

An additive step may name settings too, such as the edges of bins: sums over the rows
between two edges of two settings would be those of a few people. There a transform in
front is no setting. Where a step's or a transform's settings are by column, each column
has one, together with the transforms before it, whichever steps take it: the edges of a
histogram are those of a discretiser.

A column that groups rows, such as clusters of a regression, is a setting as well,
whatever the other columns are. Products of sums by group, of two groupings that differ
in one person, subtract to u vᵀ + v uᵀ, of which u is that person's row.
"""

from typing import Any, final

import numpy as np

from unpooled.ledger import canonical
from unpooled.party.memory.audit_log import AuditLog, Note
from unpooled.party.memory.audit_state import Setting
from unpooled.party.rules.policy import Policy
from unpooled.party.steps.asked_step import AskedStep
from unpooled.party.views.view import View, is_by_column
from unpooled.protocol.message import digest
from unpooled.protocol.refusal import Refusal
from unpooled.protocol.step import Step, home_of

_OWN_TABLES = "tables of the silo's own"


@final
class OneSetting:
    """The settings that a silo answered for.

    Parameters
    ----------
    audit_log : AuditLog
        Keeps the settings.
    policy : Policy
        The silo's rules.
    """

    def __init__(self, audit_log: AuditLog, policy: Policy) -> None:
        self._audit_log, self._policy = audit_log, policy

    def check(self, asked: AskedStep, versions: list[str]) -> None:
        """Refuse another setting than the one that was answered."""
        for now in self._of(asked, versions):
            own = now.step == _OWN_TABLES
            if self._policy.allow_disclosed and not own:
                continue
            if any(map(now.conflicts, self._answered(versions, now.step))):
                raise Refusal("one_description" if own else "one_setting")

    def notes(self, asked: AskedStep, versions: list[str]) -> list[Note]:
        """Return what the log must say before an answer leaves."""
        return [
            ("setting", now.as_record())
            for now in self._of(asked, versions)
            if now not in self._answered(versions, now.step)
        ]

    def _answered(self, versions: list[str], step: str) -> list[Setting]:
        settings = self._audit_log.state().settings
        return [one for name in versions for one in settings.get((name, step), ())]

    def _of(self, asked: AskedStep, versions: list[str]) -> list[Setting]:
        step, view, public = asked.step, asked.view, asked.request.public
        if not isinstance(view, View):
            return []
        found = [
            Setting(versions[0], _name(one), columns, None, "", digest(canonical(own)))
            for one, columns, own in view.settings_by_column(step, public)
        ]
        whole = None if is_by_column(step) else self._of_step(asked, view, versions)
        if step.groups and public.get(step.groups):
            found.append(_of_groups(view, versions[0]))
        if step.describes:
            label = view.table.label
            found.append(_of_own_table(versions[0], step.describes, label))
        return [*found, *([] if whole is None else [whole])]

    def _of_step(
        self, asked: AskedStep, view: View, versions: list[str]
    ) -> Setting | None:
        step, public = asked.step, asked.request.public
        values = {name: _value(public, name) for name in step.settings}
        # A name, or yes and no, give a few totals and no curve.
        values = {n: v for n, v in values.items() if not isinstance(v, bool | str)}
        if not values:
            return None
        additive = step.by == "rows" and "X" in step.reads
        return Setting(
            table=versions[0],
            step=_name(step),
            columns=tuple(sorted(view.source_columns)),
            rows=view.selection,
            features="" if additive else view.features,
            values=digest(canonical(values)),
        )


def _of_groups(view: View, table: str) -> Setting:
    every, groups = tuple(sorted(view.table.columns)), view.made_of(view.columns[-1])
    return Setting(table, "groups of rows", every, None, "", digest(canonical(groups)))


def _of_own_table(table: str, describes: str, label: str | None) -> Setting:
    label = label if describes == "classes" else None
    values = digest(canonical([describes, label]))
    # Sizes of classes are about rows, whichever columns a study has.
    return Setting(table, _OWN_TABLES, ("rows",), None, "", values)


def _name(step: Step) -> str:
    if is_by_column(step):
        return f"by column: {', '.join(step.settings)}"
    # Models ask for a step under many names; this is that of its own module.
    function = step.function
    return f"{home_of(function.__module__)}.{function.__name__}"


def _value(public: Any, name: str) -> Any:
    for part in name.split("."):
        public = public[part]
    return public.tolist() if isinstance(public, np.ndarray) else public
