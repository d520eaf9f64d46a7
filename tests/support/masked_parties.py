"""Parties that share keys, and how uneven their masked words are.

Chi-square over the 256 values of a byte has 255 degrees of freedom. A leak of any
structure lies thousands above the threshold.
"""

import itertools

import numpy as np
import pytest
import scipy.stats

from chance import RARE
from unpooled.arrays import Array
from unpooled.secure.sums.fixed_point import BoundedCode, Code, WideCode
from unpooled.secure.sums.masking import MaskedSum

UNIFORM = scipy.stats.chi2.isf(RARE, 255)
CODES = pytest.mark.parametrize("make", [WideCode, BoundedCode])
NAMES = "abcde"


def unevenness(words: Array) -> float:
    """Chi-square of the bytes against the uniform distribution."""
    counts = np.bincount(np.ascontiguousarray(words).view(np.uint8).ravel(), None, 256)
    return float(scipy.stats.chisquare(counts).statistic)


def masked_sums(seed: int | None = None) -> list[MaskedSum]:
    """Five parties that share keys, fresh or those of a seed."""
    rng = np.random.default_rng(seed)
    keys = {pair: rng.bytes(32) for pair in itertools.combinations(NAMES, 2)}
    return [
        MaskedSum(i, {j: keys[min(i, j), max(i, j)] for j in NAMES if j != i})
        for i in NAMES
    ]


def added(parts: list[Array], code: Code) -> Array:
    return MaskedSum().added(parts, code)


def conceal_all(
    sums: list[MaskedSum], values: Array, code: Code, context: bytes = b"context"
) -> list[Array]:
    return [
        party.conceal(part, code, context)
        for party, part in zip(sums, values, strict=True)
    ]
