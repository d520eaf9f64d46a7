"""Results on histograms: a row for each bin, and pictures of the columns."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from unpooled.arrays import Array
from unpooled.results.exhibits import Column, Exhibit, Picture, ResultTable
from unpooled.results.fitted_attributes import by_column
from unpooled.results.plots.histograms import MOST_PANELS, histograms

if TYPE_CHECKING:
    from unpooled.models.description.histogram import Histogram


def histogram_exhibits(model: "Histogram", columns: Sequence[str]) -> list[Exhibit]:
    """Return the exhibits of fitted histograms."""
    least = model.min_rows_per_class
    text = (
        f"How many rows of all silos have a value in each bin of a column, in bins of "
        f"equal widths: the heights are numbers of rows. A value at an edge is in the "
        f"bin above it; values beyond the outermost edges are in the first and the "
        f"last bin. Withheld, and left empty or grey: "
        f"counts below {least} other than 0, and as many others of the column as keep "
        f"these from following from the number of rows."
    )
    columns = model.columns_[:MOST_PANELS]
    more = len(model.columns_) - len(columns)
    if more:
        text += f" The picture has the first {len(columns)} columns."
    picture = Picture(
        "histograms",
        "Histograms of the columns",
        f"Bars show how many values lie in each bin of {', '.join(columns)}"
        f"{f' and not of {more} further columns' if more else ''}; grey bins are "
        f"withheld.",
        partial(histograms, columns, model.bin_edges_, model.counts_),
        ("bins",),
    )
    missing = {Column("Missing", "count"): model.n_missing_}
    lacking = by_column("missing_cells", model.columns_, missing)
    if not np.any(model.n_missing_):
        text += " No cell is missing."
        lacking = replace(lacking, place="files")
    bins = bins_table(model.columns_, model.bin_edges_, model.counts_)
    tables = [bins, lacking]
    return [Exhibit("Histograms of the columns", text, tables, picture)]


def bins_table(
    columns: Sequence[str], edges: Sequence[Array], counts: Sequence[Array]
) -> ResultTable:
    """Return a row for each bin of each column; NaN counts are withheld.

    Shares are of the values of a column, whose number follows if all is shown.
    """
    sizes = list(map(len, counts))
    shares = [own / own.sum() if own.sum() > 0 else own * np.nan for own in counts]
    cells = {
        Column("Column"): np.repeat(list(columns), sizes),
        Column("Bin", "count"): np.concatenate(list(map(np.arange, sizes))),
        Column("From", "number"): np.concatenate([own[:-1] for own in edges]),
        Column("To", "number"): np.concatenate([own[1:] for own in edges]),
        Column("n", "count"): np.concatenate(counts),
        Column("Share", "share"): np.concatenate(shares),
    }
    return ResultTable.of("bins", cells, items="bins")
