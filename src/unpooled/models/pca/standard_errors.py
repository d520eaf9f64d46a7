"""Standard errors of principal components, without an assumption of normality.

    silos <── mean, scale, q leading components, coefficients
    silos ── squared influence of each row on every variance and loading, added ──> se

The influence of a row is, to first order, N times the change of an estimate when the
row is weighted a little more. With scores z_l along the components v_l of variances λ_l
it is, for a covariance matrix,

    of λ_j   z_j² - λ_j
    of v_j   z_j Σ_l z_l / (λ_j - λ_l) v_l                    over all l other than j

and for the correlation matrix of standardised columns x, whose standard deviations were
estimated from the same rows,

    of λ_j   z_j² - λ_j Σ_m v_jm² x_m²
    of v_j   as above, less ½ Σ_l (λ_j + λ_l) / (λ_j - λ_l) v_l Σ_m v_lm v_jm x_m².

The standard error is the square root of the sum of squares over all rows, divided by N.
Of many columns the q leading components are taken one by one. The coefficients of all
others lie between two close numbers; their mean stands for them, and the projection
beyond the q components, x - Σ_l z_l v_l, for their sum.

Neighbouring components whose relative gap (λ_j - λ_{j+1}) / λ_j is below 0.2 may rotate
into each other, so that their loadings are not determined. For these the sums leave out
each other's directions: they measure how far the component lies outside the subspace
that it shares with its neighbours.

Intervals of loadings have a term of second order. In the plane of two components whose
variances in a sample, along the axes of the population, are d apart, with a covariance
c, the rotation is θ = atan(2 c / d) / 2; but the components' own variances are found
sqrt(d² + 4 c²) apart, so that the standard error is the smaller, the further they are
rotated. With ρ the standard error of θ, θ divided by it is z (1 + 2/3 z² ρ²) at
c = z ρ d, up to terms of fourth order in ρ. Intervals are wider by this factor, of the
neighbour with the largest ρ: its share of the angle's variance is taken to be that of
normal rows, λ_j λ_l / (λ_j - λ_l)² by the sum over all l.

References
----------
Critchley, Influence in principal components analysis, Biometrika 72 (1985); Anderson,
Asymptotic theory for principal component analysis, Annals of Mathematical Statistics 34
(1963); Waternaux, Asymptotic distribution of the sample roots for a nonnormal
population, Biometrika 63 (1976).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from unpooled.arrays import Array, Float
from unpooled.federation.federation import Federation
from unpooled.linalg.threads import by_runs
from unpooled.models.moments import MEAN, complete
from unpooled.models.pca.spectrum import Spectrum, runs_of
from unpooled.protocol.step import public, release, summed

# Half the length of an interval at 95 %, in standard errors.
NORMAL_95 = 1.959963984540054
# Neighbouring variances closer than this share of the larger do not determine loadings.
GAP = 0.2
# Up to this many columns every component is taken by itself.
ALL_COLUMNS = 64
# Components beyond those kept that are found where there are more columns.
_SPARE = 40
# Relative error of coefficients that is not worth another component.
_NEGLIGIBLE = 1e-6
# A variance below this share of the largest is rounding, and has no direction.
_NO_VARIANCE = 1e-12
# Rows whose arrays stay in the processor's cache.
_BLOCK = 1024

# Attributes of a fit, which a later one without standard errors removes.
STANDARD_ERRORS = (
    *("explained_variance_se_", "components_se_", "subspaces_", "angle_se_"),
    *("components_se_bound_", "components_ci_factor_", "standard_errors_of_"),
    *("explained_variance_se_normal_", "components_se_normal_"),
)

_TAKES = {
    "mean": MEAN,
    "spread": public("p", "the standard deviation of each column, or 1"),
    "axes": public("q p", "the leading components (loadings of all columns)"),
    "values": public("q", "the variances along these components"),
    "slopes": public("k q", "weights of the components in the influence on loadings"),
    "rest": public("k", "the weight that all further components share"),
}
_OF_VARIANCES = release(
    "k", meaning="squared influence of each row on the variance of each component"
)
_OF_LOADINGS = release(
    "k p",
    meaning="squared influence of each row on each loading of each component, added "
    "over all rows",
)


@summed(
    within_silos=True,
    takes={
        "mean": MEAN,
        "spread": _TAKES["spread"],
        "axes": public("k p", "the components (loadings of all columns)"),
        "values": public("k", "the variances along the components"),
    },
    variances=_OF_VARIANCES,
)
def local_variance_influence(
    X: Float[Array, "n p"],
    *,
    mean: Float[Array, " p"],
    spread: Float[Array, " p"],
    axes: Float[Array, "k p"],
    values: Float[Array, " k"],
    standardised: bool,
) -> dict[str, Any]:
    """Add this silo's squared influences on variances, in units of the variances."""
    total = np.zeros(len(values))
    to_scores = (axes / _root(values)[:, None]).T
    for x in _blocks(X, mean):
        if standardised:
            x /= spread
        own = x**2 @ (axes**2).T if standardised else 1.0
        total += (((x @ to_scores) ** 2 - own) ** 2).sum(axis=0)
    return {"variances": total}


