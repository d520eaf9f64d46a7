"""What models of two views of the same rows share: moments, scores, predictions.

    rounds 1 to 3   the moments of all columns of both views: `unpooled.models.moments`
    solve           from the covariances within and between the views
    transform       x ↦ ((x - mean) / scale) rotations, in each silo

On a row partition a silo has both views, and `y` names the columns of the second. On a
column partition each party is a view and keeps its weights; `transform` has the silos
show their scores.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted

from unpooled.arrays import Array, Float
from unpooled.errors import DataError
from unpooled.federation.federation import Federation
from unpooled.linalg.canonical_correlation import Covariances, correlations, structure
from unpooled.linalg.partial_least_squares import Latent
from unpooled.models.moments import complete, pooled_mean, pooled_scatter
from unpooled.models.row_space import Span, coordinates, row_space
from unpooled.models.two_views import check_scores as proven_views
from unpooled.protocol.step import Step, derived, disclosed, public, release


@derived(
    takes={
        "mean": public("p", "the mean of each column over all silos"),
        "scale": public("p", "the number that each column is divided by"),
        "rotations": public("p k", "the weights of columns in each score"),
    },
    fitted_by=proven_views.FITTED_BY,
    follows=proven_views.are_scores,
    further=True,
)
def scored(
    X: Float[Array, "n p"],
    *,
    mean: Float[Array, " p"],
    scale: Float[Array, " p"],
    rotations: Float[Array, "p k"],
    regularisation: float,
) -> Float[Array, "n k"]:
    """Return the scores of rows of one view.

    `regularisation` is how they were found, by which silos check them.
    """
    return (X - mean) / scale @ rotations


@disclosed(
    by="party",
    takes={"sizes": public("k", "the number that each score is divided by")},
    scores=release("N k", meaning="the scores of people by the silo's columns"),
)
def shown_scores(
    X: Float[Array, "N p"], kept: Any, *, sizes: Float[Array, " k"]
) -> dict[str, Any]:
    """Show the scores of the silo's rows, each in units of `sizes`."""
    return {"scores": (complete(X) - kept["mean"]) @ kept["weights"] / sizes}


def views_of(
    federation: Federation, y: str | Sequence[str] | None
) -> tuple[list[str], list[str]]:
    """Return the columns of both views, y naming the second's."""
    if y is None or (isinstance(y, str) and y == federation.label):
        raise DataError(
            'Name the columns of the second view: fit(federation, y=["a", "b"]). '
            "A label is no column; leave it out when the federation is made."
        )
    second = [y] if isinstance(y, str) else [str(name) for name in y]
    unknown = [name for name in second if name not in federation.feature_names]
    first = [name for name in federation.feature_names if name not in second]
    if unknown or not second or not first or len(set(second)) != len(second):
        raise DataError(
            f"y={y!r}: name some, not all, of the columns "
            f"{', '.join(federation.feature_names)}, and none twice."
        )
    return first, second


