"""Results of MCA and FAMD: inertia, a map of the categories, what makes a component."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from unpooled.arrays import Array, Float
from unpooled.results.exhibits import Column, Exhibit, Picture, ResultTable
from unpooled.results.fitted_attributes import by_column, numbered, ordinals
from unpooled.results.formats import counted, per_cent
from unpooled.results.plots import scatter_plots

if TYPE_CHECKING:
    from unpooled.models.correspondence.famd import FAMD
    from unpooled.models.correspondence.mca import MCA

# The most categories with names in a map: those that its two components show best.
_MOST_DRAWN = 24
# As scikit-learn names the columns of its encoder.
_GROUPS = {
    "_nan": "missing cells",
    "_infrequent_sklearn": "categories of few rows, as one, with the next more "
    "frequent one where they would be too few (infrequent_categories_ names them)",
}
_MAP = (
    "Categories near each other are those of similar rows; categories far from the "
    "centre are those of rows that differ most from the average row."
)


def mca_exhibits(model: "MCA", columns: Sequence[str]) -> list[Exhibit]:
    """Return the exhibits of a fitted MCA."""
    eigenvalue = Column("Corrected eigenvalue (Benzécri)", "number")
    corrected = {
        eigenvalue: model.benzecri_eigenvalues_,
        Column("Share (Benzécri)", "share"): model.benzecri_ratio_,
        Column("Share (Greenacre)", "share"): model.greenacre_ratio_,
    }
    text = (
        f"The inertia (variance of the rows’ coordinates) of {_kept(model)}, the mean "
        f"number of a column’s categories less 1. The share of the total understates a "
        f"component, because the total includes the association of each column with "
        f"itself, which is always perfect; the corrected shares of Benzécri and of "
        f"Greenacre leave it out."
    )
    if "category_coordinates_" not in vars(model):
        return [_inertia(model, text, corrected)]
    return [
        _inertia(model, text, corrected),
        _map(model, list(model.indicators_), "principal coordinates"),
        *_measures(model, list(model.indicators_)),
    ]


def famd_exhibits(model: "FAMD", columns: Sequence[str]) -> list[Exhibit]:
    """Return the exhibits of a fitted FAMD."""
    text = (
        f"The inertia (variance of the rows’ coordinates) of {_kept(model)}: 1 for "
        f"each numeric column, and for each column of categories their number less 1."
    )
    names, p = list(model.variables_), model.n_numeric_
    if "category_coordinates_" not in vars(model):
        return [_inertia(model, text, {})]
    return [
        _inertia(model, text, {}),
        _numeric(model, names[:p]),
        _map(model, names[p:], "barycentres: the means of the rows of each category"),
        *_measures(model, names),
    ]


def _kept(model: Any) -> str:
    total = float(np.sum(model.explained_inertia_ratio_))
    k = len(model.eigenvalues_)
    return (
        f"{counted(k, 'component')} over {model.n_samples_:,} rows, {per_cent(total)} "
        f"of the total inertia of {model.total_inertia_:.3g}"
    )


def _inertia(
    model: Any, text: str, further: dict[Column, Float[Array, " k"]]
) -> Exhibit:
    ratio = model.explained_inertia_ratio_
    table = ResultTable.of(
        "inertia",
        {
            Column("Component"): ordinals(len(ratio)),
            Column("Eigenvalue", "number"): model.eigenvalues_,
            Column("Share", "share", bar=True): ratio,
            Column("Cumulative share", "share"): np.cumsum(ratio),
            **further,
        },
        items="components",
    )
    return Exhibit("Inertia", text, [table])


def _numeric(model: "FAMD", names: Sequence[str]) -> Exhibit:
    """Return the correlations of numeric columns with components, and their circle."""
    heading, R = "Numeric columns and components", model.correlations_
    table = by_column("correlations", names, numbered(R, "signed"))
    text = "The correlation of each numeric column with each component."
    if R.shape[1] < 2:
        return Exhibit(heading, text, [table])
    quality = np.sum(R[:, :2] ** 2, axis=1)
    shown = np.argsort(-quality, kind="stable")[:_MOST_DRAWN]
    picture = Picture(
        "correlation_circle",
        "Correlation circle",
        f"{counted(len(shown), 'column')} as lines from the centre of a circle of "
        f"radius 1. {names[int(shown[0])]} reaches farthest. The numbers are in the "
        f"table below.",
        partial(
            scatter_plots.correlation_circle,
            R[shown, :2],
            [names[int(j)] for j in shown],
            np.ones(len(shown), dtype=bool),
            _axes(model),
        ),
        (table.name,),
    )
    text += (
        " A column that reaches the circle is fully described by components 1 and 2; "
        "columns that point the same way are positively correlated."
    )
    return Exhibit(heading, text, [table], picture)


def _axes(model: Any) -> tuple[str, str]:
    first, second = map(per_cent, model.explained_inertia_ratio_[:2])
    return f"component 1 ({first})", f"component 2 ({second})"


def _map(model: Any, names: Sequence[str], what: str) -> Exhibit:
    G = model.category_coordinates_
    cells = {Column("Category"): names, **numbered(G)}
    table = ResultTable.of("category_coordinates", cells, items="categories")
    text = f"The categories’ coordinates ({what}). {_MAP}"
    for ending, meaning in _GROUPS.items():
        if any(name.endswith(ending) for name in names):
            text += f" “{ending.strip('_')}” stands for {meaning}."
    if G.shape[1] < 2:
        return Exhibit("Map of the categories", text, [table])
    shown = np.argsort(-np.sum(G[:, :2] ** 2, axis=1), kind="stable")[:_MOST_DRAWN]
    far = names[int(shown[0])]
    picture = Picture(
        "category_map",
        "Map of the categories",
        f"{counted(len(shown), 'category', 'categories')} as points by components 1 "
        f"and 2. {far} is farthest from the centre. The numbers are in the table "
        f"below.",
        partial(
            scatter_plots.category_map,
            G[shown, :2],
            [names[int(j)] for j in shown],
            _axes(model),
        ),
        (table.name,),
    )
    return Exhibit("Map of the categories", text, [table], picture)


def _measures(model: Any, names: Sequence[str]) -> list[Exhibit]:
    mixed = len(names) > len(model.category_coordinates_)
    head = Column(
        "Column or category" if mixed else "Category", key="column_or_category"
    )
    items = "columns and categories" if mixed else "categories"
    # Over different columns FAMD has the cos² of numeric columns alone.
    known = np.isfinite(model.cos2_).all(axis=1)
    shown = {head: [n for n, there in zip(names, known, strict=True) if there]}
    contributions, cos2 = (
        ResultTable.of(
            "contributions",
            {head: names, **numbered(model.contributions_, "share")},
            items=items,
        ),
        ResultTable.of(
            "cos2", {**shown, **numbered(model.cos2_[known], "share")}, items=items
        ),
    )
    quality = (
        "How much of each category’s squared distance from the centre"
        f"{', or of a numeric column’s variance,' if mixed else ''} each component "
        f"shows."
    )
    if not known.all():
        quality = (
            "How much of each numeric column’s variance each component shows. That of "
            "categories would take their distances from the centre, which were not "
            "opened."
        )
    return [
        Exhibit(
            "Contributions",
            f"The share of each category{', or numeric column,' if mixed else ''} in "
            f"the inertia of each component; the shares of a component add up to "
            f"100 %.",
            [contributions],
        ),
        Exhibit("Quality of representation (cos²)", quality, [cos2]),
    ]