@summed(within_silos=True, takes=_TAKES, variances=_OF_VARIANCES, loadings=_OF_LOADINGS)
def local_influence(
    X: Float[Array, "n p"],
    *,
    mean: Float[Array, " p"],
    spread: Float[Array, " p"],
    axes: Float[Array, "q p"],
    values: Float[Array, " q"],
    slopes: Float[Array, "k q"],
    rest: Float[Array, " k"],
) -> dict[str, Any]:
    """Add this silo's squared influences on the components of a covariance matrix.

    On variances in their own units; on the loading of column m in component j in units
    of the column's standard deviation by the component's.
    """
    root, k = _root(values), len(slopes)
    to_scores = (axes / root[:, None]).T
    to_columns = root[:, None] * axes / spread
    # With all components the columns themselves are weighted, in place of their scores:
    # the coefficients of small variances are no larger than others, so that their
    # influence has as many digits.
    every = len(axes) == X.shape[1]
    taken = to_scores[:, :k] if every else to_scores

    def added(run: slice) -> tuple[Array, Array]:
        variances, loadings = np.zeros(k), np.zeros((k, X.shape[1]))
        products = np.zeros((k, len(axes), len(axes)) if every else 0)
        # Written into again and again: new ones take as long as what fills them.
        scores = np.empty((_BLOCK, taken.shape[1]))
        space = np.empty((_BLOCK, X.shape[1]))
        for x in _blocks(X[run], mean):
            t = np.matmul(x, taken, out=scores[: len(x)])
            squares = t[:, :k] ** 2
            variances += ((squares - 1.0) ** 2).sum(axis=0)
            if every:
                # Multiplied with themselves, of which BLAS computes one half. NumPy's,
                # not SciPy's, which lets no other thread run meanwhile.
                weighted = space[: len(x)]
                for j in range(k):
                    np.multiply(x, t[:, j, None], out=weighted)
                    products[j] += weighted.T @ weighted
                continue
            x /= spread
            # Of the others the subspace does not end among the components: no sum.
            for j in np.flatnonzero(rest):
                u = (t * t[:, j, None] * slopes[j]) @ to_columns
                u += (rest[j] * t[:, j, None]) * x
                loadings[j] += (u**2).sum(axis=0)
        if every:
            for j in range(k):
                own = slopes[j, :, None] * to_columns
                loadings[j] = _sums_of_squares(products[j], to_scores @ own)
        return variances, loadings

    return _over_runs(added, X, k * len(axes))


@summed(
    within_silos=True,
    takes={
        **_TAKES,
        "curves": public(
            "k q", "weights of the components in the part due to standardisation"
        ),
        "rest_of_curves": public("k", "the same weight of all further components"),
    },
    variances=_OF_VARIANCES,
    loadings=_OF_LOADINGS,
)
def local_correlation_influence(
    X: Float[Array, "n p"],
    *,
    mean: Float[Array, " p"],
    spread: Float[Array, " p"],
    axes: Float[Array, "q p"],
    values: Float[Array, " q"],
    slopes: Float[Array, "k q"],
    rest: Float[Array, " k"],
    curves: Float[Array, "k q"],
    rest_of_curves: Float[Array, " k"],
) -> dict[str, Any]:
    """Add this silo's squared influences on the components of a correlation matrix.

    In the units of `local_influence`.
    """
    root, k = _root(values), len(slopes)
    to_scores = (axes / root[:, None]).T

    def added(run: slice) -> tuple[Array, Array]:
        variances, loadings = np.zeros(k), np.zeros((k, X.shape[1]))
        products = np.zeros((k, len(axes), len(axes)))
        for x in _blocks(X[run], mean):
            x /= spread
            t, squares = x @ to_scores, x**2
            for j in range(k):
                y = squares * axes[j]
                variances[j] += ((t[:, j] ** 2 - y @ axes[j]) ** 2).sum()
                weights = t * (slopes[j] * root) * t[:, j, None]
                weights -= (0.5 * root[j]) * (y @ axes.T) * curves[j]
                if rest[j] or rest_of_curves[j]:
                    u = weights @ axes
                    u += (rest[j] * t[:, j, None]) * x
                    u -= (0.5 * root[j] * rest_of_curves[j]) * y
                    loadings[j] += (u**2).sum(axis=0)
                else:
                    # NumPy's, not SciPy's, which lets no other thread run meanwhile.
                    products[j] += weights.T @ weights
        for j in range(k):
            if not (rest[j] or rest_of_curves[j]):
                loadings[j] = _sums_of_squares(products[j], axes)
        return variances, loadings

    return _over_runs(added, X, 2 * k * len(axes))


