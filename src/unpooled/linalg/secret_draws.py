"""Random numbers that only the holder of some rows can draw, the same whenever it does.

    rows ── SHA-256 ──> seed ──> normal numbers, a rotation

A step is a pure function of the rows, so that a request which is repeated has the same
answer. Nobody else can draw these numbers. Anyone who guesses all rows exactly can
check the guess by them, as by any other answer.
"""

import hashlib

import numpy as np

from unpooled.arrays import Array, Float


def secret_draws(X: Float[Array, "n p"]) -> np.random.Generator:
    """Return a generator that is seeded by a digest of the rows."""
    digest = hashlib.sha256(np.ascontiguousarray(X).tobytes()).digest()
    return np.random.default_rng(int.from_bytes(digest, "big"))


def secret_rotation(X: Float[Array, "n p"], k: int) -> Float[Array, "k k"]:
    """Return a random orthogonal matrix, drawn from a digest of the rows."""
    return np.linalg.qr(secret_draws(X).standard_normal((k, k)))[0]
