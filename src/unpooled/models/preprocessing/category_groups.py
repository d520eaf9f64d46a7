"""Groups of categories: rare names together, as scikit-learn's encoders group them.

    names in order of text ── fewer rows than `min_frequency` ──> one group, at the end
                           ── "other" in some silo ─────────────> the same group
    missing cells ── likewise, or a group of their own before it

A group of fewer than five rows would tell about few people, so the smallest of the
other groups joins it until it has as many. scikit-learn does not do this.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from unpooled.arrays import Array, Float, Int
from unpooled.data.categories import MISSING, OTHER
from unpooled.errors import DataError
from unpooled.models.preprocessing.agreed_categories import Categories
from unpooled.protocol.step import public

# The default of `min_rows_per_class`.
FEWEST = 5

# Arguments of the transforms that encode: l known codes of p columns, in c groups.
CODES = {
    "codes": public(
        "l", "the codes of the categories of all columns (hashes of names)"
    ),
    "column": public("l", "the column of each category"),
    "group": public("l", "the group of each category within its column"),
    "unknown": public("p", "the group of a column's unknown categories; -1 for none"),
    "count": public("c", "how many rows of all silos each group has", counts="groups"),
}


@final
@dataclass(frozen=True)
class CategoryGroups:
    """The groups of a column's categories.

    Attributes
    ----------
    names : tuple of str
        Names in order of text, whatever their group.
    group : (k,) array of int
        The group of each name.
    missing : int
        The group of missing cells; -1 where no row has any.
    rare : int
        The group of rare names, "other" and unknown ones; -1 where there is none.
    counts : (g,) array of int
        Number of rows of each group.
    joined : tuple of str or None
        Names that are with the rare ones though they are not rare, as those would be
        too few without them; None for missing cells.
    """

    names: tuple[str, ...]
    group: Int[Array, " k"]
    missing: int
    rare: int
    counts: Int[Array, " g"]
    joined: tuple[str | None, ...] = ()

    @property
    def labels(self) -> list[str | None]:
        """What each group is called: a name, None for missing, "" for the rare ones."""
        labels: list[str | None] = [""] * len(self.counts)
        for name, group in zip(self.names, self.group.tolist(), strict=True):
            labels[group] = name
        if self.missing >= 0:
            labels[self.missing] = None
        if self.rare >= 0:
            labels[self.rare] = ""
        return labels


def grouped(
    found: Categories,
    min_frequency: int | float | None,
    column: str,
    *,
    merges_missing: bool = True,
) -> CategoryGroups:
    """Return the groups of a column's categories.

    Parameters
    ----------
    found : Categories
        As all silos have them.
    min_frequency : int, float or None
        Fewest rows of a group of its own, or their share of all rows.
    column : str
        For errors.
    merges_missing : bool, default True
        Whether missing cells, where they are few, are in the group of rare names.
    """
    fewest = min_frequency or 0
    if isinstance(min_frequency, float):
        fewest = min_frequency * found.n_rows
    sizes: dict[str | None, int] = {}
    sizes.update(zip(found.names, found.counts.tolist(), strict=True))
    if found.n_missing:
        sizes[None] = found.n_missing
    rare = {name for name, n in sizes.items() if n < fewest}
    rare -= set() if merges_missing else {None}
    n_rare = found.n_other + sum(sizes[name] for name in rare)
    left = set(sizes) - rare - (set() if merges_missing else {None})
    by_size = sorted(left, key=lambda name: (sizes[name], str(name)))
    joined = list[str | None]()
    while 0 < n_rare < min(fewest, FEWEST) and by_size:
        joined.append(by_size.pop(0))
        n_rare += sizes[joined[-1]]
    rare |= {*joined}
    own = [name for name in sizes if name not in rare]
    if not sizes:
        raise DataError(f"Column {column!r} has no name that a silo has twice.")
    place = {name: number for number, name in enumerate(own)}
    last = len(own) if n_rare else -1
    return CategoryGroups(
        names=found.names,
        group=np.array([place.get(name, last) for name in found.names], np.int64),
        missing=place.get(None, last) if found.n_missing else -1,
        rare=last,
        counts=np.array([sizes[n] for n in own] + [n_rare] * bool(n_rare), np.int64),
        joined=tuple(joined),
    )


def code_arguments(
    groups: Sequence[CategoryGroups], codes: Sequence[Array]
) -> Mapping[str, Any]:
    """Return the arguments `CODES` of groups, with groups numbered over all columns."""
    starts = np.cumsum([0, *(len(one.counts) for one in groups)])
    known, column, group, unknown = list[float](), list[int](), list[int](), list[int]()
    for j, (one, own) in enumerate(zip(groups, codes, strict=True)):
        start = int(starts[j])
        pairs = list(zip(own.tolist(), one.group.tolist(), strict=True))
        pairs += [(MISSING, one.missing)] * (one.missing >= 0)
        pairs += [(OTHER, one.rare)] * (one.rare >= 0)
        known += [code for code, _ in pairs]
        group += [start + number for _, number in pairs]
        column += [j] * len(pairs)
        unknown.append(start + one.rare if one.rare >= 0 else -1)
    return {
        "codes": np.array(known, float),
        "column": np.array(column, np.int64),
        "group": np.array(group, np.int64),
        "unknown": np.array(unknown, np.int64),
        "count": np.concatenate([one.counts for one in groups]).astype(float),
    }


def groups_of_cells(
    cells: Float[Array, "n p"],
    codes: Float[Array, " l"],
    column: Int[Array, " l"],
    group: Int[Array, " l"],
    unknown: Int[Array, " p"],
) -> Int[Array, "n p"]:
    """Return the group of each cell, -1 where it has none."""
    found = np.empty(cells.shape, np.int64)
    for j, own in enumerate(np.where(np.isnan(cells), MISSING, cells).T):
        mine = column == j
        order = np.argsort(codes[mine])
        known, numbers = codes[mine][order], group[mine][order]
        place = np.minimum(np.searchsorted(known, own), max(len(known) - 1, 0))
        found[:, j] = np.where(known[place] == own, numbers[place], unknown[j])
    return found
