"""FactorAnalysis on a federation: scikit-learn's maximum, found to its last digits."""

import numpy as np
import pandas as pd
import pytest
import sklearn.decomposition
from factor_analyzer import Rotator
from numpy.testing import assert_allclose
from sklearn.datasets import load_breast_cancer
from statsmodels.multivariate.factor import Factor

import unpooled as up
from unpooled.data.heart_disease import load
from unpooled.errors import DataError
from unpooled.linalg.rotation import rotation_of
from unpooled.testing import check_estimator

OPEN = up.Policy.open()
N, P = 300, 7


def made():
    rng = np.random.default_rng(4)
    L = rng.standard_normal((2, P))
    noise = rng.standard_normal((N, P)) * np.linspace(0.5, 1.5, P)
    return rng.standard_normal((N, 2)) @ L + noise + 3.0


X = made()
Z = (X - X.mean(axis=0)) / X.std(axis=0)


def fitted(rows, **parameters):
    return up.FactorAnalysis(**parameters).fit(
        up.simulate(up.partition_rows(rows, 3), policy=OPEN)
    )


@pytest.fixture(scope="module")
def two():
    return fitted(X, n_components=2)


@pytest.fixture(scope="module")
def theirs():
    return sklearn.decomposition.FactorAnalysis(
        2, tol=1e-12, max_iter=10**5, svd_method="lapack"
    ).fit(X)


@pytest.mark.parametrize("check", check_estimator(
    up.FactorAnalysis(2, rotation="promax"), X, generate_only=True
), ids=repr)  # fmt: skip
def test_convention(check):
    check()


def same_signs(ours, others):
    return others * np.sign(np.sum(ours * others, axis=1))[:, None]


def test_equals_the_pooled_twin(two, theirs):
    # scikit-learn's iteration stops 1e-5 before the maximum, in loadings.
    assert_allclose(
        two.components_, same_signs(two.components_, theirs.components_), atol=1e-4
    )
    assert_allclose(two.noise_variance_, theirs.noise_variance_, atol=1e-4)
    assert_allclose(two.mean_, theirs.mean_, rtol=1e-12)
    assert_allclose(two.get_covariance(), theirs.get_covariance(), atol=1e-4)
    new = np.random.default_rng(5).standard_normal((9, P))
    scores = theirs.transform(new) * np.sign(
        np.sum(two.components_ * theirs.components_, axis=1)
    )
    assert_allclose(two.transform(new), scores, atol=1e-4)
    # The log-likelihood is flat there, and ours is the larger one.
    theirs_of_all = theirs.score(X) * N
    assert 0 <= two.loglike_ - theirs_of_all < 1e-6


def test_maximum_satisfies_the_likelihood_equations(two):
    """Lawley and Maxwell: S Ψ⁻¹ Λ = Λ (I + Λᵀ Ψ⁻¹ Λ), and the diagonals of S and Σ."""
    S = np.cov(X.T, bias=True)
    L, psi = two.components_.T, two.noise_variance_
    left = S @ (L / psi[:, None])
    right = L @ (np.eye(2) + L.T @ (L / psi[:, None]))
    # The gradient at the maximum is below 1e-9, in units of standard deviations.
    assert_allclose(left, right, atol=1e-7)
    assert_allclose(np.diag(two.get_covariance()), np.diag(S), rtol=1e-8)


def test_chi_square_is_the_likelihood_ratio(two):
    sigma, S = two.get_covariance(), np.cov(X.T, bias=True)
    f = np.linalg.slogdet(sigma)[1] - np.linalg.slogdet(S)[1]
    f += np.trace(np.linalg.solve(sigma, S)) - P
    assert two.chi_square_["dof"] == 8
    wanted = (N - 1 - (2 * P + 5) / 6 - 4 / 3) * f
    assert_allclose(two.chi_square_["statistic"], wanted, rtol=1e-8)


def test_varimax_is_scikit_learns(theirs):
    ours = fitted(X, n_components=2, rotation="varimax")
    turned = sklearn.decomposition.FactorAnalysis(
        2, rotation="varimax", tol=1e-12, max_iter=10**5, svd_method="lapack"
    ).fit(X)
    # Their rotation stops once the criterion grows by less than 1e-6.
    assert_allclose(
        ours.components_, same_signs(ours.components_, turned.components_), atol=2e-3
    )
    assert_allclose(ours.noise_variance_, theirs.noise_variance_, atol=1e-4)


@pytest.mark.parametrize("method", ["varimax", "promax"])
@pytest.mark.parametrize("kaiser", [False, True])
def test_rotations_are_those_of_factor_analyzer(method, kaiser):
    L = fitted(Z, n_components=2).components_.T
    rotator = Rotator(method, normalize=kaiser, max_iter=5000, tol=1e-15)
    others = rotator.fit_transform(L)
    rotation = rotation_of(L, method, kaiser=kaiser)
    ours = L @ rotation.matrix
    signs = np.sign(np.sum(ours * others, axis=0))
    assert_allclose(ours, others * signs, atol=1e-7)
    if method == "promax":
        phi = rotator.phi_ * signs * signs[:, None]
        assert_allclose(rotation.correlations, phi, atol=1e-7)


def test_scores_of_correlated_factors_are_their_expectation():
    """E[f | x] = Φ Λᵀ Σ⁻¹ (x - μ), of normal factors with correlations Φ."""
    ours = fitted(Z, n_components=2, rotation="promax", kaiser=True)
    L, phi = ours.components_.T, ours.factor_correlation_
    wanted = (Z - ours.mean_) @ np.linalg.solve(ours.get_covariance(), L @ phi)
    assert_allclose(ours.transform(Z), wanted, atol=1e-10)
    assert abs(phi[0, 1]) > 0.01


