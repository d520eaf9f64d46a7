"""Components that all silos share, beside further ones that are each silo's own.

    rounds 1 to 3  the mean and the covariance of all rows; U begins as its leading
                   eigenvectors, and each silo keeps S_i, its own covariance
    each round     silos <── U ──   each finds V_i, the leading eigenvectors of its
                                    covariance orthogonal to U
                   silos ── (I - V_i V_iᵀ) S_i U, and the variances along U and V_i ──>
                   U moves along the total, among matrices with orthonormal columns
    last           silos <── U ──   each keeps V_i and its variances

U and all V_i maximise Σ_i [tr(Uᵀ S_i U) + tr(V_iᵀ S_i V_i)] with V_i ⟂ U: the variance
that a silo's rows have along both, the same for all silos. By the envelope theorem the
gradient of U, with every V_i at its best, is twice the total that is sent, less its
part along U. The search is a quasi-Newton one (limited-memory BFGS), whose products are
added exactly, so that every silo finds the same step.

``solver="stiefel"`` is the algorithm as published: V_i is not solved for but moves
together with U in each silo, and the silos' U are averaged.
"""

import math
import warnings
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, final

import numpy as np
import scipy.linalg
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from unpooled.arrays import Array, Float
from unpooled.errors import DataError
from unpooled.federation.federation import Federation
from unpooled.linalg.eigen import symmetric_eigenpairs, with_positive_peaks
from unpooled.linalg.moments import scatter
from unpooled.linalg.settled import is_orthonormal, near, settled
from unpooled.models import moments
from unpooled.models.base import FederatedEstimator, check_all_rows
from unpooled.models.moments import MEAN, complete, pooled_mean, pooled_scatter
from unpooled.models.parameter_checks import check_choice, whole_number
from unpooled.models.pca.pca import projected
from unpooled.models.pca.personalized_results import personalized_exhibits
from unpooled.protocol.step import disclosed, kept, public, release, stays, summed
from unpooled.results.citations import Citation

SOLVERS = ("gradient", "stiefel")
# Moves that the search remembers, and the part of a step at which it forgets them.
_REMEMBERED, _SHORTEST = 12, 1e-3
_ROUNDING = 1e-12
_SHARED = public("p k", "the shared components so far, as orthonormal columns")
_OWN = "the silo's own components, orthogonal to the shared ones"


@kept(
    by="party",
    takes={"mean": MEAN},
    settings=(),
    covariance=stays(
        "p p", symmetric=True, until="fit", meaning="the silo's own covariance matrix"
    ),
)
def own_covariance(
    X: Float[Array, "n p"], *, mean: Float[Array, " p"]
) -> dict[str, Any]:
    """Keep this silo's cross-products about the mean of all rows, over its rows."""
    return {"covariance": scatter(complete(X), mean) / len(X)}


# V_i is no sum over rows, and totals at many U are equations for each silo's own
# covariance: a silo takes these steps for a disclosure of its values.
@summed(
    within_silos=True,
    by="party",
    takes={"shared": _SHARED, "n_own": "size j"},
    between_two=True,
    settings=("shared",),
    slope=release(
        "p k",
        meaning="each silo's covariance times the shared components, without its part "
        "along the silo's own components (half a gradient)",
    ),
    variance=release(
        "2", meaning="the variance along the silo's own components, and of all columns"
    ),
)
def local_slope(
    kept: Any, *, shared: Float[Array, "p k"], n_own: int
) -> dict[str, Any]:
    """Return this silo's part of the gradient, its own components at their best."""
    S = kept["covariance"]
    V, values = _leading_beside(S, shared, n_own)
    moved = S @ shared
    return {
        "slope": moved - V @ (V.T @ moved),
        "variance": np.array([values.sum(), np.trace(S)]),
    }


