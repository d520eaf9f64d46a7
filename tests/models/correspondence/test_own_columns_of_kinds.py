"""MCA and FAMD of silos with other columns: those of the joined columns."""

import csv

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import unpooled as up
from line_fields import fields
from unpooled.errors import DataError, ReleaseRefusedError
from unpooled.testing import check_estimator

ATOL = 1e-9
CODED = ["site", "stage", "mood"]
RULES = {"allow_row_level": True}
SHOWS = {**RULES, "allow_disclosed": True}
PARTS = {"clinic": ["age", "site"], "lab": ["stage", "chol"], "home": ["mood"]}


def made(n=240):
    rng = np.random.default_rng(12)
    site = rng.choice(list("nsew"), n, p=[0.4, 0.3, 0.2, 0.1])
    stage = np.where(rng.random(n) < 0.6, np.where(site == "n", "1", "2"), "3")
    mood = np.where(rng.random(n) < 0.5, np.where(stage == "1", "good", "bad"), "fair")
    age = rng.normal(50, 9, n) + 8 * (site == "n")
    chol = 3 * age + rng.normal(0, 30, n)
    table = {"age": age, "chol": chol, "site": site, "stage": stage, "mood": mood}
    return pd.DataFrame(table)


ROWS = made()


def by_columns(columns=tuple(ROWS), rows=ROWS, **options):
    tables = {s: rows[[c for c in own if c in columns]] for s, own in PARTS.items()}
    coded = [c for c in CODED if c in columns]
    options = {"policy": SHOWS, **options}
    return up.simulate(tables, partition="columns", categorical=coded, **options)


def by_rows(columns=tuple(ROWS)):
    tables = {f"s{i}": ROWS[list(columns)].iloc[i::3] for i in range(3)}
    coded = [c for c in CODED if c in columns]
    return up.simulate(tables, categorical=coded, policy=up.Policy.open())


def renamed(names):
    """The names that others know: site_1 for the first of the names in their order."""
    found, number = [], {}
    for name in names:
        column, _, value = name.partition("_")
        if value:
            number[column] = number.get(column, 0) + 1
            name = f"{column}_{number[column]}"
        found.append(name)
    return found


def assert_same(ours, theirs, names, order):
    """As on rows, but for the sign of each component and the order of columns."""
    for name in ("eigenvalues_", "explained_inertia_ratio_", "total_inertia_"):
        assert_allclose(getattr(ours, name), getattr(theirs, name), atol=ATOL)
    assert ours.n_samples_ == theirs.n_samples_
    place = [renamed(order).index(name) for name in names]
    assert_allclose(ours.contributions_, theirs.contributions_[place], atol=ATOL)
    return place


@pytest.mark.slow
@pytest.mark.parametrize("follow", [False, True])
def test_famd_is_that_of_rows(follow, prince):
    federation = by_columns(follow=follow)
    ours, theirs = up.FAMD(3).fit(federation), up.FAMD(3).fit(by_rows())
    place = assert_same(ours, theirs, ours.variables_, theirs.variables_)
    assert ours.n_numeric_ == 2
    scores = ours.transform(federation)
    wanted = theirs.transform(ROWS)
    sign = np.sign(np.sum(scores * wanted, axis=0))
    assert_allclose(scores * sign, wanted, atol=ATOL)
    both = np.vstack([theirs.correlations_, theirs.category_coordinates_])[place]
    assert_allclose(ours.correlations_ * sign, both[:2], atol=ATOL)
    assert_allclose(ours.category_coordinates_ * sign, both[2:], atol=ATOL)
    assert_allclose(ours.cos2_, theirs.cos2_[place], atol=ATOL)
    # All of its components together show a category, and a number, whole.
    every = up.FAMD(len(ours.variables_) - len(CODED)).fit(federation)
    assert_allclose(every.cos2_.sum(axis=1), 1.0, atol=ATOL)
    twin = prince.FAMD(n_components=3, engine="scipy").fit(ROWS)
    assert_allclose(ours.eigenvalues_, twin.eigenvalues_, atol=ATOL)


@pytest.mark.slow
def test_mca_is_that_of_rows(prince):
    federation = by_columns(CODED)
    ours, theirs = up.MCA(3).fit(federation), up.MCA(3).fit(by_rows(CODED))
    place = assert_same(ours, theirs, ours.indicators_, theirs.indicators_)
    for name in ("benzecri_eigenvalues_", "benzecri_ratio_", "greenacre_ratio_"):
        assert_allclose(getattr(ours, name), getattr(theirs, name), atol=ATOL)
    scores, wanted = ours.transform(federation), theirs.transform(ROWS[CODED])
    sign = np.sign(np.sum(scores * wanted, axis=0))
    assert_allclose(scores * sign, wanted, atol=ATOL)
    found = ours.category_coordinates_ * sign
    assert_allclose(found, theirs.category_coordinates_[place], atol=ATOL)
    assert_allclose(ours.cos2_, theirs.cos2_[place], atol=ATOL)
    twin = prince.MCA(n_components=3, engine="scipy").fit(ROWS[CODED])
    assert_allclose(ours.eigenvalues_, twin.eigenvalues_, atol=ATOL)


