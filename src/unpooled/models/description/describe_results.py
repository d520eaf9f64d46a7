"""The first table of a paper: as people read it, and long with all digits."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from unpooled.arrays import Array, Float
from unpooled.results.exhibits import Column, Exhibit, Table
from unpooled.results.formats import number, per_cent, probability

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


def _printed(model: "Describe") -> Table:
    """Return the table as it is printed."""
    order = [len(model.groups_) - 1, *range(len(model.groups_) - 1)]
    heads = [Column("Column")]
    for i in order:
        name = model.groups_[i]
        heads.append(
            Column(f"{name} (n = {model.size_[i]:,.0f})", "figures", f"group_{i}")
        )
    compared = len(model.pairs_) > 0
    if compared:
        heads += [
            Column("p-value", "figures"),
            Column("Test"),
            Column("Largest SMD", "figures"),
        ]
    rows = []
    for j, name in enumerate(model.columns_):
        for k, (label, cells) in enumerate(_lines(model, j, name)):
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
    heads = [Column("Column")]
    sizes = zip(model.silos_, model.silo_size_, strict=True)
    for i, (name, size) in enumerate(sizes):
        heads.append(Column(f"{name} (n = {size:,.0f})", "figures", f"silo_{i}"))
    rows = [
        [label, *cells]
        for j, name in enumerate(model.columns_)
        for label, cells in _lines_of_silos(model, j, name)
    ]
    return Table("by_silo", heads, rows, items="lines", most=None, place="pages")


def _lines_of_silos(
    model: "Describe", j: int, name: str
) -> Iterator[tuple[str, list[str]]]:
    """Yield the lines of a column, each with a cell for every silo."""
    silos = range(len(model.silos_))
    missing, n = model.silo_n_missing_[:, j], model.silo_n_[:, j]
    if name in model.categorical_:
        place = model.categorical_.index(name)
        for k, show in enumerate(_others(model, place)):
            if show:
                counts = model.silo_category_counts_[:, place, k]
                label = f"{name} = {_label(model, place, k)}, n (%)"
                yield label, [_share(counts[i], n[i]) for i in silos]
    else:
        mean, sd = model.silo_mean_[:, j], model.silo_std_[:, j]
        cells = [
            # Without a value there is no mean to withhold.
            "" if n[i] == 0 else _cell(f"{number(mean[i])} ({number(sd[i])})", sd[i])
            for i in silos
        ]
        yield f"{name}, mean (SD)", cells
        if "silo_quartiles_" in vars(model):
            own = model.silo_quartiles_[:, :, j], model.silo_quartile_errors_[:, :, j]
            cells = ["" if n[i] == 0 else cell for i, cell in enumerate(_medians(*own))]
            yield f"{name}, median [quartiles]", cells
    if np.isnan(missing).any() or missing.any():
        shares = [_share(missing[i], model.silo_size_[i]) for i in silos]
        yield f"{name}, missing, n (%)", shares


def _lines(model: "Describe", j: int, name: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the lines of a column, each with a cell for every group."""
    groups = range(len(model.groups_))
    if name in model.categorical_:
        place = model.categorical_.index(name)
        for k, code in enumerate(model.category_codes_[place].tolist()):
            counts = model.category_counts_[:, place, k]
            if code < 0 and not _others(model, place)[k]:
                continue
            label = f"{name} = {_label(model, place, k)}, n (%)"
            yield label, [_share(counts[i], model.n_[i, j]) for i in groups]
    else:
        mean, sd = model.mean_[:, j], model.std_[:, j]
        yield (
            f"{name}, mean (SD)",
            [_cell(f"{number(mean[i])} ({number(sd[i])})", sd[i]) for i in groups],
        )
        if "quartiles_" in vars(model):
            own = model.quartiles_[:, :, j], model.quartile_errors_[:, :, j]
            yield f"{name}, median [quartiles]", _medians(*own)
    missing = model.n_missing_[:, j]
    if np.isnan(missing).any() or missing.any():
        shares = [_share(missing[i], model.size_[i]) for i in groups]
        yield f"{name}, missing, n (%)", shares


def _medians(quartiles: Float[Array, "3 g"], errors: Float[Array, "3 g"]) -> list[str]:
    """Return a cell for each group, withheld where one of its quartiles is."""
    cells = []
    for own, error in zip(quartiles.T, errors.T, strict=True):
        low, middle, high = map(_known, own, error)
        cells.append(_cell(f"{middle} [{low}, {high}]", error.sum()))
    return cells


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


def _known(value: float, error: float) -> str:
    """Return a number without the digits that its error makes worthless."""
    if np.isnan(error) or not error:
        return number(value)
    step = 10.0 ** np.floor(np.log10(error))
    return number(float(np.rint(value / step) * step))


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
    rows: list[list[Any]] = []
    quartiles = vars(model).get("quartiles_")
    for j, name in enumerate(model.columns_):
        test, p = model.tests_[j] or None, model.p_value_[j]
        for i, group in enumerate(model.groups_):
            n = model.n_[i, j]
            about = [model.size_[i], n, model.n_missing_[i, j]]
            if name not in model.categorical_:
                own = [None] * 4
                if quartiles is not None:
                    errors = model.quartile_errors_[:, i, j]
                    own = [*quartiles[:, i, j], errors.max()]
                moments = [model.mean_[i, j], model.std_[i, j]]
                rows.append([name, None, group, *about, *moments, *own] + [None] * 2)
                rows[-1] += [test, p]
                continue
            place = model.categorical_.index(name)
            for k, show in enumerate(_others(model, place)):
                if not show:
                    continue
                label = _label(model, place, k)
                count = model.category_counts_[i, place, k]
                share = count / n if n else None
                cells = [name, label, group, *about, *[None] * 6, count, share]
                rows.append([*cells, test, p])
    if not model.per_silo:
        return Table("description", _LONG, rows, place="files")
    heads = (*_LONG[:2], Column("Silo"), *_LONG[2:])
    rows = [[*row[:2], "all", *row[2:]] for row in rows]
    for i, silo in enumerate(model.silos_):
        for j, name in enumerate(model.columns_):
            n = model.silo_n_[i, j]
            about = [silo, "all", model.silo_size_[i], n, model.silo_n_missing_[i, j]]
            if name not in model.categorical_:
                moments = [model.silo_mean_[i, j], model.silo_std_[i, j]]
                own = [None] * 4
                if "silo_quartiles_" in vars(model):
                    errors = model.silo_quartile_errors_[:, i, j]
                    own = [*model.silo_quartiles_[:, i, j], errors.max()]
                rows.append([name, None, *about, *moments, *own, *[None] * 4])
                continue
            place = model.categorical_.index(name)
            for k, show in enumerate(_others(model, place)):
                if show:
                    count = model.silo_category_counts_[i, place, k]
                    share = count / n if n else None
                    label = _label(model, place, k)
                    cells = [name, label, *about, *[None] * 6, count, share]
                    rows.append([*cells, None, None])
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
