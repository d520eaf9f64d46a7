"""Attacks on single values of a column by the brackets of many quantiles.

A quantile is interpolated in a bracket of at least ten values. Who knows where brackets
may end has, from the quantile and the width of its bracket, the bracket itself, and how
many values lie below its ends. Where each search has ends of its own, few values, or
one, lie between an end of one bracket and one of another.
"""

from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest

import unpooled as up
from unpooled.errors import ReleaseRefusedError
from unpooled.linalg import rank_search
from unpooled.linalg.rank_search import Brackets, size_of_log
from unpooled.linalg.yeo_johnson import log_size
from unpooled.models.description import column_quantiles

N, RANKS = 900, np.arange(10, 60)


def tables() -> dict[str, pd.DataFrame]:
    rng = np.random.default_rng(1)
    return {name: pd.DataFrame({"age": rng.normal(50, 10, N // 3)}) for name in "abc"}


AGES = np.sort(np.concatenate([table["age"] for table in tables().values()]))


def brackets(monkeypatch: Any, here: up.Federation) -> list[tuple[float, float]]:
    """Return the brackets that quantiles were found in, as silos have them.

    An adversary computes them from the quantiles, their errors and the few brackets
    that there may be (`test_control_a_bracket_follows_from_its_quantile`).
    """
    found, values = list[tuple[float, float]](), Brackets.values

    def seen(self: Brackets, *args: Any, **named: Any) -> Any:
        found[:] = zip(self.lo.tolist(), self.hi.tolist(), strict=True)
        return values(self, *args, **named)

    with monkeypatch.context() as patch:
        patch.setattr(Brackets, "values", seen)
        # The quantile is the value of the rank.
        up.Quantiles((RANKS - 1) / (N - 1)).fit(here)
    return found


def narrowest_of_one(ends: np.ndarray) -> float:
    """Return how narrow the narrowest interval is that is known to have one value."""
    ends = np.unique(ends)
    below = np.searchsorted(AGES, ends)
    return float(np.diff(ends)[np.diff(below) == 1].min(initial=np.inf))


def narrowest_bracket(found: list[tuple[float, float]]) -> float:
    return min(hi - lo for lo, hi in found)


@pytest.mark.slow
@pytest.mark.parametrize("follow", [False, True])
def test_brackets_of_many_quantiles_have_their_ends_in_common(monkeypatch, follow):
    found = brackets(monkeypatch, up.simulate(tables(), follow=follow))
    one = narrowest_of_one(np.ravel(found))
    # A value is known no better than ten values are anyway.
    assert one > 0.49 * narrowest_bracket(found)


def test_neither_rows_nor_decimals_nor_limits_move_the_ends():
    first = column_quantiles.search_of
    moved = []
    for mean, unit, least in ((50.0, 0.0, 10), (51.3, 0.1, 13), (47.0, 1.0, 30)):
        n = np.array([float(N)])
        search = first(
            n[None],
            n,
            n * log_size(np.array([mean])),
            n * 0.05,
            probabilities=RANKS / N,
            units=np.array([unit]),
            least=least,
        )
        moved.append(log_size(search.cuts([search.first])))
    steps = 2.0**-10
    for ends in moved:
        np.testing.assert_allclose(ends, np.rint(ends / steps) * steps, atol=1e-12)


def test_control_with_ends_of_its_own_each_search_tells_single_values(monkeypatch):
    """As they were: as far from the mean as Markov's inequality says."""

    def own(centre, spread, rank, size, n_values, *, exact):
        fewer = np.minimum(rank, size + 1.0 - rank)
        reach = spread * np.sqrt(n_values / fewer)
        lo, hi = size_of_log(centre - reach), size_of_log(centre + reach)
        return Brackets(lo, hi, np.zeros(len(rank)), size)

    def cuts(self, K, *, exact):
        lo, hi = log_size(self.lo), log_size(self.hi)
        share = np.arange(1, K + 1) / (K + 1)
        return size_of_log(lo[:, None] + (hi - lo)[:, None] * share)

    monkeypatch.setattr(column_quantiles, "first_brackets", own)
    monkeypatch.setattr(Brackets, "cuts", cuts)
    found = brackets(monkeypatch, up.simulate(tables()))
    assert narrowest_of_one(np.ravel(found)) < 0.1 * narrowest_bracket(found)


def test_control_a_bracket_follows_from_its_quantile(monkeypatch):
    here = up.simulate(tables())
    found = brackets(monkeypatch, here)
    model = up.Quantiles([(RANKS[20] - 1) / (N - 1)]).fit(here)
    value, width = float(model.quantiles_[0, 0]), float(model.errors_[0, 0])
    # There are few brackets of a value: one for each power of two.
    steps = [2.0**-k for k in range(2, 16)]
    starts = [np.floor(log_size(np.array(value)) / step) * step for step in steps]
    ends = [
        (float(size_of_log(start)), float(size_of_log(start + step)))
        for start, step in zip(starts, steps, strict=True)
    ]
    (lo, hi) = min(ends, key=lambda pair: abs(pair[1] - pair[0] - width))
    np.testing.assert_allclose(found[2 * 20], (lo, hi), rtol=1e-9)
    share = Fraction((value - lo) / width).limit_denominator(400)
    below, within = np.searchsorted(AGES, lo), ((lo <= AGES) & (hi > AGES)).sum()
    assert share == Fraction(int(2 * (RANKS[20] - below) - 1), int(2 * within))


@pytest.mark.slow
@pytest.mark.parametrize("follow", [False, True])
def test_quantiles_are_not_searched_in_many_units(follow):
    here = up.simulate(tables(), follow=follow)
    up.Quantiles().fit(here)
    up.Describe().fit(here)
    scaler = up.StandardScaler().fit(here)
    up.Quantiles((0.4, 0.5)).fit(scaler.transform(here))
    again = up.StandardScaler(with_mean=False).fit(here)
    with pytest.raises(ReleaseRefusedError, match="one_setting"):
        up.Quantiles().fit(again.transform(here))
    # The units that were answered are answered again.
    up.RobustScaler().fit(here)
    up.Quantiles((0.3,)).fit(scaler.transform(here))


ANOTHER_UNIT = {
    "age * year": "derived_rows",
    "age / year": "derived_rows",
    "year - age": "derived_rows",
    "age * nearly": "derived_rows",
    # Whatever the rows are.
    "age * age": "one_setting",
    "log(age)": "one_setting",
}


@pytest.mark.parametrize("made_as", ANOTHER_UNIT)
def test_nor_in_units_of_another_column(made_as):
    """A product with a constant column is the column in another unit."""
    made = tables()
    for table in made.values():
        flags = np.arange(len(table)) % 2.0
        table["year"], table["nearly"], table["flag"] = 2024.0, 1 + 1e-3 * flags, flags
    here = up.simulate(made)
    up.Quantiles().fit(here.select(["age"]))
    scaled = up.StandardScaler().fit(here.select(["age"]))
    up.Quantiles().fit(scaled.transform(here.select(["age"])))

    # Another derived column beside it makes no further unit.
    columns = {"new": made_as, "other": "age * flag"}
    derived = up.DerivedColumns(columns).fit(here).transform(here)
    with pytest.raises(ReleaseRefusedError, match=ANOTHER_UNIT[made_as]):
        up.Quantiles().fit(derived.select(["new"]))

    up.Quantiles().fit(derived.select(["other"]))


@pytest.mark.slow
def test_nor_are_those_of_components_of_columns_in_many_units():
    """The first component of two columns may be next to one of them."""
    made = tables()
    for table in made.values():
        table["flag"] = np.arange(len(table)) % 2.0
    here = up.simulate(made)

    def search(low: float) -> None:
        scaler = up.RobustScaler(quantile_range=(low, 90.0)).fit(here)
        scaled = scaler.transform(here)
        up.Quantiles().fit(up.PCA(2).fit(scaled).transform(scaled))

    search(10.0)
    search(20.0)
    with pytest.raises(ReleaseRefusedError, match="one_setting"):
        search(25.0)
    # Those of other columns are.
    derived = up.DerivedColumns({"both": "age * flag"}).fit(here).transform(here)
    up.Quantiles().fit(up.PCA(2).fit(derived).transform(derived))


@pytest.mark.slow
def test_fillings_and_other_columns_are_no_other_unit():
    made = tables()
    for table in made.values():
        table["size"] = table["age"].to_numpy()[::-1] ** 2
        table.loc[:40, "size"] = np.nan
    here = up.simulate(made)
    up.Describe().fit(here)
    filled = up.SimpleImputer("median").fit(here).transform(here)
    up.RobustScaler().fit(filled)
    derived = up.DerivedColumns({"ratio": "age / size"}).fit(filled)
    up.Quantiles().fit(derived.transform(filled))


def test_ends_of_brackets_are_powers_of_two_on_any_machine():
    numbers = np.array([0.3, 0.5, 1.0, 1.1, 2.0**-40])
    above = rank_search._power_above(numbers)
    assert above.tolist() == [0.5, 1.0, 2.0, 2.0, 2.0**-39]