def _over_runs(
    added: Callable[[slice], tuple[Array, Array]], X: Float[Array, "n p"], each: int
) -> dict[str, Any]:
    """Return both sums over runs of rows in threads; ``each`` is a cell's work."""
    variances, loadings = zip(*by_runs(added, len(X), X.size * each), strict=True)
    return {"variances": sum(variances), "loadings": sum(loadings)}


def _sums_of_squares(
    products: Float[Array, "q q"], A: Float[Array, "q p"]
) -> Float[Array, " p"]:
    """Return the column sums of the squares of ``W A``, from products of W's columns.

    They take half the time of ``W A`` and no array of rows.
    """
    return np.maximum((A * (products @ A)).sum(axis=0), 0.0)


def _blocks(
    X: Float[Array, "n p"], mean: Float[Array, " p"]
) -> Iterator[Float[Array, "b p"]]:
    """Yield the rows about the mean, some at a time and in the same array."""
    space = np.empty((_BLOCK, X.shape[1]))
    for start in range(0, len(X), _BLOCK):
        rows = complete(X[start : start + _BLOCK])
        yield np.subtract(rows, mean, out=space[: len(rows)])


def _root(values: Float[Array, " q"]) -> Float[Array, " q"]:
    """Return standard deviations, 1 where there is none to divide by."""
    return np.sqrt(np.where(values > 0.0, values, 1.0))


@final
@dataclass(frozen=True, eq=False)
class Eigenpairs:
    """The eigenpairs of a covariance matrix that a fit computed, beyond those it keeps.

    Attributes
    ----------
    N : int
        Sample size, over all silos.
    mean : (p,) array
        Mean of all rows.
    values : (l,) array
        Variances, denominator N - 1, in descending order.
    axes : (p, m) array
        Orthonormal columns, m of them at most l.
    column_variances : (p,) array
        The diagonal of the covariance matrix.
    """

    N: int
    mean: Float[Array, " p"]
    values: Float[Array, " l"]
    axes: Float[Array, "p m"]
    column_variances: Float[Array, " p"]

    @classmethod
    def of(cls, spectrum: Spectrum) -> "Eigenpairs":
        """Return the standard errors of a fit that formed the scatter."""
        assert spectrum.mean is not None
        assert spectrum.axes is not None
        axes = spectrum.axes
        if spectrum.spare_axes is not None:
            axes = np.hstack([axes, spectrum.spare_axes])
        p, m = axes.shape
        known = spectrum.attributes["eigenvalues_"]
        # With fewer rows than columns the others are 0.
        values = np.zeros(max(len(known), min(p, m + 1)))
        values[: len(known)] = known
        return cls(
            N=spectrum.N,
            mean=spectrum.mean,
            values=values,
            axes=axes,
            column_variances=spectrum.attributes["feature_variance_"],
        )

    @property
    def are_of_correlations(self) -> bool:
        """Whether the columns were standardised, by a scaler of the same rows."""
        varying = self.column_variances > 0.0
        # StandardScaler divides by the deviation with denominator N.
        unit = self.N / (self.N - 1)
        return bool(
            varying.any()
            and (np.abs(self.column_variances[varying] / unit - 1.0) <= 1e-9).all()
            and (np.abs(self.mean) <= 1e-9).all()
        )


def spare_pairs(p: int, k: int) -> int:
    """Return how many eigenpairs standard errors of k components take, beyond k."""
    return p - k if p <= ALL_COLUMNS else min(_SPARE, p - k)


