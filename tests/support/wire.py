"""What an adversary holds: the wire between the ends, and a coordinator of its own.

`Wire` stands in a coordinator's channel and sees, drops or alters all that passes.
`Rogue` is a coordinator that keeps no rule: it says what it likes at the silos' doors.
"""

import itertools
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Protocol, final

import numpy as np

from unpooled.arrays import Array
from unpooled.coordinator.channel import Channel
from unpooled.coordinator.coordinator import Coordinator
from unpooled.federation.federation import Federation
from unpooled.federation.local import in_one_process
from unpooled.ledger import Ledger
from unpooled.party.party import Party
from unpooled.protocol.block_levels import COUNTED
from unpooled.protocol.library_build import library_build
from unpooled.protocol.message import Message, decode, encode, joined
from unpooled.protocol.request import Request, view_arrays
from unpooled.protocol.step import find_step
from unpooled.protocol.view_operations import Operation, Rows, Select
from unpooled.protocol.wire_format import WireFormat
from unpooled.secure.keys.roster import Roster
from unpooled.secure.sums.masking import MaskedSum
from unpooled.secure.sums.plain import PlainSum

COLUMNS = ("x0", "x1", "x2")
# Of silos that a test asks one thing after another: limits on how much is asked have
# tests of their own, with `policy={}`.
PATIENT: Mapping[str, Any] = MappingProxyType(
    {"max_refusals": math.inf, "max_released_share": math.inf}
)
_sessions = itertools.count()


def rows(n: int = 30, p: int = 3, seed: int = 0) -> Array:
    """Rows of one silo."""
    return np.random.default_rng(seed).standard_normal((n, p)) + 5.0


def kind(data: bytes) -> str:
    """What a message is."""
    return decode(data).header["kind"]


@final
class Wire(Channel):
    """A channel that shows everything and lets an adversary change it.

    Attributes
    ----------
    sent, received : list of (str, bytes)
        What passed, as the adversary took it.
    on_request : callable
        From (party, request) to the request that the party gets; None drops it.
    on_replies : callable
        From the list of (party, reply) of an exchange to the one that arrives.
    """

    def __init__(self, inner: Channel) -> None:
        self.parties, self._inner = inner.parties, inner
        self.sent: list[tuple[str, bytes]] = []
        self.received: list[tuple[str, bytes]] = []
        self.on_request: Callable[[str, bytes], bytes | None] = lambda _, data: data
        self.on_replies: Callable[
            [list[tuple[str, bytes]]], list[tuple[str, bytes]]
        ] = lambda replies: replies

    def exchange(self, requests: Mapping[str, bytes]) -> Iterator[tuple[str, bytes]]:
        """Carry an exchange through the adversary's hands."""
        asked = {}
        for party, data in requests.items():
            self.sent.append((party, data))
            altered = self.on_request(party, data)
            if altered is not None:
                asked[party] = altered
        replies = [(name, joined(data)) for name, data in self._inner.exchange(asked)]
        self.received += replies
        yield from self.on_replies(replies)

    def of_kind(self, wanted: str) -> list[tuple[str, bytes]]:
        """Return the replies of one kind."""
        return [(party, data) for party, data in self.received if kind(data) == wanted]


@final
@dataclass(eq=False)
class Silos:
    """Both ends of a federation in one process, with the wire between them."""

    federation: Federation
    parties: dict[str, Party]
    wire: Wire
    roster: Roster

    @property
    def ledger(self) -> Ledger:
        """The coordinator's."""
        return self.federation.ledger

    def answers(self, requests: Mapping[str, bytes]) -> dict[str, bytes]:
        """Knock at doors."""
        return {p: joined(self.parties[p].handle(data)) for p, data in requests.items()}


class Doors(Protocol):
    """What a coordinator needs of silos, wherever they are.

    Attributes
    ----------
    parties : collection of str
        Their names.
    roster : Roster
        Their public keys.
    """

    @property
    def parties(self) -> Collection[str]: ...

    @property
    def roster(self) -> Roster: ...

    def answers(self, requests: Mapping[str, bytes]) -> dict[str, bytes]:
        """Knock at doors; return what they say."""
        ...


def silos(tables: Any = None, **options: Any) -> Silos:
    """Make three silos, or those of `tables`, on a wire."""
    tables = tables or {name: rows(seed=i) for i, name in enumerate("abc")}
    settings = {
        "partition": "rows",
        "label": None,
        "ids": None,
        "secure_sum": "masked",
        "policy": PATIENT,
        "random_state": None,
        "study": "study",
        "aligned": False,
    }
    federation, parties = in_one_process(tables, **(settings | options))
    coordinator = federation.coordinator
    assert isinstance(coordinator, Coordinator)
    # What real silos would keep to themselves is not said here either.
    coordinator.explain = None
    wire = Wire(coordinator.channel)
    coordinator.channel = wire
    return Silos(federation, parties, wire, coordinator.roster)


