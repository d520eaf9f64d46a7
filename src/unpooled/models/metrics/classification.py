"""Metrics of classes, predicted in the silos: confusion matrix, ROC, calibration.

    round 1   sizes of the model's classes: `classes.local_class_counts`; only where
              there are others too, names and sizes of all: `classes.local_names`
    round 2   silos <── sizes ── each silo judges them, then sends the counts of its
              rows by class and predicted class, or by class and bin of the score, or
              its sum of losses ──> added

A confusion matrix tells, of all silos together, how many people of each class were
predicted as each class; one of its cells may be one person.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import numpy as np
import scipy

from unpooled.arrays import Array, Bool, Float, Int, Shaped
from unpooled.errors import DataError
from unpooled.federation.federation import Federation
from unpooled.models.discriminant.classes import (
    NAMES,
    OPENED_SIZES,
    OWN_SIZES,
    agreed_classes,
    check_label,
    class_codes,
    class_sizes,
    class_values,
    local_class_counts,
    local_names,
    names_of,
)
from unpooled.models.metrics.predictions import measuring, predictor_of
from unpooled.models.moments import complete
from unpooled.models.parameter_checks import check_choice
from unpooled.protocol.step import public, release, stays, summed

PREDICT, PROBABILITIES = ("predict",), ("predict_proba",)
SCORES = ("predict_proba", "decision_function")
_EPS = float(np.finfo(float).eps)
# Metrics to use with more classes, named in the errors of those for two.
_WITHOUT_POSITIVE = "confusion_matrix or log_loss"
_AVERAGES = 'average="macro" or "weighted"'
_IN_BINS = "how many rows have a probability in each bin, over all silos"


@summed(
    within_silos=True,
    takes={"classes": NAMES, "count": OPENED_SIZES, "predictions": "size k"},
    confusion=release(
        "c k",
        meaning="how many rows of each class are predicted as each class "
        "(confusion matrix)",
    ),
    own=OWN_SIZES,
)
def local_confusion(
    X: Float[Array, "n 1"],
    y: Shaped[Array, " n"],
    *,
    classes: Int[Array, "c w"],
    count: Float[Array, " c"],
    predictions: int,
) -> dict[str, Any]:
    """Count this silo's rows by class and by position of the predicted class."""
    codes = class_codes(y, classes)
    cells = codes * predictions + complete(X)[:, 0].astype(np.int64)
    counts = np.bincount(cells[codes >= 0], minlength=len(classes) * predictions)
    confusion = counts.reshape(len(classes), predictions).astype(float)
    return {"confusion": confusion, "own": class_sizes(codes, classes)}


@summed(
    within_silos=True,
    takes={
        "classes": NAMES,
        "count": OPENED_SIZES,
        "column": public("c", "which column has the probability of each class"),
    },
    loss=release(
        "",
        meaning="the negative logarithm of the probability of each row's class, added",
    ),
    own=OWN_SIZES,
)
def local_log_loss(
    X: Float[Array, "n k"],
    y: Shaped[Array, " n"],
    *,
    classes: Int[Array, "c w"],
    count: Float[Array, " c"],
    column: Int[Array, " c"],
) -> dict[str, Any]:
    """Add the negative logarithms of the probabilities of this silo's rows' classes."""
    codes = class_codes(y, classes)
    known = codes >= 0
    rows = complete(X)[known]
    # As scikit-learn clips: a probability of zero would make the sum infinite.
    own = np.clip(rows[np.arange(len(rows)), column[codes[known]]], _EPS, 1 - _EPS)
    loss = np.array(-np.log(own).sum())
    return {"loss": loss, "own": class_sizes(codes, classes)}


@summed(
    takes={"classes": NAMES, "count": OPENED_SIZES, "bins": "size b"},
    binned=release(
        "c b", meaning="how many rows of each class have a probability in each bin"
    ),
    own=OWN_SIZES,
)
def local_binned(
    X: Float[Array, "n k"],
    y: Shaped[Array, " n"],
    *,
    classes: Int[Array, "c w"],
    count: Float[Array, " c"],
    bins: int,
    inclusive: bool,
    decides: bool,
    last: bool,
) -> dict[str, Any]:
    """Count this silo's rows by their class and by the bin of their probability.

    `inclusive`: a bin has its upper edge, and not its lower one. `decides`: the rows
    are values of a decision function. `last`: the class of the last column, and not of
    the first, is the positive one.
    """
    codes = class_codes(y, classes)
    bin_of = bins_of(probability(X, decides=decides, last=last), bins, inclusive)
    cells = codes * bins + bin_of
    counts = np.bincount(cells[codes >= 0], minlength=len(classes) * bins)
    binned = counts.reshape(len(classes), bins).astype(float)
    return {"binned": binned, "own": class_sizes(codes, classes)}


