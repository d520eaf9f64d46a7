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
    from unpooled.federation.federation import Federation
    from unpooled.federation.local import simulate
    from unpooled.federation.planning.dry_run import plan
    from unpooled.federation.planning.plan import Plan
    from unpooled.ledger import Ledger
    from unpooled.models.discriminant.discriminant import LinearDiscriminantAnalysis
    from unpooled.models.files.model_file import load, save
    from unpooled.models.generalized_eigen.generalized_eigen import GeneralizedEigen
    from unpooled.models.heterogeneity.heterogeneity import Heterogeneity, heterogeneity
    from unpooled.models.kernel_pca.kernel_pca import KernelPCA
    from unpooled.models.mmvfl.mmvfl import MMVFL
    from unpooled.models.pca.pca import PCA
    from unpooled.models.preprocessing.imputer import SimpleImputer
    from unpooled.models.preprocessing.power import PowerTransformer
    from unpooled.models.preprocessing.scaler import StandardScaler
    from unpooled.models.two_views.cca import CCA
    from unpooled.models.two_views.pls import PLSSVD, PLSCanonical
    from unpooled.models.two_views.pls_regression import PLSRegression
    from unpooled.models.vertical_pca.vfedakpca import VFedAKPCA
    from unpooled.models.vertical_pca.vfedpca import VFedPCA
    from unpooled.party.rules.policy import Policy
    from unpooled.report.html import report
    from unpooled.secure.noise import GaussianPrivacy
    from unpooled.study import Study

__version__ = "0.1.0"

_HOMES = {
    "CCA": "models.two_views.cca",
    "Federation": "federation.federation",
    "GaussianPrivacy": "secure.noise",
    "GeneralizedEigen": "models.generalized_eigen.generalized_eigen",
    "Heterogeneity": "models.heterogeneity.heterogeneity",
    "KernelPCA": "models.kernel_pca.kernel_pca",
    "Ledger": "ledger",
    "LinearDiscriminantAnalysis": "models.discriminant.discriminant",
    "MMVFL": "models.mmvfl.mmvfl",
    "PCA": "models.pca.pca",
    "PLSCanonical": "models.two_views.pls",
    "PLSRegression": "models.two_views.pls_regression",
    "PLSSVD": "models.two_views.pls",
    "Plan": "federation.planning.dry_run",
    "Policy": "party.rules.policy",
    "PowerTransformer": "models.preprocessing.power",
    "SimpleImputer": "models.preprocessing.imputer",
    "StandardScaler": "models.preprocessing.scaler",
    "Study": "study",
    "VFedAKPCA": "models.vertical_pca.vfedakpca",
    "VFedPCA": "models.vertical_pca.vfedpca",
    "heterogeneity": "models.heterogeneity.heterogeneity",
    "load": "models.files.model_file",
    "partition_columns": "data.partition",
    "partition_rows": "data.partition",
    "plan": "federation.planning.dry_run",
    "save": "models.files.model_file",
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