@pytest.mark.slow
def test_new_people_have_coordinates(prince):
    ours = up.FAMD(2).fit(by_columns())
    theirs = up.FAMD(2).fit(by_rows())
    new = ROWS.iloc[5:40]
    wanted = theirs.transform(new)
    found = ours.transform(by_columns(rows=new))
    sign = np.sign(np.sum(found * wanted, axis=0))
    assert_allclose(found * sign, wanted, atol=ATOL)


@pytest.mark.slow
def test_released_is_how_many_columns_there_are_and_a_gram_matrix():
    federation = by_columns(policy=RULES)
    model = up.FAMD(2).fit(federation)
    out = fields(federation.ledger, "step name shape visibility", direction="out")
    N = len(ROWS)
    assert sorted(set(out)) == [
        ("famd.shown_made", "made", (1,), "disclosed"),
        ("famd.shown_made", "made", (2,), "disclosed"),
        ("famd.weighted_gram", "gram", (N, N), "summed"),
    ]
    assert "inertia" in model.summary().tables
    with pytest.raises(ReleaseRefusedError, match="allow_disclosed"):
        _ = model.category_coordinates_
    with pytest.raises(ReleaseRefusedError, match="allow_row_level"):
        up.FAMD(2).fit(by_columns(policy={"allow_disclosed": True}))


@pytest.mark.slow
def test_what_does_not_go_is_named():
    with pytest.raises(DataError, match="FAMD takes both kinds"):
        up.MCA().fit(by_columns())
    with pytest.raises(DataError, match="MCA takes categories"):
        up.FAMD().fit(by_columns(CODED))
    with pytest.raises(DataError, match='missing="category"'):
        up.FAMD(missing="refuse").fit(by_columns())
    with pytest.raises(DataError, match="same value in all rows"):
        up.FAMD().fit(by_columns(rows=ROWS.assign(age=1.0)))
    with pytest.raises(DataError, match=r"missing|NaN"):
        up.FAMD().fit(by_columns(rows=ROWS.assign(age=np.nan)))


@pytest.mark.slow
@pytest.mark.parametrize("disclose", [False, True])
def test_from_a_study_file_to_each_silos_own_results(disclose, tmp_path):
    text = '[study]\nname = "mixed"\npartition = "columns"\naligned = true\n'
    text += f"categorical = {CODED}\n[policy]\nallow_row_level = true\n"
    text += 'allow_disclosed = true\n[[steps]]\nmodel = "FAMD"\n'
    text += 'disclose = ["category_coordinates_"]\n' if disclose else ""
    for name, own in PARTS.items():
        ROWS[own].to_csv(tmp_path / f"{name}.csv", index=False)
        text += f'[parties.{name}]\nsource = "{name}.csv"\n'
    (tmp_path / "study.toml").write_text(text)
    run = up.Study.from_file(tmp_path / "study.toml").run()
    assert ("category_coordinates_" in vars(run.models["famd"])) == disclose
    folder = tmp_path / "runs" / "mixed" / "silos" / "clinic"
    (path,) = folder.rglob("famd_coordinates.csv")
    rows = list(csv.reader(path.read_text("utf-8").splitlines()))[1:]
    assert [row[0] for row in rows] == ["age", "site_1", "site_2", "site_3", "site_4"]
    theirs = up.FAMD(2).fit(by_rows())
    wanted = np.abs(theirs.correlations_[0])
    assert_allclose(np.abs(np.array(rows[0][1:], float)), wanted, atol=ATOL)


NUMBERS = ROWS.assign(**{c: pd.factorize(ROWS[c])[0] for c in CODED})


@pytest.mark.slow
@pytest.mark.parametrize(
    "check",
    [
        *check_estimator(
            up.FAMD(),
            NUMBERS[["age", "site", "stage"]].to_numpy(float),
            partition="columns",
            categorical=["x1", "x2"],
            generate_only=True,
        ),
        *check_estimator(
            up.MCA(),
            NUMBERS[CODED].to_numpy(float),
            partition="columns",
            categorical=["x0", "x1", "x2"],
            generate_only=True,
        ),
    ],
    ids=repr,
)
def test_convention(check):
    check()