@summed(
    takes={"count": public("b", _IN_BINS, counts="cells")},
    # Sums between edges of other bins would subtract to those of a few people.
    settings=("bins",),
    probability=release(
        "b", meaning="the probabilities of the rows in each bin, added"
    ),
    own=stays(
        "b",
        until="fit",
        meaning="how many of the silo's rows have a probability in each bin",
        counts="cells",
    ),
)
def local_binned_sums(
    X: Float[Array, "n k"],
    *,
    count: Float[Array, " b"],
    bins: int,
    decides: bool,
    last: bool,
) -> dict[str, Any]:
    """Add the probabilities of this silo's rows, bin by bin; bins have upper edges."""
    p = probability(X, decides=decides, last=last)
    bin_of = bins_of(p, bins, inclusive=True)
    own = np.bincount(bin_of, minlength=bins).astype(float)
    return {"probability": np.bincount(bin_of, p, minlength=bins), "own": own}


def probability(
    X: Float[Array, "n k"], *, decides: bool, last: bool
) -> Float[Array, " n"]:
    """Return the probability of the positive class of each row."""
    if decides:
        return scipy.special.expit(complete(X)[:, 0] * (1.0 if last else -1.0))
    return complete(X)[:, -1 if last else 0]


def bins_of(p: Float[Array, " n"], bins: int, inclusive: bool) -> Int[Array, " n"]:
    """Return the bin of each probability, of `bins` of equal width from 0 to 1."""
    inner = np.linspace(0.0, 1.0, bins + 1)[1:-1]
    return np.searchsorted(inner, p, side="left" if inclusive else "right")


def confusion_matrix(
    y_true: Any,
    y_pred: Any,
    *,
    labels: Sequence[Any] | None = None,
    normalize: str | None = None,
) -> Float[Array, "c c"] | Int[Array, "c c"]:
    """Return how many rows of each class are predicted as each class.

    Parameters
    ----------
    y_true : str
        Name of the label.
    y_pred : Federation
        What ``model.predict(federation)`` gives.
    labels : sequence, optional
        The classes of rows and columns, in this order. None: all that stand in the
        label or are predicted, sorted.
    normalize : {"true", "pred", "all"}, optional
        Divide by the sums of rows, of columns, or of all.

    Returns
    -------
    (c, c) array
        Entry (i, j) counts rows of class i that are predicted as class j, over all
        silos.

    Raises
    ------
    DataError
        If `y_pred` is not what ``predict`` gives, `y_true` is not the label, or an
        option is unknown.
    ReleaseRefusedError
        Where a silo's policy refuses, such as a class with few rows.

    Notes
    -----
    Released, as totals only: the sizes of the model's classes among these rows and the
    number of rows of others, of which names and sizes follow where there are any; and
    the matrix. A silo sends it only if every class has `min_rows_per_class` rows in all
    silos together. An entry may count a single person: whoever knows all other people
    of a class learns how the remaining one was predicted.

    See Also
    --------
    sklearn.metrics.confusion_matrix : its twin on rows in one place.

    References
    ----------
    Fawcett, An introduction to ROC analysis, Pattern Recognition Letters 27 (2006),
    section 2.
    """
    check_normalize(normalize)
    given = None if labels is None else np.asarray(labels).tolist()
    arguments = {"labels": given, "normalize": normalize}
    found = _counted("confusion_matrix", y_true, y_pred, arguments)
    return found.of(given).shares(normalize)


