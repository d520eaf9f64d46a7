"""Operations of a view: which columns, which rows, which transforms, as they travel.

Data only: names, numbers, and the arrays of fitted transforms on the side. A silo
evaluates them in `unpooled.party.views.view`.
"""

import math
import re
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any, TypeVar, final

import numpy as np

from unpooled.arrays import Array
from unpooled.ledger import canonical
from unpooled.protocol.message import digest
from unpooled.protocol.shared_blocks import LEVELS, MOST_BLOCKS


class _Operation(ABC):
    """The methods that all operations have."""

    @abstractmethod
    def as_json(self) -> dict[str, Any]:
        """Return the operation as it travels."""

    @cached_property
    def written(self) -> dict[str, Any]:
        """The operation as it travels, of which arrays are digested once."""
        return self.as_json()

    @cached_property
    def encoded(self) -> bytes:
        """Its canonical text, which digests of chains are of."""
        return canonical(self.written)


@final
@dataclass(frozen=True)
class Select(_Operation):
    """Keep some columns, in this order."""

    columns: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """Return the operation as it travels."""
        return {"operation": "select", "columns": list(self.columns)}


@final
@dataclass(frozen=True)
class Choice:
    """Columns by their names, or by a pattern of names and a kind.

    Attributes
    ----------
    names : tuple of str
        The columns, in this order; empty where they are chosen by pattern and kind.
    pattern : str
        Pattern of names, with ``*`` as wildcard.
    kind : {"", "numeric", "categorical"}
        Columns of numbers, or of categories; empty for both.
    """

    names: tuple[str, ...] = ()
    pattern: str = "*"
    kind: str = ""

    def of(self, columns: Sequence[str], coded: Collection[str]) -> tuple[str, ...]:
        """Return which of some columns are chosen, of which some hold categories."""
        if self.names:
            return tuple(name for name in self.names if name in columns)
        return tuple(
            name
            for name in columns
            if fnmatchcase(name, self.pattern)
            and (not self.kind or (name in coded) == (self.kind == "categorical"))
        )

    def as_json(self) -> list[Any]:
        """Return the choice as it travels."""
        return [list(self.names), self.pattern, self.kind]

    @classmethod
    def read(cls, record: Any) -> "Choice":
        """Return a choice as it came; another form is a ValueError."""
        names, pattern, kind = record
        texts = all(type(text) is str for text in (*names, pattern))
        if not texts or kind not in ("", *KINDS):
            raise ValueError("choice")
        return cls(tuple(names), pattern, kind)


KINDS = ("numeric", "categorical")


@final
@dataclass(frozen=True)
class Parts(_Operation):
    """Put the columns into parts, which transforms behind read by their numbers.

    For column partitions: each silo has those of its own columns in a part, perhaps
    none, and no silo needs to know the others'.

    Attributes
    ----------
    choices : tuple of Choice
        Choose the columns of each part, which stand behind those of no part.
    rest : bool
        Whether columns in no part stay.
    """

    choices: tuple[Choice, ...]
    rest: bool = False

    def of(
        self, columns: Sequence[str], coded: Collection[str]
    ) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """Return all columns that are left, and those of each part.

        Parameters
        ----------
        columns : sequence of str
            Those of a silo.
        coded : collection of str
            Those of them that hold categories.

        Raises
        ------
        LookupError
            Where a column is in two parts.
        """
        parts = [choice.of(columns, coded) for choice in self.choices]
        read = [name for part in parts for name in part]
        if len(set(read)) < len(read):
            raise LookupError("unknown_columns")
        others = [name for name in columns if self.rest and name not in set(read)]
        return (*others, *read), parts

    def sizes(self, columns: Sequence[str], coded: Collection[str]) -> list[int]:
        """Return how many columns each part has, and how many of no part are left."""
        left, parts = self.of(columns, coded)
        sizes = [len(part) for part in parts]
        return [*sizes, len(left) - sum(sizes)]

    def as_json(self) -> dict[str, Any]:
        """Return the operation as it travels."""
        choices = [choice.as_json() for choice in self.choices]
        return {"operation": "parts", "choices": choices, "rest": self.rest}

    @classmethod
    def read(cls, record: Mapping[str, Any]) -> "Parts":
        """Return the operation as it came; another form is an error."""
        if type(record["rest"]) is not bool:
            raise TypeError("parts")
        return cls(tuple(map(Choice.read, record["choices"])), record["rest"])


