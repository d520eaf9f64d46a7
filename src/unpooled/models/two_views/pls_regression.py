"""Partial least squares regression of one view of the rows on another.

    three rounds of moments ──> S_xx, S_xy, S_yy
    the leading singular pair of S_xy, k times; after each pair S_xx and S_xy are
    deflated by the pair's score of the first view

Deflation acts on the covariances, never on rows: see
`unpooled.linalg.partial_least_squares`.

On a column partition each party is a view, and the one that `y` names is predicted:

    pairs    as in `unpooled.models.two_views.pls_columns`; the first view is deflated,
             by its own scores t
    slopes   silos ── the norm of the first view, 0 from the other party ──> Σ, opened
             by the silos; each keeps its weights and the slopes of its columns on t
    predict  silos ── x R from the first party, 0 from the second ──> Σ, opened by the
             silos; the second keeps its predicted columns  x R Qᵀ + mean

So only the second party has predictions, unless it discloses them. The coefficients
R Qᵀ are products of a matrix that one party keeps and one that the other keeps.
"""

from collections.abc import Mapping, Sequence
from typing import Any, final

import numpy as np

from unpooled.arrays import Array, Float
from unpooled.errors import DataError
from unpooled.federation.federation import Federation
from unpooled.linalg.canonical_correlation import Covariances
from unpooled.linalg.partial_least_squares import partial_least_squares, rotations
from unpooled.linalg.regression_fit import importance, response_fit
from unpooled.linalg.score_pairs import cosines, score_pairs
from unpooled.models.base import check_federation, described
from unpooled.models.moments import complete
from unpooled.models.parameter_checks import check_choice, component_count
from unpooled.models.two_views.pls import WEGELIN, PartialLeastSquares
from unpooled.models.two_views.pls_columns import check_two_parties, deflated_views
from unpooled.models.two_views.two_views import Predicting
from unpooled.protocol.step import disclosed, kept, public, release, stays, summed
from unpooled.results.citations import Citation

SCORES = ("coordinator", "parties", None)
_OF_VIEWS = ("weights", "loadings", "rotations", "mean", "std")


@summed(
    by="party",
    between_two=True,
    norm=release(
        "",
        meaning="Frobenius norm of the first view, standardised (root of the squares "
        "of all its entries, added)",
    ),
    size=stays("", until="fit", meaning="the Frobenius norm of the silo's own view"),
)
def local_length(
    X: Float[Array, "N p"], kept: Any, party: str, *, first: str
) -> dict[str, Any]:
    """Release the norm of the standardised rows of the first view; others send 0."""
    size = np.array(np.linalg.norm((X - kept["mean"]) / kept["spread"]) or 1.0)
    return {"norm": size if party == first else np.array(0.0), "size": size}