@kept(
    by="party",
    takes={"shared": _SHARED, "n_own": "size j"},
    settings=(),
    own=stays("p j", until="study", meaning=_OWN),
    own_variance=stays("j", until="study", meaning="the variances along these"),
)
def own_components(
    kept: Any, *, shared: Float[Array, "p k"], n_own: int
) -> dict[str, Any]:
    """Keep the leading eigenvectors of this silo's covariance orthogonal to U."""
    V, values = _leading_beside(kept["covariance"], shared, n_own)
    return {"own": V, "own_variance": values}


@summed(
    within_silos=True,
    by="party",
    takes={"shared": _SHARED, "n_own": "size j"},
    between_two=True,
    settings=("shared", "rate"),
    moved=release("p k", meaning="the shared components as each silo moved them"),
    variance=release(
        "2", meaning="the variance along the silo's own components, and of all columns"
    ),
    own=stays("p j", until="study", meaning=_OWN),
)
def local_stiefel(
    kept: Any, *, shared: Float[Array, "p k"], rate: float, n_own: int
) -> dict[str, Any]:
    """Move U and V_i together along the gradient, and retract (algorithm 1)."""
    S, V, k = kept["covariance"], kept["own"], shared.shape[1]
    V = _polar(V - shared @ (shared.T @ V))
    W = np.hstack([shared, V])
    W = _polar(W + 2.0 * rate * (S @ W))
    variance = np.array([np.sum(V * (S @ V)), np.trace(S)])
    return {"moved": W[:, :k], "variance": variance, "own": W[:, k:]}


@disclosed(
    takes={"n_own": "size j"},
    own=release("p j", meaning=_OWN),
    own_variance=release("j", meaning="the variances along these"),
)
def shown_own(kept: Any, *, n_own: int) -> dict[str, Any]:
    """Return this silo's own components and their variances."""
    return {"own": kept["own"], "own_variance": kept["own_variance"]}


