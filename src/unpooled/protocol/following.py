"""Messages to each silo from which it can follow a study's program by itself.

    first request of a session   the call: which method, of which model, on which view
    every request                what the round before gave: the words of its totals,
                                 the silos' sealed sums of their own words, and the
                                 decompositions that the coordinator computed from them

A silo makes the same call on totals that it checked, and so computes the request that
must come now (`Expected`). A request that differs in a single bit is refused.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np

from unpooled.arrays import Array
from unpooled.ledger import canonical
from unpooled.linalg.settled import Hint
from unpooled.protocol.message import digest
from unpooled.protocol.topology import Graph
from unpooled.protocol.view_operations import Operation, array_digest, view_digest

# In a model's record: the state of a stopped search that a fit continues.
REACHED = "reached"
_MODEL, WORDS, _HINT = "model.", "opened.", "hint."


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class Call:
    """A call of a model's method on a view of a federation.

    Attributes
    ----------
    method : str
        "fit", "update", "transform", ...
    model : mapping
        The model as a record: class, parameters and what was fitted of it before.
    arrays : mapping of str to array
        The record's arrays.
    arguments : mapping of str to JSON value
        Arguments of the method, beside the view.
    view : tuple of mapping
        The view's operations as they travel, arrays by their digests.
    columns : tuple of (str, list of str or int)
        The view's columns by party, in the study's order; on a column partition their
        numbers, since no silo knows the others' names.
    n_rows : int or None
        N on a column partition.
    named : bool
        Whether the columns' names came with the data.
    label : str or None
        The federation's label.
    random_state : int or None
        The federation's seed.
    """

    method: str
    model: Mapping[str, Any]
    arrays: Mapping[str, Array]
    arguments: Mapping[str, Any]
    view: tuple[Mapping[str, Any], ...]
    columns: tuple[tuple[str, Any], ...]
    n_rows: int | None
    named: bool
    label: str | None
    random_state: int | None

    def as_record(self) -> dict[str, Any]:
        """Return JSON values; the arrays stand beside them."""
        names = set(self.__dataclass_fields__) - {"arrays"}
        record = {name: getattr(self, name) for name in sorted(names)}
        columns = [list(pair) for pair in self.columns]
        return record | {"view": list(self.view), "columns": columns}

    def message_arrays(self, place: int) -> dict[str, Array]:
        """Return the arrays by their names in a message that has several calls.

        Parameters
        ----------
        place : int
            The call's place among them.
        """
        names = sorted(self.arrays)
        return {f"{_MODEL}{place}.{name}": self.arrays[name] for name in names}

    @classmethod
    def read(
        cls, record: Mapping[str, Any], place: int, arrays: Mapping[str, Array]
    ) -> "Call":
        """Read a call; anything else is a KeyError, TypeError or ValueError."""
        names = set(cls.__dataclass_fields__) - {"arrays"}
        if set(record) != names:
            raise ValueError("a call")
        mappings = ("model", "arguments")
        if not all(isinstance(record[name], Mapping) for name in mappings):
            raise TypeError("a call")
        lists = {
            "view": tuple(record["view"]),
            "columns": tuple((str(party), of) for party, of in record["columns"]),
        }
        own = arrays_after(f"{_MODEL}{place}.", arrays)
        return cls(**{**record, **lists}, arrays=own)


def arrays_after(prefix: str, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Return the arrays whose names begin with `prefix`, by the rest of their names."""
    return {
        name.removeprefix(prefix): array
        for name, array in arrays.items()
        if name.startswith(prefix)
    }


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class OpenedRound:
    """Results of one round, and of the coordinator's decompositions after it.

    Attributes
    ----------
    session, round, step : str, int, str
        The round; another session's where a call has ended with it.
    to : {"coordinator", "parties"}
        Who can open its totals.
    words : mapping of str to array
        The words of each total of a summed step; each party's array of a disclosed
        one, as ``party/name``; what the computing parties opened of a compared or a
        computed one.
    sealed : mapping of str to mapping of str to str
        By party and name, the party's sealed sums of its own words, hexadecimal.
    signed : mapping of str to (bytes, bytes)
        For disclosed values, and for what computing parties opened: the text that each
        party signed, and its signature.
    hints : sequence of Hint
        Decompositions, in the order in which the program computes them.
    """

    session: str
    round: int
    step: str
    to: str = "coordinator"
    words: Mapping[str, Array] = field(default_factory=dict)
    sealed: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    signed: Mapping[str, tuple[bytes, bytes]] = field(default_factory=dict)
    hints: Sequence[Hint] = ()

    def arrays(self, place: int) -> dict[str, Array]:
        """Return all arrays by their names in a message about several rounds.

        Parameters
        ----------
        place : int
            The round's place among them.
        """
        words = {
            f"{WORDS}{place}.{name}": self.words[name] for name in sorted(self.words)
        }
        hints = {
            f"{_HINT}{place}.{number}.{name}.{key}": arrays[key]
            for number, hint in enumerate(self.hints)
            for name, arrays in hint.items()
            for key in sorted(arrays)
        }
        return words | hints

    def as_record(self) -> dict[str, Any]:
        """Return JSON values; the arrays stand beside them."""
        signed = {
            party: [front.decode("ascii"), signature.hex()]
            for party, (front, signature) in self.signed.items()
        }
        return {
            "session": self.session,
            "round": self.round,
            "step": self.step,
            "to": self.to,
            "words": sorted(self.words),
            "sealed": {party: dict(sums) for party, sums in self.sealed.items()},
            "signed": signed,
            "hints": [
                [name, {key: np.shape(value) for key, value in arrays.items()}]
                for hint in self.hints
                for name, arrays in hint.items()
            ],
        }

    @classmethod
    def read(
        cls, record: Mapping[str, Any], place: int, arrays: Mapping[str, Array]
    ) -> "OpenedRound":
        """Read a record; a wrong one is a KeyError, TypeError or ValueError."""
        if type(record["round"]) is not int:
            raise TypeError("a round")
        return cls(
            session=str(record["session"]),
            round=record["round"],
            step=str(record["step"]),
            to=str(record["to"]),
            words={
                str(name): arrays[f"{WORDS}{place}.{name}"] for name in record["words"]
            },
            sealed={
                str(party): {str(name): str(sums) for name, sums in by_name.items()}
                for party, by_name in record["sealed"].items()
            },
            signed={
                str(party): (front.encode("ascii"), bytes.fromhex(signature))
                for party, (front, signature) in record["signed"].items()
            },
            # A number travels as an array of one.
            hints=[
                {
                    str(name): {
                        str(key): arrays[
                            f"{_HINT}{place}.{number}.{name}.{key}"
                        ].reshape(shape)
                        for key, shape in shapes.items()
                    }
                }
                for number, (name, shapes) in enumerate(record["hints"])
            ],
        )


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class Expected:
    """The request that a program makes next.

    Attributes
    ----------
    step, to, operations, public, kept_of, topology
        As of `Request`.
    """

    step: str
    to: str
    operations: Sequence[Operation]
    public: Mapping[str, Any]
    kept_of: str
    topology: Graph | None

    @classmethod
    def of(cls, step: str, asked: Any) -> "Expected":
        """Return it of a `StepCall` or a `Request`, which have the same fields."""
        return cls(
            step=step,
            to=asked.to,
            operations=asked.operations,
            public=asked.public,
            kept_of=asked.kept_of,
            topology=asked.topology,
        )

    def record(self, arguments: Mapping[str, Any]) -> bytes:
        """Return all of it as bytes: equal for equal requests, bit for bit."""
        topology = self.topology and sorted(self.topology.items())
        view = view_digest(self.operations)
        return canonical(
            [self.step, self.to, view, dict(arguments), self.kept_of, topology]
        )


def model_digest(record: Mapping[str, Any], arrays: Mapping[str, Array]) -> str:
    """Name a model: equal for equal parameters and fitted attributes, bit for bit."""
    digests = {name: array_digest(np.asarray(a)) for name, a in arrays.items()}
    return digest(canonical([record, digests]))