def accuracy_score(y_true: Any, y_pred: Any, *, normalize: bool = True) -> float:
    """Return the share of rows whose class is predicted rightly.

    Parameters
    ----------
    y_true : str
        Name of the label.
    y_pred : Federation
        What ``model.predict(federation)`` gives.
    normalize : bool, default True
        False: the number of these rows.

    Returns
    -------
    float
        Between 0 and 1; a number of rows with ``normalize=False``.

    Raises
    ------
    DataError
        If `y_pred` is not what ``predict`` gives, `y_true` is not the label, or an
        option is unknown.
    ReleaseRefusedError
        Where a silo's policy refuses, such as a class with few rows.

    Notes
    -----
    Released is what `confusion_matrix` releases.

    See Also
    --------
    sklearn.metrics.accuracy_score : its twin on rows in one place.

    References
    ----------
    Sokolova and Lapalme, A systematic analysis of performance measures for
    classification tasks, Information Processing & Management 45 (2009), tables 2 and 3.
    """
    arguments = {"normalize": bool(normalize)}
    found = _counted("accuracy_score", y_true, y_pred, arguments)
    return found.accuracy if normalize else float(found.counts.trace())


def balanced_accuracy_score(
    y_true: Any, y_pred: Any, *, adjusted: bool = False
) -> float:
    """Return the mean over the classes of the share that is predicted rightly.

    Parameters
    ----------
    y_true : str
        Name of the label.
    y_pred : Federation
        What ``model.predict(federation)`` gives.
    adjusted : bool, default False
        Shift and scale it, so that chance gives 0 and no error gives 1.

    Returns
    -------
    float
        Between 0 and 1; with `adjusted` at most 1, and 0 means chance.

    Raises
    ------
    DataError
        If `y_pred` is not what ``predict`` gives, `y_true` is not the label, or an
        option is unknown.
    ReleaseRefusedError
        Where a silo's policy refuses, such as a class with few rows.

    Notes
    -----
    Released is what `confusion_matrix` releases.

    See Also
    --------
    sklearn.metrics.balanced_accuracy_score : its twin on rows in one place.

    References
    ----------
    Brodersen, Ong, Stephan and Buhmann, The balanced accuracy and its posterior
    distribution, ICPR 2010.
    """
    arguments = {"adjusted": bool(adjusted)}
    found = _counted("balanced_accuracy_score", y_true, y_pred, arguments)
    score, n_classes = found.balanced_accuracy, len(found.recalls)
    if adjusted and n_classes > 1:
        chance = 1.0 / n_classes
        score = (score - chance) / (1.0 - chance)
    return score


def matthews_corrcoef(y_true: Any, y_pred: Any) -> float:
    """Return Matthews' correlation coefficient of true and predicted classes.

    Parameters
    ----------
    y_true : str
        Name of the label.
    y_pred : Federation
        What ``model.predict(federation)`` gives.

    Returns
    -------
    float
        Between -1 and 1; 0 where all rows are, or are predicted, of one class.

    Raises
    ------
    DataError
        If `y_pred` is not what ``predict`` gives, `y_true` is not the label, or an
        option is unknown.
    ReleaseRefusedError
        Where a silo's policy refuses, such as a class with few rows.

    Notes
    -----
    Released is what `confusion_matrix` releases.

    See Also
    --------
    sklearn.metrics.matthews_corrcoef : its twin on rows in one place.

    References
    ----------
    Matthews, Comparison of the predicted and observed secondary structure of T4 phage
    lysozyme, Biochimica et Biophysica Acta 405 (1975).

    Gorodkin, Comparing two K-category assignments by a K-category correlation
    coefficient, Computational Biology and Chemistry 28 (2004): of several classes.
    """
    return _of_counts("matthews_corrcoef", y_true, y_pred)


def precision_score(
    y_true: Any,
    y_pred: Any,
    *,
    labels: Sequence[Any] | None = None,
    pos_label: Any = None,
    average: str | None = "binary",
    zero_division: float = 0.0,
) -> float | Float[Array, " l"]:
    """Return, of the rows that are predicted as a class, the share that is of it.

    Parameters
    ----------
    y_true : str
        Name of the label.
    y_pred : Federation
        What ``model.predict(federation)`` gives.
    labels : sequence, optional
        The classes that count, in this order, unless `average` is "binary". None: all
        that stand in the label or are predicted, sorted.
    pos_label : class, optional
        The class of which the share is given where `average` is "binary"; the second
        of the model's two by default.
    average : {"binary", "macro", "weighted", "micro"} or None
        "macro": the mean over the classes; "weighted": weighted by their sizes;
        "micro": of the rows of all classes together; None: each.
    zero_division : float, default 0
        Value for a class that no row is predicted as.

    Returns
    -------
    float, or (l,) array with ``average=None``

    Raises
    ------
    DataError
        Where `average` is "binary" and the model has more than two classes, `pos_label`
        is no class of the model, or an option is unknown.
    ReleaseRefusedError
        Where a silo's policy refuses, such as a class with few rows.

    Notes
    -----
    Released is what `confusion_matrix` releases.

    See Also
    --------
    sklearn.metrics.precision_score : its twin on rows in one place.

    References
    ----------
    Sokolova and Lapalme, A systematic analysis of performance measures for
    classification tasks, Information Processing & Management 45 (2009), tables 2 and 3.
    """
    options = {"labels": labels, "average": average, "zero_division": zero_division}
    return _of_classes("precision_score", y_true, y_pred, pos_label, **options)


