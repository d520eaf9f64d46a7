"""The most frequent value of each column over all silos, of numbers and of categories.

    numbers     round 1  silos ── how many cells have a value ──────────────> opened
                round 2  silos ── values that some of their rows share, with counts,
                         added into a table ──────────────> to the parties alone
                round 3  silos ── the most frequent of all silos ───────────> opened
                rounds 2 and 3 again with more cells, where a column has more values
    categories  `agreed_categories`

Silos send no value that one or two of their rows have, as there are too many. Nobody
but the silos' programs sees the counts: with several limits of how many rows share a
value, they would be each silo's own. Of equally frequent values the smallest is taken,
as scikit-learn does.
"""

from typing import Any, NamedTuple

import numpy as np

from unpooled.arrays import Array, Bool, Float, Int
from unpooled.errors import DataError
from unpooled.federation.federation import Federation
from unpooled.models.moments import local_counts
from unpooled.models.preprocessing.agreed_categories import (
    LEAST_NAMED,
    MOST_SHARED,
    NAMES,
    SIZES,
    WORDS,
    Categories,
    agreed_categories,
    categories_in,
    local_values,
    name_of_words,
    words_of_name,
)
from unpooled.protocol.step import public, release, summed

# Tables for about 60, 250 and 1,000 values.
_NUMBERS = 3, 5, 7
# What a column's table gave: it has too few cells; no value is shared; one is; one is
# for certain.
_UNREAD, _NONE, _FOUND, _CERTAIN = range(4)


class Modes(NamedTuple):
    """The most frequent values of p columns.

    Attributes
    ----------
    values : list of float, str or None
        Numbers, or names of categories; None for a column without any value.
    n_observed : (p,) array of int
        Number of rows with a value.
    certain : (p,) array of bool
        Whether no value can have more rows, however those are divided whose value too
        few rows of their silo share.
    """

    values: list[Any]
    n_observed: Int[Array, " p"]
    certain: Bool[Array, " p"]


@summed(
    takes={"names": public(NAMES.axes, NAMES.meaning), "least": LEAST_NAMED},
    found=release(
        "p",
        meaning="whether each column has a most frequent value, and for certain",
    ),
    value=release(
        f"p {WORDS}",
        meaning="the most frequent value of each column, as it is written",
        repeats=WORDS,
    ),
)
def found_modes(
    party: str,
    *,
    names: Float[Array, "p c w"],
    number: int,
    least: int,
    n_silos: int,
    leader: str,
) -> dict[str, Any]:
    """Return the most frequent values in a table of all silos; one silo sends them.

    Only those that `least` rows of all silos have.
    """
    # The most rows, over all silos, of a value that no silo names.
    hidden = (min(least, MOST_SHARED) - 1) * n_silos
    found, value = np.zeros(len(names)), np.zeros((len(names), WORDS))
    for j, table in enumerate(names):
        if (read := categories_in(table, (number,))) is None:
            found[j] = _UNREAD
            continue
        mode = _mode(read, is_number=True)
        if mode is None or read.counts.max() < least:
            found[j] = _NONE
            continue
        value[j] = words_of_name(repr(mode))
        found[j] = _CERTAIN if _is_certain(read, hidden) else _FOUND
    sends = float(party == leader)
    return {"found": sends * found, "value": sends * value}


def most_frequent(federation: Federation, least: int) -> Modes:
    """Return the most frequent value of each column.

    Parameters
    ----------
    federation : Federation
        By rows. The model that asks lists `local_counts`, `local_values`, `found_modes`
        and `local_categories` in `_steps`.
    least : int
        How many rows have a number that it names, at least.

    Raises
    ------
    DataError
        Where a column has values, but none that enough rows share.
    """
    names = federation.feature_names
    categorical = [n for n in names if n in set(federation.categorical)]
    numbers = [n for n in names if n not in set(federation.categorical)]
    found = dict[str, tuple[Any, int, bool]]()
    if numbers:
        found |= _of_numbers(federation.select(numbers), least)
    if categorical:
        every = agreed_categories(federation.select(categorical))
        for name, one in zip(categorical, every, strict=True):
            n_observed = int(one.counts.sum()) + one.n_other
            mode = _mode(one, is_number=False)
            found[name] = mode, n_observed, _is_certain(one, one.n_other)
        if federation.coordinator.planned:
            federation.coordinator.notes.append(
                "How many names SimpleImputer finds depends on the data; the plan has "
                "four for each column."
            )
    if scattered := [n for n in names if found[n][1] and found[n][0] is None]:
        raise DataError(
            f"No value of {', '.join(scattered)} is that of {least} rows, counted in "
            f"silos with {min(least, MOST_SHARED)} of them, so there is no most "
            f'frequent one. Choose strategy="median", which is for such columns, or '
            f"leave them out with select."
        )
    values, n_observed, certain = zip(*(found[n] for n in names), strict=True)
    return Modes(list(values), np.array(n_observed), np.array(certain))


def _of_numbers(
    federation: Federation, least: int
) -> dict[str, tuple[float | None, int, bool]]:
    """Return mode, number of values and certainty of each column of numbers."""
    names = federation.feature_names
    n_observed = np.rint(federation.sum(local_counts)["count"]).astype(np.int64)
    left, leader = list(names), federation.parties[0]
    modes = dict[str, tuple[float | None, bool]]()
    for number in _NUMBERS:
        view = federation if len(left) == len(names) else federation.select(left)
        veiled = view.sum(
            local_values,
            to="parties",
            n_cells=SIZES[number],
            number=number,
            least=least,
        )
        table = view.sum(
            found_modes,
            **veiled,
            number=number,
            least=least,
            n_silos=len(federation.parties),
            leader=leader,
        )
        if federation.coordinator.planned:
            modes = dict.fromkeys(names, (0.0, True))
            break
        kinds = np.rint(table["found"]).astype(int).tolist()
        words = np.rint(table["value"]).astype(int).tolist()
        for name, kind, own in zip(left, kinds, words, strict=True):
            if kind != _UNREAD:
                mode = None if kind == _NONE else float(name_of_words(own))
                modes[name] = mode, kind != _FOUND
        left = [name for name in left if name not in modes]
        if not left:
            break
    else:
        raise DataError(
            f"Column {left[0]!r} has more than about {SIZES[_NUMBERS[-1]] * 2 // 3:,} "
            f'values that some rows share. Choose strategy="median", which is for '
            f"such columns, or leave it out with select."
        )
    return {
        name: (modes[name][0], n, modes[name][1])
        for name, n in zip(names, n_observed.tolist(), strict=True)
    }


def _is_certain(found: Categories, hidden: int) -> bool:
    """Whether the most frequent name stays so if another has hidden rows more."""
    most = min(hidden, found.n_other)
    *_, second, first = [0, 0, *sorted(found.counts.tolist())]
    return most == 0 or second + most < first


def _mode(found: Categories, *, is_number: bool) -> Any:
    if not found.names:
        return None
    values = [float(n) for n in found.names] if is_number else list(found.names)
    most = found.counts.max()
    return min(v for v, n in zip(values, found.counts, strict=True) if n == most)
