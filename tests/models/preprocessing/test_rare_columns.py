"""Rare columns are found from sums as by counting, and left out everywhere."""

import numpy as np
import pytest
import scipy.sparse
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.pipeline import make_pipeline

import unpooled as up
from unpooled.errors import DataError, ReleaseRefusedError
from unpooled.models.preprocessing.rare_columns import local_powers
from unpooled.testing import check_estimator, check_step

rng = np.random.default_rng(3)
X = rng.standard_normal((120, 6)) * [1, 10, 1, 1, 1, 1] + [0, 1e4, 0, 0, 0, 0]
X[:, 2] = np.arange(120) < 4
X[:, 3] = np.where(np.arange(120) % 10, 255.0, 17.0)
X[:, 4] = -2.5


def pooled(X, y):
    """Return the oracle: the rarer of two values, counted."""
    count = X.shape[0]
    d = X - X.mean(axis=0)
    f = np.ones(X.shape[1])
    varies = np.ptp(X, axis=0) > 0
    kurtosis = (d**4).mean(axis=0)[varies] / (d**2).mean(axis=0)[varies] ** 2
    f[varies] = 4 / (kurtosis + 3)
    rare = np.where(varies, count / 2 * (1 - np.sqrt(1 - f)), 0.0)
    return {"n_rare_": rare, "n_samples_seen_": np.full(X.shape[1], count)}


@pytest.mark.parametrize(
    "check",
    check_estimator(up.RareColumns(), X, pooled=pooled, generate_only=True),
    ids=repr,
)
def test_convention(check):
    check()


def test_step():
    check_step(
        local_powers, X, count=np.full(X.shape[1], float(len(X))), mean=X.mean(axis=0)
    )


@pytest.mark.thinned(8)
@pytest.mark.parametrize("common", [0.0, 1.0, 255.0, 1e6])
@pytest.mark.parametrize("rare", range(1, 30))
def test_of_two_values_the_rarer_is_counted(common, rare):
    Z = np.full((120, 2), common)
    Z[:, 1] = X[:, 0]
    Z[rng.permutation(120)[:rare], 0] += 3.0
    model = up.RareColumns(1).fit(up.simulate(up.partition_rows(Z, 3)))
    assert model.n_rare_[0] == pytest.approx(rare, abs=1e-6)
    model.min_rows = rare
    assert model.get_support()[0]
    model.min_rows = rare + 1
    assert not model.get_support()[0]


@pytest.mark.slow
@pytest.mark.parametrize("k", range(1, 10))
def test_rows_that_differ_by_unequal_amounts_are_no_more_than_counted(k):
    """Pixels of any brightness, on any background: fewer than ten are always rare."""
    for seed in range(20):
        some = np.random.default_rng(seed)
        Z = np.full((100, 2), 255.0 * (seed % 2))
        Z[some.permutation(100)[:k], 0] = some.integers(1, 255, k)
        Z[:, 1] = X[:100, 0]
        model = up.RareColumns().fit(up.simulate(up.partition_rows(Z, 3)))
        assert model.n_rare_[0] <= k + 1e-6
        assert_array_equal(model.get_support(), [False, True])


def test_columns_are_left_out_of_arrays_and_views_alike():
    federation = up.simulate(up.partition_rows(X, 3))
    model = up.RareColumns().fit(federation)
    assert_array_equal(model.get_support(indices=True), [0, 1, 3, 5])
    assert_array_equal(model.transform(X), X[:, [0, 1, 3, 5]])
    assert list(model.get_feature_names_out()) == ["x0", "x1", "x3", "x5"]
    assert model.transform(federation).feature_names == ("x0", "x1", "x3", "x5")


@pytest.mark.slow
def test_a_pipeline_that_silos_refuse_goes_through_behind_it():
    Z = np.random.default_rng(0).standard_normal((300, 8))
    Z[:, 6] = 0.0
    Z[17, 6] = 1.0
    federation = up.simulate(up.partition_rows(Z, 3))
    with pytest.raises(ReleaseRefusedError, match="max_leverage"):
        up.PCA(2).fit(federation)
    pipeline = make_pipeline(up.RareColumns(), up.StandardScaler(), up.PCA(2))
    # The plan does not know which columns are left.
    assert not up.plan(pipeline, federation).refusals
    pipeline.fit(federation)
    direct = up.PCA(2).fit(
        up.StandardScaler().fit_transform(
            up.simulate(up.partition_rows(np.delete(Z, 6, axis=1), 3))
        )
    )
    assert_allclose(pipeline[-1].components_, direct.components_, atol=1e-9)


@pytest.mark.slow
def test_sparse_rows_and_missing_cells():
    Z = np.where(rng.random((300, 5)) < [0.3, 0.01, 0.5, 0.005, 0.2], 1.0, 0.0)
    dense = up.RareColumns().fit(up.simulate(up.partition_rows(Z, 3)))
    parts = {n: scipy.sparse.csr_array(p) for n, p in up.partition_rows(Z, 3).items()}
    sparse = up.RareColumns().fit(up.simulate(parts))
    assert_allclose(sparse.n_rare_, dense.n_rare_, atol=1e-6)
    ones = Z.sum(axis=0)
    assert_allclose(dense.n_rare_, np.minimum(ones, 300 - ones), atol=1e-6)

    Z[:40, 0] = np.nan
    holed = up.RareColumns().fit(up.simulate(up.partition_rows(Z, 3)))
    ones = np.nansum(Z[:, 0])
    assert holed.n_rare_[0] == pytest.approx(min(ones, 260 - ones), abs=1e-6)


@pytest.mark.parametrize("min_rows", [0, 2.5, "ten", 1000])
def test_no_such_number_of_rows(min_rows):
    with pytest.raises(DataError, match="min_rows"):
        up.RareColumns(min_rows).fit(up.simulate(up.partition_rows(X, 3)))
