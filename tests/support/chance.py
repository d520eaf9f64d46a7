"""How unlikely something must be before a test says that it was no accident.

Secret randomness has no seed, so whatever a test says of it is wrong now and then. Each
says only what has a chance of `RARE` to be wrong: all of a run are together wrong once
in some million runs, and what leaks lies far beyond.
"""

import math

import numpy as np
import scipy.stats

from unpooled.arrays import Array

RARE = 1e-9


def deviation(n: int, n_series: int = 1) -> float:
    """Return the most by which a share of successes differs from what is expected.

    In none of several series of n trials it differs by more, but for a chance of
    `RARE`. By Hoeffding one does by more than e with probability 2 exp(-2 n e²) at
    most.
    """
    return math.sqrt(math.log(2 * n_series / RARE) / (2 * n))


def spread_is(draws: Array, sigma: float) -> bool:
    """Return whether Gaussian draws may have this standard deviation."""
    squares = np.var(draws) * len(draws) / sigma**2
    least, most = scipy.stats.chi2(len(draws) - 1).interval(1 - RARE)
    return bool(least < squares < most)
