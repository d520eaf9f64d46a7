"""What a model found for each column by itself: means, scales, exponents."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from unpooled.report.exhibit import Exhibit
from unpooled.report.exhibits import Table, left_out, number

MOST = 30
# Fitted attributes with one number per column, as a reader would call them.
_NAMES: Mapping[str, str] = {
    "statistics_": "Value filled in",
    "lambdas_": "Exponent",
    "mean_": "Mean",
    "scale_": "Divided by",
}
_TRANSFORMED = {"mean_": "Mean, transformed", "scale_": "Deviation, transformed"}
_YEO_JOHNSON = (
    "The exponent λ of each column’s Yeo-Johnson transform: 1 leaves the column as it "
    "is, less than 1 draws large values in, more than 1 spreads them out."
)


def by_column(model: Any, columns: Sequence[str]) -> Exhibit | None:
    """Return a model's numbers for each column, if it has any."""
    found, text = _values(model, columns), ""
    if "lambdas_" in found:
        text = _YEO_JOHNSON
        if "mean_" in found:
            found["scale_"] = np.sqrt(np.asarray(model.var_, dtype=float))
            text += " Transformed columns are then standardised."
    if not found:
        return None
    names = {**_NAMES, **(_TRANSFORMED if "lambdas_" in found else {})}
    heads = [names[name] for name in found]
    formats: list[Callable[[float], str]] = [number] * len(found)
    count = vars(model).get("n_samples_seen_")
    if _length(count) == len(columns):
        found["count"] = np.asarray(count, dtype=float)
        heads.append("Cells with a value")
        formats.append(lambda n: f"{n:,.0f}")
    shown = min(len(columns), MOST)
    rows = [
        (
            columns[j],
            *[write(v[j]) for write, v in zip(formats, found.values(), strict=True)],
        )
        for j in range(shown)
    ]
    note = left_out(shown, len(columns), "columns", "first")
    table = Table("", ("Column", *heads), rows, note)
    return Exhibit("By column, over all silos together", text, [table])


def _values(model: Any, columns: Sequence[str]) -> dict[str, Any]:
    found = {
        name: np.asarray(value, dtype=float)
        for name in _NAMES
        if _length(value := vars(model).get(name)) == len(columns)
    }
    variance = np.max(vars(model).get("explained_variance_", 0.0))
    if "mean_" in found and np.abs(found["mean_"]).max() <= 1e-9 * np.sqrt(variance):
        # Columns that were standardised before: what is left is rounding.
        del found["mean_"]
    return found


def _length(value: Any) -> int:
    """Return the length of a vector, and -1 for anything else."""
    return len(value) if isinstance(value, np.ndarray) and value.ndim == 1 else -1
