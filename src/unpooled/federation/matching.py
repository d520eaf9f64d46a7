"""Matching rows by their ids: the coordinator's end, which carries and counts.

It learns every silo's number of ids and the number of common ones, and nothing of who
they are. `unpooled.secure.intersection.protocol` is the protocol.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, final

import numpy as np

from unpooled.arrays import Array, UInt64
from unpooled.coordinator.coordinator import Coordinator
from unpooled.errors import AggregationError, DataError
from unpooled.federation.federation import Federation
from unpooled.ledger import Release
from unpooled.party.party import Party
from unpooled.protocol import matching_stages as matching
from unpooled.protocol.matching_stages import PART, Lines, Place, lines_of
from unpooled.protocol.message import Message, encode
from unpooled.protocol.step import Step
from unpooled.secure.intersection.protocol import places_for

# A table cannot be made once in some hundreds of times; ten times in a row never.
_MOST_ATTEMPTS = 10

Messages = dict[str, tuple[dict[str, Any], dict[str, Array]]]


def how_to_match(partition: str, ids: str | None, aligned: bool) -> str:
    """Return what `Layout.matching` is for what somebody declared."""
    if partition == "rows":
        if aligned:
            raise DataError(
                "aligned=True is about column partitions: rows of silos with the same "
                "columns are different ones."
            )
        return ""
    if ids is None:
        # Tables without ids: only their numbers of rows can be compared.
        return ""
    return "aligned" if aligned else "ids"


def agree_on_rows(
    federation: Federation, members: Mapping[str, Party] | None = None
) -> None:
    """Let the silos of a column partition agree on their common rows, if they must.

    Afterwards `n_rows` is the number of common rows, and every silo's table is those
    rows in the common order. Nothing happens where that was done, on row partitions,
    and where tables have no ids and must be aligned already.

    Parameters
    ----------
    federation : Federation
        Whose layout is replaced.
    members : mapping of str to Party, optional
        The parties, where they live in this process: `Layout.rows_of` is theirs.

    Raises
    ------
    DataError
        When ids are missing or stand twice, or none is common, or when tables that
        were declared to be aligned are not.
    """
    how, coordinator = federation.layout.matching, federation.coordinator
    if not how or not isinstance(coordinator, Coordinator):
        return
    with federation.fitting():
        ring = _Ring(coordinator)
        n_rows = ring.check() if how == "aligned" else ring.match()
    own = {
        name: member.aligned_rows.common_rows(coordinator.study)
        for name, member in (members or {}).items()
    }
    rows_of = {name: rows for name, rows in own.items() if rows is not None}
    federation.layout = federation.layout.matched(n_rows, rows_of)


def planned_lines(federation: Federation) -> list[Release]:
    """Return the lines that `agree_on_rows` would write, for at most these rows."""
    how, n = federation.layout.matching, federation.layout.n_rows or 0
    study, parties = federation.coordinator.study, federation.parties
    stages: list[tuple[Step, int, int]] = []
    if how == "aligned":
        stages = [(matching.check, 0, 1)]
    elif how:
        places = places_for(n)
        stages = [(matching.count, 0, 1), (matching.blind, 0, n)]
        stages += [(matching.hand_on, n, n)] * (len(parties) - 1)
        stages += [(matching.take, n, 0), (matching.table, 0, places)]
        stages += [(matching.common, places, n)]
    lines: list[Release] = []
    for number, (step, received, sent) in enumerate(stages, 1):
        place = Place(study, "", number, parties[0])
        for line, _ in lines_of(place, step, received, sent):
            lines.append(replace(line, parties=parties))
    return lines


@final
class _Ring:
    """The parties in their order, and what passes between them."""

    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator
        self._parties = tuple(sorted(coordinator.parties))

    def match(self) -> int:
        """Return how many rows are common."""
        everybody: Messages = {party: ({}, {}) for party in self._parties}
        replies = self._ask(matching.count, everybody)
        sizes = {party: _number(reply) for party, reply in replies.items()}
        for start in range(0, max(sizes.values()), PART):
            self._go_round(sizes, start)
        places = places_for(max(sizes.values()))
        attempt, total = self._table(places)
        asked: Messages = {
            party: ({"attempt": attempt}, {"total": total}) for party in self._parties
        }
        # How many rows are common is known when the replies are there.
        return self._agreed(matching.common, asked, places)

    def check(self) -> int:
        """Return how many rows tables have that were declared to be aligned."""
        return self._agreed(matching.check, {p: ({}, {}) for p in self._parties}, 0)

    def _go_round(self, sizes: Mapping[str, int], start: int) -> None:
        """Send one part of every party's ids round the ring."""
        n = {party: max(min(PART, size - start), 0) for party, size in sizes.items()}
        m = len(self._parties)
        asked: Messages = {party: ({"start": start}, {}) for party in self._parties}
        replies = self._ask(
            matching.blind, asked, {party: (0, n[party]) for party in asked}
        )
        for hop in range(1, m + 1):
            stage = matching.hand_on if hop < m else matching.take
            asked, counts = {}, {}
            for position, party in enumerate(self._parties):
                origin = self._parties[(position - hop) % m]
                before = self._parties[(position - 1) % m]
                if n[origin]:
                    points = {"received": replies[before].arrays["points"]}
                    asked[party] = ({"origin": origin, "start": start}, points)
                    counts[party] = (n[origin], n[origin] if hop < m else 0)
            replies = self._ask(stage, asked, counts)

    def _table(self, places: int) -> tuple[int, UInt64[Array, " s"]]:
        for attempt in range(_MOST_ATTEMPTS):
            about = {"attempt": attempt, "places": places}
            replies = self._ask(
                matching.table,
                {party: (about, {}) for party in self._parties},
                dict.fromkeys(self._parties, (0, places)),
            )
            tables = [reply.arrays.get("table") for reply in replies.values()]
            if any(table is None for table in tables):
                continue
            total = np.zeros(places, np.uint64)
            for table in tables:
                if not isinstance(table, np.ndarray) or table.shape != total.shape:
                    raise _not_as_declared("matching.table")
                total += table
            return attempt, total
        raise AggregationError(
            "The silos' tables of ids could not be made. Run the study again.",
            rule="out_of_order",
        )

    def _agreed(self, stage: Step, asked: Messages, received: int) -> int:
        replies = self._ask(stage, asked, received=received)
        digests = {p: str(reply.header["digest"]) for p, reply in replies.items()}
        usual = Counter(digests.values()).most_common(1)[0][0]
        if others := [party for party, digest in digests.items() if digest != usual]:
            raise DataError(
                f"The rows of {', '.join(others)} are not those of the other silos in "
                f"the same order. Leave out `aligned`, so that rows are matched by "
                f"their ids."
            )
        return _number(next(iter(replies.values())))

    def _ask(
        self,
        stage: Step,
        asked: Messages,
        counts: Mapping[str, tuple[int, int]] | None = None,
        *,
        received: int = 0,
    ) -> dict[str, Message]:
        """Run one stage at some parties.

        `counts` is how many points, or places, come to each party and leave it. Without
        it the replies tell: they hold a number.
        """
        coordinator = self._coordinator
        session, number = coordinator.begin_round(for_parties=True)
        where = {"kind": "match", "study": coordinator.study, "session": session}
        where |= {"round": number, "stage": stage.name}
        requests = {
            party: encode({**where, **header}, arrays)
            for party, (header, arrays) in asked.items()
        }

        def lines(replies: Mapping[str, Message]) -> Lines:
            alike: dict[tuple[int, int], list[str]] = {}
            for party, reply in replies.items():
                if reply.header.get("kind") != "released":
                    continue
                n = (received, _number(reply)) if counts is None else counts[party]
                # A list that has ended, or a table that could not be made.
                if n[0] or reply.arrays:
                    alike.setdefault(n, []).append(party)
            where = (coordinator.study, session, number)
            return _merged(
                {
                    tuple(parties): lines_of(Place(*where, parties[0]), stage, *n)
                    for n, parties in alike.items()
                }
            )

        return coordinator.run_round(stage.name, requests, lines)


def _merged(lines: Mapping[tuple[str, ...], Lines]) -> Lines:
    """Return one line for each shape of an array, with all the parties behind it."""
    merged: Lines = []
    for same in zip(*lines.values(), strict=True):
        of_shape: dict[tuple[int, ...], tuple[Release, str]] = {}
        for (line, source), parties in zip(same, lines, strict=True):
            before = of_shape.get(line.shape, (line, ""))[0].parties
            everybody = {*before, *parties} if line.shape in of_shape else parties
            line = replace(line, parties=tuple(sorted(everybody)))
            of_shape[line.shape] = line, source
        merged += of_shape.values()
    return merged


def _number(reply: Message) -> int:
    value = reply.arrays.get("count")
    if value is None or value.shape != (1,) or not 0 <= int(value[0]) < 2**32:
        raise _not_as_declared("matching.count")
    return int(value[0])


def _not_as_declared(stage: str) -> AggregationError:
    return AggregationError(
        f"A silo answered {stage} with something else than is declared.",
        rule="malformed_message",
    )