def recall_score(
    y_true: Any,
    y_pred: Any,
    *,
    labels: Sequence[Any] | None = None,
    pos_label: Any = None,
    average: str | None = "binary",
    zero_division: float = 0.0,
) -> float | Float[Array, " l"]:
    """Return, of the rows of a class, the share that is predicted as it (sensitivity).

    Parameters
    ----------
    y_true, y_pred, labels, pos_label, average
        As of `precision_score`. Of two classes, the specificity is the recall of the
        other one.
    zero_division : float, default 0
        Value for a class that has no row.

    Returns
    -------
    float, or (l,) array with ``average=None``

    Raises
    ------
    DataError
        Where `average` is "binary" and the model has more than two classes, `pos_label`
        is no class of the model, or an option is unknown.
    ReleaseRefusedError
        Where a silo's policy refuses, such as a class with few rows.

    Notes
    -----
    Released is what `confusion_matrix` releases.

    See Also
    --------
    sklearn.metrics.recall_score : its twin on rows in one place.

    References
    ----------
    Sokolova and Lapalme, A systematic analysis of performance measures for
    classification tasks, Information Processing & Management 45 (2009), tables 2 and 3.
    """
    options = {"labels": labels, "average": average, "zero_division": zero_division}
    return _of_classes("recall_score", y_true, y_pred, pos_label, **options)


def f1_score(
    y_true: Any,
    y_pred: Any,
    *,
    labels: Sequence[Any] | None = None,
    pos_label: Any = None,
    average: str | None = "binary",
    zero_division: float = 0.0,
) -> float | Float[Array, " l"]:
    """Return the harmonic mean of precision and recall of a class.

    Parameters
    ----------
    y_true, y_pred, labels, pos_label, average
        As of `precision_score`.
    zero_division : float, default 0
        Value for a class that has no row and is not predicted.

    Returns
    -------
    float, or (l,) array with ``average=None``

    Raises
    ------
    DataError
        Where `average` is "binary" and the model has more than two classes, `pos_label`
        is no class of the model, or an option is unknown.
    ReleaseRefusedError
        Where a silo's policy refuses, such as a class with few rows.

    Notes
    -----
    Released is what `confusion_matrix` releases.

    See Also
    --------
    sklearn.metrics.f1_score : its twin on rows in one place.

    References
    ----------
    Sokolova and Lapalme, A systematic analysis of performance measures for
    classification tasks, Information Processing & Management 45 (2009), tables 2 and 3.
    """
    options = {"labels": labels, "average": average, "zero_division": zero_division}
    return _of_classes("f1_score", y_true, y_pred, pos_label, **options)


def log_loss(y_true: Any, y_pred: Any, *, normalize: bool = True) -> float:
    """Return the mean negative logarithm of the probability of each row's class.

    Parameters
    ----------
    y_true : str
        Name of the label.
    y_pred : Federation
        What ``model.predict_proba(federation)`` gives.
    normalize : bool, default True
        False: the sum over the rows.

    Returns
    -------
    float
        In nats (natural logarithms), per row unless ``normalize=False``.

    Raises
    ------
    DataError
        Where rows are of a class that the model was not fitted with.

    Notes
    -----
    Released, as totals only: the sizes of the classes among these rows, and the sum of
    the losses.

    See Also
    --------
    sklearn.metrics.log_loss : its twin on rows in one place.

    References
    ----------
    Good, Rational decisions, Journal of the Royal Statistical Society B 14 (1952).
    """
    arguments = {"y_true": y_true, "normalize": bool(normalize)}
    with measuring("log_loss", y_pred, PROBABILITIES, arguments) as by:
        names, count = _true_classes(y_true, y_pred)
        fitted = names_of(by.model.classes_.tolist()).tolist()
        _check_known(names, fitted)
        column = np.array([fitted.index(words) for words in names.tolist()])
        totals = y_pred.sum(local_log_loss, classes=names, count=count, column=column)
    loss = float(totals["loss"])
    return loss / float(count.sum()) if normalize else loss


