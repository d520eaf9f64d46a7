"""Operations of a view: which columns, which rows, which transforms, as they travel.

Data only: names, numbers, and the arrays of fitted transforms on the side. A silo
evaluates them in `unpooled.party.views.view`.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np

from unpooled.arrays import Array, Bool
from unpooled.ledger import canonical
from unpooled.protocol.message import digest

# Rows are assigned to folds within stretches of this length, so that the memory this
# takes does not grow with the table.
_STRETCH = 10_000


@final
@dataclass(frozen=True)
class Select:
    """Keep some columns, in this order."""

    columns: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """Return the operation as it travels."""
        return {"operation": "select", "columns": list(self.columns)}


@final
@dataclass(frozen=True)
class Rows:
    """Keep the rows whose rank in their stretch, after shuffling, is in one part.

    Attributes
    ----------
    fold, of : int
        With ``of > 0``: ranks equal to `fold` modulo `of` are the part.
    share : float
        With ``of == 0``: the first ``ceil(share * length)`` ranks are the part.
    complement : bool
        Keep the other rows.
    seed : int
        Of the shuffle; -1 keeps the table's order.
    """

    fold: int
    of: int
    share: float
    complement: bool
    seed: int

    def as_json(self) -> dict[str, Any]:
        """Return the operation as it travels."""
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {"operation": "rows", **values}

    def chosen(self, start: int, stop: int, n_rows: int) -> Bool[Array, " n"]:
        """Return which of the rows from `start` to `stop` are kept."""
        parts = []
        for stretch in range(start // _STRETCH, math.ceil(stop / _STRETCH)):
            first = stretch * _STRETCH
            kept = self._of_stretch(stretch, min(_STRETCH, n_rows - first))
            parts.append(kept[max(start - first, 0) : stop - first])
        return np.concatenate(parts) if parts else np.zeros(0, bool)

    def count(self, n_rows: int) -> int:
        """Return the number of rows kept out of `n_rows`."""
        full, rest = divmod(n_rows, _STRETCH)
        return sum(
            times * int(self._of_stretch(0, length).sum())
            for times, length in ((full, _STRETCH), (1, rest))
            if times and length
        )

    def _of_stretch(self, stretch: int, length: int) -> Bool[Array, " n"]:
        ranks = np.arange(length)
        if self.seed >= 0:
            ranks = np.random.default_rng([self.seed, stretch]).permutation(length)
        if self.of:
            part = ranks % self.of == self.fold
        else:
            part = ranks < math.ceil(self.share * length)
        return ~part if self.complement else part


@final
@dataclass(frozen=True)
class Derive:
    """Apply a fitted transform: a derived step with its public arguments.

    Attributes
    ----------
    step : str
        Its name.
    columns : tuple of str
        Names of the columns that it makes; empty where names stay as they are, as on
        column partitions, where no silo knows the others' columns.
    public : mapping
        Its arguments.
    kept_of : str
        The fit whose kept arrays it reads (`kept_address`); empty where it reads none.
    """

    step: str
    columns: tuple[str, ...]
    public: Mapping[str, Any] = field(default_factory=dict)
    kept_of: str = ""

    def as_json(self) -> dict[str, Any]:
        """Return the operation as it travels; arrays by digest, sent on the side."""
        public = {
            name: {"array": array_digest(value)}
            if isinstance(value, np.ndarray)
            else value
            for name, value in self.public.items()
        }
        record = {
            "operation": "derive",
            "step": self.step,
            "columns": list(self.columns),
            "public": public,
        }
        return record | ({"kept_of": self.kept_of} if self.kept_of else {})

    def arrays(self) -> dict[str, Array]:
        """Return the array arguments by name, sorted: JSON keeps no other order."""
        arrays = {n: v for n, v in self.public.items() if isinstance(v, np.ndarray)}
        return dict(sorted(arrays.items()))


@final
@dataclass(frozen=True)
class Recorded:
    """An operation of which only the record is at hand: arrays by their digests."""

    record: Mapping[str, Any]

    def as_json(self) -> dict[str, Any]:
        """Return the operation as it travels."""
        return dict(self.record)

    def arrays(self) -> dict[str, Array]:
        """Return no arrays: whoever has only the record does not apply it."""
        return {}


Operation = Select | Rows | Derive


def array_digest(array: Array) -> str:
    """Return the SHA-256 of an array's bytes in C order, hexadecimal."""
    return digest(np.ascontiguousarray(array).data)


