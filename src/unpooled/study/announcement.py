"""The plan of an announced study, for the person at a silo who decides about it.

The silo makes the plan itself: from the study's text, with the models that are
installed there, its own columns and its own rules. It need not trust the coordinator.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, final

from unpooled.data.toml import Section
from unpooled.errors import StudyError
from unpooled.federation.federation import Federation
from unpooled.federation.layout import Layout
from unpooled.federation.matching import how_to_match, with_matching
from unpooled.federation.planning.dry_run import (
    DryRun,
    PlannedNumbers,
    add_rows_read,
    planned_message,
    planned_step,
    tells_again,
)
from unpooled.federation.planning.plan import Plan
from unpooled.models.files.model_record import record_of
from unpooled.models.model_selection.cross_validation import CrossValidation
from unpooled.party.following import StudyText
from unpooled.party.party import Party
from unpooled.protocol.message import decode
from unpooled.protocol.planned_step import Foreseen
from unpooled.report.statement import read_statement
from unpooled.results.formats import listed
from unpooled.secure.keys.roster import Roster
from unpooled.study.evaluation import cross_validation_of
from unpooled.study.further_results import further_calls
from unpooled.study.pipeline import unfitted_steps
from unpooled.study.study_file import (
    StudyStep,
    n_on_all_rows,
    partition_of,
    protection_of,
    read_evaluate,
    read_steps,
    target_of,
)

# A silo does not know how many columns another silo has. The plan assumes so many that
# no model refuses them as too few.
_ASSUMED_COLUMNS = 1000


@final
@dataclass(frozen=True)
class Announced:
    """A study as its text announces it.

    Attributes
    ----------
    plan : Plan
        What would leave this silo, and what this silo would refuse.
    models : tuple of str
        Class names of its steps.
    columns : tuple of str
        The columns that it reads.
    steps : tuple of str
        Steps that an approval allows, with ``*`` as wildcard.
    statement : mapping of str to str
        Purpose, controllers, contact, legal basis and retention, as far as they are
        given.
    """

    plan: Plan
    models: tuple[str, ...]
    columns: tuple[str, ...]
    steps: tuple[str, ...]
    statement: Mapping[str, str] = field(default_factory=dict)


@final
@dataclass(frozen=True)
class Stated:
    """The content of a study's text, read without rows and without a plan.

    Attributes
    ----------
    parties : tuple of str
        The silos, sorted.
    partition : {"rows", "columns"}
        What differs between silos.
    protection : {"masked", "plain"}
        How totals travel.
    columns : tuple of str or None
        The columns that it reads; None for all that silos offer.
    label : str
        The column of the label; empty where there is none.
    steps : tuple of str
        Each step with its parameters, as ``PCA(n_components = 2)``.
    statement : mapping of str to str
        Purpose, controllers, contact, legal basis and retention, as far as given.
    """

    parties: tuple[str, ...]
    partition: str
    protection: str
    columns: tuple[str, ...] | None
    label: str
    steps: tuple[str, ...]
    statement: Mapping[str, str]


def stated(name: str, text: str) -> Stated:
    """Return the content of an announced text.

    Raises
    ------
    StudyError
        When the text is not that of a study of this name.
    """
    top, head = _head(name, text)
    columns = head.names("columns")
    return Stated(
        parties=tuple(sorted(top.section("parties"))),
        partition=partition_of(head),
        protection=protection_of(head),
        columns=columns and tuple(columns),
        label=head.text("label") or "",
        steps=tuple(_written(step) for step in read_steps(top)),
        statement=read_statement(head),
    )


def _written(step: StudyStep) -> str:
    return f"{step.model}({_assigned(step.parameters)})"


def _assigned(parameters: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} = {_shown(value)}" for key, value in parameters.items())


def _shown(value: Any) -> str:
    """Return a parameter for people who read no Python: a step within as a step."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_shown, value))}]"
    if isinstance(value, Mapping) and "model" in value:
        rest = {k: v for k, v in value.items() if k not in ("model", "columns")}
        of = value.get("columns", "")
        names = listed(of) if isinstance(of, list | tuple) else _shown(of)
        return f"{value['model']}({_assigned(rest)})" + f" of {names}" * bool(names)
    if isinstance(value, Mapping):
        return f"{{{_assigned(value)}}}"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _head(name: str, text: str) -> tuple[Section, Section]:
    """Return an announced text and its table [study], which must be of this name."""
    top = Section.from_text(f"the study {name}", text)
    head = top.section("study")
    if head.name("name") != name:
        raise StudyError(
            f"The text announced for the study {name} is that of the study "
            f"{head.name('name')}. Deny it: unpooled silo deny {name}"
        )
    return top, head


