"""Models of two views of the same rows: pooled moments, scores and predictions.

    rounds 1 to 3   means and covariances of all columns: `unpooled.models.moments`
    solve           from the covariances S_xx and S_yy within the views, and S_xy
                    between them
    transform       x ↦ ((x - mean) / scale) rotations, in each silo

On a row partition every silo has both views, and `y` names the columns of the second.
On a column partition each party is a view and keeps its weights; `transform` discloses
each party's scores to the coordinator.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted

from unpooled.arrays import Array, Float
from unpooled.data.columns import check_known
from unpooled.errors import DataError
from unpooled.federation.federation import Federation
from unpooled.linalg.canonical_correlation import (
    Covariances,
    correlations,
    cross_structure,
    score_variances,
    structure,
)
from unpooled.linalg.partial_least_squares import Latent
from unpooled.linalg.regression_fit import ResponseFit
from unpooled.models.base import FederatedEstimator, check_federation
from unpooled.models.metrics.predictions import predicted
from unpooled.models.metrics.regression import PREDICTED, r2_score
from unpooled.models.moments import MEAN, complete, pooled_mean, pooled_scatter
from unpooled.protocol.step import derived, disclosed, public, release


@derived(
    within_silos=True,
    takes={
        "mean": MEAN,
        "scale": public("p", "the number that each column is divided by"),
        "rotations": public("p k", "the weights of columns in each score"),
    },
)
def scored(
    X: Float[Array, "n p"],
    *,
    mean: Float[Array, " p"],
    scale: Float[Array, " p"],
    rotations: Float[Array, "p k"],
) -> Float[Array, "n k"]:
    """Return the scores of rows of one view."""
    return (X - mean) / scale @ rotations


@derived(
    within_silos=True,
    takes={
        "mean": public("l", "the mean of each column that predicts"),
        "coef": public("k l", "the regression coefficients"),
        "intercept": public("k", "the mean of each column that is predicted"),
    },
)
def predicted_columns(
    X: Float[Array, "n p"],
    *,
    mean: Float[Array, " l"],
    coef: Float[Array, "k l"],
    intercept: Float[Array, " k"],
) -> Float[Array, "n q"]:
    """Return predictions from the first columns of rows, and behind them the others."""
    first = X[:, : len(mean)]
    return np.hstack([(first - mean) @ coef.T + intercept, X[:, len(mean) :]])


@disclosed(
    by="party",
    takes={"sizes": public("k", "the number that each score is divided by")},
    scores=release("N k", meaning="each person's scores from the silo's columns"),
)
def shown_scores(
    X: Float[Array, "N p"], kept: Any, *, sizes: Float[Array, " k"]
) -> dict[str, Any]:
    """Disclose the scores of the silo's rows, each divided by its entry of `sizes`."""
    return {"scores": (complete(X) - kept["mean"]) @ kept["weights"] / sizes}


@disclosed(
    by="party",
    takes={"like": public("k", "the correlation of the scores of each pair")},
    correlations=release(
        "p k", meaning="the correlation of each of the silo's columns with its scores"
    ),
)
def shown_structure(
    X: Float[Array, "N p"], kept: Any, *, like: Float[Array, " k"]
) -> dict[str, Any]:
    """Disclose the correlations of the silo's columns with its scores."""
    rows = complete(X) - kept["mean"]
    return {"correlations": structure(rows.T @ rows, kept["weights"][:, : len(like)])}


def views_of(
    federation: Federation, y: str | Sequence[str] | None
) -> tuple[list[str], list[str]]:
    """Return the columns of both views; `y` names those of the second."""
    if y is None or (isinstance(y, str) and y == federation.label):
        raise DataError(
            'Name the columns of the second view: y=["a", "b"], which fit takes, and '
            "which is a key of a study's step. "
            "A label is no column; leave it out when the federation is made."
        )
    second = [y] if isinstance(y, str) else [str(name) for name in y]
    check_known(second, federation.feature_names, f"y={y!r}: The federation")
    first = [name for name in federation.feature_names if name not in second]
    if not second or not first or len(set(second)) != len(second):
        raise DataError(
            f"y={y!r}: name some, not all, of the columns "
            f"{', '.join(federation.feature_names)}, and none twice."
        )
    return first, second


