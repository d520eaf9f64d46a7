"""What each silo shows of its own rows, and that no small count follows from it."""

import numpy as np
import pandas as pd
import pytest
import scipy.optimize
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import unpooled as up
from described_rows import made, silos
from line_fields import fields
from unpooled.data import heart_disease
from unpooled.errors import DataError, ReleaseRefusedError
from unpooled.linalg.small_cells import is_unsafe, withheld_silos
from unpooled.models.description import by_silo
from unpooled.models.description.shown_table import CODES, ShownTable, TableTotals
from unpooled.study import Study
from unpooled.testing import check_step

OPEN = {"allow_disclosed": True}
NUMBERS, CODED, TEXTS = ["age", "chol"], ["stage"], ["ward"]
# Whether silos follow the program, and how totals travel.
WAYS = [(False, "plain"), (True, "masked")]


def described(federation, **options):
    options = {"categorical": CODED, "quartiles": False, **options}
    return up.describe(federation, per_silo=True, **options)


# --- Equal to pandas of each silo ---------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("follow", "secure_sum"), WAYS)
def test_is_what_pandas_finds_in_each_silo(follow, secure_sum):
    federation, tables = silos(made(), follow=follow, secure_sum=secure_sum)
    found = described(federation)
    assert found.silos_ == ["s0", "s1", "s2", "s3"]
    places = [found.columns_.index(name) for name in NUMBERS]
    for i, own in enumerate(tables):
        assert found.silo_size_[i] == len(own)
        wanted = own[found.columns_].isna().sum().to_numpy()
        assert found.silo_n_missing_[i].tolist() == wanted.tolist()
        # Of a mean that is 1e5 times the deviation, 1e5 of 2^52 units of rounding.
        assert_allclose(found.silo_mean_[i, places], own[NUMBERS].mean(), rtol=1e-13)
        assert_allclose(found.silo_std_[i, places], own[NUMBERS].std(), rtol=1e-9)
        for k, name in enumerate(found.categorical_):
            counts = own[name].value_counts()
            names = found.categories_[k]
            here = found.silo_category_counts_[i, k, : len(names)]
            assert here.tolist() == [counts[one] for one in names]
    # What is shown of all silos does not change.
    alone = up.describe(federation, categorical=CODED, quartiles=False)
    assert alone.to_frame().equals(
        found.to_frame().query("silo == 'all'").drop(columns="silo")
    )


@pytest.mark.slow
@pytest.mark.parametrize(("follow", "secure_sum"), WAYS)
def test_quartiles_are_those_of_each_silo(follow, secure_sum):
    federation, tables = silos(made(), follow=follow, secure_sum=secure_sum)
    found = described(federation, quartiles=True)
    places = [found.columns_.index(name) for name in NUMBERS]
    for i, own in enumerate(tables):
        rows = own[NUMBERS].to_numpy()
        wanted = np.nanquantile(rows, [0.25, 0.5, 0.75], axis=0)
        here, error = (
            part[:, i, places]
            for part in (found.silo_quartiles_, found.silo_quartile_errors_)
        )
        assert (np.abs(here - wanted) <= error).all()
        # At least `min_rows` values of the silo lie in the bracket.
        for k in range(len(NUMBERS)):
            near = np.abs(rows[:, k, None] - here[:, k]) <= error[:, k]
            assert (near.sum(axis=0) >= 10).all()
    # Categories have none, and those of all silos are what they are without `per_silo`.
    coded = [found.columns_.index(name) for name in (*CODED, *TEXTS)]
    assert np.isnan(found.silo_quartiles_[:, :, coded]).all()
    alone = up.describe(federation, categorical=CODED)
    assert alone.to_frame().equals(
        found.to_frame().query("silo == 'all'").drop(columns="silo")
    )
    frame = found.to_frame()
    own = frame[(frame.silo == "s2") & (frame.column == "age")].iloc[0]
    assert own["median"] == found.silo_quartiles_[1, 2, places[0]]
    assert "age, median [quartiles]" in str(found).split("s2 (n = 60)")[1]


