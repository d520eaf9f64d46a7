"""Tables of what each silo sent and signed, and of time and bytes by round."""

from collections.abc import Sequence
from itertools import groupby

from unpooled.coordinator.step_call import RoundRecord
from unpooled.ledger.rounds import round_numbers
from unpooled.protocol.opened_numbers import numbers_of_lines
from unpooled.report.facts import Facts
from unpooled.results.exhibits import Column, ResultTable, Value

# With more runs of rounds, all rounds of a step are one row, wherever they stand.
_MANY = 20
_CONTROL = {
    "join": "joining a fit",
    "agree": "agreeing on fresh keys",
    "offer group key": "creating a key for the silos alone",
    "accept group key": "distributing that key",
    "leave": "deleting the keys",
}


def silos(facts: Facts) -> ResultTable:
    """Return how much each silo sent and received."""
    rows = []
    for party in facts.parties:
        lines = [x for x in facts.ledger if party in x.parties]
        sent = [x for x in lines if x.direction == "out"]
        received = sum(x.bytes for x in lines if x.direction == "in")
        rows.append(
            (
                party,
                len(sent),
                facts.ledger.bytes_out(party),
                received,
            )
        )
    counts = ("Arrays sent", "Bytes sent", "Bytes received")
    numbers, people = numbers_of_lines(facts.ledger)
    return ResultTable(
        "silos",
        (Column("Silo"), *(Column(head, "count") for head in counts)),
        rows,
        f"Arrays only, without the messages around them. Of what was opened, "
        f"{numbers:,.0f} numbers count towards the limit of each silo’s rule "
        f"max_released_share, and {people:,} numbers are in arrays with entries for "
        f"single people.",
        most=None,
    )


def seals(facts: Facts) -> ResultTable:
    """Return how many lines each silo signed, with which key and library."""
    rows, libraries = [], facts.ledger.libraries
    for party in facts.parties:
        seals = [x.seals[party] for x in facts.ledger if party in x.seals]
        keys = list(dict.fromkeys(seal.key for seal in seals))
        builds = ", ".join(filter(None, libraries.get(party, ()))) or "not stated"
        rows.append((party, " ".join(map(_grouped, keys)), builds, len(seals)))
    return ResultTable(
        "signatures",
        (
            Column("Silo"),
            Column("Public key"),
            Column("Library"),
            Column("Lines signed", "count"),
        ),
        rows,
        "How many lines of the ledger each silo signed, with which key, and the "
        "version of the library that it ran, with a digest of the library’s source.",
        most=None,
    )


def _grouped(key: str) -> str:
    """Return a key in groups of eight digits, which are easier to compare."""
    return " ".join(key[i : i + 8] for i in range(0, len(key), 8))


def costs(facts: Facts) -> ResultTable:
    """Return a row for each round, or for each step where there are many rounds."""
    arrays: dict[int, int] = {}
    for line in facts.lines("out"):
        arrays[line.round] = arrays.get(line.round, 0) + line.bytes
    keys = [x for x in facts.rounds if x.round == 0]
    rows = []
    for step, records in _by_step(keys):
        times = f", {len(records)} times" if len(records) > 1 else ""
        rows.append(_cost("Keys", _CONTROL.get(step, step) + times, records, 0))
    rounds = [x for x in facts.rounds if x.round]
    runs = [(step, list(run)) for step, run in groupby(rounds, key=lambda x: x.step)]
    for step, records in _by_step(rounds) if len(runs) > _MANY else runs:
        label = round_numbers([x.round for x in records])
        rows.append(
            _cost(label, step, records, sum(arrays.get(x.round, 0) for x in records))
        )
    rows.append(_cost("All", "", facts.rounds, sum(arrays.values())))
    counts = ("Arrays out", "Messages out", "Messages in")
    return ResultTable(
        "costs",
        (
            Column("Round"),
            Column("What"),
            Column("Time", "seconds"),
            *(Column(head, "count") for head in counts),
        ),
        rows,
        "Bytes for each silo. Messages are arrays with their headers and signatures.",
        total=True,
        most=None,
    )


def _by_step(records: Sequence[RoundRecord]) -> list[tuple[str, list[RoundRecord]]]:
    found: dict[str, list[RoundRecord]] = {}
    for record in records:
        found.setdefault(record.step, []).append(record)
    return list(found.items())


def _cost(
    label: str, what: str, records: Sequence[RoundRecord], arrays: int
) -> tuple[Value, ...]:
    return (
        label,
        what,
        sum((x.seconds for x in records), 0.0),
        arrays,
        sum(x.bytes_out for x in records),
        sum(x.bytes_in for x in records),
    )
