"""The first table of a paper: as people read it, and long with all digits."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, final

import numpy as np

from unpooled.arrays import Array, Float
from unpooled.results.exhibits import Column, Exhibit, ResultTable
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


_COMPARED = (
    "The tests compare the classes, one column at a time; their p-values are not "
    "adjusted for the number of columns. SMD is the standardised mean difference of "
    "two classes: that of their means, divided by their standard deviation (the root "
    "of the mean of both variances), or the same of shares of categories. Of more than "
    "two classes that of the two that differ most is shown."
)


def describe_exhibits(model: "Describe", columns: Sequence[str]) -> list[Exhibit]:
    """Return the exhibits of a fitted description."""
    if "mean_" not in vars(model):
        # On a column partition the silos keep it.
        return []
    least = model.min_rows_per_class
    quartiles = ", median [quartiles]" if "quartiles_" in vars(model) else ""
    text = (
        f"Mean (SD){quartiles} of numbers, n (%) of categories, over the rows of all "
        f"silos; missing cells are left out, and counted where there are any."
    )
    # Below the table, where a terminal shows it too.
    withheld = (
        f"{_WITHHELD} stands for what is withheld: counts below {least} other than 0, "
        f"everything about the column in such a group, and what would give it back."
    )
    if model.pairs_:
        withheld += (
            " A column of which anything is withheld has no p-value and no "
            "standardised difference (SMD)."
        )
    if quartiles:
        text += (
            f" Quartiles are interpolated between at least {model.min_rows} values."
            if model.min_rows > 1
            else ""
        )
    if "kept_" in vars(model) and model.categorical_:
        text += (
            " Names of categories stay in their silos: 1, 2, ... are the first, the "
            "second, ... name of a column in the order of text, of those that enough "
            "rows have."
        )
    tables = [_printed(_Parts.of_groups(model), "table_1"), _long(model)]
    if model.per_silo == "classes":
        text += (
            " Each silo’s own rows are described by class too, without quartiles: "
            "those columns of which no silo has a small count in any class. Of other "
            "columns no silo shows anything."
        )
        tables[1:1] = _printed_of_silos(model)
    elif model.per_silo:
        text += (
            " Each silo’s own rows are described too. A column with a withheld count "
            "in one silo is withheld in the smallest silos as well, or in all."
        )
        tables.insert(1, _printed_by_silo(model))
    tables = [
        replace(one, note=" ".join(filter(None, (one.note, withheld))))
        if any(_WITHHELD in str(cell) for row in one.rows for cell in row[1:])
        else one
        for one in tables
    ]
    if model.pairs_:
        note = " ".join(filter(None, (tables[0].note, _COMPARED)))
        tables[0] = replace(tables[0], note=note)
        tables.append(_differences(model))
    return [Exhibit("Description of the columns", text, tables)]


# Statistics of a part of the rows, each an attribute of `Describe`.
_OF_PARTS = ("size", "n", "n_missing", "mean", "std", "category_counts")


def _named(model: "Describe", prefix: str) -> dict[str, Any]:
    """Return what is shown of groups, silos ("silo_") or their classes, by name."""
    names = (*_OF_PARTS, "quartiles", "quartile_errors")
    return {name: vars(model).get(f"{prefix}{name}_") for name in names}


@final
class _Parts:
    """The shown numbers of parts of the rows.

    Attributes
    ----------
    names : list of str
        Names of the parts: groups with all rows at the end, or silos.
    size : (g,) array
        Numbers of rows.
    n, n_missing, mean, std : (g, p) arrays
        As `Describe` has them.
    category_counts : (g, s, v) array
        Likewise.
    quartiles, quartile_errors : (3, g, p) arrays or None
        Likewise.
    is_compared : bool
        Whether the parts are classes, with tests.
    p_value, tests, smd : (p,) array, list of p str, (l, p) array
        As `Describe` has them, where classes are compared.
    blank_if_empty : bool
        Whether a part without a value has empty cells: there is no mean to withhold.
    """

    def __init__(
        self,
        model: "Describe",
        names: Sequence[str],
        parts: Mapping[str, Any],
        compared: tuple[Any, Any, Any] | None = None,
        *,
        blank_if_empty: bool = False,
    ) -> None:
        self.model, self.names, self.blank_if_empty = model, names, blank_if_empty
        self.size, self.n, self.n_missing, self.mean, self.std, self.category_counts = (
            parts[name] for name in _OF_PARTS
        )
        self.quartiles = parts.get("quartiles")
        self.quartile_errors = parts.get("quartile_errors")
        self.is_compared = compared is not None and len(model.pairs_) > 0
        self.p_value, self.tests, self.smd = compared or ((), (), np.zeros((0, 0)))

    @classmethod
    def of_groups(cls, model: "Describe") -> "_Parts":
        """Return the classes over all silos, and all rows."""
        compared = None
        if model.pairs_:
            compared = model.p_value_, model.tests_, model.smd_
        return cls(model, model.groups_, _named(model, ""), compared)

    @classmethod
    def of_silos(cls, model: "Describe") -> "_Parts":
        """Return the silos, each over all its rows."""
        return cls(model, model.silos_, _named(model, "silo_"), blank_if_empty=True)

    @classmethod
    def of_silo(cls, model: "Describe", i: int) -> "_Parts":
        """Return the classes of one silo, and all its rows."""
        own, by_class = _named(model, "silo_"), _named(model, "silo_class_")
        parts = {
            name: np.concatenate([by_class[name][i], own[name][i : i + 1]])
            for name in _OF_PARTS
        }
        compared = model.silo_p_value_[i], model.silo_tests_[i], model.silo_smd_[i]
        return cls(model, model.groups_, parts, compared, blank_if_empty=True)

    @property
    def shown(self) -> list[int]:
        """The columns of which not everything is withheld; all of them over silos."""
        hidden = np.isnan(self.n_missing).all(axis=0) & self.blank_if_empty
        return np.flatnonzero(~hidden).tolist()

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


def _printed(parts: _Parts, key: str) -> ResultTable:
    """Return the table of classes as it is printed, all rows first."""
    order = [len(parts.names) - 1, *range(len(parts.names) - 1)]
    heads = parts.heads(order, "group")
    if parts.is_compared:
        heads += [
            Column("p-value", "figures"),
            Column("Test"),
            Column("Largest SMD", "figures"),
        ]
    rows = []
    for j in parts.shown:
        for k, (label, cells) in enumerate(parts.lines(j)):
            row = [label, *(cells[i] for i in order)]
            if parts.is_compared:
                p, smd = parts.p_value[j], np.abs(parts.smd[:, j])
                tested = k == 0 and parts.tests[j] != ""
                differs = k == 0 and not np.isnan(smd).all()
                row += [
                    probability(p) if tested else "",
                    parts.tests[j] if tested else "",
                    f"{np.nanmax(smd):.2f}" if differs else "",
                ]
            rows.append(row)
    return ResultTable(key, heads, rows, items="lines", most=None, place="pages")


def _printed_by_silo(model: "Describe") -> ResultTable:
    """Return the table of each silo's own rows, as it is printed."""
    parts = _Parts.of_silos(model)
    heads = parts.heads(range(len(parts.names)), "silo")
    rows = [
        [label, *cells]
        for j in range(len(model.columns_))
        for label, cells in parts.lines(j)
    ]
    return ResultTable("by_silo", heads, rows, items="lines", most=None, place="pages")


