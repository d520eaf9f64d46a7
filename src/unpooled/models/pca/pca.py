"""Principal component analysis over all silos.

    round 1   silos ── N, column sums ─────────────────────────────> mean
    round 2   silos <── mean ── silos ── sums of squares about it ─> squares
    round 3   silos <── squares ── silos ── cross-products ────────> S
    solve     S / (N - 1) = V diag(λ) Vᵀ, the k largest λ

S is the scatter, the cross-product matrix of all rows about their mean. Every array is
opened as a total over all silos only. `PCA._fit` has these rounds; the other solvers
lead to the same components another way, each in a file of this folder:

    krylov        row partitions with many columns: products S V, never S
    components_only   S in secret sharing: components and variances are opened
    compression   S rounded to few bits, or of low rank
    private       S with the noise of differential privacy
    columns       column partitions: the Gram matrix, or its products with blocks
    gossip        column partitions, summed among neighbours
    update        rows appended or replaced, silos that joined or left

and standard_errors adds a round that says how far the components are determined,
outliers one that counts the rows far from them.
"""

import copy
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar, final

import numpy as np
from scipy.sparse import issparse
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from unpooled.arrays import Array, Float
from unpooled.errors import DataError
from unpooled.federation.federation import Federation
from unpooled.models import moments
from unpooled.models.base import FederatedEstimator, check_federation, input_names
from unpooled.models.moments import MEAN, local_scatter, local_squares, pooled_mean
from unpooled.models.parameter_checks import check_choice
from unpooled.models.pca import (
    components_only,
    compression,
    gossip,
    krylov,
    likelihood,
    outliers,
    pca_columns,
    press,
    private,
    private_location,
    private_power,
    standard_errors,
    update,
)
from unpooled.models.pca.component_number import component_numbers
from unpooled.models.pca.outliers import OUTLIERS, distances_of
from unpooled.models.pca.pca_results import pca_exhibits
from unpooled.models.pca.rotated_loadings import RotatedLoadings, rotated_loadings
from unpooled.models.pca.spectrum import (
    ALL_PAIRS,
    RULES,
    Iteration,
    Spectrum,
    Wanted,
    check_rows_suffice,
    leading_components,
    mean_of_rest,
    wanted_components,
    whitening,
)
from unpooled.models.pca.standard_errors import STANDARD_ERRORS
from unpooled.protocol.step import derived, public
from unpooled.results.citations import Citation
from unpooled.secure.noise import GaussianPrivacy

# Attributes of a fit by an iterative solver, with privacy, or after an update.
_OF_SOME_FITS = ("n_iter_", "residuals_", "gap_", "privacy_", "origin_")
_OF_SOME_FITS += (
    "explained_variance_bias_",
    "explained_variance_bounds_",
    "signal_to_noise_",
    "mixing_steps_",
    "spectral_gap_",
)
_OF_SOME_FITS += ("eigenvalues_", "feature_variance_", *STANDARD_ERRORS, *OUTLIERS)
_OF_SOME_FITS += (
    "press_",
    "component_numbers_",
    "parallel_reference_",
    "kmo_",
    "bartlett_",
)
# Values of `svd_solver`, beside "auto", by partition.
SOLVERS = {
    "rows": ("covariance_eigh", "krylov"),
    "columns": ("gram", "krylov", "gossip"),
}


@derived(
    within_silos=True,
    takes={
        "mean": MEAN,
        "components": public(
            "k p", "the principal components (loadings of all columns)"
        ),
        "scale": public("k", "the number that each component's scores are divided by"),
    },
)
def projected(
    X: Float[Array, "n p"],
    *,
    mean: Float[Array, " p"],
    components: Float[Array, "k p"],
    scale: Float[Array, " k"],
) -> Float[Array, "n k"]:
    """Return the scores of rows along the components, divided by `scale`."""
    return (X - mean) @ components.T / scale


def no_spare_pairs(p: int, k: int) -> int:
    """Return that no directions are needed beyond the k components."""
    return 0


def principal_components(
    S: Float[Array, "p p"],
    N: int,
    mean: Float[Array, " p"],
    wanted: Wanted,
    spare: Callable[[int, int], int] = no_spare_pairs,
    attributes: Mapping[str, Any] | None = None,
) -> Spectrum:
    """Return the leading components of a scatter, which is overwritten.

    Parameters
    ----------
    S : (p, p) array
        Cross-products of all rows about their mean, undivided.
    N : int
        Sample size.
    mean : (p,) array
        Mean of all rows.
    wanted : int, float or None
        Number of components, share of variance, or all.
    spare : callable, optional
        Takes p and k, and returns how many directions are needed beyond k.
    attributes : mapping, optional
        Further fitted attributes.
    """
    p = len(S)
    S /= N - 1
    total = float(S.trace())
    # Before S is overwritten.
    feature_variance = S.diagonal().copy()
    # Eigenvalues in descending order; in each eigenvector the entry of largest
    # magnitude is positive, so that silos and refits agree in signs.
    k, variance, V = leading_components(S, wanted, min(N, p), total, spare)
    noise = 0.0
    if k < min(N, p):
        # Where only k pairs were computed, the trace gives the sum of the others.
        rest = variance[k:] if len(variance) == p else total - variance.sum()
        noise = mean_of_rest(float(rest.sum()), p - k)
    return Spectrum(
        N=N,
        mean=mean,
        variance=variance[:k].copy(),
        axes=V[:, :k],
        total=total,
        noise=noise,
        attributes={
            "eigenvalues_": variance[: min(N, p)].copy(),
            "feature_variance_": feature_variance,
            **(attributes or {}),
        },
        spare_axes=V[:, k:],
    )


