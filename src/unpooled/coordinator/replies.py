"""Checking replies: who signed each, which request it is for, and what it holds."""

from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import final

from unpooled.coordinator.channel import Channel
from unpooled.errors import RULES, AggregationError, DataError, ReleaseRefusedError
from unpooled.ledger import Ledger, Release, Seal
from unpooled.ledger.lines import changed
from unpooled.protocol.block_levels import COUNTED
from unpooled.protocol.library_build import is_allowed, library_build
from unpooled.protocol.matching_stages import STAGES
from unpooled.protocol.message import Framed, Message, decode, digest, size_of
from unpooled.protocol.several_steps import REPLIES, parts_of
from unpooled.secure.keys.roster import Roster

_OFFER = {"key", "signature", "head", "pinned", "lines", "library"}
# The reply to each message that is not a step: its kind, and the fields of its header
# beside those of every reply.
_ANSWERS: Mapping[str, tuple[str, set[str]]] = {
    "describe": (
        "described",
        {"columns", "categorical", "named", "label", "partition", "rows"},
    ),
    "announce": ("announced", {"approval", "library"}),
    "deliver": ("delivered", set()),
    "recall": ("recalled", {"lines"}),
    "finish": ("finished", set()),
    "join": ("offer", _OFFER),
    "agree": ("agreed", set()),
    "offer group key": ("group", {"sealed"}),
    "accept group key": ("accepted", set()),
    "share blocks": ("shared", set()),
    "offer computing": ("computing", {"port", "sealed", "key"}),
    "begin computing": ("begun", set()),
    "test computing": ("tested", set()),
    "shares": ("shared", set()),
    "signs": ("compared", {"spent", "about"}),
    "leave": ("left", set()),
    **dict.fromkeys((*COUNTED, *STAGES), ("released", {"seals"})),
    "matching.common": ("released", {"seals", "digest"}),
    "matching.check": ("released", {"seals", "digest"}),
}
_ALWAYS = {"party", "request", "kind"}
# Size in bytes from which checking a reply in a thread of its own saves time.
_LARGE = 2**20
_CHECKERS = 4
# Characters of a build's name, which goes into the ledger.
_LONGEST_BUILD = 100


@final
@dataclass(eq=False)
class Replies:
    """The replies of one exchange.

    Attributes
    ----------
    messages : dict of str to Message
        One checked reply per party that sent one, in the order of the requests.
    problem : AggregationError or None
        Why nothing may be opened. Raised only once the replies that did arrive are in
        the ledger.
    bytes_out : int
        Bytes of all replies together.
    """

    messages: dict[str, Message] = field(default_factory=dict)
    problem: AggregationError | None = None
    bytes_out: int = 0

    def take(self, party: str, check: Callable[[], Message]) -> None:
        """Add a party's reply if it passes its check, or else note the problem."""
        try:
            self.messages[party] = check()
        except AggregationError as problem:
            self.problem = self.problem or problem


def gather(
    channel: Channel,
    roster: Roster,
    requests: Mapping[str, bytes],
    step: str,
    arrived: Callable[[str], None],
) -> Replies:
    """Return the checked replies; `arrived` is called with each party that replied."""
    replies, large = Replies(), dict[str, Future[Message]]()
    # Most rounds send all parties one request, which is hashed once.
    names = dict[int, str]()

    def name_of(request: bytes) -> str:
        if (known := names.get(id(request))) is None:
            known = names[id(request)] = digest(request)
        return known

    # A large reply is hashed while the next one is on its way.
    with ThreadPoolExecutor(_CHECKERS) as checkers:
        for party, data in channel.exchange(requests):
            replies.bytes_out += size_of(data)
            twice = party in replies.messages or party in large
            if twice or party not in requests:
                replies.problem = replies.problem or AggregationError(
                    f"{party} answered {step} twice, or without a request. The round "
                    f"was not opened.",
                    rule="out_of_order",
                )
            else:
                check = partial(_checked, roster, party, name_of, requests[party], data)
                if size_of(data) < _LARGE:
                    replies.take(party, check)
                else:
                    large[party] = checkers.submit(check)
            arrived(party)
    for party, checking in large.items():
        replies.take(party, checking.result)
    missing = [party for party in requests if party not in replies.messages]
    if missing and replies.problem is None:
        replies.problem = _absence(missing, channel.cut_off, step)
    order = [party for party in requests if party in replies.messages]
    replies.messages = {party: replies.messages[party] for party in order}
    return replies


