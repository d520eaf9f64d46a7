"""What each silo shows of its classes, and that no small count follows from it."""

import itertools
from functools import partial

import numpy as np
import pandas as pd
import pytest
import scipy.optimize
import scipy.stats
from numpy.testing import assert_allclose

import described_rows
import unpooled as up
from unpooled.data import heart_disease
from unpooled.errors import DataError, ReleaseRefusedError
from unpooled.linalg.small_cells import withheld
from unpooled.models.description import by_silo_and_class
from unpooled.party.rules import one_setting
from unpooled.study import Study

WAYS = [(False, "plain"), (True, "masked")]


made = partial(described_rows.made, 600, kinds=("ill", "well", "worse"))
silos = partial(described_rows.silos, cuts=(150, 300, 450))


def described(federation, **options):
    options = {"categorical": ["stage"], "quartiles": False, **options}
    return up.describe(federation, per_silo="classes", **options)


# --- Equal to pandas and SciPy of each silo -----------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("follow", "secure_sum"), WAYS)
def test_is_what_pandas_finds_in_each_class_of_each_silo(follow, secure_sum):
    federation, tables = silos(made(), follow=follow, secure_sum=secure_sum)
    found = described(federation)
    places = [found.columns_.index(name) for name in ("age", "chol")]
    for i, own in enumerate(tables):
        groups = [own[own.kind == name] for name in found.groups_[:-1]]
        for k, rows in enumerate([*groups, own]):
            size, n_missing, mean, std, counts = (
                getattr(found, f"silo_{name}_")[i]
                if k == len(groups)
                else getattr(found, f"silo_class_{name}_")[i, k]
                for name in ("size", "n_missing", "mean", "std", "category_counts")
            )
            assert size == len(rows)
            assert n_missing.tolist() == rows[found.columns_].isna().sum().tolist()
            # Of a mean that is 1e5 deviations, 1e5 of 2^52 units of rounding.
            assert_allclose(mean[places], rows[["age", "chol"]].mean(), rtol=1e-13)
            assert_allclose(std[places], rows[["age", "chol"]].std(), rtol=1e-9)
            for s, name in enumerate(found.categorical_):
                names = found.categories_[s]
                wanted = rows[name].value_counts()
                assert counts[s, : len(names)].tolist() == [wanted[x] for x in names]
        # Tests of the silo's classes: SciPy's, of its rows.
        ages = [rows.age for rows in groups]
        p_value = found.silo_p_value_[i, places[0]]
        assert_allclose(p_value, scipy.stats.f_oneway(*ages).pvalue, rtol=1e-9)
        assert found.silo_tests_[i][places[0]] == "one-way analysis of variance"
        wards = pd.crosstab(own.kind, own.ward)
        chi2 = scipy.stats.chi2_contingency(wards, correction=False)
        ward = found.columns_.index("ward")
        assert_allclose(found.silo_p_value_[i, ward], chi2.pvalue, rtol=1e-9)
        smd = (ages[1].mean() - ages[0].mean()) / np.sqrt(
            (ages[0].var() + ages[1].var()) / 2.0
        )
        assert_allclose(found.silo_smd_[i, 0, places[0]], smd, rtol=1e-9)
    # What is shown of all silos does not change.
    alone = up.describe(federation, categorical=["stage"], quartiles=False)
    assert alone.to_frame().equals(
        found.to_frame()
        .query("silo == 'all'")
        .drop(columns="silo")
        .reset_index(drop=True)
    )


@pytest.mark.slow
def test_classes_that_a_silo_lacks_are_no_part_of_its_tests():
    frame = made()
    frame.loc[:149, "kind"] = np.where(np.arange(150) % 2, "ill", "well")
    federation, tables = silos(frame)
    found = described(federation)
    assert found.silo_class_size_[0].tolist() == [75, 75, 0]
    age = found.columns_.index("age")
    assert found.silo_tests_[0][age] == "Welch’s t-test"
    ill, well = (tables[0][tables[0].kind == name].age for name in ("ill", "well"))
    wanted = scipy.stats.ttest_ind(ill, well, equal_var=False).pvalue
    assert_allclose(found.silo_p_value_[0, age], wanted, rtol=1e-9)
    assert np.isnan(found.silo_smd_[0, 1:, age]).all()
    assert np.isfinite(found.silo_smd_[0, 0, age])