@final
@dataclass(eq=False, repr=False)
class PCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, FederatedEstimator):
    """Principal component analysis over a federation: the pooled answer.

    Parameters
    ----------
    n_components : int, float in (0, 1), one of four rules or None
        Number of components, or share of the variance that they are to explain; None,
        the default, keeps all. A rule finds the number, at least 1: "parallel", Horn's
        parallel analysis, or "map", Velicer's minimum average partial, both of the
        correlation matrix; "mle", Minka's maximum likelihood, of the covariance matrix;
        or "press", the smallest cross-validated error of reconstruction.
    svd_solver : {"auto", "covariance_eigh", "krylov", "gram", "gossip"}, default "auto"
        "covariance_eigh" sums the scatter (the cross-product matrix about the mean),
        p (p + 1) / 2 numbers per silo, in three rounds. "krylov" sums its products with
        about k + 4 directions at a time; the number of rounds depends on the spectrum,
        and nobody holds p × p numbers. "auto" takes "krylov" where p is above 5,000 and
        k is much smaller. On a column partition "gram" sums the Gram matrix of all
        rows, N (N + 1) / 2 numbers, and "krylov" its products with directions; "auto"
        takes the one that sends fewer bytes. "gossip" sums such products among
        neighbours, without a coordinator.
    tol : float, default 1e-9
        For iterative solvers: largest sine of the angle between the components' span
        and its limit, certified by residuals and the gap behind the components.
    max_iter : int, default 100
        Most rounds of iterative solvers.
    whiten : bool, default False
        Scale the coordinates to unit variance.
    privacy : GaussianPrivacy, optional
        Differential privacy: noise in the totals that hides any one row; see
        `unpooled.models.pca.private`.
    bits : {64, 32, 16, 8}, default 64
        Bits in which each number of the scatter is sent, rounded without bias; see
        `unpooled.models.pca.compression`.
    rank : int or None, default None
        Each silo discloses the `rank` directions in which its own rows vary most,
        instead of its part of a sum. Every silo must allow it.
    open : {"covariance", "components"}, default "covariance"
        What is opened of the p × p scatter: all of it, or only the components and
        variances that are computed of it in secret sharing among at least three silos'
        processes, for at most 100 columns; see `unpooled.models.pca.components_only`.
    topology : {"complete", "ring", "star"} or mapping, default "complete"
        Of "gossip": the neighbours of each silo, as in `Federation.exchange`.
    standard_errors : bool or "variances", default False
        Whether one more round gives standard errors of variances and loadings, or of
        variances alone, for `svd_solver` "covariance_eigh".
    outliers : bool, default False
        Whether one more round counts the rows far from the components, for `svd_solver`
        "covariance_eigh" and at most 256 columns.
    cv : int, default 5
        Only with "press": number of folds, those of ``federation.folds(cv,
        shuffle=False)``.
    scores : {"coordinator", "parties"} or None, default "coordinator"
        Who receives the scores on a column partition: the coordinator, the silos
        alone, or nobody. On a row partition scores stay in the silos.
    random_state : int, RandomState or None, default None
        Seed of the starting directions of iterative solvers; None takes the
        federation's.

    Attributes
    ----------
    components_ : (k, p) array
        Orthonormal rows, by decreasing variance; in each the entry of largest
        magnitude is positive.
    explained_variance_ : (k,) array
        Variance along each component, with denominator N - 1, largest first.
    explained_variance_ratio_ : (k,) array
        Its share of the total variance.
    singular_values_ : (k,) array
        ``sqrt((N - 1) explained_variance_)``, those of the centred pooled rows.
    mean_ : (p,) array
        Mean of all rows.
    n_components_ : int
        k.
    n_samples_ : int
        N, the sample size over all silos.
    noise_variance_ : float
        Mean variance (denominator N - 1) along the p - k other directions
        (probabilistic PCA), 0 when k = min(N, p). With "krylov" along min(N, p) - k of
        them, as scikit-learn has it for solvers that find only k.
    kept_ : str
        Only on a column partition: study and view under which the silos keep their
        part of the components.
    n_features_in_ : int
        p.
    feature_names_in_ : (p,) array of str
        Names of the columns, where the silos' tables have names.
    eigenvalues_ : (l,) array
        All variances (denominator N - 1) that the fit found, at least k, at most min(N,
        p), in descending order; the first k are `explained_variance_`.
        "covariance_eigh" finds all of up to 256 columns. Not with "krylov", "gossip",
        `bits`, `rank` or ``open="components"``, which find k.
    feature_variance_ : (p,) array
        Variance of each column, with denominator N - 1. Not with `privacy`, nor on a
        column partition.
    component_numbers_ : dict of str to int
        Only where a rule finds the number: what each says, "parallel", "map", "mle",
        "kaiser" (eigenvalues of correlations above 1) and "broken_stick"; with
        ``n_components="press"`` also "press".
    press_ : (l,) array
        Only with ``n_components="press"``: the predictive residual sum of squares of
        all rows, with 0, 1, ... components of the folds that a row is not in. Each
        cell is predicted from the row's other cells.
    parallel_reference_ : (p,) array
        Only where a rule finds the number: 95 % quantiles of the eigenvalues of
        correlations between uncorrelated normal columns, for N rows.
    kmo_ : float
        Only where a rule finds the number: the measure of sampling adequacy of Kaiser,
        Meyer and Olkin; 0 where columns are collinear.
    bartlett_ : tuple of (float, int, float)
        Only where a rule finds the number: Bartlett's test that columns are
        uncorrelated, chi-squared, degrees of freedom and p, for normal rows.
    explained_variance_se_ : (k,) array
        Only with `standard_errors`: standard errors of `explained_variance_`. Also with
        `privacy` and the mechanism "scatter", and with "preconditioned" where the noise
        is so small that hardly any row is clipped: of noise and of normal rows
        together, NaN where `signal_to_noise_` is below 1.25.
    explained_variance_bias_ : (k,) array
        Only with `privacy`, beside `explained_variance_se_`: what the noise adds to
        each variance on average. Intervals at 95 % are
        ``explained_variance_ - explained_variance_bias_ ± 1.96 explained_variance_se_``
    explained_variance_bounds_ : (k, 2) array
        Only with `privacy` where rows are clipped, so that there are no standard
        errors ("power", and "preconditioned" with much noise): bounds of the k largest
        mean squares of the pooled rows along orthogonal directions, about `mean_`. All
        hold together with a probability of 0.95 over the noise, whatever the rows are,
        if none is further than `row_norm` from the centre. They say nothing of other
        rows than these.
    components_se_ : (k, p) array
        Only with ``standard_errors=True``, or with `privacy`, beside
        `explained_variance_se_`: standard errors of the loadings; NaN for a component
        that is not determined.
    components_ci_factor_ : (k,) array
        Only with ``standard_errors=True``: half the 95 % interval of a loading, in its
        standard errors. 1.96, and more where a component rotates easily into another;
        NaN for one that is not determined.
    explained_variance_se_normal_ : (k,) array
        Only with `standard_errors`: what they would be for normal rows. Not for more
        than 64 standardised columns.
    components_se_normal_ : (k, p) array
        Only with ``standard_errors=True``: the same of the loadings.
    subspaces_ : (k, 2) int array
        Only where `components_se_` is: positions, from 0, of the first and the last
        component of the subspace that each lies in. Neighbours share one where their
        variances differ by less than a fifth of the larger, or by what noise alone may
        show; a component that is determined has its own.
    angle_se_ : (k,) array
        Only where `components_se_` is: root mean square, in radians, of the angle
        between the component and its counterpart in the population; of one that is not
        determined, between it and the subspace that it shares with neighbours. NaN
        where more neighbours share it than were computed.
    components_se_bound_ : float
        Only with ``standard_errors=True``: largest relative error of a coefficient of
        the influence functions, where more than 64 columns are not treated one by one;
        else 0.
    standard_errors_of_ : {"covariance", "correlations"}
        Only with `standard_errors`: whether the columns were taken as given, or as
        standardised by deviations that were estimated from the same rows.
    mahalanobis_limits_ : (3,) array
        Only with `outliers`: squared Mahalanobis distances within which 95, 99 and
        99.9 % of normal rows lie.
    q_limits_ : (3,) array
        Only with `outliers`: the same of Q-residuals, the squared distances from the
        span of the components; infinite where there is no other direction.
    n_beyond_mahalanobis_ : (3,) array of int
        Only with `outliers`: number of rows of all silos beyond these limits.
    n_beyond_q_ : (3,) array of int
        Only with `outliers`: the same of Q-residuals.
    n_iter_ : int
        Only with iterative solvers: rounds in which a block was multiplied.
    residuals_ : (k,) array
        Only with "krylov": ``‖C v - λ v‖`` of each component v and its variance λ.
    gap_ : float
        Only with "krylov": lower bound on the difference of variances k and k + 1.
    privacy_ : dict
        Only with `privacy`: its parameters, the neighbouring relation ("neighbours"),
        the cost "rho", and "noise_edge", the largest variance that noise alone shows.
        With the mechanism "preconditioned" also "radius" and "inner_radius", the
        lengths that rows about the mean were clipped to in the two last rounds; the
        noise edge is then that of both together, in directions in which the first of
        them showed noise alone, and larger in others. Columns that are shrunk have less
        noise.
    signal_to_noise_ : (k,) array
        Only with `privacy`: variances divided by "noise_edge", or by what it is along
        that component; a component near 1 is
        indistinguishable from noise.
    mixing_steps_ : int
        Only with "gossip": messages to each neighbour for one average; `n_iter_`
        averages were made.
    spectral_gap_ : float
        Only with "gossip": smallest eigenvalue above 0 of the graph's Laplacian,
        divided by the largest; the smaller, the more messages.
    origin_ : (p,) array
        Only after `update`: the mean of the first fit, about which silos keep their
        moments.

    Raises
    ------
    DataError
        Missing values (except with `privacy`), fewer than two rows, or `n_components`
        beyond min(N, p).
    ConvergenceError
        When `max_iter` rounds were not enough for `tol`.

    Notes
    -----
    Released, as totals only: N, the p column sums, the p sums of squares about the
    mean, and the p × p scatter about it, or with "krylov" its products with public
    directions. Never released: a row, or any silo's own count, mean or covariance. A
    fitted model, and its file, have numbers that follow from these totals beyond the k
    components asked for: `eigenvalues_` and `feature_variance_`.

    With ``open="components"`` no scatter is released: N, the column sums and the sums
    of squares as totals, then the k components and their variances, and nothing between
    (fewer than half of the computing silos together learn no more). Components are
    within 1e-9 of the pooled ones, as angles, where variances differ by 1 % from the
    next. A component whose variance is within 0.011 % of the next one's is not opened,
    and the fit ends there.

    With ``n_components="press"`` the same totals of all rows without each fold too:
    ``cv + 1`` times the numbers of a fit.

    With `standard_errors` k p + k more totals are released: the squared influence of
    each row on every loading and variance of the k components, added over all rows
    (with "variances" k of them). Standard errors are ``sqrt(sum) / N``, to first order
    and without an assumption of normality; `unpooled.models.pca.standard_errors` has
    the formulas. Confidence intervals at 95 % are the estimates ± 1.96 standard errors.

    With `outliers` six more totals are released: how many rows lie beyond each limit.
    Which rows these are, each silo finds for itself (`unpooled silo apply --outliers`).

    On a column partition the totals are the sum of squares of all columns about their
    means, one number, and the N × N Gram matrix, or with "krylov" its products with
    public directions. Both have entries for people, which every silo must allow, and
    determine the scores for the coordinator, whatever `scores` says. Each silo keeps
    its means and loadings; reading `components_` or `mean_` asks the silos to disclose
    them. In each component the score of largest magnitude is positive.

    With "gossip" the coordinator learns N and in each iteration the number of silos
    whose components are certified, and relays what it cannot open. Every silo sends its
    neighbours its own products with directions over people, as they are, which every
    silo must allow (`allow_disclosed`); as many as it has columns determine its Gram
    matrix.
    Several steps of mixing reveal what lies further away too. All silos end with the
    same scores and variances, each with its own loadings; reading any of these
    attributes asks the silos to disclose them.

    Columns may differ in scale by sixteen orders of magnitude, and means may be 1e8
    times the standard deviations: the sums keep twelve digits of every entry's own
    bound, and small eigenvalues of such graded matrices are found to their own digits.

    See Also
    --------
    sklearn.decomposition.PCA : its twin on pooled rows, same names, signs and order.

    References
    ----------
    Pooled Covariance PCA (P-COV) for Distributed/Federated Learning, sections 3 to 5.
    There each silo sends its own N, mean and covariance in clear, in one round, and the
    pooled covariance is divided by N.

    Jolliffe, Principal component analysis, 2nd edition, Springer, 2002.

    Dwork, Talwar, Thakurta and Zhang, Analyze Gauss: optimal bounds for
    privacy-preserving principal component analysis, STOC 2014: `privacy`.

    Hardt and Price, The noisy power method: a meta algorithm with applications, NeurIPS
    2014: `privacy` with many columns.

    Ye and Zhang, DeEPCA: decentralized exact PCA with linear convergence rate, Journal
    of Machine Learning Research 22 (2021): silos without a coordinator.
    """

    components_: Float[Array, "k p"] = field(init=False)
    explained_variance_: Float[Array, " k"] = field(init=False)
    explained_variance_ratio_: Float[Array, " k"] = field(init=False)
    singular_values_: Float[Array, " k"] = field(init=False)
    mean_: Float[Array, " p"] = field(init=False)

    _partitions = ("rows", "columns")
    _kept_by_silos = (
        "components_",
        "mean_",
        "explained_variance_",
        "explained_variance_ratio_",
        "singular_values_",
        "noise_variance_",
    )
    _computed = (
        *("explained_variance_se_normal_", "components_se_normal_"),
        *("signal_to_noise_", "explained_variance_bounds_"),
    )
    _estimates: ClassVar[Mapping[str, int | None]] = {
        "components_": 0,
        "explained_variance_": None,
        "explained_variance_ratio_": None,
    }
    _scored_by = ("log_likelihood",)
    _steps = (
        *(moments.local_total, moments.local_squares, moments.local_scatter),
        *(krylov, pca_columns, gossip, compression),
        *(private, private_location, private_power),
        *(components_only, update, likelihood),
        *(standard_errors, outliers),
    )
    _exhibits = pca_exhibits

    n_components: Any = None
    _: KW_ONLY
    svd_solver: str = "auto"
    tol: float = 1e-9
    max_iter: int = 100
    whiten: bool = False
    privacy: Any = None
    bits: int = 64
    rank: int | None = None
    open: str = "covariance"
    topology: Any = "complete"
    standard_errors: Any = False
    outliers: bool = False
    cv: int = 5
    scores: str | None = "coordinator"
    random_state: Any = None

    def _citation(self) -> Citation:
        works = [
            "Jolliffe IT. Principal Component Analysis. 2nd edition. Springer, 2002."
        ]
        found, exact = "", True
        if self.privacy is not None:
            found, exact = (
                ", with random noise in the totals for differential privacy",
                False,
            )
            works.append(
                "Dwork C, Talwar K, Thakurta A, Zhang L. Analyze Gauss: optimal bounds "
                "for privacy-preserving principal component analysis. STOC 2014: 11-20."
            )
            mechanism = GaussianPrivacy.of(self.privacy).mechanism
            if mechanism == "power":
                works.append(
                    "Hardt M, Price E. The noisy power method: a meta algorithm with "
                    "applications. NeurIPS 2014: 2861-2869."
                )
            if mechanism == "preconditioned":
                works.append(
                    "Kamath G, Li J, Singhal V, Ullman J. Privately learning "
                    "high-dimensional distributions. COLT 2019: 1853-1902."
                )
        elif self.bits < 64 or self.rank is not None:
            found, exact = ", from a cross-product matrix of reduced precision", False
        elif self.open == "components":
            found = ", of which only components and variances were opened"
            works.append(
                "Froelicher D, Cho H, Edupalli M, et al. Scalable and "
                "privacy-preserving federated principal component analysis. IEEE "
                "Symposium on Security and Privacy 2023: 1908-1925."
            )
        elif self.svd_solver == "gossip":
            found = ", by block Krylov iterations among neighbouring silos"
            works.append(
                "Ye H, Zhang T. DeEPCA: decentralized exact PCA with linear "
                "convergence rate. Journal of Machine Learning Research 2021; 22(238): "
                "1-27."
            )
        return Citation(
            f"A principal component analysis of the covariance matrix was "
            f"computed{found}.",
            tuple(works),
            exact,
        )

    def _needs_variation(self) -> bool:
        # The rules for the number of components standardise.
        return isinstance(self.n_components, str)

    def _fit(self, federation: Federation, y: Any) -> None:
        wanted = self._check_parameters(federation)
        solver = self._chosen_solver(federation, wanted)
        if solver != "covariance_eigh":
            self._set_attributes(self._solved_by(solver, federation, wanted))
            return
        if self.n_components == "press":
            # The same three rounds, of all rows and of all without each fold.
            whole, *parts = press.pooled_moments(federation, self.cv)
            planned = federation.coordinator.planned
            errors = None if planned else press.press(whole, parts)
            self._set_exact_attributes(
                federation, whole.S, whole.N, whole.mean, wanted, errors
            )
            return
        # Round 1: the sample size and the mean of all rows.
        N, mean = pooled_mean(federation)
        check_rows_suffice(wanted, N, federation.n_features)
        # Round 2: the sums of squares about the mean, the diagonal of S. By Cauchy and
        # Schwarz |S_ij| <= sqrt(S_ii S_jj): every entry of S is sent in units of that.
        squares = federation.sum(local_squares, mean=mean)["squares"]
        # Round 3: the scatter S = Σ (x - mean) (x - mean)ᵀ, over all rows x. Silos form
        # it about the mean, because Σ x xᵀ - N mean meanᵀ would lose digits.
        S = federation.sum(local_scatter, squares=squares)["scatter"]
        self._set_exact_attributes(federation, S, N, mean, wanted)

    def _set_exact_attributes(
        self,
        federation: Federation,
        S: Float[Array, "p p"],
        N: int,
        mean: Float[Array, " p"],
        wanted: Wanted,
        press_: Float[Array, " l"] | None = None,
    ) -> None:
        """Set the components of a scatter, which is overwritten, and their errors.

        `press_` are the errors of reconstruction, where folds were fitted.
        """
        by_rule: dict[str, Any] = {}
        if isinstance(self.n_components, str) and not federation.coordinator.planned:
            rng = check_random_state(federation.seed(self.random_state))
            numbers = component_numbers(S / (N - 1), N, rng)
            if press_ is not None:
                numbers.by_rule["press"] = int(np.argmin(press_))
            wanted = max(numbers.by_rule[self.n_components], 1)
            by_rule = {
                "component_numbers_": numbers.by_rule,
                "parallel_reference_": numbers.reference,
                "kmo_": numbers.kmo,
                "bartlett_": numbers.bartlett,
            }
            if press_ is not None:
                by_rule["press_"] = press_
        spare = standard_errors.spare_pairs if self.standard_errors else no_spare_pairs
        spectrum = principal_components(S, N, mean, wanted, spare, by_rule)
        self._set_attributes(spectrum)
        found: dict[str, Any] = {}
        if self.standard_errors:
            # Squared influences of the rows on the components just found.
            found |= standard_errors.standard_errors(
                federation,
                standard_errors.Eigenpairs.of(spectrum),
                self.n_components_,
                of_loadings=self.standard_errors is True,
            )
        if self.outliers:
            k, every = self.n_components_, vars(self)["eigenvalues_"]
            found |= outliers.outliers(
                federation, mean, self.components_, every[:k], every[k:]
            )
        for name, value in found.items():
            setattr(self, name, value)

    def _set_attributes(self, spectrum: Spectrum) -> None:
        """Set everything that ends in ``_``."""
        for name in _OF_SOME_FITS:
            self.__dict__.pop(name, None)
        for name, value in spectrum.attributes.items():
            setattr(self, name, value)
        N = spectrum.N
        self.n_samples_, self.n_components_ = N, spectrum.n_kept_in_silos
        if (pairs := spectrum.certificate) is not None:
            self.n_iter_ = pairs.n_iter
            self.residuals_ = pairs.residuals / (N - 1)
            self.gap_ = pairs.gap / (N - 1)
        self._set_kept_attributes(spectrum)

    def _set_kept_attributes(self, spectrum: Spectrum) -> None:
        """Set the attributes that the silos of a column partition may keep."""
        # On a column partition the silos keep these.
        if spectrum.mean is not None and spectrum.axes is not None:
            self.mean_ = spectrum.mean
            self.components_ = np.ascontiguousarray(spectrum.axes.T)
        # Without a coordinator they keep these too.
        if (variance := spectrum.variance) is not None:
            self.n_components_ = len(variance)
            self.explained_variance_ = variance
            self.explained_variance_ratio_ = variance / (spectrum.total or 1.0)
            self.singular_values_ = np.sqrt((spectrum.N - 1) * variance)
            self.noise_variance_ = spectrum.noise

    def _check_parameters(self, federation: Federation) -> Wanted:
        """Refuse parameters that do not exist or do not go together."""
        solvers = SOLVERS[federation.partition]
        why = f" on {federation.partition}"
        check_choice("svd_solver", self.svd_solver, ("auto", *solvers), why)
        if self.privacy is not None:
            GaussianPrivacy.of(self.privacy)
        compression.check_compression(
            self.bits,
            self.rank,
            n_components=self.n_components,
            privacy=self.privacy,
            svd_solver=self.svd_solver,
        )
        of_rows = self._is_compressed() or self.privacy is not None
        forms_scatter = self.svd_solver in ("auto", "covariance_eigh")
        exact = federation.partition == "rows" and forms_scatter and not of_rows
        own = self.standard_errors is False and not self.outliers and forms_scatter
        components_only.check_components_only(
            self.open,
            self.n_components,
            partition=federation.partition,
            defaults=own and not of_rows,
            n_features=federation.n_features,
        )
        if federation.partition == "columns" and of_rows:
            raise DataError(
                "bits, rank and privacy are about a row partition's scatter."
            )
        kinds = (True, False, "variances")
        check_choice("standard_errors", self.standard_errors, kinds)
        if self.standard_errors and (of_rows or federation.partition == "columns"):
            raise DataError(
                "Standard errors take the exact scatter of a row partition: leave "
                "privacy, bits and rank at their defaults."
            )
        if self.outliers:
            if not exact:
                raise DataError(
                    "outliers=True takes the exact scatter of a row partition: "
                    'svd_solver="covariance_eigh", without privacy, bits or rank.'
                )
            if federation.n_features > ALL_PAIRS:
                raise DataError(
                    f"outliers=True takes all variances, which are computed of up to "
                    f"{ALL_PAIRS} columns; there are {federation.n_features}."
                )
        check_choice("scores", self.scores, ("coordinator", "parties", None))
        if self.standard_errors and not forms_scatter:
            raise DataError(
                f'svd_solver="{self.svd_solver}" has no standard errors; choose '
                f'"covariance_eigh".'
            )
        if not (0 < self.tol < 1 and self.max_iter >= 1):
            raise DataError(
                f"tol={self.tol!r} and max_iter={self.max_iter!r}: tol is a sine "
                f"between 0 and 1, and max_iter at least 1."
            )
        k = self.n_components
        if isinstance(k, str) and k in RULES:
            if not exact:
                raise DataError(
                    f'n_components="{k}" takes the exact scatter of a row partition: '
                    f'svd_solver="covariance_eigh", without privacy, bits or rank.'
                )
            # A plan does not know the number.
            return 1
        return wanted_components(k, federation.n_features)

    def _is_compressed(self) -> bool:
        return self.bits != 64 or self.rank is not None

    def _chosen_solver(self, federation: Federation, wanted: Wanted) -> str:
        """Return the solver that the parameters and the federation's size call for."""
        if self.privacy is not None:
            return "private"
        if self._is_compressed():
            return "compressed"
        if self.open == "components":
            return "components only"
        if self.standard_errors or self.outliers or isinstance(self.n_components, str):
            return "covariance_eigh"
        if self.svd_solver != "auto":
            return self.svd_solver
        if federation.partition == "columns":
            return pca_columns.cheaper_solver(wanted, federation)
        return "krylov" if krylov.is_cheaper(wanted, federation) else "covariance_eigh"

    def _solved_by(
        self, solver: str, federation: Federation, wanted: Wanted
    ) -> Spectrum:
        """Return the components by another solver than "covariance_eigh"."""
        iteration = Iteration(self.tol, self.max_iter, self.random_state)
        if solver == "private":
            privacy = GaussianPrivacy.of(self.privacy)
            return private.private(federation, wanted, privacy, self.random_state)
        if solver == "components only":
            return components_only.components_only(federation, wanted)
        if solver == "compressed":
            return compression.compressed(
                federation, wanted, bits=self.bits, rank=self.rank
            )
        if solver == "gossip":
            return gossip.gossip(federation, wanted, self.topology, iteration)
        if solver == "gram":
            return pca_columns.gram(federation, wanted)
        if federation.partition == "columns":
            return pca_columns.block_krylov(federation, wanted, iteration)
        return krylov.block_krylov(federation, wanted, iteration)

    @classmethod
    def forms_scores(cls, parameters: Mapping[str, Any]) -> bool:
        """Return whether silos keep scores only if `transform` is called."""
        # By "gossip" each has found them in the fit.
        by_gossip = parameters.get("svd_solver") == "gossip"
        return parameters.get("scores") == "parties" and not by_gossip

    _n_features_out = property(lambda self: self.n_components_)

    def transform(self, X: Any) -> Any:
        """Return the scores of rows, or of every silo's rows, lazily.

        Parameters
        ----------
        X : (n, p) array-like or Federation
            An array may be sparse. A federation gives a view whose columns are pca0,
            pca1, ...; nothing leaves a silo. On a column partition scores are sums over
            silos: the coordinator receives them, or (``scores="parties"``) the silos
            keep them.

        Returns
        -------
        (n, k) array or Federation, or None where the silos keep the scores
        """
        if issparse(X):
            return self._of_sparse(X)
        if isinstance(X, Federation) and X.partition == "columns":
            view, scale = self._check_view(X), self._scale()
            return pca_columns.scores(
                self, view, to=self.scores, kept_of=self.kept_, scale=scale
            )
        names = list(self.get_feature_names_out())
        return self._applied(X, projected, self._projection(), names)

    def _of_sparse(self, X: Any) -> Float[Array, "n k"]:
        """Return the scores of sparse rows, which are never made dense."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, accept_sparse="csr", dtype="float64")
        scores = X @ self.components_.T - self.mean_ @ self.components_.T
        return scores / self._scale()

    def mahalanobis(self, X: Any) -> Float[Array, " n"]:
        """Return the squared Mahalanobis distance of each row within the components.

        Parameters
        ----------
        X : (n, p) array-like
            Rows.

        Returns
        -------
        (n,) array
            Squared scores in units of the variances, added: Hotelling's T².
        """
        return self._distances(X)[0]

    def q_residuals(self, X: Any) -> Float[Array, " n"]:
        """Return the squared distance of each row from the span of the components.

        Parameters
        ----------
        X : (n, p) array-like
            Rows.

        Returns
        -------
        (n,) array
            In squared units of the columns.
        """
        return self._distances(X)[1]

    def _distances(self, X: Any) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
        rows = self._check_rows(X)
        return distances_of(
            rows, self.mean_, self.components_, self.explained_variance_
        )

    def inverse_transform(self, X: Any) -> Float[Array, "n p"]:
        """Return the rows of given scores, as far as k components determine them.

        Parameters
        ----------
        X : (n, k) array-like
            Scores as `transform` returns them.
        """
        projection = self._projection()
        scores = self._check_transformed(X, len(self.components_)) * projection["scale"]
        return scores @ self.components_ + self.mean_

    def rotated_loadings(
        self, rotation: str = "varimax", *, kaiser: bool = False
    ) -> RotatedLoadings:
        """Return the loadings after a rotation towards simple structure.

        The model stays as it is: `components_` are orthonormal and in the order of
        their variances, which a rotation ends.

        Parameters
        ----------
        rotation : {"varimax", "promax"}, default "varimax"
            Orthogonal, or with correlated components.
        kaiser : bool, default False
            Whether the rotation is of loadings with rows scaled to length 1 (Kaiser's
            normalisation, as in SPSS and R).
        """
        check_is_fitted(self)
        return rotated_loadings(
            self.components_,
            self.explained_variance_,
            input_names(self),
            rotation,
            kaiser,
        )

    def _projection(self) -> dict[str, Array]:
        """Return the public arguments of `projected`."""
        scale = self._scale()
        return {"mean": self.mean_, "components": self.components_, "scale": scale}

    def _scale(self) -> Float[Array, " k"]:
        check_is_fitted(self)
        if not self.whiten:
            return np.ones(self.n_components_)
        return whitening(self.explained_variance_)

    def _gather(self, federation: Federation) -> None:
        if "mixing_steps_" in vars(self):
            N, k = self.n_samples_, self.n_components_
            spectrum = gossip.disclosed_spectrum(
                federation, kept_of=self.kept_, N=N, k=k
            )
            self._set_kept_attributes(spectrum)
            return
        self.mean_, self.components_ = pca_columns.disclosed_loadings(
            federation, kept_of=self.kept_, variance=self.explained_variance_
        )

    def update(self, federation: Federation) -> "PCA":
        """Refit to the present rows of the present silos, in one round.

        Parameters
        ----------
        federation : Federation
            The rows as they are now: some appended or replaced, silos joined or left.

        Returns
        -------
        self
            As `fit` on the same federation would make it, to 1e-10. Where an update
            fails the model stays as it was.

        Raises
        ------
        ReleaseRefusedError
            Under `allow_roster_change` or `min_changed_rows`.
        DataError
            After a fit with `privacy`, `bits`, `rank` or by block Krylov.

        Notes
        -----
        Released, as totals only: N, the p column sums and the p × p scatter about the
        first fit's mean; next to earlier totals, those of the rows that changed.
        """
        view = self._check_view(federation)
        self._check_updatable(view)
        wanted = self._check_parameters(view)
        origin = self.origin_ if hasattr(self, "origin_") else self.mean_
        with view.calling(self, "update"):
            N, mean, S = update.present_moments(view, origin)
            check_rows_suffice(wanted, N, view.n_features)
            if not (moved := update.has_moved_far(N, mean, S, origin)):
                self._set_exact_attributes(view, S, N, mean, wanted)
        if moved:
            # A fit that fails clears its model; an update leaves this one as it was.
            fitted = copy.copy(self).fit(view)
            self._forget()
            self.__dict__.update(vars(fitted))
            return self
        self.origin_ = origin
        return self

    @property
    def updates_from(self) -> tuple[str, ...]:
        """Names of the fitted attributes that `update` starts from."""
        origin = "origin_" if hasattr(self, "origin_") else "mean_"
        return origin, "n_features_in_", "feature_names_in_"

    def _check_updatable(self, federation: Federation) -> None:
        """Refuse fits whose moments were not exact, or were never formed."""
        if federation.partition != "rows":
            raise DataError("update is for silos with rows of their own; fit anew.")
        opens = self.open == "components"
        if self.privacy is not None or self._is_compressed() or opens:
            raise DataError(
                "update takes exact moments: fit with privacy, bits, rank and open at "
                "their defaults, or fit anew."
            )
        if self.n_components == "press":
            raise DataError(
                'update sums no folds, which n_components="press" takes. Fit anew.'
            )
        if hasattr(self, "n_iter_"):
            raise DataError(
                f'update sums a scatter, which svd_solver="{self.svd_solver}" never '
                f"forms. Fit anew."
            )

    def get_covariance(self) -> Float[Array, "p p"]:
        """Return the covariance matrix of the probabilistic model.

        References
        ----------
        Tipping and Bishop, Mixtures of probabilistic principal component analyzers,
        Neural Computation 11 (1999).
        """
        return self.to_sklearn().get_covariance()

    def get_precision(self) -> Float[Array, "p p"]:
        """Return the inverse of `get_covariance`."""
        return self.to_sklearn().get_precision()

    def score_samples(self, X: Any) -> Float[Array, " n"]:
        """Return the log-likelihood of each row under the probabilistic model."""
        X, twin = self._check_rows(X), self.to_sklearn()
        # The rows were checked, and are a plain array now: without names.
        vars(twin).pop("feature_names_in_", None)
        return twin.score_samples(X)

    def score(self, X: Any, y: Any = None) -> float:
        """Return the mean log-likelihood of rows under the probabilistic model.

        Parameters
        ----------
        X : (n, p) array-like or Federation
            Rows. Of a federation by rows are released, as totals only: N, and the
            squares of the rows' distances from the mean and of their scores, added.
        y : optional
            Ignored.

        Raises
        ------
        DataError
            When the model was fitted on a column partition.
        """
        if not isinstance(X, Federation):
            return float(np.mean(self.score_samples(X)))
        if X.partition == "columns":
            raise DataError(
                "On a column partition each silo keeps its part of the components, so "
                "a score of rows would take sums over the parts of every person."
            )
        view = check_federation(self, self._check_view(X))
        with view.calling(self, "score"):
            return likelihood.mean_log_likelihood(
                view,
                self.mean_,
                self.components_,
                self.explained_variance_,
                float(self.noise_variance_),
            )

    def to_sklearn(self) -> Any:
        """Return a fitted `sklearn.decomposition.PCA`, usable without this library."""
        import sklearn.decomposition

        twin = sklearn.decomposition.PCA(
            self.n_components, whiten=self.whiten, svd_solver="covariance_eigh"
        )
        return self._taught(twin)
