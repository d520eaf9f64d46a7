"""The first table of a paper: as people read it, and long with all digits."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, final

import numpy as np

from unpooled.arrays import Array, Float
from unpooled.results.exhibits import Column, Exhibit, Table
from unpooled.results.formats import known_to, number, per_cent, probability

if TYPE_CHECKING:
    from unpooled.models.description.describe import Describe

_WITHHELD = "–"
_LONG = (
    Column("Column"),
    Column("Category", "setting"),
    Column("Group"),
    Column("Rows", "count"),
    Column("n", "count"),
    Column("Missing", "count"),
    Column("Mean", "number"),
    Column("SD", "number"),
    Column("Q1", "number"),
    Column("Median", "number"),
    Column("Q3", "number"),
    Column("Largest error of a quartile", "number", "quartile_error"),
    Column("Count", "count"),
    Column("Share", "share"),
    Column("Test"),
    Column("p-value", "p-value", "p"),
)


def describe_exhibits(model: "Describe", columns: Sequence[str]) -> list[Exhibit]:
    """Return the exhibits of a fitted description."""
    least = model.min_rows_per_class
    quartiles = ", median [quartiles]" if "quartiles_" in vars(model) else ""
    text = (
        f"Mean (SD){quartiles} of numbers, n (%) of categories, over the rows of all "
        f"silos; missing cells are left out, and counted where there are any. "
        f"{_WITHHELD} stands for what is withheld: counts below {least} other than 0, "
        f"everything about the column in such a group, and what would give it back."
    )
    if model.pairs_:
        text += (
            " A column of which anything is withheld has no p-value and no "
            "standardised difference (SMD)."
        )
    if quartiles:
        text += (
            f" Quartiles are interpolated between at least {model.min_rows} values."
            if model.min_rows > 1
            else ""
        )
    tables = [_printed(model), _long(model)]
    if model.per_silo:
        text += (
            " Each silo’s own rows are described too. A column with a withheld count "
            "in one silo is withheld in the smallest silos as well, or in all."
        )
        tables.insert(1, _printed_by_silo(model))
    if model.pairs_:
        tables.append(_differences(model))
    return [Exhibit("Description of the columns", text, tables)]


@final
class _Parts:
    """What is shown of parts of the rows: of groups and all rows, or of silos.

    Attributes
    ----------
    names : list of str
        Of the parts.
    size : (g,) array
        Numbers of rows.
    n, n_missing, mean, std : (g, p) arrays
        As `Describe` has them.
    category_counts : (g, s, v) array
        Likewise.
    quartiles, quartile_errors : (3, g, p) arrays or None
        Likewise.
    blank_if_empty : bool
        Whether a part without a value has empty cells: there is no mean to withhold.
    """

    def __init__(self, model: "Describe", *, of_silos: bool) -> None:
        fitted, prefix = vars(model), "silo_" if of_silos else ""
        self.model, self.blank_if_empty = model, of_silos
        self.names = model.silos_ if of_silos else model.groups_
        self.size, self.n, self.n_missing, self.mean, self.std = (
            fitted[f"{prefix}{name}_"]
            for name in ("size", "n", "n_missing", "mean", "std")
        )
        self.category_counts = fitted[f"{prefix}category_counts_"]
        self.quartiles = fitted.get(f"{prefix}quartiles_")
        self.quartile_errors = fitted.get(f"{prefix}quartile_errors_")

    def heads(self, order: Sequence[int], key: str) -> list[Column]:
        """Return the heads of a table that is printed, a column for each part."""
        return [
            Column("Column"),
            *(
                Column(
                    f"{self.names[i]} (n = {self.size[i]:,.0f})",
                    "figures",
                    f"{key}_{i}",
                )
                for i in order
            ),
        ]

    def categories(self, j: int) -> Iterator[tuple[str | int, Float[Array, " g"]]]:
        """Yield the categories of column j that are shown, and their counts."""
        place = self.model.categorical_.index(self.model.columns_[j])
        for k, show in enumerate(_others(self.model, place)):
            if show:
                counts = self.category_counts[:, place, k]
                yield _label(self.model, place, k), counts

    def lines(self, j: int) -> Iterator[tuple[str, list[str]]]:
        """Yield the printed lines of column j, each with a cell for every part."""
        name, n = self.model.columns_[j], self.n[:, j]
        if name in self.model.categorical_:
            for label, counts in self.categories(j):
                yield f"{name} = {label}, n (%)", list(map(_share, counts, n))
        else:
            mean, sd = self.mean[:, j], self.std[:, j]
            cells = [
                _cell(f"{number(a)} ({number(b)})", b)
                for a, b in zip(mean, sd, strict=True)
            ]
            yield f"{name}, mean (SD)", self._blanked(cells, n)
            if self.quartiles is not None and self.quartile_errors is not None:
                own = self.quartiles[:, :, j], self.quartile_errors[:, :, j]
                yield f"{name}, median [quartiles]", self._blanked(_medians(*own), n)
        missing = self.n_missing[:, j]
        if np.isnan(missing).any() or missing.any():
            yield f"{name}, missing, n (%)", list(map(_share, missing, self.size))

    def _blanked(self, cells: list[str], n: Float[Array, " g"]) -> list[str]:
        if not self.blank_if_empty:
            return cells
        return ["" if not size else cell for cell, size in zip(cells, n, strict=True)]

    def cells(self, i: int, j: int) -> Iterator[list[Any]]:
        """Yield the rows of part i and column j of the long table.

        They have the column, its category, and what follows the names of the parts.
        """
        name, n = self.model.columns_[j], self.n[i, j]
        about = [self.size[i], n, self.n_missing[i, j]]
        if name in self.model.categorical_:
            for label, counts in self.categories(j):
                share = counts[i] / n if n else None
                yield [name, label, *about, *[None] * 6, counts[i], share]
            return
        own = [None] * 4
        if self.quartiles is not None and self.quartile_errors is not None:
            own = [*self.quartiles[:, i, j], self.quartile_errors[:, i, j].max()]
        yield [name, None, *about, self.mean[i, j], self.std[i, j], *own, None, None]


def _printed(model: "Describe") -> Table:
    """Return the table as it is printed."""
    parts = _Parts(model, of_silos=False)
    order = [len(parts.names) - 1, *range(len(parts.names) - 1)]
    heads = parts.heads(order, "group")
    compared = len(model.pairs_) > 0
    if compared:
        heads += [
            Column("p-value", "figures"),
            Column("Test"),
            Column("Largest SMD", "figures"),
        ]
    rows = []
    for j in range(len(model.columns_)):
        for k, (label, cells) in enumerate(parts.lines(j)):
            row = [label, *(cells[i] for i in order)]
            if compared:
                p, smd = model.p_value_[j], np.abs(model.smd_[:, j])
                tested = k == 0 and model.tests_[j] != ""
                differs = k == 0 and not np.isnan(smd).all()
                row += [
                    probability(p) if tested else "",
                    model.tests_[j] if tested else "",
                    f"{np.nanmax(smd):.2f}" if differs else "",
                ]
            rows.append(row)
    return Table("table_1", heads, rows, items="lines", most=None, place="pages")


def _printed_by_silo(model: "Describe") -> Table:
    """Return the table of each silo's own rows, as it is printed."""
    parts = _Parts(model, of_silos=True)
    heads = parts.heads(range(len(parts.names)), "silo")
    rows = [
        [label, *cells]
        for j in range(len(model.columns_))
        for label, cells in parts.lines(j)
    ]
    return Table("by_silo", heads, rows, items="lines", most=None, place="pages")


