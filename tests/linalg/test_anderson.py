"""Anderson's acceleration, of linear iterations whose fixed points are known."""

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal

from unpooled.linalg.anderson import anderson_weights, extrapolated


def iterated(A, b, n, most):
    """Return n accelerated points of x = A x + b."""
    points, images, found = [np.zeros(len(b))], [], []
    for _ in range(n):
        images.append(A @ points[-1] + b)
        x = images[-1]
        if len(images) > 1:
            x = extrapolated(images, anderson_weights(points, images))
        found.append(x)
        points, images = [*points, x][-most:], images[-most + 1 :]
    return found


def test_a_line_is_solved_from_two_points():
    A, b = np.array([[0.9]]), np.array([1.0])
    found = iterated(A, b, 3, 4)
    # Up to the ridge of 1e-6.
    assert_allclose(found[1], [10.0], rtol=1e-4)


def test_slow_directions_are_found_in_a_few_points():
    rng = np.random.default_rng(0)
    Q = np.linalg.qr(rng.standard_normal((6, 6)))[0]
    A = Q * [0.9, 0.7, 0.3, 0.1, 0.05, 0.0] @ Q.T
    b = rng.standard_normal(6)
    x = np.linalg.solve(np.eye(6) - A, b)
    error = np.linalg.norm(iterated(A, b, 12, 4)[-1] - x) / np.linalg.norm(x)
    plain = np.linalg.norm(np.linalg.matrix_power(A, 13) @ x) / np.linalg.norm(x)
    assert error < 1e-3 * plain


def test_at_the_fixed_point_nothing_is_extrapolated():
    x = np.array([1.0, 2.0])
    weights = anderson_weights([x, x, x], [x, x, x])
    assert_array_equal(weights, [0.0, 0.0])
    assert_array_equal(extrapolated([x, x, x], weights), x)
