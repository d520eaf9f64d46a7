"""Results of MMVFL: how well it classifies, which columns count, how it converged."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from unpooled.arrays import Array
from unpooled.results.exhibits import MOST_ROWS, Column, Exhibit, Picture, ResultTable
from unpooled.results.fitted_attributes import by_column, ordinals
from unpooled.results.formats import counted, listed, number, per_cent
from unpooled.results.plots import charts

if TYPE_CHECKING:
    from unpooled.models.mmvfl.mmvfl import MMVFL


def mmvfl_exhibits(model: "MMVFL", columns: Sequence[str]) -> list[Exhibit]:
    """Return the exhibits of a fitted MMVFL."""
    if not {"objective_", "classes_"} <= set(vars(model)):
        return []
    exhibits = []
    if "class_hits_" in vars(model):
        exhibits.append(_accuracy(model))
    elif "class_count_" in vars(model):
        exhibits.append(_classes(model))
    weights = vars(model).get("feature_importances_")
    if weights is not None:
        exhibits.append(_weights(weights, columns))
    if "selected_features_" in vars(model):
        exhibits.append(_selected(model, columns))
    return [*exhibits, _convergence(model)]


def _accuracy(model: "MMVFL") -> Exhibit:
    count, hits = model.class_count_, model.class_hits_
    accuracy, most = hits.sum() / count.sum(), count.max() / count.sum()
    recall = hits / np.maximum(count, 1)
    balanced = float(recall[count > 0].mean())
    largest = str(model.classes_[int(count.argmax())])
    text = (
        f"Of {counted(int(count.sum()), 'person', 'people')}, "
        f"{per_cent(accuracy)} are classified correctly. Always naming the "
        f"largest class, {largest}, would be right for {per_cent(most)}. "
    )
    if accuracy <= most:
        text += "The model is no better than that. "
    text += (
        f"Balanced accuracy is the mean over the classes of the share that is "
        f"classified correctly; chance would give {per_cent(1 / len(count))}. "
        f"These are the rows that were fitted; new rows are classified less well."
    )
    measures = ResultTable(
        "accuracy",
        (Column("Measure"), Column("Share", "share", bar=True)),
        [
            ("Accuracy", accuracy),
            ("Balanced accuracy", balanced),
            ("Share of the largest class", most),
        ],
    )
    classes = ResultTable.of(
        "accuracy_by_class",
        {
            Column("Class"): list(map(str, model.classes_)),
            Column("People", "count"): count,
            Column("Classified correctly", "count"): hits,
            Column("Share", "share", bar=True): recall,
        },
        items="classes",
    )
    return Exhibit("Classification of the fitted rows", text, [measures, classes])


def _classes(model: "MMVFL") -> Exhibit:
    count = model.class_count_
    share = count / count.sum()
    largest = str(model.classes_[int(count.argmax())])
    text = (
        f"The classes of {counted(int(count.sum()), 'person', 'people')}. Always "
        f"naming the largest, {largest}, would be right for {per_cent(share.max())}: "
        f"an accuracy is compared with that."
    )
    table = ResultTable.of(
        "classes",
        {
            Column("Class"): list(map(str, model.classes_)),
            Column("People", "count"): count,
            Column("Share", "share", bar=True): share,
        },
        items="classes",
    )
    return Exhibit("Classes", text, [table])


def _convergence(model: "MMVFL") -> Exhibit:
    values = np.asarray(model.objective_, dtype=float)
    classes = [str(name) for name in model.classes_]
    text = (
        f"{counted(len(values), 'iteration')}, for the classes {listed(classes)}. The "
        f"objective, which the method minimises, is the sum of the squared distances "
        f"between weighted columns, pseudo-labels and labels, and of a penalty on the "
        f"weights."
    )
    if model.tol > 0 and not model._has_converged():
        text += (
            f" In the last iteration it still fell by more than tol = {model.tol:g} of "
            f"it: with a larger max_iter weights may change."
        )
    picture = Picture(
        "objective",
        "Objective by iteration",
        f"A line of the objective, from {number(values[0])} after the first iteration "
        f"to {number(values[-1])} after the last.",
        partial(charts.objective, values),
        ("objective",),
    )
    steps, objective = Column("Iteration"), Column("Objective", "number")
    cells = {steps: ordinals(len(values)), objective: values}
    table = ResultTable.of("objective", cells, items="iterations")
    # Pages show at most six iterations, the first and the last among them.
    steps = np.unique(np.geomspace(1, len(values), 6).round().astype(int)) - 1
    return Exhibit("Convergence", text, table.excerpt(rows=steps.tolist()), picture)


def _weights(weights: dict[str, Array], columns: Sequence[str]) -> Exhibit:
    values = np.concatenate([np.asarray(of_silo) for of_silo in weights.values()])
    silos = np.repeat(list(weights), [len(of_silo) for of_silo in weights.values()])
    ranks = np.concatenate([_ranks(np.asarray(one)) for one in weights.values()])
    sizes = np.concatenate([np.full(len(one), len(one)) for one in weights.values()])
    order = np.argsort(-values, kind="stable")
    names, values, ranks = [columns[int(j)] for j in order], values[order], ranks[order]
    text = (
        "How much each column contributes to telling the classes apart: the Euclidean "
        "norm of its row of weights, which the silos disclosed. Weights of columns in "
        "different units cannot be compared. A selection takes a share of each silo’s "
        "columns, those with the largest weights: a column is among them where the "
        "share is above that of the last column of the table."
    )
    picture = Picture(
        "feature_importances",
        "Weights of columns",
        f"Bars of the weights of columns; the largest is {names[0]} of "
        f"{silos[order[0]]}. The numbers are in the table below.",
        partial(charts.weights, values[:MOST_ROWS], names[:MOST_ROWS]),
        ("feature_importances",),
    )
    table = by_column(
        "feature_importances",
        names,
        {
            Column("Silo"): silos[order],
            Column("Weight", "number", bar=True): values,
            Column("Rank in its silo", "count", "rank_in_silo"): ranks,
            Column("Selected above", "share"): (ranks - 1) / sizes[order],
        },
        which="largest",
    )
    return Exhibit("Weights of columns", text, [table], picture)


def _ranks(values: Array) -> Array:
    """Return each column's rank, 1 for the largest weight; of equal ones the first."""
    ranks = np.empty(len(values), np.int64)
    ranks[np.argsort(-values, kind="stable")] = np.arange(1, len(values) + 1)
    return ranks


def _selected(model: "MMVFL", columns: Sequence[str]) -> Exhibit:
    names, silos = model.selected_features_, model.selected_silos_
    text = (
        f"Of {counted(len(columns), 'column')}, {len(names):,} were selected "
        f"({per_cent(len(names) / len(columns))}): of each silo those with the largest "
        f"weights, which the silos named."
    )
    table = by_column("selected_features", list(names), {Column("Silo"): silos})
    return Exhibit("Selected columns", text, [table])
