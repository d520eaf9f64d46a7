"""Noise and its cost: against closed forms, and draws against the Gaussian."""

import math

import mpmath
import numpy as np
import pytest
import scipy.stats

from chance import RARE, spread_is
from unpooled import GaussianPrivacy
from unpooled.errors import DataError
from unpooled.party.steps.add_noise import noised
from unpooled.protocol.declaration import release
from unpooled.secure.noise import (
    Noise,
    cost_of,
    discrete_gaussian,
    epsilon_of,
    rho_of,
)

pytest.importorskip("opendp")


def exact_delta(epsilon, rho):
    """Balle and Wang (2018), theorem 8, with 60 digits."""
    with mpmath.workdps(60):
        epsilon, mu = mpmath.mpf(epsilon), mpmath.sqrt(2 * mpmath.mpf(rho))
        tail = mpmath.exp(epsilon) * mpmath.ncdf(-mu / 2 - epsilon / mu)
        return mpmath.ncdf(mu / 2 - epsilon / mu) - tail


def lattice_gaussian(sigma):
    """Probabilities of a discrete Gaussian, over 40 standard deviations."""
    x = np.arange(-int(20 * sigma), int(20 * sigma) + 1)
    weights = np.exp(-(x**2) / (2 * sigma**2))
    return weights / weights.sum()


@pytest.mark.parametrize("rho", [1e-6, 1e-3, 0.03, 0.5, 4.0, 300.0])
@pytest.mark.parametrize("delta", [1e-12, 1e-9, 1e-5, 1e-2])
def test_conversion_is_that_of_a_gaussian(rho, delta):
    ours = epsilon_of(rho, delta)
    if exact_delta(0.0, rho) <= delta:
        assert ours == 0.0
        return
    # Never less than the truth, and above it by no more than rounding: the difference
    # of two tails has 14 digits of the larger, which is at most 1e4 times as large.
    assert exact_delta(ours, rho) <= delta
    assert exact_delta(ours * (1 - 1e-8), rho) > delta
    # Never more than zero-concentrated privacy, of which it is a part.
    assert ours <= rho + 2 * math.sqrt(rho * math.log(1 / delta))


@pytest.mark.parametrize("delta", [1e-9, 1e-5])
def test_costs_of_gaussians_add_up(delta):
    # Corollary 3.3 of Dong, Roth and Su: the length of the vector of all μ.
    parts = [0.2, 0.5, 0.9]
    together = epsilon_of(sum(mu**2 / 2 for mu in parts), delta)
    with mpmath.workdps(40):
        mu = mpmath.sqrt(sum(mpmath.mpf(part) ** 2 for part in parts))
        assert exact_delta(together, mu**2 / 2) == pytest.approx(delta, rel=1e-6)


@pytest.mark.parametrize("sigma", [4.0, 6.5, 20.0])
@pytest.mark.parametrize("moved", [1, 3, 10])
@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0, 3.0])
def test_whole_numbers_are_as_private_as_promised(sigma, moved, epsilon):
    # The privacy of one discrete Gaussian, added up over all its values.
    p = np.pad(lattice_gaussian(sigma), moved)
    truth = np.maximum(p - math.exp(epsilon) * np.roll(p, moved), 0.0).sum()
    assert truth <= exact_delta(epsilon, cost_of(moved, sigma, 1)) + 1e-15


