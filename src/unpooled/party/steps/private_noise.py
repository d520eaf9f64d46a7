"""Noise in what a step releases, in the silo and before anything is masked.

The silo makes its own account: what a request costs follows from the step's declaration
and the (ε, δ) it names, never from a scale that the coordinator asks for. The views
that a private step may read are those in which one row more changes nothing else.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from unpooled.arrays import Array, Float
from unpooled.linalg.moments import pack
from unpooled.protocol.declaration import Declared
from unpooled.protocol.refusal import Refusal
from unpooled.protocol.step import Step, find_step
from unpooled.protocol.view_operations import Derive, Operation, Rows
from unpooled.secure.noise import concentrated_cost, discrete_gaussian, rho_of


def is_private(step: Step) -> bool:
    """Whether everything that leaves has noise in it."""
    return bool(step.leaves) and all(d.noise for d in step.leaves.values())


def cost(step: Step, public: Mapping[str, Any]) -> float:
    """Return the ρ that a request costs its silos, 0 where it promises no privacy."""
    if not is_private(step):
        return 0.0
    epsilon, delta = public.get("epsilon"), public.get("delta")
    if not isinstance(epsilon, float) or not isinstance(delta, float):
        raise Refusal("arguments")
    if not (0 < epsilon < math.inf and 0 < delta < 1):
        raise Refusal("arguments")
    return rho_of(epsilon, delta)


def check_inputs(step: Step, operations: Sequence[Operation]) -> None:
    """Refuse to add noise after something was read from the data without it.

    A transform that was fitted tells of its rows, and which rows are in a fold depends
    on how many there are.
    """
    for operation in operations if is_private(step) else ():
        fitted = isinstance(operation, Derive) and find_step(operation.step).fitted_by
        if fitted or isinstance(operation, Rows):
            raise Refusal("private_inputs")


def honest_shares(m: int, protection: str) -> int:
    """Return how many silos' shares make up the whole noise of a total.

    All but one, whose share an adversary may know. Where totals travel in clear each
    silo's own value is seen, and needs the whole noise.
    """
    return max(m - 1, 1) if protection == "masked" else 1


def noised(
    value: Float[Array, "..."], declared: Declared, rho: float, honest: int
) -> Float[Array, "..."]:
    """Return whole numbers with this party's share of the noise.

    A symmetric array comes back as its triangle.

    Parameters
    ----------
    value : array
        Whole numbers.
    declared : Declared
        With its `noise`.
    rho : float
        Of the step.
    honest : int
        As `honest_shares` gives them.
    """
    noise = declared.noise
    if noise is None:
        raise Refusal("require_privacy")
    sigma = noise.sigma(rho) / math.sqrt(honest)
    # With the pairs that a symmetric array has twice, its entries off the diagonal
    # weigh double; noise on them that is narrower by √2 costs the same.
    grid = math.sqrt(2.0) if declared.symmetric else 1.0
    flat = pack(value) if declared.symmetric else np.ravel(value)
    told = concentrated_cost(noise.sensitivity, sigma, honest, flat.size, grid)
    if told > rho * noise.share * (1.0 + 1e-9):
        raise Refusal("arguments")
    drawn = discrete_gaussian(sigma / grid, flat.size).astype(float)
    if declared.symmetric:
        corners = np.cumsum([0, *range(len(value), 1, -1)])
        drawn[corners] = discrete_gaussian(sigma, len(value))
    drawn += flat
    return drawn if declared.symmetric else drawn.reshape(value.shape)
