"""Results of imputer, scalers, power transform and rare columns: numbers by column."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from unpooled.arrays import Array, Float
from unpooled.models.description.histogram_results import bins_table
from unpooled.models.description.quantiles_results import NOISY_QUANTILES
from unpooled.results.exhibits import MOST_ROWS, Column, Exhibit
from unpooled.results.fitted_attributes import (
    MOST_ACROSS,
    by_column,
    without_rounding,
)
from unpooled.results.formats import counted, listed

if TYPE_CHECKING:
    from unpooled.models.preprocessing.imputer import SimpleImputer
    from unpooled.models.preprocessing.k_bins_discretizer import KBinsDiscretizer
    from unpooled.models.preprocessing.power import PowerTransformer
    from unpooled.models.preprocessing.quantile_transformer import QuantileTransformer
    from unpooled.models.preprocessing.rare_columns import RareColumns
    from unpooled.models.preprocessing.robust_scaler import RobustScaler
    from unpooled.models.preprocessing.scaler import StandardScaler

_HEADING = "Columns, over all silos"
_YEO_JOHNSON = (
    "The exponent λ of each column’s Yeo-Johnson transform, by maximum likelihood: 1 "
    "leaves the column as it is, less than 1 compresses large values, more than 1 "
    "spreads them out. Of values x from 0 up it is the power λ of x + 1, of values "
    "below 0 the power 2 − λ of 1 − x; the usual transform named is the nearest one, "
    "where its exponent differs from λ by at most 0.25."
)
_STANDARDISED = (
    " Transformed columns are then standardised: their mean is subtracted, and they "
    "are divided by their standard deviation."
)
_NO_SKEWNESS = (
    "Skewness before and after was not opened: skewness=True opens the sums of third "
    "powers that it takes."
)
_SKEWNESS = (
    "Skewness is 0 for a symmetric column, above 0 where the larger values lie farther "
    "from the mean; it has denominators n, and does not exist for a constant column."
)
_SCALED = (
    "A column’s mean is subtracted, and the column is divided by its scale: the "
    "standard deviation (SD, with denominator n), or 1 for a column that never varies."
)
_NORMAL_SCORES = ", and the transformed value is the normal quantile of that share"
_NORMAL = 1.96
_NOISY_MEANS = (
    "Noise was added to the totals for differential privacy. The standard errors (SE) "
    "and the intervals at 95 % are of sampling and of this noise together, and do not "
    "cover rows that were clipped to the public norm."
)
_NOISY_DEVIATIONS = (
    " Those of standard deviations (SD) take columns for normal; a variance is at "
    "least the standard deviation of its noise."
)
# Exponents with names, for x + 1.
_USUAL = {
    -2.0: "reciprocal of the square",
    -1.0: "reciprocal",
    -0.5: "reciprocal of the square root",
    0.0: "logarithm",
    1 / 3: "cube root",
    0.5: "square root",
    1.0: "none",
    2.0: "square",
    3.0: "cube",
}
_NEAR = 0.25
_N, _MISSING = Column("n", "count"), Column("Missing", "count")
_SHARE = Column("Missing, share", "share")
_BEFORE, _AFTER = Column("SD before", "number"), Column("SD after", "number")
_AT_LEAST = (
    "The number of rows was not opened; it is taken to be the largest n of a column, "
    "so that at least as many cells are missing as are shown."
)
_NO_SD = (
    "Standard deviations were not opened; a StandardScaler right after the imputer "
    "gives those before and after."
)
_SHRUNK = (
    "Filled cells do not differ from the mean, so that a column’s standard deviation "
    "(SD, with denominator n, and N after filling) shrinks with the share of missing "
    "cells, and so do its covariances with other columns."
)
# Beyond this share of a column, results about it are more about the filling.
MOST_FILLED = 1 / 3


def imputer_exhibits(
    model: "SimpleImputer", columns: Sequence[str], later: Sequence[Any] = ()
) -> list[Exhibit]:
    """Return the exhibits of a fitted imputer.

    Parameters
    ----------
    model : SimpleImputer
        Fitted.
    columns : sequence of str
        Names of its columns.
    later : sequence of estimator
        Those that were fitted on the filled rows, in order. What they opened tells the
        number of rows, and a scaler the standard deviations.
    """
    filled, count = vars(model).get("statistics_"), vars(model).get("n_observed_")
    if filled is None:
        return []
    if count is None:
        table = by_column("columns", columns, _shown("Value filled in", filled))
        return [Exhibit(_HEADING, "", [table])]
    N, exact = _sample_size(model, count, later)
    missing = N - count
    word = filling_name(model.strategy)
    values = {_N: count, _MISSING: missing, _SHARE: missing / N}
    values |= _shown(f"{word.capitalize()}, filled in", filled)
    squares = _squares(model, N, later)
    if squares is not None:
        values[_BEFORE] = _deviation(squares, count)
        values[_AFTER] = _deviation(squares, np.full(len(count), N))
    text = (
        f"Missing cells of a column are filled with its {word} over all "
        f"silos. Of {counted(len(count) * N, 'cell')}, {int(missing.sum()):,} were "
        f"missing."
    )
    text += "" if squares is None else f" {_SHRUNK}"
    notes = [
        _filled_much(list(columns), missing / N),
        _uncertain(list(columns), vars(model).get("certain_")),
        "" if exact else _AT_LEAST,
        _NO_SD if squares is None and model.strategy == "mean" else "",
    ]
    note = " ".join(filter(None, notes))
    table = by_column("columns", columns, values, note=note)
    return [Exhibit(_HEADING, text, [table])]


def filling_name(strategy: str) -> str:
    """Return the name of a strategy's filling, in words."""
    return {"most_frequent": "most frequent value"}.get(strategy, strategy)


