"""Noise and its cost: against closed forms, and draws against the Gaussian."""

import math

import numpy as np
import pytest
import scipy.optimize
import scipy.stats

from chance import RARE, spread_is
from unpooled import GaussianPrivacy
from unpooled.errors import DataError
from unpooled.party.steps.add_noise import noised
from unpooled.protocol.declaration import release
from unpooled.secure.noise import (
    Noise,
    concentrated_cost,
    discrete_gaussian,
    epsilon_of,
    rho_of,
)

pytest.importorskip("opendp")


def tight_epsilon(rho, delta):
    """Canonne, Kamath and Steinke (2020), proposition 12, by minimisation over α."""

    def epsilon(log_a):
        a = 1 + math.exp(log_a)
        return rho * a + math.log(1 / (a * delta)) / (a - 1) + math.log1p(-1 / a)

    return scipy.optimize.minimize_scalar(epsilon, bounds=(-3, 8), method="bounded").fun


@pytest.mark.parametrize("rho", [1e-3, 0.03, 0.5, 4.0])
@pytest.mark.parametrize("delta", [1e-9, 1e-5])
def test_conversion_is_the_published_one(rho, delta):
    ours = epsilon_of(rho, delta)
    # Never more than the simple bound, and as small as the tight one.
    assert ours <= rho + 2 * math.sqrt(rho * math.log(1 / delta))
    assert ours == pytest.approx(tight_epsilon(rho, delta), rel=1e-3)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
def test_what_epsilon_has_room_for(epsilon):
    rho = rho_of(epsilon, 1e-5)
    assert epsilon_of(rho, 1e-5) <= epsilon < epsilon_of(rho * (1 + 1e-6), 1e-5)


def test_draws_are_those_of_a_gaussian():
    draws = discrete_gaussian(200.0, 20_000)
    # Rounded to whole numbers: beside the width of 200 a continuous one.
    assert scipy.stats.kstest(draws / 200.0, "norm").pvalue > RARE
    assert not np.array_equal(draws[:50], discrete_gaussian(200.0, 50))


@pytest.mark.parametrize("n", [1, 2, 10])
def test_a_sum_of_wide_shares_costs_what_one_gaussian_does(n):
    one = 7.0**2 / (2 * n * 50.0**2)
    assert concentrated_cost(7.0, 50.0, n, 10**6) == pytest.approx(one, rel=1e-12)


def test_a_sum_of_narrow_shares_costs_more():
    assert concentrated_cost(1.0, 0.5, 3, 100) > 2 * (1 / (2 * 3 * 0.25))
    with pytest.raises(DataError, match="too small for integers"):
        discrete_gaussian(3.0, 1)


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
    ],
)
def test_what_is_no_promise_is_refused(given, message):
    with pytest.raises(DataError, match=message):
        GaussianPrivacy(*given)


def test_a_norm_must_be_given():
    with pytest.raises(TypeError, match="row_norm"):
        GaussianPrivacy(**{"epsilon": 1.0, "delta": 1e-5})
