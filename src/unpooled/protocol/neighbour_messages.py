"""Arrays that neighbours exchange, sealed for one receiver each.

    sender       array ─ float64 ─ sealed under the pair's key, by neighbour ─> reply
    coordinator  cuts the replies, and joins the pieces of each receiver
    receiver     request ─ opened, checked ─> inbox: party -> {name: array}

A sealed array opens in one place only: the same study, session, round, step, view,
release, graph, sender and receiver. A coordinator that repeats, swaps, cuts or changes
a message is noticed, and cannot read one.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import final

import numpy as np

from unpooled.arrays import Array, Float, UInt8
from unpooled.ledger import canonical
from unpooled.protocol.refusal import Refusal
from unpooled.protocol.topology import Graph
from unpooled.secure.keys.agreement import SEAL_BYTES, open_sealed, seal_for

RULE = "sealed_message"


@final
@dataclass(frozen=True, eq=False)
class Sealed:
    """The arrays of one release that neighbours sealed for one party, in turn.

    Attributes
    ----------
    shape : tuple of int
        Shape of each neighbour's array; unknown, and empty, while it travels.
    peers : tuple of str
        The neighbours in the graph's order; likewise.
    words : (bytes,) array
        The sealed arrays, joined.
    """

    shape: tuple[int, ...]
    peers: tuple[str, ...]
    words: UInt8[Array, " _"]


@final
class Inbox(Mapping[str, Mapping[str, Array]]):
    """The `inbox` of a step: arrays by party and name, the party's own included.

    Attributes
    ----------
    party : str
        The party that received it.
    """

    def __init__(
        self, party: str, values: Mapping[str, Mapping[str, Array]] | None = None
    ) -> None:
        self.party, self._values = party, dict(values or {})

    def __getitem__(self, party: str) -> Mapping[str, Array]:
        return self._values[party]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    @property
    def own(self) -> Mapping[str, Array]:
        """The arrays that this party sent itself."""
        return self._values[self.party]


def sealed_size(shape: tuple[int, ...]) -> int:
    """Return the bytes of one array of this shape, sealed."""
    return 8 * int(np.prod(shape, dtype=int)) + SEAL_BYTES


@final
@dataclass(frozen=True, eq=False)
class Exchange:
    """One party's end of one round in which neighbours exchange arrays.

    Attributes
    ----------
    party : str
        This party.
    keys : mapping of str to bytes
        Shared with every other party, for this session.
    graph : mapping of str to tuple of str
        Neighbours by party.
    contexts : mapping of str to bytes
        By release: separates it from all others of all rounds.
    own : mapping of str to array
        The arrays that this party sends.
    """

    party: str
    keys: Mapping[str, bytes]
    graph: Graph
    contexts: Mapping[str, bytes]
    own: Mapping[str, Float[Array, "..."]]

    def sealed(self, name: str) -> UInt8[Array, " _"]:
        """Return one array, sealed for each neighbour in turn."""
        data = np.ascontiguousarray(self.own[name], "<f8").tobytes()
        pieces = [
            seal_for(self.keys[peer], data, self._about(name, self.party, peer))
            for peer in self.graph[self.party]
        ]
        return np.frombuffer(b"".join(pieces), np.uint8)

    def described(self, inbox: Mapping[str, Sealed]) -> dict[str, Sealed]:
        """Return the sealed arrays with the shapes and senders that they must have.

        Raises
        ------
        Refusal
            With "sealed_message", when arrays are missing or of another size.
        """
        if set(inbox) != set(self.own):
            raise Refusal(RULE)
        peers = self.graph[self.party]
        described = {}
        for name, value in self.own.items():
            words = inbox[name].words
            if words.dtype != np.uint8 or words.ndim != 1:
                raise Refusal(RULE)
            if len(words) != len(peers) * sealed_size(value.shape):
                raise Refusal(RULE)
            described[name] = Sealed(value.shape, peers, words)
        return described

    def opened(self, inbox: Mapping[str, Sealed]) -> Inbox:
        """Return the neighbours' arrays and the party's own.

        Raises
        ------
        AggregationError, Refusal
            With "sealed_message", when something was changed, repeated or swapped.
        """
        values: dict[str, dict[str, Array]] = {
            party: {} for party in self.graph if party in self._circle()
        }
        for name, value in self.own.items():
            values[self.party][name] = value
            size, sealed = sealed_size(value.shape), inbox[name]
            for place, peer in enumerate(sealed.peers):
                piece = sealed.words[place * size : (place + 1) * size].tobytes()
                about = self._about(name, peer, self.party)
                data = open_sealed(self.keys[peer], piece, about, rule=RULE)
                array = np.frombuffer(data, "<f8").reshape(value.shape)
                if not np.isfinite(array).all():
                    raise Refusal(RULE)
                values[peer][name] = array
        return Inbox(self.party, values)

    def _circle(self) -> set[str]:
        return {self.party, *self.graph[self.party]}

    def _about(self, name: str, sender: str, receiver: str) -> bytes:
        graph = [[party, list(peers)] for party, peers in self.graph.items()]
        where = self.contexts[name].decode()
        return canonical(["exchange", where, graph, sender, receiver])
