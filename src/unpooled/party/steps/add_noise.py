"""Noise for differential privacy, added in the silo before anything is masked.

The silo draws noise for the cost that it computes itself
(`unpooled.protocol.privacy_cost`), never for a scale that the coordinator sends. A
private step may only read views in which one row more changes no other row.
"""

import math
from collections.abc import Sequence

import numpy as np

from unpooled.arrays import Array, Float
from unpooled.linalg.moments import pack
from unpooled.protocol.declaration import Declared
from unpooled.protocol.privacy_cost import is_private
from unpooled.protocol.refusal import Refusal
from unpooled.protocol.step import Step, find_step
from unpooled.protocol.view_operations import Complete, Derive, Operation, Rows
from unpooled.secure.noise import cost_of, discrete_gaussian


def check_inputs(step: Step, operations: Sequence[Operation]) -> None:
    """Refuse a private step on a view that was computed from the data without noise.

    A fitted transform depends on its rows, and the rows of a fold depend on how many
    there are. Which rows are complete depends on each row alone, but whether others are
    few is a reason to refuse. What a fit finds for a transform are arrays, or stays in
    the silo; others depend on public numbers alone, as a constant in missing cells
    does. A transform declared `from_noise` has arrays that a private fit found: its
    cost was charged, and each row that it makes depends on one row and on these.
    """
    for operation in operations if is_private(step) else ():
        made = find_step(operation.step) if isinstance(operation, Derive) else None
        fitted = made is not None and (made.takes or "kept" in made.reads)
        fitted = fitted and not (made is not None and made.from_noise)
        if fitted or isinstance(operation, Rows | Complete):
            raise Refusal("private_inputs")


def honest_shares(m: int, protection: str) -> int:
    """Return the number of silos whose shares make up the noise of a total.

    All but one, whose share an adversary may know. Where totals travel in clear, every
    silo's own value is seen and needs the whole noise.
    """
    return max(m - 1, 1) if protection == "masked" else 1


def noised(
    value: Float[Array, "..."], declared: Declared, rho: float, honest: int
) -> Float[Array, "..."]:
    """Return whole numbers plus this party's share of the noise.

    A symmetric array comes back as its triangle.

    Parameters
    ----------
    value : array
        Whole numbers.
    declared : Declared
        With its `noise`.
    rho : float
        Cost (ρ) of the step.
    honest : int
        Number of shares, from `honest_shares`.
    """
    noise = declared.noise
    if noise is None:
        raise Refusal("require_privacy")
    sigma = noise.sigma(rho) / math.sqrt(honest)
    # With the pairs that a symmetric array has twice, its entries off the diagonal
    # weigh double; noise on them that is narrower by √2 costs the same.
    grid = math.sqrt(2.0) if declared.symmetric else 1.0
    flat = pack(value) if declared.symmetric else np.ravel(value)
    spent = cost_of(noise.sensitivity, sigma, honest)
    if spent > rho * noise.share * (1.0 + 1e-9):
        raise Refusal("arguments")
    released = discrete_gaussian(sigma / grid, flat.size).astype(float)
    if declared.symmetric:
        corners = np.cumsum([0, *range(len(value), 1, -1)])
        released[corners] = discrete_gaussian(sigma, len(value))
    released += flat
    return released if declared.symmetric else released.reshape(value.shape)
