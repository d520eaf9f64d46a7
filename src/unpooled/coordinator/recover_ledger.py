"""Recovering ledger lines that silos logged and the coordinator never wrote.

A coordinator that is killed between a reply and its ledger, or whose network loses a
reply, lacks lines that a silo's own audit log has. Each reply to "join" has the number
of lines in that log; the coordinator requests those it lacks and appends them, so the
ledger is again a complete record of what left the silos.
"""

from collections import deque
from collections.abc import Mapping

from unpooled.coordinator.channel import Send
from unpooled.errors import AggregationError, StudyError
from unpooled.ledger import VISIBILITIES, Ledger, Release
from unpooled.ledger.lines import changed
from unpooled.protocol.ledger_lines import LINES_OF_A_REPLY
from unpooled.protocol.message import Message
from unpooled.secure.keys.roster import Roster

# No study has more: a party that claims more would keep the coordinator busy for ever.
_MOST_LINES = 100_000


def recover(
    ledger: Ledger,
    roster: Roster,
    study: str,
    offers: Mapping[str, Message],
    send: Send,
) -> int:
    """Append the lines that the ledger lacks; return the number of the last round.

    Parameters
    ----------
    ledger : Ledger
        Grows by the lines.
    roster : Roster
        Whose keys must have sealed them.
    study : str
        Name of the study.
    offers : mapping of str to Message
        Replies to "join", by party; "lines" in them is the length of the party's log.
    send : callable
        Sends parties a message and returns their replies.

    Returns
    -------
    int
        0 where no line was lacking.

    Raises
    ------
    AggregationError
        When a party has fewer lines than the ledger has under its key: its audit log
        was cut; or when a line is not one of this study, sealed by the party.
    """
    queues: dict[str, deque[Release]] = {}
    for party, offer in offers.items():
        known = ledger.n_sealed(study, party, roster[party].hex())
        lines = offer.header["lines"]
        if type(lines) is not int or lines > known + _MOST_LINES:
            raise _unreadable(party, study)
        if lines < known:
            raise AggregationError(
                f"{party}'s audit log has fewer lines of {study} than the ledger has "
                f"under its key: it was cut, or restored from an older backup.",
                rule="audit_log",
            )
        queues[party] = deque()
        while (after := known + len(queues[party])) < lines:
            count = min(lines - after, LINES_OF_A_REPLY)
            header = {"kind": "recall", "study": study, "after": after}
            reply = send(header, parties=[party])[party]
            queues[party] += _lines_in(
                reply, roster, study, party, first=after, count=count
            )
    last = 0
    while heads := {party: queue[0] for party, queue in queues.items() if queue}:
        earliest = min(heads.values(), key=lambda line: line.round)
        same = [p for p, line in heads.items() if _body(line) == _body(earliest)]
        seals = {party: queues[party].popleft().seals[party] for party in same}
        ledger.append(changed(earliest, parties=tuple(same)), seals)
        last = max(last, earliest.round)
    return last


def _lines_in(
    reply: Message, roster: Roster, study: str, party: str, *, first: int, count: int
) -> list[Release]:
    """Return a reply's `count` lines, sealed with the numbers from `first` on."""
    lines = []
    try:
        records = reply.header["lines"]
        if len(records) != count:
            raise ValueError("another number of lines than the reply to join had")
        for sequence, record in enumerate(records, first):
            line = Release.from_record(record)
            seal = line.seals[party]
            if (line.study, seal.sequence) != (study, sequence):
                raise ValueError("another line than was requested")
            if line.visibility not in VISIBILITIES or not 0 < line.round < 2**31:
                raise ValueError("a line that no round could have written")
            if bytes.fromhex(seal.key) != roster[party]:
                raise ValueError("sealed under another key")
            statement = line.statement(party, sequence, seal.digest, seal.library)
            roster.check(party, statement, bytes.fromhex(seal.signature))
            lines.append(line)
    except (KeyError, TypeError, ValueError, StudyError) as wrong:
        raise _unreadable(party, study) from wrong
    return lines


def _unreadable(party: str, study: str) -> AggregationError:
    return AggregationError(
        f"{party} did not return the lines of {study} in its audit log.",
        rule="malformed_message",
    )


def _body(line: Release) -> bytes:
    return line.statement("", 0, "")