def _medians(quartiles: Float[Array, "3 g"], errors: Float[Array, "3 g"]) -> list[str]:
    """Return a cell for each group, withheld where one of its quartiles is."""
    cells = []
    for own, error in zip(quartiles.T, errors.T, strict=True):
        low, middle, high = map(_without_zeros, own.tolist(), error.tolist())
        cells.append(_cell(f"{middle} [{low}, {high}]", error.sum()))
    return cells


def _without_zeros(x: float, error: float) -> str:
    """Return a quartile as it was recorded: 1, not 1.000, in one cell with 1.8."""
    text = known_to(x, error)
    whole, point, digits = text.partition(".")
    if not digits.isdigit():
        return text
    return f"{whole}{point}{digits}".rstrip("0").removesuffix(".")


def _others(model: "Describe", place: int) -> list[bool]:
    """Return of each category whether to show it: others only where there are any."""
    codes = model.category_codes_[place].tolist()
    first = codes.index(-1)
    counts = model.category_counts_[:, place, first]
    there = bool(np.isnan(counts[-1]) or counts[-1] > 0)
    return [code >= 0 or (k == first and there) for k, code in enumerate(codes)]


def _label(model: "Describe", place: int, k: int) -> str | int:
    """Return what a category is called; what is in no other one is "other"."""
    names = model.categories_[place]
    return names[k] if k < len(names) else "other"


def _cell(text: str, value: float) -> str:
    return _WITHHELD if np.isnan(value) else text


def _share(count: float, of: float) -> str:
    if np.isnan(count):
        return _WITHHELD
    if np.isnan(of) or not of:
        return f"{count:,.0f}"
    return f"{count:,.0f} ({per_cent(count / of)})"


def _long(model: "Describe") -> Table:
    """Return a row for each column, category and group, and for each silo's rows."""
    parts, p = _Parts(model, of_silos=False), len(model.columns_)
    rows = [
        [*cells[:2], group, *cells[2:], model.tests_[j] or None, model.p_value_[j]]
        for j in range(p)
        for i, group in enumerate(parts.names)
        for cells in parts.cells(i, j)
    ]
    if not model.per_silo:
        return Table("description", _LONG, rows, place="files")
    heads = (*_LONG[:2], Column("Silo"), *_LONG[2:])
    rows = [[*row[:2], "all", *row[2:]] for row in rows]
    silos = _Parts(model, of_silos=True)
    rows += [
        [*cells[:2], silo, "all", *cells[2:], None, None]
        for i, silo in enumerate(silos.names)
        for j in range(p)
        for cells in silos.cells(i, j)
    ]
    return Table("description", heads, rows, place="files")


def _differences(model: "Describe") -> Table:
    """Return the standardised difference of each pair of classes, by column."""
    heads = (Column("Column"), Column("Class"), Column("Other class"))
    rows = [
        (name, *pair, model.smd_[i, j])
        for j, name in enumerate(model.columns_)
        for i, pair in enumerate(model.pairs_)
    ]
    head = Column("Standardised difference", "signed", "smd")
    return Table("differences", (*heads, head), rows, place="files")
