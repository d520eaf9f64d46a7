"""Every estimator passes `check_estimator`, on rows and on columns.

An estimator is checked here or in a test file of its own.
"""

import ast
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sklearn.cross_decomposition
import sklearn.decomposition
import sklearn.discriminant_analysis
import sklearn.impute
import sklearn.preprocessing

import unpooled as up
from unpooled.models.files.catalogue import estimators
from unpooled.testing import check_estimator

TESTS = Path(__file__).parents[1]
COLUMNS = {"partition": "columns"}
ONE_SHOT = {"ridge": 0.1, "random_state": 0}
Y = ["e", "f"]


def discriminants(X: np.ndarray, y: Any) -> dict[str, np.ndarray]:
    """Of scikit-learn's fit on pooled rows, what does not depend on its solver."""
    twin = sklearn.discriminant_analysis.LinearDiscriminantAnalysis(solver="eigen")
    twin.fit(X, y)
    names = ("priors_", "means_", "coef_", "intercept_", "explained_variance_ratio_")
    return {name: getattr(twin, name) for name in names}


TRIALS: dict[str, tuple[Any, dict[str, Any]]] = {
    "CCA": (up.CCA(2), {"y": Y}),
    "CCA-regularised": (up.CCA(2, regularisation=0.1), {"y": Y}),
    "CCA-one-shot": (
        up.CCA(2, solver="dgep-eigh", **ONE_SHOT),
        {
            "y": Y,
            "exact": False,
            "expected_failed_checks": {"check_transform": "its rows have no scores"},
        },
    ),
    "CCA-columns": (up.CCA(2), COLUMNS),
    "GeneralizedEigen": (
        up.GeneralizedEigen(2, pair="pairs.local_canonical", public={"first": 3}),
        {
            "exact": False,
            "expected_failed_checks": {"check_ledger": "the pair is the user's own"},
        },
    ),
    "Heterogeneity": (up.Heterogeneity(), {"exact": False}),
    "KernelPCA": (up.KernelPCA(2, approximation="fourier", n_landmarks=8), {}),
    "KernelPCA-columns": (
        up.KernelPCA(2),
        COLUMNS,
    ),
    "LinearDiscriminantAnalysis": (
        up.LinearDiscriminantAnalysis(),
        {
            "y": "kind",
            "pooled": lambda X, y: discriminants(X, y),
        },
    ),
    "LinearDiscriminantAnalysis-one-shot": (
        up.LinearDiscriminantAnalysis(1, solver="dgep-eigh", **ONE_SHOT),
        {"y": "kind", "exact": False},
    ),
    "MMVFL": (
        up.MMVFL(max_iter=2, tol=0.0, beta=1.0),
        {"y": "kind", **COLUMNS, "exact": False},
    ),
    "PCA": (
        up.PCA(3),
        {"pooled": sklearn.decomposition.PCA(3, svd_solver="covariance_eigh")},
    ),
    "PCA-krylov": (up.PCA(2, svd_solver="krylov"), {"ignore": ["residuals_"]}),
    "PCA-columns": (up.PCA(2), COLUMNS),
    "PCA-gossip": (up.PCA(2, svd_solver="gossip"), COLUMNS),
    "PLSCanonical": (up.PLSCanonical(2), {"y": Y}),
    "PLSCanonical-columns": (up.PLSCanonical(2), {**COLUMNS, "n_parties": 2}),
    "PLSRegression": (up.PLSRegression(2), {"y": Y}),
    "PLSRegression-columns": (up.PLSRegression(2), {**COLUMNS, "n_parties": 2}),
    "PLSSVD": (up.PLSSVD(2), {"y": Y}),
    "PowerTransformer": (
        up.PowerTransformer(comparison="summed", tol=0.01),
        {
            "expected_failed_checks": {
                "check_steps": "where a sum overflows its sign alone is kept"
            }
        },
    ),
    "SimpleImputer": (up.SimpleImputer(), {"pooled": sklearn.impute.SimpleImputer()}),
    "SimpleImputer-columns": (up.SimpleImputer(), COLUMNS),
    "RobustScaler-columns": (up.RobustScaler(), COLUMNS),
    "StandardScaler": (
        up.StandardScaler(),
        {"pooled": sklearn.preprocessing.StandardScaler()},
    ),
    "StandardScaler-columns": (up.StandardScaler(), COLUMNS),
    "VFedAKPCA": (up.VFedAKPCA(), {**COLUMNS, "exact": False}),
    "VFedPCA": (up.VFedPCA(rounds=3), {**COLUMNS, "exact": False}),
}
# Solvers that have tests of equality of their own.
ANOTHER_SOLVER = ("regularised", "one-shot", "krylov", "gossip")
CHECKS = [
    pytest.param(
        check,
        id=f"{name}-{check.__name__}",
        marks=pytest.mark.slow if name.endswith(ANOTHER_SOLVER) else (),
    )
    for name, (estimator, options) in TRIALS.items()
    for check in check_estimator(estimator, generate_only=True, **options)
]


@pytest.mark.parametrize("check", CHECKS)
def test_convention(check):
    check()


def test_every_estimator_of_the_library_is_checked():
    checked = {type(estimator).__name__ for estimator, _ in TRIALS.values()}
    for path in TESTS.glob("models/**/test_*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and "check_estimator" in ast.dump(node.func):
                checked |= {
                    name
                    for name in estimators()
                    if any(f"'{name}'" in ast.dump(value) for value in node.args)
                }
    lacking = set(estimators()) - checked
    assert not lacking, (
        f"call check_estimator of {lacking} in a test under tests/models"
    )


@pytest.mark.slow
def test_missing_cells_are_filled_with_the_pooled_means():
    """The default rows have none; these do, in every silo."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((60, 4))
    X[rng.random(X.shape) < 0.2] = np.nan
    check_estimator(up.SimpleImputer(), X, pooled=sklearn.impute.SimpleImputer())
    check_estimator(
        up.StandardScaler(), X, pooled=sklearn.preprocessing.StandardScaler()
    )
