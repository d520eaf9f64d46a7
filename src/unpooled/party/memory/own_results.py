"""A silo's own part of a study's results, as files for the silo's own people.

    components  k p  ──>  pca_components.csv   a row for each own column
    weights     p c  ──>  mmvfl_weights.csv    a row for each own column
    scores      N k  ──>  pca_scores.csv       a row for each person, under the own ids

On a column partition each silo keeps results about its own columns; by rows only what a
step keeps for itself is a result, such as the silo's own intercept, and the others are
parts of totals. The files are written by the silo and never sent: the request says that
a study is over, and the reply that it was read.
"""

import csv
import io
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from unpooled.arrays import Array
from unpooled.data.atomic_file import replacing
from unpooled.data.categories import MISSING, OTHER
from unpooled.data.table import Table
from unpooled.party.memory.kept_arrays import KeptAs, KeptStore
from unpooled.posix import keep_private
from unpooled.protocol.declaration import ROW_AXES
from unpooled.protocol.step import find_step
from unpooled.results.exhibits import Value
from unpooled.results.files import harmless

# First axes of an array of groups of categories: of each its code, number and rows, and
# rows of each class.
_OF_CATEGORIES = ("v", "p")
# Headings of numbers along an axis, by its letter.
_HEADINGS = {
    "k": "component",
    "j": "component",
    "c": "class",
    "l": "landmark",
    "m": "silo",
}


def write_own_results(
    folder: Path, kept: KeptStore, table: Table, partition: str = "columns"
) -> list[Path]:
    """Write what a silo keeps of a study as CSV files; return their paths.

    Parameters
    ----------
    folder : Path
        Folder of the study's files, which only its owner may read. Files of the same
        names are replaced.
    kept : KeptStore
        The arrays that the study's steps kept.
    table : Table
        The silo's rows in the study's order, for their ids.
    partition : {"rows", "columns"}
        Partition of the study.
    """
    paths: list[Path] = []
    for name, about, array in kept.described():
        if partition == "rows" and find_step(about.step).verb != "kept":
            continue
        rows = _rows(about, array, table)
        if rows is None:
            continue
        stem = f"{about.step.partition('.')[0]}_{name}"
        # A study may have several steps of one model.
        number = sum(_stem(path) == stem for path in paths) + 1
        path = folder / f"{stem}{'' if number == 1 else f'-{number}'}.csv"
        _write(path, rows)
        paths.append(path)
    return paths


def _stem(path: Path) -> str:
    return path.stem.partition("-")[0]


def _rows(about: KeptAs, array: Array, table: Table) -> list[list[Value]] | None:
    """Return an array as rows of a file, headings first; None for single numbers."""
    axes, grid = about.axes, np.asarray(array)
    if axes[:2] == _OF_CATEGORIES and grid.ndim == 3:
        return _categories(about.columns, grid, table)
    if grid.ndim not in (1, 2) or len(axes) != grid.ndim:
        return None
    # A row for each column or person, whichever axis that is.
    if grid.ndim == 2 and axes[0] not in ("p", *ROW_AXES):
        axes, grid = axes[::-1], grid.T
    if grid.ndim == 1:
        headings, grid = ["value"], grid[:, None]
    else:
        kind = _HEADINGS.get(axes[1], "value")
        headings = [f"{kind}_{j + 1}" for j in range(grid.shape[1])]
        if axes[1] == "p" and len(about.columns) == grid.shape[1]:
            headings = list(about.columns)
    first, names = _names(axes[0], about.columns, len(grid), table)
    return [
        [first, *headings],
        *([name, *row] for name, row in zip(names, grid.tolist(), strict=True)),
    ]


def _categories(
    columns: Sequence[str], groups: Array, table: Table
) -> list[list[Value]]:
    """Return the categories of the silo's columns, with their numbers and rows."""
    names = {**getattr(table, "dictionary", {}), MISSING: "(missing)"}
    names[OTHER] = "(infrequent, and others)"
    found = [
        # Other names than the table's are those that a study filled missing cells with.
        [column, names.get(code, "(filled in)"), *map(int, counts)]
        for column, own in zip(columns, np.moveaxis(groups, 1, 0), strict=True)
        for code, *counts in own.tolist()
        if code in names or code >= 0
    ]
    by_class = [f"class_{k}" for k in range(1, groups.shape[2] - 2)]
    return [["column", "category", "number", "rows", *by_class], *found]


def _names(
    axis: str, columns: Sequence[str], length: int, table: Table
) -> tuple[str, Sequence[Value]]:
    """Return the kind of a file's rows, and their names."""
    if axis == "p" and len(columns) == length:
        return "column", columns
    if axis in ROW_AXES:
        if table.ids is not None and table.n_rows == length:
            return table.ids, list(_ids(table, table.ids))
        return "row", range(1, length + 1)
    return _HEADINGS.get(axis, "number"), range(1, length + 1)


def _ids(table: Table, ids: str) -> Iterator[Value]:
    for block in table.blocks((), (ids,)):
        yield from block.extra[ids].tolist()


def _write(path: Path, rows: Sequence[Sequence[Value]]) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerows([harmless(cell) for cell in row] for row in rows)
    with replacing(path) as stream:
        # Before anything is in it, which may be about people.
        keep_private(stream)
        stream.write(text.getvalue().encode())
