"""Rows for the tests of PCA, its twin on pooled rows, and silos to fit it on."""

import numpy as np
import sklearn.decomposition

from unpooled import partition_rows, simulate

N, P = 120, 6


def correlated_rows():
    rng = np.random.default_rng(7)
    return rng.standard_normal((N, P)) @ rng.standard_normal((P, P)) + 10.0


def pooled(rows, n_components=None, **options):
    options = {"svd_solver": "full", **options}
    return sklearn.decomposition.PCA(n_components, **options).fit(rows)


def three_silos(rows, **options):
    return simulate(partition_rows(rows, 3), **options)