@final
class RocCurve(NamedTuple):
    """A receiver operating characteristic from binned counts.

    It unpacks as scikit-learn's result: ``fpr, tpr, thresholds = roc_curve(...)``.

    Attributes
    ----------
    fpr, tpr : (t,) arrays
        Shares of the other class, and of the positive class, whose score is at least
        the threshold. These points lie on the curve of the rows.
    thresholds : (t,) array
        Edges of the bins, descending; the first is infinite.
    """

    fpr: Float[Array, " t"]
    tpr: Float[Array, " t"]
    thresholds: Float[Array, " t"]

    @property
    def auc(self) -> float:
        """The area under the straight lines between the points."""
        return float(np.trapezoid(self.tpr, self.fpr))

    @property
    def auc_error(self) -> float:
        """The most by which the area under the rows' own curve can differ from `auc`.

        Within a bin the order of rows is not known: the curve may take any way up and
        right through the rectangle of its two points, of which the straight line cuts
        off half.
        """
        return float(0.5 * np.sum(np.diff(self.fpr) * np.diff(self.tpr)))


@final
class BinnedScore(float):
    """A number that was computed from binned counts.

    Attributes
    ----------
    error : float
        The most by which the exact number can differ from this one.
    """

    error: float

    def __new__(cls, value: float, error: float) -> "BinnedScore":
        """Return the number with its bound."""
        made = super().__new__(cls, value)
        made.error = error
        return made


def roc_curve(
    y_true: Any, y_score: Any, *, pos_label: Any = None, n_bins: int = 50
) -> RocCurve:
    """Return the receiver operating characteristic of two classes, from binned counts.

    Parameters
    ----------
    y_true : str
        Name of the label, of two classes.
    y_score : Federation
        What ``model.predict_proba(federation)`` or
        ``model.decision_function(federation)`` gives.
    pos_label : class, optional
        The positive class; the second by default.
    n_bins : int, default 50
        Number of bins of equal width, of the probability of the positive class, from 2
        to 1000.

    Returns
    -------
    RocCurve
        ``fpr, tpr, thresholds``, and the properties `auc` and `auc_error`.

    Raises
    ------
    DataError
        Where the model has more than two classes or the rows have one, where
        `pos_label` is no class of the model, or `n_bins` no number from 2 to 1000.
    ReleaseRefusedError
        Where a silo's policy refuses, such as a class with few rows.

    Notes
    -----
    The points are exact: they are points of the curve that scikit-learn computes from
    the rows. Between them the curve is not known; the area differs from that of the
    rows by at most half the sum over the bins of the product of the shares that the two
    classes have in the bin (`RocCurve.auc_error`).

    Released, as totals only: the sizes of the classes among these rows, and how many
    rows of each class are in each bin. A bin may have a single person of all silos: the
    fewer bins, the fewer such. Of predictions with silos' own intercepts
    (`site_effects`) the bins would tell these, and silos refuse (`within_silos`).

    See Also
    --------
    sklearn.metrics.roc_curve : its twin on rows in one place.

    References
    ----------
    Fawcett, An introduction to ROC analysis, Pattern Recognition Letters 27 (2006),
    algorithm 1.
    """
    return _roc("roc_curve", y_true, y_score, pos_label, n_bins)


def roc_auc_score(
    y_true: Any, y_score: Any, *, pos_label: Any = None, n_bins: int = 50
) -> BinnedScore:
    """Return the area under the receiver operating characteristic, from binned counts.

    Parameters
    ----------
    y_true, y_score, pos_label, n_bins
        As of `roc_curve`.

    Returns
    -------
    BinnedScore
        A float with the attribute `error`: the exact area differs by no more.

    Raises
    ------
    DataError
        Where the model has more than two classes or the rows have one, where
        `pos_label` is no class of the model, or `n_bins` no number from 2 to 1000.
    ReleaseRefusedError
        Where a silo's policy refuses, such as a class with few rows.

    Notes
    -----
    Released is what `roc_curve` releases.

    See Also
    --------
    sklearn.metrics.roc_auc_score : its twin on rows in one place.

    References
    ----------
    Fawcett, An introduction to ROC analysis, Pattern Recognition Letters 27 (2006),
    algorithm 2.
    """
    curve = _roc("roc_auc_score", y_true, y_score, pos_label, n_bins)
    return BinnedScore(curve.auc, curve.auc_error)