@final
@dataclass(eq=False, repr=False)
class PersonalizedPCA(
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, FederatedEstimator
):
    """Principal components that all silos share, and further ones of each silo.

    Silos differ, and the leading components of the pooled rows mix what all have in
    common with what is particular to some. Here a few components are shared, each silo
    has further ones of its own, orthogonal to these, and both together explain the most
    variance. Every silo counts alike, however many rows it has.

    Parameters
    ----------
    n_components : int, default 2
        k, the number of shared components.
    n_own_components : int, default 1
        l, the number of further components of each silo.
    solver : {"gradient", "stiefel"}, default "gradient"
        "gradient" moves the shared components with every silo's own ones at their best,
        to a stationary point. "stiefel" is the published algorithm, which moves both
        together and averages: its last point depends on `learning_rate`.
    learning_rate : float, default 0.1
        Only with "stiefel": the step, in units of 1 / λ for the largest eigenvalue λ of
        the pooled covariance.
    tol : float, default 1e-6
        The search ends where the gradient's norm ("gradient"), or the distance of the
        components' span from the last ("stiefel"), is below `tol`; that of the gradient
        in units of the average total variance.
    max_iter : int, default 200
        Rounds of the search at most.

    Attributes
    ----------
    components_ : (k, p) array
        Shared components, in descending order of their variance; in each the entry of
        largest magnitude is positive.
    explained_variance_ : (k,) array
        Variance along each, about the mean of all rows: the silos' own variances
        (denominator n_i), averaged with equal weights.
    explained_variance_ratio_ : (k,) array
        The same as parts of the average total variance.
    own_variance_ratio_ : float
        What the silos' own components explain beyond, as a part of the same.
    own_components_ : (m, l, p) array
        Components of each silo, in the order of the federation's parties. Kept in the
        silos; reading it asks for them, where their policies disclose own values.
    own_explained_variance_ : (m, l) array
        Variances along these, likewise.
    mean_ : (p,) array
        Mean of all rows.
    objective_ : (t,) array
        By round: the average variance along shared and own components; with "stiefel"
        that along the own ones.
    n_iter_ : int
        Rounds of the search.
    n_samples_ : int
        N, the number of rows.
    n_features_in_ : int
        p, the number of columns seen in `fit`.
    feature_names_in_ : (p,) array of str
        Names of the columns, where the silos' tables have names.

    Raises
    ------
    DataError
        For ``k + l > p``; for folds and other parts of the rows.

    Warns
    -----
    ConvergenceWarning
        Where `max_iter` rounds were not enough.

    Notes
    -----
    Released, as totals only: number of rows, column sums, the cross-product matrix of
    all rows; in each round the gradient of the shared components (p times k numbers;
    with "stiefel" the silos' moved components) and the variance along the silos' own.
    Kept in each silo: its own components and their variances. Never released: a row, or
    any silo's own covariance or components, unless `own_components_` is read.

    A silo's own components are no sum over its rows, so that totals at many shared
    components are equations for its own covariance matrix. So a silo takes part only
    where its policy sets ``allow_disclosed = true``, which says that its own values may
    be seen.

    See Also
    --------
    unpooled.PCA : components of all rows together.
    unpooled.CentreBySite : takes away what the silos' means differ in.

    References
    ----------
    Shi and Kontar, Personalized PCA: decoupling shared and unique features, JMLR 25
    (2024).

    Nocedal and Wright, Numerical Optimization, 2nd edition (2006), algorithm 7.4.
    """

    components_: Float[Array, "k p"] = field(init=False)
    explained_variance_: Float[Array, " k"] = field(init=False)
    explained_variance_ratio_: Float[Array, " k"] = field(init=False)
    own_variance_ratio_: float = field(init=False)
    own_components_: Float[Array, "m l p"] = field(init=False)
    own_explained_variance_: Float[Array, "m l"] = field(init=False)
    mean_: Float[Array, " p"] = field(init=False)
    objective_: Float[Array, " t"] = field(init=False)
    n_iter_: int = field(init=False)
    n_samples_: int = field(init=False)

    _steps = (moments.local_total, moments.local_squares, moments.local_scatter)
    _kept_by_silos = ("own_components_", "own_explained_variance_")
    _computed = ("components_", "explained_variance_", "explained_variance_ratio_")
    _exhibits = personalized_exhibits

    n_components: int = 2
    n_own_components: int = 1
    _: KW_ONLY
    solver: str = "gradient"
    learning_rate: float = 0.1
    tol: float = 1e-6
    max_iter: int = 200

    def _citation(self) -> Citation:
        return Citation(
            f"Personalized principal component analysis found {self.n_components} "
            f"components that all silos share, and {self.n_own_components} further of "
            f"each silo’s own.",
            (
                "Shi N, Kontar RA. Personalized PCA: decoupling shared and unique "
                "features. Journal of Machine Learning Research 2024; 25: 1-82.",
            ),
        )

    def _fit(self, federation: Federation, y: Any) -> None:
        self._check(federation)
        N, mean = pooled_mean(federation)
        S = pooled_scatter(federation, mean) / N
        values, U = symmetric_eigenpairs(S, self.n_components)
        federation.keep(own_covariance, mean=mean)
        # In units of this a step turns the leading direction by as much as it is long.
        unit = 1.0 / max(float(values[0]), float(np.finfo(float).tiny))
        if self.solver == "gradient":
            end = self._by_gradient(federation, U, unit)
        else:
            end = self._as_published(federation, U, unit)
        federation.keep(own_components, shared=end.U, n_own=self.n_own_components)
        self.kept_, self._silos = federation.kept_here, federation
        self._set_components(end)
        self.mean_, self.n_samples_ = mean, N

    def _check(self, federation: Federation) -> None:
        for name in ("n_components", "n_own_components", "max_iter"):
            whole_number(name, getattr(self, name))
        check_choice("solver", self.solver, SOLVERS)
        k, p = self.n_components + self.n_own_components, federation.n_features
        if k > p:
            raise DataError(
                f"{self.n_components} shared and {self.n_own_components} own "
                f"components are more than the {p} columns."
            )
        if not self.learning_rate > 0 or not self.tol >= 0:
            raise DataError("learning_rate and tol are positive numbers.")
        check_all_rows(
            federation,
            "PersonalizedPCA takes all rows: what a silo keeps belongs to all of its "
            "rows.",
        )

    def _by_gradient(
        self, federation: Federation, U: Float[Array, "p k"], unit: float
    ) -> "_Point":
        """Return the end of a search along gradients."""
        at = self._point(federation, U)
        objective, moves, length = [at.value], list[_Move](), 1.0
        planned = federation.coordinator.planned
        while len(objective) < self.max_iter and (planned or not self._is_end(at)):
            ahead = _outside(at.U, length * _ascent(at.slope, moves, unit))
            tried = self._point(federation, _polar_of(at.U + ahead))
            objective.append(tried.value)
            if tried.value < at.value - _ROUNDING * at.total:
                length /= 4.0
                moves = moves if length > _SHORTEST else []
                continue
            moves = [*moves, _Move(tried.U - at.U, at.slope - tried.slope)]
            moves = [one for one in moves if one.curvature > 0.0][-_REMEMBERED:]
            at, length = tried, 1.0
        self.objective_, self.n_iter_ = np.array(objective), len(objective)
        if not planned and not self._is_end(at):
            self._warn("gradient", at.norm / at.total)
        return at

    def _as_published(
        self, federation: Federation, U: Float[Array, "p k"], unit: float
    ) -> "_Point":
        """Return the end of the published algorithm."""
        m, planned = len(federation.parties), federation.coordinator.planned
        rate, distance = float(self.learning_rate) * unit, math.inf
        n_own = self.n_own_components
        federation.keep(own_components, shared=U, n_own=n_own)
        objective = list[float]()
        while len(objective) < self.max_iter and (planned or distance > self.tol):
            totals = federation.sum(local_stiefel, shared=U, rate=rate, n_own=n_own)
            moved = _polar_of(totals["moved"] / m)
            # The distance is the norm of the part outside the last span.
            distance = math.sqrt(_dot(*[_outside(U, moved)] * 2))
            objective.append(float(totals["variance"][0]) / m)
            U = moved
        at = self._point(federation, U)
        self.objective_, self.n_iter_ = np.array(objective), len(objective)
        if not planned and distance > self.tol:
            self._warn("distance from the last round", distance)
        return at

    def _point(self, federation: Federation, U: Float[Array, "p k"]) -> "_Point":
        """Ask for the gradient at shared components."""
        totals = federation.sum(local_slope, shared=U, n_own=self.n_own_components)
        m = len(federation.parties)
        slope, (own, total) = totals["slope"] / m, totals["variance"] / m
        value = _dot(U, slope) + float(own)
        outside = _outside(U, slope)
        return _Point(U, outside, slope, float(own), float(total), value)

    def _is_end(self, at: "_Point") -> bool:
        return at.norm <= self.tol * at.total

    def _warn(self, what: str, size: float) -> None:
        warnings.warn(
            f"PersonalizedPCA did not converge in {self.max_iter} rounds: the {what} "
            f"is {size:.1e}. Raise max_iter or tol.",
            ConvergenceWarning,
            stacklevel=5,
        )

    def _set_components(self, end: "_Point") -> None:
        # Own components are orthogonal to the shared ones: this is their covariance.
        within = end.U.T @ end.moved
        values, turn = symmetric_eigenpairs((within + within.T) / 2.0, len(within))
        self.components_ = np.ascontiguousarray(with_positive_peaks(end.U @ turn).T)
        self.explained_variance_ = values
        # Constant rows have no variance to share out.
        total = end.total or 1.0
        self.explained_variance_ratio_ = values / total
        self.own_variance_ratio_ = end.own / total

    def _gather(self, federation: Federation) -> None:
        n_own = self.n_own_components
        shown = federation.collect(shown_own, kept_of=self.kept_, n_own=n_own)
        parts = [shown[party] for party in federation.parties]
        self.own_components_ = np.array([part["own"].T for part in parts])
        self.own_explained_variance_ = np.array([p["own_variance"] for p in parts])

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def transform(self, X: Any) -> Any:
        """Return the scores of rows along the shared components.

        Parameters
        ----------
        X : (n, p) array-like or Federation
            For a federation the result is a view of it: each silo forms its scores when
            they are read, and nothing is released.
        """
        check_is_fitted(self)
        arguments = {
            "mean": self.mean_,
            "components": self.components_,
            "scale": np.ones(len(self.components_)),
        }
        names = list(self.get_feature_names_out())
        return self._applied(X, projected, arguments, names)


