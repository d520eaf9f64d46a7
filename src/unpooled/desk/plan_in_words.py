"""A study that waits for a yes, as it is put to a person: words, a picture, rules.

The silo makes the plan itself, from the announced text and its own rows
(`study.announcement`); what the coordinator says of the study is quoted, and nothing
here depends on its being true.
"""

import difflib
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, final

from unpooled.desk.history import StudyHistory
from unpooled.errors import RULES
from unpooled.federation.planning.plan import Plan
from unpooled.ledger import Ledger, Release
from unpooled.party.memory.audit_state import AuditState
from unpooled.party.rules.policy import Policy
from unpooled.party.rules.released_share import pooled_rows
from unpooled.report.facts import Facts, declaration
from unpooled.report.text.policies import DESCRIPTIONS, value_text
from unpooled.report.text.what_follows import paired_columns
from unpooled.report.text.wording import meaning, per_person
from unpooled.results.exhibits import Picture
from unpooled.results.formats import byte_size, counted, listed
from unpooled.results.plots.drawing import ACCENT, INK, SECOND, WIDTH, blank, short
from unpooled.study.announcement import Announced, Stated

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Who would see an array, by its visibility, and whether that is more than a total.
_ROUTES = {
    "summed": ("the total over all {m} silos,", "which the coordinator opens", False),
    "veiled": ("the total over all {m} silos,", "which the silos alone open", False),
    "compared": ("a sign only,", "found in secret by the silos", False),
    "computed": ("a result only,", "computed in secret by the silos", False),
    "disclosed": ("the coordinator sees", "this silo’s own numbers", True),
    "exchanged": ("neighbouring silos see", "this silo’s own numbers", True),
    "in clear": ("the coordinator sees", "this silo’s own numbers", True),
}


@final
@dataclass(frozen=True)
class Route:
    """Arrays that the same ends would see.

    Attributes
    ----------
    lines : list of Release
        The arrays.
    to : (str, str)
        Two lines of text on who would see what.
    exposed : bool
        Whether anybody would see more than a total over all silos.
    """

    lines: list[Release]
    to: tuple[str, str]
    exposed: bool

    @property
    def amount(self) -> str:
        """Number of arrays, and of numbers in them, in words."""
        numbers = sum(map(_numbers, self.lines))
        return f"{counted(len(self.lines), 'array')}, {counted(numbers, 'number')}"


@final
@dataclass(frozen=True)
class Touched:
    """A rule of this silo that a study touches.

    Attributes
    ----------
    rule, words : str
        Its key, and what it says.
    study, here : str
        What the study asks for, and what the silo allows.
    refused : bool
        Whether the silo would refuse.
    """

    rule: str
    words: str
    study: str
    here: str
    refused: bool


def facts_of_plan(silo: str, study: str, announced: Announced) -> Facts:
    """Return a plan as the facts of a report of what would happen."""
    plan = announced.plan
    return Facts(
        title=study,
        study=study,
        parties=plan.parties,
        partition="rows",
        protection=plan.protection,
        ledger=Ledger(plan.releases),
        rounds=[],
        models=[],
        feature_names=announced.columns,
        statement=dict(announced.statement),
        silo=silo,
    )


def routes(plan: Plan) -> list[Route]:
    """Return the arrays that would leave, by who would see them."""
    found: dict[tuple[tuple[str, str], bool], list[Release]] = {}
    for line in (one for one in plan.releases if one.leaves):
        clear = plan.protection != "masked" and line.visibility in ("summed", "veiled")
        one, other, exposed = _ROUTES["in clear" if clear else line.visibility]
        to = (one.format(m=len(plan.parties)), other)
        found.setdefault((to, exposed), []).append(line)
    return [Route(lines, to, exposed) for (to, exposed), lines in found.items()]


def in_words(facts: Facts, plan: Plan) -> list[str]:
    """Return a few sentences on what would leave, and how it would be protected."""
    out = facts.lines("out")
    if not out:
        return ["Nothing would leave this silo."]
    numbers = sum(map(_numbers, out))
    said = [
        f"This silo would send {counted(len(out), 'array')} of numbers in "
        f"{counted(plan.rounds, 'round')}: {counted(numbers, 'number')}, "
        f"{byte_size(plan.bytes)}. The rows themselves stay."
    ]
    exposed = [route for route in routes(plan) if route.exposed]
    if exposed:
        which = [
            f"{' '.join(route.to)} in {counted(len(route.lines), 'array')}"
            for route in exposed
        ]
        said.append(f"Not everything would be protected: {listed(which)}.")
    else:
        said.append(
            f"All of it would be masked: random numbers hide it, and they cancel only "
            f"when the parts of all {len(facts.parties)} silos are added. Nobody else "
            f"would see a number of this silo alone."
        )
    if people := [line for line in out if per_person(line)]:
        said.append(
            f"{counted(len(people), 'array')} would have entries for single people: "
            f"{listed(list(dict.fromkeys(map(meaning, people))))}."
        )
    else:
        said.append("No array would have an entry for a single person.")
    return said


