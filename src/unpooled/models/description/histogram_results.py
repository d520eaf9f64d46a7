"""Results on histograms: a row for each bin, and pictures of the columns."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from unpooled.results.exhibits import Column, Exhibit, Picture, Table
from unpooled.results.plots.histograms import MOST_PANELS, histograms

if TYPE_CHECKING:
    from unpooled.models.description.histogram import Histogram

_HEADS = (
    Column("Column"),
    Column("Bin", "count"),
    Column("From", "number"),
    Column("To", "number"),
    Column("n", "count"),
    Column("Share", "share"),
)


def histogram_exhibits(model: "Histogram", columns: Sequence[str]) -> list[Exhibit]:
    """Return the exhibits of fitted histograms."""
    least = model.min_rows_per_class
    rows = []
    for name, edges, counts in zip(
        model.columns_, model.bin_edges_, model.counts_, strict=True
    ):
        # Shares are of the values of a column, whose number follows if all is shown.
        whole = counts.sum()
        for number, (low, high, n) in enumerate(
            zip(edges[:-1], edges[1:], counts, strict=True)
        ):
            share = float(n / whole) if whole > 0 else None
            n = None if np.isnan(n) else int(n)
            rows.append((name, number, float(low), float(high), n, share))
    missing = [
        (name, None if np.isnan(n) else int(n))
        for name, n in zip(model.columns_, model.n_missing_.tolist(), strict=True)
    ]
    text = (
        f"Values of each column over the rows of all silos, in bins of equal widths. A "
        f"value at an edge is in the bin above it; values beyond the outermost edges "
        f"are in the first and the last bin. Withheld, and left empty or grey: "
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
    tables = [
        Table("bins", _HEADS, rows, items="bins"),
        Table(
            "missing_cells",
            (Column("Column"), Column("Missing", "count")),
            missing,
            items="columns",
        ),
    ]
    return [Exhibit("Histograms of the columns", text, tables, picture)]
