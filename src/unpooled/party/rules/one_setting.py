"""One setting of a step that is not additive over rows, or a silo's part comes out.

    M(r) = Σ_s A_s (B_s + r I)^-1        one total for each ridge r

As a function of r it has poles at the eigenvalues of each silo's own B_s, and totals
at a few r are enough to find them (a rational fit). The same holds for any total of
functions of a silo's rows together, with a number that the asker is free to choose. So
a silo answers such a step about its columns for one setting of these numbers in each
version of its table, over all studies, unless it allows its own values to be seen.

The same rows with other columns, of which some are the same, or under another transform
are a further setting: a scaler in front is a ridge, and totals for all subsets of four
columns are more equations than three silos' matrices have numbers.

An additive step may name settings too, such as the edges of bins: sums over the rows
between two edges of two settings would be those of a few people. There a transform in
front is no setting. Where a step's or a transform's settings are by column, each column
has one, together with the transforms before it, whichever steps take it: the edges of a
histogram are those of a discretiser. Maps of two kinds bend at different values, and
combine to the rows between them too: a column is cut into bins or mapped by its
quantiles, and not both.

Features that are drawn are functions of columns, with the seed for setting: with those
of many seeds, sums over the rows with one value of a column can be solved for.

A search for quantiles counts values below candidates that are the same for all searches
of a column, and tells how many lie between some of them. In another unit there are
other candidates, and few values lie between those of the one and of the other. So
quantiles of a column, over the same rows, are searched in two units at the most; filled
cells change none. A logarithm is another unit of its column, and so is a product, ratio
or difference of two columns that has the row order of one of them (`derived_order`).

A column that groups rows, such as clusters of a regression, is a setting as well,
whatever the other columns are. Products of sums by group, of two groupings that differ
in one person, subtract to u vᵀ + v uᵀ, of which u is that person's row.

Of columns in different silos, sums with an entry for each person determine all rows up
to a rotation, and correlations between the silos' columns are that rotation. So a silo
answers the one or the other about a column, whatever else it allows.
"""

from functools import partial
from typing import Any, final

import numpy as np

from unpooled.ledger import canonical
from unpooled.party.memory.audit_log import AuditLog, Note
from unpooled.party.memory.audit_state import Setting
from unpooled.party.rules.derived_order import DerivedOrder
from unpooled.party.rules.policy import Policy
from unpooled.party.steps.asked_step import AskedStep
from unpooled.party.views.view import View, is_by_column
from unpooled.protocol.message import digest
from unpooled.protocol.refusal import Refusal
from unpooled.protocol.step import Step, home_of

_OWN_TABLES = "tables of the silo's own"
_BENDS = "where maps of a column bend"
_PEOPLE = "of people or of columns"
_UNITS = "in which unit quantiles are searched"
# That of the table, and that of a scaler that stands before an imputer by medians.
_MOST_UNITS = 2
# What a silo does not answer twice in different ways, by the rule that says so, even
# where it allows its own values to be seen.
_ALWAYS = {_OWN_TABLES: "one_description", _PEOPLE: "people_and_columns"}


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
        self._order = DerivedOrder()

    def check(self, asked: AskedStep, versions: list[str]) -> None:
        """Refuse another setting than the one that was answered."""
        for now in self._of(asked, versions):
            if self._policy.allow_disclosed and now.step not in _ALWAYS:
                continue
            if self._conflicts(now, versions):
                if now.step == _UNITS and self._order.was_found(
                    asked.view.table, now.columns
                ):
                    # Unlike other verdicts this one may depend on rows.
                    raise Refusal("derived_rows", about=["order", *now.columns])
                raise Refusal(_ALWAYS.get(now.step, "one_setting"))

    def notes(self, asked: AskedStep, versions: list[str]) -> list[Note]:
        """Return notes of settings that are answered with for the first time."""
        return [
            ("setting", now.as_record())
            for now in self._of(asked, versions)
            if now not in self._answered(versions, now.step)
        ]

    def _conflicts(self, now: Setting, versions: list[str]) -> bool:
        known = self._answered(versions, now.step)
        if now.step != _UNITS:
            return any(map(now.conflicts, known))
        same = [one for one in known if one.columns == now.columns]
        units = {one.values for one in same if one.rows == now.rows}
        return now.values not in units and len(units) >= _MOST_UNITS

    def _answered(self, versions: list[str], step: str) -> list[Setting]:
        settings = self._audit_log.state().settings
        return [one for name in versions for one in settings.get((name, step), ())]

    def _of(self, asked: AskedStep, versions: list[str]) -> list[Setting]:
        step, view, public = asked.step, asked.view, asked.request.public
        if not isinstance(view, View):
            return []
        found = list[Setting]()
        for one, columns, own in view.settings_by_column(step, public):
            kinds = [(_name(one), own)]
            if one.verb == "derived" and is_by_column(one):
                kinds.append((_BENDS, [_name(one), own]))
            found += [
                Setting(versions[0], kind, columns, None, "", digest(canonical(values)))
                for kind, values in kinds
            ]
        if not is_by_column(step):
            found += self._of_step(asked, view, versions)
        if step.searches:
            found += [
                Setting(
                    versions[0],
                    _UNITS,
                    (name,),
                    view.selection,
                    "",
                    digest(canonical(unit)),
                )
                for name, unit in view.units(self._order.source)
            ]
        if step.groups and public.get(step.groups):
            found.append(_of_groups(view, versions[0]))
        if told := _of_people(step):
            columns = tuple(sorted(view.source_columns))
            found.append(Setting(versions[0], _PEOPLE, columns, None, "", told))
        if step.describes:
            # On a column partition the label may be another silo's.
            label = public.get("label", view.table.label)
            limit = public.get("fewest")
            found.append(_of_own_table(versions[0], step.describes, label, limit))
        return found

    def _of_step(
        self, asked: AskedStep, view: View, versions: list[str]
    ) -> list[Setting]:
        step, public = asked.step, asked.request.public
        values = {name: _value(public, name) for name in step.settings}
        # A name, or yes and no, give a few totals and no curve.
        values = {n: v for n, v in values.items() if not isinstance(v, bool | str)}
        if not values:
            return []
        additive = step.by == "rows" and "X" in step.reads
        every = tuple(sorted(view.source_columns))
        about = [(every, "" if additive else view.features)]
        if "coded" in step.reads:
            # An encoder makes nothing of numbers, and of each column of categories the
            # same whatever stands beside it.
            made_of = [(name, view.made_of(name)) for name in view.coded]
            about = [((name,), digest(canonical(made))) for name, made in made_of]
        setting = partial(Setting, versions[0], _name(step), rows=view.selection)
        return [
            setting(
                columns=columns, features=features, values=digest(canonical(values))
            )
            for columns, features in about
        ]


def _of_people(step: Step) -> str:
    """Name what of people a step tells of columns in different silos, if anything."""
    if step.shares_people:
        return "columns"
    # A label is no column of a view, and what is read of it alone tells of none.
    if step.reads == ("y",):
        return ""
    by_person = any(one.level == "row" for one in step.leaves.values())
    return "people" if by_person and step.by == "party" else ""


def _of_groups(view: View, table: str) -> Setting:
    every, groups = tuple(sorted(view.table.columns)), view.made_of(view.columns[-1])
    return Setting(table, "groups of rows", every, None, "", digest(canonical(groups)))


def _of_own_table(
    table: str, describes: str, label: str | None, limit: int | None = None
) -> Setting:
    label = label if describes == "classes" else None
    # Tables that withhold different counts would give some of them back.
    limited = [] if limit is None else [limit]
    values = digest(canonical([describes, label, *limited]))
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
