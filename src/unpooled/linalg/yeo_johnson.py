"""The Yeo-Johnson transform and the sign of its score function, without overflow.

    φ(x)    = sgn(x) log(1 + |x|)
    ψ(λ, x) = (e^{λφ} - 1) / λ  for x >= 0;   -(e^{-(2-λ)φ} - 1) / (2 - λ)  for x < 0

The log-likelihood is concave in λ, and its derivative (the score) has the sign of

    F(λ) = mean(φ) var(ψ) - cov(ψ, ψ'),   ψ' = dψ/dλ.

Shifting and scaling ψ, and adding multiples of ψ to ψ', change F only by a positive
factor. So ψ is computed about a public reference, a coarse centre β >= 0 and a coarse
standard deviation σ of φ (where the centre is negative, x and φ are mirrored and λ
becomes 2 - λ):

    u = φ - β,   ψ^ = (ψ - ψ(β)) e^{-λβ} / s(λ),   F ~ mean(u/σ) var(ψ^) - cov(ψ^, ψ^')

where ``ψ^ s = (e^{λu} - 1) / λ`` for x >= 0. There is neither cancellation nor overflow
for values such as 1e6 ± 10 or 1e-12. The reference scales only F: standardised, ψ and
ψ^ are equal, but ψ would overflow or lose its digits where the values are far from zero
relative to their standard deviation. ``ψ = a ψ^ + b`` (`units`).

References
----------
Marchand et al., SecureFedYJ: a safe feature Gaussianization protocol for Federated
Learning, NeurIPS 2022, equations (1) to (3). Section 3 prints φ as a sum of the sign
and the logarithm, where (2) has their product.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

import numpy as np

from unpooled.arrays import Array, Float, Int

# Below this, h(t) is computed from its series, because the closed form cancels.
_SMALL = 0.125
_SERIES = [1.0 / (math.factorial(k) * (k + 2)) for k in range(12)]
# The largest sum of squares of ψ^ that enters F. Beyond it, λ stretches one tail so far
# that the side of that tail alone determines the sign of F, and fixed sums with that
# sign replace the sums.
_MOST_SQUARES = 2.0**88
_SATURATED = 2.0**104
# From here on e^{|t|} overflows, or e^{|t|} - 1 equals e^{|t|}.
_FAR = 600.0
# Number of cells of an intermediate array that stays in the cache.
_CELLS = 2**15


def log_size(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """Return φ(x) = sgn(x) log(1 + |x|)."""
    return np.copysign(np.log1p(np.abs(x)), x)


@final
@dataclass(frozen=True)
class Reference:
    """Public, coarse location and scale of one column's φ.

    Attributes
    ----------
    centre : float
        Location of φ; negative where the column is mirrored.
    spread : float
        Scale of φ, positive.
    """

    centre: float
    spread: float

    @property
    def beta(self) -> float:
        """The centre after mirroring."""
        return abs(self.centre)

    def mirrored(self, lam: float) -> float:
        """Return λ of the column as mirrored, if it is; an involution."""
        return 2.0 - lam if self.centre < 0 else lam

    def log_scale(self, lam: Float[Array, " k"]) -> Float[Array, " k"]:
        """Return log s(λ), for λ of the mirrored column.

        s is the smaller of |ψ^| at β + σ and at β - σ, because there may be no row in
        the tail that a large |λ| stretches.
        """
        ends = np.expm1([self.beta + self.spread, abs(self.beta - self.spread)])
        ends[1] *= np.sign(self.beta - self.spread)
        upright = Reference(self.beta, self.spread)
        with np.errstate(all="ignore"):
            values = ObservedColumn(ends, upright).shifted(lam, np.zeros_like(lam))
            near = np.log(np.abs(values).min(axis=1))
            # Beyond this one of the two is 1 / |λ| and the other overflows.
            far = -np.log(np.abs(lam))
        return np.where(np.abs(lam * self.spread) < _FAR, near, far)


@final
class ObservedColumn:
    """The observed cells of one column, relative to its reference.

    Parameters
    ----------
    x : (n,) array
        In the units of the data, not mirrored; NaN are left out.
    reference : Reference
        Location and scale of the column's φ.

    Attributes
    ----------
    u : (n',) array
        φ - β of the observed cells, mirrored where the centre is negative.
    """

    def __init__(self, x: Float[Array, " n"], reference: Reference) -> None:
        x = x[~np.isnan(x)]
        if reference.centre < 0:
            x = -x
        self._reference = reference
        centre = np.expm1(reference.beta)
        self._negative = x < 0
        positive = np.maximum(x, 0.0)
        # Not φ - β: at 1e6 ± 10 that difference would have only five digits.
        offset = (positive - centre) / (1.0 + centre)
        # Far below a large centre the offset rounds to -1, whose log1p is -inf; there
        # the quotient (1 + x) / (1 + centre) has all its digits.
        far = offset < -0.5
        self.u = np.log1p(np.where(far, 0.0, offset))
        self.u[far] = np.log((1.0 + positive[far]) / (1.0 + centre))
        self._a = np.log1p(-x[self._negative])
        self.u[self._negative] = -self._a - reference.beta

    def shifted(
        self, lam: Float[Array, " k"], log_scale: Float[Array, " k"]
    ) -> Float[Array, "k n"]:
        """Return ψ^ at each λ of the mirrored column, divided by e^log_scale."""
        psi = _quotient(lam, self.u, -log_scale)
        if len(self._a):
            beta = np.array([self._reference.beta])
            mirrored = _quotient(2.0 - lam, self._a, -lam * beta - log_scale)
            psi[:, self._negative] = -mirrored - _quotient(-lam, beta, -log_scale)
        return psi

    def slope_sums(self, lam: Float[Array, " k"]) -> Float[Array, "5 k"]:
        """Return the sums over rows of u/σ, ψ^, ψ^², ψ^' and ψ^ ψ^' at each λ."""
        # As many values of λ at a time as stay in the cache.
        at_once = max(_CELLS // max(len(self.u), 1), 1)
        parts = range(0, len(lam), at_once)
        sums = [self._slope_sums(lam[i : i + at_once]) for i in parts]
        return np.concatenate(sums, axis=1)

    def _slope_sums(self, lam: Float[Array, " k"]) -> Float[Array, "5 k"]:
        spread = self._reference.spread
        sums = np.zeros((5, len(lam)))
        sums[0] = self.u.sum() / spread
        with np.errstate(over="ignore", invalid="ignore"):
            log_scale = self._reference.log_scale(lam)
            psi, slope = self._shifted_and_slope(lam, log_scale)
            slope /= spread
            sums[1], sums[3] = psi.sum(axis=1), slope.sum(axis=1)
            sums[2] = np.einsum("kn,kn->k", psi, psi)
            sums[4] = np.einsum("kn,kn->k", psi, slope)
        for k in np.flatnonzero(~(sums[2] <= _MOST_SQUARES)):
            side = np.sign(self.u[np.abs(psi[k]).argmax()])
            sums[1:, k] = 0.0, 0.0, 0.0, side * _SATURATED
        return sums

    def _shifted_and_slope(
        self, lam: Float[Array, " k"], log_scale: Float[Array, " k"]
    ) -> tuple[Float[Array, "k n"], Float[Array, "k n"]]:
        """Return ψ^ and ψ^' at each λ, both divided by e^log_scale."""
        psi, slope = _quotient_and_slope(lam, self.u, -log_scale)
        if len(self._a):
            beta = np.array([self._reference.beta])
            log_factor = -lam * beta - log_scale
            mirrored, by_lam = _quotient_and_slope(2.0 - lam, self._a, log_factor)
            below = -mirrored - _quotient(-lam, beta, -log_scale)
            # e^{-λβ} times the derivative of ψ(β), and the derivative of e^{-λβ}.
            of_centre = _quotient_and_slope(lam, beta, log_factor)[1]
            psi[:, self._negative] = below
            slope[:, self._negative] = -beta * below + by_lam - of_centre
        return psi, slope


def slope_sums(
    X: Float[Array, "n p"],
    centre: Float[Array, " p"],
    spread: Float[Array, " p"],
    column: Int[Array, " l"],
    lam: Float[Array, " l"],
) -> Float[Array, "5 l"]:
    """Return `Column.slope_sums` at candidates, each for a column of its own."""
    sums = np.empty((5, len(column)))
    for j in np.unique(column):
        rows = ObservedColumn(X[:, j], Reference(float(centre[j]), float(spread[j])))
        own = column == j
        sums[:, own] = rows.slope_sums(lam[own])
    return sums


def slope_sign(means: Float[Array, "5 q"]) -> Float[Array, " q"]:
    """Return F up to a positive factor, from the means `Column.slope_sums` / N."""
    u, psi, squares, slope, products = means
    return u * (squares - psi * psi) - (products - psi * slope)


def slope(means: Float[Array, "5 q"]) -> Float[Array, " q"]:
    """Return the score in units of 1/σ, F / var(ψ^): its root is that of F.

    It is nearly linear about its root. Where a tail dominates it is infinite.
    """
    _, psi, squares, _, _ = means
    variance, sign = squares - psi * psi, slope_sign(means)
    with np.errstate(all="ignore"):
        value = sign / variance
    good = (variance > 0.0) & np.isfinite(value)
    return np.where(good, value, np.copysign(np.inf, sign))


def transform(x: Float[Array, " n"], lam: float) -> Float[Array, " n"]:
    """Return ψ(λ, x); NaN stay NaN, and values that overflow are infinite."""
    size, at, zero = np.log1p(np.abs(x)), np.array([lam]), np.zeros(1)
    with np.errstate(over="ignore"):
        positive = _quotient(at, size, zero)[0]
        negative = -_quotient(2.0 - at, size, zero)[0]
    return np.where(np.isnan(x), np.nan, np.where(x >= 0, positive, negative))


def inverse(psi: Float[Array, " n"], lam: float) -> Float[Array, " n"]:
    """Return x with ψ(λ, x) = `psi`; NaN where there is no such x."""
    with np.errstate(all="ignore"):
        positive = np.expm1(_inverse_quotient(lam, np.maximum(psi, 0.0)))
        negative = -np.expm1(_inverse_quotient(2.0 - lam, np.maximum(-psi, 0.0)))
    return np.where(np.isnan(psi), np.nan, np.where(psi >= 0, positive, negative))


def shifted(
    x: Float[Array, " n"], lam: float, reference: Reference
) -> Float[Array, " there"]:
    """Return ψ^ of the observed cells, for λ of the mirrored column."""
    at = np.array([lam])
    return ObservedColumn(x, reference).shifted(at, reference.log_scale(at))[0]


def inverse_shifted(
    values: Float[Array, " n"], lam: float, reference: Reference
) -> Float[Array, " n"]:
    """Return x, in the units of the data, from its `shifted` values."""
    beta = np.array([reference.beta])
    at, here = np.expm1(beta), np.array([lam])
    with np.errstate(all="ignore"):
        raw = values * np.exp(reference.log_scale(here))
        u = _inverse_quotient(lam, raw)
        # Each form is accurate where the terms of the other one cancel.
        far = np.expm1(u) < -0.5
        x = np.where(far, (1.0 + at) * np.exp(u) - 1.0, at + (1.0 + at) * np.expm1(u))
        # ψ^ of x = 0, below which the negative branch holds.
        zero = -_quotient(-here, beta, np.zeros(1))[0]
        below = raw < zero
        rest = (zero - raw[below]) * np.exp(lam * beta)
        x[below] = -np.expm1(_inverse_quotient(2.0 - lam, rest))
    return -x if reference.centre < 0 else x


def shifted_table(
    X: Float[Array, "n p"],
    lambdas: Float[Array, " p"],
    centre: Float[Array, " p"],
    spread: Float[Array, " p"],
) -> Float[Array, "n p"]:
    """Return ψ^ of every cell of a table, sign as of x; NaN stay NaN."""
    out = np.full(X.shape, np.nan)
    for j, lam, reference, sign in _columns(lambdas, centre, spread):
        there = ~np.isnan(X[:, j])
        out[there, j] = sign * shifted(X[:, j], lam, reference)
    return out


def inverse_shifted_table(
    values: Float[Array, "n p"],
    lambdas: Float[Array, " p"],
    centre: Float[Array, " p"],
    spread: Float[Array, " p"],
) -> Float[Array, "n p"]:
    """Return the table from its `shifted_table` values; NaN where there is none."""
    rows = np.empty_like(values)
    for j, lam, reference, sign in _columns(lambdas, centre, spread):
        column = inverse_shifted(sign * values[:, j], lam, reference)
        rows[:, j] = column
    return rows


def units(
    lambdas: Float[Array, " p"],
    centre: Float[Array, " p"],
    spread: Float[Array, " p"],
) -> tuple[Float[Array, " p"], Float[Array, " p"]]:
    """Return a and b of ψ = a ψ^ + b for each column, infinite on overflow."""
    a, b = np.empty((2, len(lambdas)))
    with np.errstate(over="ignore", under="ignore"):
        for j, lam, reference, sign in _columns(lambdas, centre, spread):
            log_scale = reference.log_scale(np.array([lam]))[0]
            a[j] = np.exp(log_scale + lam * reference.beta)
            at = np.expm1(np.array([reference.beta]))
            b[j] = sign * transform(at, lam)[0]
    return a, b


def _quotient(
    lam: Float[Array, " k"], u: Float[Array, " n"], log_factor: Float[Array, " k"]
) -> Float[Array, "k n"]:
    """Return ``exp(log_factor) (e^{λu} - 1) / λ``; u at λ = 0."""
    t = lam[:, None] * u
    size = np.abs(t)
    # (1 - e^{-|t|}) / |t|, between 0 and 1; the large factor e^t goes with the scale.
    part = np.divide(-np.expm1(-size), size, out=np.ones_like(t), where=size > 0)
    return np.exp(np.maximum(t, 0.0) + log_factor[:, None]) * u * part


def _quotient_and_slope(
    lam: Float[Array, " k"], u: Float[Array, " n"], log_factor: Float[Array, " k"]
) -> tuple[Float[Array, "k n"], Float[Array, "k n"]]:
    """Return ``exp(log_factor)`` times ``(e^{λu} - 1) / λ``, and its derivative by λ.

    The derivative is u² h(λu) with ``h(t) = (t e^t - e^t + 1) / t²``.
    """
    t = lam[:, None] * u
    size = np.abs(t)
    e = np.expm1(-size)
    scaled = np.exp(np.maximum(t, 0.0) + log_factor[:, None]) * u
    small = size <= _SMALL
    with np.errstate(divide="ignore", invalid="ignore"):
        part = -e / size
        # h(t) e^{-max(t, 0)}: (t + e) / t² for t > 0, (t (1 + e) - e) / t² for t < 0.
        by_lam = np.where(t > 0, t + e, t * (1.0 + e) - e)
        by_lam /= t * t
    part[size == 0.0] = 1.0
    near = t[small]
    series = np.full(len(near), _SERIES[-1])
    for coefficient in _SERIES[-2::-1]:
        series *= near
        series += coefficient
    by_lam[small] = series * np.exp(-np.maximum(near, 0.0))
    by_lam *= u
    by_lam *= scaled
    part *= scaled
    return part, by_lam


def _inverse_quotient(lam: float, psi: Float[Array, " n"]) -> Float[Array, " n"]:
    """Return u with ``(e^{λu} - 1) / λ = psi``."""
    return psi if lam == 0 else np.log1p(lam * psi) / lam


def _columns(
    lambdas: Float[Array, " p"],
    centre: Float[Array, " p"],
    spread: Float[Array, " p"],
) -> Iterator[tuple[int, float, Reference, float]]:
    """Yield each column's index, λ as mirrored, reference, and sign of mirroring."""
    for j, lam in enumerate(lambdas.tolist()):
        reference = Reference(float(centre[j]), float(spread[j]))
        sign = -1.0 if reference.centre < 0 else 1.0
        yield j, reference.mirrored(lam), reference, sign
