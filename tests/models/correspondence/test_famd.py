"""FAMD is that of the pooled rows: prince's, and a decomposition by hand."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import unpooled as up
from unpooled.errors import DataError
from unpooled.testing import check_estimator

OPEN = up.Policy.open()
# Secure sums keep twelve digits of the scatter, whose eigenvalues are 1e-2 apart.
ATOL = 1e-9
CODED = ["site", "stage"]


def rows(n=240):
    rng = np.random.default_rng(12)
    site = rng.choice(list("nsew"), n, p=[0.4, 0.3, 0.2, 0.1])
    stage = np.where(rng.random(n) < 0.6, np.where(site == "n", "1", "2"), "3")
    age = rng.normal(50, 9, n) + 8 * (site == "n")
    chol = 3 * age + rng.normal(0, 30, n)
    return pd.DataFrame({"age": age, "chol": chol, "site": site, "stage": stage})


ROWS = rows()
NUMBERS = ROWS.assign(**{c: pd.factorize(ROWS[c])[0] for c in CODED}).to_numpy(float)


def by_hand(X, y=None):
    """Singular values of the weighted columns and indicators."""
    Z = pd.get_dummies(pd.DataFrame(X[:, 2:]).astype(int).astype(str)).to_numpy(float)
    p, numbers = Z.mean(axis=0), X[:, :2]
    weighted = (numbers - numbers.mean(axis=0)) / numbers.std(axis=0)
    weighted = np.hstack([weighted, (Z - p) / np.sqrt(p)]) / np.sqrt(len(X))
    values = np.linalg.svd(weighted, compute_uv=False) ** 2
    return {
        "eigenvalues_": values[:2],
        "explained_inertia_ratio_": values[:2] / values.sum(),
        "total_inertia_": values.sum(),
        "mean_": np.append(numbers.mean(axis=0), p),
    }


@pytest.mark.parametrize(
    "check",
    check_estimator(
        up.FAMD(min_frequency=1),
        NUMBERS,
        pooled=by_hand,
        categorical=["x2", "x3"],
        generate_only=True,
    ),
    ids=repr,
)
def test_convention(check):
    check()


def silos(cuts=(80, 160), **options):
    parts = np.split(np.arange(len(ROWS)), cuts)
    frames = {f"s{i}": ROWS.iloc[own] for i, own in enumerate(parts)}
    return up.simulate(frames, categorical=CODED, **options)


@pytest.fixture(scope="module")
def model():
    return up.FAMD(3).fit(silos())


@pytest.mark.slow
def test_equal_to_prince(model, prince):
    twin = prince.FAMD(n_components=3, engine="scipy").fit(ROWS)
    assert_allclose(model.eigenvalues_, twin.eigenvalues_, atol=ATOL)
    found, wanted = model.transform(ROWS), twin.row_coordinates(ROWS).to_numpy()
    assert_allclose(np.abs(found), np.abs(wanted), atol=1e-8)


def test_measures_are_those_of_the_rows(model):
    scores = model.transform(ROWS)
    assert_allclose(scores.var(axis=0), model.eigenvalues_, atol=ATOL)
    for j, name in enumerate(["age", "chol"]):
        r = [np.corrcoef(ROWS[name], score)[0, 1] for score in scores.T]
        assert_allclose(model.correlations_[j], r, atol=ATOL)
    for place, name in enumerate(model.variables_[2:]):
        column, _, value = name.partition("_")
        mean = scores[ROWS[column] == value].mean(axis=0)
        assert_allclose(model.category_coordinates_[place], mean, atol=ATOL)
    assert_allclose(model.contributions_.sum(axis=0), 1.0, atol=ATOL)


def test_cosines_of_all_components_add_up():
    every = up.FAMD(2 + 4 + 3 - 2).fit(silos())
    assert_allclose(every.cos2_.sum(axis=1), 1.0, atol=ATOL)
    assert_allclose(every.eigenvalues_.sum(), every.total_inertia_, atol=ATOL)


@pytest.mark.thinned(1)
@pytest.mark.parametrize("sums", ["masked", "plain"])
@pytest.mark.parametrize("cuts", [(3, 200), (1, 120), (60, 120, 180)])
def test_any_split(model, cuts, sums):
    other = up.FAMD(3).fit(silos(cuts, policy=OPEN, secure_sum=sums))
    assert_allclose(other.contributions_, model.contributions_, atol=ATOL)


@pytest.mark.slow
def test_a_view_of_scores_is_followed():
    here = silos(follow=True)
    model = up.FAMD(2).fit(here)
    fit = up.PCA(2).fit(model.transform(here))
    N = model.n_samples_
    assert_allclose(
        fit.explained_variance_ * (N - 1) / N, model.eigenvalues_, atol=ATOL
    )


@pytest.mark.parametrize(
    ("columns", "message"), [(["age", "chol"], "use PCA"), (CODED, "use MCA")]
)
def test_one_kind_alone_is_refused(columns, message):
    with pytest.raises(DataError, match=message):
        up.FAMD().fit(silos().select(columns))


def test_missing_and_constant_numbers_are_refused():
    frames = {f"s{i}": ROWS.iloc[i::3].assign(age=1.0) for i in range(3)}
    with pytest.raises(DataError, match="'age' never varies"):
        up.FAMD().fit(up.simulate(frames, categorical=CODED, policy=OPEN))
    frames["s0"] = frames["s0"].assign(age=np.nan)
    with pytest.raises(Exception, match="missing"):
        up.FAMD().fit(up.simulate(frames, categorical=CODED))


@pytest.mark.slow
def test_results_draw_numbers_in_a_circle_and_name_missing_cells():
    frames = {s: ROWS.iloc[i::3].copy() for i, s in enumerate("abc")}
    for frame in frames.values():
        frame.iloc[:6, 2] = None
    exhibits = up.FAMD(2).fit(up.simulate(frames, categorical=CODED)).summary().exhibits
    pictures = [one.picture.name for one in exhibits if one.picture]
    assert pictures == ["correlation_circle", "category_map"]
    assert "“nan” stands for missing cells" in exhibits[2].text
    # One component has no plane.
    exhibits = up.FAMD(1).fit(silos()).summary().exhibits
    assert not any(one.picture for one in exhibits)