def calibration_curve(
    y_true: Any,
    y_prob: Any,
    *,
    pos_label: Any = None,
    n_bins: int = 5,
    strategy: str = "uniform",
) -> tuple[Float[Array, " b"], Float[Array, " b"]]:
    """Return shares of the positive class, and mean probabilities of it, by bin.

    Parameters
    ----------
    y_true : str
        Name of the label, of two classes.
    y_prob : Federation
        What ``model.predict_proba(federation)`` gives.
    pos_label : class, optional
        The positive class; the second by default.
    n_bins : int, default 5
        Number of bins of equal width from 0 to 1, from 2 to 1000.
    strategy : {"uniform"}
        Bins of equal numbers of rows ("quantile") are not possible: nobody knows the
        quantiles.

    Returns
    -------
    prob_true, prob_pred : (b,) arrays
        Shares and mean probabilities of the bins that have rows, in ascending order.

    Raises
    ------
    DataError
        Where the model has more than two classes, `strategy` is another, where
        `pos_label` is no class of the model, or `n_bins` no number from 2 to 1000.
    ReleaseRefusedError
        Where a silo's policy refuses, such as a class with few rows.

    Notes
    -----
    Released, as totals only: the sizes of the classes among these rows; how many rows
    of each class are in each bin; the sum of the probabilities in each bin. A silo
    sends the sums only if every bin has `min_rows` rows in all silos together, and
    either none or `min_own_cells` in the silo itself, or none at all; and only for one
    number of bins about a column, over all studies (`one_setting`): a single person may
    stand between an edge of five bins and one of six.

    See Also
    --------
    sklearn.calibration.calibration_curve : its twin on rows in one place.

    References
    ----------
    DeGroot and Fienberg, The comparison and evaluation of forecasters, The Statistician
    32 (1983).
    """
    if strategy != "uniform":
        raise DataError(
            f'strategy={strategy!r}; choose "uniform": quantiles of probabilities are '
            f"numbers of single people."
        )
    with _measuring_two_classes(
        "calibration_curve", y_true, y_prob, PROBABILITIES, pos_label, n_bins
    ) as (positive, last):
        binned, own = _binned(y_true, y_prob, positive, last, n_bins, inclusive=True)
        count = binned.sum(axis=0)
        totals = y_prob.sum(
            local_binned_sums, count=count, bins=n_bins, decides=False, last=last
        )
    some = count > 0
    mean = totals["probability"][some] / count[some]
    return binned[own].sum(axis=0)[some] / count[some], mean


@final
@dataclass(frozen=True, eq=False)
class Confusion:
    """How many rows of each class are predicted as each class.

    Attributes
    ----------
    values : list
        The c classes, of the label or predicted, sorted.
    counts : (c, c) array
        Entry (i, j) counts rows of class i that are predicted as class j.
    """

    values: Sequence[Any]
    counts: Int[Array, "c c"]

    def of(self, labels: Sequence[Any] | None) -> "Confusion":
        """Return the matrix of some classes in this order, or of those that occur."""
        known = list(self.values)
        if labels is None:
            occurs = (self.counts.sum(axis=0) + self.counts.sum(axis=1)) > 0
            labels = [
                value for value, there in zip(known, occurs, strict=True) if there
            ]
        elif not set(labels) & set(known):
            raise DataError(f"No row is of the classes {list(labels)}.")
        chosen = np.zeros((len(labels), len(labels)), dtype=np.int64)
        for i, true in enumerate(labels):
            for j, predicted in enumerate(labels):
                if true in known and predicted in known:
                    place = known.index(true), known.index(predicted)
                    chosen[i, j] = self.counts[place]
        return Confusion(list(labels), chosen)

    def shares(self, normalize: str | None) -> Float[Array, "c c"] | Int[Array, "c c"]:
        """Return the counts, divided as scikit-learn's `normalize` says."""
        if normalize is None:
            return self.counts
        axis = {"true": 1, "pred": 0, "all": None}[normalize]
        sums = self.counts.sum(axis=axis, keepdims=True)
        zeros = np.zeros(self.counts.shape)
        return np.divide(self.counts, sums, out=zeros, where=sums > 0)

    @property
    def accuracy(self) -> float:
        """The share of rows whose class is predicted rightly."""
        return float(self.counts.trace()) / float(self.counts.sum())

    @property
    def recalls(self) -> Float[Array, " l"]:
        """The share that is predicted rightly of each class that has rows."""
        sizes = self.counts.sum(axis=1)
        return self.counts.diagonal()[sizes > 0] / sizes[sizes > 0]

    @property
    def balanced_accuracy(self) -> float:
        """The mean of `recalls`."""
        return float(np.mean(self.recalls))

    @property
    def largest_share(self) -> float:
        """The share of the largest class: the accuracy of always naming it."""
        return float(self.counts.sum(axis=1).max()) / float(self.counts.sum())