def much_filled(
    model: "SimpleImputer", columns: Sequence[str], later: Sequence[Any]
) -> list[str]:
    """Return the columns of which more than a third was filled in."""
    count = vars(model).get("n_observed_")
    if count is None:
        return []
    N, _ = _sample_size(model, count, later)
    return _names_beyond(columns, (N - count) / N)


def scaler_exhibits(model: "StandardScaler", columns: Sequence[str]) -> list[Exhibit]:
    """Return the exhibits of a fitted scaler."""
    mean, scale = vars(model).get("mean_"), vars(model).get("scale_")
    if mean is None:
        return []
    count = np.broadcast_to(model.n_samples_seen_, mean.shape)
    N = int(count.max())
    values: dict[Column, Any] = {_N: count}
    note = ""
    if (count < N).any():
        values |= {_MISSING: N - count, _SHARE: (N - count) / N}
        note = _AT_LEAST
    values[Column("Mean", "number")] = mean
    if model.with_mean:
        values[Column("Mean after", "number")] = 0.0
    if model.var_ is not None:
        values[_BEFORE] = np.sqrt(model.var_)
        values[Column("Scale", "number")] = scale
        values[_AFTER] = np.sqrt(model.var_) / scale
    text = _SCALED if model.with_mean and model.with_std else ""
    table = by_column("columns", columns, values, note=note)
    shown = [Exhibit(_HEADING, text, [table])]
    return [*shown, *_private_intervals(model, columns)]


def _private_intervals(
    model: "StandardScaler", columns: Sequence[str]
) -> list[Exhibit]:
    """Return intervals of means and deviations whose totals had noise."""
    if "privacy_" not in vars(model):
        return []
    mean, error = np.asarray(model.mean_), vars(model)["mean_se_"]
    values: dict[Column, Any] = {
        Column("Mean", "number"): mean,
        Column("SE of mean", "number"): error,
        Column("Mean, from", "number"): mean - _NORMAL * error,
        Column("Mean, to", "number"): mean + _NORMAL * error,
    }
    text = _NOISY_MEANS
    if model.var_ is not None:
        error = vars(model)["var_se_"]
        low, high = model.var_ - _NORMAL * error, model.var_ + _NORMAL * error
        values[Column("SD, from", "number")] = np.sqrt(np.maximum(low, 0.0))
        values[Column("SD, to", "number")] = np.sqrt(high)
        text += _NOISY_DEVIATIONS
    table = by_column("private_intervals", columns, values)
    return [Exhibit("Noise and sampling error", text, [table])]