# Attributes of each view that are computed after the last decomposition.
_COMPUTED = (
    *("weights", "loadings", "rotations", "correlations", "cross_correlations"),
    "explained_variance_ratio",
)


class TwoViews(ClassNamePrefixFeaturesOutMixin, TransformerMixin, FederatedEstimator):
    """A model of two views of the same rows; the estimators solve for the directions.

    Attributes
    ----------
    x_mean_, y_mean_ : (p,) and (q,) arrays
        Means of the views' columns over all rows.
    x_std_, y_std_ : (p,) and (q,) arrays
        Numbers that the centred columns are divided by.
    x_columns_, y_columns_ : lists of str
        Names of the views' columns.
    """

    scale: Any
    scores: str | None
    n_components: int
    # The parameter of `CCA`; partial least squares has none.
    regularisation: float = 0.0
    x_mean_: Float[Array, " p"]
    y_mean_: Float[Array, " q"]
    x_std_: Float[Array, " p"]
    y_std_: Float[Array, " q"]
    x_rotations_: Float[Array, "p k"]
    y_rotations_: Float[Array, "q k"]
    y_loadings_: Float[Array, "q k"]
    x_correlations_: Float[Array, "p k"]
    y_correlations_: Float[Array, "q k"]
    x_columns_: list[str]
    y_columns_: list[str]
    n_samples_: int
    kept_: str

    _computed = (
        *(f"{side}_{name}_" for side in "xy" for name in _COMPUTED),
        *("coef_", "r2_", "rmse_", "vip_"),
        *("score_correlations_", "all_correlations_", "canonical_correlations_"),
        *("canonical_correlations_se_", "canonical_correlations_se_normal_"),
    )
    _scored_by = ("r2", "neg_root_mean_squared_error")
    _partitions = ("rows", "columns")
    # On a column partition the two parties keep these.
    _kept_by_silos = ("x_correlations_", "y_correlations_")

    def _inputs(self, federation: Federation, y: Any) -> Federation:
        if federation.partition == "columns":
            return federation
        return federation.select(views_of(federation, y)[0])

    def _pooled_means(self, federation: Federation, y: Any) -> Federation:
        """Set the means of both views; return a view with the columns of both.

        One round. The columns of the first view come first.
        """
        first, second = views_of(federation, y)
        both = federation.select([*first, *second])
        N, mean = pooled_mean(both)
        self.n_samples_, self.x_columns_, self.y_columns_ = N, first, second
        self.x_mean_ = mean[: len(first)].copy()
        self.y_mean_ = mean[len(first) :].copy()
        return both

    def _pooled_covariances(self, both: Federation, *, scale: bool) -> Covariances:
        """Set the scales of both views; return their covariances in these units.

        Two rounds, after `_pooled_means`. With `scale` the unit of a column is its
        standard deviation (denominator N - 1), or 1 where it is constant.
        """
        p = len(self.x_columns_)
        mean = np.concatenate([self.x_mean_, self.y_mean_])
        S = pooled_scatter(both, mean) / (self.n_samples_ - 1)
        deviation = np.sqrt(S.diagonal()) if scale else np.ones(len(S))
        deviation[deviation == 0.0] = 1.0
        S /= deviation * deviation[:, None]
        self.x_std_, self.y_std_ = deviation[:p].copy(), deviation[p:].copy()
        return Covariances(S[:p, :p], S[:p, p:], S[p:, p:])

    def _set_latent(self, latent: Latent) -> None:
        """Set weights, loadings, rotations and the coefficients."""
        for name in Latent.__dataclass_fields__:
            setattr(self, f"{name}_", np.ascontiguousarray(getattr(latent, name)))
        self._set_coefficients()

    def _set_coefficients(self) -> None:
        """Set the coefficients of `predict` from rotations and loadings."""
        coef = self.x_rotations_ @ self.y_loadings_.T
        self.coef_ = (coef * self.y_std_).T / self.x_std_
        self.intercept_ = self.y_mean_.copy()

    def _set_correlations(self, S: Covariances) -> None:
        """Set correlations of the pairs of scores, and of columns with scores."""
        self.score_correlations_ = correlations(S, *self._rotations())
        self._set_structure(S)

    def _set_structure(self, S: Covariances) -> None:
        """Set correlations of columns with the scores of both views."""
        x, y = self._rotations()
        self.x_correlations_ = structure(S.xx, x)
        self.y_correlations_ = structure(S.yy, y)
        self.x_cross_correlations_ = cross_structure(
            S.xy, S.xx.diagonal(), score_variances(S.yy, y), y
        )
        self.y_cross_correlations_ = cross_structure(
            S.xy.T, S.yy.diagonal(), score_variances(S.xx, x), x
        )

    def _gather(self, federation: Federation) -> None:
        if len(federation.parties) != 2:
            raise DataError(
                f"x_correlations_ and y_correlations_ are of two parties, not of "
                f"{len(federation.parties)}. Each silo finds the weights of its own "
                f"columns in its results."
            )
        shown = federation.collect(
            shown_structure, kept_of=self.kept_, like=np.ones(int(self.n_components))
        )
        self.x_correlations_, self.y_correlations_ = (
            shown[party]["correlations"] for party in federation.parties
        )

    @property
    def _n_features_out(self) -> int:
        return self._rotations()[0].shape[1]

    def _rotations(self) -> tuple[Array, Array]:
        if not hasattr(self, "x_rotations_"):
            raise DataError(
                "One-shot solvers find directions of columns that each silo whitened "
                "for itself; rows of all silos have no scores along them. Fit with "
                'solver="exact".'
            )
        return self.x_rotations_, self.y_rotations_

    def transform(self, X: Any, y: Any = None) -> Any:
        """Return the scores of rows, or of every silo's rows.

        Parameters
        ----------
        X : (n, p) array-like or Federation
            Rows of the first view. A federation by rows gives a view, lazily; nothing
            leaves a silo. A federation by columns gives a dict of each party's scores,
            which discloses numbers about single people.
        y : (n, q) array-like, optional
            The same rows of the second view.

        Returns
        -------
        (n, k) array or Federation, or a pair of arrays
            The pair with `y`: scores of the first view and of the second.
        """
        check_is_fitted(self)
        kept_by_parties = hasattr(self, "kept_")
        only_there = "x_rotations_" not in self._kept_by_silos
        if kept_by_parties and (isinstance(X, Federation) or only_there):
            return self._scores_of(X)
        x_rotations, y_rotations = self._rotations()
        fitted: dict[str, Any] = {
            "mean": self.x_mean_,
            "scale": self.x_std_,
            "rotations": x_rotations,
        }
        if isinstance(X, Federation):
            view, names = X.select(self.x_columns_), list(self.get_feature_names_out())
            return view.derive(scored, names, **fitted)
        x_scores = scored(self._check_rows(X), **fitted)
        if y is None:
            return x_scores
        return x_scores, (self._check_y(y) - self.y_mean_) / self.y_std_ @ y_rotations

    def _scores_of(self, X: Any) -> dict[str, Float[Array, "N k"]]:
        """Return each party's scores of the rows of a federation by columns."""
        if not isinstance(X, Federation):
            raise DataError("The parties keep their weights: transform a Federation.")
        if self.scores != "coordinator":
            raise DataError(
                'scores=None: nobody may have them; choose scores="coordinator".'
            )
        view, sizes = check_federation(self, X), np.ones(int(self.n_components))
        with view.calling(self, "transform"):
            disclosed = view.collect(shown_scores, kept_of=self.kept_, sizes=sizes)
        return {party: arrays["scores"] for party, arrays in disclosed.items()}

    def _check_y(self, y: Any) -> Float[Array, "n q"]:
        y = check_array(y, dtype="float64", ensure_2d=False)
        y = y[:, None] if y.ndim == 1 else y
        if y.shape[1] != len(self.y_mean_):
            raise DataError(
                f"y has {y.shape[1]} columns, but {len(self.y_mean_)} were fitted."
            )
        return y

    def to_sklearn(self) -> Any:
        """Return the fitted estimator of `sklearn.cross_decomposition` of this name."""
        import sklearn.cross_decomposition

        if hasattr(self, "kept_") and "x_rotations_" not in self._kept_by_silos:
            raise DataError("The parties keep their weights, so there is no twin.")
        check_is_fitted(self, "x_mean_")
        kind = getattr(sklearn.cross_decomposition, type(self).__name__)
        twin = kind(self._n_features_out, scale=self.scale is not False)
        self._taught(twin)
        # scikit-learn keeps the means and scales under private names.
        for name in ("x_mean_", "y_mean_", "x_std_", "y_std_"):
            setattr(twin, f"_{name[:-1]}", getattr(self, name).copy())
        twin._n_features_out, twin._predict_1d = self._n_features_out, False
        return twin


