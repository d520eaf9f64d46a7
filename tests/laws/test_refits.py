"""Fitting again: nothing of an earlier fit stays, whether the new one ends or fails.

`check_estimator` checks this for every estimator with one set of parameters; here are
those whose fitted attributes differ by parameters and partitions.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

import unpooled as up
from unpooled.errors import AggregationError, DataError
from unpooled.models.base import fitted_names
from unpooled.models.files.catalogue import estimators
from wire import Silos, kind, silos

NAMES = list("abcdef")
FIRST_VIEW, SECOND_VIEW = NAMES[:3], NAMES[3:]


@dataclass(frozen=True)
class Way:
    """One way to fit a model: parameters, and what the silos have."""

    parameters: Mapping[str, Any] = field(default_factory=dict)
    partition: str = "rows"
    y: Any = None
    parties: int = 3
    named: bool = True

    def silos(self) -> Silos:
        if self.partition == "rows":
            made = {f"s{i}": rows(seed=i) for i in range(self.parties)}
        else:
            own = np.array_split(NAMES, self.parties)
            made = {f"s{i}": rows()[[*names, "kind"]] for i, names in enumerate(own)}
        if not self.named:
            made = {party: X[NAMES].to_numpy() for party, X in made.items()}
        how = {"policy": up.Policy.open(), "partition": self.partition}
        label = "kind" if self.named else None
        return silos(made, **how, label=label, random_state=0)

    def fitted(self, model: Any, at: Silos) -> Any:
        parameters = {**type(model)().get_params(), **self.parameters}
        return model.set_params(**parameters).fit(at.federation, self.y)


def rows(n: int = 30, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 6)) @ rng.standard_normal((6, 6)) + 2.0
    return pd.DataFrame(X, columns=NAMES).assign(kind=np.arange(n) % 2)


UNNAMED = Way(named=False)
COLUMNS = Way(partition="columns")
PLS = [Way(y=SECOND_VIEW), Way(partition="columns", parties=2)]
ONE_SHOT = {"ridge": 0.1, "random_state": 0}
PAIR = {"pair": "pairs.local_canonical", "public": {"first": 3}}
VIEWS = [Way({"topology": t}, "columns") for t in ("server", "complete")]
# Ways whose fitted attributes differ; each is tried after the one before it.
WAYS: dict[str, list[Way]] = {
    "CCA": [
        Way(y=SECOND_VIEW),
        Way({"regularisation": 0.1}, y=SECOND_VIEW),
        Way({"solver": "dgep-eigh", **ONE_SHOT}, y=SECOND_VIEW),
        COLUMNS,
        Way({"criterion": "sumcor", "regularisation": 0.5}, "columns"),
    ],
    "GeneralizedEigen": [Way(PAIR), Way({**PAIR, "solver": "dgep-eigh"}, named=False)],
    "Heterogeneity": [Way(), Way({"multivariate": False})],
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
    "MMVFL": [
        Way({"max_iter": 2, "tol": 0.0, "beta": 1.0}, "columns", "kind", n)
        for n in (2, 3)
    ],
    "PCA": [
        Way({"n_components": 2}),
        Way({"n_components": 2, "svd_solver": "krylov"}, named=False),
        Way({"n_components": 2, "svd_solver": "gram"}, "columns"),
        Way({"n_components": 2, "svd_solver": "gossip"}, "columns"),
    ],
    "PLSCanonical": PLS,
    "PLSRegression": PLS,
    "PLSSVD": PLS,
    "PowerTransformer": [
        Way({"comparison": "summed", "tol": 0.01}),
        Way({"comparison": "summed", "tol": 0.01, "standardize": False}, named=False),
    ],
    "SimpleImputer": [Way(), UNNAMED, COLUMNS],
    "StandardScaler": [Way(), UNNAMED, COLUMNS],
    "VFedAKPCA": VIEWS,
    "VFedPCA": VIEWS,
}
PAIRS = [
    pytest.param(name, *pair, id=f"{name}-{i}")
    for name, ways in WAYS.items()
    for i, pair in enumerate(zip([ways[-1], *ways], ways, strict=False))
]


@pytest.mark.parametrize(("name", "first", "second"), PAIRS)
def test_nothing_of_an_earlier_fit_stays(name, first, second):
    model = first.fitted(estimators()[name](), first.silos())
    fresh = second.fitted(estimators()[name](), second.silos())

    second.fitted(model, second.silos())

    assert set(fitted_names(model)) == set(fitted_names(fresh))


@pytest.mark.parametrize("when", ["at once", "at the end"])
@pytest.mark.parametrize("name", WAYS)
def test_a_fit_that_fails_leaves_nothing(name, when):
    way = WAYS[name][0]
    at = way.silos()
    model = way.fitted(estimators()[name](), at)
    check_is_fitted(model)

    again = way.silos()
    steps = 1 if when == "at once" else len(steps_of(at))
    again.wire.on_request = lambda party, data: None if lost(again, steps) else data
    with pytest.raises(AggregationError, match="did not answer"):
        way.fitted(model, again)

    assert len(steps_of(again)) >= steps, "the fit failed elsewhere"
    assert fitted_names(model) == []
    with pytest.raises(NotFittedError):
        check_is_fitted(model)


def steps_of(at: Silos) -> list[bytes]:
    """Return the requests to run a step that went out."""
    return [data for party, data in at.wire.sent if kind(data) == "step"]


def lost(at: Silos, steps: int) -> bool:
    return len(steps_of(at)) >= steps


@pytest.mark.parametrize(
    ("X", "said"),
    [
        (rows(), "takes a Federation"),
        (COLUMNS.silos().federation, "partitions by rows"),
    ],
    ids=["an array", "another partition"],
)
def test_what_was_never_begun_leaves_nothing_either(X, said):
    model = WAYS["Heterogeneity"][0].fitted(up.Heterogeneity(), Way().silos())

    with pytest.raises(DataError, match=said):
        model.fit(X)

    assert fitted_names(model) == []


def test_parameters_and_outputs_survive_a_failed_fit():
    model = up.PCA(2, whiten=True).set_output(transform="pandas")

    with pytest.raises(DataError):
        model.fit(rows())

    assert (model.n_components, model.whiten) == (2, True)
    assert model._sklearn_output_config == {"transform": "pandas"}