def read_announced(
    party: Party, name: str, text: str, roster: Roster | None = None
) -> Announced:
    """Return an announced study with its plan, made at a party.

    Parameters
    ----------
    party : Party
        The silo's party.
    name, text : str
        The study's name and text, as they were announced.
    roster : Roster, optional
        The roster that the silo pins. With it the plan names the committee that would
        compute comparisons.

    Raises
    ------
    StudyError
        When the text is not that of a study of this name, or the study reads columns
        that the silo does not have.
    """
    top, head = _head(name, text)
    steps = read_steps(top)
    dry = _dry_rounds(tuple(top.section("parties")), head, roster)
    label = head.text("label")
    partition = partition_of(head)
    exclude = set(head.names("exclude") or ())
    offered = tuple(name for name in party.table.columns if name not in exclude)
    columns = head.names("columns") or offered
    if unknown := sorted(set(columns) - set(party.table.columns)):
        # Before planning: a plan over a million invented columns would need too much
        # memory.
        raise StudyError(
            f"The study {name} reads columns that this silo does not have: "
            f"{', '.join(unknown[:10])}. Deny it: unpooled silo deny {name}"
        )
    coded = set(party.table.categorical).intersection(columns)
    layout = Layout.of_rows(dry.parties, columns, coded)
    if partition == "columns":
        matching = how_to_match(
            partition, head.text("ids"), head.flag("aligned", False)
        )
        layout = replace(_layout_known_to(party, dry.parties), matching=matching)
    federation = Federation(dry, layout=layout, named=True, label=label)
    # A silo does not have the files of models to update, and a plan needs none.
    fitted = unfitted_steps(steps, label, read_models=False).fit(federation)
    judges = _judges(top, steps, partition)
    if judges is not None:
        judges.fit(fitted.views_[n_on_all_rows(steps)], target_of(steps, label))
    lines = with_matching(federation, dry.lines)
    refusals = _refusals(party, dry, layout)
    plan = Plan(
        releases=tuple(line for line in lines if party.name in line.parties),
        refusals=tuple(refusal for refusal, _ in refusals),
        refused_columns=tuple(columns for _, columns in refusals),
        parties=dry.parties,
        protection=dry.protection,
        notes=tuple(dry.notes),
        n_columns=len(columns),
    )
    # All steps of each model: a solver may choose among them by what it computes.
    families = {line.step.rpartition(".")[0] + ".*" for line in plan.releases}
    return Announced(
        plan=plan,
        models=tuple(step.model for step in steps),
        columns=tuple(columns),
        steps=tuple(sorted(families)),
        statement=read_statement(head),
    )


def calls_of(text: str) -> StudyText:
    """Return the calls that a study makes, from its announced text alone.

    Silos that follow answer these calls, in this order, and no others.

    Raises
    ------
    StudyError
        When the text is not that of a study.
    """
    top = Section.from_text("the announced study", text)
    head = top.section("study")
    label, partition = head.text("label"), partition_of(head)
    steps = read_steps(top)
    calls, further, reads, source = [], [], list[int](), -1
    for place, step in enumerate(steps):
        reads.append(source)
        source = place if step.kind().gives_rows(partition) else source
        target = target_of([step], label)
        updates = step.update is not None
        arguments = {} if updates or target is None else {"y": target}
        parameters = None
        if not updates:
            model = step.kind()(**step.parameters)
            parameters = record_of(model, {})["parameters"]
        call = {"method": "update" if updates else "fit", "class": step.model}
        calls.append(call | {"parameters": parameters, "arguments": arguments})
        for method, arguments in further_calls(step):
            call = {"method": method, "class": step.model, "parameters": parameters}
            further.append((place, call | {"arguments": arguments}))
    columns = head.names("columns") if partition == "rows" else None
    judges = _judges(top, steps, partition)
    if judges is not None:
        judged, target = record_of(judges, {}), target_of(steps, label)
        call = {"method": "fit", "class": judged["class"]}
        arguments = {} if target is None else {"y": target}
        calls.append(
            call | {"parameters": judged["parameters"], "arguments": arguments}
        )
        # The view of the first step that is fitted within the folds.
        reads.append(reads[n_on_all_rows(steps)])
    return StudyText(
        calls=tuple(calls),
        reads=tuple(reads),
        further=tuple(further),
        parties=tuple(sorted(top.section("parties"))),
        protection=protection_of(head),
        columns=columns and tuple(columns),
        label=label,
        random_state=head.whole("random_state"),
        exclude=head.names("exclude") or (),
    )


def _judges(
    top: Section, steps: tuple[StudyStep, ...], partition: str
) -> CrossValidation | None:
    """Return the cross-validation that an announced study asks for, if it does."""
    cv, scoring, n_blocks = read_evaluate(top, steps)
    return cross_validation_of(steps, cv, scoring, n_blocks, partition=partition)


def _dry_rounds(
    parties: tuple[str, ...], head: Section, roster: Roster | None
) -> DryRun:
    # Silos of a consortium follow.
    dry = DryRun(parties, head.name("name"), protection_of(head), follows=True)
    if roster is not None and set(parties) <= set(roster):
        dry.roster = roster.part(parties)
    return dry


def _layout_known_to(party: Party, parties: tuple[str, ...]) -> Layout:
    """Return a column partition with one silo's columns, and assumed ones of others."""
    own, rows = party.table.columns, party.table.n_rows
    # Nor so many that a model refuses the rows as too few.
    assumed = max(len(own), min(_ASSUMED_COLUMNS, rows - len(own) - 2))
    columns = {
        name: own
        if name == party.name
        else tuple(f"{name}: {j}" for j in range(assumed))
        for name in parties
    }
    coded = frozenset(party.table.categorical)
    return Layout("columns", columns, rows, categorical=coded, known_to=party.name)


def _refusals(
    party: Party, dry: DryRun, layout: Layout
) -> list[tuple[tuple[str, str, str], tuple[str, ...]]]:
    """Return the party's refusals, each once, with the columns that it names."""
    refusals = dict[tuple[tuple[str, str, str], tuple[str, ...]], None]()
    earlier = list[tuple[str, ...]]()
    counted = PlannedNumbers(dry, party.table.columns)
    for request, needs in dry.requests:
        if tells_again(request, [rule for (_, _, rule), _ in refusals]):
            continue
        asked = planned_message(
            request,
            dry.parties,
            layout.partition,
            planned_step(
                needs,
                matched=layout.matching != "ids",
                earlier=earlier,
                opens=counted.opens(request),
            ),
        )
        said = Foreseen.from_header(decode(party.handle(asked)).header)
        counted.add(request, further=said.further)
        add_rows_read(earlier, said)
        if said.rule:
            refusals[(party.name, request.step, said.rule), said.columns] = None
    return list(refusals)