def standard_errors(
    federation: Federation, pairs: Eigenpairs, k: int, *, of_loadings: bool
) -> dict[str, Any]:
    """Return fitted attributes with the standard errors of k components; one round.

    Parameters
    ----------
    federation : Federation
        The rows of the fit.
    pairs : Eigenpairs
        Eigenpairs of the fit, at least k.
    k : int
        Number of components, at least 1.
    of_loadings : bool
        Whether the loadings' are asked for too: k p numbers more are released.
    """
    weights = _Weights.of(pairs, k)
    step, sent = local_influence, dict[str, Any](weights.arguments)
    if not of_loadings:
        step = local_variance_influence
        sent = {
            "spread": sent["spread"],
            "axes": sent["axes"][:k],
            "values": sent["values"][:k],
            "standardised": weights.correlations,
        }
    elif weights.correlations:
        step = local_correlation_influence
        sent = {**sent, **weights.of_standardisation}
    totals = federation.sum(step, mean=pairs.mean, **sent)

    def errors_of(name: str) -> Array:
        return np.sqrt(np.maximum(totals[name], 0.0)) / pairs.N

    found: dict[str, Any] = {
        "explained_variance_se_": errors_of("variances") * pairs.values[:k],
        "standard_errors_of_": "correlations" if weights.correlations else "covariance",
    }
    normal = _normal_errors(pairs, weights)
    if normal is not None:
        found["explained_variance_se_normal_"] = normal[0]
    if not of_loadings:
        return found
    determined = weights.determined[:, None]
    if normal is not None:
        found["components_se_normal_"] = np.where(determined, normal[1], np.nan)
    errors = errors_of("loadings") * weights.loading_units
    errors[~weights.known] = np.nan
    angles = np.sqrt((errors**2).sum(axis=1))
    nearest = angles**2 * _shares_of_nearest(pairs.values, k)
    factors = NORMAL_95 * (1.0 + 2.0 / 3.0 * NORMAL_95**2 * nearest)
    return {
        **found,
        "components_se_": np.where(determined, errors, np.nan),
        "components_ci_factor_": np.where(weights.determined, factors, np.nan),
        "subspaces_": weights.subspaces,
        "angle_se_": angles,
        "components_se_bound_": weights.bound,
    }


def half_intervals(model: Any) -> Float[Array, "k p"] | None:
    """Return half the 95 % intervals of a model's loadings; None if it has no errors.

    NaN for components that are not determined.
    """
    fitted = vars(model)
    if (errors := fitted.get("components_se_")) is None:
        return None
    # Fits with noise, and those of earlier versions, have no factors.
    factors = fitted.get("components_ci_factor_", np.full(len(errors), NORMAL_95))
    return factors[:, None] * errors


def _shares_of_nearest(values: Float[Array, " l"], k: int) -> Float[Array, " k"]:
    """Return the share that one other component has, at most, of an angle's variance.

    Of normal rows, by component. 0 for a component without variance, or whose variance
    another one has too.
    """
    own = values[:k, None]
    apart = (own - values) ** 2
    turns = np.divide(own * values, apart, out=np.zeros_like(apart), where=apart > 0.0)
    total = turns.sum(axis=1)
    most = turns.max(axis=1)
    return np.divide(most, total, out=np.zeros(k), where=total > 0.0)


@final
@dataclass(frozen=True, eq=False)
class _Weights:
    """Arguments of the steps for standard errors, which all follow from eigenpairs.

    Attributes
    ----------
    correlations : bool
        Whether columns were standardised.
    arguments, of_standardisation : mapping
        Arguments of the steps, without the mean.
    subspaces : (k, 2) int array
        The first and last component of the subspace that each lies in, from 0.
    known : (k,) bool array
        Whether that subspace ends among the eigenpairs.
    bound : float
        Largest relative error of a coefficient, 0 where there is none.
    """

    correlations: bool
    arguments: dict[str, Array]
    of_standardisation: dict[str, Array]
    subspaces: Array
    known: Array
    bound: float

    @property
    def determined(self) -> Array:
        """Whether a component is apart from its neighbours, (k,)."""
        return self.known & (self.subspaces[:, 0] == self.subspaces[:, 1])

    @property
    def loading_units(self) -> Float[Array, "k p"]:
        """The units of the loadings' influences."""
        spread, values = self.arguments["spread"], self.arguments["values"]
        if self.correlations:
            spread = np.ones_like(spread)
        return spread / _root(values[: len(self.known)])[:, None]

    @classmethod
    def of(cls, pairs: Eigenpairs, k: int) -> "_Weights":
        p, correlations = len(pairs.mean), pairs.are_of_correlations
        unit = pairs.N / (pairs.N - 1) if correlations else 1.0
        values = pairs.values / unit
        # A standard deviation of 0 divides nothing: all rows are at the mean.
        spread = np.sqrt(pairs.column_variances)
        spread = np.where(spread > 0.0, spread, 1.0)
        first, last = _shared_subspaces(values)
        q, beyond = _taken(values, pairs.axes.shape[1], k, p)
        # The subspace shared with neighbours ends before the components that are taken
        # together, or is not known to end.
        real = values[:k] > _NO_VARIANCE * values[0]
        known = real & (last[:k] < q)
        inner = np.arange(q)
        own = (first[:k, None] <= inner) & (inner <= last[:k, None])
        v = np.where(real, values[:k], 1.0)[:, None]
        other = values[:q]
        apart = np.where(own, 1.0, v - other)
        slope = np.where(own, 0.0, v / apart)
        curve = np.where(own, 0.0, (v + other) / apart)
        v = v[:, 0]
        ahead = np.where(known, v - beyond, v)
        # The middle between the coefficients of variances 0 and `beyond`.
        rest = np.where(q < p, (2 * v - beyond) / (2 * ahead), 0.0)
        rest_of_curves = np.where(q < p, v / ahead, 0.0)
        relative = beyond / v if correlations else beyond / (2 * v - beyond)
        arguments = {
            "spread": spread,
            "axes": np.ascontiguousarray(pairs.axes[:, :q].T),
            "values": values[:q],
            "slopes": np.where(known[:, None], slope - rest[:, None], 0.0),
            "rest": np.where(known, rest, 0.0),
        }
        of_standardisation = {
            "curves": np.where(known[:, None], curve - rest_of_curves[:, None], 0.0),
            "rest_of_curves": np.where(known, rest_of_curves, 0.0),
        }
        return cls(
            correlations=correlations,
            arguments=arguments,
            of_standardisation=of_standardisation,
            subspaces=np.stack([first[:k], last[:k]], axis=1),
            known=known,
            bound=float(relative[known].max(initial=0.0)) if q < p else 0.0,
        )