@pytest.mark.slow
def test_forms():
    federation, tables = silos(made())
    found = described(federation)
    frame = found.to_frame()
    own = frame[(frame.silo == "s1") & (frame.column == "age") & (frame.group == "ill")]
    rows = tables[1][tables[1].kind == "ill"]
    assert own["rows"].tolist() == [len(rows)]
    assert_allclose(own["mean"], rows.age.mean())
    assert set(frame[frame.silo == "s1"].group) == {"ill", "well", "worse", "all"}
    assert "s1: column" in str(found)
    differences = found.summary().to_frame("differences")
    assert set(differences.silo) == {"all", "s0", "s1", "s2", "s3"}
    # A table for papers is that of all silos.
    assert "s1" not in found.to_markdown()


@pytest.mark.slow
def test_what_leaves():
    federation, _ = silos(made()[["age", "stage", "kind"]], categorical=[])
    model = up.Describe(categorical=["stage"], quartiles=False, per_silo="classes")
    planned = up.plan(model, federation)
    model.fit(federation)
    for lines in (federation.ledger, planned.releases):
        left = [(x.step, x.name, x.visibility) for x in lines
                if x.direction == "out" and x.round > 5]  # fmt: skip
        assert left[:3] == [
            ("describe.small_by_class", "small", "veiled"),
            ("describe.small_by_class", "held", "veiled"),
            ("describe.found_by_class", "shown", "summed"),
        ]
        names = ["size", "missing", "mean", "variance", "shown_cells"]
        assert [name for _, name, _ in left[3:8]] == names
        assert {seen for _, _, seen in left[3:]} == {"disclosed"}


STUDY = """
[study]
name = "each"
label = "num"
columns = ["age", "sex"]
[policy]
allow_disclosed = true
[[steps]]
model = "Describe"
per_silo = "classes"
quartiles = false
"""


def two_classes():
    """The hospitals without one of which only eight patients are well."""
    tables = {name: x.to_pandas() for name, x in heart_disease.load().items()}
    del tables["switzerland"]
    return {n: x.assign(num=(x.num > 0).astype(int)) for n, x in tables.items()}


@pytest.mark.slow
def test_a_study_has_it_in_report_and_files(tmp_path):
    text, tables = STUDY, two_classes()
    for name, table in tables.items():
        table.to_csv(tmp_path / f"{name}.csv", index=False)
        text += f'[parties.{name}]\nsource = "{name}.csv"\n'
    run = Study.from_text(tmp_path / "study.toml", text).run(follow=True)
    frame = pd.read_csv(next((run.folder / "results").rglob("*description*.csv")))
    own = frame[(frame.silo == "hungary") & (frame.column == "age")]
    wanted = tables["hungary"].groupby("num").age.mean()
    assert_allclose(own["mean"][:2], wanted)
    # Three women of Virginia's hospital are well: no silo shows the column by class.
    assert frame[(frame.silo != "all") & (frame.column == "sex")]["mean"].isna().all()
    assert "hungary: column" in (run.folder / "report.html").read_text()


# --- Refusals -----------------------------------------------------------------------


@pytest.mark.slow
def test_every_silo_must_allow_it():
    federation, _ = silos(made(), policy=None)
    with pytest.raises(ReleaseRefusedError, match="allow_disclosed"):
        described(federation)
    with pytest.raises(DataError, match='choose False, True or "classes"'):
        up.describe(federation, per_silo="class")
    federation, _ = silos(made().drop(columns="kind"), label=None)
    with pytest.raises(DataError, match="there is none"):
        described(federation)