@pytest.mark.slow
def test_quartiles_are_numpy_s_where_order_statistics_are_allowed():
    policy = {**OPEN, "allow_order_statistics": True}
    federation, tables = silos(made()[[*NUMBERS, "kind"]], categorical=[],
                               policy=policy)  # fmt: skip
    found = up.describe(federation, per_silo=True, min_rows=1)
    for i, own in enumerate(tables):
        wanted = np.nanquantile(own[NUMBERS], [0.25, 0.5, 0.75], axis=0)
        assert found.silo_quartiles_[:, i].tolist() == wanted.tolist()
    # Without that permission they are refused, and so are those of all silos.
    federation, _ = silos(made()[[*NUMBERS, "kind"]], categorical=[])
    with pytest.raises(ReleaseRefusedError, match="allow_order_statistics"):
        up.describe(federation, per_silo=True, min_rows=1)


def test_a_silo_judges_the_limit_of_its_own_quartiles():
    """Whatever the search over all silos was asked for."""
    federation, _ = silos(made()[[*NUMBERS, "kind"]], categorical=[])
    federation.model = "describe"
    with (
        federation.fitting(),
        pytest.raises(ReleaseRefusedError, match="allow_order_statistics"),
    ):
        federation.keep(by_silo.own_quartiles, units=np.zeros(2), least=1)


@pytest.mark.slow
def test_what_leaves_for_quartiles():
    federation, _ = silos(made()[["age", "stage", "kind"]], categorical=[])
    model = up.Describe(categorical=CODED, per_silo=True)
    planned = up.plan(model, federation)
    model.fit(federation)
    assert {x.round for x in planned.releases} == {x.round for x in federation.ledger}
    for lines in (federation.ledger, planned.releases):
        own = fields(
            lines,
            "name shape visibility",
            step="describe.own_quartile_table",
            direction="out",
        )
        assert own[:2] == [
            ("quartiles", (2, 3), "disclosed"),
            ("errors", (2, 3), "disclosed"),
        ]


@pytest.mark.slow
def test_quartiles_are_withheld_where_means_are():
    frame = made()[[*NUMBERS, "kind"]]
    frame["chol"] = frame["chol"].fillna(1e5)
    # Two patients of one silo have no value. So the three smallest silos withhold the
    # column too, and in two of these many have none.
    frame.loc[frame.index[[95, 96, *range(200, 220), *range(260, 280)]], "chol"] = None
    federation, _ = silos(frame, cuts=(90, 200, 260, 330), categorical=[])
    found = up.describe(federation, per_silo=True)
    hidden = np.isnan(found.silo_std_)
    assert hidden[:, 0].sum() == 0
    assert hidden[:, 1].tolist() == [False, True, True, True, True]
    assert (np.isnan(found.silo_quartiles_) == hidden).all()
    assert (np.isnan(found.silo_quartile_errors_) == hidden).all()


@pytest.mark.slow
@pytest.mark.parametrize(("n_values", "shown"), [(7, False), (8, False), (9, True)])
def test_quartiles_of_few_values_are_withheld_where_one_is_rare(n_values, shown):
    frame = made()[[*NUMBERS, "kind"]]
    frame["chol"] = np.arange(len(frame)) % (n_values - 1) * 1.0
    # Two patients of the second silo have a value that is rare there.
    frame.loc[frame.index[[95, 96]], "chol"] = 50.0
    federation, _ = silos(frame, categorical=[])
    found = up.describe(federation, per_silo=True)
    assert np.isfinite(found.silo_std_[:, 1]).all()
    known = np.isfinite(found.silo_quartiles_[:, :, 1]).all(axis=0)
    assert known.tolist() == [True, shown, True, True]


@pytest.mark.slow
def test_forms():
    federation, tables = silos(made())
    found = described(federation)
    frame = found.to_frame()
    own = frame[(frame.silo == "s1") & (frame.column == "age")].iloc[0]
    assert (own["group"], own["rows"], own["n"]) == ("all", 110, 110)
    assert_allclose(own["sd"], tables[1].age.std())
    icu = frame[(frame.silo == "s2") & (frame.category == "icu")].iloc[0]
    assert icu["count"] == (tables[2].ward == "icu").sum()
    assert_allclose(icu["share"], icu["count"] / tables[2].ward.notna().sum())
    assert "s3 (n = 140)" in str(found)
    # A table for papers is that of all silos.
    assert "s3" not in found.to_markdown()


