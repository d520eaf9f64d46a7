"""What the command shows of a plan, and of a run that is done."""

from rich.console import Console
from rich.text import Text

from unpooled.cli.tables import (
    left_table,
    loadings_table,
    part,
    plan_table,
    table,
    variance_table,
)
from unpooled.cli.words import count, printable, size
from unpooled.errors import RULES
from unpooled.federation.planning.plan import Plan
from unpooled.study import Run, Study

_HOW = {
    "masked": "Masked sums: every number is seen only as a total over all silos.",
    "plain": "Plain sums: every silo's numbers are seen. For tests, no protection.",
}


def show_plan(console: Console, study: Study, plan: Plan) -> bool:
    """Show what would leave; return whether every silo would answer."""
    part(
        console,
        f"Plan of study {study.name}",
        f"Nothing has left any silo. {_HOW[plan.protection]}",
        plan_table(plan),
        Text(
            "out: leaves each silo. in: is sent to each silo, and is public to all of "
            "them. stays: never leaves.",
            "dim",
        ),
        f"{count(plan.rounds, 'round')}. Each of {count(len(plan.parties), 'silo')} "
        f"sends {size(plan.bytes)} and receives {size(plan.bytes_in)}.",
        *map(Text, plan.notes),
    )
    if not plan.refusals:
        return True
    made = table("silo", "step", "rule", "what to do")
    for party, step, rule in plan.refusals:
        sentence, remedy = RULES.get(rule, (rule, ""))
        says = Text.assemble((rule, "red"), f": {sentence}")
        made.add_row(printable(party), printable(step), says, remedy)
    part(console, "Would be refused", "By the silos' own rules.", made)
    return False


def show_run(console: Console, study: Study, run: Run) -> None:
    """Show what a finished run gave, and where it is."""
    for name, model in run.models.items():
        if "explained_variance_ratio_" in vars(model):
            tables = [variance_table(model)]
            names = getattr(model, "feature_names_in_", None)
            if names is not None:
                tables.append(loadings_table(model, list(names)))
            part(console, name, "", *tables)
    left = left_table(run.ledger)
    part(console, "What left each silo", _HOW[study.secure_sum], left)
    part(console, f"Study {study.name} is done", "In the run's folder:")
    files = {
        "models": "models/ and pipeline.unpooled, for unpooled.load",
        "ledger": "ledger.jsonl",
        "log": "log.txt",
    }
    if run.report is not None:
        files["report"] = run.report.name
    for what, where in files.items():
        console.print(Text.assemble((f"  {what:<8}", "dim"), where))
    # A path is for copying: never broken at the edge of the window.
    console.print(Text(printable(str(run.folder))), soft_wrap=True)
