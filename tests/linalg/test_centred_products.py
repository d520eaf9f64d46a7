"""Products of centred rows, without centring them: exact rows are the oracle."""

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from unpooled.linalg import centred_products
from unpooled.linalg.centred_products import far_columns, scatter_image
from unpooled.linalg.moments import column_sums, has_missing, squared_deviations

FORMS = {"dense": np.asarray, "csr": scipy.sparse.csr_array}


@pytest.fixture(params=list(FORMS.values()), ids=list(FORMS))
def form(request):
    return request.param


def counts(n=60, p=9, seed=0):
    """Cells that are mostly zero, as of a count table."""
    rng = np.random.default_rng(seed)
    return rng.poisson(0.3, (n, p)) * rng.exponential(size=p)


def image(X, form, V):
    mean = X.mean(axis=0)
    squares = squared_deviations(form(X), mean)
    return scatter_image(form(X), mean, V, far_columns(mean, squares, len(X)))


@given(st.integers(0, 1000))
def test_image_of_counts(seed):
    X = counts(seed=seed)
    V = np.random.default_rng(seed).standard_normal((9, 3))
    centred_rows = X - X.mean(axis=0)
    exact = centred_rows.T @ (centred_rows @ V)
    for form in FORMS.values():
        # A few roundings of sums of 60 products.
        assert_allclose(image(X, form, V), exact, atol=1e-13 * np.abs(exact).max())


@pytest.mark.thinned(1)
@pytest.mark.parametrize("copy_bytes", [8, 2**10, 2**25])
@pytest.mark.parametrize("offset", [1e3, 1e8])
def test_columns_far_from_zero_keep_their_digits(form, offset, copy_bytes, monkeypatch):
    monkeypatch.setattr(centred_products, "_COPY_BYTES", copy_bytes)
    # Whole numbers, so that the offset rounds nothing away.
    X = np.random.default_rng(2).integers(-9, 10, (64, 6)).astype(float)
    X[:, [1, 4]] += offset
    X[:, 5] = 7.0
    V = np.random.default_rng(3).standard_normal((6, 2))
    exact_rows = X - X.mean(axis=0)
    exact = exact_rows.T @ (exact_rows @ V)
    assert_allclose(image(X, form, V), exact, atol=1e-13 * np.abs(exact).max())
    assert not image(X, form, V)[5].any(), "a constant column has a part in nothing"


def test_only_far_columns_are_centred_in_a_copy():
    mean, squares = np.array([0.0, 1.0, 100.0, 3.0]), np.array([0.0, 50.0, 50.0, 0.0])
    assert far_columns(mean, squares, 50).tolist() == [False, False, True, True]


@given(st.integers(0, 1000), st.sampled_from([0.0, 0.5, 1e6]))
def test_sums_and_squares_of_sparse_rows_are_those_of_dense_ones(seed, offset):
    X = counts(n=1100, seed=seed) + offset
    sparse = scipy.sparse.csr_array(X)
    mean = X.mean(axis=0)
    assert_allclose(column_sums(sparse), column_sums(X), rtol=1e-14)
    assert_allclose(
        squared_deviations(sparse, mean), squared_deviations(X, mean), rtol=1e-12
    )


def test_missing_cells_of_sparse_rows():
    X = counts()
    X[3, 2] = np.nan
    sparse = scipy.sparse.csr_array(X)
    mean = np.nanmean(X, axis=0)
    assert has_missing(sparse)
    assert not has_missing(scipy.sparse.csr_array(counts()))
    assert_allclose(squared_deviations(sparse, mean), squared_deviations(X, mean))
