"""Results of an iterative imputation: what was filled by what, and what it changed."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from unpooled.results.exhibits import Column, Exhibit
from unpooled.results.fitted_attributes import by_column
from unpooled.results.formats import counted, number

if TYPE_CHECKING:
    from unpooled.models.preprocessing.iterative_imputer import IterativeImputer

_SPREAD = (
    "Predicted cells lie on the regression, without its residuals, so that standard "
    "deviations (SD, with denominator n before and N after) of completed columns are "
    "too small and their correlations too large, the more the larger the share."
)


def iterative_imputer_exhibits(
    model: "IterativeImputer", columns: Sequence[str]
) -> list[Exhibit]:
    """Return the exhibits of a fitted `IterativeImputer`."""
    if "mean_" not in vars(model):
        return []
    N, count = model.n_samples_, model.n_observed_
    missing, regressed = N - count, model.n_regressed_
    cells = {
        Column("n", "count"): count,
        Column("Missing", "count"): missing,
        Column("Missing, share", "share"): missing / N,
        Column("Predicted", "count"): regressed,
        Column("Mean before", "number"): model.statistics_,
        Column("Mean after", "number"): model.mean_,
        Column("SD before", "number"): model.observed_std_,
        Column("SD after", "number"): model.std_,
    }
    others = int((missing - regressed).sum())
    text = (
        f"Of {counted(len(count) * N, 'cell')}, {int(missing.sum()):,} were missing. "
        f"{int(regressed.sum()):,} of them were predicted from the other columns of "
        f"their row by least squares, in {counted(model.n_iter_, 'sweep')}."
    )
    if others:
        text += (
            f" {others:,} were filled with the column’s mean, in rows whose missing "
            f"cells too few other rows of their silo share."
        )
    table = by_column("columns", columns, cells, note=_SPREAD)
    text = " ".join(filter(None, [text, _moved(model)]))
    return [Exhibit("Columns, over all silos", text, [table])]


def _moved(model: "IterativeImputer") -> str:
    """Return how much the last sweep changed, in words."""
    if not model.n_iter_ or np.isnan(model.change_):
        return ""
    what = (
        "a column’s mean or SD, in SDs,"
        if model.updates == "sweep"
        else ("a standardised coefficient")
    )
    return (
        f"The last sweep changed {what} by at most {number(model.change_, 2)}; more "
        f"sweeps would change less."
    )
