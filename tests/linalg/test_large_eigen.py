"""Few pairs of a large matrix: LAPACK's, or none."""

import numpy as np
import pytest
import scipy.linalg

from unpooled.linalg import eigen, large_eigen
from unpooled.linalg.eigen import leading_eigenpairs
from unpooled.linalg.large_eigen import large_eigenpairs
from unpooled.linalg.ritz import RitzPairs
from unpooled.linalg.settled import checking, recording

EPS = np.finfo(float).eps


@pytest.fixture(autouse=True)
def small_ones_count_as_large(monkeypatch):
    monkeypatch.setattr(large_eigen, "LEAST", 100)


def symmetric(values, seed=0):
    p = len(values)
    Q = np.linalg.qr(np.random.default_rng(seed).standard_normal((p, p)))[0]
    A = (Q * values) @ Q.T
    return (A + A.T) / 2


def decaying(p=240):
    return 0.7 ** np.arange(p) + 1e-3


@pytest.mark.thinned(1)
@pytest.mark.parametrize("k", [1, 4, 10])
@pytest.mark.parametrize("scale", [1e-150, 1.0, 1e150])
def test_pairs_are_lapacks_to_rounding(k, scale):
    A = scale * symmetric(decaying())
    found = large_eigenpairs(A, k)
    assert found is not None
    values, V = found
    w, W = scipy.linalg.eigh(A / scale)
    w, W = w[::-1], W[:, ::-1]
    np.testing.assert_allclose(values / scale, w[:k], rtol=0, atol=64 * EPS)
    # Each solver has residuals of at most 64 eps λ_1; the gap behind k divides them.
    gap = w[k - 1] - w[k]
    assert np.sin(scipy.linalg.subspace_angles(V, W[:, :k])).max() <= 128 * EPS / gap
    np.testing.assert_allclose(V.T @ V, np.eye(k), atol=1e-14)


def test_a_flat_spectrum_is_left_to_lapack():
    rng = np.random.default_rng(1)
    values = 1.0 + 0.01 * rng.random(240)
    values[:3] += [9.0, 5.0, 3.0]
    A = symmetric(values)
    assert large_eigenpairs(A, 10) is None
    found, V = leading_eigenpairs(A, 10)
    np.testing.assert_allclose(found, np.sort(values)[::-1][:10], rtol=1e-13)
    np.testing.assert_allclose(A @ V, V * found, atol=1e-13)


@pytest.mark.parametrize("missed", [0, 3, 9])
def test_pairs_of_which_one_was_left_out_are_not_certified(missed, monkeypatch):
    """Residuals are those of eigenpairs; what is left of A shows the missing one."""
    values = decaying()
    A = symmetric(values)
    w, W = scipy.linalg.eigh(A)
    others = np.delete(np.arange(11), missed)
    right = RitzPairs(w[::-1][:10], W[:, ::-1][:, :10], np.zeros(10), 1.0, 0.0, 1)
    wrong = RitzPairs(w[::-1][others], W[:, ::-1][:, others], np.zeros(10), 1.0, 0.0, 1)
    for pairs in (right, wrong):
        monkeypatch.setattr(
            large_eigen, "leading_ritz_pairs", lambda *_, p=pairs, **__: p
        )
        assert (large_eigenpairs(A, 10) is None) == (pairs is wrong)


def test_equal_eigenvalues_of_more_vectors_than_a_block_has_are_all_counted():
    """A block of 8 columns sees 8 directions of the 20 with the largest value."""
    A = np.diag(np.repeat([2.0, 1.0, 0.0], [20, 20, 200]))
    A = symmetric(A.diagonal())
    found = large_eigenpairs(A, 4)
    # Any four of the twenty are right, and no other value is above theirs.
    if found is not None:
        np.testing.assert_allclose(found[0], 2.0, rtol=1e-13)
    assert large_eigenpairs(np.zeros((200, 200)), 2) is None


def test_hints_of_either_solver_are_accepted_by_the_other(monkeypatch):
    A = symmetric(decaying())
    for ours, theirs in ((100, 10**6), (10**6, 100)):
        monkeypatch.setattr(large_eigen, "LEAST", ours)
        with recording() as hints:
            values, V = leading_eigenpairs(A, 8)
        assert [list(hint) for hint in hints] == [["leading eigenpairs"]]
        monkeypatch.setattr(large_eigen, "LEAST", theirs)
        with checking(iter(hints)):
            again, W = leading_eigenpairs(A, 8)
        assert values.tobytes() == again.tobytes()
        assert V.tobytes() == W.tobytes()


def test_a_graded_matrix_keeps_the_digits_of_its_small_values():
    scale = 10.0 ** -np.linspace(0, 5, 240)
    R = symmetric(1.0 + np.arange(240.0) / 240)
    A = scale[:, None] * R * scale
    values = eigen.leading_eigenpairs(A, 10)[0]
    np.testing.assert_allclose(values, scipy.linalg.eigh(A)[0][::-1][:10], rtol=1e-10)
