"""Results on quantiles: a row for each column."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from unpooled.results.exhibits import Column, Exhibit, Table
from unpooled.results.formats import known_to

if TYPE_CHECKING:
    from unpooled.models.description.quantiles import Quantiles


def quantiles_exhibits(model: "Quantiles", columns: Sequence[str]) -> list[Exhibit]:
    """Return the exhibits of fitted quantiles."""
    largest = Column("Largest error", "number")
    heads, printed = [Column("Column")], [Column("Column")]
    for probability in model.probabilities_.tolist():
        key = f"quantile_{probability:g}".replace(".", "_").replace("-", "_")
        heads.append(Column(f"{100 * probability:g} %", "number", key))
        printed.append(Column(heads[-1].heading, "figures", key))
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
    shown = [
        (name, *(_cell(*pair) for pair in zip(own, errors, strict=True)), last)
        for (name, *own, last), errors in zip(
            rows, model.errors_.T.tolist(), strict=True
        )
    ]
    tables = [
        Table("quantiles", [*heads, largest], rows, place="files"),
        Table("shown", [*printed, largest], shown, items="columns", place="pages"),
    ]
    return [Exhibit("Quantiles", text, tables)]


def _cell(value: float, error: float) -> str:
    """Return a quantile with the digits that it is known to, if there is one."""
    return "" if math.isnan(value) else known_to(value, error)
