"""Partial least squares regression of one party's columns on another party's.

    fit      pairs as in `unpooled.models.two_views.pls_columns`; only the view that
             predicts is deflated, by its own scores t
    at last  silos ── the first view's length, zero from the other ──> Σ, opened by them
             each keeps the slopes of its own columns on t, and its own weights
    predict  silos ── x R from the first, zeros from the second ──> Σ, opened by them
             the second keeps  x R Qᵀ + mean, its own columns as predicted

So nobody but the second party has a prediction, unless it shows it. The coefficients
R Qᵀ are made of what each keeps, and of nothing that both know.

References
----------
Wegelin, A survey of partial least squares (PLS) methods, 2000, section 4.1.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np

from unpooled.arrays import Array, Float
from unpooled.errors import DataError
from unpooled.federation.federation import Federation
from unpooled.linalg.partial_least_squares import rotations
from unpooled.linalg.score_pairs import cosines, score_pairs
from unpooled.models.moments import complete
from unpooled.models.parameter_checks import check_choice, component_count
from unpooled.models.two_views.pls_columns import ColumnSteps as PartySteps
from unpooled.models.two_views.pls_columns import deflations, pair_parties, search_of
from unpooled.protocol.step import (
    Step,
    disclosed,
    kept,
    public,
    release,
    stays,
    summed,
)

SCORES = ("coordinator", "parties", None)


@summed(
    by="party",
    norm=release("", meaning="the length of all rows of the first view, joined"),
    size=stays("", until="fit", meaning="the length of the silo's own rows, joined"),
)
def local_length(
    X: Float[Array, "N p"], kept: Any, party: str, *, first: str
) -> dict[str, Any]:
    """Measure the standardised rows; the first view's length is told to both silos."""
    own = np.array(np.linalg.norm((X - kept["mean"]) / kept["spread"]) or 1.0)
    return {"norm": own if party == first else np.array(0.0), "size": own}


@summed(
    by="party",
    takes={
        "norm": public(
            "", "the length of the first view's rows, which only the silos can open"
        ),
        "k": "size k",
    },
    correlations=release("k", meaning="how strongly the scores of each pair correlate"),
    weights=stays("p k", meaning="the weights of the silo's columns"),
    directions=stays("p k", meaning="the weights of what earlier scores leave"),
    loadings=stays("p k", meaning="the slopes of the silo's columns on the scores"),
)
def local_slopes(
    kept: Any, party: str, *, norm: Float[Array, ""], first: str, k: int
) -> dict[str, Any]:
    """Regress own columns on the first view's scores; keep slopes and weights."""
    Z, seen = kept["rows"], kept["seen"]
    Q = kept["basis"][:, : seen.shape[1]]
    pairs = score_pairs(Z @ Q, seen, k, deflated=deflations(party, [first]))
    predicts = party == first
    t = pairs.own if predicts else pairs.other
    squares = np.einsum("Nk,Nk->k", t, t)
    # `rows` and images have unit length in both silos; slopes have true units.
    loadings = Z.T @ t / np.where(squares > 0, squares, 1.0)
    loadings = loadings * (float(kept["size"]) / float(norm))
    directions = Q @ pairs.weights if predicts else loadings
    W = rotations(directions, loadings)
    return {
        "correlations": cosines(t, Z @ W) * (not predicts),
        "weights": W / kept["spread"][:, None],
        "directions": directions,
        "loadings": loadings,
    }


@summed(
    by="party",
    takes={"like": public("k", "the correlation of the scores of each pair")},
    scores=release(
        "N k", meaning="the scores of people by the first view, for the silos alone"
    ),
)
def local_scores(
    X: Float[Array, "N p"],
    kept: Any,
    party: str,
    *,
    first: str,
    like: Float[Array, " k"],
) -> dict[str, Any]:
    """Score rows, in the silo that has the first view."""
    mean, weights = kept["mean"], kept["weights"]
    if party != first:
        # Its columns may be what is to be predicted, and empty.
        return {"scores": np.zeros((len(X), len(like)))}
    return {"scores": (complete(X) - mean) @ weights}


@kept(
    by="party",
    takes={
        "scores": public("N k", "each person's scores, which only the silos can open")
    },
    predictions=stays("N p", meaning="the silo's columns as the scores tell them"),
)
def own_predictions(kept: Any, *, scores: Float[Array, "N k"]) -> dict[str, Any]:
    """Say of own columns what the first view's scores tell; nothing leaves."""
    slopes = kept["loadings"] * kept["spread"][:, None]
    return {"predictions": scores @ slopes.T + kept["mean"]}


@disclosed(
    by="party",
    takes={"columns": "size q"},
    predictions=release(
        "N q", meaning="the second view's columns as predicted, zeros from the first"
    ),
)
def shown_predictions(
    X: Float[Array, "N p"], kept: Any, party: str, *, first: str, columns: int
) -> dict[str, Any]:
    """Show what was predicted, in the silo that has the second view."""
    own = kept["predictions"]
    return {"predictions": np.zeros((len(X), columns)) if party == first else own}