def rules_touched(
    policy: Policy,
    announced: Announced,
    facts: Facts,
    state: AuditState,
    *,
    n_rows: int,
    partition: str,
) -> list[Touched]:
    """Return the rules of this silo that a study touches, refused ones first.

    Parameters
    ----------
    state : AuditState
        State of the silo's log, for what was answered before.
    n_rows : int
        The silo's rows; the page stays in the silo.
    partition : {"rows", "columns"}
        Partition of the study.
    """
    plan, rules = announced.plan, policy.as_dict()
    refused = {rule for _, _, rule in plan.refusals}
    asked = dict(_asked(policy, announced, facts, state, n_rows, partition))
    for rule in sorted(refused - asked.keys()):
        steps = sorted({step for _, step, other in plan.refusals if other == rule})
        asked[rule] = f"asks for {listed(steps)}"
    found = [
        Touched(
            rule,
            # A rule of the protocol has no value in the policy.
            DESCRIPTIONS.get(rule, RULES.get(rule, (rule, ""))[0]),
            study,
            value_text(rule, rules[rule]) if rule in rules else "",
            rule in refused,
        )
        for rule, study in asked.items()
    ]
    return sorted(found, key=lambda one: not one.refused)


def _asked(
    policy: Policy,
    announced: Announced,
    facts: Facts,
    state: AuditState,
    n_rows: int,
    partition: str,
) -> Iterator[tuple[str, str]]:
    """Yield each rule that applies, with what the study asks for."""
    plan, out = announced.plan, facts.lines("out")
    m = len(plan.parties)
    yield "min_parties", counted(m, "silo")
    yield "min_rows", f"{counted(n_rows, 'row')} here (shown on this page only)"
    if paired := paired_columns(facts):
        most = policy.most_columns(n_rows)
        yield "max_feature_ratio", f"{paired:,} columns; here at most {most:,}"
    columns = len(announced.columns)
    before = state.opened.of_column
    now = max((before.get(name, 0.0) for name in announced.columns), default=0.0)
    cells = pooled_rows(n_rows, m, partition, columns)
    share = (now + plan.numbers / max(columns, 1)) / max(cells, 1)
    yield (
        "max_released_share",
        f"{plan.numbers:,.0f} numbers more: a share of about {share:.2g} with all "
        f"earlier studies",
    )
    shown = [x for x in out if x.visibility in ("disclosed", "exchanged")]
    if shown:
        yield "allow_disclosed", f"{counted(len(shown), 'array')} as they are"
    if people := [x for x in out if per_person(x)]:
        yield "allow_row_level", f"{counted(len(people), 'array')} about people"
    time = datetime.now(UTC).isoformat()
    parties = tuple(plan.parties)
    if state.rosters.others(parties, time, policy.roster_period_days):
        yield "allow_roster_change", f"now with {listed(parties)}; before with others"
    if policy.allowed_columns is not None:
        yield "allowed_columns", listed(announced.columns)
    if policy.allowed_steps is not None:
        yield "allowed_steps", listed(sorted({line.step for line in plan.releases}))
    if policy.require_privacy or state.spent:
        yield "privacy_budget", f"ρ = {state.spent:.3g} was spent by earlier studies"


def changes(before: Stated, now: Stated) -> list[str]:
    """Return in plain words what a text says that an earlier one did not."""
    return [
        *_difference("silo", before.parties, now.parties),
        *_difference("column", before.columns or (), now.columns or ()),
        *_difference("step", before.steps, now.steps),
        *_altered("Label", before.label, now.label),
        *_altered("Way of adding", before.protection, now.protection),
        *_altered("Split", before.partition, now.partition),
        *(
            change
            for heading in dict.fromkeys([*before.statement, *now.statement])
            for change in _altered(
                heading,
                before.statement.get(heading, ""),
                now.statement.get(heading, ""),
            )
        ),
    ]


def never_sent(plan: Plan, earlier: Iterable[StudyHistory]) -> list[str]:
    """Return the meanings of arrays that no study has had from this silo yet."""
    known = {(x.step, x.name) for one in earlier for x in one.left}
    fresh = [x for x in plan.releases if x.leaves and (x.step, x.name) not in known]
    return list(dict.fromkeys(meaning(line) for line in fresh))


