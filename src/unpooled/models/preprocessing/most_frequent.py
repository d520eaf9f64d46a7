"""The most frequent value of each column over all silos, of numbers and of categories.

    round 1-   silos ── values that enough of their rows share, with counts ──> totals
               (`agreed_categories`: one table for the columns of numbers, another for
               those of categories)

Of equally frequent values the smallest is taken, as scikit-learn does.
"""

from typing import Any, NamedTuple

import numpy as np

from unpooled.arrays import Array, Bool, Int
from unpooled.errors import DataError
from unpooled.federation.federation import Federation
from unpooled.models.preprocessing.agreed_categories import (
    Categories,
    agreed_categories,
    agreed_names,
    local_values,
)


class Modes(NamedTuple):
    """The most frequent values of p columns.

    Attributes
    ----------
    values : list of float, str or None
        Numbers, or names of categories; None for a column without any value.
    n_observed : (p,) array of int
        Number of rows with a value.
    n_other : (p,) array of int
        Number of rows whose value too few rows of their silo share.
    certain : (p,) array of bool
        Whether no value can have more rows, however these rows are divided.
    """

    values: list[Any]
    n_observed: Int[Array, " p"]
    n_other: Int[Array, " p"]
    certain: Bool[Array, " p"]


def most_frequent(federation: Federation, least: int) -> Modes:
    """Return the most frequent value of each column.

    Parameters
    ----------
    federation : Federation
        By rows. The model that asks lists `local_values` and `local_categories` in
        `_steps`.
    least : int
        How many rows of a silo have a number that it names, at least.

    Raises
    ------
    DataError
        Where a column has values, but none that enough rows of a silo share.
    """
    names, planned = federation.feature_names, federation.coordinator.planned
    categorical = [n for n in names if n in set(federation.categorical)]
    numbers = [n for n in names if n not in set(federation.categorical)]
    found = dict[str, Categories]()
    if numbers:
        view = federation.select(numbers)
        every = agreed_names(view, local_values, least=least)
        found |= dict(zip(numbers, every, strict=True))
    if categorical:
        every = agreed_categories(federation.select(categorical))
        found |= dict(zip(categorical, every, strict=True))
    if planned:
        federation.coordinator.notes.append(
            "How many values SimpleImputer finds depends on the data; the plan has "
            "four for each column."
        )
    if scattered := [n for n in names if found[n].n_other and not found[n].names]:
        raise DataError(
            f"No value of {', '.join(scattered)} is that of {least} rows of a silo, so "
            f'there is no most frequent one. Choose strategy="median", which is for '
            f"such columns, or leave them out with select."
        )
    hidden = (least - 1) * len(federation.parties)
    return Modes(
        [_mode(found[n], n in numbers, planned) for n in names],
        np.array([int(found[n].counts.sum()) + found[n].n_other for n in names]),
        np.array([found[n].n_other for n in names]),
        np.array(
            [
                # Of a number that it does not name a silo has fewer rows than `least`.
                _is_certain(found[n], hidden if n in numbers else found[n].n_other)
                for n in names
            ]
        ),
    )


def _is_certain(found: Categories, hidden: int) -> bool:
    """Whether the most frequent name stays so if another has hidden rows more."""
    most = min(hidden, found.n_other)
    *_, second, first = [0, 0, *sorted(found.counts.tolist())]
    return most == 0 or second + most < first


def _mode(found: Categories, is_number: bool, planned: bool) -> Any:
    if not found.names:
        return None
    if planned and is_number:
        return 0.0
    values = [float(n) for n in found.names] if is_number else list(found.names)
    most = found.counts.max()
    return min(v for v, n in zip(values, found.counts, strict=True) if n == most)
