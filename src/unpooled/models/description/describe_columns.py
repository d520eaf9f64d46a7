"""The first table on a column partition: each silo describes its own columns.

    each keeps   counts, means, deviations and quartiles, as its own results
    if wanted    each silo ── missing cells, mean and variance of a column ──> shown,
                 or withheld with a small count

Nobody else has a silo's columns, so that no count follows from those of other silos.
What a silo shows, it shows alone, and it withholds a column whole: where few cells are
missing, where few have a value, and where few values, one of them rare, are all there
are, since number, mean and variance determine how often each occurs. Quartiles are
cells of people, and no silo shows them. Columns of categories are counted for the silo
alone, which shows nothing of them.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from unpooled.arrays import Array, Float
from unpooled.data.categories import MISSING, OTHER
from unpooled.models.description.by_silo import FEW, QUARTILES, values_of
from unpooled.models.description.column_quantiles import LEAST
from unpooled.models.description.shown_table import FEWEST, WITHHELD
from unpooled.models.preprocessing.agreed_categories import Categories
from unpooled.models.preprocessing.own_categories import ABSENT, counted
from unpooled.protocol.step import disclosed, kept, release, stays

# Arrays that a silo keeps about its own columns, over all rows.
DESCRIPTION: Mapping[str, Any] = {
    "n": stays("p", meaning="how many rows have a value in each of the silo's columns"),
    "missing": stays("p", meaning="how many rows have none"),
    "mean": stays("p", meaning="the mean of each of its columns"),
    "std": stays("p", meaning="the standard deviation of each"),
    "quartiles": stays("p 3", meaning="the quartiles of each"),
    "withheld": stays("p", meaning="1 for a column of which it shows nothing"),
    "category_counts": stays(
        "v p 3",
        meaning="the code of each frequent category of the silo's columns, its rank "
        "and its rows",
    ),
}


@kept(
    by="party",
    takes={"fewest": FEWEST, "least": LEAST, "most": "size v"},
    **DESCRIPTION,
)
def own_description(
    cells: Float[Array, "N p"],
    columns: Sequence[str],
    coded: Sequence[str],
    dictionary: Mapping[float, str],
    *,
    fewest: Any,
    least: Any,
    most: int,
) -> dict[str, Any]:
    """Describe the silo's own columns; nothing leaves."""
    n = np.count_nonzero(~np.isnan(cells), axis=0)
    missing = len(cells) - n
    of_text = np.isin(columns, coded)
    X = np.where(of_text, np.nan, cells)
    # For a column without a value all statistics are 0, and so is its number of values.
    there = np.where((n > 0) & ~of_text, X, 0.0)
    mean = np.nanmean(there, axis=0)
    squares = np.nansum((there - mean) ** 2, axis=0)
    values = values_of(X)
    rare = ((values > 0) & (values < fewest)).any(axis=1)
    few = rare & (np.count_nonzero(values, axis=1) <= FEW)
    small = (missing > 0) & (missing < fewest) | (n < max(fewest, least))
    # Codes have no mean, and no silo shows its counts of categories.
    nothing = np.where(of_text, np.nan, 0.0)
    categories = np.zeros((most, len(columns), 3))
    categories[..., 0] = ABSENT
    for j in np.flatnonzero(of_text):
        own = ranked(counted(cells[:, j], dictionary), most)
        categories[: len(own), j] = own
    return {
        "n": n.astype(float),
        "missing": missing.astype(float),
        "mean": mean + nothing,
        "std": np.sqrt(squares / np.maximum(n - 1, 1)) + nothing,
        "quartiles": np.nanquantile(there, QUARTILES, axis=0).T + nothing[:, None],
        "withheld": (small | few | of_text).astype(float),
        "category_counts": categories,
    }


def ranked(found: Categories, most: int) -> Float[Array, "k 3"]:
    """Return codes, ranks and rows of categories, the most frequent ones first."""
    sizes = zip(found.codes.tolist(), found.counts.tolist(), strict=True)
    named = sorted(sizes, key=lambda one: -one[1])
    # Two places are for those that have no line of their own, and for missing cells.
    others = found.n_other + sum(n for _, n in named[most - 2 :])
    lines = [*named[: most - 2], (OTHER, others), (MISSING, found.n_missing)]
    rows = [[code, rank, n] for rank, (code, n) in enumerate(lines, 1) if n]
    return np.array(rows, float).reshape(len(rows), 3)


@disclosed(
    by="party",
    describes="all rows",
    missing=release("p", meaning="missing cells of each of the silo's own columns"),
    mean=release("p", meaning="the mean of each, where it is not withheld"),
    variance=release("p", meaning="the variance of each, where it is not withheld"),
)
def shown_description(kept: Any) -> dict[str, Any]:
    """Disclose what is not withheld of the silo's own columns."""
    hidden = kept["withheld"] > 0
    return {
        "missing": np.where(hidden, WITHHELD, kept["missing"]),
        "mean": np.where(hidden, 0.0, kept["mean"]),
        "variance": np.where(hidden, WITHHELD, kept["std"] ** 2),
    }