class TwoViews(ClassNamePrefixFeaturesOutMixin, TransformerMixin):
    """Fitting and using a model of two views; the solvers differ.

    Attributes
    ----------
    x_mean_, y_mean_, x_std_, y_std_ : (p,) and (q,) arrays
        What rows of the views are centred by and divided by.
    x_columns_, y_columns_ : lists of str
        Names of the views' columns.
    """

    scale: Any
    x_mean_: Float[Array, " p"]
    x_rotations_: Float[Array, "p k"]
    y_rotations_: Float[Array, "q k"]
    x_columns_: list[str]
    y_columns_: list[str]
    n_samples_: int
    n_components: int
    kept_: str
    _bases: tuple[Array, Array] | None = None
    _shown: Step | None = None
    _kept_by_silos: tuple[str, ...] = ()
    _check_rows: Any
    _check_transformed: Any
    _taught: Any

    def _inputs(self, federation: Federation, y: Any) -> Federation:
        if federation.partition == "columns":
            return federation
        return federation.select(views_of(federation, y)[0])

    def _moments(
        self,
        federation: Federation,
        y: Any,
        *,
        scale: bool,
        span: Span | None = None,
    ) -> Covariances:
        """Set means and scales; return the covariances of the views in their units."""
        first, second = views_of(federation, y)
        view, p = federation.select([*first, *second]), len(first)
        N, mean = pooled_mean(view)
        self.n_samples_, self.x_columns_, self.y_columns_ = N, first, second
        self.x_mean_, self.y_mean_ = mean[:p].copy(), mean[p:].copy()
        self._bases = None
        spread = np.ones(len(mean))
        if span is not None and not scale and max(p, len(second)) >= N:
            # With more columns than rows everything is in the span of the rows.
            Z = row_space(view, span, mean, N, p)
            inside, mean = coordinates(view, mean, Z), np.zeros(Z.shape[1])
            C = pooled_scatter(inside, mean) / (N - 1)
            p = np.count_nonzero(Z[:p].any(axis=0))
            self._bases = Z[: len(first), :p], Z[len(first) :, p:]
        else:
            C = pooled_scatter(view, mean) / (N - 1)
            spread = np.sqrt(C.diagonal()) if scale else spread
            spread[spread == 0.0] = 1.0
            C /= spread * spread[:, None]
        self.x_std_, self.y_std_ = np.split(spread.copy(), [len(first)])
        return Covariances(C[:p, :p], C[:p, p:], C[p:, p:])

    def _learn(self, latent: Latent) -> None:
        """Set what scikit-learn's models of two views have."""
        if self._bases is not None:
            latent = latent.lifted(*self._bases)
        for name in Latent.__dataclass_fields__:
            setattr(self, f"{name}_", np.ascontiguousarray(getattr(latent, name)))
        coef = self.x_rotations_ @ latent.y_loadings.T
        self.coef_ = (coef * self.y_std_).T / self.x_std_
        self.intercept_ = self.y_mean_.copy()

    def _correlate(self, S: Covariances) -> None:
        """Set how scores go together, and columns with their view's scores."""
        x, y = self._rotations()
        self.score_correlations_ = correlations(S, x, y)
        self.x_correlations_ = structure(S.xx, x)
        self.y_correlations_ = structure(S.yy, y)

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
        """Return scores of rows, or of every silo's rows.

        Parameters
        ----------
        X : (n, p) array-like or Federation
            Rows of the first view. A federation by rows gives a view, lazily; nothing
            leaves a silo. One by columns gives a dict of each party's scores, a
            disclosure about people.
        y : (n, q) array-like, optional
            The same rows of the second view.

        Returns
        -------
        (n, k) array or Federation, or a pair of arrays
            The second is given with `y`.
        """
        check_is_fitted(self)
        asked = isinstance(X, Federation) or not self._kept_by_silos
        if hasattr(self, "kept_") and asked:
            return self._scores_of(X)
        x_rotations, y_rotations = self._rotations()
        public = {"mean": self.x_mean_, "scale": self.x_std_, "rotations": x_rotations}
        public |= {"regularisation": float(getattr(self, "regularisation", 0.0))}
        if isinstance(X, Federation):
            view, names = X.select(self.x_columns_), list(self.get_feature_names_out())
            return view.derive(scored, names, **public)
        x_scores = scored(self._check_rows(X), **public)
        if y is None:
            return x_scores
        return x_scores, (self._targets(y) - self.y_mean_) / self.y_std_ @ y_rotations

    def _scores_of(self, X: Any) -> dict[str, Float[Array, "N k"]]:
        """Ask both parties for the scores of a federation's rows."""
        if not isinstance(X, Federation) or self._shown is None:
            raise DataError("The parties keep their weights: transform a Federation.")
        if getattr(self, "scores", None) != "coordinator":
            raise DataError('scores=None: nobody may have them; say "coordinator".')
        with X.fitting():
            sizes = np.ones(int(self.n_components))
            told = X.collect(self._shown, kept_of=self.kept_, sizes=sizes)
        return {party: own["scores"] for party, own in told.items()}

    def _targets(self, y: Any) -> Float[Array, "n q"]:
        y = check_array(y, dtype="float64", ensure_2d=False)
        y = y[:, None] if y.ndim == 1 else y
        if y.shape[1] != len(self.y_mean_):
            raise DataError(
                f"y has {y.shape[1]} columns, but {len(self.y_mean_)} were fitted."
            )
        return y

    def to_sklearn(self) -> Any:
        """Return the fitted twin of `sklearn.cross_decomposition`, of the same name."""
        import sklearn.cross_decomposition

        if hasattr(self, "kept_") and not self._kept_by_silos:
            raise DataError("The parties keep their weights, so there is no twin.")
        check_is_fitted(self, "x_mean_")
        kind = getattr(sklearn.cross_decomposition, type(self).__name__)
        twin = kind(self._n_features_out, scale=self.scale is not False)
        self._taught(twin)
        # What it keeps under names of its own.
        for name in ("x_mean_", "y_mean_", "x_std_", "y_std_"):
            setattr(twin, f"_{name[:-1]}", getattr(self, name).copy())
        twin._n_features_out, twin._predict_1d = self._n_features_out, False
        return twin


class Predicting(TwoViews):
    """Models of two views that predict the second from the first."""

    coef_: Float[Array, "q p"]
    intercept_: Float[Array, " q"]
    x_loadings_: Float[Array, "p k"]
    y_loadings_: Float[Array, "q k"]

    def predict(self, X: Any) -> Float[Array, "n q"]:
        """Return the second view's columns as the first predicts them.

        Parameters
        ----------
        X : (n, p) array-like
            Rows of the first view.
        """
        check_is_fitted(self)
        if not hasattr(self, "coef_"):
            raise DataError("One-shot solvers find directions and predict nothing.")
        return (self._check_rows(X) - self.x_mean_) @ self.coef_.T + self.intercept_

    def inverse_transform(self, X: Any) -> Float[Array, "n p"]:
        """Return rows of the first view, as far as k scores tell.

        Parameters
        ----------
        X : (n, k) array-like
            Scores as `transform` gives them.
        """
        scores = self._check_transformed(X, self._n_features_out)
        return scores @ self.x_loadings_.T * self.x_std_ + self.x_mean_
