"""A pencil of matrices that are diagonal but for a few columns."""

import numpy as np
import pytest
import scipy.linalg
from numpy.testing import assert_allclose

from unpooled.linalg.low_rank import LowRankPencil


@pytest.mark.parametrize("rank", [1, 7])
def test_equals_the_pencil_in_whole(rank):
    rng, p = np.random.default_rng(0), 40
    a, b = rng.uniform(0.5, 1.0, p), rng.uniform(1e-4, 3.0, p)
    Z = rng.standard_normal((p, rank))
    S, W = (F @ F.T for F in rng.standard_normal((2, rank, rank)))
    A, B = np.diag(a) + Z @ S @ Z.T, np.diag(b) + Z @ W @ Z.T
    values, vectors = scipy.linalg.eigh(A, B)
    pencil = LowRankPencil(a, b, Z, S, W)

    found, V = pencil.leading(3)

    assert_allclose(found, values[::-1][:3], rtol=1e-11)
    assert_allclose(V.T @ B @ V, np.eye(3), atol=1e-10)
    same = vectors[:, ::-1][:, :3]
    assert_allclose(np.abs(np.sum(V * (B @ same), axis=0)), 1.0, rtol=1e-11)
    assert_allclose(pencil.trace(), values.sum(), rtol=1e-11)
    assert_allclose(pencil.solve(same), np.linalg.solve(B, same), rtol=1e-7)
