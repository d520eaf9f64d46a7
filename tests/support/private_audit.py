"""How much privacy a game that an attacker plays shows to be lost, at least."""

import numpy as np
import scipy.optimize
import scipy.special
import scipy.stats

from chance import RARE
from unpooled.arrays import Array

GAMES, EPSILON, DELTA = 1500, 1.0, 1e-3


def lower_epsilon(wrong: Array) -> float:
    """What ε is at least, but for a chance of `RARE`, where noise is Gaussian.

    Clopper and Pearson bound the rates of both errors. Errors as rare as that need a
    shift by μ deviations, and μ has an ε (Nasr et al., Tight Auditing of Differentially
    Private Machine Learning, USENIX Security 2023; Balle and Wang, ICML 2018, theorem
    8).
    """
    most = scipy.stats.beta.isf(RARE / 2, wrong + 1, GAMES - wrong)
    mu, tail = -scipy.special.ndtri(most).sum(), scipy.special.ndtr

    def excess(e: float) -> float:
        return tail(mu / 2 - e / mu) - np.exp(e) * tail(-mu / 2 - e / mu) - DELTA

    if mu <= 0 or excess(0.0) <= 0:
        return 0.0
    return scipy.optimize.brentq(excess, 0.0, 50.0)