@final
@dataclass(frozen=True, eq=False)
class _Point:
    """Shared components, and what the silos sent about them, on average.

    Attributes
    ----------
    U : (p, k) array
        Shared components.
    slope : (p, k) array
        Half the gradient: what of `moved` lies outside the span of U.
    moved : (p, k) array
        The silos' covariances times U, without the part along own components.
    own, total : float
        Variance along own components, and of all columns.
    value : float
        Variance along shared and own components.
    """

    U: Float[Array, "p k"]
    slope: Float[Array, "p k"]
    moved: Float[Array, "p k"]
    own: float
    total: float
    value: float

    @property
    def norm(self) -> float:
        """The norm of the slope."""
        return math.sqrt(_dot(self.slope, self.slope))


@final
@dataclass(frozen=True, eq=False)
class _Move:
    """A step of the search, and how much the slope fell along it."""

    step: Float[Array, "p k"]
    fall: Float[Array, "p k"]

    @property
    def curvature(self) -> float:
        return _dot(self.step, self.fall)


def _ascent(
    slope: Float[Array, "p k"], moves: Sequence[_Move], unit: float
) -> Float[Array, "p k"]:
    """Return the direction of a quasi-Newton step; the slope before any move."""
    found, shares = slope, list[float]()
    for move in reversed(moves):
        share = _dot(move.step, found) / move.curvature
        shares.append(share)
        found = found - share * move.fall
    last = moves[-1] if moves else None
    found = found * (last.curvature / _dot(last.fall, last.fall) if last else unit)
    for move, share in zip(moves, reversed(shares), strict=True):
        back = _dot(move.fall, found) / move.curvature
        found = found + (share - back) * move.step
    return found if _dot(found, slope) > 0.0 else unit * slope


