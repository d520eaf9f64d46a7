"""Results of MMVFL: how the objective converged, and the weights of columns."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from unpooled.arrays import Array
from unpooled.results.exhibits import MOST_ROWS, Column, Exhibit, Picture, Table
from unpooled.results.formats import counted, listed, number
from unpooled.results.plots import charts

if TYPE_CHECKING:
    from unpooled.models.mmvfl.mmvfl import MMVFL


def mmvfl_exhibits(model: "MMVFL", columns: Sequence[str]) -> list[Exhibit]:
    """Return the exhibits of a fitted MMVFL."""
    if not {"objective_", "classes_"} <= set(vars(model)):
        return []
    exhibits = [_convergence(model)]
    weights = vars(model).get("feature_importances_")
    return exhibits if weights is None else [*exhibits, _weights(weights, columns)]


def _convergence(model: "MMVFL") -> Exhibit:
    values = np.asarray(model.objective_, dtype=float)
    classes = [str(name) for name in model.classes_]
    text = (
        f"{counted(len(values), 'iteration')}, for the classes {listed(classes)}. The "
        f"objective, which the method minimises, is the sum of the squared distances "
        f"between weighted columns, pseudo-labels and labels, and of a penalty on the "
        f"weights."
    )
    picture = Picture(
        "objective",
        "Objective by iteration",
        f"A line of the objective, from {number(values[0])} after the first iteration "
        f"to {number(values[-1])} after the last.",
        partial(charts.objective, values),
        ("objective",),
    )
    rows = [(f"{step}", value) for step, value in enumerate(values, start=1)]
    heads = (Column("Iteration"), Column("Objective", "number"))
    table = Table("objective", heads, rows, items="iterations")
    # Pages show at most six iterations, the first and the last among them.
    steps = np.unique(np.geomspace(1, len(values), 6).round().astype(int)) - 1
    return Exhibit("Convergence", text, table.excerpt(rows=steps.tolist()), picture)


def _weights(weights: dict[str, Array], columns: Sequence[str]) -> Exhibit:
    values = np.concatenate([np.asarray(of_silo) for of_silo in weights.values()])
    silos = [silo for silo, of_silo in weights.items() for _ in of_silo]
    order = np.argsort(-values, kind="stable")
    rows = [(columns[int(j)], silos[int(j)], values[j]) for j in order]
    order = order[:MOST_ROWS]
    text = (
        "How much each column contributes to telling the classes apart: the Euclidean "
        "norm of its row of weights, which the silos disclosed. Weights of columns in "
        "different units cannot be compared."
    )
    names = [columns[int(j)] for j in order]
    picture = Picture(
        "feature_importances",
        "Weights of columns",
        f"Bars of the weights of columns; the largest is {rows[0][0]} of {rows[0][1]}. "
        f"The numbers are in the table below.",
        partial(charts.weights, values[order], names),
        ("feature_importances",),
    )
    table = Table(
        "feature_importances",
        (Column("Column"), Column("Silo"), Column("Weight", "number", bar=True)),
        rows,
        items="columns",
        which="largest",
    )
    return Exhibit("Weights of columns", text, [table], picture)