def _normal_errors(
    pairs: Eigenpairs, weights: _Weights
) -> tuple[Float[Array, " k"], Float[Array, "k p"]] | None:
    """Return the standard errors of variances and loadings that normal rows would have.

    They follow from the eigenpairs alone. None for standardised columns of which not
    all components are known.
    """
    sent, k = weights.arguments, len(weights.known)
    values, V, N = sent["values"], sent["axes"], pairs.N
    v, rest = values[:k], sent["rest"]
    if not weights.correlations:
        # Anderson 1963, equation 2.13, beyond the components taken one by one as a sum.
        slope = np.where(weights.known[:, None], sent["slopes"] + rest[:, None], 0.0)
        each = (slope**2 * values) @ V**2
        beyond = np.maximum(pairs.column_variances - values @ V**2, 0.0)
        total = each + rest[:, None] ** 2 * beyond
        return (
            pairs.values[:k] * np.sqrt(2 / N),
            np.sqrt(total / np.where(v > 0.0, v, 1.0)[:, None] / N),
        )
    if len(values) < len(pairs.mean):
        return None
    # For normal rows two quadratic forms xᵀ A x and xᵀ B x have the covariance 2 tr(A R
    # B R); variances and loadings are, to first order, such forms.
    R = (V.T * values) @ V
    variances, loadings = np.empty(k), np.empty((k, len(R)))
    for j in range(k):
        size = v[j] if v[j] > 0.0 else 1.0
        own = np.outer(V[j], V[j]) - v[j] * np.diag(V[j] ** 2)
        variances[j] = 2 * np.sum((own @ R) * (own @ R).T)
        forms = np.empty((len(V), *R.shape))
        for m, axis in enumerate(V):
            both = np.outer(axis, V[j])
            forms[m] = sent["slopes"][j, m] / (2 * size) * (both + both.T)
            curve = weights.of_standardisation["curves"][j, m]
            forms[m] -= 0.5 * curve * np.diag(axis * V[j])
        products = forms @ R
        flat, turned = products.reshape(len(V), -1), products.transpose(0, 2, 1)
        between = 2 * flat @ turned.reshape(len(V), -1).T
        loadings[j] = ((between @ V) * V).sum(axis=0)
    unit = pairs.N / (pairs.N - 1)
    return unit * np.sqrt(variances / N), np.sqrt(np.maximum(loadings, 0.0) / N)


def _shared_subspaces(values: Float[Array, " l"]) -> tuple[Array, Array]:
    """Return the first and last component of the subspace that each lies in.

    Two neighbours are in one where their relative gap is below `GAP`.
    """
    return runs_of(values[:-1] - values[1:] < GAP * values[:-1])


def _taken(values: Float[Array, " l"], most: int, k: int, p: int) -> tuple[int, float]:
    """Return how many components are taken one by one, and the next one's variance."""
    if p <= ALL_COLUMNS or k == p:
        return p, 0.0
    few = np.flatnonzero(values[k:] <= _NEGLIGIBLE * values[k - 1])
    # The variance behind those taken must be known.
    q = min(most, len(values) - 1, k + int(few[0]) if len(few) else p)
    return q, float(values[q])
