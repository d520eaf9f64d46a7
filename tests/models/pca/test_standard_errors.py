"""Standard errors of components: equal to derivatives, and to what resampling shows."""

from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import norm
from sklearn.pipeline import make_pipeline

from federations import open_silos
from line_fields import fields
from unpooled import PCA, LoadingsDisplay, ScreeDisplay, StandardScaler, plan, simulate
from unpooled.errors import DataError
from unpooled.models.pca.standard_errors import NORMAL_95, half_intervals

N, P, K = 180, 6, 3


def skewed_rows(n):
    """Return rows of two factors and noise, which are not normal."""
    rng = np.random.default_rng(3)
    factors = rng.standard_t(12, size=(n, 2))
    noise = rng.exponential(size=(n, P)) * [0.5, 0.6, 0.4, 0.5, 0.4, 0.9]
    X = factors @ [[2.0, 1.8, -1.6, 0.3, 0.2, 0.0], [0.3, -0.2, 0.2, 1.2, 1.1, 0.1]]
    # Columns in other units: loadings then differ by orders of magnitude.
    return (X + noise) * [1.0, 1.5, 0.8, 1.0, 0.3, 0.9] + 5.0


@pytest.fixture(scope="module")
def rows():
    return skewed_rows(N)


def weighted(X, weights, *, standardised):
    C = np.cov(X.T, aweights=weights, ddof=0)
    if standardised:
        C /= np.sqrt(np.outer(C.diagonal(), C.diagonal()))
    values, vectors = np.linalg.eigh(C)
    return values[::-1], vectors[:, ::-1].T


def by_derivatives(X, *, standardised):
    """Return standard errors from numerical derivatives by each row's weight."""
    step = 1e-5
    _, axes = weighted(X, np.ones(N), standardised=standardised)
    of_values, of_axes = [], []
    for i in range(N):
        ends = []
        for sign in (1, -1):
            weights = np.ones(N)
            weights[i] += sign * step
            found, turned = weighted(X, weights, standardised=standardised)
            ends.append((found, turned * np.sign((turned * axes).sum(1))[:, None]))
        # The derivative by one of N weights is the influence divided by N.
        of_values.append((ends[0][0] - ends[1][0]) / (2 * step))
        of_axes.append((ends[0][1] - ends[1][1]) / (2 * step))
    se = np.sqrt(np.sum(np.square(of_values), axis=0))
    return se[:K], np.sqrt(np.sum(np.square(of_axes), axis=0))[:K]


def fitted(rows, standardised, errors: bool | str = True, **options):
    pca = PCA(K, standard_errors=errors)
    model = make_pipeline(StandardScaler(), pca) if standardised else pca
    model.fit(open_silos(rows, **options))
    return pca


@pytest.mark.thinned(1)
@pytest.mark.parametrize("standardised", [False, True])
def test_equal_derivatives_of_the_pooled_decomposition(rows, standardised):
    of_values, of_axes = by_derivatives(rows, standardised=standardised)

    pca = fitted(rows, standardised)

    assert pca.subspaces_.tolist() == [[0, 0], [1, 1], [2, 2]]
    # The influence is about S with N - 1, whose derivative is taken with N: 1 / N. The
    # central difference is exact to about 1e-8 of the values.
    assert_allclose(pca.explained_variance_se_, of_values, rtol=2 / N, atol=1e-7)
    assert_allclose(pca.components_se_, of_axes, rtol=2 / N, atol=1e-7)
    assert_allclose(pca.angle_se_, np.sqrt((of_axes**2).sum(1)), rtol=2 / N)


