"""A silo with fewer blocks than folds has no rows in some: its part of totals is zero.

Each fit equals that of the other silos alone, on the same rows.
"""

import dataclasses

import numpy as np
import pandas as pd
import pytest

import unpooled as up
from silo_rows import view_of
from unpooled.models.base import fitted_names

NAMES = list("abcdef")
ONE_SHOT = {"ridge": 0.1, "random_state": 0}
POLICY = dataclasses.replace(up.Policy.open(), min_rows=10)


def frame(n: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 6)) @ rng.standard_normal((6, 6)) + 2.0
    return pd.DataFrame(X, columns=NAMES).assign(kind=np.arange(n) % 3)


TABLES = {
    "s0": frame(60, 0),
    "s1": frame(70, 1),
    "s2": frame(80, 2),
    "s3": frame(12, 3),
}


@pytest.fixture(scope="module")
def test_view():
    federation = up.simulate(TABLES, label="kind", policy=POLICY, random_state=0)
    tests = [test for _, test in federation.folds(3, random_state=0)]
    return next(test for test in tests if not view_of(test, "s3").n_rows)


@pytest.fixture(scope="module")
def others(test_view):
    """The rows of the silos that have any."""
    rows = {party: view_of(test_view, party).rows() for party in TABLES}
    parts = {party: TABLES[party][kept] for party, kept in rows.items() if kept.any()}
    assert set(parts) == {"s0", "s1", "s2"}
    return up.simulate(parts, label="kind", policy=POLICY, random_state=0)


@pytest.mark.thinned(5)
@pytest.mark.parametrize(
    ("model", "y"),
    [
        (up.StandardScaler(), None),
        (up.SimpleImputer(), None),
        (up.PowerTransformer(comparison="summed", tol=0.01), None),
        (up.PCA(2), None),
        (up.KernelPCA(2, approximation="fourier", random_state=0), None),
        (up.LinearDiscriminantAnalysis(), "kind"),
        (up.LinearDiscriminantAnalysis(solver="dgep-eigh", **ONE_SHOT), "kind"),
        (up.CCA(1), NAMES[3:]),
        (up.CCA(1, solver="dgep-eigh", **ONE_SHOT), NAMES[3:]),
        (up.PLSCanonical(1), NAMES[3:]),
        (up.PLSRegression(1), NAMES[3:]),
        (up.PLSSVD(1), NAMES[3:]),
    ],
    ids=lambda given: type(given).__name__,
)
def test_a_fit_is_that_of_the_silos_with_rows(model, y, test_view, others):
    ours = type(model)(**model.get_params()).fit(test_view, y)
    theirs = type(model)(**model.get_params()).fit(others, y)
    for name in fitted_names(theirs):
        one, other = getattr(ours, name), getattr(theirs, name)
        if isinstance(other, np.ndarray) and other.dtype == float:
            scale = 1e-9 * np.abs(other).max(initial=1e-12)
            np.testing.assert_allclose(one, other, rtol=1e-7, atol=scale)
