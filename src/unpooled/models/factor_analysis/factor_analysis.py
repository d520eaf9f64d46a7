"""Factor analysis by maximum likelihood, from the covariance of rows in their silos.

    round 1   silos ── N, column sums ─────────────────────────────> mean
    round 2   silos <── mean ── silos ── sums of squares about it ─> squares
    round 3   silos <── squares ── silos ── cross-products ────────> S
    solve     S / N ≈ Λ Λᵀ + Ψ, by the likelihood of a normal distribution; then a
              rotation of Λ
    transform x ↦ (x - mean) weights, in each silo

Every array is opened as a total over all silos only.
"""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar, final

import numpy as np
import scipy
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from unpooled.arrays import Array, Float
from unpooled.errors import DataError
from unpooled.federation.federation import Federation
from unpooled.linalg.correlations import inverse_correlations
from unpooled.linalg.factor_analysis import Factors, maximum_likelihood
from unpooled.linalg.rotation import ROTATIONS, rotated, rotation_of
from unpooled.linalg.settled import Arrays, near, product, settled
from unpooled.models import moments
from unpooled.models.base import FederatedEstimator
from unpooled.models.factor_analysis.factor_analysis_results import factor_exhibits
from unpooled.models.moments import pooled_mean, pooled_scatter
from unpooled.models.parameter_checks import check_choice, whole_number
from unpooled.protocol.step import derived, public
from unpooled.results.citations import Citation


@derived(
    within_silos=True,
    takes={
        "mean": public("p", "the mean of each column over all silos"),
        "weights": public("p k", "the weights of all columns in each factor score"),
    },
    fitted_by=("factor_analysis.local_scatter",),
)
def factor_scores(
    X: Float[Array, "n p"], *, mean: Float[Array, " p"], weights: Float[Array, "p k"]
) -> Float[Array, "n k"]:
    """Return the expected factors of rows, given their cells."""
    return (X - mean) @ weights