@pytest.mark.thinned(1)
@pytest.mark.parametrize("standardised", [False, True])
def test_do_not_depend_on_the_split(rows, standardised):
    # Bound: sums in other orders, about 1e-13 of sums of squares.
    whole, halves = fitted(rows, standardised), fitted(rows, standardised, m=2)

    for name in ("explained_variance_se_", "components_se_", "angle_se_"):
        assert_allclose(getattr(whole, name), getattr(halves, name), rtol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("standardised", [False, True])
def test_many_columns_are_within_the_stated_bound(standardised, monkeypatch):
    rng = np.random.default_rng(5)
    axes = np.linalg.qr(rng.standard_normal((70, 70)))[0]
    scales = np.r_[12.0, 8.0, 5.5, np.linspace(1.2, 0.1, 67)]
    rows = rng.standard_normal((400, 70)) * scales @ axes

    quick = fitted(rows, standardised)
    monkeypatch.setattr("unpooled.models.pca.standard_errors.ALL_COLUMNS", 70)
    exact = fitted(rows, standardised)

    assert exact.components_se_bound_ == 0.0 < quick.components_se_bound_ < 0.05
    assert_allclose(
        quick.explained_variance_se_, exact.explained_variance_se_, rtol=1e-9
    )
    assert_allclose(quick.angle_se_, exact.angle_se_, rtol=quick.components_se_bound_)


@pytest.mark.slow
def test_normal_rows_have_the_errors_of_normal_theory():
    rng = np.random.default_rng(8)
    axes = np.linalg.qr(rng.standard_normal((5, 5)))[0]
    rows = rng.standard_normal((20_000, 5)) * [5.0, 3.0, 2.0, 1.2, 0.8] @ axes

    for standardised in (False, True):
        pca = fitted(rows, standardised)

        # A sum of squares of N influences with finite kurtosis: about 5 / sqrt(N).
        for name in ("explained_variance", "components"):
            ours, normal = (getattr(pca, f"{name}_se_{x}") for x in ("", "normal_"))
            assert_allclose(ours, normal, rtol=0.08)


@pytest.mark.slow
@pytest.mark.parametrize("standardised", [False, True])
def test_equal_what_resampling_shows(standardised):
    n, rows, rng = 2_000, skewed_rows(2_000), np.random.default_rng(0)
    axes = weighted(rows, np.ones(n), standardised=standardised)[1]
    draws = [
        weighted(rows, rng.multinomial(n, np.full(n, 1 / n)), standardised=standardised)
        for _ in range(2_000)
    ]
    turned = [V * np.sign((V * axes).sum(1))[:, None] for _, V in draws]

    pca = fitted(rows, standardised)

    # 2,000 draws give a standard deviation to 1.6 %, four times that of 21 numbers; the
    # rest is of higher order in 1 / sqrt(N).
    spread = np.std([v for v, _ in draws], axis=0)[:K]
    assert_allclose(pca.explained_variance_se_, spread, rtol=0.08)
    # A loading near 1 moves with the square of the angle, which no first order has.
    inner = np.abs(pca.components_) < 0.9
    loadings = np.std(turned, axis=0)[:K]
    assert_allclose(pca.components_se_[inner], loadings[inner], rtol=0.1)


def test_close_variances_do_not_determine_loadings():
    rng = np.random.default_rng(1)
    rows = rng.standard_normal((600, 5)) * [5.0, 2.0, 1.95, 0.5, 0.45]

    pca = fitted(rows, standardised=False)

    assert pca.subspaces_.tolist() == [[0, 0], [1, 2], [1, 2]]
    assert np.isnan(pca.components_se_[1:]).all()
    # Both lie near the plane that they share; their own angle would be about 1 / 20.
    assert (pca.angle_se_[1:] < 0.03).all()


@pytest.mark.slow
@pytest.mark.parametrize("standardised", [False, True])
def test_variances_alone_take_fewer_numbers(rows, standardised):
    few = fitted(rows, standardised, errors="variances")

    assert not hasattr(few, "components_se_")
    whole = fitted(rows, standardised)
    assert_allclose(few.explained_variance_se_, whole.explained_variance_se_)


def test_ledger_is_what_the_docstring_says(rows):
    federation = simulate({"a": rows[:60], "b": rows[60:120], "c": rows[120:]})
    assert plan(PCA(K, standard_errors=True), federation).rounds == 4

    PCA(K, standard_errors=True).fit(federation)

    opened = fields(federation.ledger, "step name shape", direction="out")
    assert opened[-2:] == [
        ("pca.local_influence", "variances", (K,)),
        ("pca.local_influence", "loadings", (K, P)),
    ]


@pytest.mark.slow
def test_an_update_and_a_refit_renew_them(rows):
    federation = open_silos(rows)
    pca = PCA(K, standard_errors=True).fit(federation)
    first = pca.components_se_

    pca.update(federation)
    assert_allclose(pca.components_se_, first, rtol=1e-8)
    pca.set_params(standard_errors=False).fit(federation)
    assert not hasattr(pca, "components_se_")


@pytest.mark.slow
def test_pictures_and_tables_have_intervals(rows):
    pca = fitted(rows, standardised=False)

    table = pca.summary().to_frame("variance_errors")
    assert_allclose(table["standard_error"], pca.explained_variance_se_)
    loadings = pca.summary().to_frame("loading_errors")
    assert_allclose(loadings["component_2"], pca.components_se_[1])
    drawn = LoadingsDisplay.from_estimator(pca).errors
    assert drawn is not None
    assert_allclose(drawn, pca.components_se_)
    assert ScreeDisplay.from_estimator(pca).errors is not None


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"standard_errors": "loadings"}, "choose True, False or"),
        ({"standard_errors": True, "bits": 8}, "exact scatter"),
        ({"standard_errors": True, "svd_solver": "krylov"}, "has no standard errors"),
    ],
)
def test_refused(rows, options, sentence):
    with pytest.raises(DataError, match=sentence):
        PCA(2, **options).fit(open_silos(rows))


def test_intervals_are_wider_where_components_rotate_easily():
    # In the population the columns are independent, with variances that differ by d.
    # In the sample their covariance is 1.96 standard errors, so that the angle between
    # the two is at the end of its interval.
    d, side = 0.3, 76
    scores = norm.ppf((np.arange(side) + 0.5) / side)
    base = np.array(list(product(scores / scores.std(), repeat=2)))
    angle_se = np.sqrt((1.0 + d) / len(base)) / d
    c = NORMAL_95 * angle_se * d
    turned = np.linalg.cholesky([[1.0 + d, c], [c, 1.0]]).T

    pca = PCA(1, standard_errors=True).fit(open_silos(base @ turned))

    angle = np.arctan(2.0 * c / d) / 2.0
    half = pca.components_ci_factor_[0] * pca.angle_se_[0]
    # What is left: (z ρ)^4 is 0.9e-4, terms of 1 / N are 2e-4, and the scores' fourth
    # moment, 2.8 in place of 3, takes 1.4e-3 off the error. The factor adds 6e-3.
    assert angle == pytest.approx(half, rel=3e-3)
    assert angle > NORMAL_95 * pca.angle_se_[0] * 1.005


def test_displays_and_tables_have_intervals_by_the_factor(rows):
    pca = fitted(rows, standardised=False)
    half = pca.components_ci_factor_[:, None] * pca.components_se_

    shown = LoadingsDisplay.from_estimator(pca, components=[0, 1])
    table = pca.summary().to_frame("variance_errors")

    assert np.all(pca.components_ci_factor_ > NORMAL_95)
    assert shown.factors is not None
    assert_allclose(shown.factors, pca.components_ci_factor_[:2])
    intervals = half_intervals(pca)
    assert intervals is not None
    assert_allclose(intervals, half)
    assert_allclose(table["factor"], pca.components_ci_factor_)
