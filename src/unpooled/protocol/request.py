"""A request to run a step, and its form as a message."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, final

import numpy as np

from unpooled.arrays import Array, Shaped
from unpooled.errors import AggregationError
from unpooled.ledger import canonical
from unpooled.protocol.answered import Answered
from unpooled.protocol.following import Call, OpenedRound, arrays_after
from unpooled.protocol.message import Message, digest
from unpooled.protocol.neighbour_messages import Sealed
from unpooled.protocol.topology import Graph, graph_of
from unpooled.protocol.view_operations import (
    Derive,
    Operation,
    array_digest,
    array_key,
    features_digest,
    operation_from_json,
    public_record,
    rows_digest,
    split_address,
    view_digest,
)

# Prefix of neighbours' arrays in a message.
_INBOX = "inbox."


@final
@dataclass(frozen=True, eq=False)
class Veiled:
    """A total that only the parties can open; to the coordinator it is noise.

    Passing it as a public argument of a later step hands it to the parties, who open
    it. `release` names it by the context of its masks: a round may give several of one
    name. `shape` is that of the total; a request that arrives does not have it.
    """

    release: str
    shape: tuple[int, ...]
    words: Shaped[Array, "..."]
    code: str


@final
@dataclass(frozen=True)
class Request:
    """A request to run a step, the same to every party of a round.

    Attributes
    ----------
    study, session : str
        The study, and the fit (with keys of its own) within it.
    round : int
        Counted from 1 over the study.
    step : str
        Name of a declared step.
    to : str
        "coordinator" or "parties": which end may open the totals.
    operations : tuple of Operation
        The view that the step reads.
    public : mapping
        Public arguments: JSON values, arrays, or `Veiled` totals.
    fresh : frozenset of str
        Keys of transform arrays that come with this request; others came before.
    kept_of : str
        The fit whose kept arrays the step reads (`kept_address`); empty: this one.
    calls : tuple of Call
        With the first request of a session whose silos follow: what they repeat. The
        last one makes the request; those before it made none.
    opened : tuple of OpenedRound
        Where the silos follow: what the rounds before gave.
    topology : mapping of str to tuple of str, optional
        For an exchanged step, the neighbours of each party.
    inbox : mapping of str to Sealed
        The sealed arrays of neighbours from the last such round, by release.
    digests : mapping of str to str
        Digests of public arrays, as the message that brought them was checked against.
    """

    study: str
    session: str
    round: int
    step: str
    to: str
    operations: tuple[Operation, ...]
    public: Mapping[str, Any]
    fresh: frozenset[str] = frozenset()
    kept_of: str = ""
    calls: tuple[Call, ...] = ()
    opened: tuple[OpenedRound, ...] = ()
    topology: Graph | None = None
    inbox: Mapping[str, Sealed] = field(default_factory=dict)
    digests: Mapping[str, str] = field(default_factory=dict, compare=False)

    @classmethod
    def between_silos(
        cls, step: str, study: str, session: str, number: int
    ) -> "Request":
        """Return the request of a step of the protocol, which reads no view."""
        return cls(
            study=study,
            session=session,
            round=number,
            step=step,
            to="parties",
            operations=(),
            public={},
        )

    @cached_property
    def view_digest(self) -> str:
        """A name for the view: equal for equal operations and arrays."""
        # Read with every release, and long to compute for a view of many columns.
        return view_digest(self.operations)

    def context(self, name: str) -> bytes:
        """Return the context that separates the masks of this release from all others.

        The arguments are part of it, so that masks do not cancel where parties received
        different ones. Otherwise a coordinator could make all parties but one answer
        zeros.
        """
        where = [self.study, self.session, self.round, self.step, self.to]
        return canonical([*where, self.view_digest, self._arguments, name])

    def veiled_name(self, name: str) -> str:
        """Return the name of a total of this round, as `Veiled` has it."""
        return digest(self.context(name))

    @cached_property
    def _arguments(self) -> str:
        veiled = {
            name: [
                value.release,
                self.digests.get(name) or array_digest(value.words),
            ]
            for name, value in self.public.items()
            if isinstance(value, Veiled)
        }
        return digest(canonical([self.chosen_record, veiled, self.kept_of]))

    @property
    def chosen(self) -> dict[str, Any]:
        """The arguments that the coordinator knows: all but veiled totals."""
        return {n: v for n, v in self.public.items() if not isinstance(v, Veiled)}

    @cached_property
    def chosen_record(self) -> dict[str, Any]:
        """The same as JSON values, arrays by their digests."""
        return public_record(self.chosen, self.digests)

    def answered(
        self, n_features: int, keys: Mapping[str, str], protection: str
    ) -> Answered:
        """Return the record of the request: `keys` by party, `protection` of totals."""
        return Answered(
            study=self.study,
            session=self.session,
            round=self.round,
            step=self.step,
            view=self.view_digest,
            features=features_digest(self.operations),
            n_features=n_features,
            public=self.chosen_record,
            keys=keys,
            protection=protection,
            rows=rows_digest(self.operations),
        )

    def as_message(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Return the request as a header and arrays."""
        arrays = {
            f"view.{key}": value
            for key, value in view_arrays(self.operations).items()
            if key in self.fresh
        }
        public: dict[str, Any] = {}
        for name, value in self.public.items():
            if isinstance(value, Veiled):
                arrays[f"public.{name}"] = value.words
                public[name] = {"veiled": value.release}
            elif isinstance(value, np.ndarray):
                arrays[f"public.{name}"] = value
                public[name] = {"array": True}
            else:
                public[name] = {"value": value}
        header = {
            "kind": "step",
            "study": self.study,
            "session": self.session,
            "round": self.round,
            "step": self.step,
            "to": self.to,
            "view": [operation.written for operation in self.operations],
            "public": public,
        }
        if self.calls:
            header["calls"] = [call.as_record() for call in self.calls]
            for place, call in enumerate(self.calls):
                arrays |= call.message_arrays(place)
        if self.opened:
            header["opened"] = [opened.as_record() for opened in self.opened]
            for place, opened in enumerate(self.opened):
                arrays |= opened.arrays(place)
        if self.topology is not None:
            header["topology"] = [
                [p, list(peers)] for p, peers in self.topology.items()
            ]
        arrays |= {_INBOX + n: sealed.words for n, sealed in self.inbox.items()}
        return header | ({"kept_of": self.kept_of} if self.kept_of else {}), arrays

    @classmethod
    def from_message(cls, message: Message, known: Mapping[str, Array]) -> "Request":
        """Read a request; `known` holds transform arrays that came earlier.

        Raises
        ------
        AggregationError
            With the rule "malformed_message".
        """
        try:
            return cls._read(message, known)
        except (KeyError, TypeError, ValueError, AttributeError) as wrong:
            raise AggregationError(
                "A message is not a request to run a step.", rule="malformed_message"
            ) from wrong

    @classmethod
    def _read(cls, message: Message, known: Mapping[str, Array]) -> "Request":
        header, arrays = message.header, message.arrays
        fresh = arrays_after("view.", arrays)
        named = {key: key.rpartition(".")[2] for key in fresh}
        if any(message.digests[f"view.{key}"] != d for key, d in named.items()):
            raise ValueError("a transform's array is not the one its digest names")
        if header["to"] not in ("coordinator", "parties"):
            raise ValueError("to")
        texts = all(type(header[n]) is str for n in ("study", "session", "step"))
        if not texts or type(header["round"]) is not int:
            raise TypeError("header")
        if kept_of := header.get("kept_of", ""):
            split_address(kept_of)
        everything = {**known, **fresh}
        operations = tuple(
            operation_from_json(record, position, everything)
            for position, record in enumerate(header["view"])
        )
        # An array that nothing reads would come in without a ledger line.
        inbox = {
            name: Sealed((), (), words)
            for name, words in arrays_after(_INBOX, arrays).items()
        }
        wanted = {f"view.{key}" for key in view_arrays(operations)}
        wanted |= {f"public.{name}" for name in header["public"]}
        wanted |= {_INBOX + name for name in inbox}
        calls = tuple(
            Call.read(record, place, arrays)
            for place, record in enumerate(header.get("calls", ()))
        )
        for place, call in enumerate(calls):
            wanted |= set(call.message_arrays(place))
        opened = tuple(
            OpenedRound.read(record, place, arrays)
            for place, record in enumerate(header.get("opened", ()))
        )
        for place, one in enumerate(opened):
            wanted |= set(one.arrays(place))
        if not set(arrays) <= wanted:
            raise ValueError("an array that nothing reads")
        return cls(
            study=header["study"],
            session=header["session"],
            round=header["round"],
            step=header["step"],
            to=header["to"],
            operations=operations,
            public={
                name: _argument(record, arrays.get(f"public.{name}"))
                for name, record in header["public"].items()
            },
            fresh=frozenset(fresh),
            kept_of=kept_of,
            calls=calls,
            opened=opened,
            topology=_topology(header.get("topology")),
            inbox=inbox,
            digests={
                name: message.digests[f"public.{name}"]
                for name in header["public"]
                if f"public.{name}" in message.digests
            },
        )


def _topology(record: Any) -> Graph | None:
    if record is None:
        return None
    graph = {party: tuple(peers) for party, peers in record}
    if len(graph) != len(record):
        raise ValueError("a party stands twice")
    if graph_of(graph, tuple(graph)) != graph:
        raise ValueError("neighbours in another order")
    return graph


def _argument(record: Mapping[str, Any], array: Array | None) -> Any:
    if len(record) != 1 or ("value" in record) != (array is None):
        raise ValueError("an argument is one of three things")
    if array is None:
        return record["value"]
    if "veiled" in record:
        if type(record["veiled"]) is not str:
            raise TypeError("a veiled total")
        return Veiled(record["veiled"], (), array, "")
    if record["array"] is not True:
        raise ValueError("an argument is one of three things")
    return array


def view_arrays(operations: Sequence[Operation]) -> dict[str, Array]:
    """Return the arrays of a view's transforms by `array_key`."""
    return {
        array_key(position, name, array_digest(value)): value
        for position, operation in enumerate(operations)
        if isinstance(operation, Derive)
        for name, value in operation.arrays().items()
    }
