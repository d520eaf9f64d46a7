"""What each silo sent and signed, and what it all cost: tables for the report's end."""

from collections.abc import Sequence
from itertools import groupby

from unpooled.coordinator.round_runner import RoundRecord
from unpooled.report.facts import Facts
from unpooled.report.tables import Table, duration
from unpooled.report.wording import rounds_label

# In a longer table the rounds of a step are one row, wherever they stand.
_MANY = 20
_CONTROL = {
    "join": "joining a fit",
    "agree": "agreeing on fresh keys",
    "offer group key": "making a key for the silos alone",
    "accept group key": "handing out that key",
    "leave": "forgetting the keys",
}


def silos(facts: Facts) -> Table:
    """Return how much each silo sent, and was sent."""
    rows = []
    for party in facts.parties:
        lines = [x for x in facts.ledger if party in x.parties]
        sent = [x for x in lines if x.direction == "out"]
        told = sum(x.bytes for x in lines if x.direction == "in")
        rows.append(
            (
                party,
                f"{len(sent):,}",
                f"{facts.ledger.bytes_out(party):,}",
                f"{told:,}",
            )
        )
    head = ("Silo", "Arrays sent", "Bytes sent", "Bytes received")
    return Table("Arrays only; whole messages are under time and bytes.", head, rows)


def seals(facts: Facts) -> Table:
    """Return who signed how many lines of the ledger, with which key."""
    rows = []
    for party in facts.parties:
        seals = [x.seals[party] for x in facts.ledger if party in x.seals]
        keys = list(dict.fromkeys(seal.key for seal in seals))
        rows.append((party, " ".join(map(_grouped, keys)), f"{len(seals):,}"))
    head = ("Silo", "Public key", "Lines signed")
    return Table("Who signed the ledger, with which key.", head, rows, words=2)


def _grouped(key: str) -> str:
    """Return a key in groups, as people compare them."""
    return " ".join(key[i : i + 8] for i in range(0, len(key), 8))


def costs(facts: Facts) -> Table:
    """Return a row for each round, or for each step where there are many rounds."""
    arrays: dict[int, int] = {}
    for line in facts.lines("out"):
        arrays[line.round] = arrays.get(line.round, 0) + line.bytes
    keys = [x for x in facts.rounds if x.round == 0]
    rows = []
    for step, some in _by_step(keys):
        times = f", {len(some)} times" if len(some) > 1 else ""
        rows.append(_cost("Keys", _CONTROL.get(step, step) + times, some, 0))
    asked = [x for x in facts.rounds if x.round]
    runs = [(step, list(run)) for step, run in groupby(asked, key=lambda x: x.step)]
    for step, some in _by_step(asked) if len(runs) > _MANY else runs:
        label = rounds_label([x.round for x in some]).partition(" ")[2]
        rows.append(_cost(label, step, some, sum(arrays.get(x.round, 0) for x in some)))
    rows.append(_cost("All", "", facts.rounds, sum(arrays.values())))
    head = ("Round", "What", "Time", "Arrays out", "Messages out", "Messages in")
    return Table(
        "Bytes for each silo. Messages are arrays with their headers and signatures.",
        head,
        rows,
        total=True,
        words=2,
    )


def _by_step(records: Sequence[RoundRecord]) -> list[tuple[str, list[RoundRecord]]]:
    found: dict[str, list[RoundRecord]] = {}
    for one in records:
        found.setdefault(one.step, []).append(one)
    return list(found.items())


def _cost(
    label: str, what: str, records: Sequence[RoundRecord], arrays: int
) -> tuple[str, ...]:
    return (
        label,
        what,
        duration(sum((x.seconds for x in records), 0.0)),
        f"{arrays:,}",
        f"{sum(x.bytes_out for x in records):,}",
        f"{sum(x.bytes_in for x in records):,}",
    )