def _printed_of_silos(model: "Describe") -> list[ResultTable]:
    """Return a table of each silo by class, as it is printed."""
    tables = []
    for i, silo in enumerate(model.silos_):
        table = _printed(_Parts.of_silo(model, i), f"silo_{i}")
        head = replace(table.columns[0], heading=f"{silo}: column")
        tables.append(replace(table, columns=(head, *table.columns[1:])))
    return tables


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
    """Whether to show each category; "other" is shown only where rows are in it."""
    codes = model.category_codes_[place].tolist()
    first = codes.index(-1)
    counts = model.category_counts_[:, place, first]
    there = bool(np.isnan(counts[-1]) or counts[-1] > 0)
    return [code >= 0 or (k == first and there) for k, code in enumerate(codes)]


def _label(model: "Describe", place: int, k: int) -> str | int:
    """Return the name of a category; "other" for values in none of them."""
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


def _long(model: "Describe") -> ResultTable:
    """Return a row for each column, category and group, and for each silo's rows."""
    rows = _long_rows(_Parts.of_groups(model))
    if not model.per_silo:
        return ResultTable("description", _LONG, rows, place="files")
    heads = (*_LONG[:2], Column("Silo"), *_LONG[2:])
    rows = [[*row[:2], "all", *row[2:]] for row in rows]
    if model.per_silo == "classes":
        for i, silo in enumerate(model.silos_):
            own = _long_rows(_Parts.of_silo(model, i))
            rows += [[*row[:2], silo, *row[2:]] for row in own]
        return ResultTable("description", heads, rows, place="files")
    silos, p = _Parts.of_silos(model), len(model.columns_)
    rows += [
        [*cells[:2], silo, "all", *cells[2:], None, None]
        for i, silo in enumerate(silos.names)
        for j in range(p)
        for cells in silos.cells(i, j)
    ]
    return ResultTable("description", heads, rows, place="files")


def _long_rows(parts: _Parts) -> list[list[Any]]:
    """Return the rows of the long table of classes."""
    rows = []
    for j in range(len(parts.model.columns_)):
        tested = [None, np.nan]
        if parts.is_compared:
            tested = [parts.tests[j] or None, parts.p_value[j]]
        rows += [
            [*cells[:2], group, *cells[2:], *tested]
            for i, group in enumerate(parts.names)
            for cells in parts.cells(i, j)
        ]
    return rows


def _differences(model: "Describe") -> ResultTable:
    """Return the standardised difference of each pair of classes, by column."""
    of_silos = [("all", model.smd_)]
    if model.per_silo == "classes":
        of_silos += zip(model.silos_, model.silo_smd_, strict=True)
    heads = (Column("Column"), Column("Class"), Column("Other class"))
    rows = [
        (*([silo] if len(of_silos) > 1 else []), name, *pair, smd[i, j])
        for silo, smd in of_silos
        for j, name in enumerate(model.columns_)
        for i, pair in enumerate(model.pairs_)
    ]
    if len(of_silos) > 1:
        heads = (Column("Silo"), *heads)
    head = Column("Standardised difference", "signed", "smd")
    note = (
        "Positive where the mean of the other class is the larger one. Those of "
        "categories have no sign."
    )
    return ResultTable("differences", (*heads, head), rows, note=note, place="files")