@final
class Rogue:
    """A coordinator that keeps no rule.

    Parameters
    ----------
    silos : Doors
        Where it knocks.
    names : sequence of str, optional
        The parties of its study; all.
    listed : sequence of str, optional
        The parties it says there are.
    study, session, protection, partition : str
        What it says these are; a session of its own.
    columns : tuple of str
        Those of a view, where nothing else is said.
    """

    def __init__(
        self,
        silos: Doors,
        names: Sequence[str] | None = None,
        *,
        listed: Sequence[str] | None = None,
        study: str = "study",
        session: str = "",
        protection: str = "masked",
        partition: str = "rows",
        columns: tuple[str, ...] = COLUMNS,
    ) -> None:
        self.partition, self.columns = partition, columns
        self.silos, self.names = silos, list(names or silos.parties)
        self.listed = list(listed or self.names)
        session = session or f"rogue {next(_sessions)}"
        self.where = {"study": study, "session": session}
        self.protection, self.round = protection, 0
        self._has_blocks = False

    def say(
        self, party: str, header: Mapping[str, Any], arrays: Mapping[str, Array] = {}
    ) -> Message:
        """Send one message and return the reply."""
        return self._say([party], header, arrays)[party]

    def _say(
        self, names: Sequence[str], header: Mapping[str, Any], arrays: Mapping
    ) -> dict[str, Message]:
        data = encode(header, arrays)
        replies = self.silos.answers(dict.fromkeys(names, data))
        return {name: decode(replies[name], self.silos.roster, name) for name in names}

    def ask_all(self, header: Mapping[str, Any]) -> dict[str, Message]:
        """Send every party of the study the same message."""
        return self._say(self.names, {**self.where, **header}, {})

    def join(self) -> dict[str, Message]:
        """Ask for offers."""
        pinned = {name: self.silos.roster[name] for name in set(self.listed)}
        header = {"parties": self.listed, "roster": Roster(pinned).digest()}
        header |= {"partition": self.partition, "library": library_build()}
        return self.ask_all({"kind": "join", "protection": self.protection, **header})

    def agree(self, offers: Mapping[str, Message]) -> dict[str, Message]:
        """Hand the offers round."""
        names = ("key", "signature", "head")
        keys = {p: [m.header[name] for name in names] for p, m in offers.items()}
        return {
            party: self.say(
                party,
                {
                    "kind": "agree",
                    **self.where,
                    "offers": keys,
                    "seen": {
                        p: m.header["pinned"].get(party, "") for p, m in offers.items()
                    },
                },
            )
            for party in self.names
        }

    def enter(self) -> "Rogue":
        """Join and agree, as a coordinator that means well."""
        replies = self.agree(self.join())
        assert {reply.header["kind"] for reply in replies.values()} == {"agreed"}
        return self

    def share_blocks(self) -> None:
        """Have the silos count blocks and their rows, as before every selection."""
        leader, *others = sorted(self.names)
        if self.protection == "masked":
            sealed = self.say(leader, {"kind": "offer group key", **self.where})
            key = {"leader": leader, "sealed": sealed.header.get("sealed", {})}
            for name in others:
                self.say(name, {"kind": "accept group key", **self.where, **key})
        for step in COUNTED.values():
            self.round += 1
            asked = {"kind": "count blocks", "round": self.round, "step": step.name}
            counted = self.ask_all(asked)
            if any(reply.header["kind"] == "refused" for reply in counted.values()):
                return
            ((name, declared),) = step.declared.items()
            parts = [reply.arrays[name] for reply in counted.values()]
            masked = self.protection == "masked"
            secure = MaskedSum() if masked else PlainSum()
            code = WireFormat.of(declared, {}, {}).code(len(parts))
            words = secure.added(parts, code) if masked else sum(parts)
            sealed = {p: r.header.get("checks", {}).get(name, "")
                      for p, r in counted.items()}  # fmt: skip
            header = {"kind": "share blocks", **self.where, "sealed": sealed}
            self._say(self.names, header, {name: words})

    def request(
        self,
        step: str,
        public: Mapping[str, Any] | None = None,
        operations: tuple[Operation, ...] | None = None,
        to: str = "coordinator",
    ) -> Request:
        """Make the request of the next round."""
        selects = any(isinstance(one, Rows) for one in operations or ())
        if selects and self.partition == "rows" and not self._has_blocks:
            self._has_blocks = True
            self.share_blocks()
        self.round += 1
        if operations is None:
            operations = (Select(self.columns),)
        fresh = frozenset(view_arrays(operations))
        where = (self.where["study"], self.where["session"], self.round)
        return Request(*where, step, to, operations, dict(public or {}), fresh)

    def step(self, step: str, *rest: Any, **more: Any) -> dict[str, Message]:
        """Run a step, with the arguments of `request`, and return every reply."""
        header, arrays = self.request(step, *rest, **more).as_message()
        return self._say(self.names, header, arrays)

    def rules(self, step: str, *rest: Any, **more: Any) -> dict[str, str]:
        """Run a step and return the rule under which each party refused, if it did."""
        replies = self.step(step, *rest, **more)
        return {p: reply.header.get("rule", "") for p, reply in replies.items()}

    def totals(self, step: str, *rest: Any, **more: Any) -> dict[str, Array]:
        """Run a step and open what it gave."""
        request = self.request(step, *rest, **more)
        header, arrays = request.as_message()
        said = self._say(self.names, header, arrays)
        replies = [said[party] for party in self.names]
        declared = find_step(step)
        return {
            name: _opened(self, replies, name, declared.declared[name], request)
            for name in declared.leaves
        }

    def observed(
        self, model: str, operations: tuple[Operation, ...] | None = None
    ) -> dict[str, Array]:
        """Run the first two rounds of an imputer or scaler: counts, then sums."""
        counts = self.totals(f"{model}.local_counts", None, operations)
        told = {"count": np.rint(counts["count"])}
        return told | self.totals(f"{model}.local_observed", told, operations)


def _opened(
    rogue: Rogue, replies: list[Message], name: str, declared: Any, request: Request
) -> Array:
    parts = [reply.arrays[name] for reply in replies]
    p = len(COLUMNS)
    for operation in request.operations:
        p = len(getattr(operation, "columns", range(p)))
    sizes = find_step(request.step).sizes(p, request.public)
    form = WireFormat.of(declared, sizes, request.public)
    code = form.code(len(set(rogue.listed)))
    if rogue.protection == "masked":
        return form.restored(code.decode(MaskedSum().added(parts, code)))
    return form.restored(PlainSum().added(parts, code))