@final
@dataclass(eq=False, repr=False)
class FactorAnalysis(
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, FederatedEstimator
):
    """Factor analysis by maximum likelihood: the pooled answer.

    Parameters
    ----------
    n_components : int, default 1
        k, the number of factors: at most so many that the model has no more parameters
        than the covariance matrix has entries, ``(p - k)² >= p + k``.
    rotation : {"varimax", "promax"} or None, default None
        Rotation of the loadings: "varimax" is orthogonal, "promax" lets factors
        correlate.
    kaiser : bool, default False
        Whether the rotation is of loadings with rows scaled to length 1 (Kaiser's
        normalisation, as in R's `factanal`). Off, as in scikit-learn.
    min_uniqueness : float, default 0.005
        Smallest share of a column's variance that may be left to it alone, as `lower`
        in R's `factanal`. Columns that reach it are Heywood cases.

    Attributes
    ----------
    components_ : (k, p) array
        Loadings of the columns in their own units, rotated. Unrotated factors are in
        the order of their eigenvalues, with the loading of largest magnitude, in units
        of standard deviations, positive; rotated ones have a positive sum of cubes.
    noise_variance_ : (p,) array
        Ψ, the variance that is each column's own, in the column's squared units
        (denominator N, as of maximum likelihood).
    uniqueness_ : (p,) array
        Its share of each column's variance.
    heywood_ : list of str
        Columns whose uniqueness is at `min_uniqueness`: without the bound their own
        variance would vanish, so that the model does not fit them properly.
    factor_correlation_ : (k, k) array
        Correlations of the factors; the identity unless the rotation is oblique.
    explained_variance_ratio_ : (k,) array
        Sum of each factor's squared standardised loadings, over p. Of correlated
        factors these shares overlap.
    mean_ : (p,) array
        Mean of all rows.
    scores_weights_ : (p, k) array
        ``(x - mean_) @ scores_weights_`` are the factor scores of a row x.
    loglike_ : float
        The log-likelihood of all rows.
    chi_square_ : dict
        Test that k factors suffice: "statistic" (with Bartlett's correction), "dof" and
        "p_value", None where there are no degrees of freedom.
    n_samples_ : int
        N, the number of rows.
    n_features_in_ : int
        p, the number of columns.
    feature_names_in_ : (p,) array of str
        Their names, where the silos' tables have names.

    Raises
    ------
    DataError
        Missing values, collinear or constant columns, or too many factors.
    ConvergenceError
        Where the likelihood has no sharp maximum.

    Notes
    -----
    Released, as totals only: N, the column sums, the sums of squares about the mean and
    the p × p cross-product matrix. Never released: a row, or any silo's own number.

    The likelihood does not depend on the columns' units, but a rotation without
    `kaiser` does, as in scikit-learn: standardise columns of different units first.

    See Also
    --------
    sklearn.decomposition.FactorAnalysis : its twin on pooled rows, which stops when the
        likelihood grows by less than its `tol`; here the maximum is found to the digits
        that sums have.

    References
    ----------
    Jöreskog, Some contributions to maximum likelihood factor analysis, Psychometrika 32
    (1967).

    Kaiser, The varimax criterion for analytic rotation in factor analysis,
    Psychometrika 23 (1958).

    Hendrickson and White, Promax: a quick method for rotation to oblique simple
    structure, British Journal of Statistical Psychology 17 (1964).
    """

    components_: Float[Array, "k p"] = field(init=False)
    noise_variance_: Float[Array, " p"] = field(init=False)
    mean_: Float[Array, " p"] = field(init=False)

    _estimates: ClassVar[Mapping[str, int | None]] = {
        "components_": 0,
        "noise_variance_": None,
        "explained_variance_ratio_": None,
    }
    _steps = (moments.local_total, moments.local_squares, moments.local_scatter)
    _exhibits = factor_exhibits

    n_components: Any = 1
    _: KW_ONLY
    rotation: str | None = None
    kaiser: bool = False
    min_uniqueness: Any = 0.005

    def _needs_variation(self) -> bool:
        return True

    def _citation(self) -> Citation:
        works = [
            "Jöreskog KG. Some contributions to maximum likelihood factor analysis. "
            "Psychometrika 1967; 32: 443-482."
        ]
        turned = ""
        if self.rotation is not None:
            turned = f", with a {self.rotation} rotation"
            turned += " of normalised loadings" if self.kaiser else ""
            works.append(
                "Kaiser HF. The varimax criterion for analytic rotation in factor "
                "analysis. Psychometrika 1958; 23: 187-200."
                if self.rotation == "varimax"
                else "Hendrickson AE, White PO. Promax: a quick method for rotation to "
                "oblique simple structure. British Journal of Statistical Psychology "
                "1964; 17: 65-70."
            )
        return Citation(
            f"A factor analysis was fitted by maximum likelihood{turned}.", tuple(works)
        )

    def _fit(self, federation: Federation, y: Any) -> None:
        k, p = self._checked(federation.n_features), federation.n_features
        N, mean = pooled_mean(federation)
        S = pooled_scatter(federation, mean)
        deviation = np.sqrt(S.diagonal() / N)
        scale = np.where(deviation > 0, deviation, np.nan)
        R = S / N / scale / scale[:, None]
        np.fill_diagonal(R, R.diagonal() / R.diagonal())
        inverse = inverse_correlations(R)
        if inverse is None:
            raise DataError(
                "A column never varies or is a linear combination of others, so that "
                "the likelihood of a factor model has no maximum. Leave columns out "
                "(unpooled.Correlation names what is correlated)."
            )
        found = maximum_likelihood(R, inverse, k, self.min_uniqueness)
        rotation = rotation_of(
            # In the columns' own units, as scikit-learn has it.
            found.loadings if self.kaiser else found.loadings * scale[:, None],
            self.rotation,
            kaiser=self.kaiser,
        )
        L = rotated(found.loadings, rotation)
        self.mean_, self.n_samples_ = mean, N
        self.components_ = np.ascontiguousarray((L * scale[:, None]).T)
        self.uniqueness_ = np.array(found.uniqueness)
        self.noise_variance_ = self.uniqueness_ * scale**2
        self.heywood_ = [
            federation.feature_names[int(j)] for j in np.flatnonzero(found.at_bound)
        ]
        self.factor_correlation_ = np.array(rotation.correlations)
        self.explained_variance_ratio_ = np.add.reduce(L * L, axis=0) / p
        self.scores_weights_ = (
            _score_weights(L, self.uniqueness_, self.factor_correlation_)
            / scale[:, None]
        )
        self._set_likelihood(found, scale, k)

    def _checked(self, p: int) -> int:
        check_choice("rotation", self.rotation, ROTATIONS)
        lower = self.min_uniqueness
        if not (isinstance(lower, float) and 0.0 < lower < 1.0):
            raise DataError(
                f"min_uniqueness={lower!r}; choose a number above 0 and below 1."
            )
        most = max((k for k in range(1, p) if (p - k) ** 2 >= p + k), default=0)
        k = whole_number("n_components", self.n_components)
        if k > most:
            raise DataError(
                f"n_components={k}, but the covariances of {p} columns determine at "
                f"most {most} factors."
            )
        return k

    def _set_likelihood(
        self, found: Factors, scale: Float[Array, " p"], k: int
    ) -> None:
        p, N, f = len(scale), self.n_samples_, found.discrepancy
        # log|Σ| + tr(Σ⁻¹ S) = f + log|S| + p at the maximum.
        logs = found.log_determinant + 2 * float(np.add.reduce(np.log(scale)))
        self.loglike_ = -N / 2 * (p * np.log(2 * np.pi) + f + logs + p)
        dof = ((p - k) ** 2 - p - k) // 2
        statistic = (N - 1 - (2 * p + 5) / 6 - 2 * k / 3) * f
        self.chi_square_ = {
            "statistic": float(statistic),
            "dof": int(dof),
            "p_value": float(scipy.stats.chi2.sf(statistic, dof)) if dof else None,
        }

    _n_features_out = property(lambda self: len(self.components_))

    def transform(self, X: Any) -> Any:
        """Return the factor scores of rows, or of every silo's rows, lazily.

        Parameters
        ----------
        X : (n, p) array-like or Federation
            A federation gives a view whose columns are factoranalysis0, ...; nothing
            leaves a silo.

        Returns
        -------
        (n, k) array or Federation
            The expected factors given the cells (regression scores).
        """
        check_is_fitted(self)
        fitted = {"mean": self.mean_, "weights": self.scores_weights_}
        names = list(self.get_feature_names_out())
        return self._applied(X, factor_scores, fitted, names)

    def get_covariance(self) -> Float[Array, "p p"]:
        """Return the covariance matrix of the model, ``Λ Φ Λᵀ + Ψ``."""
        check_is_fitted(self)
        L = self.components_.T
        return L @ self.factor_correlation_ @ L.T + np.diag(self.noise_variance_)


def _score_weights(
    L: Float[Array, "p k"], psi: Float[Array, " p"], phi: Float[Array, "k k"]
) -> Float[Array, "p k"]:
    """Return ``Ψ⁻¹ Λ (Φ⁻¹ + Λᵀ Ψ⁻¹ Λ)⁻¹``, of standardised columns."""

    def solve() -> Arrays:
        M = scipy.linalg.inv(phi) + (L / psi[:, None]).T @ L
        return {"inverse": scipy.linalg.inv(M), "condition": np.linalg.cond(M)}

    def accept(found: Arrays, own: Arrays) -> bool:
        size = float(np.abs(own["inverse"]).max() * own["condition"])
        return near(found["inverse"], own["inverse"], size)

    inverse = settled("factor scores", solve, accept)["inverse"]
    return product(L / psi[:, None], inverse)
