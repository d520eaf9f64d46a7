"""Ways to fit each estimator whose attributes, rounds or arguments differ."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import pytest

import unpooled as up
from tiers import LONG
from wire import Silos, silos

NAMES = list("abcdef")
CATEGORICAL = ["site", "stage"]
FIRST_VIEW, SECOND_VIEW = NAMES[:3], NAMES[3:]


@dataclass(frozen=True)
class Way:
    """One way to fit a model: parameters, and what the silos have."""

    parameters: Mapping[str, Any] = field(default_factory=dict)
    partition: str = "rows"
    y: Any = None
    parties: int = 3
    named: bool = True
    # Which columns are fitted, where the silos have columns of categories too.
    reads: str = ""

    def tables(self) -> dict[str, pd.DataFrame]:
        """Return what each silo has."""
        if self.partition == "columns":
            own = np.array_split(NAMES, self.parties)
            coded = CATEGORICAL if self.reads else []
            X = with_categories(rows(), "s0") if coded else rows()
            # One silo has no column of categories.
            return {
                f"s{i}": X[[*names, *coded[i : i + 1], "kind"]]
                for i, names in enumerate(own)
            }
        made = {f"s{i}": rows(seed=i) for i in range(self.parties)}
        if self.reads:
            made = {name: with_categories(X, name) for name, X in made.items()}
        return made

    def silos(self, **options: Any) -> Silos:
        return self.silos_of(self.tables(), **options)

    def silos_of(self, tables: Mapping[str, pd.DataFrame], **options: Any) -> Silos:
        how: dict[str, Any] = {"categorical": CATEGORICAL} if self.reads else {}
        made = {
            party: X if self.named else X[NAMES].to_numpy()
            for party, X in tables.items()
        }
        how |= {"policy": up.Policy.open(), "partition": self.partition}
        label = "kind" if self.named else None
        return silos(made, **how, label=label, **({"random_state": 0} | options))

    def fitted(self, model: Any, at: Silos) -> Any:
        parameters = {**type(model)().get_params(), **self.parameters}
        return model.set_params(**parameters).fit(self.view(at.federation), self.y)

    def view(self, federation: up.Federation) -> up.Federation:
        coded = self.reads == "categories"
        return federation.select(CATEGORICAL) if coded else federation


def with_categories(X: pd.DataFrame, silo: str) -> pd.DataFrame:
    rng = np.random.default_rng(len(silo) + int(silo[1:]))
    site = rng.choice(["north", "south", "east"], len(X))
    return X.assign(site=site, stage=rng.integers(0, 3, len(X)))


def rows(n: int = 30, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 6)) @ rng.standard_normal((6, 6)) + 2.0
    return pd.DataFrame(X, columns=NAMES).assign(kind=np.arange(n) % 2)


UNNAMED = Way(named=False)
COLUMNS = Way(partition="columns")
PLS = [Way(y=SECOND_VIEW), Way(partition="columns", parties=2)]
ONE_SHOT = {"ridge": 0.1, "random_state": 0}
PAIR = {"pair": "pairs.local_canonical", "public": {"first": 3}}
EACH_KIND = [
    {"model": "StandardScaler", "columns": "numeric"},
    {"model": "OneHotEncoder", "columns": "categorical", "min_frequency": 1},
]
VIEWS = [Way({"topology": t}, "columns") for t in ("server", "complete")]
# Ways whose fitted attributes differ; each is tried after the one before it.
WAYS: dict[str, list[Way]] = {
    "CCA": [
        Way(y=SECOND_VIEW),
        Way({"regularisation": 0.1}, y=SECOND_VIEW),
        Way({"solver": "dgep-eigh", **ONE_SHOT}, y=SECOND_VIEW),
        COLUMNS,
        Way({"criterion": "sumcor", "regularisation": 0.5}, "columns"),
        Way({"standard_errors": True}, y=SECOND_VIEW),
    ],
    "CentreBySite": [Way(), UNNAMED],
    "ColumnTransformer": [
        Way({"transformers": EACH_KIND}, reads="both"),
        Way({"transformers": EACH_KIND}, "columns", reads="both"),
    ],
    "Correlation": [Way(), Way({"missing": "pairwise"}), COLUMNS],
    "DerivedColumns": [Way({"columns": {"ab": "a * b", "c_d": "c - d"}})],
    "Describe": [
        Way({"by": "kind"}),
        Way({"quartiles": False, "decimals": 1}, named=False),
        Way({"quartiles": False}, reads="both"),
        Way({"quartiles": False, "per_silo": True, "by": "kind"}),
        Way({"quartiles": False, "per_silo": "classes", "by": "kind"}),
    ],
    "FAMD": [Way(reads="both"), Way(partition="columns", reads="both")],
    "FactorAnalysis": [Way(), Way({"n_components": 2, "rotation": "varimax"})],
    "GLM": [
        Way(y=["f"]),
        Way({"cov_type": "HC1"}, y=["f"]),
        Way({"site_effects": True, "cov_type": "HC1"}, y=["f"]),
    ],
    "GeneralizedEigen": [Way(PAIR), Way({**PAIR, "solver": "dgep-eigh"}, named=False)],
    "Heterogeneity": [Way(), Way({"multivariate": False})],
    "Histogram": [
        Way({"bins": 3}),
        Way({"bins": 2, "decimals": 1}, named=False),
    ],
    "IterativeImputer": [
        Way({"max_iter": 2}),
        Way({"max_iter": 2, "updates": "column"}, named=False),
    ],
    "KBinsDiscretizer": [
        Way({"n_bins": 2}),
        Way({"n_bins": 2, "encode": "ordinal", "strategy": "uniform"}, named=False),
        Way({"n_bins": 2}, "columns"),
    ],
    "KernelPCA": [
        Way({"approximation": "fourier"}),
        COLUMNS,
        Way({"approximation": "nystroem", "n_landmarks": 8}, "columns"),
        Way({"scores": "parties"}, "columns"),
    ],
    "LinearDiscriminantAnalysis": [
        Way({"scores": "coordinator"}, y="kind"),
        Way({"solver": "dgep-eigh", **ONE_SHOT}, y="kind"),
    ],
    "LinearRegression": [
        Way(y=["f"]),
        Way({"cov_type": "HC0"}, y=["f"]),
        Way({"site_effects": True, "cov_type": "HC0"}, y=["f"]),
        Way(partition="columns", y=["f"]),
    ],
    "LogisticRegression": [
        Way({"C": 1.0}, y="kind"),
        Way(y="kind"),
        Way({"site_effects": True}, y="kind"),
    ],
    "MetaAnalysis": [Way(y=["f"]), Way({"family": "binomial"})],
    "MCA": [Way(reads="categories")],
    "MMVFL": [
        Way({"max_iter": 2, "tol": 0.0, "beta": 1.0}, "columns", "kind", n)
        for n in (2, 3)
    ],
    "OneHotEncoder": [
        Way({"drop": "first"}, reads="categories"),
        Way({"drop": "if_binary"}, "columns", reads="both"),
    ],
    "OrdinalEncoder": [Way(reads="categories"), Way({}, "columns", reads="both")],
    "PCA": [
        Way({"n_components": 2}),
        Way({"n_components": 2, "svd_solver": "krylov"}, named=False),
        Way({"n_components": 2, "svd_solver": "gram"}, "columns"),
        Way({"n_components": 2, "svd_solver": "gossip"}, "columns"),
        Way({"n_components": "press", "cv": 2}),
    ],
    "PLSCanonical": PLS,
    "PLSRegression": PLS,
    "PLSSVD": PLS,
    "PersonalizedPCA": [
        Way(),
        Way({"solver": "stiefel", "tol": 0.9, "n_components": 1}, named=False),
    ],
    "PowerTransformer": [
        Way({"comparison": "summed", "tol": 0.01}),
        Way({"comparison": "summed", "tol": 0.01, "standardize": False}, named=False),
    ],
    "QuantileTransformer": [
        Way({"n_quantiles": 3}),
        Way({"n_quantiles": 3, "output_distribution": "normal"}, named=False),
    ],
    "Quantiles": [
        Way(),
        Way({"probabilities": [0.5], "decimals": 1}, named=False),
        Way({"min_rows": 5}, "columns"),
    ],
    "Ridge": [
        Way(y=["f"]),
        Way({"site_effects": True}, y=["f"]),
        Way(partition="columns", y=["f"]),
    ],
    "RobustScaler": [Way(), Way({"with_centering": False}, named=False)],
    "SimpleImputer": [
        *(Way(), UNNAMED, COLUMNS, Way({"strategy": "median"})),
        Way({"strategy": "median", "add_indicator": True}),
        Way({"strategy": "median", "add_indicator": True}, "columns"),
        Way({"strategy": "most_frequent"}, reads="categories"),
    ],
    "StandardScaler": [Way(), UNNAMED, COLUMNS],
    "VFedAKPCA": VIEWS,
    "VFedPCA": VIEWS,
}


def every_way() -> Iterator[Any]:
    """Yield pytest's parameters (name, way).

    `make test` has the first way of each model whose fit is short.
    """
    for name, ways in WAYS.items():
        for number, way in enumerate(ways):
            marks = (pytest.mark.slow,) if number or name in LONG else ()
            yield pytest.param(name, way, id=f"{name}-{number}", marks=marks)