@disclosed(
    by="party",
    takes={"like": public("k", "the correlation of the scores of each pair")},
    mean=release("p", meaning="the mean of each of the silo's columns"),
    spread=release("p", meaning="what each of the silo's columns is divided by"),
    weights=release("p k", meaning="the weights of the silo's columns"),
    directions=release("p k", meaning="the weights of what earlier scores leave"),
    loadings=release("p k", meaning="the slopes of the silo's columns on the scores"),
)
def shown_model(kept: Any, *, like: Float[Array, " k"]) -> dict[str, Any]:
    """Show what the silo keeps of the model."""
    names = ("mean", "spread", "weights", "directions", "loadings")
    return {name: kept[name] for name in names}


@final
@dataclass(frozen=True)
class ColumnSteps:
    """The steps of this module, and of the search, under a model's name (`adopted`)."""

    pairs: PartySteps
    length: Step
    slopes: Step
    scores: Step
    predictions: Step
    shown_predictions: Step
    shown_model: Step


def fit_columns(model: Any, federation: Federation, steps: ColumnSteps, y: Any) -> None:
    """Fit a `PLSRegression` of one party's view on the other's; sets its attributes."""
    check_choice("scores", model.scores, SCORES)
    search, own = search_of(model), federation.columns_of
    first, second = roles(federation, y)
    N = int(federation.n_rows or 0)
    k = component_count(model.n_components, min(N, len(own[first])))
    start, names = {"scaled": bool(model.scale)}, [first]
    _, model.n_iter_ = pair_parties(
        "PLSRegression", federation, steps.pairs, start, search, k, deflated=names
    )
    told = federation.sum(steps.length, to="parties", first=first)
    found = federation.sum(steps.slopes, first=first, k=k, **told)
    model.score_correlations_, model.n_samples_ = found["correlations"], N
    model.x_party_, model.y_party_ = first, second
    model.x_columns_, model.y_columns_ = list(own[first]), list(own[second])


def predicted(model: Any, view: Federation, steps: ColumnSteps) -> Any:
    """Have the second party predict its columns for a federation's rows.

    Returns
    -------
    (N, q) array, or None where the second party alone has them
    """
    if model.scores is None:
        raise DataError('scores=None: nobody may predict; say "parties".')
    first, like = model.x_party_, model.score_correlations_
    with view.fitting():
        told = view.sum(
            steps.scores, to="parties", kept_of=model.kept_, first=first, like=like
        )
        view.keep(steps.predictions, kept_of=model.kept_, **told)
        if model.scores == "parties":
            return None
        q = len(model.y_columns_)
        shown = view.collect(steps.shown_predictions, first=first, columns=q)
    return shown[model.y_party_]["predictions"]


def gather(model: Any, federation: Federation, steps: ColumnSteps) -> None:
    """Ask both parties for what they keep of a model, and set its attributes."""
    told = federation.collect(
        steps.shown_model, kept_of=model.kept_, like=model.score_correlations_
    )
    for side, party in (("x", model.x_party_), ("y", model.y_party_)):
        own = told[party]
        found = {
            "mean": own["mean"],
            "std": own["spread"],
            "weights": own["directions"],
            "loadings": own["loadings"],
            "rotations": own["weights"] * own["spread"][:, None],
        }
        for name, value in found.items():
            setattr(model, f"{side}_{name}_", value)
    coef = model.x_rotations_ @ model.y_loadings_.T
    model.coef_ = (coef * model.y_std_).T / model.x_std_
    model.intercept_ = model.y_mean_.copy()


def roles(federation: Federation, y: Any) -> tuple[str, str]:
    """Return the party that predicts and the one that is predicted, named by y."""
    parties, own = federation.parties, federation.columns_of
    if len(parties) != 2:
        raise DataError(
            f"PLSRegression takes the views of 2 parties, not of {len(parties)}; "
            f"CCA takes any number."
        )
    # A study hands its label to every model that names no columns.
    second = parties[1] if y in (None, federation.label) else _party_of(y, own)
    if second is None:
        raise DataError(
            f"y={y!r}: on a column partition name the party whose columns are "
            f"predicted, {' or '.join(parties)}, or all of its columns."
        )
    return next(party for party in parties if party != second), second


def _party_of(y: Any, own: Any) -> str | None:
    names: Sequence[Any] = [y] if isinstance(y, str) else list(y)
    if len(names) == 1 and names[0] in own:
        return names[0]
    return next((p for p, columns in own.items() if set(columns) == set(names)), None)


def of_party(federation: Federation, party: str) -> Federation:
    """Describe one party's columns as a federation's; it is never asked anything."""
    view, layout = federation.over(federation.coordinator), federation.layout
    view.layout = replace(layout, columns_of={party: layout.columns_of[party]})
    return view