@pytest.mark.slow
def test_what_leaves():
    federation, _ = silos(made()[["age", "stage", "kind"]], categorical=[])
    planned = up.plan(up.Describe(categorical=CODED, quartiles=False, per_silo=True),
                      federation)  # fmt: skip
    described(federation)
    for lines in (federation.ledger, planned.releases):
        left = [(x.step, x.name, x.shape, x.visibility) for x in lines
                if x.direction == "out" and x.round > 5]  # fmt: skip
        assert left[:4] == [
            ("describe.flagged_columns", "flags", (4, 2), "veiled"),
            ("describe.flagged_columns", "sizes", (4,), "veiled"),
            ("describe.withheld_counts", "rest", (2, left[2][2][1]), "veiled"),
            ("describe.unsafe_columns", "unsafe", (2,), "veiled"),
        ]
        own = [(step, name, seen) for step, name, _, seen in left[4:]]
        names = ["size", "missing", "mean", "variance", "shown_cells"]
        assert own[:5] == [("describe.own_table", n, "disclosed") for n in names]


@pytest.mark.slow
def test_a_silo_s_table_is_shown_where_every_silo_allows_it():
    federation, _ = silos(made(), policy=None)
    with pytest.raises(ReleaseRefusedError, match="allow_disclosed"):
        described(federation)
    plan = up.plan(up.Describe(per_silo=True), federation)
    assert {rule for _, _, rule in plan.refusals} == {"allow_disclosed"}
    with pytest.raises(ReleaseRefusedError, match="min_rows_per_class"):
        described(silos(made())[0], min_rows_per_class=4)


@pytest.mark.slow
def test_a_silo_of_few_rows_refuses():
    tables = {f"s{i}": np.arange(float(n))[:, None] for i, n in enumerate([4, 40, 50])}
    federation = up.simulate(tables, policy={**OPEN, "min_rows": 1})
    with pytest.raises(DataError, match=r"s0 could not answer describe\.flagged"):
        up.describe(federation, per_silo=True, quartiles=False, min_rows=1)


STUDY = """
[study]
name = "each"
label = "num"
columns = ["age", "chol", "sex"]
[policy]
allow_disclosed = true
[[steps]]
model = "Describe"
per_silo = true
quartiles = false
categorical = ["sex"]
"""


@pytest.mark.slow
def test_a_study_has_it_in_report_and_files(tmp_path):
    text = STUDY
    for name, table in heart_disease.load().items():
        table.to_pandas().to_csv(tmp_path / f"{name}.csv", index=False)
        text += f'[parties.{name}]\nsource = "{name}.csv"\n'
    run = Study.from_text(tmp_path / "study.toml", text).run(follow=True)
    frame = pd.read_csv(next((run.folder / "results").rglob("*description*.csv")))
    [mean] = frame[(frame.silo == "hungary") & (frame.column == "age")]["mean"]
    assert_allclose(mean, heart_disease.load()["hungary"].to_pandas().age.mean())
    # The heading of a column does not break within its number of rows.
    assert "hungary (n\u00a0=\u00a0294)" in (run.folder / "report.html").read_text()