def test_uniqueness_is_that_of_statsmodels():
    other = Factor(corr=np.corrcoef(X.T), n_factor=2, method="ml", nobs=N)
    found = other.fit(maxiter=500, opt={"gtol": 1e-6}).uniqueness
    # Its optimiser stops at a gradient of 1e-6.
    assert_allclose(fitted(Z, n_components=2).uniqueness_, found, atol=1e-4)


def test_heywood_cases_are_named():
    # One factor would have the loading sqrt(0.8 0.8 / 0.5) > 1 on a.
    R = np.array([[1, 0.8, 0.8], [0.8, 1, 0.5], [0.8, 0.5, 1]])
    white = np.linalg.qr(X[:, :3] - X[:, :3].mean(axis=0))[0] * np.sqrt(N)
    rows = pd.DataFrame(white @ np.linalg.cholesky(R).T, columns=list("abc"))

    ours = fitted(rows)

    assert ours.heywood_ == ["a"]
    assert_allclose(ours.uniqueness_[0], 0.005)
    assert "Heywood cases: a." in " ".join(str(ours.summary()).split())


@pytest.mark.slow
@pytest.mark.parametrize("follow", [False, True])
@pytest.mark.parametrize("k", [1, 2, 4])
def test_nearly_collinear_columns(k, follow):
    """30 columns with a condition number of 1e5, such as radius, perimeter and area."""
    Z = load_breast_cancer().data
    policy = up.Policy.open()
    federation = up.simulate(up.partition_rows(Z, 3), policy=policy, follow=follow)

    ours = up.FactorAnalysis(k).fit(federation)

    # The gradient in the uniquenesses, diag(Σ⁻¹ (Σ - R) Σ⁻¹) by Lawley and Maxwell,
    # vanishes where they are free, and at the bound it points out of it.
    R, spread = np.corrcoef(Z.T), Z.std(axis=0)
    Sigma = ours.get_covariance() / np.outer(spread, spread)
    inverse = np.linalg.inv(Sigma)
    gradient = np.diag(inverse @ (Sigma - R) @ inverse) * ours.uniqueness_
    bound = np.isclose(ours.uniqueness_, 0.005, rtol=1e-6)
    assert len(ours.heywood_) == bound.sum() == {1: 0, 2: 2, 4: 3}[k]
    # 1e-9 where the fit stops; the inverse's rounding is about as large.
    assert np.abs(gradient[~bound]).max() < 1e-8
    assert (gradient[bound] > 0).all()
    if k == 1:
        theirs = sklearn.decomposition.FactorAnalysis(
            1, tol=1e-10, max_iter=10**4, svd_method="lapack"
        ).fit((Z - Z.mean(axis=0)) / spread)
        assert_allclose(ours.uniqueness_, theirs.noise_variance_, atol=1e-5)


def test_uncorrelated_columns_fit_exactly():
    white = np.linalg.qr(X - X.mean(axis=0))[0] * np.sqrt(N)
    ours = fitted(white)
    assert_allclose(ours.get_covariance(), np.eye(P), atol=1e-6)
    assert ours.chi_square_["p_value"] > 0.999


@pytest.mark.slow
def test_heart_disease_after_imputation():
    tables = {name: t.to_pandas().drop(columns="num") for name, t in load().items()}
    silos = up.simulate(tables, policy=OPEN)
    filled = up.SimpleImputer().fit_transform(silos)
    scaled = up.StandardScaler().fit_transform(filled)
    pool = pd.concat(tables.values())
    rows = pool.fillna(pool.mean())
    rows = (rows - rows.mean()) / rows.std(ddof=0)

    ours = up.FactorAnalysis(3).fit(scaled)

    theirs = sklearn.decomposition.FactorAnalysis(
        3, tol=1e-6, max_iter=20_000, svd_method="lapack"
    ).fit(rows.to_numpy())
    assert ours.loglike_ >= theirs.score(rows.to_numpy()) * len(rows) - 1e-6
    assert_allclose(ours.get_covariance(), theirs.get_covariance(), atol=2e-3)
    view = ours.transform(scaled)
    assert view.feature_names == tuple(f"factoranalysis{i}" for i in range(3))


def test_collinear_columns_and_too_many_factors_are_refused():
    rows = np.column_stack([Z, Z[:, 0] + Z[:, 1]])
    with pytest.raises(DataError, match="linear combination of others"):
        fitted(rows)
    with pytest.raises(DataError, match=r"n_components=4.*at most 3 factors"):
        fitted(Z, n_components=4)
    with pytest.raises(DataError, match="rotation='oblimin'; choose "):
        fitted(Z, rotation="oblimin")
    with pytest.raises(DataError, match="min_uniqueness=0; choose"):
        fitted(Z, min_uniqueness=0)


def test_loadings_of_pca_rotate_too():
    pca = up.PCA(3).fit(up.simulate(up.partition_rows(Z, 3)))
    L = pca.components_.T * np.sqrt(pca.explained_variance_)
    others = Rotator("varimax", normalize=True, max_iter=5000, tol=1e-15).fit_transform(
        L
    )

    ours = pca.rotated_loadings(kaiser=True)

    signs = np.sign(np.sum(ours.loadings * others, axis=0))
    assert_allclose(ours.loadings, others * signs, atol=1e-7)
    assert_allclose(ours.explained_variance.sum(), pca.explained_variance_.sum())
    assert list(ours.to_frame().columns) == [
        "column",
        *(f"component_{i}" for i in (1, 2, 3)),
    ]
    with pytest.raises(DataError, match="rotation='quartimax'"):
        pca.rotated_loadings("quartimax")
