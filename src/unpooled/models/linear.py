"""Classes from linear functions of a row: the same for all models that have them."""

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.special
from sklearn.base import ClassifierMixin

from unpooled.arrays import Array, Float, Shaped


class LinearClassifier(ClassifierMixin):
    """What an estimator says of rows: classes from ``X @ coef_.T + intercept_``.

    Attributes
    ----------
    classes_ : (c,) array
        Names of the classes, sorted.
    means_ : (c, p) array
        Their means.
    priors_ : (c,) array
        Their probabilities.
    coef_, intercept_ : (c, p) and (c,) arrays
        Of one function for each class; with two classes (1, p) and (1,), of the second
        less the first.
    """

    classes_: Shaped[Array, " c"]
    means_: Float[Array, "c p"]
    priors_: Float[Array, " c"]
    coef_: Float[Array, "q p"]
    intercept_: Float[Array, " q"]
    _check_rows: Callable[[Any], Float[Array, "n p"]]

    def _decide(self, coef: Float[Array, "c p"]) -> None:
        """Set the decision functions from ``means_ @ inverse(covariance_)``."""
        intercept = -0.5 * np.sum(self.means_ * coef, axis=1) + np.log(self.priors_)
        if len(coef) == 2:
            coef, intercept = coef[1:] - coef[:1], intercept[1:] - intercept[:1]
        self.coef_, self.intercept_ = coef, intercept

    def decision_function(self, X: Any) -> Float[Array, "..."]:
        """Return each row's score for each class; with two, for the second alone.

        Parameters
        ----------
        X : (n, p) array-like
            Rows.
        """
        scores = self._check_rows(X) @ self.coef_.T + self.intercept_
        return scores[:, 0] if len(self.classes_) == 2 else scores

    def predict(self, X: Any) -> Shaped[Array, " n"]:
        """Return each row's most probable class.

        Parameters
        ----------
        X : (n, p) array-like
            Rows.
        """
        scores = self.decision_function(X)
        best = scores.argmax(axis=1) if scores.ndim == 2 else (scores > 0).astype(int)
        return self.classes_[best]

    def predict_proba(self, X: Any) -> Float[Array, "n c"]:
        """Return the probability of each class for each row.

        Parameters
        ----------
        X : (n, p) array-like
            Rows.
        """
        scores = self.decision_function(X)
        if scores.ndim == 2:
            return scipy.special.softmax(scores, axis=1)
        second = scipy.special.expit(scores)
        return np.column_stack([1 - second, second])

    def predict_log_proba(self, X: Any) -> Float[Array, "n c"]:
        """Return logarithms of `predict_proba`.

        Parameters
        ----------
        X : (n, p) array-like
            Rows.
        """
        return np.log(np.maximum(self.predict_proba(X), np.finfo(float).tiny))
