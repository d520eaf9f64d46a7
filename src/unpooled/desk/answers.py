"""The five questions of a data-protection officer about a period, answered by the log.

What was asked of us?   What left?   Could anybody have learned one person?
Who approved?           Is the log intact?
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Any, final

from unpooled.desk.history import StudyHistory, day_of
from unpooled.report.text.people import people_answer
from unpooled.results.finding import Finding
from unpooled.results.formats import byte_size, counted, listed, minute

# The models of each study, by its key, for what a page says of totals over rows.
Models = Mapping[str, Sequence[tuple[str, Any]]]


@final
@dataclass(frozen=True)
class Line:
    """A paragraph about one study.

    Attributes
    ----------
    key, study : str
        Its key in addresses, and its name.
    text : str
        The sentences.
    warned : bool
        Whether a person should look at it.
    """

    key: str
    study: str
    text: str
    warned: bool = False


@final
@dataclass(frozen=True)
class AnsweredQuestion:
    """A question with its answer.

    Attributes
    ----------
    question, short : str
        The answer in a sentence.
    lines : list of Line
        Study by study.
    warned : bool
        Whether a person should look at it.
    """

    question: str
    short: str
    lines: list[Line] = field(default_factory=list)
    warned: bool = False


def last_quarter(today: date) -> tuple[date, date]:
    """Return the last three months: from the day after the same day back then."""
    year, month = divmod(today.year * 12 + today.month - 1 - 3, 12)
    first = date(year, month + 1, 1)
    return min(first + timedelta(days=today.day - 1), today), today


def answers(
    studies: Sequence[StudyHistory],
    log: Finding,
    *,
    asks: bool,
    models: Models,
) -> list[AnsweredQuestion]:
    """Answer the five questions about parts of studies.

    Parameters
    ----------
    studies : sequence of StudyHistory
        Studies of the period, oldest first.
    log : Finding
        Whether the log is intact.
    asks : bool
        Whether a person must approve each study at this silo.
    models : mapping of str to sequence of (str, estimator)
        The delivered models of each study, by its key.
    """
    return [
        _asked(studies),
        _left(studies),
        _learned(studies, models),
        _approved(studies, asks=asks),
        AnsweredQuestion("Is the log intact?", log.text, warned=not log.good),
    ]


def _asked(studies: Sequence[StudyHistory]) -> AnsweredQuestion:
    refused = sum(len(one.refusals) for one in studies)
    short = "Nothing was asked of this silo."
    if studies:
        short = f"To take part in {counted(len(studies), 'study', 'studies')}."
        if refused:
            short += f" Refused by our rules: {counted(refused, 'request')}."
    return AnsweredQuestion(
        "What was asked of us?",
        short,
        [Line(one.key, one.name, _asks(one)) for one in studies],
    )


def _asks(one: StudyHistory) -> str:
    """Return purpose, models, columns and company of a study."""
    says = one.says
    if says is None:
        # The steps that were requested are in the log all the same.
        steps = sorted({record["step"] for record in one.rounds})
        what = f"It asked for {listed(steps)}." if steps else "It has no readable text."
    else:
        columns = listed(one.columns or says.columns or ("all columns offered",))
        what = f"{listed(says.steps)} on {columns}, with {listed(says.parties)}."
        if purpose := says.statement.get("Purpose"):
            what = f"{purpose} {what}"
    refused = [f"{x.asked} ({x.rule})" for x in one.refusals]
    if refused:
        what += f" Refused: {listed(list(dict.fromkeys(refused)))}."
    return f"{day_of(one.first).isoformat()}: {what}"


def _left(studies: Sequence[StudyHistory]) -> AnsweredQuestion:
    lines = [line for one in studies for line in one.left]
    question = "What left?"
    if not lines:
        return AnsweredQuestion(question, "Nothing left this silo.")
    size = byte_size(sum(line.bytes for line in lines))
    said = [Line(one.key, one.name, _sent(one)) for one in studies if one.left]
    return AnsweredQuestion(question, f"{counted(len(lines), 'array')}, {size}.", said)


def _sent(one: StudyHistory) -> str:
    facts = one.facts()
    shown = [x for x in one.left if x.visibility in ("disclosed", "exchanged")]
    how = f"all as masked parts of totals over {counted(len(one.parties), 'silo')}"
    if facts.protection != "masked":
        how = "not masked, so that the coordinator could read this silo’s own numbers"
    elif shown:
        how = f"{counted(len(shown), 'array')} as they are, the others masked"
    return (
        f"{counted(len(one.left), 'array')} in {counted(len(one.rounds), 'round')}, "
        f"{byte_size(one.n_bytes)}, {how}; {one.numbers:,.0f} numbers were opened."
    )


def _learned(studies: Sequence[StudyHistory], models: Models) -> AnsweredQuestion:
    lines = []
    for one in studies:
        found = people_answer(one.facts(models.get(one.key, ())))
        lines.append(
            Line(one.key, one.name, f"{found.short} {found.text}", found.exposed)
        )
    if any(line.warned for line in lines):
        worst = [line.study for line in lines if line.warned]
        short = f"Look at {listed(worst)}: it cannot be ruled out."
    else:
        short = (
            "No: no array about a single person left, and nobody saw numbers of this "
            "silo alone. What exact totals can tell is on the page of each study."
        )
    if not any(one.left for one in studies):
        short = "No: nothing left this silo."
    return AnsweredQuestion(
        "Could anybody have learned one person?",
        short,
        lines,
        any(line.warned for line in lines),
    )


def _approved(studies: Sequence[StudyHistory], *, asks: bool) -> AnsweredQuestion:
    lines = [Line(one.key, one.name, _decided(one)) for one in studies]
    decisions = [decision for one in studies for decision in one.decisions]
    who = list(dict.fromkeys(d.by for d in decisions if d.approved))
    short = f"{listed(who)}." if who else "Nobody."
    if not asks:
        short += (
            " This silo does not ask a person: silo.toml has approval = "
            "“none”, so studies run under its rules alone."
        )
    alone = [one for one in studies if one.left and not one.decisions]
    return AnsweredQuestion("Who approved?", short, lines, warned=asks and bool(alone))


def _decided(one: StudyHistory) -> str:
    if not one.decisions:
        return "Nobody decided about it."
    said = []
    for decision in one.decisions:
        what = "Approved" if decision.approved else "Declined"
        why = f": “{decision.reason}”" if decision.reason else ""
        when = minute(decision.time)
        said.append(f"{what} by {decision.by}, {when} UTC{why}.")
    return " ".join(said)
