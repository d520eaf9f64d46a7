"""Matching rows by their ids, at the coordinator: it carries points and counts rows.

    count ── every silo's number of ids
    for each part of the ids:
        blind ─> hand_on, round the ring ─> take    points blinded by every silo
    table ── masked tables, added ─> common         the number of common rows

The coordinator learns each silo's number of ids and the number of common ones, and
nothing about which ids they are. `unpooled.secure.intersection.protocol` has the
cryptography, `unpooled.protocol.matching_stages` the stages.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, final

import numpy as np

from unpooled.arrays import Array, UInt64
from unpooled.coordinator.coordinator import Coordinator
from unpooled.errors import AggregationError, DataError
from unpooled.ledger import Release
from unpooled.protocol import matching_stages as stages
from unpooled.protocol.ledger_lines import Lines
from unpooled.protocol.matching_stages import PART, Place, lines_of
from unpooled.protocol.message import Message, encode
from unpooled.protocol.step import Step
from unpooled.secure.intersection.protocol import places_for

# Making a table fails about once in some hundreds of times; ten times in a row, never.
_MOST_ATTEMPTS = 10


@final
@dataclass(frozen=True)
class _Counts:
    """How many points (or places of a table, or common rows) a stage moves.

    Attributes
    ----------
    received, sent : int
        To a party and from it.
    """

    received: int
    sent: int


@final
@dataclass(frozen=True, eq=False)
class _StageMessage:
    """Fields that one party receives for a stage, beside those of every stage's header.

    Attributes
    ----------
    header : mapping
        Its own fields of the header.
    arrays : mapping of str to array
        Points or words.
    counts : _Counts or None
        For its ledger lines; None where the reply itself has the number of rows.
    """

    header: Mapping[str, Any] = field(default_factory=dict)
    arrays: Mapping[str, Array] = field(default_factory=dict)
    counts: _Counts | None = None


@final
class RowMatching:
    """Has the silos of a column partition agree on their common rows.

    Parameters
    ----------
    coordinator : Coordinator
        In a fit: the messages need its session's keys.
    """

    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator
        # The order of the ring.
        self._parties = tuple(sorted(coordinator.parties))

    def match(self) -> int:
        """Return the number of rows whose ids all silos have."""
        replies = self._run(stages.count, self._to_all(_StageMessage()))
        sizes = {party: _count_in(reply) for party, reply in replies.items()}
        for start in range(0, max(sizes.values()), PART):
            self._go_round(sizes, start)
        places = places_for(max(sizes.values()))
        attempt, total = self._table(places)
        message = _StageMessage({"attempt": attempt}, {"total": total})
        return self._agreed(stages.common, message, received=places)

    def check(self) -> int:
        """Return the number of rows of tables that were declared to be aligned."""
        return self._agreed(stages.check, _StageMessage(), received=0)

    def _to_all(self, message: _StageMessage) -> dict[str, _StageMessage]:
        return dict.fromkeys(self._parties, message)

    def _go_round(self, sizes: Mapping[str, int], start: int) -> None:
        """Send one part of every party's ids round the ring."""
        n = {party: max(min(PART, size - start), 0) for party, size in sizes.items()}
        m = len(self._parties)
        messages = {
            party: _StageMessage({"start": start}, counts=_Counts(0, n[party]))
            for party in self._parties
        }
        replies = self._run(stages.blind, messages)
        for hop in range(1, m + 1):
            last, messages = hop == m, {}
            for position, party in enumerate(self._parties):
                origin = self._parties[(position - hop) % m]
                before = self._parties[(position - 1) % m]
                if n[origin]:
                    messages[party] = _StageMessage(
                        {"origin": origin, "start": start},
                        {"received": replies[before].arrays["points"]},
                        _Counts(n[origin], 0 if last else n[origin]),
                    )
            replies = self._run(stages.take if last else stages.hand_on, messages)

    def _table(self, places: int) -> tuple[int, UInt64[Array, " s"]]:
        """Return the sum of all parties' tables, and the attempt that gave it."""
        for attempt in range(_MOST_ATTEMPTS):
            header = {"attempt": attempt, "places": places}
            message = _StageMessage(header, counts=_Counts(0, places))
            replies = self._run(stages.table, self._to_all(message))
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

    def _agreed(self, stage: Step, message: _StageMessage, *, received: int) -> int:
        """Return the number of rows, if all silos have the same rows in one order."""
        replies = self._run(stage, self._to_all(message), received=received)
        digests = {p: str(reply.header["digest"]) for p, reply in replies.items()}
        usual = Counter(digests.values()).most_common(1)[0][0]
        if others := [party for party, digest in digests.items() if digest != usual]:
            raise DataError(
                f"The rows of {', '.join(others)} are not those of the other silos in "
                f"the same order. Leave out `aligned`, so that rows are matched by "
                f"their ids."
            )
        return _count_in(next(iter(replies.values())))

    def _run(
        self, stage: Step, messages: Mapping[str, _StageMessage], *, received: int = 0
    ) -> dict[str, Message]:
        """Run one stage at the parties that have a message; return their replies.

        `received` is the number of points or places that each receives, where the
        number that it sends is in its reply.
        """
        coordinator = self._coordinator
        session, number = coordinator.begin_round(for_parties=True)
        common = {
            "kind": "match",
            "study": coordinator.study,
            "session": session,
            "round": number,
            "stage": stage.name,
        }
        requests = {
            party: encode({**common, **message.header}, message.arrays)
            for party, message in messages.items()
        }

        def lines(replies: Mapping[str, Message]) -> Lines:
            alike: dict[_Counts, list[str]] = {}
            for party, reply in replies.items():
                if reply.header.get("kind") != "released":
                    continue
                counts = messages[party].counts or _Counts(received, _count_in(reply))
                # No line for a list that has ended, or a table that was not made.
                if counts.received or reply.arrays:
                    alike.setdefault(counts, []).append(party)
            lines_of_parties: dict[tuple[str, ...], Lines] = {}
            for counts, parties in alike.items():
                place = Place(coordinator.study, session, number, parties[0])
                lines_of_parties[tuple(parties)] = lines_of(
                    place, stage, counts.received, counts.sent
                )
            return _merged(lines_of_parties)

        return coordinator.run_round(stage.name, requests, lines)


