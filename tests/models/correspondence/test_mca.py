"""MCA is that of the pooled indicators: prince's, and a decomposition by hand."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import unpooled as up
from line_fields import fields
from unpooled.errors import DataError
from unpooled.testing import check_estimator

OPEN = up.Policy.open()
# Secure sums keep twelve digits of the scatter, whose eigenvalues are 1e-2 apart.
ATOL = 1e-9
COLUMNS = ["site", "stage", "mood"]


def rows(n=240):
    rng = np.random.default_rng(11)
    site = rng.choice(list("nsew"), n, p=[0.4, 0.3, 0.2, 0.1])
    stage = np.where(rng.random(n) < 0.6, np.where(site == "n", "1", "2"), "3")
    mood = np.where(rng.random(n) < 0.5, np.where(stage == "1", "good", "bad"), "fair")
    return pd.DataFrame({"site": site, "stage": stage, "mood": mood})


ROWS = rows()
NUMBERS = ROWS.apply(lambda column: pd.factorize(column)[0]).to_numpy(float)
SPLITS = {"balanced": [80, 160], "skewed": [3, 200], "one row": [1, 120]}


def by_hand(X, y=None):
    """Singular values of the standardised table of indicators."""
    Z = pd.get_dummies(pd.DataFrame(X).astype(int).astype(str)).to_numpy(float)
    Q, p = X.shape[1], Z.mean(axis=0)
    values = np.linalg.svd((Z - p) / np.sqrt(Q * p * len(Z)), compute_uv=False)
    return {
        "eigenvalues_": values[:2] ** 2,
        "explained_inertia_ratio_": values[:2] ** 2 / np.sum(values**2),
        "total_inertia_": np.sum(values**2),
        "proportions_": p,
        "n_samples_": len(Z),
    }


@pytest.mark.parametrize(
    "check",
    check_estimator(
        up.MCA(min_frequency=1),
        NUMBERS,
        pooled=by_hand,
        categorical=["x0", "x1", "x2"],
        generate_only=True,
    ),
    ids=repr,
)
def test_convention(check):
    check()


def silos(split, **options):
    parts = np.split(np.arange(len(ROWS)), SPLITS[split])
    frames = {f"s{i}": ROWS.iloc[own] for i, own in enumerate(parts)}
    return up.simulate(frames, categorical=COLUMNS, **options)


@pytest.fixture(scope="module")
def model():
    return up.MCA(3).fit(silos("balanced"))


def same_up_to_signs(found, wanted, atol=ATOL):
    found, wanted = np.asarray(found), np.asarray(wanted)
    assert_allclose(found * np.sign(np.sum(found * wanted, axis=0)), wanted, atol=atol)


@pytest.mark.slow
def test_equal_to_prince(model, prince):
    twin = prince.MCA(n_components=3, engine="scipy").fit(ROWS)
    assert_allclose(model.eigenvalues_, twin.eigenvalues_, atol=ATOL)
    G = twin.column_coordinates(ROWS)
    G.index = [name.replace("__", "_") for name in G.index]
    G = G.loc[list(model.indicators_)]
    same_up_to_signs(model.category_coordinates_, G)
    same_up_to_signs(model.transform(ROWS), twin.row_coordinates(ROWS))
    contributions = twin.column_contributions_
    contributions.index = [name.replace("__", "_") for name in contributions.index]
    wanted = contributions.loc[list(model.indicators_)]
    assert_allclose(model.contributions_, wanted, atol=ATOL)
    cos2 = twin.column_cosine_similarities(ROWS)
    cos2.index = [name.replace("__", "_") for name in cos2.index]
    assert_allclose(model.cos2_, cos2.loc[list(model.indicators_)], atol=ATOL)


@pytest.mark.slow
@pytest.mark.parametrize("correction", ["benzecri", "greenacre"])
def test_corrections_are_those_of_prince(model, prince, correction):
    twin = prince.MCA(n_components=3, engine="scipy", correction=correction).fit(ROWS)
    ratio = getattr(model, f"{correction}_ratio_")
    assert_allclose(ratio, twin.percentage_of_variance_ / 100, atol=ATOL)
    if correction == "benzecri":
        assert_allclose(model.benzecri_eigenvalues_, twin.eigenvalues_, atol=ATOL)


def test_categories_are_barycentres_of_their_rows(model):
    scores = model.transform(ROWS)
    for place, name in enumerate(model.indicators_):
        column, _, value = name.partition("_")
        mean = scores[ROWS[column] == value].mean(axis=0)
        wanted = mean / np.sqrt(model.eigenvalues_)
        assert_allclose(model.category_coordinates_[place], wanted, atol=ATOL)
    assert_allclose(scores.var(axis=0), model.eigenvalues_, atol=ATOL)


@pytest.mark.thinned(1)
@pytest.mark.parametrize("sums", ["masked", "plain"])
@pytest.mark.parametrize("split", SPLITS)
def test_any_split(model, split, sums):
    other = up.MCA(3).fit(silos(split, policy=OPEN, secure_sum=sums))
    assert_allclose(other.category_coordinates_, model.category_coordinates_, atol=ATOL)


@pytest.mark.slow
def test_a_view_of_scores_is_followed():
    here = silos("balanced", follow=True)
    model = up.MCA(2).fit(here)
    view = model.transform(here)
    assert view.feature_names == ("mca0", "mca1")
    variance = up.StandardScaler().fit(view).var_
    assert_allclose(variance, model.eigenvalues_, atol=ATOL)


@pytest.mark.slow
def test_missing_cells_are_a_category_or_refused():
    frames = {f"s{i}": ROWS.iloc[i::3].copy() for i in range(3)}
    frames["s0"].iloc[:8, 0] = None
    here = up.simulate(frames, categorical=COLUMNS)
    assert "site_nan" in up.MCA().fit(here).indicators_
    with pytest.raises(DataError, match="Cells are missing in 'site'"):
        up.MCA(missing="refuse").fit(here)


def test_released_are_counts_of_pairs():
    here = silos("balanced")
    up.MCA().fit(here)
    lines = fields(here.ledger, "step name shape", direction="out", visibility="summed")
    assert lines == [
        ("mca.local_categories", "names", (3, 24, 43)),
        ("mca.local_total", "count", ()),
        ("mca.local_total", "total", (10,)),
        ("mca.local_squares", "squares", (10,)),
        ("mca.local_scatter", "scatter", (10, 10)),
    ]


@pytest.mark.thinned(1)
@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"n_components": 8}, "from 1 to 7"),
        ({"n_components": 0.5}, "n_components=0.5"),
        ({"missing": "drop"}, "missing='drop'"),
    ],
)
def test_parameters_are_checked(how, message):
    with pytest.raises(DataError, match=message):
        up.MCA(**how).fit(silos("balanced"))


def test_numbers_are_refused():
    frames = {f"s{i}": ROWS.iloc[i::3].assign(age=1.0) for i in range(3)}
    with pytest.raises(DataError, match="'age' hold numbers"):
        up.MCA().fit(up.simulate(frames, categorical=COLUMNS))


def test_results(model):
    tables = model.summary().tables
    assert_array_equal(
        [row[0] for row in tables["category_coordinates"].rows], model.indicators_
    )
