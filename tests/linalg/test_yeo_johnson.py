"""Yeo-Johnson in safe numbers, against an optimum in 60 digits."""

import mpmath
import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from column_search import optimal
from hard_columns import REAL, made_up, real
from optima import is_optimal
from tiers import slow
from unpooled.linalg import yeo_johnson
from unpooled.linalg.yeo_johnson import ObservedColumn, Reference

# A tenth of what is promised: the search itself stops at 2^-30.
TOL = 1e-8


@pytest.mark.thinned("iris")
@pytest.mark.parametrize("name", slow(REAL, "breast_cancer", "digits"))
def test_finds_the_optimum_of_real_features(name):
    for j, x in enumerate(real(name).T):
        lam = optimal(x, n_candidates=15)
        assert is_optimal(x, lam, TOL), f"feature {j}: {lam}"


@pytest.mark.thinned(10)
@pytest.mark.parametrize("K", [1, 15])
@pytest.mark.parametrize("name", made_up())
def test_finds_the_optimum_of_hard_columns(name, K):
    x = made_up()[name]
    lam = optimal(x, n_candidates=K)
    assert is_optimal(x, lam, TOL)


def test_the_judge_can_say_no():
    x = real("iris")[:, 0]
    lam = optimal(x)
    assert is_optimal(x, lam, TOL)
    assert not is_optimal(x, lam + 1e-5, 1e-7)
    assert not is_optimal(x, lam - 1e-5, 1e-7)


def test_agrees_with_scipy_where_scipy_is_right():
    for x in real("wine").T[:5]:
        theirs = scipy.stats.yeojohnson(x)[1]
        # Brent's method on the likelihood itself stops at the root of its precision.
        assert optimal(x) == pytest.approx(theirs, abs=1e-4)


@pytest.mark.parametrize("lam", [-3.0, 0.0, 1e-20, 0.5, 1.0, 2.0, 2.0 + 1e-12, 5.0])
def test_transform_equals_scipy_and_is_undone(lam):
    x = np.concatenate([-np.logspace(-8, 3, 30), [0.0], np.logspace(-8, 3, 30)])

    psi = yeo_johnson.transform(x, lam)

    # scipy forms (1 + x)^λ - 1, which has lost eps / x of its digits.
    assert_allclose(psi, scipy.stats.yeojohnson(x, lam), rtol=1e-7)
    # The flat tail of a strong transform has no digits to come back from.
    back, bent = yeo_johnson.inverse(psi, lam), np.abs((lam - 1) * np.log1p(abs(x)))
    assert_allclose(back[bent < 9], x[bent < 9], rtol=1e-10)


def test_transform_keeps_missing_cells_and_overflows_to_infinity():
    x = np.array([np.nan, 1e300, -1e300])
    assert_array_equal(yeo_johnson.transform(x, 5.0), [np.nan, np.inf, -1 / 3])
    assert np.isnan(yeo_johnson.inverse(np.array([np.nan, -1e9]), 5.0)).all()


@pytest.mark.parametrize("centre", [0.0, 0.3, 13.8, -2.0])
@pytest.mark.parametrize("lam", [-40.0, -0.7, 0.0, 1.3, 2.0, 30.0])
def test_shifted_values_are_a_line_of_the_transform(centre, lam):
    reference = Reference(centre, 0.5)
    x = np.expm1(np.linspace(-1, 1, 41) + centre) if centre else np.linspace(-2, 2, 41)
    own = reference.mirrored(lam)

    ours = yeo_johnson.shifted(x, own, reference)

    with mpmath.workdps(700):
        psi = [_exact(value, lam) for value in x]
        # The line through the first and the last point.
        slope = (ours[-1] - ours[0]) / (psi[-1] - psi[0])
        line = [float(ours[0] + slope * (value - psi[0])) for value in psi]
    assert_allclose(ours, line, rtol=0, atol=1e-12 * np.abs(ours).max())
    again = yeo_johnson.inverse_shifted(ours, own, reference)
    # Where the transform is flat, float64 has no digits to come back from.
    slope = np.gradient(ours, x) * np.abs(x).max() / np.abs(ours).max()
    firm = np.abs(slope) > 1e-3
    assert_allclose(again[firm], x[firm], rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_cells_far_below_a_large_centre_keep_their_place(sign):
    """There (x - g) / (1 + g) rounds to -1, whose logarithm is infinite."""
    x = sign * np.array([0.0, 1.0, 1e6, np.exp(20.0), np.exp(45.0), np.exp(47.0)])
    reference = Reference(sign * 45.0, 2.0)

    u = ObservedColumn(x, reference).u

    assert_allclose(u, np.log1p(np.abs(x)) - 45.0, rtol=1e-14, atol=1e-14)
    for lam in (-0.05, 0.0, 0.01):
        values = yeo_johnson.shifted(x, lam, reference)
        again = yeo_johnson.inverse_shifted(values, lam, reference)
        assert_allclose(again, x, rtol=1e-11, atol=1e-11)


def _exact(value: float, lam: float) -> mpmath.mpf:
    size, sign = mpmath.log1p(abs(mpmath.mpf(float(value)))), 1 if value >= 0 else -1
    exponent = mpmath.mpf(lam) if sign > 0 else 2 - mpmath.mpf(lam)
    psi = mpmath.expm1(exponent * size) / exponent if exponent else size
    return sign * psi


@pytest.mark.slow
@given(
    st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=30),
    st.floats(-50.0, 50.0),
    st.integers(1, 29),
)
def test_sums_of_parts_are_the_sums_of_the_whole(values, t, cut):
    x, reference = np.array(values), Reference(0.25, 0.5)
    lam = np.array([t / reference.spread])

    parts = [
        ObservedColumn(part, reference).slope_sums(lam) for part in np.split(x, [cut])
    ]

    whole = ObservedColumn(x, reference).slope_sums(lam)
    # Saturated sums replace the part's own: only the sign of the result is promised.
    if abs(whole[4, 0]) < 2.0**100:
        total = np.sum(parts, axis=0)
        assert_allclose(total, whole, rtol=1e-9, atol=1e-9 * np.abs(whole).max())


def test_a_tail_beyond_measure_gives_its_side():
    reference = Reference(0.0, 1.0)
    for lam, sign in ((40.0, -1.0), (-40.0, 1.0)):
        column = ObservedColumn(np.array([1.0, -1e12 * sign]), reference)
        sums = column.slope_sums(np.array([lam]))
        assert np.sign(yeo_johnson.slope_sign(sums / 2)) == sign


def test_rows_that_are_not_there_add_nothing():
    x, reference = np.array([np.nan, 1.0, np.nan, -3.0]), Reference(0.0, 1.0)
    lam = np.array([0.7])
    assert_array_equal(
        ObservedColumn(x, reference).slope_sums(lam),
        ObservedColumn(x[[1, 3]], reference).slope_sums(lam),
    )
    assert_array_equal(
        ObservedColumn(x[[0]], reference).slope_sums(lam), np.zeros((5, 1))
    )
