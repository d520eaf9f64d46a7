"""Names beside points: apart from each other, inside, near what they name."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unpooled.results.plots.label_places import label_places, nearest_edge

HEIGHT, GAP = 0.1, 0.03
PICTURE = (-1.15, 1.15, -1.15, 1.15)
COORDINATES = st.floats(-1.0, 1.0)
TOUCHING = 1e-12  # rounding of edges that meet


def boxes(found, widths):
    half = np.column_stack([widths, np.full(len(widths), HEIGHT)]) / 2
    return found - half, found + half


@pytest.mark.slow
@given(
    st.lists(st.tuples(COORDINATES, COORDINATES, st.integers(1, 8)), max_size=12),
    st.booleans(),
)
def test_no_name_lies_over_another_or_leaves_the_picture(drawn, arrows):
    """With twelve names there is always room: their places are at most a fifth."""
    points = np.array([(x, y) for x, y, _ in drawn]).reshape(-1, 2)
    widths = [0.05 * letters for *_, letters in drawn]

    found = label_places(points, widths, HEIGHT, GAP, PICTURE, arrows=arrows)

    low, high = boxes(found, widths)
    assert (np.abs(low) <= 1.15 + TOUCHING).all()
    assert (np.abs(high) <= 1.15 + TOUCHING).all()
    for i in range(len(points)):
        for j in range(i):
            apart = (high[i] <= low[j] + TOUCHING) | (high[j] <= low[i] + TOUCHING)
            assert apart.any()


def test_a_name_alone_stands_outwards_of_its_point():
    points = np.array([[0.5, 0.0], [-0.5, 0.0], [0.0, 0.5], [0.0, -0.5]])
    widths = [0.2] * 4

    found = label_places(points, widths, HEIGHT, GAP, PICTURE)

    away = GAP + np.array([0.1, 0.1, HEIGHT / 2, HEIGHT / 2])
    expected = points + away[:, None] * np.sign(points)
    np.testing.assert_allclose(found, expected, atol=1e-15)


def test_a_name_without_an_arrow_stands_to_the_right():
    [found] = label_places(
        np.array([[-0.5, 0.3]]), [0.2], HEIGHT, GAP, PICTURE, arrows=False
    )

    np.testing.assert_allclose(found, [-0.5 + 0.1 + GAP, 0.3], atol=1e-15)


@pytest.mark.parametrize("arrows", [True, False])
def test_what_is_written_already_is_not_written_over(arrows):
    point = np.array([[0.5, 0.0]])
    [first] = label_places(point, [0.2], HEIGHT, GAP, PICTURE, arrows=arrows)
    taken = np.array([[first[0] - 0.1, first[0] + 0.1, -0.05, 0.05]])

    [found] = label_places(point, [0.2], HEIGHT, GAP, PICTURE, taken, arrows=arrows)

    assert abs(found - first)[0] >= 0.2 - TOUCHING or (
        abs(found - first)[1] >= HEIGHT - TOUCHING
    )


def test_a_name_stays_off_the_arrows_of_others():
    """The second arrow lies where the name of the first would stand outwards."""
    points = np.array([[0.4, 0.0], [0.9, 0.02]])

    found = label_places(points, [0.2, 0.2], HEIGHT, GAP, PICTURE)

    low, high = boxes(found[:1], [0.2])
    line = np.linspace(0.0, 1.0, 200)[:, None] * points[1]
    assert not ((line > low[0]) & (line < high[0])).all(axis=1).any()


def test_lines_lead_to_the_nearest_edge():
    found = nearest_edge(np.array([0.0, 0.0]), np.array([1.0, 0.5]), 0.4, 0.2)

    np.testing.assert_allclose(found, [0.8, 0.4])
