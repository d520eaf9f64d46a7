"""Transforming rows by fitted exponents, in the silos and out of them."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from unpooled.arrays import Array, Float
from unpooled.errors import DataError
from unpooled.linalg.yeo_johnson import shifted_table, transform, units
from unpooled.models.preprocessing.check_lambda import (
    are_exponents,
    are_gaussianising,
    deviations,
)
from unpooled.models.preprocessing.pooled_lambda import Columns
from unpooled.protocol.step import derived, public, release, summed

# scikit-learn's formula loses what the mean of ψ exceeds its deviation by.
_MOST_MEAN = 1e9
# What tells where the likelihood of a λ is largest: totals, or signs.
_SIGNS = tuple(
    f"power.{name}"
    for name in ("local_count", "local_log_sizes", "local_slopes", "compared_slopes")
)
_TAKES = {
    "lambdas": public("p", "the exponent of each column's power transform"),
    "centre": public("p", "where each column lies, on a logarithmic scale"),
    "spread": public("p", "how far each column is spread, on a logarithmic scale"),
}


@summed(
    takes=_TAKES,
    total=release("p", meaning="the sum of each column's transformed values"),
    squares=release("p", meaning="the sum of their squares"),
)
def local_transformed(
    X: Float[Array, "n p"],
    *,
    lambdas: Float[Array, " p"],
    centre: Float[Array, " p"],
    spread: Float[Array, " p"],
) -> dict[str, Any]:
    """Add transformed values, about the public reference and in its units."""
    # Their mean is no larger than a few deviations, so squares lose no digits.
    values = shifted_table(X, lambdas, centre, spread)
    return {
        "total": np.nansum(values, axis=0),
        "squares": np.nansum(values**2, axis=0),
    }


@derived(
    takes={
        **_TAKES,
        "mean": public("p", "the mean of each transformed column over all silos"),
        "scale": public(
            "p", "the standard deviation of each transformed column over all silos"
        ),
    },
    fitted_by=(*_SIGNS, "power.local_transformed"),
    follows=are_gaussianising,
)
def gaussianised(
    X: Float[Array, "n p"],
    *,
    lambdas: Float[Array, " p"],
    centre: Float[Array, " p"],
    spread: Float[Array, " p"],
    mean: Float[Array, " p"],
    scale: Float[Array, " p"],
) -> Float[Array, "n p"]:
    """Transform and standardise; missing cells stay missing."""
    return (shifted_table(X, lambdas, centre, spread) - mean) / scale


@derived(
    takes={"lambdas": public("p", "the exponent of each column's power transform")},
    fitted_by=_SIGNS,
    follows=are_exponents,
)
def transformed(
    X: Float[Array, "n p"], *, lambdas: Float[Array, " p"]
) -> Float[Array, "n p"]:
    """Transform; missing cells stay missing."""
    columns = [transform(x, float(lam)) for x, lam in zip(X.T, lambdas, strict=True)]
    return np.stack(columns, axis=1)


def means_and_scales(
    totals: Mapping[str, Array], columns: Columns, reference: Mapping[str, Any]
) -> tuple[Float[Array, " p"], ...]:
    """Return means and deviations about the reference, then means and variances of ψ.

    Parameters
    ----------
    totals : mapping
        Of `local_transformed`.
    columns : Columns
        How many values each has, and which are constant.
    reference : mapping
        λ of each column, and what it was transformed about.
    """
    mean = totals["total"] / columns.count
    variance = np.maximum(totals["squares"] / columns.count - mean**2, 0.0)
    factor, origin = units(**reference)
    flat = columns.constant | (variance == 0.0)
    scale = deviations(variance, columns.constant, reference)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        # An origin that float64 cannot hold stays so, whatever lies about it.
        of_psi = np.where(np.isinf(origin), origin, origin + factor * mean)
        return mean, scale, of_psi, np.where(flat, 0.0, factor**2 * variance)


def sklearn_twin(model: Any) -> Any:
    """Return scikit-learn's PowerTransformer with what a model has fitted."""
    import sklearn.preprocessing

    twin = sklearn.preprocessing.PowerTransformer(standardize=model.standardize)
    for name in ("n_features_in_", "feature_names_in_"):
        if hasattr(model, name):
            setattr(twin, name, getattr(model, name))
    twin.lambdas_ = model.lambdas_.copy()
    if model.standardize:
        twin._scaler = _sklearn_scaler(model)
    return twin


def _sklearn_scaler(model: Any) -> Any:
    """Return the scaler that scikit-learn's PowerTransformer holds within."""
    import sklearn.preprocessing

    scale = np.sqrt(model.var_)
    with np.errstate(invalid="ignore"):
        fits = np.isfinite(scale) & (np.abs(model.mean_) <= _MOST_MEAN * scale)
    lost = ~(fits | (model.lambdas_ == 1.0))
    if lost.any():
        names = getattr(model, "feature_names_in_", np.arange(len(lost)))[lost]
        raise DataError(
            f"scikit-learn transforms a column about zero, where float64 has no "
            f"digits left for {', '.join(map(str, names))}: subtract a constant "
            f"near the middle in every silo, or use unpooled.save."
        )
    scaler = sklearn.preprocessing.StandardScaler(copy=False)
    scaler.set_output(transform="default")
    scaler.mean_, scaler.var_ = model.mean_.copy(), model.var_.copy()
    scaler.scale_ = np.where(scale > 0, scale, 1.0)
    scaler.n_samples_seen_ = model.n_samples_seen_
    scaler.n_features_in_ = model.n_features_in_
    return scaler