def added_confusions(several: Sequence[Confusion]) -> Confusion:
    """Return the counts of several sets of rows, such as all folds, added."""
    values = sorted({value for one in several for value in one.values})
    counts = np.zeros((len(values), len(values)), dtype=np.int64)
    for one in several:
        at = [values.index(value) for value in one.values]
        counts[np.ix_(at, at)] += one.counts
    return Confusion(values, counts)


def confusion(y_true: Any, y_pred: Any) -> Confusion:
    """Return the totals that `confusion_matrix` opens, with the classes' names."""
    nothing = {"labels": None, "normalize": None}
    return _counted("confusion_matrix", y_true, y_pred, nothing)


def check_normalize(normalize: Any) -> None:
    """Check a parameter `normalize` of confusion matrices."""
    check_choice("normalize", normalize, (None, "true", "pred", "all"))


def _of_counts(metric: str, y_true: Any, y_pred: Any, **options: Any) -> Any:
    """Return scikit-learn's metric of the confusion matrix's cells, with weights."""
    # Not with the module, which every fit imports: they take 0.06 s.
    import sklearn.metrics

    found = _counted(metric, y_true, y_pred, options)
    true, predicted = np.nonzero(found.counts)
    values, weights = np.array(found.values), found.counts[true, predicted]
    score = getattr(sklearn.metrics, metric)(
        values[true], values[predicted], sample_weight=weights, **options
    )
    return score if np.ndim(score) else float(score)


def _of_classes(
    metric: str,
    y_true: Any,
    y_pred: Any,
    pos_label: Any,
    *,
    labels: Sequence[Any] | None,
    average: str | None,
    zero_division: float,
) -> Any:
    """Return a metric of one class or several, after checks of its options."""
    check_choice("average", average, ("binary", "macro", "weighted", "micro", None))
    options: dict[str, Any] = {
        "average": average,
        "zero_division": float(zero_division),
        "labels": None if labels is None else np.asarray(labels).tolist(),
    }
    if average == "binary":
        options["labels"] = None
        options["pos_label"] = _positive(metric, y_pred, PREDICT, pos_label, _AVERAGES)
    return _of_counts(metric, y_true, y_pred, **options)


def _counted(
    metric: str, y_true: Any, y_pred: Any, arguments: Mapping[str, Any]
) -> Confusion:
    """Return the confusion matrix for a metric; two rounds."""
    asked = {"y_true": y_true, **arguments}
    with measuring(metric, y_pred, PREDICT, asked) as by:
        names, count = _true_classes(y_true, y_pred)
        fitted = names_of(by.model.classes_.tolist())
        totals = y_pred.sum(
            local_confusion, classes=names, count=count, predictions=len(fitted)
        )
    every = names_of([*class_values(names).tolist(), *class_values(fitted).tolist()])
    position = {tuple(words): k for k, words in enumerate(every.tolist())}
    counts = np.zeros((len(every), len(every)), dtype=np.int64)
    rows = [position[tuple(words)] for words in names.tolist()]
    columns = [position[tuple(words)] for words in fitted.tolist()]
    counts[np.ix_(rows, columns)] = np.rint(totals["confusion"]).astype(np.int64)
    return Confusion(class_values(every).tolist(), counts)


