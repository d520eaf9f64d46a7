"""Whether a Yeo-Johnson λ is the optimum, judged in exact-enough arithmetic.

Nothing here is shared with the library: mpmath at 60 digits (more where numbers are
larger than that), the likelihood's slope as the literature writes it.
"""

from typing import Any

import mpmath
import numpy as np


def slope(x: Any, lam: Any) -> Any:
    """Return F(λ) = P (N S2 - S1²) - N (N T - S1 D), for rows all of one sign or not.

    Where all rows have one sign, ψ is taken about a row: a shift and a scale of ψ,
    which leave the sign of F; without them λ = -1e5 would need a million digits.
    """
    values, counts = np.unique(x, return_counts=True)
    exact = [mpmath.mpf(float(value)) for value in values]
    middle = exact[len(exact) // 2]
    if values[0] < 0 < values[-1] or 0 in (values[0], values[-1]):
        middle = mpmath.mpf(0)
    N, sums = mpmath.mpf(len(x)), [mpmath.mpf(0)] * 5
    for value, count in zip(exact, counts.tolist(), strict=True):
        sign = 1 if (value or middle) >= 0 else -1
        exponent = lam if sign > 0 else 2 - lam
        size = mpmath.log1p(abs(value)) - mpmath.log1p(abs(middle))
        psi, change = _psi(exponent, size)
        terms = (sign * size, sign * psi, psi**2, change, sign * psi * change)
        sums = [a + count * b for a, b in zip(sums, terms, strict=True)]
    P, S1, S2, D, T = sums
    return P * (N * S2 - S1**2) - N * (N * T - S1 * D)


def _psi(exponent: Any, size: Any) -> tuple[Any, Any]:
    if exponent == 0:
        return size, size**2 / 2
    grown = mpmath.expm1(exponent * size)
    return grown / exponent, (size * (grown + 1) - grown / exponent) / exponent


def is_optimal(x: Any, lam: float, tol: float) -> bool:
    """Whether λ is within tol max(1/σ, abs(λ)) of the optimum, σ the deviation of φ."""
    x = x[~np.isnan(x)]
    sigma = np.std(np.sign(x) * np.log1p(np.abs(x)))
    room = mpmath.mpf(tol) * max(1 / float(sigma), abs(lam))
    with mpmath.workdps(60):
        return bool(slope(x, lam - room) > 0 > slope(x, lam + room))
