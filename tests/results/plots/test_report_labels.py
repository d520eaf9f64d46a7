"""Names beside points: apart from each other, near what they name."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from unpooled.results.plots.scatter_plots import beside

HEIGHT, GAP = 0.1, 0.03
COORDINATES = st.floats(-1.0, 1.0)


@given(st.lists(st.tuples(COORDINATES, COORDINATES, st.integers(1, 12)), max_size=12))
def test_no_name_lies_over_another(drawn):
    points = np.array([(x, y) for x, y, _ in drawn]).reshape(-1, 2)
    widths = [0.05 * letters for *_, letters in drawn]

    found = beside(points, widths, HEIGHT, GAP)

    boxes = []
    for (x, _), (u, v), width in zip(points, found, widths, strict=True):
        boxes.append((u, u + width, v) if x >= 0 else (u - width, u, v))
    for i, (left, right, y) in enumerate(boxes):
        for low, high, other in boxes[:i]:
            over = left < high and low < right
            assert not over or abs(y - other) >= HEIGHT - 1e-12


def test_a_name_alone_stands_beside_its_point():
    points = np.array([[0.5, 0.5], [-0.5, 0.5]])

    found = beside(points, [0.2, 0.2], HEIGHT, GAP)

    np.testing.assert_allclose(found, points + np.array([[GAP, 0.0], [-GAP, 0.0]]))