def text_changes(before: str, now: str) -> list[tuple[str, str]]:
    """Return the lines of two texts that differ: ("added" or "removed", line)."""
    kinds = {"+ ": "added", "- ": "removed"}
    lines = difflib.ndiff(before.splitlines(), now.splitlines())
    return [(kinds[line[:2]], line[2:]) for line in lines if line[:2] in kinds]


def _difference(what: str, before: Sequence[str], now: Sequence[str]) -> list[str]:
    added = [one for one in now if one not in before]
    gone = [one for one in before if one not in now]
    said = [f"New: {counted(len(added), what)}, {listed(added)}."] if added else []
    return said + (
        [f"Left out: {counted(len(gone), what)}, {listed(gone)}."] if gone else []
    )


def _altered(what: str, before: str, now: str) -> list[str]:
    if before == now:
        return []
    return [f"{what}: “{now or 'nothing'}” in place of “{before or 'nothing'}”."]


def picture(silo: str, plan: Plan) -> Picture:
    """Return a picture of where the silo's numbers would go."""
    found, others = routes(plan), len(plan.parties) - 1
    words = "; ".join(f"{one.amount} to {' '.join(one.to)}" for one in found)
    return Picture(
        "plan",
        f"What would leave {silo}, and who would see it",
        f"From this silo, whose rows stay: {words or 'nothing'}.",
        partial(_draw, silo, others, found),
        (),
    )


# Measures of the picture: heights of a box and of a route, and where the boxes begin.
_TALL, _EACH, _EDGE, _RIGHT = 58.0, 96.0, 24.0, 238.0


def _draw(silo: str, others: int, found: Sequence[Route]) -> "Figure":
    """Draw the silos at the left, who sees what at the right, and arrows between."""
    height = max(len(found), 1.5) * _EACH + 2 * _EDGE
    figure = blank(height)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    axes.set_xlim(0, WIDTH)
    axes.set_ylim(height, 0)
    here, there = _EDGE + _TALL / 2, height - _EDGE - _TALL / 2
    _box(axes, 1.0, here, 104.0, INK, (short(silo, 14), "rows stay here"))
    if others:
        them = (counted(others, "other silo"), "rows stay there")
        _box(axes, 1.0, there, 104.0, INK, them, pale=0.6)
    if not found:
        axes.text(320, height / 2, "nothing leaves", ha="center", color=INK)
    for place, route in enumerate(found):
        y = height / 2 if len(found) == 1 else _EDGE + _TALL / 2 + _EACH * place
        colour = SECOND if route.exposed else ACCENT
        _box(axes, _RIGHT, y, 181.0, colour, route.to)
        how = "as they are" if route.exposed else "masked"
        said = f"{counted(len(route.lines), 'array')}, {how}"
        _arrow(axes, here, y, colour, broken=route.exposed)
        # Above its box, where no arrow crosses the words.
        axes.text(
            _RIGHT, y - _TALL / 2 - 6, said, va="bottom", color=colour, fontsize=11
        )
        if others and not route.exposed:
            _arrow(axes, there, y, colour, pale=0.6)
    return figure


def _box(
    axes: "Axes",
    x: float,
    y: float,
    width: float,
    colour: str,
    words: tuple[str, str],
    pale: float = 1.0,
) -> None:
    """Draw a box around two lines of words, at its middle's height."""
    from matplotlib.patches import FancyBboxPatch

    corner = (x, y - _TALL / 2)
    axes.add_patch(
        FancyBboxPatch(
            corner, width, _TALL, boxstyle="round,pad=0,rounding_size=5",
            facecolor="none", edgecolor=colour, linewidth=1.2, alpha=pale,
        )
    )  # fmt: skip
    for text, down in zip(words, (-10, 10), strict=True):
        axes.text(
            x + width / 2, y + down, text, ha="center", va="center", color=INK,
            fontsize=11, parse_math=False,
        )  # fmt: skip


def _arrow(
    axes: "Axes",
    start: float,
    end: float,
    colour: str,
    *,
    broken: bool = False,
    pale: float = 1.0,
) -> None:
    """Draw an arrow from a silo to those who see; a forbidden one is dashed."""
    from matplotlib.patches import FancyArrowPatch

    axes.add_patch(
        FancyArrowPatch(
            (107, start), (_RIGHT - 1, end), arrowstyle="-|>", mutation_scale=12,
            color=colour, linewidth=1.4, linestyle="--" if broken else "-", alpha=pale,
        )
    )  # fmt: skip


def _numbers(line: Release) -> int:
    """Return how many numbers travel: of a symmetric array each pair once."""
    declared = declaration(line.step, line.name)
    if declared is None:
        return math.prod(line.shape)
    return round(declared.numbers(line.shape))
