"""Pictures and tables of MMVFL: how it settled, and which columns count."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from markupsafe import Markup

from unpooled.arrays import Array, Float
from unpooled.report.exhibit import Exhibit
from unpooled.report.exhibits import Table, left_out, number
from unpooled.report.plots.svg import ACCENT, INK, drawing, settings, short, svg
from unpooled.report.text.phrases import counted, listed

MOST = 30


def selection(model: Any, columns: Sequence[str], name: str) -> list[Exhibit]:
    """Return how the objective fell, and the weights that silos showed, if any."""
    shown = [_settling(model, f"{name}-objective")]
    weights = vars(model).get("feature_importances_")
    if weights is None:
        text = (
            "Each silo keeps the weights of its own columns. Nobody asked for them, so "
            "they are not here."
        )
        return [*shown, Exhibit("Which columns count", text, [])]
    return [*shown, _counting(weights, columns, f"{name}-columns")]


def _settling(model: Any, name: str) -> Exhibit:
    values = np.asarray(model.objective_, dtype=float)
    classes = [str(one) for one in model.classes_]
    text = (
        f"{counted(len(values), 'iteration')} towards the classes {listed(classes)}. "
        f"The objective, which the method makes small, adds how far weighted columns, "
        f"pseudo-labels and labels are apart, and what weights cost."
    )
    rows = [(f"{i + 1}", number(values[i])) for i in _some(len(values))]
    return Exhibit(
        "How the fit settled",
        text,
        [Table("", ("Iteration", "Objective"), rows)],
        _falling(
            values,
            name,
            f"A line of the objective, from {number(values[0])} after the first "
            f"iteration to {number(values[-1])} after the last.",
        ),
    )


def _some(n: int) -> list[int]:
    """Return at most six positions, the first and the last among them."""
    steps = np.unique(np.geomspace(1, n, 6).round().astype(int))
    return [int(step) - 1 for step in steps]


def _counting(weights: dict[str, Array], columns: Sequence[str], name: str) -> Exhibit:
    values = np.concatenate([np.asarray(own) for own in weights.values()])
    silos = [silo for silo, own in weights.items() for _ in own]
    order = np.argsort(-values, kind="stable")[:MOST]
    rows = [(columns[int(j)], silos[int(j)], number(float(values[j]))) for j in order]
    note = left_out(len(order), len(values), "columns", "largest")
    text = (
        "How much each column weighs towards telling the classes apart: the length of "
        "its row of weights, which the silos showed. Columns in different units cannot "
        "be compared."
    )
    picture = _bars(
        values[order],
        [columns[int(j)] for j in order],
        name,
        f"Bars of the weights of columns; the largest is {rows[0][0]} of {rows[0][1]}. "
        f"The numbers are in the table below.",
    )
    table = Table("", ("Column", "Silo", "Weight"), rows, note, words=2)
    return Exhibit("Which columns count", text, [table], picture)


@settings()
def _falling(values: Float[Array, " t"], name: str, description: str) -> Markup:
    figure, axes = drawing(height=200, left=64, right=8, top=12, bottom=42)
    axes.plot(np.arange(1, len(values) + 1), values, color=ACCENT, linewidth=1.5)
    axes.set_xlim(0.5, len(values) + 0.5)
    steep = bool(0 < 20 * values.min() < values.max())
    if steep:
        axes.set_yscale("log")
        axes.minorticks_off()
    axes.grid(axis="y", color=INK, alpha=0.13, linewidth=0.8)
    axes.set_xlabel("iteration", color=INK, labelpad=6)
    axes.set_ylabel("objective" + ", logarithmic" * steep, color=INK)
    return svg(figure, name, "Objective by iteration", description)


@settings()
def _bars(
    values: Float[Array, " p"], columns: Sequence[str], name: str, description: str
) -> Markup:
    height = 62 + 17 * len(values)
    figure, axes = drawing(height=height, left=186, right=14, top=6, bottom=46)
    place = np.arange(len(values))
    axes.barh(place, values, height=0.62, color=ACCENT)
    axes.set_ylim(len(values) - 0.4, -0.6)
    names = [short(column, 26) for column in columns]
    axes.set_yticks(place, names, parse_math=False)
    axes.grid(axis="x", color=INK, alpha=0.13, linewidth=0.8)
    axes.set_xlabel("weight", color=INK, labelpad=6)
    return svg(figure, name, "Weights of columns", description)
