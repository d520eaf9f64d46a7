"""How much privacy a game that an attacker plays shows to be lost, at least."""

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.optimize
import scipy.special
import scipy.stats

from chance import RARE
from unpooled.arrays import Array
from unpooled.party.steps.add_noise import noised
from unpooled.protocol.privacy_cost import cost
from unpooled.protocol.step import Step

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


def wrong_guesses(
    step: Step,
    public: Mapping[str, Any],
    others: Array,
    row: Array,
    quieter: float = 1.0,
    m: int = 3,
) -> Array:
    """Play with and without one row, `GAMES` times each; count the wrong guesses.

    The attacker knows all other rows and one party's noise, and looks along the row's
    own contribution, over the variance of its noise, which is the best that there is
    against Gaussian noise.
    """
    asked = {**public, "epsilon": EPSILON, "delta": DELTA}
    rho = cost(step, asked) * quieter**2
    parts = [step(others[i::m], **asked) for i in range(m)]
    alone = step(row, **asked)
    wrong = np.zeros(2, int)
    for present, _ in itertools.product((0, 1), range(GAMES)):
        score = 0.0
        for name, declared in step.declared.items():
            assert declared.noise is not None
            upper: Any = ...
            weight: Any = 1.0
            if declared.symmetric:
                upper = np.triu_indices(len(alone[name]))
                # Entries off the diagonal are two of the array's.
                weight = np.where(upper[0] == upper[1], 1.0, 2.0)
            wanted = np.ravel(alone[name][upper])
            seen = (present - 0.5) * wanted
            for part in parts[1:]:
                share = noised(part[name], declared, rho, m - 1)
                seen = seen + np.ravel(share) - np.ravel(part[name][upper])
            score += (
                float((weight * wanted * seen).sum()) / declared.noise.sigma(rho) ** 2
            )
        wrong[present] += (score > 0) != present
    return wrong
