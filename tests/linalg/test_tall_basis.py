"""A basis of columns by two Cholesky factors, or by reflections where they fail."""

import numpy as np
import pytest
import scipy.linalg
from numpy.testing import assert_allclose

from unpooled.linalg import tall_basis as module
from unpooled.linalg.tall_basis import tall_basis


def tall(condition, N=300, p=20, rank=20):
    rng = np.random.default_rng(0)
    U = scipy.linalg.qr(rng.standard_normal((N, rank)), mode="economic")[0]
    V = scipy.linalg.qr(rng.standard_normal((p, rank)), mode="economic")[0]
    return np.asfortranarray(U * np.geomspace(1.0, 1.0 / condition, rank) @ V.T)


# Both ways of the same matrices: 1e5 is within what two factors are for, 1e7 is not.
@pytest.mark.parametrize("condition", [1.0, 1e3, 1e5, 1e7, 1e12])
def test_is_orthonormal_and_gives_the_matrix_back(condition):
    A = tall(condition)
    B, T, R = tall_basis(A.copy(order="F"))

    # A few rounding errors of each of the 20 columns.
    assert_allclose(T.T @ (B.T @ B) @ T, np.eye(20), atol=2e-14)
    assert_allclose(B @ T @ R, A, atol=2e-14)
    Q = scipy.linalg.qr(A, mode="economic")[0]
    # What rounding of A itself turns the span by.
    sine = np.linalg.norm(B @ T - Q @ (Q.T @ (B @ T)), 2)
    assert sine <= 1e-14 * condition + 1e-14


@pytest.mark.parametrize(
    ("A", "reflected"),
    [
        (tall(1e3), False),
        (tall(1e9), True),
        (tall(1.0, rank=19), True),
        (np.zeros((5, 2), order="F"), True),
        (tall(1.0, N=5, p=9, rank=5), True),
    ],
)
def test_reflects_what_is_ill_conditioned(A, reflected, monkeypatch):
    seen = []
    qr = scipy.linalg.qr
    monkeypatch.setattr(
        module.scipy.linalg, "qr", lambda *a, **k: seen.append(1) or qr(*a, **k)
    )

    B, T, R = tall_basis(A.copy(order="F"))

    assert bool(seen) == reflected
    assert_allclose(B @ T @ R, A, atol=1e-13)
    assert_allclose(T.T @ (B.T @ B) @ T, np.eye(len(T)), atol=1e-13)
