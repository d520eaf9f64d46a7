"""Principal component analysis of rows that stay in their silos.

    silos ── three rounds of secure sums: N, the mean, the scatter about it ──> S
    solve    S / (N - 1) = V diag(λ) Vᵀ, the k largest λ

The rounds are those of `unpooled.models.moments`; of many columns those of
`unpooled.models.pca.krylov`, which never form S. Every array is opened as a total over
all silos only.

References
----------
Pooled Covariance PCA (P-COV) for Distributed/Federated Learning, sections 3 to 5.
"""

from typing import Any, final

import numpy as np
from sklearn.utils.validation import check_is_fitted

from unpooled.arrays import Array, Float
from unpooled.federation.federation import Federation
from unpooled.models import moments
from unpooled.models.base import FederatedEstimator
from unpooled.models.pca import columns as pca_columns
from unpooled.models.pca import compression, private, update
from unpooled.models.pca import gossip as gossiping
from unpooled.models.pca import gossip_steps as pca_gossip
from unpooled.models.pca import rows as pca_rows
from unpooled.models.pca.probabilistic import ProbabilisticPCA
from unpooled.models.pca.solvers import solved
from unpooled.models.pca.spectrum import Spectrum, whitening
from unpooled.models.pca.updating import UpdatingPCA
from unpooled.protocol.step import derived, public

# Silos look steps up under the name of the model that asks.
local_spread, local_image = pca_rows.local_spread, pca_rows.local_image
own_means, own_gram, own_image, own_loadings = pca_columns.STEPS[:4]
own_scores, kept_scores, shown_loadings = pca_columns.STEPS[4:]
gossip_begun, gossip_image, gossip_mixed, gossip_ready = pca_gossip.STEPS[:4]
gossip_passed, gossip_found, gossip_loadings, gossip_shown = pca_gossip.STEPS[4:]
local_rounded, local_factor = compression.pca_rounded, compression.pca_factor
local_projected = compression.pca_projected
local_private, local_moments = private.pca_private, update.pca_moments