def _absence(
    missing: Sequence[str], cut_off: Collection[str], step: str
) -> AggregationError:
    """Return the error of parties that did not reply, in the name of those at fault."""
    at_fault = [party for party in missing if party not in cut_off]
    who = f"{', '.join(at_fault)} did not answer {step}."
    if not at_fault:
        who = (
            f"The exchange was ended before {', '.join(missing)} answered {step}: a "
            f"process of the job has ended, theirs or that of another party."
        )
    elif len(at_fault) < len(missing):
        others = ", ".join(party for party in missing if party in cut_off)
        who += f" The exchange with {others} was ended with it."
    return AggregationError(
        f"{who} A total is over the whole roster or it is not opened; run the fit "
        f"again when every party is back.",
        rule="absent",
    )


def replies_by_step(
    roster: Roster, requests: Sequence[bytes], replies: Replies
) -> list[dict[str, Message]]:
    """Return the checked replies to several steps of a round, by step and party.

    Parameters
    ----------
    roster : Roster
        Whose keys must have signed them.
    requests : sequence of bytes
        The steps, as they were sent.
    replies : Replies
        To the message that had them all. Gets a problem where one is not as it should
        be. A refusal of the whole message stands for one of the first step; after a
        step that it refused a party has answered none.
    """
    by_step: list[dict[str, Message]] = [{} for _ in requests]
    for party, reply in replies.messages.items():
        if reply.header.get("kind") != REPLIES:
            by_step[0][party] = reply
            continue
        try:
            parts = parts_of(reply)
            if len(parts) > len(requests):
                raise ValueError("more replies than requests")
            for place, part in enumerate(parts):
                checked = _checked(roster, party, digest, requests[place], part)
                by_step[place][party] = checked
        except (AggregationError, ValueError) as wrong:
            replies.problem = replies.problem or AggregationError(
                f"{party} did not answer the steps of the round as they were sent.",
                rule="malformed_message",
            )
            replies.problem.__cause__ = wrong
    return by_step


def log_lines(
    ledger: Ledger,
    roster: Roster,
    lines: list[tuple[Release, str]],
    replies: Mapping[str, Message],
) -> dict[str, Message]:
    """Write a round's lines, with the seals of all parties that released something.

    Parameters
    ----------
    ledger : Ledger
        Grows by the lines.
    roster : Roster
        Whose keys must have sealed them.
    lines : list of (Release, str)
        The lines, each with the name of its array in the reply.
    replies : mapping of str to Message
        The checked replies, by party.

    Returns
    -------
    dict of str to Message
        The replies of those parties.
    """
    released, seals = dict[str, Message](), dict[str, dict[int, Seal]]()
    problem: AggregationError | None = None
    for party, reply in replies.items():
        if reply.header.get("kind") != "released":
            continue
        try:
            seals[party] = _seals(roster, party, reply, lines)
            released[party] = reply
        except AggregationError as wrong:
            # The others' values have left all the same, and belong in the ledger.
            problem = problem or wrong
    for number, (line, _) in enumerate(lines):
        parties = tuple(party for party in released if party in line.parties)
        if parties:
            line_seals = {party: seals[party][number] for party in parties}
            ledger.append(changed(line, parties=parties), line_seals)
    if problem:
        raise problem
    return released


