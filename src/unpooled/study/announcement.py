"""What an announced study would ask of a silo, for the person there who approves it.

Nothing is taken on trust: the plan is made in the silo, from the text, by the models
that are installed there, and with the silo's own columns and rules.
"""

from dataclasses import dataclass, replace
from typing import final

from unpooled.data.toml import Section
from unpooled.errors import StudyError
from unpooled.federation.federation import Federation
from unpooled.federation.layout import Layout
from unpooled.federation.matching import how_to_match, with_matching
from unpooled.federation.planning.dry_run import DryRun
from unpooled.federation.planning.plan import Plan
from unpooled.party.party import Party
from unpooled.protocol.message import decode, encode
from unpooled.protocol.request import Request, view_arrays
from unpooled.secure.keys.roster import Roster
from unpooled.study.definition import pipeline_of
from unpooled.study.model_updates import part_of
from unpooled.study.study_sections import read_steps, target_of

# Columns of another silo, whose number this one is not told: so many that no model
# finds too few.
_UNKNOWN = 1000


@final
@dataclass(frozen=True)
class Announced:
    """A study as its text says it is.

    Attributes
    ----------
    plan : Plan
        What would leave this silo; refusals are this silo's own.
    models : tuple of str
        Class names of its steps.
    columns : tuple of str
        What it reads.
    steps : tuple of str
        Steps that may run once it is approved, with ``*`` as wildcard.
    """

    plan: Plan
    models: tuple[str, ...]
    columns: tuple[str, ...]
    steps: tuple[str, ...]


def read_announced(
    party: Party, name: str, text: str, roster: Roster | None = None
) -> Announced:
    """Plan an announced study at a party.

    With the roster that the silo pins, the plan says who would compute for all.

    Raises
    ------
    StudyError
        When the text is not that of a study of this name.
    """
    top = Section.from_text(f"the study {name}", text)
    head = top.section("study")
    if head.name("name") != name:
        raise StudyError(
            f"The text that was announced as {name} is of the study "
            f"{head.name('name')}. Deny it: unpooled silo deny {name}"
        )
    steps = read_steps(top)
    dry = _rounds(tuple(top.section("parties")), head, roster)
    label = head.text("label")
    partition = head.text("partition", choices=("rows", "columns")) or "rows"
    columns = head.names("columns") or party.table.columns
    if unknown := sorted(set(columns) - set(party.table.columns)):
        # Before anything is planned: a made-up million of columns takes all memory.
        raise StudyError(
            f"The study {name} reads columns that this silo does not have: "
            f"{', '.join(unknown[:10])}. Deny it: unpooled silo deny {name}"
        )
    layout = Layout.of_rows(dry.parties, columns)
    if partition == "columns":
        how = how_to_match(partition, head.text("ids"), head.flag("aligned", False))
        layout = replace(_seen_from(party, dry.parties), matching=how)
    federation = Federation(dry, layout=layout, named=True, label=label)
    # What the updated model's file holds, a silo need not know for a plan.
    pipeline = pipeline_of((step.name, part_of(step, known=False)) for step in steps)
    target = target_of(steps, label)
    pipeline.fit(federation, *([] if target is None else [target]))
    lines = with_matching(federation, dry.lines)
    own = tuple(line for line in lines if party.name in line.parties)
    about = _refusals(party, dry, partition), dry.parties, dry.protection
    plan = Plan(own, *about, tuple(dry.notes))
    # A solver may choose among a model's steps by what it finds: all of that model's.
    families = {line.step.rpartition(".")[0] + ".*" for line in plan.releases}
    return Announced(
        plan,
        tuple(step.model for step in steps),
        tuple(columns),
        tuple(sorted(families)),
    )


def _rounds(parties: tuple[str, ...], head: Section, roster: Roster | None) -> DryRun:
    protection = head.text("secure_sum", choices=("masked", "plain")) or "masked"
    dry = DryRun(parties, head.name("name"), protection)
    if roster is not None and set(parties) <= set(roster):
        dry.roster = roster.part(parties)
    return dry


def _seen_from(party: Party, parties: tuple[str, ...]) -> Layout:
    """Return a column partition as one silo knows it: its own columns and rows."""
    own, rows = party.table.columns, party.table.n_rows
    # Nor may they be so many that a model finds too few rows.
    unknown = max(len(own), min(_UNKNOWN, rows - len(own) - 2))
    columns = {
        name: own
        if name == party.name
        else tuple(f"{name}: {j}" for j in range(unknown))
        for name in parties
    }
    return Layout("columns", columns, rows)


def _refusals(
    party: Party, dry: DryRun, partition: str
) -> tuple[tuple[str, str, str], ...]:
    rules = [
        (asked, _rule(party, asked, dry.parties, partition)) for asked in dry.requests
    ]
    found = [(party.name, asked.step, rule) for asked, rule in rules if rule]
    return tuple(dict.fromkeys(found))


def _rule(
    party: Party, request: Request, parties: tuple[str, ...], partition: str
) -> str:
    """Return the rule by which a party would refuse a request; empty if none."""
    everything = frozenset(view_arrays(request.operations))
    header, arrays = replace(request, fresh=everything).as_message()
    header |= {"kind": "plan", "parties": list(parties), "partition": partition}
    return str(decode(party.handle(encode(header, arrays))).header.get("rule", ""))
