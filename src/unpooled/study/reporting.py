"""The report of a run, made from its folder alone."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from unpooled.study.model_updates import rows_before
from unpooled.study.run_folder import RunFolder

if TYPE_CHECKING:
    from unpooled.report.facts import Facts


def report_of(path: str | Path) -> Path:
    """Write the report of a run's folder again; the run need not be done.

    Parameters
    ----------
    path : str or Path
        The folder of a run.

    Returns
    -------
    Path
        The report.
    """
    return write_report(RunFolder.open(Path(path)))


def write_report(place: RunFolder) -> Path:
    """Write ``report.html`` into the folder of a run."""
    from unpooled.report.html import render

    return place.write("report.html", render(facts_of_run(place)))


def facts_of_run(place: RunFolder) -> "Facts":
    """Gather what a report says from the folder of a run."""
    from unpooled.report.facts import SIMULATED, Facts, subject

    state, models = place.state, place.models()
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
        policies={party: _limits(rules) for party, rules in state.policies.items()}
        or None,
        notes=[
            *[SIMULATED] * state.simulated,
            *_updates(place),
            *_interruptions(place),
        ],
    )


def _updates(place: RunFolder) -> list[str]:
    found = []
    for name, model in place.models():
        if (before := rows_before(place.path, name)) is not None:
            found.append(
                f"{name} was fitted before, over {before:,} rows, and this study "
                f"brought it up to date, over {model.n_samples_:,}. Whoever has the "
                f"totals of both can subtract them, which leaves totals over the rows "
                f"that came, went or changed in between, and over one silo’s alone "
                f"where only that one changed, joined or left. The silos’ rules "
                f"allow_roster_change and min_changed_rows say what they let happen."
            )
    return found


def _interruptions(place: RunFolder) -> list[str]:
    return [
        f"The run ended before round {first} and was continued. The step that was "
        f"under way was asked again from its start, or its search from the last "
        f"batch. Every total that had been opened by then stands in the ledger."
        for first in place.state.resumed
    ]


def _limits(rules: dict[str, Any]) -> dict[str, Any]:
    """Return rules as a policy has them: state.json holds infinite limits as texts."""
    return {k: float(v) if v in ("inf", "-inf") else v for k, v in rules.items()}