@pytest.mark.slow
@pytest.mark.parametrize("first", [True, "classes"])
def test_a_silo_describes_its_rows_as_a_whole_or_by_class(first):
    """Whatever the columns are: with both, three margins of each would be known."""
    federation, _ = silos(made())
    federation.select(["age"])
    up.describe(federation.select(["age"]), per_silo=first, quartiles=False)
    second = "classes" if first is True else True
    with pytest.raises(ReleaseRefusedError, match="one_description"):
        up.describe(federation.select(["chol"]), per_silo=second, quartiles=False)
    up.describe(federation.select(["chol"]), per_silo=first, quartiles=False)


def test_a_silo_describes_its_rows_by_one_label():
    """Over all studies, whatever their columns are."""

    def setting(describes, label):
        return one_setting._of_own_table("version", describes, label)

    kind = setting("classes", "kind")
    assert not kind.conflicts(setting("classes", "kind"))
    assert kind.conflicts(setting("classes", "other"))
    assert kind.conflicts(setting("all rows", "kind"))
    assert not setting("all rows", "kind").conflicts(setting("all rows", None))


@pytest.mark.slow
def test_nothing_is_shown_where_a_silo_has_few_rows_of_a_class():
    frame = made()
    few = frame.kind.iloc[:150] == "worse"
    frame.loc[few[few].index[4:], "kind"] = "well"
    federation, _ = silos(frame)
    with pytest.raises(DataError, match="few rows of a class"):
        described(federation)
    # So it is where two silos have a class: each would have the other's counts.
    frame = made()
    frame.loc[frame.index[:300], "kind"] = np.where(np.arange(300) % 2, "ill", "well")
    federation, _ = silos(frame)
    with pytest.raises(DataError, match="only two silos have one"):
        described(federation)
    # No description by class was given: one over all rows still is.
    up.describe(federation, per_silo=True, quartiles=False)


def without(x, rows):
    """Values that some people lack."""
    return np.where(np.isin(np.arange(len(x)), rows), np.nan, x)


def thirds(x):
    """Three values, of which every class has many."""
    return np.arange(len(x)) % 3 + 0.5


@pytest.mark.slow
@pytest.mark.parametrize(
    ("column", "shown"),
    [
        (lambda x, rows: x, True),
        # Four people of a class of a silo lack the column; of five nothing follows.
        (lambda x, rows: without(x, rows[:4]), False),
        (lambda x, rows: without(x, rows[:5]), True),
        # Nine values behind a mean, and ten.
        (lambda x, rows: without(x, rows[9:]), False),
        (lambda x, rows: without(x, rows[10:]), True),
        # A flag of three people; three values, and a fourth of three people.
        (lambda x, rows: np.isin(np.arange(len(x)), rows[:3]) * 1.0, False),
        (lambda x, rows: thirds(x), True),
        (lambda x, rows: np.nan_to_num(without(thirds(x), rows[:3]), nan=9.5), False),
    ],
)
def test_a_column_is_shown_by_all_silos_or_by_none(column, shown):
    frame = made()[["age", "kind"]]
    rows = np.flatnonzero((frame.kind == "well") & (frame.index < 150))
    frame["made"] = column(np.random.default_rng(1).integers(0, 50, 600) + 0.5, rows)
    federation, _ = silos(frame, categorical=[])
    found = up.describe(federation, per_silo="classes", quartiles=False)
    j = found.columns_.index("made")
    for name in ("class_std", "class_mean", "class_n_missing", "mean", "n"):
        values = getattr(found, f"silo_{name}_")[..., j]
        assert np.isfinite(values).all() == shown
        assert np.isnan(values).all() == (not shown)
    assert np.isfinite(found.silo_class_std_[:, :, found.columns_.index("age")]).all()