# --- What is withheld ---------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("values", "nowhere"),
    [
        ([0.0] * 97 + [1.0] * 3, False),
        ([-1.0] * 96 + [4.0] * 4, False),
        # Of three values n, mean and variance give the counts, also of what is left.
        ([0.0] * 60 + [1.0] * 37 + [2.0] * 3, True),
        ([0.5] * 98 + [0.75] * 2, True),
        # A mean of seven people.
        ([1.5, 2.5, 3.5, 7.5, 8.5, 9.25, 11.5] + [np.nan] * 93, True),
        # Missing in three rows.
        ([*np.arange(97.0) ** 1.5, np.nan, np.nan, np.nan], False),
    ],
)
def test_a_mean_is_withheld_where_it_gives_a_small_count(values, nowhere):
    rng = np.random.default_rng(0)
    own = [np.array(values)]
    common = np.unique(own[0][~np.isnan(own[0])])
    for size in (110, 120, 130, 140):
        column = rng.choice(common, size)
        column[:20] = np.nan
        own.append(column)
    tables = {f"s{i}": pd.DataFrame({"x": x}) for i, x in enumerate(own)}
    federation = up.simulate(tables, policy=OPEN, follow=True)
    found = up.describe(federation, per_silo=True, quartiles=False)
    hidden = np.isnan(found.silo_mean_[:, 0])
    # The silo, and the smallest others, which are the first.
    assert hidden.tolist() == [True, True, True, nowhere, nowhere]
    assert np.isnan(found.silo_n_missing_[hidden]).all()
    assert np.isnan(found.silo_std_[hidden]).all()
    assert found.silo_size_.tolist() == [100, 110, 120, 130, 140]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_no_mean_that_is_shown_has_a_small_count(seed):
    """Of two or three whole numbers; nor has what is left of all silos."""
    rng = np.random.default_rng(seed)
    frames = []
    for _ in range(6):
        ones = rng.choice([0, 2, 9, 20], 8, p=[0.2, 0.1, 0.3, 0.4])
        twos = rng.choice([0, 2, 9], 8, p=[0.3, 0.1, 0.6]) * (np.arange(8) > 3)
        columns = [
            np.repeat([0.0, 1.0, 2.0], [70 - one - two, one, two])
            for one, two in zip(ones, twos, strict=True)
        ]
        frames.append(pd.DataFrame(np.column_stack(columns)).add_prefix("x"))
    federation = up.simulate({f"s{i}": x for i, x in enumerate(frames)}, policy=OPEN)
    found = up.describe(federation, per_silo=True, quartiles=False)
    shown = ~np.isnan(found.silo_mean_)
    counts = np.array([[(x == k).sum() for k in range(3)] for x in frames])
    assert not ((counts > 0) & (counts < 5) & shown[:, None]).any()
    for j in range(8):
        if 0 < shown[:, j].sum() < 6:
            hidden = counts[~shown[:, j], :, j]
            assert len(hidden) >= 3
            for known in (0, *hidden):
                others = hidden.sum(axis=0) - known
                assert not ((others > 0) & (others < 5)).any()


@pytest.mark.slow
def test_on_heart_disease():
    federation = up.simulate(heart_disease.load(), label="num", policy=OPEN)
    found = described(federation.select(["thalach", "slope", "sex"]),
                      categorical=["slope", "sex"])  # fmt: skip
    # Hungary has one row with the third slope, and with it the smallest are withheld.
    assert np.isnan(found.silo_category_counts_[1:, 0]).all()
    assert found.silo_category_counts_[0, 0, :3].tolist() == [142, 140, 21]
    # One row of Hungary and one of Switzerland lack thalach, and 53 of a third silo,
    # which knows that: 2 are left.
    assert np.isnan(found.silo_mean_[:, 0]).all()
    assert not np.isnan(found.silo_category_counts_[:, 1, :2]).any()


@given(st.data())
def test_a_larger_limit_withholds_the_same_and_more(data):
    sizes = np.array(data.draw(st.lists(st.integers(10, 14), min_size=2, max_size=7)))
    some = st.lists(st.booleans(), min_size=len(sizes), max_size=len(sizes))
    few = np.array(data.draw(some))[:, None]
    more = few | np.array(data.draw(some))[:, None]
    found, others = (withheld_silos(one, sizes.astype(float)) for one in (few, more))
    assert (found <= others).all()
    assert (few <= found).all()
    assert found.sum() == 0 or found.sum() >= min(3, len(sizes))


def test_a_rest_is_judged_with_and_without_a_silo_s_own():
    rest, least = np.array([[10.0, 3.0], [10.0, 9.0], [0.0, 9.0]]), np.array([5.0, 5.0])
    own = np.array([[0.0, 0.0], [8.0, 0.0], [0.0, 9.0]])
    assert is_unsafe(rest, own, np.tile(least, (3, 1))).tolist() == [True, True, False]


def test_steps_are_functions_of_the_rows():
    check_step(by_silo.own_counts, made()[[*NUMBERS, *CODED]].to_numpy())


