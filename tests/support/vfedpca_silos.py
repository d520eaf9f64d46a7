"""Silos with columns of the same 40 people, for VFedPCA and its reference."""

import numpy as np
import pytest

from unpooled import Policy, partition_columns, simulate

N = 40
# What the reference calls our parameters.
_NAMES = {
    "local_iterations": "local", "warm_start": "warm", "weight_scaling": "scaling",
    "align_signs": "align",
}  # fmt: skip


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(7)
    return rng.standard_normal((N, 9)) @ rng.standard_normal((9, 9)) + 3.0


@pytest.fixture(scope="module")
def init():
    return np.random.default_rng(8).standard_normal(N)


def silos(rows, m=3, **options):
    options = {"policy": Policy.open(), **options}
    return simulate(partition_columns(rows, m), partition="columns", **options)


def as_printed(options):
    """Return options under the names of the reference."""
    return {_NAMES.get(name, name): value for name, value in options.items()}