def _leading_beside(
    S: Float[Array, "p p"], U: Float[Array, "p k"], n: int
) -> tuple[Float[Array, "p l"], Float[Array, " l"]]:
    """Return leading eigenvectors of S orthogonal to U, and variances along these."""
    p, k = U.shape
    # An orthonormal basis of all directions, of which the first k span U.
    rest = scipy.linalg.qr(U)[0][:, k:]
    inner = rest.T @ S @ rest
    values, vectors = scipy.linalg.eigh(inner, subset_by_index=[p - k - n, p - k - 1])
    return rest @ vectors[:, ::-1], values[::-1].copy()


def _polar(W: Float[Array, "p k"]) -> Float[Array, "p k"]:
    """Return the nearest matrix with orthonormal columns."""
    left, _, right = np.linalg.svd(W, full_matrices=False)
    return left @ right


def _polar_of(W: Float[Array, "p k"]) -> Float[Array, "p k"]:
    """Do so where all ends go on with the result."""

    def accept(found: Any, own: Any) -> bool:
        return is_orthonormal(found["U"]) and near(found["U"], own["U"], 1e4)

    return settled("shared components", lambda: {"U": _polar(W)}, accept)["U"]


def _outside(U: Float[Array, "p k"], W: Float[Array, "p k"]) -> Float[Array, "p k"]:
    """Return the part of W outside the span of U, with the same bits at all ends."""
    size = float(np.abs(W).max(initial=0.0)) * len(W)

    def accept(found: Any, own: Any) -> bool:
        return near(found["W"], own["W"], size, len(W))

    return settled("slope", lambda: {"W": W - U @ (U.T @ W)}, accept)["W"]


def _dot(A: Float[Array, "p k"], B: Float[Array, "p k"]) -> float:
    """Return the sum of products, the same on every machine."""
    return math.fsum((A * B).ravel().tolist())
