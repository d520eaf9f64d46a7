"""Averaging among neighbours, by a polynomial of the graph's Laplacian.

    x(s+1) = x(s) + β_s (x(s) - x(s-1)) - γ_s L x(s),     x(S) = p(L) x(0),   p(0) = 1

An entry of L x is the sum of a party's differences from its neighbours, so a step costs
one message to each neighbour. On the null vectors of L, which are the averages, p is 1;
at all other eigenvalues it is to be 0. The eigenvalues of L are public, and β and γ are
the coefficients of conjugate residuals on them: after as many steps as L has distinct
non-zero eigenvalues, p is 0 at all of them and the average is exact. That takes 1 step
on a complete graph, 2 on a star, m / 2 on a ring, m - 1 on a path, and never more.
Chebyshev polynomials need about sqrt(1 / gap) log(1 / ε) / 2 steps for an error of ε;
they are used where that is fewer, or where rounding would spoil the exact average.

References
----------
Sundaram and Hadjicostis, Finite-time distributed consensus in graphs with
time-invariant topologies, American Control Conference 2007; Montijano, Montijano and
Sagues, Chebyshev polynomials in distributed consensus applications, IEEE Trans. Signal
Processing 61 (2013).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from unpooled.arrays import Array, Float
from unpooled.errors import DataError
from unpooled.linalg.settled import near, settled

# Largest error of an average, relative to the largest entry of all parties.
ERROR = 2.0**-38
_EPS = float(np.finfo(float).eps)
# Eigenvalues that differ by less than this share of the largest count as equal.
_SAME = 1e-9
_MOST = 1_000


@final
@dataclass(frozen=True)
class Averaging:
    """Steps after which every party has the average of all parties' values.

    Attributes
    ----------
    steps : tuple of (float, float)
        (β, γ) of each step.
    gap : float
        The Laplacian's smallest non-zero eigenvalue divided by its largest: 1 on a
        complete graph, small on long paths.
    error : float
        Bound on the error of any party's average, relative to the largest entry of all
        parties.
    """

    steps: tuple[tuple[float, float], ...]
    gap: float
    error: float


def laplacian(neighbours: Sequence[Sequence[int]]) -> Float[Array, "m m"]:
    """Return the Laplacian of a graph, its degrees minus its adjacency matrix."""
    L = np.zeros((len(neighbours), len(neighbours)))
    for party, others in enumerate(neighbours):
        L[party, list(others)] = -1.0
        L[party, party] = len(others)
    return L


def averaging(L: Float[Array, "m m"]) -> Averaging:
    """Return the steps that average on a connected graph, as few as are known.

    Raises
    ------
    DataError
        When rounding errors keep all sequences of steps above `ERROR`.
    """
    values = settled(
        "eigenvalues of the graph",
        lambda: {"values": np.linalg.eigvalsh(L)},
        lambda found, own: near(found["values"], own["values"], rows=len(L)),
    )["values"][1:]
    exact, slow = _residual_steps(values), _chebyshev_steps(values)
    candidates = []
    for steps in [slow, *(exact[: n + 1] for n in range(len(exact)))]:
        error, noise = _errors(steps, values)
        # The sequence is repeated where once is not accurate enough.
        times = 1 if error <= ERROR / 4 else _MOST
        if ERROR / 4 < error < 1:
            times = math.ceil(math.log(ERROR / 4) / math.log(error))
        if times < _MOST and (total := error**times + times * noise) <= ERROR:
            candidates.append((len(steps) * times, total, tuple(steps) * times))
    if not candidates:
        raise DataError(
            "Averages on this graph would have a relative error above 4e-12. Give "
            "parties more neighbours."
        )
    _, error, steps = min(candidates, key=lambda candidate: candidate[:2])
    return Averaging(steps, float(values[0] / values[-1]), error)


def mixed(
    own: Float[Array, "..."],
    before: Float[Array, "..."] | None,
    neighbours: Sequence[Float[Array, "..."]],
    step: tuple[float, float],
) -> Float[Array, "..."]:
    """Return a party's value after a step.

    Parameters
    ----------
    own : array
        The party's value.
    before : array or None
        Its value one step earlier; None in the first step, where β is 0.
    neighbours : sequence of arrays
        The neighbours' values.
    step : (float, float)
        (β, γ).
    """
    momentum, rate = step
    image = len(neighbours) * own - sum(neighbours)
    after = own - rate * image
    return after if before is None else after + momentum * (own - before)


def _residual_steps(values: Float[Array, " j"]) -> list[tuple[float, float]]:
    """Return (β, γ) of conjugate residuals on distinct eigenvalues."""
    new = np.diff(values, prepend=-np.inf) > _SAME * values[-1]
    nodes = values[new]
    basis = [np.sqrt(nodes) / math.sqrt(nodes.sum())]
    steps, ratio = list[tuple[float, float]](), 0.0
    for _ in nodes:
        q = basis[-1]
        image = nodes * q
        along = float(np.add.reduce(q * image))
        scale = along + ratio
        if not scale > _SAME * nodes[-1]:
            break
        # x(s+1) = (along x(s) + ratio x(s-1) - L x(s)) / scale
        steps.append((-ratio / scale, 1.0 / scale))
        for _ in range(2):
            for earlier in basis:
                image = image - np.add.reduce(earlier * image) * earlier
        norm = float(np.sqrt(np.add.reduce(image * image)))
        if not norm > _SAME * nodes[-1]:
            break
        basis.append(image / norm)
        ratio = -(norm**2) / scale
    return steps


def _chebyshev_steps(values: Float[Array, " j"]) -> list[tuple[float, float]]:
    """Return (β, γ) of Chebyshev polynomials on the interval of the eigenvalues."""
    low, high = float(values[0]), float(values[-1])
    middle, half = (high + low) / 2, (high - low) / 2
    if half <= _SAME * high:
        return [(0.0, 1.0 / middle)]
    wanted = math.ceil(math.acosh(4 / ERROR) / math.acosh(middle / half))
    steps, scale = [(0.0, 1.0 / middle)], middle
    for number in range(1, wanted):
        ratio = -(half**2) / scale / (2.0 if number == 1 else 4.0)
        scale = middle + ratio
        steps.append((-ratio / scale, 1.0 / scale))
    return steps


def _errors(
    steps: Sequence[tuple[float, float]], values: Float[Array, " j"]
) -> tuple[float, float]:
    """Return the largest |p| at the eigenvalues, and the rounding error."""
    nodes = np.append(0.0, values)
    p, p_before = np.ones_like(nodes), np.ones_like(nodes)
    # The rounding error of each step propagates by the same recurrence.
    noise = noise_before = np.zeros((0, len(nodes)))
    for momentum, rate in steps:
        p, p_before = p + momentum * (p - p_before) - rate * nodes * p, p
        after = noise + momentum * (noise - noise_before) - rate * nodes * noise
        size = 1.0 + 2.0 * abs(momentum) + 2.0 * rate * values[-1]
        new = np.full((1, len(nodes)), size * _EPS)
        noise, noise_before = (
            np.vstack([after, new]),
            np.vstack([noise, np.zeros_like(new)]),
        )
    # Rounding errors have random signs, so their squares add.
    return float(np.abs(p[1:]).max()), float(np.sqrt((noise**2).sum(axis=0)).max())