# --- What follows from everything that is printed -----------------------------------

LEAST = 3


def printed(tables, v, classes=None):
    """Return what silos show of one column of codes, by the steps of the protocol.

    The last row of a silo's counts has its missing cells. NaN is withheld.
    """
    names = [f"s{i}" for i in range(len(tables))]
    keeps = [by_silo.own_counts.function(X) for X in tables]
    for X, kept in zip(tables, keeps, strict=True):
        kept |= by_silo.own_squares.function(X, kept)
    pooled = np.concatenate(tables)[:, 0]
    parts = (
        [] if classes is None else [pooled[classes == k] for k in np.unique(classes)]
    )
    groups = [*parts, pooled]
    cells: np.ndarray = np.zeros((len(groups), 1, CODES + 1))
    for g, x in enumerate(groups):
        for k in range(v):
            cells[g, 0, k] = (x == k).sum()
    frequent = [k for k in range(v) if cells[-1, 0, k] >= LEAST]
    of_all = {
        "rows": np.array([float(len(x)) for x in groups]),
        "count": np.array([[float((~np.isnan(x)).sum())] for x in groups]),
        "total": np.array([[np.nansum(x)] for x in groups]),
        "squares": np.zeros((len(groups), 1)),
        "cells": cells,
        "categorical": np.array([0]),
        "frequent": np.array([[*frequent, -1]]),
        "fewest": LEAST,
    }
    common = {"silos": names, "n_silos": len(names)}
    width = max(len(frequent) + 1, 2) + 2
    found = [
        by_silo.flagged_columns.function(
            kept, name, **of_all, least=LEAST, width=width, **common
        )
        for name, kept in zip(names, keeps, strict=True)
    ]
    for kept, own in zip(keeps, found, strict=True):
        kept |= {name: own[name] for name in ("own_lines", "own_least", "own_flags")}
    opened = {name: sum(own[name] for own in found) for name in ("flags", "sizes")}
    del common["n_silos"]

    def summed(step, **more):
        parts = [
            step.function(kept, name, **common, **opened, **more)
            for name, kept in zip(names, keeps, strict=True)
        ]
        return {key: sum(part[key] for part in parts) for key in parts[0]}

    rest = summed(by_silo.withheld_counts, width=width)
    unsafe = summed(by_silo.unsafe_columns, **rest)
    own = [
        by_silo.own_table.function(
            kept, name, **common, **opened, **unsafe,
            categorical=of_all["categorical"], frequent=of_all["frequent"],
            n_categories=len(frequent) + 1,
        )
        for name, kept in zip(names, keeps, strict=True)
    ]  # fmt: skip
    of_silos = np.array([[*part["shown_cells"], part["missing"][0]] for part in own])
    table = ShownTable.of(TableTotals(**of_all))
    of_groups = np.column_stack([table.cells[:, 0], table.missing[:, 0]])
    truth = np.array(
        [
            [*((X == k).sum() for k in frequent),
             sum((X == k).sum() for k in range(v) if k not in frequent),
             np.isnan(X).sum()]
            for X in tables
        ]
    )  # fmt: skip
    shown = [np.where(x < 0, np.nan, x) for x in (of_silos, of_groups)]
    return truth, *shown


def largest(truth, place, *, of_silos, of_all, classes=None, insider=None):
    """Return the largest count that a cell may have, by everything that is known."""
    m, width = truth.shape
    A, b = [], []

    def known(cells, value):
        row = np.zeros((m, width))
        row[cells] = 1.0
        A.append(row.ravel())
        b.append(float(value))

    for s in range(m):
        known((s, slice(None)), truth[s].sum())
        for k in range(width):
            if s == insider:
                known((s, k), truth[s, k])
            for shown in (of_silos, classes):
                if shown is not None and not np.isnan(shown[s, k]):
                    assert shown[s, k] == truth[s, k]
                    known((s, k), shown[s, k])
    for k in range(width):
        if not np.isnan(of_all[k]):
            known((slice(None), k), of_all[k])
    cost = np.zeros((m, width))
    cost[place] = -1.0
    found = scipy.optimize.milp(
        cost.ravel(),
        constraints=scipy.optimize.LinearConstraint(np.array(A), b, b),
        integrality=np.ones(m * width),
    )
    assert found.success
    return round(-found.fun)


