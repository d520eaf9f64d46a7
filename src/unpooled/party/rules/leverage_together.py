"""Leverage over several answers: products of columns that were never asked together.

    answer 1   Σ f x      f and f' are equal but for one person
    answer 2   Σ f' x
    2 - 1      ± x of that person

Either answer alone passes the rule about its own columns (`rules.leverage`). So a silo
remembers which columns it answered about together, and judges for each column x all
that it was multiplied with, f and f' at once: whatever can be combined of such answers
is Σ u x, with u a combination of these columns, and no u may be one row's alone. The
classes of a label are columns of zeros and ones here: a sum of x by class is their
product with x, whichever label the table had at the time. A derived product or ratio is
one of the columns that it reads, also where nothing but its mean is asked for.

Columns are judged as they are in the table, since two that are equal but for one person
stay so under any transform of single columns. Those of which one row is nearly all by
itself are left out: as they are they were refused.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any, final
from weakref import WeakKeyDictionary

import numpy as np

from unpooled.arrays import Array, Float
from unpooled.data.columns import listing
from unpooled.data.row_blocks import Block
from unpooled.data.table import Table
from unpooled.linalg.leverage import largest_leverage
from unpooled.party.memory.audit_log import AuditLog, Note
from unpooled.party.rules.leverage import tells_pairs
from unpooled.party.rules.policy import Policy
from unpooled.party.rules.row_digests import as_feature
from unpooled.party.views.view import View
from unpooled.protocol.declaration import FEATURE_AXES
from unpooled.protocol.refusal import Refusal
from unpooled.protocol.step import Step

# With more values a label of numbers may be a number, and no name of a class.
_MOST_CLASSES = 50

# Columns, for the rows that lack a cell of one of them.
Lacking = tuple[str, ...]


@final
@dataclass(frozen=True)
class Multiplied:
    """Columns that an answer had sums of products of.

    Attributes
    ----------
    columns : frozenset of str
        Source columns of the table.
    pairs : bool
        Whether with each other.
    label : str
        With which label; empty for none.
    lacking : frozenset of str
        Columns, such that it was with the rows that lack a cell of one.
    complete : tuple of str
        Columns that its rows had a value in.
    """

    columns: frozenset[str]
    pairs: bool
    label: str
    lacking: frozenset[str] = frozenset()
    complete: tuple[str, ...] = ()

    def covers(self, other: "Multiplied") -> bool:
        """Whether this answer had all products that another one had."""
        fewer = other.pairs <= self.pairs and other.label in ("", self.label)
        fewer = fewer and other.complete in ((), self.complete)
        return fewer and other.columns <= self.columns and other.lacking <= self.lacking

    def as_record(self, table: str) -> dict[str, Any]:
        """Return JSON values."""
        record = {"table": table, "columns": sorted(self.columns)}
        record |= {"pairs": self.pairs, "label": bool(self.label)}
        record |= {"of_label": self.label} if self.label else {}
        record |= {"lacking": sorted(self.lacking)} if self.lacking else {}
        return record | ({"complete": list(self.complete)} if self.complete else {})

    @classmethod
    def from_record(cls, record: Mapping[str, Any], label: str) -> "Multiplied":
        """Read what `as_record` returned; `label` is that of notes without its name."""
        return cls(
            columns=frozenset(record["columns"]),
            pairs=record["pairs"],
            label=record.get("of_label", label) if record["label"] else "",
            lacking=frozenset(record.get("lacking", ())),
            complete=tuple(record.get("complete", ())),
        )


@final
@dataclass(frozen=True)
class _Judged:
    """Columns that are judged together, with some labels or none.

    And with rows that lack a cell of some columns.
    """

    columns: frozenset[str]
    labels: frozenset[str]
    lacking: frozenset[Lacking]

    def within(self, other: "_Judged") -> bool:
        """Whether others have all of these."""
        fewer = self.labels <= other.labels and self.lacking <= other.lacking
        return fewer and self.columns <= other.columns


# A column that a value of another one makes; a label of many numbers for None.
Indicator = tuple[str, object]


@final
class LeverageTogether:
    """Which columns of its table a silo answered about together.

    Parameters
    ----------
    audit_log : AuditLog
        Keeps them.
    policy : Policy
        The silo's rules.
    """

    def __init__(self, audit_log: AuditLog, policy: Policy) -> None:
        self._audit_log, self._policy = audit_log, policy
        # By table, sets that were judged and that no row carries.
        self._passed = WeakKeyDictionary[Table, list[_Judged]]()

    def check(
        self,
        step: Step,
        view: View,
        versions: Sequence[str],
        came: Sequence[Table] = (),
    ) -> None:
        """Refuse products that, with earlier ones, are those of one row.

        Parameters
        ----------
        versions : sequence of str
            Names of the versions of the table that have its rows.
        came : sequence of Table
            The rows that came since earlier versions: answers about both subtract to
            these.
        """
        if self._policy.max_leverage >= 1.0:
            return
        asked = _multiplied(step, view)
        earlier = [] if not asked else self._noted(view, versions)
        for one in asked:
            for judged in _together(one, earlier, everywhere=view.is_by_columns):
                # `rules.leverage` judges a view by itself, as its transforms leave it.
                own = one.pairs and _multiplies(step, len(view.columns))
                if own and judged.within(
                    _Judged(one.columns, frozenset(), _rows_of([one]))
                ):
                    continue
                # Fewer columns of few rows: a leverage is large by their number alone.
                table = view.whole if judged.lacking else view.table
                self._judge(table, judged, one, earlier, 2.0)
                # Sums over the rows that lack a cell are about all rows.
                there = replace(judged, lacking=frozenset())
                for some in came:
                    self._judge(some, there, one, earlier, 1.0)

    def notes(self, step: Step, view: View, versions: Sequence[str]) -> list[Note]:
        """Return a note of each set of columns that no answer has multiplied yet."""
        asked = _multiplied(step, view)
        earlier = [] if not asked else self._noted(view, versions)
        return [
            ("multiplied", one.as_record(versions[0]))
            for one in asked
            if not any(known.covers(one) for known in earlier)
        ]

    def _noted(self, view: View, versions: Sequence[str]) -> list[Multiplied]:
        notes, label = self._audit_log.state().notes["multiplied"], view.table.label
        notes = [note for note in notes if note["table"] in versions]
        return [Multiplied.from_record(note, label or "") for note in notes]

    def _judge(
        self,
        table: Table,
        judged: _Judged,
        one: Multiplied,
        earlier: list[Multiplied],
        answers: float,
    ) -> None:
        """Refuse columns of which one row of a table carries a direction.

        They are judged together, if so many answers may be over so many columns, and
        otherwise two by two.
        """
        columns = judged.columns
        most = answers * self._policy.max_feature_ratio * table.n_rows
        if len(columns) > most:
            # So many columns that a leverage may be large by their number alone. Any
            # two answers have no more.
            for other in earlier:
                two = (one.columns & columns) | (other.columns & columns)
                if len(two) <= most:
                    both = _Judged(two, judged.labels, _rows_of([one, other]))
                    self._judge(table, both, one, [], answers)
            return
        passed = self._passed.setdefault(table, [])
        if any(map(judged.within, passed)):
            return
        asked = [other.columns for other in (one, *earlier) if other.pairs]
        if carried := _carried(table, judged, asked, self._policy):
            raise Refusal(
                "max_leverage",
                f"Here of {listing(sorted(carried))}, which were asked for with the "
                f"same column.",
            )
        passed.append(judged)


def _multiplied(step: Step, view: View) -> list[Multiplied]:
    """Return the products of source columns that a step releases sums of."""
    leaves = [d for d in step.leaves.values() if d.noise is None and not d.counts]
    if not leaves:
        return []
    label = (view.table.label or "") if "y" in step.reads else ""
    columns, complete = _as_set(view.source_columns), tuple(view.complete_in)
    if _multiplies(step, len(view.columns)):
        return [Multiplied(columns, True, label, _lacking(step, view), complete)]
    found = [
        Multiplied(frozenset(read), True, "") for read, _ in view.derived_arguments
    ]
    by_class = tells_classes(step, view.table)
    sums = any(FEATURE_AXES & set(declared.letters) for declared in leaves)
    # Sums over all rows are no products; sums over complete rows are products with the
    # indicator of which rows are complete.
    if by_class or (sums and complete):
        label = label if by_class else ""
        found.append(Multiplied(columns, False, label, complete=complete))
    return found


def _lacking(step: Step, view: View) -> frozenset[str]:
    """Return columns such that an answer has sums over the rows that lack one.

    Or over the rows that have it, which is the same beside sums over all rows.
    """
    unfilled = view.unfilled if tells_missing(step) else ()
    return frozenset(view.indicated) | frozenset(unfilled)


def tells_missing(step: Step) -> bool:
    """Whether a step releases sums over the rows that have a value in each column."""
    return any(t.counts == "cells" and t.axes == "p p" for t in step.takes.values())


def _rows_of(answers: Sequence[Multiplied]) -> frozenset[Lacking]:
    """Return the rows that answers have sums over, beside all rows.

    Two choices of complete rows, or one and all rows, are compared by a rule of their
    own (`rules.complete_rows`). With a third one and all rows, sums follow over the
    rows that lack a value in each of two.
    """
    lacking = frozenset((name,) for one in answers for name in one.lacking)
    complete = frozenset(one.complete for one in answers if one.complete)
    return lacking | complete if lacking or len(complete) > 2 else lacking


# Cached for wide tables, where each request has the same columns as the one before.
@lru_cache(maxsize=1)
def _as_set(columns: tuple[str, ...]) -> frozenset[str]:
    return frozenset(columns)


def _multiplies(step: Step, p: int) -> bool:
    """Whether a step releases products of columns, and not entries for people alone."""
    leaves = [d for d in step.leaves.values() if d.noise is None]
    return tells_pairs(step, p) and any(d.level != "row" for d in leaves)


def tells_classes(step: Step, table: Table) -> bool:
    """Whether a step releases sums of columns by the classes of a label."""
    leaves = [d for d in step.leaves.values() if d.noise is None and not d.counts]
    by_label = "y" in step.reads and table.label is not None
    return by_label and any(FEATURE_AXES & set(d.letters) for d in leaves)


def _together(
    asked: Multiplied, earlier: list[Multiplied], *, everywhere: bool
) -> list[_Judged]:
    """Return the columns that each column was multiplied with; the largest sets only.

    Parameters
    ----------
    everywhere : bool
        Whether products with columns of other silos are asked for, so that any two
        answers have such a column in common.
    """
    related = [one for one in earlier if everywhere or one.columns & asked.columns]
    # Columns that stand in the same answers have equal sets.
    kinds = {
        frozenset(i for i, one in enumerate(related) if everywhere or x in one.columns)
        for x in asked.columns
    }
    if asked.label and asked.pairs:
        # The label is multiplied too.
        same = (i for i, w in enumerate(related) if w.label == asked.label and w.pairs)
        kinds.add(frozenset(same))
    found = set[_Judged]()
    for kind in kinds:
        of = [asked, *(related[i] for i in kind)]
        columns = frozenset[str]().union(*(one.columns for one in of if one.pairs))
        labels = frozenset(one.label for one in of) - {""}
        found.add(_Judged(columns, labels, _rows_of(of)))
    return [
        one
        for one in found
        if len(one.columns) + len(one.labels) + len(one.lacking) > 1
        and not any(one != more and one.within(more) for more in found)
    ]


def _carried(
    table: Table,
    judged: _Judged,
    answers: Sequence[frozenset[str]],
    policy: Policy,
) -> set[str]:
    """Return columns of which one row carries a direction, and of no answer alone."""
    limit, n = policy.max_leverage, table.n_rows
    # The present label may have been a column, and the other way round.
    columns = judged.columns - {table.label}
    labels = judged.labels | (judged.columns & {table.label})
    coded, plain = columns & {*table.categorical}, columns - {*table.categorical}
    # Fewer rows of the silo are "other" there, or are refused.
    fewest = max(policy.min_own_cells, 2)
    made = indicators(table, coded | labels, fewest)
    by_class = indicators(table, labels, fewest) if len(labels) > 1 else []
    lacking = sorted(one for one in judged.lacking if table.label not in one)

    def carried(
        plain: frozenset[str], made: Sequence[Indicator], lacking: Sequence[Lacking]
    ) -> set[str] | None:
        names = sorted(plain)
        p = len(names) + len(lacking) + len(made)
        if p + 1 >= n and made is not by_class:
            # So many that any row may carry a direction, but not one of two labels.
            return carried(frozenset(), by_class, ()) if made and by_class else None
        blocks = partial(_rows, table, names, made, lacking)
        found = largest_leverage(blocks, n, p, limit)
        if found.at_least <= limit:
            return None
        return {names[j] for j in found.columns if j < len(names)}

    while (found := carried(plain, made, lacking)) is not None:
        # What was answered by itself was another column there, under a transform.
        parts = [*({name} for name in plain), *(plain & one for one in answers)]
        alone = (carried(frozenset(part), (), ()) for part in parts if part)
        left = next((heavy for heavy in alone if heavy), None)
        if left is None:
            return found or {*columns, *labels}
        plain -= left
    return set()


def indicators(table: Table, names: frozenset[str], fewest: int) -> list[Indicator]:
    """Return the columns that labels and columns of categories stand for.

    Groups with few rows are left out: these are judged where they are released, or
    merged.
    """
    counts = {name: Counter[object]() for name in sorted(names)}
    for block in _blocks(table, (), list(counts)):
        for name in counts:
            counts[name].update(block.extra[name].tolist())
    found = list[Indicator]()
    for name, sizes in counts.items():
        values = [v for v in sizes if v is not None and v == v]
        numbers = all(isinstance(value, int | float) for value in values)
        if name not in table.categorical and numbers and len(values) > _MOST_CLASSES:
            found.append((name, None))
        # The most frequent is the others' complement, and stands for missing ones.
        common = [v for v in values if sizes[v] >= fewest]
        common.sort(key=lambda value: -sizes[value])
        found += [(name, v) for v in common[len(common) == len(values) :]]
    return found


def indicator_cells(block: Block, made: Sequence[Indicator]) -> Float[Array, "n q"]:
    """Return the cells of columns that values of others make."""
    cells = np.empty((len(block.X), len(made)))
    for j, (name, value) in enumerate(made):
        own = block.extra[name]
        cells[:, j] = as_feature(own) if value is None else own == value
    return cells


def _blocks(
    table: Table, plain: Sequence[str], extra: Sequence[str]
) -> Iterator[Block]:
    """Yield columns, and others beside them: of categories as studies read them.

    So a name of one row, which is merged with another, stands for no direction.
    """
    coded = [name for name in extra if name in table.categorical]
    others, k = [name for name in extra if name not in coded], len(plain)
    for block in table.blocks([*plain, *coded], others):
        codes = dict(zip(coded, block.X[:, k:].T, strict=True))
        yield replace(block, X=block.X[:, :k], extra={**block.extra, **codes})


def _rows(
    table: Table,
    plain: Sequence[str],
    made: Sequence[Indicator],
    lacking: Sequence[Lacking],
) -> Iterator[Float[Array, "n p"]]:
    extra = sorted({name for name, _ in made})
    more = sorted({name for which in lacking for name in which} - {*plain})
    place = {name: j for j, name in enumerate([*plain, *more])}
    for block in _blocks(table, [*plain, *more], extra):
        missing, parts = np.isnan(block.X), [block.X[:, : len(plain)]]
        for which in lacking:
            own = missing[:, [place[name] for name in which]]
            parts.append(own.any(axis=1, keepdims=True))
        X = np.hstack([*parts, indicator_cells(block, made)])
        # The step that reads infinite cells is refused by a rule of its own.
        X[np.isinf(X)] = np.nan
        yield X
