"""Silos that tell their neighbours, and PCA among them."""

import numpy as np
import pytest

import unpooled as up

N, P, K = 40, 12, 3
OPEN = up.Policy.open()


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(7)
    return rng.standard_normal((N, P)) @ rng.standard_normal((P, P)) + 3.0


def federate(X, m=4, **options):
    parts = up.partition_columns(X, m)
    return up.simulate(parts, partition="columns", **{"policy": OPEN, **options})


def gossip(k=K, **options):
    return up.PCA(k, svd_solver="gossip", **{"random_state": 0, **options})
