"""Principal component analysis of rows that stay in their silos.

    silos ── three rounds of secure sums: N, the mean, the scatter about it ──> S
    solve    S / (N - 1) = V diag(λ) Vᵀ, the k largest λ

The rounds are those of `unpooled.models.moments`. Every array is opened as a total over
all silos only.

References
----------
Pooled Covariance PCA (P-COV) for Distributed/Federated Learning, sections 3 to 5.
"""

from collections.abc import Mapping
from typing import Any, final

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from unpooled.arrays import Array, Float
from unpooled.errors import DataError
from unpooled.federation.base import Federation
from unpooled.linalg.eigen import eigenvalues_of, leading_eigenpairs
from unpooled.models import moments
from unpooled.models.base import FederatedEstimator
from unpooled.models.moments import pooled_mean, pooled_scatter
from unpooled.party.step import Fit, adopted, derived

local_total, local_squares, local_scatter = adopted(
    __name__, moments.local_total, moments.local_squares, moments.local_scatter
)


def _are_axes(fits: Mapping[str, Fit], public: Mapping[str, Any]) -> bool:
    found = moments.proven_moments(fits)
    if found is None:
        return False
    N, mean, S = found
    variance = eigenvalues_of(S / max(N - 1, 1), public["components"].T)
    if variance is None or not np.array_equal(public["mean"], mean):
        return False
    whitening = _whitening(variance)
    # Of the smallest variances rounding leaves few digits; a scale only scales.
    near = np.abs(public["scale"] - whitening) <= 1e-6 * whitening.max()
    return bool((public["scale"] == 1.0).all() or near.all())


@derived(
    takes={"mean": "p", "components": "k p", "scale": "k"},
    fitted_by=("pca.local_total", "pca.local_squares", "pca.local_scatter"),
    follows=_are_axes,
)
def projected(
    X: Float[Array, "n p"],
    *,
    mean: Float[Array, " p"],
    components: Float[Array, "k p"],
    scale: Float[Array, " k"],
) -> Float[Array, "n k"]:
    """Return coordinates of rows along the components, divided by `scale`."""
    return (X - mean) @ components.T / scale


