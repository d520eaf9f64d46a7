"""The cut of each version of a silo's table: one, whatever label a study has.

    keyed digests of rows ─> version ─ known to the log ───> its cut
                                     ─ its first rows are ─> their blocks stay
                                     ─ neither ────────────> another cut

A cut follows from the silo's key, from the rows of the version and from the label of
the first study, so that it is the same in every process. Two labels would stratify two
cuts, whose unions could differ in a few rows: later studies use the first one's, and
are refused where it leaves a block few rows of one of their classes. The order of rows
has no part in it. Rows with a rare cell (one of two observed values of a column, say)
stand in the same blocks, as far as their classes allow, and no row of a block alone
has one of few values of a column, where rows can change places so.

Rows appended behind the known ones leave the earlier blocks as they are, so that unions
of both versions do not differ in a few. The new rows are cut by themselves: while there
are fewer than 20 blocks they are blocks of their own, afterwards each of theirs joins
one of the earlier. Any other change cuts all rows anew, unrelated to the cut before: a
cut that moves with every change would differ from the last in a few rows of each block.
How many rows must change between two answers is a rule of its own
(`unpooled.party.rules.table_versions`). A source that gives its rows in another order
after some were appended is cut anew as well; let it sort them by when they came.

A selection names blocks by numbers, the same in all silos. Before the first one the
silos count among themselves how many of them have how many blocks
(`unpooled.protocol.block_levels`), and each cuts its rows into no more than enough of
them have. The first such number stays, and with a smaller one later its blocks are
merged: merged once they would differ from the same blocks apart. Then the silos count
the rows of each block over all of them, by which selections are judged.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, final

import numpy as np

from unpooled.arrays import Array, Bool, Float, Int, Shaped, UInt8, UInt64
from unpooled.data.table import Table
from unpooled.party.memory.audit_log import AuditLog, Note
from unpooled.party.rules.policy import Policy
from unpooled.party.rules.row_digests import as_feature, label_cells, row_digests
from unpooled.party.rules.rows_of_parts import RowsOfParts
from unpooled.party.steps.asked_step import AskedStep
from unpooled.party.views.cut import (
    Cut,
    brought_together,
    merged,
    none_alone,
    stratified_blocks,
)
from unpooled.party.views.view import View
from unpooled.protocol.refusal import Refusal
from unpooled.protocol.shared_blocks import MOST_BLOCKS

# Flags of rows: how many at most, of how many values of a column, of how many names if
# it is of categories, seen in how many rows, and of how many rows: of more some are in
# every block.
_MOST_FLAGS, _MOST_VALUES, _MOST_NAMES, _SAMPLE = 256, 8, 64, 256
_MOST_FLAGGED = 30 * MOST_BLOCKS
# In place of a value: the cell is missing, has one, or the column has many, of which
# most rows may have one and some another.
_MISSING, _THERE, _MANY, _OTHER = ("missing",), ("there",), ("many",), ("other",)
_CUT, _SELECTED, _COMMON = "blocks", "selected", "common_blocks"


@final
class TableCuts:
    """The cuts of the tables that a silo answered about.

    Parameters
    ----------
    key : bytes
        The silo's secret, at most 64 bytes, the same after a restart.
    audit_log : AuditLog
        Keeps which versions there were, and the label of each.
    policy : Policy
        Has the fewest rows of a block and of a class.
    """

    def __init__(self, key: bytes, audit_log: AuditLog, policy: Policy) -> None:
        self._key, self._audit_log, self._policy = key, audit_log, policy
        self._rows_of_parts = RowsOfParts(policy)
        self._table: Table | None = None
        # By the most blocks that it may have.
        self._cuts: dict[int, tuple[Cut, dict[str, Any]]] = {}
        # Rows of each block over all silos, by version; a session counts them anew.
        self._rows: dict[str, tuple[int, ...]] = {}

    def of(self, table: Table) -> Cut:
        """Return the cut of a table's rows: the own one until a number is common."""
        known = self._common(table)
        if not known:
            return self._made(table)[0]
        # Notes of earlier versions of the library: their blocks were merged.
        first = known[0]["most"] if known[0].get("alike", False) else MOST_BLOCKS
        return merged(self._made(table, first)[0], min(one["most"] for one in known))

    def n_own_blocks(self, table: Table) -> int:
        """Return how many blocks the silo's own cut has."""
        return len(self._made(table)[0].sizes)

    def take_common(self, table: Table, most: int) -> None:
        """Note how many blocks enough silos have; the smallest number stays."""
        version, known = self._version_of(table), self._common(table)
        if any(note["most"] == most for note in known):
            return
        # What was answered by blocks without a common number has these blocks.
        cut = self._audit_log.notes(_CUT)
        answered = any(note["parts"][0][1] == version for note in cut)
        alike = known[0].get("alike", False) if known else not answered
        note = {"version": version, "most": most, "alike": alike}
        self._audit_log.note(_COMMON, note)

    def common_sizes(self, table: Table) -> tuple[int, ...]:
        """Return the rows of each block, once it is common how many there are."""
        if not self._common(table):
            raise Refusal("out_of_order")
        return self.of(table).sizes

    def take_sizes(self, table: Table, rows: Sequence[float] | Array) -> None:
        """Take how many rows each block has over all silos."""
        counted = tuple(round(float(n)) for n in rows)
        if any(n < own for n, own in zip(counted, self.of(table).sizes, strict=False)):
            # Depends on rows, and counts among the refusals that do.
            raise Refusal("public_bound")
        n_blocks = max(np.flatnonzero(counted), default=-1) + 1
        self._rows[self._version_of(table)] = counted[:n_blocks]

    def n_counted(self, table: Table) -> int:
        """Return the rows of all silos together; 0 where nobody counted blocks."""
        return sum(self._rows.get(self._version_of(table), ())) if self._rows else 0

    def _version_of(self, table: Table) -> str:
        """Return the first rows' version: others that follow leave their blocks."""
        return self._made(table)[1]["parts"][0][1]

    def _common(self, table: Table) -> list[dict[str, Any]]:
        """Return the notes of common numbers, the first one first."""
        version, notes = self._version_of(table), self._audit_log.notes(_COMMON)
        return [note for note in notes if note["version"] == version]

    def check(self, asked: AskedStep, *, planned: bool = False) -> None:
        """Refuse pairs of features of blocks that too few rows tell from others.

        Totals of two selections subtract to those of the blocks that one of them has,
        and those of several to the blocks that are in the same of them. All such blocks
        together must have the rows that `max_feature_ratio` asks for, over all silos,
        which counted them. And no own row of theirs may be nearly all of a column
        (`rules.rows_of_parts`).

        With `planned` the silos need not have counted them: no other silo's are known.
        """
        self._check_first(asked)
        self._check_common(asked.view, planned=planned)
        if (now := self._selection(asked)) is None:
            return
        assert isinstance(asked.view, View)
        assert asked.view.cut is not None
        cut, p = asked.view.cut, now["features"]
        counted = cut.sizes if cut.shared else self._rows.get(now["version"])
        if counted is None and not planned:
            raise Refusal("out_of_order")
        earlier = [
            (min(p, note["features"], len(common)), note["blocks"])
            for note in self._audit_log.state().notes[_SELECTED]
            if note["version"] == now["version"]
            and (common := {*note["columns"]} & {*now["columns"]})
        ]
        if counted is not None:
            for q in {p, *(q for q, _ in earlier)} - {0}:
                # Parts of which this silo has no rows are judged by others.
                kept = [now["blocks"], *(blocks for p, blocks in earlier if p >= q)]
                parts = _told_apart(cut, kept)
                rows = [sum(counted[b] for b in part) for part in parts]
                self._policy.check_made(q, min(rows))
        self._check_rows_of_parts(asked, earlier, planned=planned)

    def _check_rows_of_parts(
        self,
        asked: AskedStep,
        earlier: Sequence[tuple[int, Sequence[int]]],
        *,
        planned: bool,
    ) -> None:
        """Refuse products of columns of which one own row of a part is nearly all."""
        view = asked.view
        assert isinstance(view, View)
        assert view.cut is not None
        # A plan has placeholders for fitted numbers.
        if not planned or not view.up_to_scale().transforms:
            kept = [view.kept_blocks, *(blocks for _, blocks in earlier)]
            parts = _told_apart(view.cut, kept)
            self._rows_of_parts.check(asked.step, view, parts)

    def check_classes(self, view: View) -> None:
        """Refuse products in single classes of which one row of a part is nearly all.

        Parameters
        ----------
        view : View
            What a step reads that tells the products of one class from others.
        """
        self._rows_of_parts.check_classes(view, self.parts(view))

    def parts(self, view: View) -> list[list[int]]:
        """Return the blocks of each part by which answers about columns differ.

        None of a view of all rows, as its own answer tells no parts.
        """
        if view.cut is None:
            return []
        version, columns = self._selected_in(view), {*view.source_columns}
        kept = [
            view.kept_blocks,
            *(
                note["blocks"]
                for note in self._audit_log.state().notes[_SELECTED]
                if note["version"] == version
                and note["features"]
                and columns & {*note["columns"]}
            ),
        ]
        return _told_apart(view.cut, kept)

    def part(self, asked: AskedStep) -> list[Any] | None:
        """Return the version and blocks of a step with products over some of the rows.

        None of other steps, of all rows, and where all silos have the same rows.
        """
        now, view = self._selection(asked), asked.view
        if now is None or not isinstance(view, View) or not view.left_out:
            return None
        assert view.cut is not None
        if not now["features"]:
            return None
        return None if view.cut.shared else [now["version"], now["blocks"]]

    def n_of_blocks(self, table: Table, blocks: Iterable[int]) -> int:
        """Return the rows of some blocks over all silos, which these have counted."""
        counted = self._rows.get(self._version_of(table), ())
        return sum(counted[block] for block in blocks if block < len(counted))

    def notes(self, asked: AskedStep) -> list[Note]:
        """Return notes of the table's blocks, and of those that a view selects.

        A view of all rows has none.
        """
        view, found = asked.view, list[Note]()
        if not isinstance(view, View) or view.cut is None:
            return []
        if not view.cut.shared:
            found.append((_CUT, self._made(view.table)[1]))
        if (now := self._selection(asked)) is not None:
            found.append((_SELECTED, now))
        known = self._audit_log.state().notes
        return [(kind, note) for kind, note in found if note not in known[kind]]

    def _check_first(self, asked: AskedStep) -> None:
        """Refuse a cut where another process cut the same rows otherwise meanwhile."""
        view = asked.view
        if not isinstance(view, View) or view.cut is None or view.cut.shared:
            return
        own = self._made(view.table)[1]
        same = [
            note
            for note in self._audit_log.state().notes[_CUT]
            if note["parts"] == own["parts"]
        ]
        if same and same[0] != own:
            self._cuts.clear()
            raise Refusal("out_of_order")

    def _check_common(self, view: Any, *, planned: bool) -> None:
        """Refuse a selection of blocks of which too few silos have rows."""
        if not isinstance(view, View) or view.cut is None or view.cut.shared:
            return
        most = min((n["most"] for n in self._common(view.table)), default=None)
        own = len(view.cut.sizes)
        if most is None and planned:
            return
        if most is None or own > most:
            # Nobody counted yet, or another session merged blocks meanwhile.
            raise Refusal("out_of_order")
        # Without any of the shared blocks a part is empty; with all it leaves none out,
        # and a fit of it is the fit of all rows.
        if most == 1 or (own == most and len(view.kept_blocks) in (0, most)):
            raise Refusal("shared_blocks")

    def _selection(self, asked: AskedStep) -> dict[str, Any] | None:
        """Return the note of a release over pairs of features of some blocks.

        Or, with 0 features, of sums over columns that are other functions of the
        table's, whose rows are judged in the parts by which any two answers differ.
        """
        view, leaves = asked.view, asked.step.leaves.values()
        if not isinstance(view, View) or view.cut is None:
            return None
        pairs = any(declared.pairs_features for declared in leaves)
        sums = any(one.noise is None and not one.counts for one in leaves)
        computed = sums and not view.cut.shared and view.computed
        if not pairs and not computed:
            return None
        return {
            "version": self._selected_in(view),
            "blocks": list(view.kept_blocks),
            "columns": sorted(view.source_columns),
            "features": len(view.columns) if pairs else 0,
        }

    def _selected_in(self, view: View) -> str | int:
        """Return the name of the rows whose blocks a view of some of them has."""
        if view.cut is not None and view.cut.shared:
            return view.table.n_rows
        # The version of the first rows: blocks keep their numbers where rows were
        # appended.
        return self._version_of(view.table)

    def _made(
        self, table: Table, most: int = MOST_BLOCKS
    ) -> tuple[Cut, dict[str, Any]]:
        """Return the cut into at most so many blocks, and the note of the version."""
        if table is not self._table:
            self._cuts.clear()
        if most not in self._cuts:
            note, digests = self._note_of(table)
            blocks = self._blocks(table, digests, note, most)
            self._table, self._cuts[most] = table, (Cut(blocks), note)
        return self._cuts[most]

    def _note_of(self, table: Table) -> tuple[dict[str, Any], UInt64[Array, " n"]]:
        """Return the note of the version, and the digests of the table's rows.

        The note has the label, the rows of a block and the version's parts. What was
        cut by another label is known by the digests of that time.
        """
        notes = self._audit_log.state().notes[_CUT]
        of_label = {own: self._digests(table, own) for own in {table.label or ""}}
        for note in sorted(notes, key=lambda note: -_n_rows(note["parts"])):
            label, known = note["label"], _n_rows(note["parts"])
            if label and label not in {*table.columns, table.label}:
                label = table.label or ""
            if label not in of_label:
                of_label[label] = self._digests(table, label)
            digests = of_label[label]
            if known > len(digests) or self._parts(digests, note["parts"]) is None:
                continue
            if known == len(digests):
                return note, digests
            added = [len(digests) - known, self._version(digests[known:])]
            return {**note, "parts": [*note["parts"], added]}, digests
        digests = of_label[table.label or ""]
        note = {
            "label": table.label or "",
            "fewest": [self._policy.min_rows, self._policy.min_rows_per_class],
            "alone": False,
            "parts": [[len(digests), self._version(digests)]],
        }
        return note, digests

    def _digests(self, table: Table, label: str) -> UInt64[Array, " n"]:
        """Return the digests of a table's rows, with any of its columns for label."""
        every = [*table.columns, *([table.label] if table.label else [])]
        columns = [name for name in every if name not in (label, table.ids)]
        return row_digests(table, columns, label, self._key)

    def _parts(
        self, digests: UInt64[Array, " n"], parts: Sequence[Any]
    ) -> list[UInt64[Array, " l"]] | None:
        """Return the digests by part; None unless these rows are the same ones."""
        found, start = [], 0
        for n, version in parts:
            found.append(digests[start : start + n])
            if self._version(found[-1]) != version:
                return None
            start += n
        return found

    def _version(self, digests: UInt64[Array, " n"]) -> str:
        # Sorted: a version is its rows, in whatever order they come.
        rows = np.sort(digests).tobytes()
        return hashlib.blake2b(rows, digest_size=16, key=self._key).hexdigest()

    def _blocks(
        self,
        table: Table,
        digests: UInt64[Array, " n"],
        note: dict[str, Any],
        most: int,
    ) -> UInt8[Array, " n"]:
        fewest, fewest_of_class = note["fewest"]
        classes = _classes(table, note["label"], fewest_of_class, self._key)
        if classes is None:
            classes, fewest_of_class = np.zeros(len(digests), int), 0
        rare = _rare_rows(table, note["label"], fewest)
        # Notes of earlier versions of the library do not say so: their cut stays.
        label = note["label"]
        flags = None if note.get("alone", True) else _flags(table, label)
        blocks, start = np.zeros(len(digests), np.uint8), 0
        for n, version in note["parts"]:
            part = slice(start, start + n)
            # The order depends on the version, so that another version has another one.
            odd = np.uint64(int(version[:16], 16) | 1)
            order = np.argsort(digests[part] * odd, kind="stable")
            new = stratified_blocks(order, classes[part], fewest, fewest_of_class, most)
            new = brought_together(new, classes[part], rare[part], order)
            if flags is not None:
                fixed = np.asarray(rare[part].any(axis=1))
                new = none_alone(new, classes[part], flags[part], fixed, order)
            if start:
                new = _added(
                    blocks[:start],
                    classes[: start + n],
                    new,
                    fewest=fewest,
                    fewest_of_class=fewest_of_class,
                    most=most,
                )
            blocks[part] = new
            start += n
        return blocks


