"""Classifiers whose decision functions are linear: predictions of rows, in the silos.

decision    X coef' + intercept, one for each class; of two classes, of the second
probability softmax of the decisions, or the logistic function of the one
class       the most probable
"""

from typing import Any

import numpy as np
import scipy
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from unpooled.arrays import Array, Float, Int, Shaped
from unpooled.errors import DataError
from unpooled.federation.federation import Federation
from unpooled.models.base import FederatedEstimator
from unpooled.models.metrics.classification import accuracy_score
from unpooled.models.metrics.predictions import predicted
from unpooled.protocol.step import Step, derived, public

_COEF = public("k p", "the coefficients of the decision functions (weights of columns)")
_INTERCEPT = public("k", "the constants of the decision functions")


@derived(within_silos=True, takes={"coef": _COEF, "intercept": _INTERCEPT})
def decided(
    X: Float[Array, "n p"], *, coef: Float[Array, "k p"], intercept: Float[Array, " k"]
) -> Float[Array, "n k"]:
    """Return the decision functions of rows."""
    return X @ coef.T + intercept


@derived(takes={"coef": _COEF, "intercept": _INTERCEPT})
def probable(
    X: Float[Array, "n p"], *, coef: Float[Array, "k p"], intercept: Float[Array, " k"]
) -> Float[Array, "n c"]:
    """Return the probability of each class for each row."""
    return probabilities(X @ coef.T + intercept)


@derived(takes={"coef": _COEF, "intercept": _INTERCEPT})
def classified(
    X: Float[Array, "n p"], *, coef: Float[Array, "k p"], intercept: Float[Array, " k"]
) -> Float[Array, "n 1"]:
    """Return the position of each row's most probable class."""
    return best_classes(X @ coef.T + intercept)


def probabilities(scores: Float[Array, "n k"]) -> Float[Array, "n c"]:
    """Return the probabilities of classes from their decision functions."""
    if scores.shape[1] > 1:
        return scipy.special.softmax(scores, axis=1)
    second = scipy.special.expit(scores[:, 0])
    return np.column_stack([1 - second, second])


def positions(scores: Float[Array, "n k"]) -> Int[Array, " n"]:
    """Return the position of the most probable class."""
    if scores.shape[1] > 1:
        return scores.argmax(axis=1)
    return (scores[:, 0] > 0).astype(np.int64)


def best_classes(scores: Float[Array, "n k"]) -> Float[Array, "n 1"]:
    """Return `positions`; NaN for a row with a missing cell, which metrics refuse."""
    best = positions(scores)[:, None].astype(float)
    return np.where(np.isnan(scores).any(axis=1, keepdims=True), np.nan, best)


linear_steps = (decided, probable, classified)


class LinearClassifier(ClassifierMixin, FederatedEstimator):
    """A classifier with linear decision functions; the estimators find them.

    Attributes
    ----------
    classes_ : (c,) array
        Names of the classes, sorted.
    coef_ : (c, p) array
        Coefficients of the decision functions; with two classes (1, p).
    intercept_ : (c,) array
        Their constants; (1,) with two classes.
    """

    classes_: Shaped[Array, " c"]
    coef_: Float[Array, "q p"]
    intercept_: Float[Array, " q"]

    _scored_by = ("accuracy", "balanced_accuracy", "roc_auc")

    def decision_function(self, X: Any) -> Any:
        """Return each row's score for each class; with two, for the second alone.

        Parameters
        ----------
        X : (n, p) array-like or Federation
            Rows. A federation gives a view of the scores, for `unpooled.metrics`;
            nothing leaves a silo.
        """
        if isinstance(X, Federation):
            return self._predicted("decision_function", X, decided, self._outputs())
        scores = self._scores(X)
        return scores[:, 0] if len(self.classes_) == 2 else scores

    def predict(self, X: Any) -> Any:
        """Return each row's most probable class.

        Parameters
        ----------
        X : (n, p) array-like or Federation
            Rows. A federation gives a view of the positions of these classes in
            `classes_`, for `unpooled.metrics`; nothing leaves a silo.
        """
        if isinstance(X, Federation):
            return self._predicted("predict", X, classified, ["predicted class"])
        return self.classes_[positions(self._scores(X))]

    def predict_proba(self, X: Any) -> Any:
        """Return the probability of each class for each row.

        Parameters
        ----------
        X : (n, p) array-like or Federation
            Rows. A federation gives a view of the probabilities, for
            `unpooled.metrics`; nothing leaves a silo.
        """
        if isinstance(X, Federation):
            names = [f"probability of {value}" for value in self.classes_.tolist()]
            return self._predicted("predict_proba", X, probable, names)
        return probabilities(self._scores(X))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the share of rows whose class is predicted rightly.

        Parameters
        ----------
        X : (n, p) array-like or Federation
            Rows.
        y : (n,) array-like, or str
            Their classes; with a federation, the name of the label.
        sample_weight : (n,) array-like, optional
            Weights of the rows of an array; a federation has none.

        Notes
        -----
        On a federation it releases what `unpooled.metrics.confusion_matrix` releases.
        """
        if not isinstance(X, Federation):
            return super().score(X, y, sample_weight)
        if sample_weight is not None:
            raise DataError("The rows of a federation have no weights.")
        return accuracy_score(y, self.predict(X))

    def _scores(self, X: Any) -> Float[Array, "n k"]:
        """Return the decision functions of the rows of an array."""
        X = self._check_rows(X)
        self._outputs()
        return X @ self.coef_.T + self.intercept_

    def _outputs(self) -> list[str]:
        """Return names of the decision functions."""
        check_is_fitted(self)
        return [f"decision{k}" for k in range(len(self.coef_))]

    def _predicted(
        self, method: str, X: Federation, step: Step, names: list[str]
    ) -> Federation:
        self._outputs()
        view = self._check_view(X)
        arguments = {"coef": self.coef_, "intercept": self.intercept_}
        return predicted(self, method, view, step, names, arguments)

    def predict_log_proba(self, X: Any) -> Float[Array, "n c"]:
        """Return logarithms of `predict_proba`.

        Parameters
        ----------
        X : (n, p) array-like
            Rows.
        """
        return np.log(np.maximum(self.predict_proba(X), np.finfo(float).tiny))
