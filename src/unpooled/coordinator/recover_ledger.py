"""What silos sent and the coordinator never wrote down: asked for, and written late.

A coordinator that is killed between a reply and its ledger, or whose network loses a
reply, lacks lines that a silo's own log has. Each join tells how many lines the silo
has; a coordinator that has fewer asks for them, so the ledger again tells what left.
"""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from unpooled.errors import AggregationError, StudyError
from unpooled.ledger import VISIBILITIES, Ledger, Release
from unpooled.protocol.ledger_lines import LINES_OF_A_REPLY
from unpooled.protocol.message import Message
from unpooled.secure.keys.roster import Roster

# No study has more; a party that says so would keep the coordinator asking.
_MOST_LINES = 100_000
Ask = Callable[[dict[str, Any], tuple[str, ...]], dict[str, Message]]


def recall(
    ledger: Ledger,
    roster: Roster,
    study: str,
    offers: Mapping[str, Message],
    ask: Ask,
) -> int:
    """Write the lines that parties have and the ledger lacks; return the last round.

    Parameters
    ----------
    ledger : Ledger
        Grows by the lines.
    roster : Roster
        Whose keys must have sealed them.
    offers : mapping of str to Message
        Replies to "join", by party; "lines" in them counts the party's own lines.
    ask : callable
        Sends a header to parties and returns their replies by party.

    Raises
    ------
    AggregationError
        When a party has fewer lines than the ledger has under its key: its audit log
        was cut; or when a line is not what it should be.
    """
    queues: dict[str, deque[Release]] = {}
    for party, offer in offers.items():
        known, lines = _known(ledger, roster, study, party), offer.header["lines"]
        if type(lines) is not int or lines > known + _MOST_LINES:
            raise _wrong(party, study)
        if lines < known:
            raise AggregationError(
                f"{party}'s audit log has fewer lines of {study} than the ledger has "
                f"under its key: it was cut, or restored from an older backup.",
                rule="audit_log",
            )
        queues[party] = deque()
        while known + len(queues[party]) < lines:
            after = known + len(queues[party])
            wanted = min(lines - after, LINES_OF_A_REPLY)
            queues[party] += _asked(roster, study, party, (after, wanted), ask)
    last = 0
    while heads := {party: queue[0] for party, queue in queues.items() if queue}:
        first = min(heads.values(), key=lambda line: line.round)
        same = [p for p, line in heads.items() if _body(line) == _body(first)]
        seals = {party: queues[party].popleft().seals[party] for party in same}
        ledger.append(replace(first, parties=tuple(same)), seals)
        last = max(last, first.round)
    return last


def _known(ledger: Ledger, roster: Roster, study: str, party: str) -> int:
    key = roster[party].hex()
    return sum(
        line.study == study and party in line.seals and line.seals[party].key == key
        for line in ledger
    )


def _asked(
    roster: Roster, study: str, party: str, span: tuple[int, int], ask: Ask
) -> list[Release]:
    after, wanted = span
    header = {"kind": "recall", "study": study, "after": after}
    lines = []
    try:
        records = ask(header, (party,))[party].header["lines"]
        if len(records) != wanted:
            raise ValueError("more lines or fewer than it said it has")
        for sequence, record in enumerate(records, after):
            line = Release.from_record(record)
            seal = line.seals[party]
            if (line.study, seal.sequence) != (study, sequence):
                raise ValueError("another line than the one asked for")
            if line.visibility not in VISIBILITIES or not 0 < line.round < 2**31:
                raise ValueError("a line that no round could have written")
            if bytes.fromhex(seal.key) != roster[party]:
                raise ValueError("sealed under another key")
            statement = line.statement(party, sequence, seal.digest)
            roster.check(party, statement, bytes.fromhex(seal.signature))
            lines.append(line)
    except (KeyError, TypeError, ValueError, StudyError) as wrong:
        raise _wrong(party, study) from wrong
    return lines


def _wrong(party: str, study: str) -> AggregationError:
    return AggregationError(
        f"{party} does not say what it sent in {study} before.",
        rule="malformed_message",
    )


def _body(line: Release) -> bytes:
    return line.statement("", 0, "")
