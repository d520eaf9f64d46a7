"""Matching rows by their ids: the stages, and the ledger lines of each.

    count ─> blind ─> hand_on, at every other party ─> take ─> table ─> common
             `───── part by part, 2^17 ids at a time ─────┘

`unpooled.secure.intersection.protocol` has what the stages compute and disclose. Points
travel sealed from neighbour to neighbour: the coordinator carries them, and can neither
read nor replace them. Both ends write the same ledger lines from this file.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

from unpooled.ledger import Release
from unpooled.protocol.ledger_lines import Lines
from unpooled.protocol.step import Declared, Step, of_protocol, release, stays
from unpooled.secure.intersection.ristretto255 import POINT_BYTES
from unpooled.secure.keys.agreement import SEAL_BYTES

# Ids in one message: 4 MB of points.
PART = 2**17


def _stage(name: str, verb: str, **declared: Declared) -> Step:
    return of_protocol(f"matching.{name}", verb, declared)


_POINTS = "a point for each id, which tells nobody which id it is"
_COUNT = release("", meaning="how many rows there are")
count = _stage("count", "disclosed", count=_COUNT)
blind = _stage("blind", "exchanged", points=release("n", meaning=_POINTS))
hand_on = _stage("hand_on", "exchanged", points=release("n", meaning=_POINTS))
take = _stage("take", "exchanged", points=release("n", meaning=_POINTS))
table = _stage(
    "table",
    "summed",
    table=release("l", meaning="random words that together show which ids all have"),
)
common = _stage(
    "common",
    "disclosed",
    count=release("", meaning="how many rows all silos have in common"),
    rows=stays("N", meaning="which rows are common, in an order that says nothing"),
)
check = _stage("check", "disclosed", count=_COUNT)
STAGES: Mapping[str, Step] = {
    step.name: step for step in (count, blind, hand_on, take, table, common, check)
}


@final
@dataclass(frozen=True)
class Place:
    """Study, session, round and party of a message."""

    study: str
    session: str
    round: int
    party: str

    def line(
        self,
        step: Step,
        name: str,
        visibility: str,
        direction: str,
        what: tuple[tuple[int, ...], str, int],
    ) -> Release:
        """Return a ledger line of this round: `what` is shape, type and bytes."""
        shape, dtype, size = what
        return Release(
            study=self.study,
            round=self.round,
            step=step.name,
            name=name,
            shape=shape,
            dtype=dtype,
            bytes=size,
            visibility=visibility,
            direction=direction,
            parties=(self.party,),
        )


def lines_of(place: Place, step: Step, received: int, sent: int) -> Lines:
    """Return the lines of a stage, with the names of their arrays in the message.

    Parameters
    ----------
    received, sent : int
        Points (or places of a table, or common rows) that came, and that go.
    """

    def points(n: int, step: Step, direction: str) -> Release:
        what = ((n,), "x25519", POINT_BYTES * n + SEAL_BYTES)
        return place.line(step, "points", "exchanged", direction, what)

    def words(n: int, direction: str) -> Release:
        what = ((n,), "uint64", 8 * n)
        return place.line(table, "table", "summed", direction, what)

    number = place.line(step, "count", "disclosed", "out", ((), "int64", 8))
    lines: Lines = []
    if step is table:
        return [(words(sent, "out"), "table")]
    if step is common:
        kept = place.line(common, "rows", "kept", "in", ((sent,), "int64", 0))
        return [(words(received, "in"), "total"), (number, "count"), (kept, "")]
    if step in (count, check):
        return [(number, "count")]
    if received:
        lines.append((points(received, step, "in"), "received"))
    if sent:
        lines.append((points(sent, step, "out"), "points"))
    return lines
