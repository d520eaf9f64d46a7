"""Attacks on a silo's own totals by a limit of rows that the analyst chooses.

Where each silo compares its own rows with a chosen limit, a total over silos is of some
of them: with a limit between the rows of two silos, all other rows are one silo's.
"""

from typing import Any

import numpy as np
import pandas as pd
import pytest

import unpooled as up
from unpooled.federation.federation import Federation
from unpooled.models.preprocessing import agreed_categories

SIZES = {"a": 137, "b": 260, "c": 410}


def tables() -> dict[str, pd.DataFrame]:
    """Tables with a flag that many of the rows of each silo have, and many have not."""
    rng = np.random.default_rng(0)
    return {
        name: pd.DataFrame({"flag": rng.integers(0, 2, n).astype(float)})
        for name, n in SIZES.items()
    }


def own_counts() -> set[float]:
    """Return the rows of each silo, and how many of them have the flag or not."""
    found = {float(n) for n in SIZES.values()}
    for table in tables().values():
        found |= set(table["flag"].value_counts().astype(float))
    return found


def opened(here: Federation, limit: int, monkeypatch: Any) -> set[float]:
    """Return all numbers that a fit with a limit of rows opens to the coordinator."""
    found, run = set[float](), Federation.sum

    def kept(self: Federation, *args: Any, **named: Any) -> Any:
        totals = run(self, *args, **named)
        for total in totals.values():
            if isinstance(total, np.ndarray):
                found.update(np.ravel(total).tolist())
        return totals

    with monkeypatch.context() as patch:
        patch.setattr(Federation, "sum", kept)
        up.SimpleImputer("most_frequent", min_rows=limit).fit(here)
    return found


def differences(numbers: set[float]) -> set[float]:
    return numbers | {a - b for a in numbers for b in numbers}


@pytest.mark.slow
@pytest.mark.parametrize("follow", [True, False])
def test_no_limit_of_rows_tells_a_silos_own_counts(follow, monkeypatch):
    here = up.simulate(tables(), follow=follow)
    numbers = set[float]()
    for limit in (5, 10, 75, 100, 150, 250):
        numbers |= opened(here, limit, monkeypatch)
    # What was opened of 807 rows is their number; the rest are words of a value.
    assert 807.0 in numbers
    assert not differences(numbers) & own_counts()


def test_nor_do_the_silos_see_more_than_small_counts():
    """What they alone open are counts of the silos with ten rows of a value."""
    assert others(200) == 0


def test_control_with_a_limit_the_other_rows_are_one_silos(monkeypatch):
    monkeypatch.setattr(agreed_categories, "MOST_SHARED", 10**6)
    assert others(100) == SIZES["a"]


def others(limit: int) -> int:
    """Return the rows of all silos whose value fewer of a silo's rows have."""
    number, size = 3, agreed_categories.SIZES[3]
    function: Any = agreed_categories.local_values.function
    arguments = {"n_cells": size, "number": number, "least": limit}
    tables_of = [function(own.to_numpy(), **arguments) for own in tables().values()]
    total = np.sum([own["names"] for own in tables_of], axis=0)
    read = agreed_categories.categories_in(total[0], (number,))
    assert read is not None
    return read.n_other