def raise_refusals(
    step: str,
    replies: Mapping[str, Message],
    explain: Callable[[str, str], str] | None = None,
) -> None:
    """Raise the error of the first party that did not carry out its request.

    Parameters
    ----------
    step : str
        What was requested.
    replies : mapping of str to Message
        By party.
    explain : callable, optional
        Maps a party and a rule to a further sentence, where parties are simulated.
    """
    kind, names = _ANSWERS.get(step, ("released", {"seals", "origins"}))
    # Only a party that does not compute has shares, for those that do; and checks of
    # its words where it follows the program.
    further = {"shares", "checks"} if "." in step else set[str]()
    for party, reply in replies.items():
        known = set(reply.header) - further
        if reply.header.get("kind") == kind and known == _ALWAYS | names:
            continue
        if reply.header.get("kind") != "refused":
            raise AggregationError(
                f"{party} answered {step} with a message that is no reply to it.",
                rule="malformed_message",
            )
        rule = str(reply.header.get("rule"))
        rule = rule if rule in RULES else "failed_in_silo"
        sentence, remedy = RULES[rule]
        text = f"{party} could not answer {step}: {rule} ({sentence}). {remedy}"
        if reply.header.get("error") == "DataError":
            raise DataError(text, rule=rule)
        if reply.header.get("error") == "AggregationError":
            raise AggregationError(text, rule=rule)
        more = "" if explain is None else explain(party, rule)
        raise ReleaseRefusedError(party, step, rule, f"{remedy} {more}".strip())


def check_builds(
    study: str, replies: Mapping[str, Message], allowed: Sequence[str]
) -> dict[str, str]:
    """Return each party's build of the library; refuse one that is not allowed.

    Parameters
    ----------
    study : str
        Name of the study.
    replies : mapping of str to Message
        Replies that state the party's build, by party.
    allowed : sequence of str
        Builds that the study's text lists.
    """
    builds = {party: str(reply.header["library"]) for party, reply in replies.items()}
    for party, build in builds.items():
        if not is_allowed(build, allowed):
            remedy = (
                f"{party} has {build[:_LONGEST_BUILD]}, the coordinator's end has "
                f"{library_build()}. {RULES['version'][1]}"
            )
            raise ReleaseRefusedError(party, f"the study {study}", "version", remedy)
    return builds


def check_origins(step: str, replies: Mapping[str, Message]) -> None:
    """Refuse to open totals of arrays that the silos kept in different rounds.

    The masks would not cancel, and 64 bits of noise may look like a total. It happens
    where a fit ended after one silo had kept its arrays and before another had.
    """
    if len({str(reply.header["origins"]) for reply in replies.values()}) > 1:
        raise AggregationError(
            f"The silos did not keep in the same rounds what {step} reads. Fit the "
            f"model again; a fit that was stopped half-way left some of them behind.",
            rule="out_of_order",
        )


def _checked(
    roster: Roster,
    party: str,
    name_of: Callable[[bytes], str],
    request: bytes,
    reply: Framed,
) -> Message:
    message = decode(reply, roster, party)
    header = message.header
    if header.get("party") != party or header.get("request") != name_of(request):
        raise AggregationError(
            f"A reply of {party} belongs to another request. The round was not opened.",
            rule="out_of_order",
        )
    return message


def _seals(
    roster: Roster, party: str, reply: Message, lines: list[tuple[Release, str]]
) -> dict[int, Seal]:
    """Return a party's seals, by the place of its lines among those of the round."""
    seals = {}
    of_party = [
        (number, line, source)
        for number, (line, source) in enumerate(lines)
        if party in line.parties
    ]
    try:
        records = reply.header["seals"]
        # The shares of a comparison go to the other parties: no array in the reply.
        sources = {s for _, line, s in of_party if line.direction == "out" and s}
        if set(reply.arrays) != sources:
            raise ValueError("other arrays than are declared")
        for (number, line, source), record in zip(of_party, records, strict=True):
            sequence, content, signature, library = record
            if type(sequence) is not int or type(content) is not str:
                raise TypeError("a seal")
            if type(library) is not str or not 0 < len(library) <= _LONGEST_BUILD:
                raise TypeError("a build of the library")
            statement = line.statement(party, sequence, content, library)
            roster.check(party, statement, bytes.fromhex(signature))
            if source in sources and content != reply.digests.get(source):
                raise AggregationError(
                    f"{party} sealed another array than it sent.",
                    rule="wrong_signature",
                )
            key = roster[party].hex()
            seals[number] = Seal(key, sequence, content, signature, library)
    except (KeyError, TypeError, ValueError) as wrong:
        raise AggregationError(
            f"{party} did not seal every line of the round.", rule="malformed_message"
        ) from wrong
    return seals