def test_sums_of_shares_are_discrete_gaussians():
    one = lattice_gaussian(4.0)
    total = np.convolve(np.convolve(one, one), one)
    wanted = lattice_gaussian(4.0 * math.sqrt(3.0))
    middle = slice(len(total) // 2 - 40, len(total) // 2 + 41)
    centre = slice(len(wanted) // 2 - 40, len(wanted) // 2 + 41)
    np.testing.assert_allclose(total[middle], wanted[centre], rtol=1e-11)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
def test_what_epsilon_has_room_for(epsilon):
    rho = rho_of(epsilon, 1e-5)
    assert epsilon_of(rho, 1e-5) <= epsilon < epsilon_of(rho * (1 + 1e-6), 1e-5)


@pytest.mark.slow
def test_draws_are_those_of_a_gaussian():
    draws = discrete_gaussian(200.0, 20_000)
    # Rounded to whole numbers: beside the width of 200 a continuous one.
    assert scipy.stats.kstest(draws / 200.0, "norm").pvalue > RARE
    assert not np.array_equal(draws[:50], discrete_gaussian(200.0, 50))


@pytest.mark.parametrize("n", [1, 2, 10])
def test_a_sum_of_wide_shares_costs_what_one_gaussian_does(n):
    one = 7.0**2 / (2 * n * 50.0**2)
    # Nine of 2,500 is what rounding to whole numbers hides, twice.
    assert one <= cost_of(7.0, 50.0, n) <= one * (1 + 0.0073)
    assert cost_of(1.0, 4.0, 1) == math.inf


def test_the_noise_costs_what_is_charged():
    for rho in (1e-4, 0.1, 50.0):
        noise = Noise(8192.0, 0.3)
        assert cost_of(8192.0, noise.sigma(rho), 1) == pytest.approx(0.3 * rho)


def test_narrow_shares_are_refused():
    with pytest.raises(DataError, match="too small for integers"):
        discrete_gaussian(3.0, 1)


def test_parts_of_a_promise_cost_no_more_than_the_whole():
    whole = GaussianPrivacy(1.0, 1e-5, 3.0)
    parts = [whole.part(share) for share in (0.2, 0.3, 0.5)]
    spent = sum(rho_of(part.epsilon, part.delta) for part in parts)
    assert spent == pytest.approx(rho_of(1.0, 1e-5), rel=1e-9)
    assert epsilon_of(spent, 1e-5) <= 1.0 * (1 + 1e-9)
    assert whole.part(0.5, row_norm=2.0).row_norm == 2.0
    with pytest.raises(DataError, match="above 0, at most 1"):
        whole.part(1.5)


@pytest.mark.slow
@pytest.mark.parametrize("honest", [1, 4])
def test_a_triangle_gets_noise_by_how_often_its_entries_stand(honest):
    p, rho = 150, 0.5
    declared = release("p p", symmetric=True, noise=Noise(1000.0, 0.8))
    triangle = noised(np.zeros((p, p)), declared, rho, honest)
    sigma = 1000.0 / math.sqrt(2 * rho * 0.8) / math.sqrt(honest)
    corners = np.cumsum([0, *range(p, 1, -1)])
    off = np.delete(triangle, corners)
    assert spread_is(off, sigma / math.sqrt(2))
    assert spread_is(triangle[corners], sigma)
    assert (triangle == np.rint(triangle)).all()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ((0.0, 1e-5, 1.0), "epsilon=0.0"),
        ((1.0, 1e-5, None), "norm of rows must be public"),
        ((1.0, 1e-5, math.inf), "row_norm=inf"),
        ((math.nan, 1e-5, 1.0), "epsilon=nan"),
        ((1.0, 1.0, 1.0), "delta below 1"),
        ((1.0, 1e-5, 1.0, math.nan), "centre one number"),
        ((1.0, 1e-5, 1.0, [[1.0]]), "centre one number"),
        ((1.0, 1e-5, 1.0, 0.0, "scatter", 0.0), "from 1e-75"),
        ((1.0, 1e-5, 1.0, 0.0, "scatter", [1.0, math.inf]), "from 1e-75"),
    ],
)
def test_what_is_no_promise_is_refused(given, message):
    with pytest.raises(DataError, match=message):
        GaussianPrivacy(*given)


def test_a_norm_must_be_given():
    with pytest.raises(TypeError, match="row_norm"):
        GaussianPrivacy(**{"epsilon": 1.0, "delta": 1e-5})


def test_a_study_file_may_leave_out_all_but_the_promise_and_the_norm():
    given = {"epsilon": 1.0, "delta": 1e-5, "row_norm": 2.0}
    assert GaussianPrivacy.of(given) == GaussianPrivacy(**given)
    assert GaussianPrivacy.of({**given, "rounds": 7}).rounds == 7
    for wrong in ({**given, "sigma": 1.0}, {"epsilon": 1.0, "delta": 1e-5}, 1.0):
        with pytest.raises(DataError, match="must be None or GaussianPrivacy"):
            GaussianPrivacy.of(wrong)
