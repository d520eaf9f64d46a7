"""Leverage in sums of three factors: of derived products, and of single classes.

    d = a b      Σ d z = Σ b (a z)      of b, with a and z together as weights

A derived product is two factors already where a step multiplies columns, or adds them
by class. If one of the people with a flag a has the flag z, or is of the class z, then
Σ d z is b of this person, though neither flag is rare and no row carries a direction of
d and z. So the columns that a step multiplies, and the classes, are judged once more,
in rows that each factor of a derived product or ratio is the weight of.

Beside Σ b z these are sums with a - c as weight, for any number c: with a flag coded 1
and 2, or of those who alone have z and not a. So a factor of few values, or of a usual
one, is judged less each of these. In pairwise correlations z may be who has a cell.

Where a flag z is few people's, or a class has few, sums with many derived columns are
more equations than these people have cells: Σ a z, Σ a² z and Σ a b z over two people
are both their records. So there are as many of them as a derived column needs
(`rules.rare_derived`), and too many for the equations. A silo judges its own, or those
of all silos where these were counted.

Features that a study draws of columns, for a kernel, are functions too, as many as the
study likes, and a sum over few rows is an equation for these rows' cells. So over the
rows with a flag, of a class, or without a cell, there are no more of them than
`max_feature_ratio` of these rows' cells.

In pairwise correlations each column is added over the rows that have another one. The
sums over the rows with b, with c and with d are three equations, and where few lack the
same cells, some combination of them may be about one person: of all who lack b or c,
and so d too, one alone lacks all three. So of the rows that have a column, no one may
carry a direction of which other columns they lack.

Products of two columns in a class by itself are three factors too. There the rows of
the class are judged as a table would be, where the silo has enough of them for that.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import final
from weakref import WeakKeyDictionary

import numpy as np

from unpooled.arrays import Array, Float
from unpooled.data.aligned_table import AlignedTable
from unpooled.data.expressions import LOG, PRODUCT, RATIO
from unpooled.data.table import Table
from unpooled.linalg.leverage import largest_leverage
from unpooled.party.rules.leverage import one_row_carries, tells_pairs
from unpooled.party.rules.leverage_together import (
    Indicator,
    indicator_cells,
    indicators,
    tells_classes,
    tells_missing,
)
from unpooled.party.rules.policy import Policy
from unpooled.party.rules.rare_derived import RareDerived, rows_that_differ
from unpooled.party.views.view import View
from unpooled.protocol.refusal import Refusal
from unpooled.protocol.step import Step

# Fewest rows of a class for each column, for its rows to be judged.
_ROWS_PER_COLUMN = 2
# A factor with at most so many values is judged less each of them.
_FEW_VALUES = 8
# Relative to the largest singular value: directions below this are rounding.
_ROUNDING = 1e-9


@final
class LeverageOfProducts:
    """The silo's verdicts about derived products, once for each table and view.

    Parameters
    ----------
    policy : Policy
        The silo's rules.
    """

    def __init__(self, policy: Policy) -> None:
        self._policy, self._derived = policy, RareDerived(policy)
        self._passed = WeakKeyDictionary[Table, set[str]]()

    def check(self, step: Step, view: View) -> None:
        """Refuse rare derived columns, and products of which one row would be a total.

        Raises
        ------
        Refusal
            As "derived_rows", or of drawn features "max_feature_ratio".
        """
        self._derived.check(view)
        self._check_drawn(step, view)
        self._check_lacking(step, view)
        limit, factors = self._policy.max_leverage, _factors(view)
        if not functions_of(view) or limit >= 1.0:
            return
        pairs = tells_pairs(step, len(view.columns))
        by_class, missing = tells_classes(step, view.table), tells_missing(step)
        if not pairs and not by_class:
            return
        read = view.up_to_scale()
        passed = self._passed.setdefault(view.table, set())
        name = f"{read.digest()} {pairs} {by_class} {missing}"
        if name in passed:
            return
        if pairs:
            self._check_few(read)
        label = view.table.label if by_class else None
        classes = indicators(view.table, frozenset(filter(None, [label])), 1)
        p = 1 + len(classes) + len(read.columns) * (pairs + missing)
        for column, inverse in factors:
            whole = _weight(view.table, column, inverse=inverse)
            for weight in (whole - usual for usual in _usual(whole)):
                blocks = partial(
                    _weighted, read, weight, classes, pairs=pairs, missing=missing
                )
                # With as many columns as rows every leverage is 1.
                if p + 1 < (weight != 0.0).sum():
                    found = largest_leverage(blocks, len(weight), p, limit)
                    if found.at_least > limit:
                        raise Refusal("derived_rows")
        passed.add(name)

    def foresee(self, step: Step, view: View) -> None:
        """Refuse columns that `check` refuses whatever the other columns are."""
        self._derived.check(view)
        self._check_lacking(step, view)
        pairs = tells_pairs(step, len(view.columns))
        if pairs and functions_of(view) and self._policy.max_leverage < 1.0:
            self._check_few(view.up_to_scale())

    def _check_lacking(self, step: Step, view: View) -> None:
        """Refuse sums over the rows that have each column, if they give one row."""
        if (limit := self._policy.max_leverage) >= 1.0 or not tells_missing(step):
            return
        passed = self._passed.setdefault(view.table, set())
        name = f"lacking {view.digest()} {view.selection}"
        if name in passed:
            return
        if largest_of_lacking(view) > limit:
            raise Refusal("min_own_cells", "Here of the rows that lack some cells.")
        passed.add(name)

    def _check_drawn(self, step: Step, view: View) -> None:
        """Refuse drawn features beside rows that are few for them."""
        if not view.drawn:
            return
        pairs = tells_pairs(step, len(view.columns))
        by_class, missing = tells_classes(step, view.table), tells_missing(step)
        passed = self._passed.setdefault(view.table, set())
        name = f"drawn {view.digest()} {view.selection} {pairs} {by_class} {missing}"
        if name in passed:
            return
        n_rows = list[int]()
        if pairs:
            counted = {name for names, _ in view.groups for name in names}
            own = [name for name in view.columns if name not in counted]
            n_rows += rows_that_differ(view, own).tolist()
            n_rows += [int(n) for _, counts in view.groups for n in counts]
        if missing:
            lacking = (np.isnan(block.X).sum(axis=0) for block in view.blocks())
            n_rows += np.sum(list(lacking), axis=0).tolist()
        label = view.table.label
        if by_class and label is not None:
            n_rows += _few_of_label(step, view, label)
        check_drawn(self._policy, view, n_rows)
        passed.add(name)

    def _check_few(self, view: View) -> None:
        """Refuse derived columns beside one in which few rows differ from others."""
        factors, derived = functions_of(view), _derived_names(view)
        counted = {name for names, _ in view.groups for name in names}
        own = [name for name in view.columns if name not in counted]
        for name, few in zip(own, rows_that_differ(view, own).tolist(), strict=True):
            if few == 0:
                continue  # constant here: its sums are of the other columns alone
            rare = few < self._policy.min_rows_per_class
            # Sums of products with derived columns are cubic in the columns.
            cubic = name in derived and not self._policy.allows_pairs(len(factors), few)
            if rare or cubic or _are_too_few(few, factors - {name}):
                raise Refusal("derived_rows", f"Here in {name}, of {few:,} rows.")
        for _, counts in view.groups:
            check_functions(factors, counts.tolist())

    def check_classes(self, view: View) -> None:
        """Refuse products of columns in single classes where one row carries one.

        Raises
        ------
        Refusal
            As "max_leverage".
        """
        limit, label = self._policy.max_leverage, view.table.label
        if limit >= 1.0 or label is None:
            return
        passed = self._passed.setdefault(view.table, set())
        if (name := f"classes {view.up_to_scale().digest()}") in passed:
            return
        p, rows = len(view.columns), defaultdict[object, list[int]](list)
        for block in view.table.blocks((), [label]):
            for row, value in enumerate(block.extra[label].tolist(), block.start):
                rows[value].append(row)
        for of_class in rows.values():
            # With fewer rows than this each has a large leverage, whatever the data
            # are.
            if len(of_class) >= _ROWS_PER_COLUMN * (p + 1):
                if one_row_carries(_of_class(view, of_class), limit):
                    raise Refusal("max_leverage")
        passed.add(name)


def largest_of_lacking(view: View) -> float:
    """Return the largest leverage of a row in which columns the rows lack.

    Among all rows, and among those that have each column.
    """
    there = [~np.isnan(block.X) for block in view.blocks()]
    patterns, counts = np.unique(np.concatenate(there), axis=0, return_counts=True)
    largest, every = 0.0, np.ones((len(patterns), 1), bool)
    columns = np.unique(np.hstack([every, patterns]), axis=1)
    for rows in columns.T:
        X = columns[rows].astype(float)
        values, V = np.linalg.eigh((X.T * counts[rows]) @ X)
        # The cross-products are whole numbers: what is not 0 is far above rounding.
        held = values > _ROUNDING * values.max(initial=0.0)
        # All rows of a pattern have the same leverage.
        of_row = np.square(X @ V[:, held] / np.sqrt(values[held])).sum(axis=1)
        largest = max(largest, float(of_row.max(initial=0.0)))
    return largest


def functions_of(view: View) -> set[str]:
    """Return the columns of which derived columns are functions that are not linear."""
    return {
        name
        for read, public in view.derived_arguments
        for kind, *places in zip(
            public["kinds"], public["first"], public["second"], strict=True
        )
        if kind in (LOG, PRODUCT, RATIO)
        for name in (read[place] for place in places)
    }


def check_functions(factors: set[str], n_rows: Iterable[int | float]) -> None:
    """Refuse sums of functions of some columns over few rows, 0 excepted.

    q columns have q sums, q (q + 1) / 2 of products, q of logarithms and
    q (q - 1) of ratios: no more than q (2 q + 1) for any q, and as many as the cells of
    2 q + 1 rows.
    """
    if any(_are_too_few(n, factors) for n in n_rows):
        raise Refusal("derived_rows")


def check_drawn(policy: Policy, view: View, n_rows: Iterable[int | float]) -> None:
    """Refuse more drawn features over few rows than a share of their cells."""
    for n_read, n_drawn in view.drawn:
        for n in n_rows:
            if n > 0 and not policy.allows_pairs(n_drawn, int(n) * n_read):
                raise Refusal(
                    "max_feature_ratio",
                    f"Here {n_drawn:,} features of {n_read:,} columns over {n:,} rows.",
                )


def _few_of_label(step: Step, view: View, label: str) -> list[int]:
    """Return the rows that sums by class, or with the label, are about here.

    For classes that are counted over all silos, those of each block by which selections
    differ; otherwise those whose label is not the usual one.
    """
    sizes = [n for n, whole in view.class_sizes(label) if n < whole]
    declared = [*step.declared.values(), *step.takes.values()]
    if any(one.counts in ("classes", "names") for one in declared):
        return sizes
    counts = Counter[object]()
    for block in view.table.blocks((), [label]):
        counts.update(block.extra[label].tolist())
    return [*sizes, view.table.n_rows - max(counts.values(), default=0)]


def _are_too_few(n_rows: int | float, factors: set[str]) -> bool:
    return 0 < n_rows < 2 * len(factors) + 1


def _derived_names(view: View) -> set[str]:
    """Return the derived columns that are functions of others and not linear."""
    return {
        name
        for (_, public), (_, names) in zip(
            view.derived_arguments, view.derived_of_source, strict=True
        )
        for kind, name in zip(public["kinds"], names, strict=True)
        if kind in (LOG, PRODUCT, RATIO)
    }


def _factors(view: View) -> list[tuple[str, bool]]:
    """Return the columns that derived columns multiply, and whether they divide."""
    found = set[tuple[str, bool]]()
    for read, public in view.derived_arguments:
        every = zip(public["kinds"], public["first"], public["second"], strict=True)
        for kind, first, second in every:
            if kind in (PRODUCT, RATIO):
                found |= {(read[first], False), (read[second], bool(kind == RATIO))}
    return sorted(found)


def _of_class(view: View, rows: Sequence[int]) -> View:
    return view.of_rows(AlignedTable(view.table, np.array(rows)))


def _weight(table: Table, column: str, *, inverse: bool) -> Float[Array, " n"]:
    parts = [block.X[:, 0] for block in table.blocks([column])]
    weight = np.concatenate(parts)
    with np.errstate(all="ignore"):
        weight = 1.0 / weight if inverse else weight
        there = np.isfinite(weight)
        return np.where(there, weight, weight[there].mean() if there.any() else 0.0)


def _usual(weight: Float[Array, " n"]) -> list[float]:
    """Return 0 and the values of few, or that of most rows."""
    values, counts = np.unique(weight, return_counts=True)
    usual = values if len(values) <= _FEW_VALUES else values[2 * counts > len(weight)]
    return sorted({0.0, *usual.tolist()})


def _weighted(
    view: View,
    weight: Float[Array, " n"],
    classes: Sequence[Indicator],
    *,
    pairs: bool,
    missing: bool,
) -> Iterator[Float[Array, "n p"]]:
    extra = sorted({name for name, _ in classes})
    for block in view.blocks(extra):
        one = np.ones((len(block.X), 1))
        parts = [one, *([block.X] if pairs else []), indicator_cells(block, classes)]
        parts += [np.isnan(block.X)] if missing else []
        own = weight[block.start : block.start + len(block.X), None]
        yield own * np.hstack(parts)
