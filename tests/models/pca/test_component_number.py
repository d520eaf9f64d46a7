"""Numbers of components by rules, as other libraries and simulations have them."""

import numpy as np
import pytest
import sklearn.decomposition
from factor_analyzer.factor_analyzer import calculate_bartlett_sphericity, calculate_kmo
from numpy.testing import assert_allclose

from federations import open_silos
from unpooled import PCA, plan
from unpooled.errors import DataError

N, P = 400, 8


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(6)
    factors = rng.standard_normal((N, 2)) @ rng.standard_normal((2, P))
    return (factors + rng.standard_normal((N, P))) * np.linspace(1.0, 3.0, P)


@pytest.mark.parametrize("m", [2, 5])
def test_rules_equal_those_of_other_libraries(rows, m):
    pca = PCA("mle").fit(open_silos(rows, m))

    assert pca.n_components_ == sklearn.decomposition.PCA("mle").fit(rows).n_components_
    assert_allclose(pca.kmo_, calculate_kmo(rows)[1])
    chi_squared, p = calculate_bartlett_sphericity(rows)
    assert_allclose(pca.bartlett_, (chi_squared, P * (P - 1) / 2, p), rtol=1e-7)
    values = np.linalg.eigvalsh(np.corrcoef(rows.T))
    assert pca.component_numbers_["kaiser"] == (values > 1.0).sum()


@pytest.mark.slow
def test_two_factors_are_found_by_parallel_analysis_and_partial_correlations(rows):
    for rule in ("parallel", "map"):
        assert PCA(rule, random_state=0).fit(open_silos(rows)).n_components_ == 2


def test_the_reference_is_that_of_uncorrelated_rows(rows):
    rng = np.random.default_rng(0)
    drawn = [
        np.linalg.eigvalsh(np.corrcoef(rng.standard_normal((N, P)).T))[::-1]
        for _ in range(400)
    ]

    pca = PCA("parallel", random_state=0).fit(open_silos(rows))

    # Quantiles of 200 and 400 draws, of eigenvalues that vary by about 0.04.
    wanted = np.quantile(drawn, 0.95, axis=0)
    assert_allclose(pca.parallel_reference_, wanted, atol=0.03)


def test_partial_correlations_are_averaged_as_velicer_does(rows):
    R = np.corrcoef(rows.T)
    values, V = np.linalg.eigh(R)
    means = []
    for m in range(P - 1):
        kept = V[:, P - m :]
        rest = R - kept * values[P - m :] @ kept.T
        r = rest / np.sqrt(np.outer(rest.diagonal(), rest.diagonal()))
        means.append(np.mean(r[~np.eye(P, dtype=bool)] ** 2))

    pca = PCA("map").fit(open_silos(rows))

    assert pca.component_numbers_["map"] == np.argmin(means)


@pytest.mark.slow
def test_nothing_more_leaves_than_for_a_number(rows):
    federation = open_silos(rows)
    by_rule, by_number = (plan(PCA(k), federation) for k in ("map", 2))
    assert by_rule.rounds == by_number.rounds == 3

    text = str(PCA("map").fit(federation).summary())

    assert "Number of components" in text
    assert "minimum average partial (Velicer)" in text


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"n_components": "scree"}, "must be None, a share"),
        ({"n_components": "map", "bits": 8}, "exact scatter"),
        ({"n_components": "mle", "svd_solver": "krylov"}, "exact scatter"),
    ],
)
def test_refused(rows, options, sentence):
    with pytest.raises(DataError, match=sentence):
        PCA(**options).fit(open_silos(rows))


def test_too_few_rows_are_refused(rows):
    with pytest.raises(DataError, match="more rows than columns"):
        PCA("parallel").fit(open_silos(rows[:8]))
