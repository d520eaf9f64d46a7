"""Results on quantiles: a row for each column."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from unpooled.results.exhibits import Column, Exhibit, Table

if TYPE_CHECKING:
    from unpooled.models.description.quantiles import Quantiles


def quantiles_exhibits(model: "Quantiles", columns: Sequence[str]) -> list[Exhibit]:
    """Return the exhibits of fitted quantiles."""
    heads = [Column("Column")]
    for probability in model.probabilities_.tolist():
        key = f"quantile_{probability:g}".replace(".", "_").replace("-", "_")
        heads.append(Column(f"{100 * probability:g} %", "number", key))
    heads.append(Column("Largest error", "number"))
    wrong = np.where(np.isnan(model.errors_), -1.0, model.errors_).max(axis=0)
    rows = [
        (name, *own, float(error) if error >= 0 else None)
        for name, own, error in zip(
            model.columns_, model.quantiles_.T.tolist(), wrong, strict=True
        )
    ]
    ends = (
        "The search went on to the values themselves."
        if model.min_rows <= 1
        else f"Each lies in a bracket with at least {model.min_rows} values, and is "
        f"interpolated in it: the largest error is the width of a column’s widest "
        f"bracket. What has fewer values at or beyond it is left empty."
    )
    text = (
        f"Quantiles of each column over the rows of all silos, in the linear "
        f"convention; missing cells are left out. {ends}"
    )
    return [Exhibit("Quantiles", text, [Table("quantiles", heads, rows)])]
