"""The report of a run, from the files in its folder."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from unpooled.data.toml import Section, read_text
from unpooled.report.statement import read_statement
from unpooled.study.evaluation import Evaluation
from unpooled.study.model_updates import rows_before
from unpooled.study.run_folder import RunFolder

if TYPE_CHECKING:
    from unpooled.report.facts import Facts


def report_of(path: str | Path) -> Path:
    """Write the report of a run again; the run need not be complete.

    Parameters
    ----------
    path : str or Path
        The folder of a run.

    Returns
    -------
    Path
        The file ``report.html``.
    """
    place = RunFolder.open(Path(path))
    written = write_report(place, facts_of_run(place))
    if place.state.done:
        place.note_digests()
    return written


def write_report(place: RunFolder, facts: "Facts") -> Path:
    """Write ``report.html`` into the folder of a run; return its path."""
    from unpooled.report.html import render

    return place.write("report.html", render(facts))


def facts_of_run(place: RunFolder) -> "Facts":
    """Return the facts of a report, read from the folder of a run."""
    from unpooled.report.facts import SIMULATED, Facts, subject

    state, models = place.state, place.models()
    judged = Evaluation.read(place.path)
    # The study's description of itself, from its text as it was read.
    text = read_text(place.path / "study.toml")
    head = Section.from_text("study.toml", text).section("study")
    return Facts(
        title=subject(models[-1][1]) if models else f"Study {state.study}",
        study=state.study,
        parties=tuple(state.parties),
        partition=state.partition,
        protection=state.protection,
        ledger=place.ledger,
        rounds=place.rounds,
        models=models,
        feature_names=tuple(state.columns),
        columns_of={party: tuple(own) for party, own in state.columns_of.items()},
        statement=read_statement(head),
        label=head.text("label") or "",
        evaluation=judged.summary() if judged is not None else None,
        policies={party: _limits(rules) for party, rules in state.policies.items()}
        or None,
        carried={party: tuple(names) for party, names in state.carried.items()},
        notes=[
            *[SIMULATED] * state.simulated,
            *_updates(place),
            *_interruptions(place),
        ],
    )


def _updates(place: RunFolder) -> list[str]:
    notes = []
    for name, model in place.models():
        if (before := rows_before(place.path, name)) is not None:
            notes.append(
                f"{name} was fitted before, over {before:,} rows, and this study "
                f"updated it, over {model.n_samples_:,}. The difference of the two "
                f"totals, which anyone who has both can compute, is a total over the "
                f"rows that were added, removed or changed in between: over rows of "
                f"one silo alone if only that silo changed, joined or left. The "
                f"silos’ rules allow_roster_change and min_changed_rows limit this."
            )
    return notes


def _interruptions(place: RunFolder) -> list[str]:
    return [
        f"The run was interrupted before round {first} and continued. The step that "
        f"was under way began again, or its search continued from the last "
        f"checkpoint. The ledger has every total that was opened before."
        for first in place.state.resumed
    ]


def _limits(rules: dict[str, Any]) -> dict[str, Any]:
    """Return rules with infinite limits as numbers; state.json has them as texts."""
    return {k: float(v) if v in ("inf", "-inf") else v for k, v in rules.items()}
