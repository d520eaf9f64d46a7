"""Multivariate statistics across organisations that may not share rows.

>>> import unpooled as up
>>> federation = up.simulate({"a": rows_a, "b": rows_b, "c": rows_c})  # doctest: +SKIP
>>> pca = up.PCA(2).fit(federation)  # doctest: +SKIP
>>> print(federation.ledger)  # doctest: +SKIP

Names load when they are first used, so importing the package costs next to nothing.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unpooled.data.partition import partition_columns, partition_rows
    from unpooled.federation.base import Federation
    from unpooled.federation.local import simulate
    from unpooled.federation.planning import Plan, plan
    from unpooled.ledger import Ledger
    from unpooled.models.cca import CCA
    from unpooled.models.discriminant import LinearDiscriminantAnalysis
    from unpooled.models.eigenproblem import GeneralizedEigen
    from unpooled.models.files import load, save
    from unpooled.models.heterogeneity import Heterogeneity, heterogeneity
    from unpooled.models.imputer import SimpleImputer
    from unpooled.models.kernel_pca import KernelPCA
    from unpooled.models.mmvfl import MMVFL
    from unpooled.models.pca import PCA
    from unpooled.models.pls import PLSSVD, PLSCanonical
    from unpooled.models.pls_regression import PLSRegression
    from unpooled.models.power import PowerTransformer
    from unpooled.models.scaler import StandardScaler
    from unpooled.models.vfedakpca import VFedAKPCA
    from unpooled.models.vfedpca import VFedPCA
    from unpooled.party.policy import Policy
    from unpooled.report.html import report
    from unpooled.secure.noise import GaussianPrivacy
    from unpooled.study import Study

__version__ = "0.1.0"

_HOMES = {
    "CCA": "models.cca",
    "Federation": "federation.base",
    "GaussianPrivacy": "secure.noise",
    "GeneralizedEigen": "models.eigenproblem",
    "Heterogeneity": "models.heterogeneity",
    "KernelPCA": "models.kernel_pca",
    "Ledger": "ledger",
    "LinearDiscriminantAnalysis": "models.discriminant",
    "MMVFL": "models.mmvfl",
    "PCA": "models.pca",
    "PLSCanonical": "models.pls",
    "PLSRegression": "models.pls_regression",
    "PLSSVD": "models.pls",
    "Plan": "federation.planning",
    "Policy": "party.policy",
    "PowerTransformer": "models.power",
    "SimpleImputer": "models.imputer",
    "StandardScaler": "models.scaler",
    "Study": "study",
    "VFedAKPCA": "models.vfedakpca",
    "VFedPCA": "models.vfedpca",
    "heterogeneity": "models.heterogeneity",
    "load": "models.files",
    "partition_columns": "data.partition",
    "partition_rows": "data.partition",
    "plan": "federation.planning",
    "save": "models.files",
    "simulate": "federation.local",
}

__all__ = [
    "CCA",
    "MMVFL",
    "PCA",
    "PLSSVD",
    "Federation",
    "GaussianPrivacy",
    "GeneralizedEigen",
    "Heterogeneity",
    "KernelPCA",
    "Ledger",
    "LinearDiscriminantAnalysis",
    "PLSCanonical",
    "PLSRegression",
    "Plan",
    "Policy",
    "PowerTransformer",
    "SimpleImputer",
    "StandardScaler",
    "Study",
    "VFedAKPCA",
    "VFedPCA",
    "__version__",
    "heterogeneity",
    "load",
    "partition_columns",
    "partition_rows",
    "plan",
    "report",
    "save",
    "simulate",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = getattr(importlib.import_module(f"unpooled.{_HOMES[name]}"), name)
        globals()[name] = value
        return value
    if name in ("errors", "report"):
        # `unpooled.report` is a package that can be called: whatever is imported
        # first, the name means the same object.
        return importlib.import_module(f"unpooled.{name}")
    raise AttributeError(f"module 'unpooled' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "errors"])