@final
@dataclass(frozen=True)
class Rows(_Operation):
    """Keep some of the blocks that a silo's rows are cut into.

    It names blocks by their numbers and no row: what a block is, the silo knows
    (`unpooled.party.views.cut`). All silos keep the same numbers, so what two
    selections differ in is of every silo that has a block of that number. A silo with
    fewer blocks has the first ones; so each part has its share of the first blocks,
    however many those are.

    Attributes
    ----------
    fold, of : int
        With ``of > 0``: the blocks are dealt to so many parts, and `fold` is the part.
    share : float
        With ``of == 0``: the part has this share of the blocks, rounded, also of the
        first 2, 3, 4, 5, 10 and 15; of any first two or more at least one, and not all.
    complement : bool
        Keep the other blocks.
    seed : int
        Seed of the order in which blocks are dealt; -1 deals them in turn.
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

    def chosen(self, blocks: Sequence[int]) -> tuple[int, ...]:
        """Return which of some blocks, those that earlier operations left, are kept."""
        part = set(self._fold(blocks) if self.of else self._share(blocks))
        return tuple(block for block in blocks if (block in part) != self.complement)

    def _fold(self, blocks: Sequence[int]) -> list[int]:
        # Each run of as many blocks as parts has one for each part.
        runs = (blocks[i : i + self.of] for i in range(0, len(blocks), self.of))
        return [
            run[self.fold] for run in map(self._dealt, runs) if len(run) > self.fold
        ]

    def _share(self, blocks: Sequence[int]) -> list[int]:
        smaller = min(self.share, 1.0 - self.share)
        picked, first = list[int](), 0
        # The part has its share of the first blocks, of as many as silos may have, and
        # one of the first two, whichever earlier operations left.
        firsts = {min(2, len(blocks)), *(bisect_left(blocks, n) for n in LEVELS)}
        for n in sorted(n for n in firsts if n > 1):
            lacking = max(1, math.floor(smaller * n + 0.5)) - len(picked)
            picked += self._dealt(blocks[first:n])[:lacking]
            first = n
        others = [block for block in blocks if block not in picked]
        return picked if self.share <= 0.5 else others

    def _dealt(self, blocks: Sequence[int]) -> list[int]:
        """Return blocks in the order of the seed."""
        if self.seed < 0:
            return list(blocks)
        return sorted(
            blocks,
            key=lambda block: digest(canonical([self.seed, list(blocks), block])),
        )


@final
@dataclass(frozen=True)
class Complete(_Operation):
    """Keep the rows with a value in each of the columns that there are.

    What is left is another table to a silo's rules: two tables that differ in a few
    rows are not both answered about (`unpooled.party.rules.table_versions`).
    """

    def as_json(self) -> dict[str, Any]:
        """Return the operation as it travels."""
        return {"operation": "complete"}


@final
@dataclass(frozen=True)
class Derive(_Operation):
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
    of : tuple of str, optional
        The columns that it reads; the others stay as they are, before those that it
        makes. None where it reads all.
    adds : bool
        Whether the columns that it reads stay too.
    part : int
        Number of the part (see `Parts`) that it reads. The columns that it makes take
        the place of the part's. -1 where it reads no part.
    """

    step: str
    columns: tuple[str, ...]
    public: Mapping[str, Any] = field(default_factory=dict)
    kept_of: str = ""
    of: tuple[str, ...] | None = None
    adds: bool = False
    part: int = -1

    def of_part(self, parts: list[tuple[str, ...]]) -> "Derive":
        """Return the transform with the names of the columns of its part."""
        if self.part < 0:
            return self
        if self.part >= len(parts):
            raise LookupError("unknown_columns")
        return replace(self, of=self.of if self.adds else parts[self.part], part=-1)

    def left(self, columns: Iterable[str]) -> tuple[str, ...]:
        """Return which columns stay as they are."""
        if self.of is None:
            return ()
        return tuple(c for c in columns if self.adds or c not in self.of)

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
        record |= {"kept_of": self.kept_of} if self.kept_of else {}
        record |= {"of": list(self.of)} if self.of is not None else {}
        record |= {"adds": True} if self.adds else {}
        return record | ({"part": self.part} if self.part >= 0 else {})

    def arrays(self) -> dict[str, Array]:
        """Return the array arguments by name, sorted: JSON keeps no other order."""
        arrays = {n: v for n, v in self.public.items() if isinstance(v, np.ndarray)}
        return dict(sorted(arrays.items()))


@final
@dataclass(frozen=True)
class Recorded(_Operation):
    """An operation of which only the record is at hand: arrays by their digests."""

    record: Mapping[str, Any]

    def as_json(self) -> dict[str, Any]:
        """Return the operation as it travels."""
        return dict(self.record)

    def arrays(self) -> dict[str, Array]:
        """Return no arrays: whoever has only the record does not apply it."""
        return {}


Operation = Select | Parts | Rows | Complete | Derive