@derived(
    takes={
        "mean": public("p", "the mean of each column over all silos"),
        "components": public(
            "k p", "the principal components (loadings of all columns)"
        ),
        "scale": public("k", "the number that each component's scores are divided by"),
    },
    fitted_by=pca_rows.FITTED_BY,
    follows=pca_rows.are_axes,
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


_OF_VARIANCE = ("explained_variance_", "explained_variance_ratio_")
_OF_VARIANCE += ("singular_values_", "noise_variance_")


@final
class PCA(ProbabilisticPCA, UpdatingPCA, FederatedEstimator):
    """Principal component analysis over a federation: the pooled answer.

    Parameters
    ----------
    n_components : int, float in (0, 1) or None, default None
        How many components: a number, the share of variance to explain, or all.
    svd_solver : {"auto", "covariance_eigh", "krylov", "gram", "gossip"}, default "auto"
        "covariance_eigh" sums the scatter, p (p + 1) / 2 numbers per silo, in three
        rounds. "krylov" sums its product with a block of k + 4 or so columns, in
        rounds whose number depends on the spectrum, and nobody holds p × p numbers.
        "auto" takes "krylov" where p is above 5,000 and k far below. On a column
        partition "gram" sums products of every two people, N (N + 1) / 2 numbers, and
        "krylov" their products with a block; "auto" takes what sends fewer bytes.
        "gossip" sums such products among neighbours, without a coordinator.
    tol : float, default 1e-9
        Of solvers that iterate: largest sine of the angle between the components'
        span and its limit, certified by residuals and the gap behind them.
    max_iter : int, default 100
        Most rounds of such solvers.
    whiten : bool, default False
        Scale the coordinates to unit variance.
    privacy : GaussianPrivacy, optional
        Noise in totals that hides any one row; see `unpooled.models.pca.private`.
    bits : {64, 32, 16, 8}, default 64
        In how many bits each number of the scatter travels, rounded without bias; see
        `unpooled.models.pca.compression`.
    rank : int or None, default None
        Each silo shows the `rank` directions in which its own rows vary most, instead
        of its part of a sum: a disclosure, which every silo must allow.
    topology : {"complete", "ring", "star"} or mapping, default "complete"
        Of "gossip": who is whose neighbour, as of `Federation.exchange`.
    scores : {"coordinator", "parties"} or None, default "coordinator"
        Who gets what `transform` makes on a column partition: the coordinator, the
        silos alone, or nobody; on rows scores stay in the silos.
    random_state : int, RandomState or None, default None
        Seed of the block that "krylov" starts with; None takes the federation's.

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
        k = min(N, p). With "krylov" along min(N, p) - k of them, as scikit-learn has it
        for solvers that find only k.
    n_features_in_ : int
        p.
    feature_names_in_ : (p,) array of str
        Names of the columns, where the silos' tables have names.
    n_iter_ : int
        Only with "krylov": rounds in which a block was multiplied.
    residuals_ : (k,) array
        Only with "krylov": ``‖C v - λ v‖`` of each component v and its variance λ.
    gap_ : float
        Only with "krylov": at least so much lies between variances k and k + 1.

    privacy_ : dict
        Only with `privacy`: its parameters, the neighbouring relation ("neighbours"),
        the cost "rho", and "noise_edge", the largest variance that noise alone shows.
    signal_to_noise_ : (k,) array
        Only with `privacy`: variances divided by that; near 1 a component is chance.
    mixing_steps_ : int
        Only with "gossip": messages to each neighbour until an average is everywhere;
        `n_iter_` averages were made.
    spectral_gap_ : float
        Only with "gossip": of the graph's Laplacian, the smallest eigenvalue above 0
        over the largest; the smaller, the more messages.
    origin_ : (p,) array
        Only after `update`: the mean of the fit, about which silos keep their moments.

    Raises
    ------
    DataError
        Missing values, fewer than two rows, or `n_components` beyond min(N, p).
    ConvergenceError
        When `max_iter` rounds were not enough for `tol`.

    Notes
    -----
    Released, as totals only: N, the p column sums, the p sums of squares about the
    mean, and the p × p scatter about it, or with "krylov" its products with public
    blocks. Never released: a row, or any silo's own count, mean or covariance.

    On a column partition the totals are one number, the squared distances of all
    columns from their means, and products between people: the N × N Gram matrix, or
    with "krylov" its products with public blocks. Both are row-level, which every silo
    must allow, and tell the coordinator the scores, whatever `scores` says. Each silo
    keeps its means and loadings; asking for `components_` or `mean_` asks the silos to
    disclose them. In each component the score of largest magnitude is positive.

    With "gossip" the coordinator is told N and in each iteration how many silos are
    certain, and carries what it cannot open. Every silo tells its neighbours its own
    products with blocks of people, as they are, which every silo must allow
    (`allow_disclosed`); as many as it has columns are its Gram matrix. Several steps of
    mixing tell what lies further away too. All silos end with the same scores and
    variances, each with its own loadings; asking for any has them disclosed.

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

    _partitions = ("rows", "columns")
    _steps = (moments.local_total, moments.local_squares, moments.local_scatter)
    _kept_by_silos = ("components_", "mean_", *_OF_VARIANCE)

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
        self._take(solved(self, federation))

    def _take(self, found: Spectrum) -> None:
        self.n_samples_, self.n_components_ = found.N, found.in_silos
        for name in _OF_SOME_FITS:
            self.__dict__.pop(name, None)
        for name, value in found.told.items():
            setattr(self, name, value)
        if (pairs := found.certificate) is not None:
            self.n_iter_ = pairs.n_iter
            self.residuals_ = pairs.residuals / (found.N - 1)
            self.gap_ = pairs.gap / (found.N - 1)
        self._describe(found)

    def _describe(self, found: Spectrum) -> None:
        # On a column partition the silos keep these.
        if found.mean is not None and found.axes is not None:
            self.mean_ = found.mean
            self.components_ = np.ascontiguousarray(found.axes.T)
        # Without a coordinator they keep these too.
        if (variance := found.variance) is not None:
            self.n_components_ = len(variance)
            self.explained_variance_ = variance
            self.explained_variance_ratio_ = variance / (found.total or 1.0)
            self.singular_values_ = np.sqrt((found.N - 1) * variance)
            self.noise_variance_ = found.noise

    _n_features_out = property(lambda self: self.n_components_)

    def transform(self, X: Any) -> Any:
        """Project an array, or every silo's rows, lazily.

        Parameters
        ----------
        X : (n, p) array-like or Federation
            A federation gives a view whose columns are pca0, pca1, ...; nothing leaves
            a silo. On a column partition scores are sums over silos: the coordinator
            gets them, or (``scores="parties"``) the silos keep them.

        Returns
        -------
        (n, k) array or Federation, or None where the silos keep the scores
        """
        if isinstance(X, Federation):
            if X.partition == "columns":
                return pca_columns.scored(self, self._check_view(X), self._scale())
            view, names = self._check_view(X), list(self.get_feature_names_out())
            return view.derive(projected, names, kept_of="", **self._axes())
        return projected(self._check_rows(X), **self._axes())

    def _gather(self, federation: Federation) -> None:
        if "mixing_steps_" in vars(self):
            self._describe(gossiping.gathered(self, federation))
        else:
            self.mean_, self.components_ = pca_columns.gathered(self, federation)

    def _scale(self) -> Float[Array, " k"]:
        check_is_fitted(self)
        if not self.whiten:
            return np.ones(self.n_components_)
        return whitening(self.explained_variance_)

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

    def _axes(self) -> dict[str, Array]:
        scale = self._scale()
        return {"mean": self.mean_, "components": self.components_, "scale": scale}


# Attributes of a fit by a solver that iterates, or with privacy.
_OF_SOME_FITS = ("n_iter_", "residuals_", "gap_", "privacy_", "origin_")
_OF_SOME_FITS += ("signal_to_noise_", "mixing_steps_", "spectral_gap_")