@summed(
    by="party",
    takes={
        "norm": public(
            "", "the length of the first view's rows, which only the silos can open"
        ),
        "k": "size k",
    },
    correlations=release("k", meaning="the correlation of the scores of each pair"),
    weights=stays("p k", meaning="the weights of the silo's columns"),
    directions=stays("p k", meaning="the weights of the silo's deflated columns"),
    loadings=stays("p k", meaning="the slopes of the silo's columns on the scores"),
)
def local_slopes(
    kept: Any, party: str, *, norm: Float[Array, ""], first: str, k: int
) -> dict[str, Any]:
    """Regress own columns on the first view's scores; keep slopes and weights."""
    Z, seen = kept["rows"], kept["seen"]
    Q = kept["basis"][:, : seen.shape[1]]
    pairs = score_pairs(Z @ Q, seen, k, deflated=deflated_views(party, [first]))
    predicts = party == first
    t = pairs.own if predicts else pairs.other
    squares = np.einsum("Nk,Nk->k", t, t)
    # The rows that both silos keep have norm 1; slopes are in units of the true norms.
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
    between_two=True,
    takes={"like": public("k", "the correlation of the scores of each pair")},
    scores=release(
        "N k",
        meaning="each person's scores from the first view, opened by the silos alone",
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
    """Release the scores of rows from the silo that has the first view."""
    mean, weights = kept["mean"], kept["weights"]
    if party != first:
        # X may be the columns that are to be predicted, without values yet.
        return {"scores": np.zeros((len(X), len(like)))}
    return {"scores": (complete(X) - mean) @ weights}


@kept(
    by="party",
    takes={
        "scores": public("N k", "each person's scores, which only the silos can open")
    },
    predictions=stays(
        "N p", meaning="the silo's columns as predicted from the first view's scores"
    ),
)
def own_predictions(kept: Any, *, scores: Float[Array, "N k"]) -> dict[str, Any]:
    """Predict the silo's own columns from the first view's scores; nothing leaves."""
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
    """Disclose the predictions from the silo that has the second view."""
    predictions = kept["predictions"]
    if party == first:
        return {"predictions": np.zeros((len(X), columns))}
    return {"predictions": predictions}


@disclosed(
    by="party",
    takes={"like": public("k", "the correlation of the scores of each pair")},
    mean=release("p", meaning="the mean of each of the silo's columns"),
    spread=release("p", meaning="the number that each column is divided by"),
    weights=release("p k", meaning="the weights of the silo's columns"),
    directions=release("p k", meaning="the weights of the silo's deflated columns"),
    loadings=release("p k", meaning="the slopes of the silo's columns on the scores"),
)
def shown_model(kept: Any, *, like: Float[Array, " k"]) -> dict[str, Any]:
    """Disclose the silo's part of the model."""
    names = ("mean", "spread", "weights", "directions", "loadings")
    return {name: kept[name] for name in names}


@final
class PLSRegression(PartialLeastSquares, Predicting):
    """Partial least squares regression over a federation: the pooled answer.

    Parameters
    ----------
    n_components : int, default 2
        k, at most min(N, p).
    scale : bool, default True
        Divide columns by their standard deviations first.
    solver : {"auto", "direct", "krylov"}, default "auto"
        Column partitions only: how directions are found; see `PLSSVD`.
    tol : float, default 1e-9
        Column partitions only: largest error of the weights; see `PLSSVD`.
    max_iter : int, default 100
        Column partitions only: maximum number of rounds of directions.
    scores : {"coordinator", "parties"} or None, default "coordinator"
        Column partitions only: who receives the predictions and the scores that
        `transform` returns. With "coordinator" the coordinator does; with "parties"
        only the party whose columns are predicted has predictions, and nobody receives
        scores; with None neither are made.
    random_state : int, optional
        Column partitions only: seed of the first directions of "krylov"; None takes
        the federation's.

    Attributes
    ----------
    x_weights_ : (p, k) array
        Unit vectors whose scores of the deflated first view have the largest
        covariance with the second view's; in each the entry of largest magnitude is
        positive.
    y_weights_ : (q, k) array
        Weights of the second view, paired with `x_weights_`.
    x_loadings_ : (p, k) array
        Slopes of the deflated first view's columns on its scores.
    y_loadings_ : (q, k) array
        Slopes of the second view's columns on the scores that deflate them.
    x_rotations_ : (p, k) array
        ``x_scores = (X - x_mean_) / x_std_ @ x_rotations_``.
    y_rotations_ : (q, k) array
        ``y_scores = (Y - y_mean_) / y_std_ @ y_rotations_``.
    coef_ : (q, p) array
        ``predict`` is ``(X - x_mean_) @ coef_.T + intercept_``.
    intercept_ : (q,) array
        The means of the second view.
    x_mean_ : (p,) array
        Means of the first view's columns.
    x_std_ : (p,) array
        What these columns are divided by after centring: with `scale` their standard
        deviations (denominator N - 1), else 1.
    y_mean_ : (q,) array
        Means of the second view's columns.
    y_std_ : (q,) array
        What these columns are divided by after centring: with `scale` their standard
        deviations (denominator N - 1), else 1.
    x_columns_ : list of str
        Names of the first view's columns.
    y_columns_ : list of str
        Names of the second view's columns.
    score_correlations_ : (k,) array
        Correlation of the scores of each pair, in the order of the pairs.
    x_correlations_ : (p, k) array
        Correlations of the first view's columns with its scores.
    y_correlations_ : (q, k) array
        Correlations of the second view's columns with its scores.
    x_cross_correlations_ : (p, k) array
        Correlations of the first view's columns with the second view's scores.
    y_cross_correlations_ : (q, k) array
        Correlations of the second view's columns with the first view's scores.
    r2_ : (q,) array
        Only on a row partition: coefficient of determination of each column of the
        second view as predicted, on the rows of the fit; NaN for a constant column.
    rmse_ : (q,) array
        Only on a row partition: root mean squared error of these predictions, with
        denominator N, in the units of the column.
    vip_ : (p,) array
        Only on a row partition: variable importance in projection of each column of the
        first view; the mean of its squares is 1.
    x_explained_variance_ratio_ : (k,) array
        Only on a row partition: share of the first view's variance, in units of
        `x_std_`, that each component explains.
    y_explained_variance_ratio_ : (k,) array
        Only on a row partition: the same of the second view.
    n_iter_ : int
        Only on a column partition: number of rounds of directions.
    x_party_ : str
        Only on a column partition: the party from whose columns it predicts.
    y_party_ : str
        Only on a column partition: the party whose columns are predicted.
    n_samples_ : int
        N, the number of rows of all silos.
    kept_ : str
        Only on a column partition: study and view under which the silos keep their
        weights.
    n_features_in_ : int
        p, the number of columns of the first view.
    feature_names_in_ : (p,) array of str
        Their names, where the silos' tables have names.

    Raises
    ------
    DataError
        Missing values, fewer than two rows, `n_components` beyond its bound, or a
        column partition of more or fewer than two parties.
    ConvergenceError
        On a column partition, when `max_iter` rounds were not enough for `tol`.

    Notes
    -----
    Released, as totals only: the number of rows; the sum and the sum of squared
    deviations of each column of both views; their cross-product matrix about the means
    (products of every two columns' deviations, added over all rows). Never released: a
    row, a score, or any silo's own moments.

    On a column partition the argument `y` of `fit` names the party whose columns are
    predicted; by default it is the second. The totals are about people, and who
    receives them is as described for `PLSSVD`. Each party keeps its weights and the
    slopes of its own columns. ``predict(federation)`` sends the first party's scores to
    the second, which keeps the predictions, and with ``scores="coordinator"`` discloses
    them; its own columns are not read. Reading `coef_`, or any attribute about single
    columns, has both parties disclose their part of the model.

    See Also
    --------
    sklearn.cross_decomposition.PLSRegression : its twin on pooled rows, which finds
        each pair by power iterations and stops at `tol`.

    References
    ----------
    Wegelin, A survey of partial least squares (PLS) methods, 2000, section 4.1.

    Wold, Sjöström and Eriksson, PLS-regression: a basic tool of chemometrics,
    Chemometrics and Intelligent Laboratory Systems 58 (2001).
    """

    _deflates = "first"
    x_party_: str
    y_party_: str
    score_correlations_: Float[Array, " k"]

    _kept_by_silos = (
        *(f"{side}_{name}_" for name in _OF_VIEWS for side in "xy"),
        "coef_",
        "intercept_",
    )

    def _citation(self) -> Citation:
        return Citation(
            f"A partial least squares regression (PLS2) was fitted{self._scaled}.",
            (
                WEGELIN,
                "Wold S, Sjöström M, Eriksson L. PLS-regression: a basic tool of "
                "chemometrics. Chemometrics and Intelligent Laboratory Systems 2001; "
                "58: 109-130.",
            ),
        )

    def _solve(self, S: Covariances, k: int) -> None:
        self._set_latent(partial_least_squares(S, k, regression=True))
        self._set_correlations(S)
        R, Q = self.x_rotations_, self.y_loadings_
        self._set_fit(response_fit(S, R, Q))
        found = importance(S, self.x_weights_, R, self.x_loadings_, Q)
        self.vip_ = found.vip
        self.x_explained_variance_ratio_ = found.x_shares
        self.y_explained_variance_ratio_ = found.y_shares

    def _fit_parties(self, federation: Federation, y: Any) -> None:
        """Fit one party's columns on the other's, which `y` may name."""
        check_choice("scores", self.scores, SCORES)
        columns = federation.columns_of
        first, second = _roles(federation, y)
        N, p = int(federation.n_rows or 0), len(columns[first])
        k = component_count(self.n_components, min(N, p))
        self._fit_columns(federation, k, deflated=[first])
        norm = federation.sum(local_length, to="parties", first=first)["norm"]
        slopes = federation.sum(local_slopes, first=first, k=k, norm=norm)
        self.score_correlations_ = slopes["correlations"]
        self.x_party_, self.y_party_ = first, second
        self.x_columns_, self.y_columns_ = list(columns[first]), list(columns[second])

    def _inputs(self, federation: Federation, y: Any) -> Federation:
        if federation.partition == "columns":
            return described(federation, self.x_columns_)
        return super()._inputs(federation, y)

    def predict(self, X: Any) -> Any:
        """Return the columns of the second view, predicted from the first.

        Parameters
        ----------
        X : (n, p) array-like or Federation
            Rows of the first view. With a federation by columns, the party that has the
            second view receives the predictions.

        Returns
        -------
        (n, q) array, or None if only that party has them
        """
        if isinstance(X, Federation) and hasattr(self, "kept_"):
            return self._predict_parties(check_federation(self, X))
        return super().predict(X)

    def _predict_parties(self, federation: Federation) -> Float[Array, "N q"] | None:
        if self.scores is None:
            raise DataError('scores=None: nobody may predict; choose "parties".')
        first, like = self.x_party_, self.score_correlations_
        with federation.calling(self, "predict"):
            totals = federation.sum(
                local_scores, to="parties", kept_of=self.kept_, first=first, like=like
            )
            federation.keep(own_predictions, kept_of=self.kept_, **totals)
            if self.scores == "parties":
                return None
            q = len(self.y_columns_)
            shown = federation.collect(shown_predictions, first=first, columns=q)
        return shown[self.y_party_]["predictions"]

    def _gather(self, federation: Federation) -> None:
        shown = federation.collect(
            shown_model, kept_of=self.kept_, like=self.score_correlations_
        )
        for side, party in (("x", self.x_party_), ("y", self.y_party_)):
            part = shown[party]
            values = {
                "mean": part["mean"],
                "std": part["spread"],
                "weights": part["directions"],
                "loadings": part["loadings"],
                "rotations": part["weights"] * part["spread"][:, None],
            }
            for name, value in values.items():
                setattr(self, f"{side}_{name}_", value)
        self._set_coefficients()


def _roles(federation: Federation, y: Any) -> tuple[str, str]:
    """Return the party that predicts, and the one that is predicted; `y` names it."""
    parties, columns_of = federation.parties, federation.columns_of
    check_two_parties("PLSRegression", federation)
    # A study passes its label to every model for which it names no columns.
    if y in (None, federation.label):
        second = parties[1]
    else:
        second = _party_named(y, columns_of)
    if second is None:
        raise DataError(
            f"y={y!r}: on a column partition name the party whose columns are "
            f"predicted, {' or '.join(parties)}, or all of its columns."
        )
    return next(party for party in parties if party != second), second


def _party_named(y: Any, columns_of: Mapping[str, Sequence[str]]) -> str | None:
    """Return the party that has the name, or exactly the columns, that `y` gives."""
    names: Sequence[Any] = [y] if isinstance(y, str) else list(y)
    if len(names) == 1 and names[0] in columns_of:
        return names[0]
    return next((p for p, own in columns_of.items() if set(own) == set(names)), None)
