"""Results on quantiles: a row for each column."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from unpooled.results.exhibits import Column, Exhibit
from unpooled.results.fitted_attributes import by_column
from unpooled.results.formats import known_to

if TYPE_CHECKING:
    from unpooled.models.description.quantiles import Quantiles


_PRIVATE = (
    "They are from counts of values in parts of public ranges, with noise for "
    "differential privacy; the largest error is the width of a part, to which the "
    "noise comes."
)
NOISY_QUANTILES = (
    "Intervals at 95 %, of sampling and of the noise together, by ranks. A value "
    "beyond the public range of its column was counted at the range’s end."
)


def quantiles_exhibits(model: "Quantiles", columns: Sequence[str]) -> list[Exhibit]:
    """Return the exhibits of fitted quantiles; none of those that silos keep."""
    if "quantiles_" not in vars(model):
        return []
    wrong = np.where(np.isnan(model.errors_), -1.0, model.errors_).max(axis=0)
    largest = {Column("Largest error", "number"): np.where(wrong < 0, np.nan, wrong)}
    exact, printed = dict[Column, Any](), dict[Column, Any]()
    for probability, own, errors in zip(
        model.probabilities_.tolist(), model.quantiles_, model.errors_, strict=True
    ):
        head = f"{100 * probability:g} %"
        key = _key(probability)
        exact[Column(head, "number", key)] = own
        cells = map(_cell, own.tolist(), errors.tolist())
        printed[Column(head, "figures", key)] = list(cells)
    text = (
        f"Quantiles of each column over the rows of all silos, in the linear "
        f"convention; missing cells are left out. {_ends(model)}"
    )
    tables = [
        by_column("quantiles", model.columns_, exact | largest, place="files"),
        by_column("shown", model.columns_, printed | largest, place="pages"),
    ]
    shown = [Exhibit("Quantiles", text, tables)]
    return [*shown, _intervals(model)] if "privacy_" in vars(model) else shown


def _ends(model: "Quantiles") -> str:
    """Return how close a quantile is to that of the pooled rows, and by which way."""
    if "privacy_" in vars(model):
        return _PRIVATE
    if model.min_rows <= 1:
        return "The search went on to the values themselves."
    return (
        f"Each lies in a bracket with at least {model.min_rows} values, and is "
        f"interpolated in it: the largest error is the width of a column’s widest "
        f"bracket. What has fewer values at or beyond it is left empty."
    )


def _key(probability: float) -> str:
    """Return the name of a quantile's column in files."""
    return f"quantile_{probability:g}".replace(".", "_").replace("-", "_")


def _intervals(model: "Quantiles") -> Exhibit:
    """Return the intervals of quantiles whose counts had noise."""
    low, high = vars(model)["intervals_"]
    cells = dict[Column, Any]()
    for i, q in enumerate(model.probabilities_.tolist()):
        key = _key(q)
        cells[Column(f"{100 * q:g} %, from", "number", f"{key}_from")] = low[i]
        cells[Column(f"{100 * q:g} %, to", "number", f"{key}_to")] = high[i]
    table = by_column("quantile_intervals", model.columns_, cells)
    return Exhibit("Noise and sampling error", NOISY_QUANTILES, [table])


def _cell(value: float, error: float) -> str:
    """Return a quantile with the digits that it is known to, if there is one."""
    return "" if math.isnan(value) else known_to(value, error)