def drawn(rng, m, v, small):
    """Tables of a column of codes, with some counts below the limit."""
    tables = []
    for _ in range(m):
        counts = rng.integers(LEAST, 9, v + 1)
        counts[rng.random(v + 1) < 0.3] = 0
        at = rng.random(v + 1) < small
        counts[at] = rng.integers(0, LEAST, at.sum())
        counts[0] = max(counts[0], LEAST)
        tables.append(np.repeat([*range(v), np.nan], counts)[:, None])
    return tables


@pytest.mark.slow
@pytest.mark.parametrize("m", [2, 3, 4, 6])
@pytest.mark.parametrize("small", [0.03, 0.1, 0.3])
def test_no_small_count_follows_from_what_is_printed(m, small):
    rng = np.random.default_rng([m, int(100 * small)])
    n_shown = n_hidden = 0
    for _ in range(25):
        truth, of_silos, of_groups = printed(drawn(rng, m, 2, small), 2)
        hidden = np.isnan(of_silos)
        is_small = (truth > 0) & (truth < LEAST)
        assert not (is_small & ~hidden).any()
        n_shown, n_hidden = n_shown + (~hidden).sum(), n_hidden + hidden.sum()
        # Where all silos are withheld, the others' sum is what every total has.
        insiders = [None] if hidden.all() else [None, *range(m)]
        for s, k in np.argwhere(is_small):
            for insider in insiders:
                if insider != s:
                    most = largest(truth, (s, k), of_silos=of_silos,
                                   of_all=of_groups[-1], insider=insider)  # fmt: skip
                    assert most >= LEAST
    assert n_hidden
    assert n_shown or small > 0.2


@pytest.mark.slow
@pytest.mark.parametrize("m", [3, 5, 6])
def test_nor_where_the_classes_are_the_silos(m):
    """A label that names the silo: its table and theirs are of the same groups."""
    rng = np.random.default_rng(m)
    for _ in range(40):
        tables = drawn(rng, m, 2, 0.06)
        classes = np.repeat(np.arange(m), [len(X) for X in tables])
        truth, of_silos, of_groups = printed(tables, 2, classes)
        for s, k in np.argwhere((truth > 0) & (truth < LEAST)):
            most = largest(truth, (s, k), of_silos=of_silos, of_all=of_groups[-1],
                           classes=of_groups[:-1])  # fmt: skip
            assert most >= LEAST


def test_a_silo_shows_no_small_count_whatever_the_flags():
    kept = {
        "own_rows": np.array(40.0), "own_count": np.array([40.0]),
        "own_total": np.array([70.0]), "own_squares": np.array([9.0]),
        "own_lines": np.array([[38.0, 2.0, 40.0, 0.0]]), "own_flags": np.array([1.0]),
    }  # fmt: skip
    shown = by_silo.own_table.function(
        kept, "s0", silos=["s0", "s1"], flags=np.zeros((2, 1)), sizes=np.ones(2),
        unsafe=np.zeros(1), categorical=np.array([0]), frequent=np.array([[0, -1]]),
        n_categories=2,
    )  # fmt: skip
    assert shown["shown_cells"].tolist() == [-1.0, -1.0]
    assert shown["missing"].tolist() == [-1.0]


def test_without_the_third_silo_a_small_count_would_follow():
    """The control: two withheld silos, or a rest that nobody judges, are not enough."""
    truth = np.array([[20, 1, 8], [15, 9, 9], [30, 12, 7], [16, 11, 10]])
    shown = truth.astype(float)
    shown[:2] = np.nan
    known = {"of_silos": shown, "of_all": truth.sum(axis=0).astype(float)}
    assert largest(truth, (0, 1), **known) >= LEAST
    assert largest(truth, (0, 1), **known, insider=1) == 1
    alone = shown.copy()
    alone[1] = truth[1]
    assert largest(truth, (0, 1), of_silos=alone, of_all=known["of_all"]) == 1
