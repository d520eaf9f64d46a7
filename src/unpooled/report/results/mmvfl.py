"""Results of MMVFL: how the objective converged, and the weights of columns."""

from collections.abc import Sequence
from functools import partial

import numpy as np

from unpooled.arrays import Array
from unpooled.models.mmvfl.mmvfl import MMVFL
from unpooled.report.exhibits import Exhibit, Picture, Table
from unpooled.report.plots import charts
from unpooled.report.results.describe import MOST_ROWS, describe, fitted_attributes
from unpooled.report.text.phrases import counted, left_out, listed, number


@describe.register
def _selection(model: MMVFL, columns: Sequence[str]) -> list[Exhibit]:
    if not {"objective_", "classes_"} <= set(vars(model)):
        return fitted_attributes(model, columns)
    exhibits = [_convergence(model)]
    weights = vars(model).get("feature_importances_")
    if weights is None:
        text = (
            "Each silo keeps the weights of its own columns. They were not requested "
            "from the silos, so they are not in this report."
        )
        return [*exhibits, Exhibit("Weights of columns", text)]
    return [*exhibits, _weights(weights, columns)]


def _convergence(model: MMVFL) -> Exhibit:
    values = np.asarray(model.objective_, dtype=float)
    classes = [str(name) for name in model.classes_]
    text = (
        f"{counted(len(values), 'iteration')}, for the classes {listed(classes)}. The "
        f"objective, which the method minimises, is the sum of the squared distances "
        f"between weighted columns, pseudo-labels and labels, and of a penalty on the "
        f"weights."
    )
    # At most six iterations, the first and the last among them.
    steps = np.unique(np.geomspace(1, len(values), 6).round().astype(int))
    rows = [(f"{step}", number(float(values[step - 1]))) for step in steps.tolist()]
    picture = Picture(
        "Objective by iteration",
        f"A line of the objective, from {number(values[0])} after the first iteration "
        f"to {number(values[-1])} after the last.",
        partial(charts.objective, values),
    )
    table = Table("", ("Iteration", "Objective"), rows)
    return Exhibit("Convergence", text, [table], picture)


def _weights(weights: dict[str, Array], columns: Sequence[str]) -> Exhibit:
    values = np.concatenate([np.asarray(of_silo) for of_silo in weights.values()])
    silos = [silo for silo, of_silo in weights.items() for _ in of_silo]
    order = np.argsort(-values, kind="stable")[:MOST_ROWS]
    rows = [(columns[int(j)], silos[int(j)], number(float(values[j]))) for j in order]
    note = left_out(len(order), len(values), "columns", "largest")
    text = (
        "How much each column contributes to telling the classes apart: the Euclidean "
        "norm of its row of weights, which the silos disclosed. Weights of columns in "
        "different units cannot be compared."
    )
    names = [columns[int(j)] for j in order]
    picture = Picture(
        "Weights of columns",
        f"Bars of the weights of columns; the largest is {rows[0][0]} of {rows[0][1]}. "
        f"The numbers are in the table below.",
        partial(charts.weights, values[order], names),
    )
    table = Table("", ("Column", "Silo", "Weight"), rows, note, words=2)
    return Exhibit("Weights of columns", text, [table], picture)