def numbers_kept(operations: Iterable[Operation]) -> tuple[int, ...]:
    """Return the numbers of the blocks that a chain keeps, in ascending order."""
    numbers = tuple(range(MOST_BLOCKS))
    for operation in operations:
        if isinstance(operation, Rows):
            numbers = operation.chosen(numbers)
    return numbers


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


# The choice of columns that was read last: the next request has mostly the same, whose
# text need not be made again.
_last = [Select(())]


def _selected(columns: tuple[str, ...]) -> Select:
    if columns != _last[0].columns:
        _last[0] = Select(columns)
    return _last[0]


def operation_from_json(
    record: Mapping[str, Any], position: int, arrays: Mapping[str, Array]
) -> Operation:
    """Read an operation as it travels; `arrays` holds its arrays by `array_key`."""
    kind = record["operation"]
    if kind == "select":
        return _selected(tuple(map(str, record["columns"])))
    if kind == "rows":
        rows = Rows(**{n: record[n] for n in Rows.__dataclass_fields__})
        whole = all(type(n) is int for n in (rows.fold, rows.of, rows.seed))
        if not whole or type(rows.complement) is not bool:
            raise TypeError("rows")
        if not (0 <= rows.fold < max(rows.of, 1) <= 2**31 and 0 <= rows.share <= 1):
            raise ValueError("rows")
        return rows
    if kind == "complete":
        return Complete()
    if kind == "parts":
        return Parts.read(record)
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
    of = tuple(map(str, record["of"])) if "of" in record else None
    adds, part = record.get("adds", False), record.get("part", -1)
    if type(adds) is not bool or of == () or (adds and not of):
        raise ValueError("a transform that adds columns names those that it reads")
    if type(part) is not int or (of and part >= 0 and not adds):
        raise ValueError("a transform of a part reads its columns")
    return Derive(str(record["step"]), columns, public, kept_of, of, adds, part)


def view_digest(operations: Sequence[Operation]) -> str:
    """Return a name for a view: equal for equal operations and arrays."""
    return _digest_of(operations)


def kept_address(study: str, operations: Sequence[Operation]) -> str:
    """Return the address of the arrays kept for a fit: its study and its view."""
    return f"{study}/{view_digest(operations)}"


def split_address(address: str) -> tuple[str, str]:
    """Return the study and the view of an address, or raise ValueError."""
    study, _, view = address.rpartition("/")
    if not study or not re.fullmatch(r"[0-9a-f]{64}", view):
        raise ValueError("not the address of kept arrays")
    return study, view


def public_record(
    public: Mapping[str, Any], digests: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Return public arguments as JSON values, arrays by their digests.

    Parameters
    ----------
    public : mapping of str to object
        JSON values and arrays.
    digests : mapping of str to str, optional
        `array_digest` of arrays for which it is known.
    """
    known = digests or {}
    return {
        name: {"array": known.get(name) or array_digest(value)}
        if isinstance(value, np.ndarray)
        else value
        for name, value in sorted(public.items())
    }


def features_digest(operations: Sequence[Operation]) -> str:
    """Name the columns and transforms of a view, whatever its rows.

    A transform that was fitted on some rows may be applied to others, as in
    cross-validation, but to no other columns, and behind no other transforms.
    """
    return _digest_of(_shortest((o.written, o) for o in operations))


def features_of_records(records: Sequence[Mapping[str, Any]]) -> str:
    """Return `features_digest` of operations as they travel."""
    return digest(canonical(_shortest((record, record) for record in records)))


def transforms_of_records(records: Sequence[Mapping[str, Any]]) -> str:
    """Name the transforms of operations as they travel, whatever rows and columns."""
    return digest(canonical([r for r in records if r["operation"] == "derive"]))


_One = TypeVar("_One")


def _shortest(chain: Iterable[tuple[Mapping[str, Any], _One]]) -> list[_One]:
    """Return the shortest chain with the same columns and transforms.

    Parameters
    ----------
    chain : iterable of (mapping, object)
        For each operation how it travels, and what to return.
    """
    kept = list[tuple[Mapping[str, Any], _One]]()
    for record, one in chain:
        if record["operation"] == "rows":
            continue
        if record["operation"] == "select":
            if kept and kept[-1][0]["operation"] == "select":
                kept.pop()
            # The choice of complete rows names no columns.
            if kept and kept[-1][0].get("columns") == record.get("columns"):
                continue
        kept.append((record, one))
    return [one for _, one in kept]


def _digest_of(operations: Iterable[Operation]) -> str:
    """Return the digest of the canonical text of a list of operations."""
    return digest(b"[" + b",".join(o.encoded for o in operations) + b"]")


def rows_digest(operations: Sequence[Operation]) -> str:
    """Name the rows of a view, whatever its columns."""
    rows = [o.as_json() for o in operations if isinstance(o, Rows)]
    return digest(canonical(rows))