def test_a_silo_shows_no_small_count_whatever_the_others_found():
    kept = {
        "class_rows": np.array([40.0, 30.0]), "class_flags": np.array([1.0, 0.0]),
        "class_lines": np.array([[[38.0, 2.0, 40.0, 0.0]] * 2] * 2),
        "class_total": np.ones((2, 2)), "class_squares": np.ones((2, 2)),
    }  # fmt: skip
    shown = by_silo_and_class.own_class_table.function(
        kept, small=np.zeros(2), held=np.ones((3, 2)), categorical=np.array([0]),
        frequent=np.array([[0, -1]]), n_categories=2, n_classes=2,
    )  # fmt: skip
    assert (shown["shown_cells"] == -1.0).all()
    assert (shown["missing"][:, 0] == -1.0).all()
    assert (shown["variance"][:, 0] == -1.0).all()


# --- What follows from everything that is printed -----------------------------------

LEAST = 3


def drawn(rng, c, m, v):
    """Counts of a column by class, silo and category; no small size of a class."""
    while True:
        counts = rng.integers(0, 9, (c, m, v))
        counts[rng.random((c, m, v)) < 0.2] = 0
        counts[rng.random((c, m)) < 0.1] = 0
        sizes = counts.sum(axis=2)
        held = (sizes > 0).sum(axis=1)
        if not ((sizes > 0) & (sizes < LEAST)).any() and (held != 2).all():
            if held.all():
                return counts


def known_of_all(counts):
    """Return masks and sums of what the table of all silos, by class, shows."""
    c, _, v = counts.shape
    groups, lines = withheld(1.0 * counts.sum(axis=1).T, LEAST)
    for k, line in itertools.product(range(c), range(v)):
        if not groups[k]:
            yield np.s_[k, :, line]
    for line in np.flatnonzero(~lines):
        yield np.s_[:, :, line]


def bounds(counts, place, known):
    """Return the least and the largest count that a cell may have: whole numbers."""
    A: np.ndarray = np.zeros((len(known), *counts.shape))
    for i, cells in enumerate(known):
        A[i][cells] = 1.0
    b = np.array([counts[cells].sum() for cells in known], dtype=float)
    cost: np.ndarray = np.zeros(counts.shape)
    cost[place] = 1.0
    limits = []
    for sign in (1.0, -1.0):
        found = scipy.optimize.milp(
            sign * cost.ravel(),
            constraints=scipy.optimize.LinearConstraint(A.reshape(len(A), -1), b, b),
            integrality=np.ones(counts.size),
        )
        assert found.success
        limits.append(round(sign * found.fun))
    return limits


def small_cells(counts):
    return [tuple(place) for place in np.argwhere((counts > 0) & (counts < LEAST))]


def sizes_by_silo(counts):
    c, m, _ = counts.shape
    return [np.s_[k, i, :] for k in range(c) for i in range(m)]


@pytest.mark.slow
@pytest.mark.parametrize("c", [2, 3])
@pytest.mark.parametrize("m", [3, 4])
def test_no_small_count_follows_from_sizes_of_classes_and_the_table_of_all(c, m):
    rng = np.random.default_rng([c, m])
    n_small = 0
    for _ in range(12):
        counts = drawn(rng, c, m, 3)
        known = [*known_of_all(counts), *sizes_by_silo(counts)]
        for place in small_cells(counts)[:4]:
            n_small += 1
            low, high = bounds(counts, place, known)
            assert high >= LEAST
            assert low < high
            # Nor does a silo that knows its own counts find another's.
            for insider in set(range(m)) - {place[1]}:
                own = [(k, insider, x) for k in range(c) for x in range(3)]
                low, high = bounds(counts, place, [*known, *own])
                assert low < high
    assert n_small > 20


def test_with_counts_by_silo_small_counts_would_follow():
    """The control: the third margin, which a silo describes its rows by or not."""
    rng = np.random.default_rng(0)
    n_found = n_small = 0
    for _ in range(12):
        counts = drawn(rng, 2, 3, 2)
        known = [*known_of_all(counts), *sizes_by_silo(counts)]
        by_silo = [np.s_[:, i, x] for i in range(3) for x in range(2)]
        for place in small_cells(counts):
            n_small += 1
            low, high = bounds(counts, place, [*known, *by_silo])
            n_found += high < LEAST or low == high
    assert n_found > n_small / 4
