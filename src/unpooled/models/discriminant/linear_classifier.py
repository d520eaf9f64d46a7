"""Classes from linear functions of a row: the same for all models that have them."""

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.special
from sklearn.base import ClassifierMixin

from unpooled.arrays import Array, Float, Shaped
from unpooled.errors import DataError
from unpooled.models.parameter_checks import check_choice


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
        X = self._check_rows(X)
        if not hasattr(self, "coef_"):
            raise DataError("One-shot solvers find directions, and no classes of rows.")
        scores = X @ self.coef_.T + self.intercept_
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


def class_priors(given: Any, count: Float[Array, " c"]) -> Float[Array, " c"]:
    """Return the probabilities of the classes: as given, or their shares of rows."""
    if given is None:
        return count / count.sum()
    priors = np.asarray(given, dtype=float)
    if priors.shape != count.shape or not (priors > 0).all():
        raise DataError(
            f"priors={given!r} must be {len(count)} positive numbers, one by class."
        )
    if abs(priors.sum() - 1.0) > 1e-5:
        warnings.warn("The priors do not sum to 1. Renormalizing", stacklevel=5)
        priors = priors / priors.sum()
    return priors


ILL_POSED = (
    "{p} columns, but {N} rows in {c} classes: the within-class covariance is "
    "singular, and directions that separate the classes perfectly are arbitrary. "
    "Choose a shrinkage, 0.1 for instance, or leave columns out with select."
)


def check_options(model: Any, solvers: Sequence[str]) -> None:
    """Refuse what a discriminant analysis cannot be asked for."""
    check_choice("solver", model.solver, solvers)
    s: Any = model.shrinkage
    number = isinstance(s, int | float | np.number) and not isinstance(s, bool)
    if not (s in (None, "auto") or (number and 0 <= s <= 1)):
        raise DataError(f'shrinkage={s!r}; choose None, "auto" or a number in [0, 1].')
    if model.scores not in (None, "coordinator"):
        raise DataError(f'scores={model.scores!r}; choose None or "coordinator".')
    k = model.n_components
    if k is not None and not (isinstance(k, int | np.integer) and k >= 1):
        raise DataError(f"n_components={k!r}; choose a whole number of at least 1.")


def direction_count(k: int | None, p: int, c: int) -> int:
    """Return how many directions there are, or are wanted."""
    most = min(c - 1, p)
    if k is not None and k > most:
        raise DataError(
            f"n_components={k} cannot be larger than "
            f"min(n_features, n_classes - 1)={most}."
        )
    return most if k is None else int(k)
