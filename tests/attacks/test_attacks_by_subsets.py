"""Attacks on a silo's own matrices by one-shot fits on many subsets of columns.

The total of a one-shot fit, Σ (B_s + r)^(-1/2) A_s (B_s + r)^(-1/2), is of functions of
each silo's own matrices. On all subsets of some columns it is more equations than these
matrices have numbers, and a few steps of least squares solve them.
"""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import least_squares

import unpooled as up
from unpooled.arrays import Array
from unpooled.errors import ReleaseRefusedError

COLUMNS, SILOS, RIDGE, OPEN = list("abcd"), "xyz", 0.1, {"allow_disclosed": True}
P = len(COLUMNS)
SUBSETS = [
    list(chosen)
    for size in range(1, P + 1)
    for chosen in itertools.combinations(range(P), size)
]
_LOWER = np.tril_indices(P)


def tables() -> dict[str, pd.DataFrame]:
    rng = np.random.default_rng(0)
    made = {}
    for name in SILOS:
        kind = rng.integers(0, 2, 120)
        spread = np.eye(P) + 0.4 * rng.normal(size=(P, P))
        X = rng.normal(size=(120, P)) @ spread + np.outer(kind, rng.normal(size=P))
        made[name] = pd.DataFrame(X, columns=COLUMNS).assign(kind=kind)
    return made


def matrices(frame: pd.DataFrame) -> tuple[Array, Array]:
    """Return a silo's scatter between and within its classes."""
    X, means = frame[COLUMNS], frame.groupby("kind")[COLUMNS].transform("mean")
    between, within = means - X.mean(), X - means
    return (between.T @ between).to_numpy(), (within.T @ within).to_numpy()


def totals(here: up.Federation) -> list[Array]:
    """Return what a one-shot fit opens of each subset of the columns."""
    found, honest = list[dict[str, Array]](), here.coordinator.run_step

    def run_step(call: Any) -> dict[str, Any]:
        found.append(honest(call))
        return found[-1]

    here.coordinator.run_step = run_step
    opened = []
    for chosen in SUBSETS:
        model = up.LinearDiscriminantAnalysis(solver="dgep-eigh", ridge=RIDGE)
        model.fit(here.select([COLUMNS[j] for j in chosen]), "kind")
        opened.append(found[-1]["M"])
    return opened


def whitened(A: Array, B: Array) -> Array:
    values, V = np.linalg.eigh(B + RIDGE * np.eye(len(B)))
    root = (V / np.sqrt(values)) @ V.T
    return root @ A @ root


def of_numbers(x: Array) -> list[tuple[Array, Array]]:
    """Return a pair of matrices for each silo; of two classes one has rank 1."""
    pairs = []
    for own in x.reshape(len(SILOS), -1):
        L = np.zeros((P, P))
        L[_LOWER] = own[P:]
        pairs.append((np.outer(own[:P], own[:P]), L @ L.T))
    return pairs


def solved(opened: Sequence[Array]) -> list[tuple[Array, Array]]:
    """Return the silos' matrices; Σ A and Σ B are what `diagnose` opens."""
    own = np.array([matrices(frame) for frame in tables().values()])
    A, B = own.sum(axis=0)
    unit = np.sqrt(np.outer(np.diag(B), np.diag(B)))

    def residuals(x: Array) -> Array:
        pairs = of_numbers(x)
        all_A, all_B = np.array(pairs).sum(axis=0)
        parts = [(all_A - A) / 10.0, (all_B - B) / unit * 10.0]
        for chosen, total in zip(SUBSETS, opened, strict=True):
            at = np.ix_(chosen, chosen)
            sums = np.sum([whitened(a[at], b[at]) for a, b in pairs], axis=0)
            parts.append(30.0 * (sums - total))
        return np.concatenate([part[np.tril_indices(len(part))] for part in parts])

    # Most starts end at the solution; others at a worse one, which is seen.
    rng, start, tight = np.random.default_rng(0), list[Array](), 1e-15
    for _ in SILOS:
        L = np.linalg.cholesky(B / 3.0) + 1.5 * rng.normal(size=(P, P))
        start += [rng.normal(size=P) * np.sqrt(np.diag(A) / 3.0), L[_LOWER]]
    found = least_squares(
        residuals, np.concatenate(start), xtol=tight, ftol=tight, gtol=tight
    )
    return of_numbers(found.x)


@pytest.mark.slow
@pytest.mark.parametrize("follow", [False, True])
def test_one_shot_fits_are_answered_for_one_set_of_columns(follow):
    here = up.simulate(tables(), label="kind", follow=follow)
    with pytest.raises(ReleaseRefusedError, match="one_setting"):
        totals(here)


def test_control_all_subsets_of_four_columns_give_each_silos_matrices():
    found = solved(totals(up.simulate(tables(), label="kind", policy=OPEN)))
    for frame in tables().values():
        A, B = matrices(frame)
        a, b = min(found, key=lambda pair: np.abs(pair[1] - B).max())
        assert_allclose(a, A, rtol=1e-4)
        assert_allclose(b, B, rtol=1e-4)


@pytest.mark.slow
def test_the_same_fit_and_other_columns_are_answered():
    here = up.simulate(tables(), label="kind", follow=True)
    for chosen in (["a", "b"], ["a", "b"], ["c"]):
        model = up.LinearDiscriminantAnalysis(solver="dgep-eigh", ridge=RIDGE)
        model.fit(here.select(chosen), "kind")
