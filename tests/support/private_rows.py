"""Rows on a lattice, and silos that ask for privacy."""

import numpy as np
import pytest

from unpooled import (
    GaussianPrivacy,
    Policy,
    partition_rows,
    simulate,
)

P, K = 6, 2
# So much that the noise is below what is compared.
LOOSE = GaussianPrivacy(400.0, 1e-5, 30.0)


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(7)
    return rng.standard_normal((3000, P)) * [4, 2, 1, 0.5, 0.5, 0.5] + 1.0


def open_silos(rows, m=3, **options):
    return simulate(partition_rows(rows, m), policy=Policy.open(), **options)