def array_key(position: int, name: str, content: str) -> str:
    """Name an array of a transform: its place in the chain, argument and digest.

    The place belongs to it, so that two transforms with equal numbers (means that
    filled no cell, and the means of a scaler after it) are two arrays on the wire and
    two lines in the ledger, as in the plan, which is made without the numbers.
    """
    return f"{position}.{name}.{content}"


def operation_from_json(
    record: Mapping[str, Any], position: int, arrays: Mapping[str, Array]
) -> Operation:
    """Read an operation as it travels; `arrays` holds its arrays by `array_key`."""
    kind = record["operation"]
    if kind == "select":
        return Select(tuple(map(str, record["columns"])))
    if kind == "rows":
        rows = Rows(**{n: record[n] for n in Rows.__dataclass_fields__})
        whole = all(type(n) is int for n in (rows.fold, rows.of, rows.seed))
        if not whole or type(rows.complement) is not bool:
            raise TypeError("rows")
        if not (0 <= rows.fold < max(rows.of, 1) <= 2**31 and 0 <= rows.share <= 1):
            raise ValueError("rows")
        return rows
    if kind != "derive":
        raise ValueError("operation")
    public = {
        str(name): arrays[array_key(position, name, value["array"])]
        if isinstance(value, dict)
        else value
        for name, value in record["public"].items()
    }
    kept_of = record.get("kept_of", "")
    if kept_of:
        split_address(kept_of)
    columns = tuple(map(str, record["columns"]))
    return Derive(str(record["step"]), columns, public, kept_of)


def view_digest(operations: Sequence[Operation]) -> str:
    """Return a name for a view: equal for equal operations and arrays."""
    return digest(canonical([o.as_json() for o in operations]))


def kept_address(study: str, operations: Sequence[Operation]) -> str:
    """Return the address of the arrays kept for a fit: its study and its view."""
    return f"{study}/{view_digest(operations)}"


def split_address(address: str) -> tuple[str, str]:
    """Return the study and the view of an address, or raise ValueError."""
    study, _, view = address.rpartition("/")
    if not study or not re.fullmatch(r"[0-9a-f]{64}", view):
        raise ValueError("not the address of kept arrays")
    return study, view


def public_record(public: Mapping[str, Any]) -> dict[str, Any]:
    """Return public arguments as JSON values, arrays by their digests."""
    return {
        name: {"array": array_digest(value)} if isinstance(value, np.ndarray) else value
        for name, value in sorted(public.items())
    }


def features_digest(operations: Sequence[Operation]) -> str:
    """Name the columns and transforms of a view, whatever its rows.

    A transform that was fitted on some rows may be applied to others, as in
    cross-validation, but to no other columns, and behind no other transforms.
    """
    return features_of_records([o.as_json() for o in operations])


def features_of_records(records: Sequence[Mapping[str, Any]]) -> str:
    """Return `features_digest` of operations as they travel.

    It is that of the shortest chain with the same columns and transforms.
    """
    kept: list[Mapping[str, Any]] = []
    for record in records:
        if record["operation"] == "rows":
            continue
        if record["operation"] == "select":
            if kept and kept[-1]["operation"] == "select":
                kept.pop()
            if kept and kept[-1]["columns"] == record["columns"]:
                continue
        kept.append(record)
    return digest(canonical(kept))


def rows_digest(operations: Sequence[Operation]) -> str:
    """Name the rows of a view, whatever its columns."""
    rows = [o.as_json() for o in operations if isinstance(o, Rows)]
    return digest(canonical(rows))
