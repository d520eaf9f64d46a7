"""Results of kernel PCA: shares of all eigenvalues, as on the joined rows."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.decomposition import PCA, KernelPCA
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.pipeline import make_pipeline

import unpooled as up

N, P, RTOL = 80, 6, 1e-9
OPEN = up.Policy.open()


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(3)
    return rng.standard_normal((N, P)) @ rng.standard_normal((P, P))


def people(X, **options):
    parts = up.partition_columns(X, 3)
    return up.simulate(parts, partition="columns", policy=OPEN, **options)


def shares(model):
    frame = model.summary().to_frame("eigenvalues")
    assert_allclose(frame["cumulative_share"], np.cumsum(frame["share"]), rtol=1e-15)
    return frame["share"].to_numpy()


def test_shares_are_those_of_all_eigenvalues(rows):
    model = up.KernelPCA(3, gamma=0.05).fit(people(rows))

    # All N, of which the last is 0 but for rounding.
    every = KernelPCA(N - 1, kernel="rbf", gamma=0.05, eigen_solver="dense")
    theirs = every.fit(rows).eigenvalues_
    assert_allclose(model.eigenvalue_sum_, theirs.sum(), rtol=RTOL)
    assert_allclose(shares(model), theirs[:3] / theirs.sum(), rtol=RTOL)


def test_all_components_explain_everything(rows):
    model = up.KernelPCA(kernel="linear").fit(people(rows))

    assert shares(model).sum() == pytest.approx(1.0, abs=1e-12)
    assert "explain 100.0 % of the variance" in model.summary().exhibits[0].text


@pytest.mark.parametrize("partition", ["rows", "columns"])
def test_shares_of_fourier_features(rows, partition):
    parts = up.partition_rows(rows, 3)
    where = people(rows) if partition == "columns" else up.simulate(parts, policy=OPEN)
    how = {"gamma": 0.05, "random_state": 1}
    model = up.KernelPCA(3, approximation="fourier", n_landmarks=20, **how).fit(where)

    features = RBFSampler(n_components=20, **how)
    theirs = make_pipeline(features, PCA(3)).fit(rows)[-1]
    assert_allclose(shares(model), theirs.explained_variance_ratio_, rtol=RTOL)


def test_shares_of_landmarks(rows):
    how = {"gamma": 0.05, "random_state": 1}
    model = up.KernelPCA(3, approximation="nystroem", n_landmarks=20, **how)

    model.fit(people(rows))

    theirs = make_pipeline(Nystroem(n_components=20, **how), PCA(3)).fit(rows)[-1]
    assert_allclose(shares(model), theirs.explained_variance_ratio_, rtol=RTOL)


def test_where_silos_keep_the_kernel_shares_are_of_the_first(rows):
    model = up.KernelPCA(3, gamma=0.05, scores="parties").fit(people(rows))

    frame = model.summary().to_frame("eigenvalues")
    assert list(frame) == ["component", "eigenvalue", "share_of_the_first"]
    assert "Bars are relative to the first" in model.summary().exhibits[0].text


def test_a_silo_that_follows_finds_the_same(rows):
    model = up.KernelPCA(2, gamma=0.05).fit(people(rows, follow=True))
    alone = up.KernelPCA(2, gamma=0.05).fit(people(rows))

    assert model.eigenvalue_sum_ == pytest.approx(alone.eigenvalue_sum_, rel=1e-12)