@final
class PCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, FederatedEstimator):
    """Principal component analysis over a federation: the pooled answer.

    Parameters
    ----------
    n_components : int, float in (0, 1) or None, default None
        How many components: a number, the share of variance to explain, or all.
    svd_solver : {"auto", "covariance_eigh"}, default "auto"
        "covariance_eigh" sums the scatter, p (p + 1) / 2 numbers per silo.
    tol : float, default 1e-9
        Of solvers that iterate; not used by this one.
    max_iter : int, default 100
        Most iterations of such solvers.
    whiten : bool, default False
        Scale the coordinates to unit variance.
    privacy : None, default None
        Totals are exact; other values are refused so far.
    bits : int, default 64
        Width of the words in which the scatter travels; only 64 so far.
    rank : int or None, default None
        None releases the scatter in whole; other values are refused so far.
    topology : str, default "complete"
        Of solvers that need no coordinator; not used by this one.
    scores : {"coordinator", "parties"} or None, default "coordinator"
        Who gets the scores on a column partition; on rows they stay in the silos.
    random_state : optional
        As in scikit-learn's signature; nothing here is drawn at random.

    Attributes
    ----------
    components_ : (k, p) array
        Orthonormal rows, by decreasing variance; in each the entry of largest
        magnitude is positive.
    explained_variance_ : (k,) array
        Variance along each component, with denominator N - 1.
    explained_variance_ratio_ : (k,) array
        Its share of the total variance.
    singular_values_ : (k,) array
        ``sqrt((N - 1) explained_variance_)``, those of the centred pooled rows.
    mean_ : (p,) array
        Mean of all rows.
    n_components_ : int
        k.
    n_samples_ : int
        N, the rows of all silos.
    noise_variance_ : float
        Mean variance along the p - k other directions (probabilistic PCA), 0 when
        k = min(N, p).
    n_features_in_ : int
        p.
    feature_names_in_ : (p,) array of str
        Names of the columns, where the silos' tables have names.

    Raises
    ------
    DataError
        Missing values, fewer than two rows, or `n_components` beyond min(N, p).

    Notes
    -----
    Released, as totals only: N, the p column sums, the p sums of squares about the
    mean, and the p × p scatter about it. Never released: a row, or any silo's own
    count, mean or covariance.

    Columns may differ in scale by sixteen orders of magnitude and means may be 1e8
    times the spread: the sums keep twelve digits of every entry's own bound, and small
    eigenvalues of such graded matrices are found to their own digits.

    See Also
    --------
    sklearn.decomposition.PCA : its twin on pooled rows, same names, signs and order.
    """

    components_: Float[Array, "k p"]
    explained_variance_: Float[Array, " k"]
    explained_variance_ratio_: Float[Array, " k"]
    singular_values_: Float[Array, " k"]
    mean_: Float[Array, " p"]

    def __init__(
        self,
        n_components: Any = None,
        *,
        svd_solver: str = "auto",
        tol: float = 1e-9,
        max_iter: int = 100,
        whiten: bool = False,
        privacy: Any = None,
        bits: int = 64,
        rank: int | None = None,
        topology: Any = "complete",
        scores: str | None = "coordinator",
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.svd_solver = svd_solver
        self.tol = tol
        self.max_iter = max_iter
        self.whiten = whiten
        self.privacy = privacy
        self.bits = bits
        self.rank = rank
        self.topology = topology
        self.scores = scores
        self.random_state = random_state

    def _fit(self, federation: Federation, y: Any) -> None:
        wanted = _wanted(self, federation.n_features)
        p = federation.n_features
        N, mean = pooled_mean(federation, local_total)
        _check_rows_suffice(wanted, N, p)
        S = pooled_scatter(federation, mean, local_squares, local_scatter)
        S /= N - 1
        total = float(S.trace())
        k, variance, axes = _leading(S, wanted, min(N, p), total)
        self.mean_, self.n_samples_, self.n_components_ = mean, N, k
        self.components_ = np.ascontiguousarray(axes[:, :k].T)
        self.explained_variance_ = variance[:k].copy()
        self.explained_variance_ratio_ = variance[:k] / (total or 1.0)
        self.singular_values_ = np.sqrt((N - 1) * variance[:k])
        self.noise_variance_ = 0.0
        if k < min(N, p):
            rest = variance[k:] if len(variance) == p else total - variance.sum()
            self.noise_variance_ = max(float(rest.sum()), 0.0) / (p - k)

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def transform(self, X: Any) -> Any:
        """Project an array, or every silo's rows, lazily.

        Parameters
        ----------
        X : (n, p) array-like or Federation
            A federation gives a view whose columns are pca0, pca1, ...; nothing leaves
            a silo.

        Returns
        -------
        (n, k) array or Federation
        """
        if isinstance(X, Federation):
            view, names = self._check_view(X), list(self.get_feature_names_out())
            return view.derive(projected, names, **self._axes())
        return projected(self._check_rows(X), **self._axes())

    def inverse_transform(self, X: Any) -> Float[Array, "n p"]:
        """Return the rows whose projections are given, as far as k components tell.

        Parameters
        ----------
        X : (n, k) array-like
            Coordinates as `transform` gives them.
        """
        axes = self._axes()
        coordinates = self._check_transformed(X, len(self.components_)) * axes["scale"]
        return coordinates @ self.components_ + self.mean_

    def get_covariance(self) -> Float[Array, "p p"]:
        """Return the covariance of the fitted probabilistic model."""
        return self.to_sklearn().get_covariance()

    def get_precision(self) -> Float[Array, "p p"]:
        """Return the inverse of `get_covariance`."""
        return self.to_sklearn().get_precision()

    def score_samples(self, X: Any) -> Float[Array, " n"]:
        """Return the log-likelihood of each row under the probabilistic model."""
        return self.to_sklearn().score_samples(self._check_rows(X))

    def score(self, X: Any, y: Any = None) -> float:
        """Return the mean log-likelihood of rows under the probabilistic model."""
        return float(np.mean(self.score_samples(X)))

    def to_sklearn(self) -> Any:
        """Return a fitted `sklearn.decomposition.PCA`, usable without this library."""
        import sklearn.decomposition

        check_is_fitted(self)
        twin = sklearn.decomposition.PCA(
            self.n_components, whiten=self.whiten, svd_solver="covariance_eigh"
        )
        return self._taught(twin)

    def _axes(self) -> dict[str, Array]:
        check_is_fitted(self)
        scale = np.ones(len(self.components_))
        if self.whiten:
            scale = _whitening(self.explained_variance_)
        return {"mean": self.mean_, "components": self.components_, "scale": scale}


def _whitening(variance: Float[Array, " k"]) -> Float[Array, " k"]:
    # A direction without variance is left at 0 rather than divided by it.
    return np.maximum(np.sqrt(np.maximum(variance, 0.0)), np.finfo(float).eps)


def _wanted(model: PCA, p: int) -> int | float | None:
    """Return `n_components` as a number, a share of variance, or None for all."""
    if model.svd_solver not in ("auto", "covariance_eigh"):
        raise DataError(
            f'svd_solver={model.svd_solver!r}; choose "auto" or "covariance_eigh".'
        )
    for name, default in _EXACT.items():
        if getattr(model, name) != default:
            raise DataError(
                f"{name}={getattr(model, name)!r}; only {default!r} is there so far."
            )
    k = model.n_components
    if k is None:
        return None
    if isinstance(k, int | np.integer) and not isinstance(k, bool) and 1 <= k <= p:
        return int(k)
    if isinstance(k, float | np.floating) and 0 < k < 1:
        return float(k)
    raise DataError(
        f"n_components={k!r} must be None, a share strictly between 0 and 1, or a "
        f"whole number from 1 to the {p} features."
    )


def _check_rows_suffice(wanted: int | float | None, N: int, p: int) -> None:
    if wanted is not None and wanted > min(N, p):
        most = f"min(n_samples, n_features)={min(N, p)}"
        raise DataError(f"n_components={wanted} must be between 1 and {most}.")


def _leading(
    C: Float[Array, "p p"], wanted: int | float | None, most: int, total: float
) -> tuple[int, Float[Array, " l"], Float[Array, "p l"]]:
    """Return k and at least k eigenpairs; all p where that is as cheap."""
    p = len(C)
    if isinstance(wanted, int):
        return wanted, *leading_eigenpairs(C, wanted if p > _SMALL else p)
    variance, axes = leading_eigenpairs(C, p)
    if wanted is None:
        return most, variance, axes
    # Of the same total as `explained_variance_ratio_`, so that asking for a sum of
    # those gives the number of components that follows from them.
    share = np.cumsum(variance / (total or 1.0))
    k = int(np.searchsorted(share, wanted, side="right")) + 1
    return min(k, most), variance, axes


# What totals travel as: exact, in 64 bits, of full rank.
_EXACT = {"privacy": None, "bits": 64, "rank": None}
# Up to this size all eigenvalues cost no more than a few.
_SMALL = 256