def _classes(
    table: Table, label: str, fewest: int, key: bytes
) -> Int[Array, " n"] | None:
    """Return the class of each row; None without a label or where it has no classes.

    A label with few rows of each value, such as a measurement, is no class.
    """
    if not label or label not in {*table.columns, table.label}:
        return None
    read = table.blocks((), [label])
    cells = [label_cells(block.extra[label], key) for block in read]
    distinct, classes = np.unique(np.concatenate(cells), return_inverse=True)
    if len(distinct) * max(fewest, 2) > len(classes):
        return None
    return classes.astype(int)


def _rare_rows(table: Table, label: str, fewest: int) -> Bool[Array, "n q"]:
    """Return, for each column with rare cells, which rows have them.

    A cell is rare where it was observed and nearly all are missing, or the reverse, or
    where nearly all rows have one other value. A row with it that a selection has
    without the others would be alone in what it has of the column.

    Parameters
    ----------
    label : str
        That of the cut, which is no such column, whichever the table has now.
    """
    every = [*table.columns, *([table.label] if table.label else [])]
    names = [name for name in every if name != label]
    blocks = [np.column_stack(cells) for _, cells in _cells(table, names, label)]
    first, usual = blocks[0][: 2 * fewest + 1], np.full(len(names), np.nan)
    for j, column in enumerate(first.T):
        # A value that all but a few rows have is the most frequent one of the first.
        values, counts = np.unique(column, return_counts=True)
        usual[j] = values[counts.argmax()] if len(values) else np.nan
    other = np.zeros(len(usual), int)
    for X in blocks:
        other += (~_same(X, usual)).sum(axis=0)
    few = (other > 0) & (other < fewest)
    return np.concatenate([~_same(X[:, few], usual[few]) for X in blocks])


