"""Results of an evaluation: scores on new rows, and what they were computed from."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from unpooled.arrays import Array, Float
from unpooled.models.metrics.classification import Confusion
from unpooled.models.model_selection.cross_validation import FILLED_WITHIN_FOLDS
from unpooled.models.model_selection.jackknife_results import jackknife_exhibits
from unpooled.models.model_selection.scoring import parted
from unpooled.results.exhibits import MOST_ROWS, Column, Exhibit, Picture, ResultTable
from unpooled.results.formats import listed, number, per_cent
from unpooled.results.plots.confusion_plots import confusion_matrix

if TYPE_CHECKING:
    from unpooled.study.evaluation import Evaluation

_NEGATED = "neg_"
# What each score is, for people who have not met its name.
_MEANINGS: Mapping[str, str] = {
    "accuracy": "accuracy is the share of rows whose class is predicted correctly",
    "balanced_accuracy": "balanced accuracy is the mean of that share over the classes",
    "matthews_corrcoef": "matthews_corrcoef is the correlation between true and "
    "predicted classes",
    "precision": "precision is the share that is of the class {0}, of the rows that "
    "are predicted as it",
    "recall": "recall is the share of the class {0} that is predicted correctly "
    "(sensitivity, where it is the class to be found, and specificity of the other)",
    "f1": "f1 is the harmonic mean of precision and recall of the class {0}",
    "roc_auc": "roc_auc is the area under the receiver operating characteristic (AUC): "
    "the share of pairs of rows, one of each class, whose probabilities are in the "
    "right order",
    "log_loss": "log_loss is the mean of the negative logarithm of the probability "
    "that a row’s own class was given",
    "r2": "r2 (R²) is the share of a response’s variance that is predicted",
    "mean_squared_error": "mean_squared_error is in the squared units of a response",
    "root_mean_squared_error": "root_mean_squared_error (RMSE) is in a response’s "
    "units, as the last step reads it",
    "log_likelihood": "log_likelihood is the mean logarithm of the rows’ density under "
    "the model",
}


def evaluation_exhibits(judged: "Evaluation") -> list[Exhibit]:
    """Return the exhibits of an evaluation."""
    exhibits = [_scores(judged)] if judged.cv else []
    if judged.classes:
        counts = np.array(judged.confusion_matrix, dtype=np.int64)
        balanced = judged.scores.get("balanced_accuracy")
        of_folds = None if balanced is None else float(np.mean(balanced))
        exhibits.append(_confusion(Confusion(judged.classes, counts), of_folds))
    if judged.responses:
        exhibits.append(_responses(judged))
    if judged.jackknife is not None:
        exhibits += jackknife_exhibits(judged.jackknife)
    return exhibits


def _shown(name: str) -> tuple[str, int]:
    """Return the name of a score without the sign that makes greater values better."""
    return (name[len(_NEGATED) :], -1) if name.startswith(_NEGATED) else (name, 1)


def _meaning(name: str, classes: Sequence[Any]) -> str:
    """Return the explanation of a score, and the class that it is about."""
    score, of_class = parted(name)
    second = str(classes[1]) if len(classes) > 1 else "second"
    text = _MEANINGS.get(score, "").format(repr(of_class or second))
    return text.replace(score, name, 1) if of_class else text


def _scores(judged: "Evaluation") -> Exhibit:
    """Return each score's mean, standard deviation and folds.

    The standard deviation has the denominator cv, as in scikit-learn's results.
    """
    rows, names, errors = [], [], []
    for given, values in judged.scores.items():
        name, sign = _shown(given)
        own = sign * np.asarray(values)
        rows.append((name, own.mean(), own.std(), *own))
        names.append(name)
        errors += [name] * (sign < 0)
    notes = ["SD: standard deviation over the folds (denominator: their number)."]
    if errors:
        notes.append(f"Of {listed(errors)} smaller is better.")
    if len(errors) < len(names):
        of = listed([name for name in names if name not in errors])
        notes.append(f"Of {of} greater is better.")
    for name, bounds in judged.score_errors.items():
        notes.append(
            f"{name} is computed from counts in bins: that of the rows of a fold "
            f"differs by {number(max(bounds))} at most."
        )
    folds = [Column(f"Fold {k + 1}", "number") for k in range(judged.cv)]
    table = ResultTable(
        "scores",
        [Column("Score"), Column("Mean", "number"), Column("SD", "number"), *folds],
        rows,
        note=" ".join(notes),
    )
    before = judged.on_all_rows
    text = (
        f"{f'The steps behind {listed(before)}' if before else 'All steps'} were "
        f"fitted {judged.cv} times, each time without one fold of the rows, and judged "
        f"on that fold."
    )
    if before:
        text += (
            f" {listed(before)} {'was' if len(before) == 1 else 'were'} fitted on all "
            f"rows, those of the fold among them: a silo fills cells from others for "
            f"all rows alike, as in part of them few may lack the same cells."
        )
    meant = [_meaning(name, judged.classes) for name in names]
    meant = [text for text in meant if text]
    if meant:
        text += f" There, {listed(meant)}."
    if len(next(iter(judged.responses.values()), ())) > 1:
        text += " Scores are means over the responses, whose units may differ."
    if judged.fills:
        text += f" {FILLED_WITHIN_FOLDS}"
    return Exhibit("Scores on new rows", text, [table])


def _confusion(found: Confusion, of_folds: float | None) -> Exhibit:
    """Return the predictions of all folds together, by class.

    Parameters
    ----------
    of_folds : float or None
        The mean of the folds’ balanced accuracies, where it is among the scores.
    """
    names, counts = [str(value) for value in found.values], found.counts
    sizes = counts.sum(axis=1)
    largest = names[int(sizes.argmax())]
    right = int(counts.trace())
    recalls = np.divide(counts.diagonal(), sizes, out=np.full(len(names), np.nan),
                        where=sizes > 0)  # fmt: skip
    measures = ResultTable(
        "pooled_scores",
        (Column("Of all folds together", key="quantity"), Column("Share", "share")),
        [
            ("Accuracy", found.accuracy),
            ("Balanced accuracy", found.balanced_accuracy),
            (f"Share of the largest class, {largest}", found.largest_share),
        ],
    )
    cells = {Column("Class"): names}
    for name, predicted in zip(names, counts.T, strict=True):
        cells[Column(f"Predicted {name}", "count", f"predicted_{name}")] = predicted
    cells |= {
        Column("Rows", "count"): sizes,
        Column("Predicted correctly", "share"): recalls,
    }
    table = ResultTable.of("confusion_matrix", cells, items="classes")
    text = (
        f"Every row was predicted once, by the model that was not fitted on it. Of "
        f"{int(sizes.sum()):,} rows {right:,} were predicted correctly: an accuracy of "
        f"{per_cent(found.accuracy)}. Always naming the largest class, {largest}, "
        f"would be right for {per_cent(found.largest_share)}. The balanced accuracy, "
        f"the mean over the classes of the share that is predicted correctly, is "
        f"{per_cent(found.balanced_accuracy)}; chance would give "
        f"{per_cent(1 / len(found.recalls))}. The confusion matrix has a row for each "
        f"class and a column for each predicted class; the more of its class a cell "
        f"has, the stronger is its colour."
    )
    if of_folds is not None and abs(of_folds - found.balanced_accuracy) >= 0.0005:
        text += (
            f" The mean of the folds’ balanced accuracies is {per_cent(of_folds)}: "
            f"classes have other shares in each fold, and a fold leaves out a class of "
            f"which it has no row."
        )
    if len(names) > MOST_ROWS:
        return Exhibit("Predictions of new rows", text, [measures, table])
    picture = Picture(
        "confusion_matrix",
        "Confusion matrix",
        f"Cells of numbers of rows by class and predicted class, in stronger "
        f"colours where the share of the class is larger; {right:,} are on the "
        f"diagonal. The numbers are in the table below.",
        partial(confusion_matrix, counts, found.shares("true"), names),
        (table.name,),
    )
    return Exhibit("Predictions of new rows", text, [measures, table], picture)


def _responses(judged: "Evaluation") -> Exhibit:
    """Return the means over the folds of each response's scores."""
    cells: dict[Column, Any] = {
        Column("Response"): list(next(iter(judged.responses.values())))
    }
    titles = {
        "r2": "R²",
        "mean_squared_error": "MSE",
        "root_mean_squared_error": "RMSE",
    }
    for given, of_responses in judged.responses.items():
        name, sign = _shown(given)
        values: Float[Array, "q k"] = sign * np.array(list(of_responses.values()))
        key = titles[name].lower().replace("²", "2")
        mean = Column(titles[name], "number", key, bar=name == "r2")
        cells[mean] = values.mean(axis=1)
        cells[Column(f"SD of {titles[name]}", "number", f"{key}_sd")] = values.std(
            axis=1
        )
    table = ResultTable.of(
        "responses",
        cells,
        note="Means and standard deviations over the folds (denominator: their "
        "number).",
        items="responses",
    )
    text = (
        "Each response on rows that the model was not fitted on: R² is the share of "
        "its variance that is predicted, RMSE the root of the mean squared error "
        "(MSE), in its units as the last step reads it. R² is below 0 where the mean "
        "would predict better."
    )
    return Exhibit("Predictions of new rows", text, [table])
