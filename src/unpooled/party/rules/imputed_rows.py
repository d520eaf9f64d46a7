"""Which rows are imputed from their other cells: only many that lack the same ones.

    sums of sweep t = those of complete rows + Σ over patterns of missing cells
                      (sums of the observed cells of its rows, and of their products,
                       with coefficients that everybody knows)

The coefficients are other ones in every sweep, so that a few sweeps are enough to solve
for these sums of each pattern. A pattern that one row has would give the row. So the
silo decides which rows are filled from their other cells:

    groups    rows that lack the same cells, and have the same class
    shared    rows with a pattern about which the silo would answer by themselves: at
              least `min_rows`, in groups of `min_rows_per_class`, with few columns for
              so many rows (`max_feature_ratio`), none of which carries a direction of
              the columns (`max_leverage`): those that do are left to the next kind
    held      all other incomplete rows: their cells have the column's mean, in every
              sweep and ever after, and count as observed

The silo would also answer about the complete and held rows together, unless there are
none: otherwise the smallest shared pattern is held as well. Whatever the sweeps are,
their totals are then sums of totals that a silo would release by themselves.

For sums over other unions of rows this is not so: next to sums over the rows with a
value in a column, over complete rows or over cells that were filled in another way, the
sweeps would give those of the held rows among them. So a silo answers one or the other.
Once it has filled some columns of a table from each other, it always fills them from
the same ones, and it answers later steps about one completed table only.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final
from weakref import WeakKeyDictionary

import numpy as np

from unpooled.arrays import Array, Bool, Float, Int
from unpooled.data.table import Table
from unpooled.ledger import canonical
from unpooled.linalg.leverage import largest_leverage, leverages
from unpooled.linalg.moments import observed_sums
from unpooled.party.memory.audit_log import AuditLog, Note
from unpooled.party.rules.leverage import tells_pairs
from unpooled.party.rules.policy import Policy
from unpooled.party.rules.table_versions import TableVersions
from unpooled.party.views.view import Held, View
from unpooled.protocol.message import digest
from unpooled.protocol.refusal import Refusal
from unpooled.protocol.step import Step, find_step, home_of


@final
class ImputedRows:
    """Which rows of a silo's table are filled from their other cells, and how.

    Parameters
    ----------
    audit_log : AuditLog
        Keeps the columns that were imputed together, the means of the held rows, the
        completed table that steps read, and the columns read in another way.
    versions : TableVersions
        The versions of the table that the silo answered about.
    policy : Policy
        The silo's rules.
    """

    def __init__(
        self, audit_log: AuditLog, versions: TableVersions, policy: Policy
    ) -> None:
        self._audit_log, self._versions, self._policy = audit_log, versions, policy
        self._known = WeakKeyDictionary[Table, dict[tuple[str, ...], _Rows]]()
        self._lack = WeakKeyDictionary[Table, dict[str, bool]]()

    def check(self, step: Step, view: View) -> None:
        """Have the rows of rare patterns held, or refuse.

        Raises
        ------
        Refusal
            "imputed_parts" where a fit reads a part of the rows; "another_filling"
            where the silo answered about other columns, another completed table, or the
            same cells filled or left out in another way.
        """
        if self._policy.min_rows <= 1:
            return
        self.foresee(step, view)
        self._check_others(step, view)
        if not view.imputed_by_pattern:
            return
        fit, columns = _is_fit(step, view), _columns(view)
        rows = self._rows(view.table, columns)
        if not rows.lacking:
            return
        names = self._versions.names(view.table)
        values = _initial(view)
        for note in self._notes("iterated"):
            if note["table"] in names:
                # A policy that changed holds other rows.
                same = (tuple(note["columns"]), note["held"])
                if same != (columns, int(rows.held.sum())):
                    raise Refusal("another_filling")
                first = map(float.fromhex, note["values"])
                values = dict(zip(columns, first, strict=True))
            elif self._versions.overlaps(view.table, note["table"]):
                # One row more of a pattern would be the difference of its sums.
                raise Refusal("another_filling")
        for note in self._notes("otherwise"):
            if note["table"] in names and _meets(rows, note, fit or view.cut is None):
                raise Refusal("another_filling")
        if not fit:
            for note in self._notes("completed"):
                if note["table"] in names and note["as"] != _completion(view):
                    raise Refusal("another_filling")
        view.hold(Held(rows.held, values))

    def foresee(self, step: Step, view: View) -> None:
        """Refuse a fit of a part of the rows, and two imputations in one view."""
        if self._policy.min_rows <= 1:
            return
        if len(view.imputed_by_pattern) > 1:
            raise Refusal("another_filling")
        if view.imputed_by_pattern and view.cut is not None and _is_fit(step, view):
            raise Refusal("imputed_parts")

    def notes(self, step: Step, view: View) -> list[Note]:
        """Return the notes that the log gets before an answer leaves."""
        if self._policy.min_rows <= 1:
            return []
        others = _read_otherwise(step, view)
        if not others and view.held is None:
            return []
        found, names = list[Note](), self._versions.names(view.whole)
        known = [n for n in self._notes("otherwise") if n["table"] in names]
        new = {
            key: columns - {c for note in known for c in note[key]}
            for key, columns in others.items()
        }
        lacking = self._lacking(view.whole, set[str]().union(*new.values()))
        new = {key: sorted(columns & lacking) for key, columns in new.items()}
        if any(new.values()):
            found.append(("otherwise", {"table": names[0], **new}))
        if view.held is None:
            return found
        columns, table = _columns(view), names[0]
        if not any(n["table"] in names for n in self._notes("iterated")):
            values = [view.held.values[column].hex() for column in columns]
            note = {"table": table, "columns": list(columns), "values": values}
            note["held"] = int(view.held.rows.sum())
            found.append(("iterated", note))
        if not _is_fit(step, view):
            part = view.cut is not None
            note = {"as": _completion(view), "part": part}
            known = [n for n in self._notes("completed") if n["table"] in names]
            if not any(n["part"] or not part for n in known):
                found.append(("completed", {"table": table, **note}))
        return found

    def _check_others(self, step: Step, view: View) -> None:
        """Refuse cells that are read in another way than they were imputed."""
        if not (iterated := self._notes("iterated")):
            return
        if not (others := _read_otherwise(step, view)):
            return
        names = self._versions.names(view.whole)
        in_parts = any(
            note["part"] for note in self._notes("completed") if note["table"] in names
        )
        for note in iterated:
            if note["table"] in names:
                if not set(note["columns"]) <= set(view.whole.columns):
                    raise Refusal("another_filling")  # one of them is the label now
                rows = self._rows(view.whole, tuple(note["columns"]))
                if _meets(rows, others, not in_parts):
                    raise Refusal("another_filling")

    def _notes(self, kind: str) -> list[dict[str, Any]]:
        return self._audit_log.state().notes[kind]

    def _lacking(self, table: Table, columns: set[str]) -> set[str]:
        """Return which of some columns lack a cell; each is read once."""
        known = self._lack.setdefault(table, {})
        if new := sorted(columns - known.keys()):
            there = sum(observed_sums(block.X)[0] for block in table.blocks(new))
            lacks = np.ravel(there) < table.n_rows
            known |= dict(zip(new, lacks.tolist(), strict=True))
        return {column for column in columns if known[column]}

    def _rows(self, table: Table, columns: tuple[str, ...]) -> "_Rows":
        known = self._known.setdefault(table, {})
        if columns not in known:
            known[columns] = _divided(self._policy, table, columns)
        return known[columns]


@final
@dataclass(frozen=True, eq=False)
class _Rows:
    """How the rows of a table are divided.

    Attributes
    ----------
    held : (N,) array of bool
        The rows that are not filled from their other cells.
    held_lack, lacking : frozenset of str
        Columns in which a held row, or any row, has no value.
    """

    held: Bool[Array, " N"]
    held_lack: frozenset[str]
    lacking: frozenset[str]


def _divided(policy: Policy, table: Table, columns: tuple[str, ...]) -> _Rows:
    patterns, of_row, classes = _patterns(table, columns)
    # Steps by class are refused anyway where a class has so few rows.
    if len(classes) and np.bincount(classes).min() < policy.min_own_cells:
        classes = np.zeros_like(classes)
    shared = list[Bool[Array, " N"]]()
    for k in np.flatnonzero(patterns.any(axis=1)).tolist():
        has = [c for c, lacks in zip(columns, patterns[k], strict=True) if not lacks]
        rows = _answerable(policy, table, has, classes, of_row == k)
        if rows.any():
            shared.append(rows)
    shared.sort(key=lambda rows: int(rows.sum()))
    while shared:
        rest = ~_of_any(shared, len(of_row))
        if (_judged(policy, table, columns, rest) == rest).all():
            break
        del shared[0]
    incomplete: Bool[Array, " k"] = np.asarray(patterns.any(axis=1))
    held = incomplete[of_row] & ~_of_any(shared, len(of_row))
    all_lack, held_lack = (
        frozenset(np.array(columns, object)[patterns[rows].any(axis=0)])
        for rows in (np.unique(of_row), np.unique(of_row[held]))
    )
    return _Rows(held, held_lack, all_lack)


def _of_any(groups: Sequence[Bool[Array, " N"]], n: int) -> Bool[Array, " N"]:
    found = np.zeros(n, bool)
    for rows in groups:
        found |= rows
    return found


def _answerable(
    policy: Policy,
    table: Table,
    columns: Sequence[str],
    classes: Int[Array, " N"],
    rows: Bool[Array, " N"],
) -> Bool[Array, " N"]:
    """Return the largest part of the rows whose own totals a silo would release."""
    by_class = classes.any()
    while rows.any():
        before = rows
        if by_class:
            sizes = np.bincount(classes[rows], minlength=int(classes.max()) + 1)
            rows = rows & (sizes >= policy.min_rows_per_class)[classes]
        rows = _judged(policy, table, columns, rows)
        if (rows == before).all():
            break
    return rows


def _judged(
    policy: Policy,
    table: Table,
    columns: Sequence[str],
    rows: Bool[Array, " N"],
) -> Bool[Array, " N"]:
    """Return some rows without those that carry a direction of the columns.

    None, where they are fewer than `min_rows`, or than `max_feature_ratio` lets pass.
    """
    n, p = int(rows.sum()), len(columns)
    if n < policy.min_rows or not policy.allows_pairs(p, n):
        return np.zeros_like(rows)
    if not p or (limit := policy.max_leverage) >= 1.0:
        return rows

    def blocks() -> Iterator[Float[Array, "k q"]]:
        for block in table.blocks(list(columns)):
            yield block.X[rows[block.start : block.start + len(block.X)]]

    if largest_leverage(blocks, n, p, limit).at_most <= limit:
        return rows
    left = rows.copy()
    left[rows] = leverages(np.concatenate(list(blocks()))) <= limit
    return left


def _patterns(
    table: Table, columns: tuple[str, ...]
) -> tuple[Bool[Array, "k p"], Int[Array, " N"], Int[Array, " N"]]:
    """Return patterns of missing cells, and the pattern and the class of each row."""
    label = [] if table.label is None else [table.label]
    numbers, names = dict[bytes, int](), dict[object, int]()
    of_row, classes = list[Array](), list[int]()
    for block in table.blocks(list(columns), label):
        packed = np.packbits(np.isnan(block.X), axis=1)
        found, inverse = np.unique(packed, axis=0, return_inverse=True)
        places = [numbers.setdefault(row.tobytes(), len(numbers)) for row in found]
        of_row.append(np.array(places, int)[inverse.ravel()])
        for value in block.extra[label[0]].tolist() if label else [0] * len(block.X):
            # Rows without a label (None, NaN) are a class too.
            same = value if value == value else None
            classes.append(names.setdefault(same, len(names)))
    packed = np.frombuffer(b"".join(numbers), np.uint8).reshape(len(numbers), -1)
    patterns = np.unpackbits(packed, axis=1, count=len(columns)).astype(bool)
    rows = np.concatenate(of_row) if of_row else np.zeros(0, int)
    return patterns, rows, np.array(classes, int)


def _columns(view: View) -> tuple[str, ...]:
    """Return the columns that are imputed together, sorted."""
    ((_, columns),) = view.imputed_by_pattern
    return tuple(sorted(columns))


def _initial(view: View) -> dict[str, float]:
    ((operation, columns),) = view.imputed_by_pattern
    numbers = operation.public["initial"].tolist()
    return dict(zip(columns, map(float, numbers), strict=True))


def _completion(view: View) -> str:
    """Return a name for the completed table: other regressions give another one."""
    ((operation, columns),) = view.imputed_by_pattern
    record = {**operation.as_json(), "columns": list(columns), "of": [], "adds": False}
    return digest(canonical(record))


def _is_fit(step: Step, view: View) -> bool:
    """Whether the step fits what the view is imputed by, and reads nothing else."""
    ((operation, _),) = view.imputed_by_pattern
    homes = {
        home_of(one.function.__module__) for one in (step, find_step(operation.step))
    }
    reads = set(step.reads)
    return len(homes) == 1 and view.ends_by_pattern and reads <= {"X", "kept"}


def _read_otherwise(step: Step, view: View) -> dict[str, set[str]]:
    """Return the columns whose missing cells are left out, or filled one by one.

    Under "columns" those that all rows are read of, or complete ones, or pairs; under
    "parts" those of which sums over observed cells of some rows are taken.
    """
    together = {c for _, columns in view.imputed_by_pattern for c in columns}
    columns, parts = {*view.fillings, *view.complete_in} - together, set[str]()
    # Other steps of the library take no missing cells.
    declared = [*step.declared.values(), *step.takes.values()]
    if any(one.counts == "cells" for one in declared):
        unfilled = set(view.unfilled) - together
        if tells_pairs(step, len(view.columns)):
            columns |= unfilled
        parts = unfilled if view.cut is not None else parts
    return {"columns": columns, "parts": parts} if columns or parts else {}


def _meets(rows: _Rows, others: Mapping[str, Any], whole: bool) -> bool:
    """Whether cells that were imputed are read in another way, by few rows perhaps."""
    if not rows.held_lack.isdisjoint(others["columns"]):
        return True
    return not whole and not rows.lacking.isdisjoint(others["parts"])