class Predicting(TwoViews):
    """A model of two views that predicts the second from the first."""

    coef_: Float[Array, "q p"]
    intercept_: Float[Array, " q"]
    x_loadings_: Float[Array, "p k"]
    y_loadings_: Float[Array, "q k"]
    r2_: Float[Array, " q"]
    rmse_: Float[Array, " q"]

    def _set_fit(self, fit: ResponseFit) -> None:
        """Set how well the second view is predicted, from covariances of the fit."""
        N = self.n_samples_
        self.r2_ = fit.r2
        # The mean square has denominator N, where covariances have N - 1.
        self.rmse_ = np.sqrt(fit.residual * (N - 1) / N) * self.y_std_

    def predict(self, X: Any) -> Any:
        """Return the columns of the second view, predicted from the first.

        Parameters
        ----------
        X : (n, p) array-like or Federation
            Rows of the first view. A federation by rows gives a view, lazily, whose
            columns are the predictions, named "predicted y1" for y1, and the true
            columns where it has them; nothing leaves a silo.

        Returns
        -------
        (n, q) array or Federation
        """
        check_is_fitted(self)
        if not hasattr(self, "coef_"):
            raise DataError("One-shot solvers find directions and predict nothing.")
        if isinstance(X, Federation):
            return self._predicted(X)
        return (self._check_rows(X) - self.x_mean_) @ self.coef_.T + self.intercept_

    def _predicted(self, X: Federation) -> Federation:
        """Return the view of predictions and of the true columns that are at hand."""
        known = [name for name in self.y_columns_ if name in X.feature_names]
        wanted = (*self.x_columns_, *known)
        # Silos that follow predict on this view: it must come out the same.
        view = X if X.feature_names == wanted else X.select(wanted)
        names = [PREDICTED + name for name in self.y_columns_]
        arguments = {
            "mean": self.x_mean_,
            "coef": self.coef_,
            "intercept": self.intercept_,
        }
        step, columns = predicted_columns, [*names, *known]
        view = check_federation(self, view)
        return predicted(self, "predict", view, step, columns, arguments)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return R² of the predictions, averaged over the predicted columns.

        Parameters
        ----------
        X : (n, p) array-like or Federation
            Rows of the first view; a federation by rows has the second view too.
        y : (n, q) array-like, or sequence of str
            The same rows of the second view; with a federation, the names of its
            columns, all of them when omitted.
        sample_weight : (n,) array-like, optional
            Weights of the rows of an array; a federation has none.

        Notes
        -----
        On a federation it releases what `unpooled.metrics.r2_score` releases.
        """
        if not isinstance(X, Federation):
            import sklearn.metrics

            return float(
                sklearn.metrics.r2_score(
                    y, self.predict(X), sample_weight=sample_weight
                )
            )
        if sample_weight is not None:
            raise DataError("The rows of a federation have no weights.")
        if X.partition == "columns":
            raise DataError(
                "On a column partition the silo of the second view has predictions and "
                "true values: predict(federation) gives it the former."
            )
        return float(r2_score(self.y_columns_ if y is None else y, self.predict(X)))

    def inverse_transform(self, X: Any) -> Float[Array, "n p"]:
        """Return rows of the first view, reconstructed from their k scores.

        Parameters
        ----------
        X : (n, k) array-like
            Scores as `transform` gives them.
        """
        scores = self._check_transformed(X, self._n_features_out)
        return scores @ self.x_loadings_.T * self.x_std_ + self.x_mean_
