"""The layout of a view: the columns of each party, and the number of aligned rows."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import final

import numpy as np

from unpooled.arrays import Array, Int
from unpooled.data.columns import check_known, listing
from unpooled.errors import DataError
from unpooled.protocol.shared_blocks import (
    MOST_BLOCKS,
    SHARED_ROWS,
    shared_sizes,
)
from unpooled.protocol.sizes import ViewSize
from unpooled.protocol.view_operations import Parts, Rows
from unpooled.protocol.widened_columns import widened_columns


@final
@dataclass(frozen=True)
class Layout:
    """The columns of a view by party, and its number of rows where that is known.

    Attributes
    ----------
    partition : {"rows", "columns"}
        Whether the parties have different rows or different columns.
    columns_of : mapping of str to tuple of str
        By party, in the study's order; on a row partition all have the same.
    n_rows : int or None
        N on a column partition, None on a row partition. Until rows are matched, the
        largest possible N.
    matching : {"", "ids", "aligned"}
        What the parties still have to do before the first fit: match rows by their
        ids, or check ids that were declared to be aligned.
    rows_of : mapping of str to array
        By party, the rows of its table in the common order; in simulations only, and
        only where rows were matched.
    sizes : mapping of int to int or None
        On a column partition, the number of rows of each block; None until a fold or
        split keeps some of them.
    numbers : tuple of int
        The blocks that folds and splits kept.
    categorical : frozenset of str
        The columns that hold codes of categories.
    known_to : str
        On a column partition, the silo that this layout is of: it does not know the
        names of the others' columns, which are numbered here. Empty where all names are
        known.
    """

    partition: str
    columns_of: Mapping[str, tuple[str, ...]]
    n_rows: int | None = None
    matching: str = ""
    rows_of: Mapping[str, Array] = field(default_factory=dict, compare=False)
    sizes: Mapping[int, int] | None = None
    numbers: tuple[int, ...] = tuple(range(MOST_BLOCKS))
    categorical: frozenset[str] = frozenset()
    known_to: str = ""

    @classmethod
    def of_rows(
        cls,
        parties: Iterable[str],
        columns: Sequence[str],
        categorical: Iterable[str] = (),
    ) -> "Layout":
        """Return the layout of a row partition: the same columns at every party."""
        by_party = dict.fromkeys(parties, tuple(columns))
        return cls("rows", by_party, categorical=frozenset(categorical))

    @classmethod
    def of_columns(
        cls,
        columns_of: Mapping[str, Sequence[str]],
        rows: Mapping[str, int],
        matching: str = "",
        categorical: Iterable[str] = (),
    ) -> "Layout":
        """Return the layout of a column partition: the same rows in the same order.

        Raises
        ------
        DataError
            When parties differ in their numbers of rows, or share a column's name.
        """
        if len(set(rows.values())) > 1 and matching != "ids":
            raise DataError(
                f"On a column partition all silos have the same rows in the same "
                f"order, but these have {dict(rows)} rows. Name their column of ids "
                f"(ids), so that rows are matched."
            )
        names = [column for columns in columns_of.values() for column in columns]
        if twice := sorted({c for c in names if names.count(c) > 1}):
            raise DataError(
                f"On a column partition every column belongs to one silo, but {twice} "
                f"stand in several. Rename or drop them."
            )
        by_party = {party: tuple(columns) for party, columns in columns_of.items()}
        coded = frozenset(categorical)
        n_rows = min(rows.values())
        return cls("columns", by_party, n_rows, matching, categorical=coded)

    def matched(self, n_rows: int) -> "Layout":
        """Return the layout once the parties have agreed on their common rows."""
        return replace(self, n_rows=n_rows, matching="", rows_of={})

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns, in the parties' order."""
        if self.partition == "rows":
            return next(iter(self.columns_of.values()))
        return tuple(
            column for columns in self.columns_of.values() for column in columns
        )

    @property
    def extents(self) -> dict[str, ViewSize]:
        """The size of each party's view."""
        return {
            party: ViewSize(len(columns), self.n_rows)
            for party, columns in self.columns_of.items()
        }

    def selected(self, wanted: tuple[str, ...]) -> "Layout":
        """Return the layout of some columns; every party keeps those that it has."""
        # Sets, since there may be tens of thousands of columns.
        check_known(list(wanted), self.columns, "The federation")
        if not wanted or len(set(wanted)) != len(wanted):
            raise DataError("Select at least one column, and none twice.")
        sets = {party: set(columns) for party, columns in self.columns_of.items()}
        selected = {
            party: tuple(column for column in wanted if column in columns)
            for party, columns in sets.items()
        }
        if without := [party for party, columns in selected.items() if not columns]:
            raise DataError(
                f"The selection has no column of {', '.join(without)}. A total is over "
                f"all parties: select a column of each, or leave the party out."
            )
        return replace(self, columns_of=selected)

    def in_parts(
        self, operation: Parts, sizes: Int[Array, "m q"]
    ) -> tuple["Layout", list["Layout"]]:
        """Return the layout of a column partition put into parts, and that of each.

        Parameters
        ----------
        operation : Parts
            Which columns each part has.
        sizes : (m, q) array of int
            By party how many columns each part has, and how many are in none, for a
            silo that follows and does not know which columns the others have.

        Notes
        -----
        A party may have no column of a part, but must have one of all together.
        """
        every = dict[str, tuple[str, ...]]()
        found = [dict[str, tuple[str, ...]]() for _ in operation.choices]
        for (party, own), numbers in zip(
            self.columns_of.items(), sizes.tolist(), strict=True
        ):
            if self.known_to not in ("", party):
                *ends, last = np.cumsum(numbers).tolist()
                every[party] = own[:last]
                parts = [own[i:j] for i, j in zip([0, *ends], ends, strict=False)]
            else:
                every[party], parts = operation.of(own, self.categorical)
            for part, columns in zip(found, parts, strict=True):
                part[party] = columns
        left = replace(self, columns_of=every)._checked(every)
        return left, [replace(self, columns_of=part) for part in found]

    def with_part(self, before: "Layout", after: "Layout") -> "Layout":
        """Return the layout of a column partition with a part as it was transformed.

        Parameters
        ----------
        before, after : Layout
            Layouts of the part. What it became stands behind each party's other
            columns.
        """
        read = set(before.columns)
        by_party = {
            party: (*(n for n in own if n not in read), *after.columns_of[party])
            for party, own in self.columns_of.items()
        }
        coded = (self.categorical - read) | after.categorical.intersection(
            after.columns
        )
        found = replace(self, columns_of=by_party, categorical=coded)
        return found._checked(by_party)

    def _checked(self, needed: Iterable[str]) -> "Layout":
        """Return this layout of a column partition after a transform, if it is one.

        Parameters
        ----------
        needed : iterable of str
            The parties that must have a column.
        """
        if without := [party for party in needed if not self.columns_of[party]]:
            raise DataError(
                f"No column of {listing(without)} is left. A total is over all "
                f"parties: keep a column of each, or leave the party out."
            )
        names = [name for own in self.columns_of.values() for name in own]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise DataError(
                f"Columns that a transform makes have the names of others: "
                f"{listing(twice)}. Rename the latter, or leave them out."
            )
        return self

    def of_part(self, part: Rows) -> "Layout":
        """Return the layout of a fold, or of one side of a split."""
        if self.n_rows is None:
            return self
        every = shared_sizes(self.n_rows) if self.sizes is None else self.sizes
        numbers = part.chosen(self.numbers)
        n_rows = sum(every.get(number, 0) for number in numbers)
        if not n_rows:
            raise DataError(
                f"No row is left: {sum(every.values())} rows are in {len(every)} "
                f"block(s) of at least {SHARED_ROWS} rows. Choose fewer folds."
            )
        return replace(self, n_rows=n_rows, sizes=every, numbers=numbers)

    def renamed(
        self,
        columns: tuple[str, ...],
        left: tuple[str, ...] = (),
        coded: Iterable[str] = (),
    ) -> "Layout":
        """Return the layout with a transform's columns, on a row partition.

        Parameters
        ----------
        columns : tuple of str
            What the transform makes.
        left : tuple of str
            The columns that stay as they are, before those that it makes.
        coded : iterable of str
            Which of the columns that it makes hold categories.
        """
        if twice := sorted(set(left) & set(columns)):
            raise DataError(
                f"Columns that stay, and columns that a transform makes, have the same "
                f"names: {listing(twice)}. Rename them, or leave the former out."
            )
        by_party = dict.fromkeys(self.columns_of, (*left, *columns))
        categorical = self.categorical.intersection(left).union(coded)
        return replace(self, columns_of=by_party, categorical=categorical)

    def with_added(self, of: Sequence[str], made: tuple[str, ...]) -> "Layout":
        """Return the layout of a column partition with columns that one silo adds.

        Parameters
        ----------
        of : sequence of str
            The columns that they are made of, which are in one silo. A silo that
            follows does not know the others' columns, and leaves the layout as it is.
        made : tuple of str
            Their names.
        """
        owners = [p for p, own in self.columns_of.items() if set(of) <= set(own)]
        by_party = {
            party: (*own, *made) if party in owners else own
            for party, own in self.columns_of.items()
        }
        return replace(self, columns_of=by_party)

    def widened(self, kind: str, made: Sequence[int]) -> "Layout":
        """Return the layout of a column partition with columns that silos made.

        Parameters
        ----------
        kind : {"groups", "indicators", "bins"}
            As of `widened_columns`.
        made : sequence of int
            How many are made of each column, in the parties' order.
        """
        by_party, first = dict[str, tuple[str, ...]](), 0
        for party, own in self.columns_of.items():
            pairs = widened_columns(kind, own, made[first : first + len(own)])
            by_party[party] = tuple(name for name, _ in pairs)
            first += len(own)
        # Encoded columns hold numbers; indicators stand beside what there was.
        coded = frozenset[str]() if kind == "groups" else self.categorical
        found = replace(self, columns_of=by_party, categorical=coded)
        # After a selection of columns some parties may have none.
        return found._checked(party for party, own in self.columns_of.items() if own)