def planned_lines(
    matching: str, n_rows: int, study: str, parties: tuple[str, ...]
) -> list[Release]:
    """Return the ledger lines that matching would write.

    Parameters
    ----------
    matching : {"", "ids", "aligned"}
        What the parties still have to do.
    n_rows : int
        The most rows that can be common.
    study : str
        Name of the study.
    parties : tuple of str
        All parties.
    """
    planned: list[tuple[Step, _Counts]] = []
    if matching == "aligned":
        planned = [(stages.check, _Counts(0, 1))]
    elif matching:
        n, places = n_rows, places_for(n_rows)
        planned = [(stages.count, _Counts(0, 1)), (stages.blind, _Counts(0, n))]
        planned += [(stages.hand_on, _Counts(n, n))] * (len(parties) - 1)
        planned += [(stages.take, _Counts(n, 0)), (stages.table, _Counts(0, places))]
        planned += [(stages.common, _Counts(places, n))]
    lines: list[Release] = []
    for number, (step, counts) in enumerate(planned, 1):
        place = Place(study, "", number, parties[0])
        for line, _ in lines_of(place, step, counts.received, counts.sent):
            lines.append(replace(line, parties=parties))
    return lines


def _merged(lines: Mapping[tuple[str, ...], Lines]) -> Lines:
    """Return one line for each shape of an array, with all the parties behind it."""
    merged: Lines = []
    for same in zip(*lines.values(), strict=True):
        of_shape: dict[tuple[int, ...], tuple[Release, str]] = {}
        for (line, source), parties in zip(same, lines, strict=True):
            before = of_shape.get(line.shape)
            sharing = {*before[0].parties, *parties} if before else parties
            line = replace(line, parties=tuple(sorted(sharing)))
            of_shape[line.shape] = line, source
        merged += of_shape.values()
    return merged


def _count_in(reply: Message) -> int:
    """Return the number of rows in a reply."""
    value = reply.arrays.get("count")
    if value is None or value.shape != (1,) or not 0 <= int(value[0]) < 2**32:
        raise _not_as_declared("matching.count")
    return int(value[0])


def _not_as_declared(stage: str) -> AggregationError:
    return AggregationError(
        f"A silo's answer to {stage} is not as declared.",
        rule="malformed_message",
    )