def _flags(table: Table, label: str) -> Bool[Array, "n q"]:
    """Return which rows have values that few have, two at least.

    In columns with few different values, each of these; in others, whether the cell
    is missing, has a value, or another value than most rows have, such as a dose
    of those who got any. Whichever column is the label, and whichever was when they
    were cut first.
    """
    names = sorted({*table.columns, *filter(None, [table.label])})
    coded = {*table.categorical, *_text_label(table)} - {label}
    counts = [Counter[object]() for _ in names]
    usual = dict[str, object]()
    for start, columns in _cells(table, names, label):
        for name, of_column, cells in zip(names, counts, columns, strict=True):
            there = cells[cells == cells]
            of_column[_MISSING] += len(cells) - len(there)
            if start and _MANY in of_column:
                of_column[_OTHER] += int(np.count_nonzero(there != usual[name]))
                continue
            # A few cells are enough to recognise a column of measurements.
            limit = _MOST_NAMES if name in coded else _MOST_VALUES
            values, sizes = np.unique(there[:_SAMPLE], return_counts=True)
            if len(values) <= limit:
                values, sizes = np.unique(there, return_counts=True)
            more = Counter(dict(zip(values.tolist(), sizes.tolist(), strict=True)))
            missing = of_column.pop(_MISSING)
            if len(of_column.keys() | more) > limit:
                value = usual[name] = (of_column + more).most_common(1)[0][0]
                other = of_column.total() - of_column[value]
                other += int(np.count_nonzero(there != value))
                of_column.clear()
                more = Counter({_MANY: 0, _OTHER: other})
            of_column.update({**more, _MISSING: missing})
    n = table.n_rows
    most, found = min(_MOST_FLAGGED, n // 2), list[tuple[int, str, object]]()
    for name, of_column in zip(names, counts, strict=True):
        of_column[_THERE] = n - of_column[_MISSING]
        sizes = [(size, name, value) for value, size in of_column.items()]
        found += [one for one in sizes if 2 <= one[0] <= most]
    found = sorted(found, key=lambda one: (one[0], one[1], str(one[2])))[:_MOST_FLAGS]
    read = sorted({name for _, name, _ in found})
    flags = np.zeros((n, len(found)), bool)
    for start, columns in _cells(table, read, label) if read else ():
        cells_of = dict(zip(read, columns, strict=True))
        for j, (_, name, value) in enumerate(found):
            cells, rows = cells_of[name], slice(start, start + len(cells_of[name]))
            if value in (_MISSING, _THERE):
                flags[rows, j] = (cells == cells) == (value == _THERE)
            elif value == _OTHER:
                flags[rows, j] = (cells == cells) & (cells != usual[name])
            else:
                flags[rows, j] = cells == value
    return flags


def _cells(
    table: Table, names: Sequence[str], label: str
) -> Iterator[tuple[int, list[Shaped[Array, " n"]]]]:
    """Yield the first row of each block, and its cells by column; NaN where missing.

    A label is read as it is, if the table was cut by it, and otherwise as a feature.
    """
    extra = [name for name in names if name in (label, table.label)]
    features = [name for name in names if name not in extra]
    for block in table.blocks(features, extra):
        cells = dict(zip(features, block.X.T, strict=True))
        for name in extra:
            values = block.extra[name]
            if name != label:
                values = as_feature(values)
            elif values.dtype.kind not in "fiub":
                made = [np.nan if v is None or v != v else v for v in values.tolist()]
                numbers = all(isinstance(v, int | float) for v in made)
                texts = [v if v != v else str(v) for v in made]
                values = np.array(made, float) if numbers else np.array(texts, object)
            cells[name] = values
        yield block.start, [cells[name] for name in names]


def _text_label(table: Table) -> set[str]:
    """Return the label where it is text, which as a feature would be categories."""
    if not table.label:
        return set()
    blocks = table.blocks((), [table.label])
    values = (value for block in blocks for value in block.extra[table.label].tolist())
    return {table.label} if any(isinstance(v, str) for v in values) else set()


def _same(X: Float[Array, "n p"], usual: Float[Array, " p"]) -> Bool[Array, "n p"]:
    return (usual == X) | (np.isnan(X) & np.isnan(usual))


def _told_apart(cut: Cut, kept: Sequence[Sequence[int]]) -> list[list[int]]:
    """Return the sets of blocks that are in the same ones of some selections."""
    found = dict[tuple[bool, ...], list[int]]()
    for block in range(len(cut.sizes)):
        found.setdefault(tuple(block in blocks for blocks in kept), []).append(block)
    return [*found.values()]


def _n_rows(parts: Sequence[Any]) -> int:
    return sum(n for n, _ in parts)


def _added(
    known: UInt8[Array, " n"],
    classes: Int[Array, " m"],
    new: UInt8[Array, " l"],
    *,
    fewest: int,
    fewest_of_class: int,
    most: int,
) -> UInt8[Array, " l"]:
    """Return the blocks of appended rows, given the cut that they have by themselves.

    Parameters
    ----------
    known : (n,) array
        Block of each row that has its block already.
    classes : (m,) array of int
        Class of each of the m = n + l rows, the appended ones last.
    new : (l,) array
        Block among themselves of each appended row.
    fewest, fewest_of_class : int
        Fewest rows of a block, and of a class in a block that has any of it.
    most : int
        The most blocks.
    """
    n, n_classes = len(known), 1 + int(classes.max())
    counts = _table_of(known, classes[:n], n_classes)
    groups = _table_of(new, classes[n:], n_classes)
    joined = np.zeros(len(groups), np.uint8)

    def is_few(of_class: Int[Array, "... c"]) -> Any:
        return ((of_class > 0) & (of_class < fewest_of_class)).any(axis=-1)

    for group, of_class in enumerate(groups):
        alone = of_class.sum() >= fewest and not is_few(of_class)
        if alone and len(counts) < most:
            joined[group] = len(counts)
            counts = np.vstack([counts, of_class])
            continue
        # The smallest block that then has enough rows of each of its classes.
        few = is_few(counts + of_class)
        joined[group] = np.lexsort((counts.sum(axis=1), few))[0]
        counts[joined[group]] += of_class
    return joined[new]


def _table_of(
    blocks: UInt8[Array, " n"], classes: Shaped[Array, " n"], n_classes: int
) -> Int[Array, "K c"]:
    counts = np.zeros((int(blocks.max()) + 1, n_classes), int)
    np.add.at(counts, (blocks, classes), 1)
    return counts