def robust_scaler_exhibits(
    model: "RobustScaler", columns: Sequence[str]
) -> list[Exhibit]:
    """Return the exhibits of a fitted `RobustScaler`: what columns are scaled by."""
    values: dict[Column, Any] = {}
    done = []
    if model.center_ is not None:
        values[Column("Median", "number")] = model.center_
        done.append("a column’s median is subtracted")
    if model.scale_ is not None:
        low, high = (f"{float(q):g} %" for q in model.quantile_range)
        values[Column("Scale", "number")] = model.scale_
        normal = (
            ", over that of a standard normal column" if model.unit_variance else ""
        )
        equal = (
            ", at least the width of the parts in which its values were counted"
            if "privacy_" in vars(model)
            else ", or 1 where these are equal"
        )
        done.append(
            f"the column is divided by its scale: the distance of its {low} and "
            f"{high} quantiles{normal}{equal}"
        )
    if not values:
        return []
    text = " and ".join(done)
    table = by_column("columns", columns, values)
    shown = [Exhibit(_HEADING, f"{text[:1].upper()}{text[1:]}.", [table])]
    if (interval := vars(model).get("center_interval_")) is not None:
        ends = {
            Column(f"Median, {end}", "number"): own
            for end, own in zip(("from", "to"), interval, strict=True)
        }
        table = by_column("private_intervals", columns, ends)
        shown.append(Exhibit("Noise and sampling error", NOISY_QUANTILES, [table]))
    return shown


def quantile_exhibits(
    model: "QuantileTransformer", columns: Sequence[str]
) -> list[Exhibit]:
    """Return the exhibits of a fitted `QuantileTransformer`: all of its quantiles."""
    if "quantiles_" not in vars(model):
        return []
    k, shares = model.n_quantiles_, model.references_
    cells = {
        Column(
            f"{100 * share:.4g} %", "number", f"quantile_{share:.6g}".replace(".", "_")
        ): own
        for share, own in zip(shares.tolist(), model.quantiles_, strict=True)
    }
    text = (
        f"Where a value lies among the {k} quantiles of its column is its share from 0 "
        f"to 1, along a straight line between two quantiles"
        f"{_NORMAL_SCORES if model.output_distribution == 'normal' else ''}. The "
        f"outermost quantiles are no minimum and no maximum: at least "
        f"{model.min_rows} values lie at or beyond them."
    )
    table = by_column("quantiles", columns, cells)
    if k <= MOST_ACROSS:
        return [Exhibit("Quantiles of the columns", text, [table])]
    # Both ends and the middle: a page has no room for twenty numbers in a line.
    shown = sorted({round(i * (k - 1) / (MOST_ACROSS - 1)) for i in range(MOST_ACROSS)})
    tables = table.excerpt(
        rows=range(min(len(columns), MOST_ROWS)),
        columns=[0, *(i + 1 for i in shown)],
        note=f"Of {k} quantiles, {len(shown)} are shown.",
    )
    return [Exhibit("Quantiles of the columns", text, tables)]


def power_exhibits(model: "PowerTransformer", columns: Sequence[str]) -> list[Exhibit]:
    """Return the exhibits of a fitted power transform."""
    lambdas = vars(model).get("lambdas_")
    if lambdas is None:
        return []
    values: dict[Column, Any] = {
        # A search that ends at 0 is wrong by rounding.
        Column("Exponent", "number"): without_rounding(lambdas, 1.0),
        Column("Usual transform nearby"): [usual_transform(x) for x in lambdas],
    }
    text = _YEO_JOHNSON
    if vars(model).get("mean_") is not None:
        values[Column("Mean, transformed", "number")] = model.mean_
        spread = Column("Standard deviation, transformed", "number")
        values[spread] = np.sqrt(model.var_)
        text += _STANDARDISED
    count = vars(model).get("n_samples_seen_")
    if count is not None:
        values[_N] = np.broadcast_to(count, lambdas.shape)
    note = _NO_SKEWNESS
    if (skewness := vars(model).get("skewness_")) is not None:
        values[Column("Skewness before", "number")] = skewness
        values[Column("Skewness after", "number")] = model.transformed_skewness_
        note = _SKEWNESS
    table = by_column("columns", columns, values, note=note)
    return [Exhibit(_HEADING, text, [table])]


def usual_transform(exponent: float) -> str:
    """Return the name of the usual transform whose exponent is near; "" if none is."""
    nearest = min(_USUAL, key=lambda usual: abs(usual - exponent))
    return _USUAL[nearest] if abs(nearest - exponent) <= _NEAR else ""


def discretizer_exhibits(
    model: "KBinsDiscretizer", columns: Sequence[str]
) -> list[Exhibit]:
    """Return the exhibits of a fitted `KBinsDiscretizer`: a row for each bin."""
    if "bin_counts_" not in vars(model):
        return []
    text = (
        "A value at an edge is in the bin above it. Values below the first edge of a "
        "column are in its first bin, values above the last in its last."
    )
    table = bins_table(columns, model.bin_edges_, model.bin_counts_)
    return [Exhibit("Bins of the columns", text, [table])]


