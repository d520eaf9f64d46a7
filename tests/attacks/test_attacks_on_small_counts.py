"""Attempts to get a withheld count back from what a table of counts shows."""

import itertools

import numpy as np
import pandas as pd
import pytest
import scipy.optimize
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import unpooled as up
from unpooled.errors import ReleaseRefusedError
from unpooled.linalg.small_cells import withheld

LEAST = 5


def bounds(counts, groups, lines):
    """Return the least and the largest value of every count, by what is shown.

    An attacker knows sizes of groups, lines of "all" that are shown, and counts of
    groups that are shown.
    """
    rows, columns = counts.shape
    cell = np.arange(counts.size).reshape(counts.shape)
    known, values = [], []

    def knows(cells, total):
        known.append(np.isin(np.arange(counts.size), cells))
        values.append(total)

    for j in range(columns):
        knows(cell[:, j], counts[:, j].sum())
        if not groups[j]:
            for i in range(rows):
                knows(cell[i, j], counts[i, j])
    for i in range(rows):
        if not lines[i]:
            knows(cell[i], counts[i].sum())
    A, b = np.array(known, float), np.array(values, float)
    ends = []
    for sign in (1.0, -1.0):
        ends.append(
            [
                sign
                * scipy.optimize.linprog(
                    sign * np.eye(counts.size)[k], A_eq=A, b_eq=b
                ).fun
                for k in range(counts.size)
            ]
        )
    return np.array(ends).reshape(2, *counts.shape)


@pytest.mark.slow
@given(
    st.integers(2, 4).flatmap(
        lambda n: st.integers(2, 4).flatmap(
            lambda m: arrays(int, (n, m), elements=st.integers(0, 14))
        )
    )
)
def test_no_small_count_follows_from_what_is_shown(counts):
    # Classes that are too small are refused before any table is made.
    sizes = counts.sum(axis=0)
    counts[0] += np.where(sizes < LEAST, LEAST, 0)
    groups, lines = withheld(counts.astype(float), LEAST)
    least, largest = bounds(counts, groups, lines)
    small = (counts > 0) & (counts < LEAST)
    assert groups[small.any(axis=0)].all()
    # Whoever knows that it is small, and what is shown, is left with several values.
    wide = largest - least
    assert (wide[small] > 1.5).all(), (counts, groups, lines)
    total = counts.sum(axis=1)
    assert lines[(total > 0) & (total < LEAST)].all()


@given(
    st.integers(2, 4).flatmap(
        lambda n: st.integers(2, 5).flatmap(
            lambda m: arrays(int, (n, m), elements=st.integers(0, 14))
        )
    )
)
def test_a_frequent_category_has_no_small_rest(counts):
    """Encoders open how many rows of all silos have each name.

    Without the groups that are shown it is how many of the withheld ones have it.
    """
    groups, _ = withheld(counts.astype(float), LEAST)
    frequent = counts.sum(axis=1) >= LEAST
    rest = counts[:, groups].sum(axis=1)[frequent]
    assert ((rest == 0) | (rest >= LEAST)).all()


@pytest.fixture(scope="module")
def rows():
    """A column of which two cells of one class are missing, and a rare category."""
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(
        {
            "age": rng.integers(20, 90, 240).astype(float),
            "stage": rng.integers(1, 4, 240).astype(float),
            "kind": np.arange(240) % 3,
        }
    )
    frame.loc[[3, 9], "age"] = np.nan
    frame.loc[[1, 7, 13], "stage"] = 9.0
    return frame


def silos(frame, label: str | None = "kind", **options):
    parts = np.array_split(np.random.default_rng(0).permutation(len(frame)), 3)
    tables = {f"silo{i}": frame.iloc[own] for i, own in enumerate(parts)}
    return up.simulate(tables, label=label, **options)


@pytest.fixture(scope="module")
def table(rows):
    federation = silos(rows)
    return federation, up.describe(federation, categorical=["stage"])


@pytest.mark.slow
def test_small_counts_are_in_nothing_that_was_opened(table):
    federation, model = table
    assert np.isnan(model.n_missing_[-1, 0])
    assert np.isnan(model.n_missing_[0, 0])
    assert np.isnan(model.category_counts_[1, 0]).all()
    assert np.isnan(model.p_value_).all()
    assert np.isnan(model.smd_).all()
    opened = {
        line.step.removeprefix("describe.").partition("_")[0]
        for line in federation.ledger
        if line.direction == "out" and line.visibility == "summed"
    }
    assert opened == {"local", "found"}  # names of the classes, and the table


@pytest.mark.slow
def test_the_digits_of_a_mean_do_not_tell_how_many_it_is_of(rows, table):
    """The mean of whole numbers is a fraction: its denominator would be the count."""
    model = table[1]
    mean, step = model.mean_[-1, 0], 2.0
    assert mean % step == 0
    assert model.std_[-1, 0] % step == 0
    assert 0 < abs(mean - rows.age.mean()) <= step / 2
    # Whatever the count, some sum of whole numbers gives this mean.
    for n in range(240 - LEAST + 1, 240):
        sums = np.arange(np.ceil((mean - step / 2) * n), (mean + step / 2) * n)
        assert len(sums) > 1


@pytest.mark.slow
def test_two_tables_with_other_limits_are_refused(rows):
    """What one withholds beside a small count, the other might show."""
    federation = silos(rows)
    up.describe(federation, quartiles=False)
    with pytest.raises(ReleaseRefusedError, match="one_setting"):
        up.describe(federation, quartiles=False, min_rows_per_class=6)


@pytest.mark.slow
def test_tables_of_fewer_columns_withhold_the_same(rows, table):
    model = up.describe(silos(rows).select(["stage"]), categorical=["stage"])
    np.testing.assert_array_equal(model.category_counts_, table[1].category_counts_)


@pytest.mark.slow
def test_a_table_of_all_rows_shows_no_more(rows, table):
    """The table without classes is the line "all" of the one with them."""
    alone = up.describe(
        silos(rows.drop(columns="kind"), label=None), categorical=["stage"]
    )
    np.testing.assert_array_equal(
        alone.category_counts_[-1], table[1].category_counts_[-1]
    )
    assert np.isnan(alone.n_missing_[-1, 0])


@pytest.mark.slow
def test_pairs_of_shown_numbers_do_not_subtract_to_a_small_count(table):
    model = table[1]
    shown = [
        *model.n_missing_[~np.isnan(model.n_missing_)],
        *model.category_counts_[~np.isnan(model.category_counts_)],
    ]
    for name, counts in (("stage", model.category_counts_[:, 0]),):
        for k in range(counts.shape[1]):
            of_all = counts[-1, k]
            rest = of_all - np.nansum(counts[:-1, k])
            hidden = np.isnan(counts[:-1, k]).any()
            if hidden and not np.isnan(of_all):
                assert rest == 0 or rest >= LEAST, (name, k)
    assert all(one == 0 or one >= LEAST for one in shown)
    assert list(itertools.combinations(model.pairs_, 2))