def _true_classes(
    y_true: Any, predictions: Federation
) -> tuple[Int[Array, "c w"], Float[Array, " c"]]:
    """Return the names of the label's classes, and their sizes; one round.

    Where rows are of classes that the model does not know, one more.
    """
    check_label(predictions, y_true)
    by = predictions.predicted_by
    assert by is not None, "the metric has checked it"
    fitted = names_of(by.model.classes_.tolist())
    totals = predictions.sum(local_class_counts, classes=fitted)
    if round(float(totals["others"])) and not predictions.coordinator.planned:
        return agreed_classes(predictions, local_names, None, len(fitted), least=1)
    return fitted, np.rint(totals["count"])


def _roc(
    metric: str, y_true: Any, y_score: Any, pos_label: Any, n_bins: int
) -> RocCurve:
    with _measuring_two_classes(metric, y_true, y_score, SCORES, pos_label, n_bins) as (
        positive,
        last,
    ):
        binned, own = _binned(y_true, y_score, positive, last, n_bins, inclusive=False)
    # From the highest scores down.
    right, wrong = binned[own][:, ::-1].sum(axis=0), binned[~own][:, ::-1].sum(axis=0)
    if not (right.sum() and wrong.sum()):
        raise DataError("These rows are of one class only: there is no ROC curve.")
    edges = np.linspace(0.0, 1.0, n_bins + 1)[:-1][::-1]
    if y_score.predicted_by.method == "decision_function":
        with np.errstate(divide="ignore"):
            edges = scipy.special.logit(edges)
    return RocCurve(
        fpr=np.concatenate([[0.0], wrong.cumsum() / wrong.sum()]),
        tpr=np.concatenate([[0.0], right.cumsum() / right.sum()]),
        thresholds=np.concatenate([[math.inf], edges]),
    )


def _binned(
    y_true: Any,
    scores: Federation,
    positive: Any,
    last: bool,
    n_bins: int,
    *,
    inclusive: bool,
) -> tuple[Float[Array, "c b"], Bool[Array, " c"]]:
    """Return counts by class and bin, and which class is positive; two rounds."""
    by = scores.predicted_by
    assert by is not None, "the metric has checked it"
    names, count = _true_classes(y_true, scores)
    _check_known(names, names_of(by.model.classes_.tolist()).tolist())
    totals = scores.sum(
        local_binned,
        classes=names,
        count=count,
        bins=n_bins,
        inclusive=inclusive,
        decides=by.method == "decision_function",
        last=last,
    )
    own = np.array([value == positive for value in class_values(names).tolist()])
    return np.rint(totals["binned"]), own


@contextmanager
def _measuring_two_classes(
    metric: str,
    y_true: Any,
    y_score: Any,
    methods: Sequence[str],
    pos_label: Any,
    n_bins: Any,
) -> Iterator[tuple[Any, bool]]:
    """Hold the session of a metric of two classes, as `measuring` does.

    Yields
    ------
    positive : class
        The positive one.
    last : bool
        Whether it is the second of the two.
    """
    if type(n_bins) is not int or not 2 <= n_bins <= 1000:
        raise DataError(f"n_bins={n_bins!r}; choose a whole number from 2 to 1000.")
    positive = _positive(metric, y_score, methods, pos_label, _WITHOUT_POSITIVE)
    arguments = {"y_true": y_true, "pos_label": positive, "n_bins": n_bins}
    with measuring(metric, y_score, methods, arguments) as by:
        yield positive, positive == by.model.classes_.tolist()[1]


def _positive(
    metric: str, y_pred: Any, methods: Sequence[str], pos_label: Any, instead: str
) -> Any:
    """Return the positive class of a model of two.

    Before a metric's call begins: silos would refuse one that has no such class.
    """
    classes = predictor_of(metric, y_pred, methods).model.classes_.tolist()
    if len(classes) != 2:
        raise DataError(
            f"{metric} is of two classes, and the model has {len(classes)}: "
            f"{', '.join(map(str, classes))}. See {instead}."
        )
    positive = classes[1] if pos_label is None else pos_label
    if positive not in classes:
        raise DataError(f"pos_label={pos_label!r} is none of the classes {classes}.")
    return positive.item() if isinstance(positive, np.generic) else positive


def _check_known(names: Int[Array, "c w"], fitted: Sequence[Sequence[int]]) -> None:
    unknown = [words for words in names.tolist() if words not in fitted]
    if unknown:
        values = class_values(np.array(unknown)).tolist()
        raise DataError(
            f"Rows are of the classes {values}, which the model was not fitted with: "
            f"it gives them no probability."
        )