def rare_columns_exhibits(
    model: "RareColumns", columns: Sequence[str]
) -> list[Exhibit]:
    """Return the exhibits of a fitted `RareColumns`."""
    if "n_rare_" not in vars(model):
        return []
    kept = np.asarray(model.get_support())
    least = counted(int(model.min_rows), "row")
    constant = model.n_rare_ == 0
    reasons = [
        "" if keep else "never varies" if same else f"fewer than {least} differ"
        for keep, same in zip(kept, constant, strict=True)
    ]
    # Columns that were left out come first: of thousands of pixels a page shows thirty.
    order: list[int] = np.argsort(kept, kind="stable").tolist()
    cells = {
        Column("Kept"): np.where(kept, "kept", "left out")[order],
        Column("Rows that differ", "number"): model.n_rare_[order].astype(float),
        _N: model.n_samples_seen_[order],
        Column("Reason"): [reasons[j] for j in order],
    }
    text = (
        f"Of {counted(len(kept), 'column')}, {int(kept.sum()):,} "
        f"{'is' if kept.sum() == 1 else 'are'} kept and {int((~kept).sum()):,} left "
        f"out: in those fewer than {least} of all silos differ from the others. Of a "
        f"column of two values, the rows that differ are those with the rarer value; "
        f"of any other, as many as a column of two values with the same kurtosis has."
    )
    names, which = [columns[j] for j in order], "first (left out before kept)"
    table = by_column("columns", names, cells, which=which)
    return [Exhibit("Columns kept and left out", text, [table])]


def _shown(heading: str, filled: Array) -> dict[Column, Any]:
    """Return a column of numbers as they are, or of texts and numbers as texts."""
    if filled.dtype != object:
        return {Column(heading, "number"): filled}
    texts = [x if isinstance(x, str) else f"{x:g}" for x in filled.tolist()]
    return {Column(heading): texts}


def _sample_size(
    model: "SimpleImputer", count: Array, later: Sequence[Any]
) -> tuple[int, bool]:
    """Return N, and whether it was opened; else the largest count of a column."""
    if (missing := vars(model).get("n_missing_")) is not None:
        return int((count + missing).max()), True
    for model in later:
        for name in ("n_samples_", "n_samples_seen_"):
            # Not `getattr`: it would ask the silos.
            value = np.asarray(vars(model).get(name, 0))
            if value.ndim == 0 and int(value) >= count.max():
                return int(value), True
    return int(count.max()), False


def _squares(
    model: "SimpleImputer", N: int, later: Sequence[Any]
) -> Float[Array, " p"] | None:
    """Return sums of squared deviations, of a scaler right after a mean imputer.

    Cells that are filled with the mean add nothing, so the sum is that of the observed
    cells too.
    """
    after = vars(later[0]) if later else {}
    names = [vars(m).get("feature_names_in_") for m in (model, *later[:1])]
    same = after.get("n_features_in_") == model.n_features_in_ and np.array_equal(
        np.asarray(names[0]), np.asarray(names[-1])
    )
    variance = after.get("var_")
    scaler = bool(later) and type(later[0]).__name__ == "StandardScaler"
    if not (scaler and same and model.strategy == "mean") or variance is None:
        return None
    return np.asarray(variance) * N


def _deviation(squares: Float[Array, " p"], count: Array) -> Float[Array, " p"]:
    """Return standard deviations with denominator n; NaN for columns without a cell."""
    undefined = np.full(len(count), np.nan)
    return np.sqrt(np.divide(squares, count, out=undefined, where=count > 0))


def _uncertain(columns: Sequence[str], certain: Array | None) -> str:
    if certain is None or certain.all():
        return ""
    names = [columns[j] for j in np.flatnonzero(~certain).tolist()]
    return (
        f"So few rows of a silo share a value of {listed(names)} that another value "
        f"may be more frequent than the one filled in. Codes are counted in every silo "
        f"where the column is named in categorical; a smaller min_rows helps too."
    )


def _filled_much(columns: Sequence[str], share: Float[Array, " p"]) -> str:
    names = _names_beyond(columns, share)
    if not names:
        return ""
    others = [f"{len(names) - 5:,} others"] if len(names) > 5 else []
    return f"More than a third of {listed(names[:5] + others)} was filled in."


def _names_beyond(columns: Sequence[str], share: Float[Array, " p"]) -> list[str]:
    return [columns[j] for j in np.flatnonzero(share > MOST_FILLED).tolist()]
