"""Views: a silo's table seen through a chain of operations, block by block.

A view travels as data (which columns, which rows, which fitted transform with which
arrays) and is evaluated inside the silo when a step reads it. Nothing is stored.
"""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import (
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, final

import numpy as np

from unpooled.arrays import Array, Bool, Float, UInt8
from unpooled.data.aligned_table import AlignedTable
from unpooled.data.categories import category_code
from unpooled.data.expressions import EQUAL, LOG
from unpooled.data.filtered_table import complete_rows
from unpooled.data.row_blocks import Block
from unpooled.data.table import Table, rows_per_block
from unpooled.errors import DataError
from unpooled.ledger import canonical
from unpooled.linalg.moments import column_sums
from unpooled.party.memory.audit_state import Filling
from unpooled.party.memory.kept_arrays import KeptArrays
from unpooled.party.views.cut import Cut, shared_cut
from unpooled.protocol.message import digest
from unpooled.protocol.refusal import Refusal
from unpooled.protocol.step import Step, find_step, home_of
from unpooled.protocol.view_operations import (
    Complete,
    Derive,
    Operation,
    Parts,
    Rows,
    Select,
    numbers_kept,
    view_digest,
)
from unpooled.protocol.widened_columns import (
    KEPT_AS,
    planned_columns,
    widened_columns,
)

# Stands for what was done to a column before it was filled from other columns.
_BY_PATTERN = "by pattern"

# From the address of a fit to what this silo kept for it.
FindKept = Callable[[str], KeptArrays]
# From a table to the blocks of its rows.
FindCut = Callable[[Table], Cut]


def nothing_kept(address: str) -> KeptArrays:
    """Return no kept arrays, for a silo without any."""
    return KeptArrays("", ())


def shared_by_all(table: Table) -> Cut:
    """Return the cut that silos with the same rows in the same order share."""
    return shared_cut(table.n_rows)


@final
@dataclass(frozen=True, eq=False)
class Held:
    """Rows whose missing cells are filled with a number of the column.

    Attributes
    ----------
    rows : (N,) array of bool
        Which rows of the table.
    values : mapping of str to float
        The number, by column.
    """

    rows: Bool[Array, " N"]
    values: Mapping[str, float]


@final
@dataclass(frozen=True, eq=False)
class _Transform:
    """A transform in its place in a view's chain.

    Attributes
    ----------
    operation : Derive
        As it travels.
    step : Step
        The derived step that it names.
    before, read, columns : tuple of str
        The columns in front of it, those of them that it reads, and those behind it.
    made : tuple of str
        The columns that it makes.
    sources : tuple of int
        For a transform by column, the places in `read` of what these are made of.
    """

    operation: Derive
    step: Step
    before: tuple[str, ...]
    read: tuple[str, ...]
    columns: tuple[str, ...]
    made: tuple[str, ...]
    sources: tuple[int, ...]

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """Columns read and made by a transform by column, as pairs."""
        read = [self.read[place] for place in self.sources]
        return list(zip(read, self.made, strict=True))

    def derivation(self, column: str) -> tuple[list[Any], list[str]]:
        """Return how a transform of source columns makes a column, and of which."""
        public, place = self.operation.public, self.made.index(column)
        kind = int(public["kinds"][place])
        pair = [self.read[public[name][place]] for name in ("first", "second")]
        if kind == EQUAL:
            return [kind, float(public["codes"][place])], pair[:1]
        return [kind], pair[:1] if kind == LOG else pair


@final
class View:
    """The rows that a step reads: a table after a chain of operations.

    Parameters
    ----------
    table : Table
        The silo's rows.
    operations : sequence of Operation
        Applied in order.
    kept : callable, optional
        Returns the `kept` of transforms of fits in this silo, by address.
    partition : {"rows", "columns"}, default "rows"
        On a column partition a selection names columns of all silos, and each silo
        keeps its own.
    cut : callable, optional
        Returns the blocks of the table's rows, of which operations keep some; asked
        for only where they do. By default the cut that all silos share.
    planned : bool, default False
        Whether nothing was fitted yet that the operations name, as in a plan.

    Attributes
    ----------
    table : Table
        As given; where an operation keeps complete rows, the table of these.
    whole : Table
        As given.
    complete_in : list of str
        Source columns that rows must have a value in; empty where they need none.
    columns : tuple of str
        The features, which are the columns of X.
    source_columns : tuple of str
        The table's columns that are read for it.
    left_out : int
        Number of rows of the table that are not in the view.
    cut : Cut or None
        The blocks of the table's rows; None where the view has all rows.
    kept_blocks : tuple of int
        Numbers of the blocks of the cut that are in the view.
    filled_as : dict of str to float
        Numbers in the missing cells of source columns, in place of those that the
        view's operations have for them; see `fill_as`.
    held : Held or None
        Rows that a transform `by_pattern` does not fill by their other cells.
    """

    def __init__(
        self,
        table: Table,
        operations: Sequence[Operation],
        kept: FindKept = nothing_kept,
        partition: str = "rows",
        cut: FindCut = shared_by_all,
        *,
        planned: bool = False,
    ) -> None:
        self._kept, self._partition, self._find_cut = kept, partition, cut
        self._planned = planned
        self.whole, self.complete_in = table, list[str]()
        self._complete = [o for o in operations if isinstance(o, Complete)]
        if self._complete:
            table, operations = self._of_complete_rows(table, operations)
        self.table = table
        self._sums: Float[Array, " p"] | None = None
        self.filled_as: Mapping[str, float] = {}
        self.held: Held | None = None
        self.source_columns = tuple(table.columns)
        # The silo's columns in each part, as transforms change them.
        parts = list[tuple[str, ...]]()
        while operations and isinstance(operations[0], Select | Parts):
            # Unread columns of a file larger than memory are never loaded.
            first, operations = operations[0], operations[1:]
            if isinstance(first, Parts):
                self._check_by_columns()
                own, parts = first.of(self.source_columns, table.categorical)
                first = Select(own)
            self.source_columns = self._known(self.source_columns, first)
        # Rows are chosen first: no other operation looks at more than one of them.
        self._rows = [o for o in operations if isinstance(o, Rows)]
        further = [o for o in operations if isinstance(o, Select | Parts | Derive)]
        self._operations = list[Select | Derive]()
        self.cut = cut(table) if self._rows else None
        self.kept_blocks: tuple[int, ...] = ()
        self.n_rows = table.n_rows
        if self.cut is not None:
            numbers = numbers_kept(operations)
            self.kept_blocks = numbers[: bisect_left(numbers, len(self.cut.sizes))]
            self.n_rows = sum(self.cut.sizes[block] for block in self.kept_blocks)
        self.left_out = table.n_rows - self.n_rows
        self.columns, touched = self.source_columns, set[str]()
        filled = set[str]()
        # Choices of columns that the silo has, and transforms.
        self._stages = list[Select | _Transform]()
        self._derived = list[_Transform]()
        for operation in further:
            part = -1
            if isinstance(operation, Parts):
                self._check_by_columns()
                own, parts = operation.of(self.columns, self._coded())
                operation = Select(own)
            elif isinstance(operation, Derive):
                part, operation = operation.part, operation.of_part(parts)
                if self._is_elsewhere(operation):
                    continue
            self._operations.append(operation)
            if isinstance(operation, Select):
                self.columns = self._known(self.columns, operation)
                self._stages.append(Select(self.columns))
                continue
            before, step = self.columns, find_step(operation.step)
            read = before if operation.of is None else operation.of
            if step.of_source and touched & set(read):
                raise Refusal("derived_order")
            if step.by_pattern and (touched | filled) & set(read):
                raise Refusal("derived_order")
            changed = touched if step.by_column != "missing" else filled
            made, sources = operation.columns or read, tuple(range(len(read)))
            self.columns = self._made(operation, before)
            if step.widens:
                made, sources = self._widened(operation, step, read)
                self.columns = (*operation.left(before), *made)
                if len(set(self.columns)) < len(self.columns):
                    raise LookupError("unknown_columns")
            if part >= 0:
                parts[part] = (*parts[part], *made) if operation.adds else made
            changed.update(made)
            _check_arguments(step, operation, len(read))
            one = _Transform(operation, step, before, read, self.columns, made, sources)
            self._stages.append(one)
            self._derived.append(one)

    @property
    def transforms(self) -> list[str]:
        """The names of the derived steps in the chain."""
        return [one.operation.step for one in self._derived]

    @cached_property
    def coded(self) -> tuple[str, ...]:
        """The columns of the view that hold codes of categories.

        Raises
        ------
        Refusal
            "categories", where a transform takes codes for numbers.
        """
        return self._coded()

    def _coded(self) -> tuple[str, ...]:
        """Return the columns behind the transforms so far that hold codes."""
        coded = set(self.table.categorical)
        for one in self._derived:
            if coded & set(one.read) and "cells" not in one.step.reads:
                raise Refusal("categories")
            stay = coded & set(one.operation.left(one.before))
            coded = stay | set(_codes_in(one, coded))
        return tuple(column for column in self.columns if column in coded)

    @property
    def dictionary(self) -> dict[float, str]:
        """The names of categories by their codes: the silo's, and those filled in."""
        found = dict(getattr(self.table, "dictionary", {}))
        for one in self._derived:
            if one.step.by_column == "missing":
                names = _texts(one.operation.public.get("names"))
                found |= {category_code(name): name for name in names}
        return found

    @cached_property
    def unfilled(self) -> tuple[str, ...]:
        """The source columns whose missing cells are read before they are filled.

        By a transform that mixes columns, or by the step that reads the view.
        """
        *read, left = self._origins
        filled, met = set[str](), set[str]()
        for one, origins in zip(self._derived, read, strict=True):
            if one.step.by_column == "missing" or one.step.by_pattern:
                filled.update(origins)
            elif not one.step.by_column:
                met.update(set(origins) - filled)
        met.update(set(left) - filled)
        return tuple(column for column in self.source_columns if column in met)

    @property
    def filled_otherwise(self) -> set[str]:
        """Source columns that are filled with a number of the study, or predictions.

        Others are filled with a statistic of their own values.
        """
        found = set[str]()
        for one, origins in zip(self._derived, self._origins, strict=False):
            chosen = one.step.by_column == "missing" and not one.step.fitted_by
            if chosen or one.step.by_pattern:
                found.update(origins)
        return found - {""}

    @property
    def indicated(self) -> set[str]:
        """The source columns of which columns tell which cells are missing."""
        found = set[str]()
        for one, origins in zip(self._derived, self._origins, strict=False):
            if one.step.by_column == "indicator":
                # Where columns stay beside their indicators, these have other names.
                places = [
                    place
                    for place, (name, made) in zip(one.sources, one.pairs, strict=True)
                    if not one.step.widens or name != made
                ]
                found |= {origins[place] for place in places if origins[place]}
        return found

    @cached_property
    def within_silos(self) -> bool | None:
        """Whether its columns are linear functions of numbers of the silo's own.

        None where no column has such a number in it: see `own_rows` of
        `unpooled.protocol.step.derived`.
        """
        own, bent = set[str](), set[str]()
        for one in self._stages:
            if isinstance(one, _Transform):
                made, read = set(one.made), set(one.read)
                if own & read and (bent & read or not one.step.within_silos):
                    bent |= made
                if own & read or one.step.own_rows:
                    own |= made
            own &= set(one.columns)
        return not bent & own if own else None

    @property
    def mixes(self) -> bool:
        """Whether a transform in the chain makes a column of several."""
        return not all(one.step.by_column for one in self._derived)

    @property
    def fewest_rows(self) -> int:
        """The fewest rows that this view and any other of the table can differ in.

        The rows of a block, or of the table where the view has all. A silo with fewer
        blocks than parts has no row in some; where all silos have the same rows, such a
        part is nobody's.
        """
        if self.cut is None:
            return self.table.n_rows
        smallest = min(self.cut.sizes, default=0)
        return min(smallest, self.n_rows) if self.cut.shared else smallest

    def rows(self) -> Bool[Array, " N"]:
        """Return a mask of the table's rows that the view keeps."""
        if self.cut is None:
            return np.ones(self.table.n_rows, bool)
        return np.isin(self.cut.block_of, self.kept_blocks)

    def source(self) -> "View":
        """Return the same rows of the source columns, before any transform."""
        chain = [Select(self.source_columns), *self._rows]
        # Its table has the complete rows already, where an operation keeps these.
        by = self._partition
        return View(self.table, chain, partition=by, cut=self._find_cut)

    def of_rows(self, some: AlignedTable) -> "View":
        """Return a view of some of the silo's rows alone, transformed as here."""
        chain = [Select(self.source_columns), *self._operations]
        view = View(some, chain, self._kept, self._partition, planned=self._planned)
        view.fill_as(self.filled_as)
        # Complete rows are none that are held.
        if self.held is not None and not self.complete_in:
            view.hold(replace(self.held, rows=self.held.rows[some.rows]))
        return view

    @property
    def selection(self) -> tuple[int, ...] | None:
        """The blocks that are in the view; None where it has all rows."""
        return self.kept_blocks if self.left_out else None

    @property
    def blocks_of_rows(self) -> UInt8[Array, " N"]:
        """The block of each row of the table, whichever rows the view has."""
        cut = self.cut or self._find_cut(self.table)
        return cut.block_of

    @property
    def features(self) -> str:
        """A name for the columns and transforms, whatever the rows."""
        chain = [operation.as_json() for operation in self._operations]
        return digest(canonical([list(self.source_columns), chain]))

    def fill_as(self, values: Mapping[str, float]) -> None:
        """Have missing cells of source columns filled by other numbers than asked."""
        if values != self.filled_as:
            self.filled_as, self._sums = values, None

    def hold(self, held: Held | None) -> None:
        """Fill some rows with a number of each column, whatever the transforms are."""
        if held is not self.held:
            self.held, self._sums = held, None

    @cached_property
    def imputed_by_pattern(self) -> list[tuple[Derive, tuple[str, ...]]]:
        """The transforms that fill cells from others, with the columns of each."""
        return [
            (one.operation, tuple(origins))
            for one, origins in zip(self._derived, self._origins, strict=False)
            if one.step.by_pattern
        ]

    @property
    def ends_by_pattern(self) -> bool:
        """Whether such a transform of all columns is the last operation."""
        last = self._stages[-1] if self._stages else None
        if not isinstance(last, _Transform):
            return False
        return last.step.by_pattern and last.operation.of is None

    @cached_property
    def derived_of_source(self) -> list[tuple["View", tuple[str, ...]]]:
        """Views of all rows up to transforms of source columns, and what these make."""
        found = list[tuple[View, tuple[str, ...]]]()
        for one in self._derived:
            if one.step.of_source:
                found.append((self._up_to(one), one.operation.columns))
        return found

    @property
    def derived_arguments(self) -> list[tuple[tuple[str, ...], Mapping[str, Any]]]:
        """The columns read by each transform of source columns, and its arguments."""
        some = [one for one in self._derived if one.step.of_source]
        return [(one.read, one.operation.public) for one in some]

    @property
    def groups(self) -> list[tuple[tuple[str, ...], Array]]:
        """Columns made of groups of rows, and the rows of each in all silos."""
        return [
            (one.made, np.asarray(one.operation.public[name]))
            for one in self._derived
            for name, taken in one.step.takes.items()
            if taken.counts == "groups"
        ]

    @property
    def drawn(self) -> list[tuple[int, int]]:
        """How many columns each transform that draws features reads, and it makes.

        Where all features are mixed afterwards, as along their components, no more
        are left than the mixture has columns.
        """
        found = list[tuple[int, int]]()
        for place, one in enumerate(self._derived):
            grouped = any(taken.counts == "groups" for taken in one.step.takes.values())
            if one.step.by_column or grouped or not one.step.settings:
                continue
            names, size = set(one.made), len(one.made)
            for later in self._derived[place + 1 :]:
                if names <= set(later.read) and not later.step.by_column:
                    names, size = set(later.made), min(size, len(later.made))
                elif names & set(later.read):
                    names |= set(later.made)
            found.append((len(one.read), size))
        return found

    @property
    def computed(self) -> list[int]:
        """The places of the columns that are other functions of the table's.

        Not of those whose cells were filled, shifted or scaled, and no more, nor of the
        indicators of their categories.
        """
        plain = set(self.source_columns)
        for one in self._derived:
            step, stay = one.step, plain & set(one.operation.left(one.before))
            fills = step.by_pattern or step.by_column in ("missing", "indicator")
            tells = bool(step.widens) and not step.settings
            if fills or tells or (step.affine and step.by_column):
                stay |= {made for name, made in one.pairs if name in plain}
            elif not step.settings and plain.issuperset(one.read):
                if any(taken.counts == "groups" for taken in step.takes.values()):
                    stay |= set(one.made)
            plain = stay
        return [j for j, name in enumerate(self.columns) if name not in plain]

    def settled(self, lacking: Collection[str]) -> "View | None":
        """Return the rows in the columns that fitted numbers only shift and scale.

        These are columns of the table, and columns derived of them. None where there
        are none.

        Parameters
        ----------
        lacking : collection of str
            The source columns with missing cells, which are filled with such numbers.
        """
        fitted = {*lacking, *self.table.categorical}
        origin = {name: name for name in self.source_columns if name not in fitted}
        chain: list[Operation] = [Select(self.source_columns), *self._rows]
        for one in self._stages:
            if isinstance(one, Select):
                origin = {n: origin[n] for n in one.columns if n in origin}
                continue
            step, operation = one.step, one.operation
            stay = {n: origin[n] for n in operation.left(one.before) if n in origin}
            fills = step.by_pattern or step.by_column == "missing"
            if not step.widens and (fills or (step.affine and step.by_column)):
                stay |= {made: origin[n] for n, made in one.pairs if n in origin}
            elif step.of_source and all(origin.get(n) == n for n in one.read):
                chain.append(operation)
                stay |= {name: name for name in operation.columns}
            origin = stay
        names = dict.fromkeys(origin[n] for n in self.columns if n in origin)
        if not names:
            return None
        chain.append(Select(tuple(names)))
        return View(self.table, chain, self._kept, self._partition, self._find_cut)

    @cached_property
    def mixed(self) -> list["View"]:
        """Views of all rows in front of transforms that make a column of several."""
        return [
            self.of_all_rows(self._operations[:place])
            for place, one in enumerate(self._stages)
            if isinstance(one, _Transform)
            and not (one.step.by_column or one.step.of_source)
        ]

    @property
    def is_by_columns(self) -> bool:
        """Whether other silos have other columns of the same rows."""
        return self._partition == "columns"

    def made_of(self, column: str) -> list[Any]:
        """Return a column's origin as JSON values, without scales and shifts."""
        found: list[Any] = []
        for number, one in reversed(list(enumerate(self._derived))):
            if column not in one.made:
                continue
            if not one.step.by_column:
                mixed = self._derived[: number + 1]
                return [column, *found, *(each.operation.as_json() for each in mixed)]
            name, place = column, one.sources[one.made.index(column)]
            column = one.read[place]
            if one.step.widens:
                # Others are made of the same column, and it may pass as it is.
                found += [[one.step.name, name]] if name != column else []
            elif not one.step.affine:
                found.append([one.step.name, _own(one.operation, place)])
        return [column, *found]

    def units(
        self, order_of: Callable[["View", str, Sequence[str]], str]
    ) -> list[tuple[str, list[Any]]]:
        """Return the scaling that gave each column its unit, with the column's source.

        Transforms of this column alone, scales among them, and no fillings, as JSON
        values. Of a column that is made of several ones the source is a digest of
        these, and of how.

        Parameters
        ----------
        order_of : callable
            Returns the one of two columns that has the row order of a derived column,
            of a view that has all three; empty if none has.
        """
        found = list[tuple[str, list[Any]]]()
        for column in self.columns:
            source, unit = column, list[Any]()
            for number, one in reversed(list(enumerate(self._derived))):
                if source not in one.made or one.step.by_pattern:
                    continue
                if one.step.by_column and not one.step.widens:
                    place = one.sources[one.made.index(source)]
                    if one.step.by_column != "missing":
                        unit.append([one.step.name, _own(one.operation, place)])
                    source = one.read[place]
                elif one.step.of_source:
                    how, pair = one.derivation(source)
                    unit.append([*how, *pair])
                    of = sorted(set(pair))
                    column_made, source = source, of[0]
                    if len(of) > 1:
                        source = order_of(self._up_to(one), column_made, of)
                    if not source:
                        source = f"made {digest(canonical([*how, *of]))}"
                        break
                elif len(one.read) == 1:
                    unit.append([source, one.operation.as_json()])
                    (source,) = one.read
                else:
                    # Fitted numbers, and scales in front, give other units.
                    before = self._derived[: number + 1]
                    unit.append([each.operation.as_json() for each in before])
                    made = [source, one.step.name, sorted(one.read)]
                    source = f"made {digest(canonical(made))}"
                    break
            found.append((source, unit))
        return found

    def _up_to(self, transform: _Transform) -> "View":
        """Return a view of all rows up to a transform of the chain."""
        (place,) = (i for i, one in enumerate(self._stages) if one is transform)
        return self.of_all_rows(self._operations[: place + 1])

    def up_to_scale(self) -> "View":
        """Return the view without the shifts and scales of its columns at the end."""
        kept = list[Operation]()
        for place, one in enumerate(self._stages):
            if isinstance(one, _Transform):
                if one.step.affine and set(one.columns) == set(one.before):
                    continue
                # It reads the units that the scales before it made.
                kept = list[Operation](self._operations[:place])
            kept.append(self._operations[place])
        return self.of_all_rows([*kept, *self._complete])

    def of_all_rows(self, operations: Sequence[Operation] | None = None) -> "View":
        """Return a view of all rows of the table, filled as this one is.

        Parameters
        ----------
        operations : sequence of Operation, optional
            Operations that transform it: by default this view's own.
        """
        own = self._operations if operations is None else operations
        chain = [Select(self.source_columns), *own]
        view = View(
            self.table, chain, self._kept, self._partition, planned=self._planned
        )
        view.fill_as(self.filled_as)
        view.hold(self.held)
        return view

    def digest(self) -> str:
        """Return a name for the view: equal for equal operations on a table."""
        chain = [Select(self.source_columns), *self._complete, *self._operations]
        return view_digest(chain)

    def _of_complete_rows(
        self, table: Table, operations: Sequence[Operation]
    ) -> tuple[Table, list[Operation]]:
        """Return the table of the complete rows, and the other operations."""
        if self._partition == "columns" or any(isinstance(o, Rows) for o in operations):
            # Blocks of two tables differ in rows that are no blocks.
            raise Refusal("partition")
        for place, operation in enumerate(operations):
            if isinstance(operation, Complete):
                left = [o for o in operations[:place] if not isinstance(o, Complete)]
                before = View(table, left, self._kept)
                # Columns that were filled, or made of several ones, have no missing
                # cells.
                if before.unfilled and not before.mixes:
                    read = {*self.complete_in, *before.origins()}
                    self.complete_in = sorted(read)
                    table = complete_rows(self.whole, self.complete_in)
        return table, [o for o in operations if not isinstance(o, Complete)]

    def origins(self) -> list[str]:
        """Return the source column of each column; empty where several are mixed."""
        return self._origins[-1]

    def _check_by_columns(self) -> None:
        """Refuse parts of columns where all silos have the same ones."""
        if self._partition != "columns":
            raise Refusal("partition")

    def _is_elsewhere(self, operation: Derive) -> bool:
        """Whether a transform reads columns of another silo alone, which applies it."""
        if self._partition == "rows" or not operation.of:
            # One of a part in which the silo has no column reads what others read.
            return False
        return set(operation.of).isdisjoint(self.columns)

    def _made(self, operation: Derive, columns: tuple[str, ...]) -> tuple[str, ...]:
        step = find_step(operation.step)
        by_columns = self._partition == "columns"
        # On a column partition only columns that are added have names that all know.
        added = by_columns and operation.adds and step.of_source
        if bool(operation.columns) == by_columns and not added:
            raise ValueError("a transform names its columns on row partitions alone")
        if operation.of and by_columns and not set(operation.of) <= set(columns):
            # Some of the columns are another silo's.
            raise LookupError("unknown_columns")
        if "kept" in step.reads and self._partition == "rows":
            # What a silo kept for its own columns is of no other silo's rows. And what
            # it subtracts from each row, times its rows in many parts, would be as many
            # equations for it.
            if not step.own_rows or self.cut is not None:
                raise Refusal("partition")
        if operation.of is None:
            return operation.columns or columns
        self._known(columns, Select(operation.of))
        made = (*operation.left(columns), *(operation.columns or operation.of))
        if len(set(made)) != len(made):
            raise LookupError("unknown_columns")
        return made

    def _widened(
        self, operation: Derive, step: Step, before: tuple[str, ...]
    ) -> tuple[tuple[str, ...], tuple[int, ...]]:
        """Return the columns that a transform of a silo's own makes, and of which."""
        try:
            made = self._kept(operation.kept_of)[KEPT_AS[step.widens]]
        except Refusal:
            if not self._planned:
                raise
            coded = set(self.table.categorical)
            made = planned_columns(step.widens, before, coded)
        if len(made) != len(before):
            raise Refusal("nothing_kept")
        pairs = widened_columns(step.widens, before, made.tolist())
        names = tuple(name for name, _ in pairs)
        if len(set(names)) != len(names) or bool(names) != bool(before):
            raise LookupError("unknown_columns")
        return names, tuple(place for _, place in pairs)

    def _known(self, columns: tuple[str, ...], operation: Select) -> tuple[str, ...]:
        wanted = operation.columns
        by_columns = self._partition == "columns"
        if by_columns:
            wanted = tuple(column for column in wanted if column in columns)
        known = set(wanted) <= set(columns)
        # On a column partition a silo may have no column of a part.
        none = not wanted and not (by_columns and not operation.columns)
        if none or not known or len(set(wanted)) != len(wanted):
            raise LookupError("unknown_columns")
        return wanted

    def over_parts(
        self, work: "Callable[[View], dict[str, Array]]"
    ) -> dict[str, Array] | None:
        """Do additive work where the parts of the table lie; see `Table.over_parts`.

        None where the table has no parts, where the view has some of its rows or fills
        some in another way, on column partitions, and where a transform reads what the
        silo kept.
        """
        by_row = self.cut is not None or self.held is not None
        reads_kept = any("kept" in one.step.reads for one in self._derived)
        if by_row or self._partition == "columns" or reads_kept:
            return None
        operations = [Select(self.source_columns), *self._operations]
        on_part = partial(_on_part, work, operations, self.filled_as)
        return self.table.over_parts(on_part)

    def blocks(
        self, extra: Sequence[str] = (), *, sparse: bool = False
    ) -> Iterator[Block]:
        """Yield the rows; at least one block, which may be empty.

        With `sparse` the blocks of a sparse source stay sparse, unless a transform
        reads them.
        """
        columns, table = self.source_columns, self.table
        if sparse and not self.transforms:
            blocks = table.sparse_blocks(columns, extra)
        else:
            # Operations copy what they read: in blocks, not the whole array at once.
            rows = rows_per_block(table, columns, extra, None)
            copies = self._operations or self.cut
            blocks = table.blocks(columns, extra, rows if copies else None)
        if self.cut is not None:
            blocks = _kept_rows(self.rows(), blocks)
        origins = iter(self._origins)
        for one in self._stages:
            if isinstance(one, Select):
                blocks = _selected(one.columns, blocks, columns)
            else:
                of, held = next(origins), None
                stay = [self.filled_as.get(source, np.nan) for source in of]
                if self.held is not None and one.step.by_pattern:
                    rows = self.held.rows
                    rows = rows if self.cut is None else rows[self.rows()]
                    held = rows, np.array([self.held.values[source] for source in of])
                some = one.operation.of is not None
                apply = _applied_to_some if some else _applied
                blocks = apply(one, blocks, self._kept, stay, held)
            columns = one.columns
        return blocks

    def sums(self, X: Any) -> Float[Array, " p"]:
        """Return the column sums of a block; those of all rows are computed once."""
        if X.shape[0] != self.n_rows:
            return column_sums(X)
        if self._sums is None:
            self._sums = column_sums(X)
            self._sums.flags.writeable = False
        return self._sums

    @property
    def known_mean(self) -> Float[Array, " p"] | None:
        """The mean of the rows, where their sums were computed; None elsewhere."""
        return None if self._sums is None else self._sums / self.n_rows

    def has_infinite(self) -> bool:
        """Whether a cell is infinite."""
        return any(np.isinf(block.X).any() for block in self.blocks())

    def class_sizes(self, label: str) -> list[tuple[int, int]]:
        """Return how many rows of each class other views may add or lack, of how many.

        For all rows: all those of the classes. For a silo's blocks: those of the
        classes in each of them. For blocks that all silos share, which are not
        stratified: those of the classes in the view and in what it leaves out.
        """
        sizes = Counter[tuple[int, object]]()
        parts = np.zeros(self.table.n_rows, int)
        if self.cut is not None:
            parts = self.rows() if self.cut.shared else self.cut.block_of
        for block in self.table.blocks((), [label]):
            labels = block.extra[label].tolist()
            of_part = parts[block.start : block.start + len(labels)].tolist()
            sizes.update(zip(of_part, labels, strict=True))
        # A missing label (None, NaN) is no class; a step refuses it itself.
        known = [(x, n) for (_, x), n in sizes.items() if x is not None and x == x]
        whole = Counter[object]()
        for x, n in known:
            whole[x] += n
        return [(n, whole[x]) for x, n in known]

    @cached_property
    def _origins(self) -> list[list[str]]:
        """Return the source column of each column that each transform reads.

        It is empty where several are mixed. Those of the view's columns come last.
        """
        origins = dict(zip(self.source_columns, self.source_columns, strict=True))
        found = []
        for one in self._stages:
            if isinstance(one, Select):
                origins = {c: origins[c] for c in one.columns}
                continue
            found.append([origins[name] for name in one.read])
            before = [""] * len(one.made)
            if one.step.by_column:
                before = [found[-1][place] for place in one.sources]
            left = {n: origins[n] for n in one.operation.left(one.before)}
            origins = left | dict(zip(one.made, before, strict=True))
        return [*found, list(origins.values())]

    @cached_property
    def fillings(self) -> dict[str, Filling]:
        """How missing cells of each source column are filled, where they are.

        The number is the value of the cell in a row in which every cell is missing,
        after the first transform that makes it a number.
        """
        done = defaultdict[str, list[tuple[Derive, int]]](list)
        found = dict[str, Filling]()
        for one, origins in zip(self._derived, self._origins, strict=False):
            operation, step = one.operation, one.step
            if step.by_pattern:
                numbers = operation.public["initial"].tolist()
                for source, number in zip(origins, numbers, strict=True):
                    value, name = float(number).hex(), home_of(step.function.__module__)
                    found[source] = Filling(False, _BY_PATTERN, value, name)
            if step.by_column in (False, "indicator") or not any(origins):
                continue  # what is mixed has no missing cells
            if step.widens:
                continue  # a missing category is one, and numbers pass as they are
            values = self._of_nothing(one)
            for place, source in enumerate(origins):
                if not source:
                    continue
                before = done[source]
                done[source] = [*before, (operation, place)]
                if source not in found and not np.isnan(values[place]):
                    found[source] = Filling(
                        chosen=not step.fitted_by,
                        before=digest(canonical(_records(before))) if before else "",
                        value=float(values[place]).hex(),
                        step=step.name,
                        former=_former(_records(done[source]), step),
                    )
        return found

    def settings_by_column(
        self, step: Step, public: Mapping[str, Any]
    ) -> list[tuple[Step, tuple[str, ...], Any]]:
        """Return settings by source column: of the view's transforms, and of a step.

        Each with the transforms that stand before. After transforms that mix columns
        they are about all source columns, and those of a transform that mixes columns
        itself about all that it reads.
        """
        derived = [one.operation for one in self._derived]
        steps = [*(one.step for one in self._derived), step]
        if not (is_by_column(step) or any(one.settings for one in steps[:-1])):
            return []
        found = list[tuple[Step, tuple[str, ...], Any]]()
        arguments = [*(o.public for o in derived), public]
        every = tuple(sorted(self.source_columns))
        for number, origins in enumerate(self._origins):
            one = steps[number]
            before = [o.as_json() for o in derived[:number]]
            read = tuple(sorted(set(origins))) if all(origins) else every
            if not is_by_column(one):
                if one.settings and number < len(derived):
                    own = [arguments[number][name] for name in one.settings]
                    found.append((one, read, [before, own]))
                continue
            found_in: Any = arguments[number]
            if "kept" in one.reads:
                found_in = self._kept(derived[number].kept_of)
            arrays = [np.asarray(found_in[name]) for name in one.settings]
            for place, source in enumerate(origins):
                if source:
                    own = [array[..., place].tolist() for array in arrays]
                    found.append((one, (source,), [before, own]))
            if not all(origins):
                whole = [array.tolist() for array in arrays]
                found.append((one, every, [before, whole]))
        return found

    def _of_nothing(self, one: _Transform) -> Float[Array, " p"]:
        """Return a transform's result for a row in which every cell is missing."""
        nothing = np.full((1, len(one.read)), np.nan)
        blocks = iter([Block(0, nothing, {})])
        with suppress(DataError):  # else it takes no missing cells, and fills none
            (block,) = _applied(one, blocks, self._kept, [])
            return block.X[0]
        return nothing[0]


@final
class IdColumn:
    """The view of a matching of rows: all ids of a table.

    A matching for another set of parties is refused like a step on the column: two
    intersections subtract to who is in one and not in the other.
    """

    def __init__(self, table: Table) -> None:
        self.table, self.filled_as = table, dict[str, float]()
        self.source_columns = () if table.ids is None else (table.ids,)
        self.n_rows, self.left_out = table.n_rows, 0
        self.selection = None
        self.transforms = list[str]()

    def rows(self) -> Bool[Array, " N"]:
        """Return a mask of the table's rows, all of them."""
        return np.ones(self.n_rows, bool)


def is_by_column(step: Step) -> bool:
    """Whether the settings of a step are arrays with a last axis over columns.

    The settings of a transform that reads kept arrays are among these arrays.
    """
    if step.verb == "derived" and "kept" in step.reads:
        return bool(step.settings)
    axes = [step.takes[n].axes.split() for n in step.settings if n in step.takes]
    return bool(axes) and all(letters[-1:] == ["p"] for letters in axes)


def _codes_in(one: _Transform, coded: set[str]) -> Iterable[str]:
    """Return which columns of a transform hold codes: those made of such columns."""
    if one.step.by_column != "missing":
        return ()
    return [made for name, made in one.pairs if name in coded]


def _texts(names: Any) -> list[str]:
    if names is None:
        return []
    if not isinstance(names, list) or not all(isinstance(n, str) for n in names):
        raise Refusal("arguments")
    return names


def _records(done: Sequence[tuple[Derive, int]]) -> list[Any]:
    """Return transforms of a column as JSON values, with its own arguments."""
    return [
        [find_step(operation.step).name, _own(operation, place)]
        for operation, place in done
    ]


def _own(operation: Derive, place: int) -> list[Any]:
    """Return the arguments of a transform by column, of the column in one place."""
    public = sorted(operation.public.items())
    values = [(n, v[place] if isinstance(v, np.ndarray) else v) for n, v in public]
    own = [[n, v.tolist() if hasattr(v, "tolist") else v] for n, v in values]
    return [*own, *([operation.kept_of] if operation.kept_of else [])]


def _former(done: list[Any], step: Step) -> str:
    """Return the name of a filling in notes of earlier versions of the library."""
    kind = "fitted " if step.fitted_by else "chosen "
    return kind + digest(canonical(done))


def _on_part(
    work: Callable[[View], dict[str, Array]],
    operations: Sequence[Operation],
    filled_as: Mapping[str, float],
    part: Table,
) -> dict[str, Array]:
    view = View(part, operations)
    view.fill_as(filled_as)
    return work(view)


def _check_arguments(step: Step, operation: Derive, n_features: int) -> None:
    # An array with an axis over rows, where one over columns is declared, would weigh
    # single rows; with infinities and zeros a chain of transforms can pick rows out.
    if step.verb != "derived":
        raise Refusal("allowed_steps")
    step.sizes(n_features, operation.public)
    if any(np.isinf(array).any() for array in operation.arrays().values()):
        raise DataError("A transform's argument is infinite.", rule="arguments")


def _applied(
    one: _Transform,
    blocks: Iterator[Block],
    kept: FindKept,
    stay: Sequence[float],
    held: tuple[Bool[Array, " n"], Float[Array, " p"]] | None = None,
) -> Iterator[Block]:
    """Apply a transform to blocks of the columns that it reads.

    `stay` has the numbers that missing cells get for certain; `held` which rows do, and
    the numbers of these.
    """
    step, public = one.step, dict(one.operation.public)
    if "kept" in step.reads:
        public["kept"] = kept(one.operation.kept_of)
    fills = step.by_column in (True, "missing") and not step.widens
    stays = np.array(stay) if fills else np.zeros(0)
    # Nobody could tell any more which column a missing cell behind it is of, and so how
    # it was filled before.
    complete = not (step.by_column or step.by_pattern or "cells" in step.reads)
    for block in blocks:
        with np.errstate(all="ignore"):
            X: Float[Array, "n q"] = step(block.X, **public)
            if complete and np.isnan(block.X.sum()) and np.isnan(block.X).any():
                raise DataError("Impute first.", rule="missing_values")
            if not np.isnan(stays).all():
                X = np.where(np.isnan(block.X) & ~np.isnan(stays), stays, X)
            if held is not None:
                own = held[0][block.start : block.start + len(block.X)]
                X = np.where(own[:, None] & np.isnan(block.X), held[1], X)
            # A sum is cheap and not finite if a cell is not; NaN may be a missing cell.
            if not np.isfinite(X.sum()) and np.isinf(X).any():
                raise DataError("A derived cell is infinite.", rule="infinite_values")
        if X.shape != (len(block.X), len(one.made)):
            raise ValueError("a derived block does not fit its declaration")
        yield replace(block, X=X)


def _applied_to_some(
    one: _Transform,
    blocks: Iterator[Block],
    kept: FindKept,
    stay: Sequence[float],
    held: tuple[Bool[Array, " n"], Float[Array, " p"]] | None,
) -> Iterator[Block]:
    """Apply a transform to some columns, and put the result behind the others."""
    read = [one.before.index(column) for column in one.read]
    left = [one.before.index(c) for c in one.operation.left(one.before)]
    for block in blocks:
        part = iter([replace(block, X=np.ascontiguousarray(block.X[:, read]))])
        (made,) = _applied(one, part, kept, stay, held)
        yield replace(block, X=np.hstack([block.X[:, left], made.X]))


def _selected(
    chosen: Sequence[str], blocks: Iterator[Block], columns: Sequence[str]
) -> Iterator[Block]:
    picked = [columns.index(column) for column in chosen]
    for block in blocks:
        yield replace(block, X=block.X[:, picked])


def _kept_rows(mask: Bool[Array, " N"], blocks: Iterator[Block]) -> Iterator[Block]:
    read = kept = 0
    for block in blocks:
        n = block.X.shape[0]
        chosen = mask[read : read + n]
        extra = {name: values[chosen] for name, values in block.extra.items()}
        yield Block(kept, block.X[chosen], extra)
        read += n
        kept += int(chosen.sum())
