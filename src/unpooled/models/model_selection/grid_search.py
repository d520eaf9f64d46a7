"""A search for the parameters of a model that score best in cross-validation."""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, final

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin
from sklearn.metrics import get_scorer
from sklearn.model_selection import ParameterGrid
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from unpooled.arrays import Array, Float
from unpooled.errors import DataError
from unpooled.federation.federation import Federation
from unpooled.models.base import check_federation
from unpooled.models.model_selection.cross_validation import (
    CrossValidation,
    with_parameters,
)
from unpooled.models.model_selection.scoring import LIKELIHOOD, OWN, scorers


def _delegates(name: str) -> Any:
    """Make a method be there where the model that is searched has it."""

    def there(search: Any) -> bool:
        model = getattr(search, "best_estimator_", search.estimator)
        return hasattr(model, name)

    return available_if(there)


@final
@dataclass(eq=False, repr=False)
class GridSearchCV(MetaEstimatorMixin, BaseEstimator):
    """Search over all combinations of parameters, judged by cross-validation.

    Parameters
    ----------
    estimator : estimator or Pipeline
        A model of this library, or a scikit-learn Pipeline of such.
    param_grid : dict of str to sequence, or sequence of such
        Values to try by parameter; ``"step__parameter"`` of a Pipeline.
    scoring : str or sequence of str, optional
        As of `unpooled.cross_validate`.
    refit : bool or str, default True
        Whether to fit the best parameters on all rows; the name of the score that
        decides, where there are several.
    cv : int, default 5
        Number of folds, as of `unpooled.cross_validate`.
    return_train_score : bool, default False
        Also score each model on the rows that it was fitted on.
    shuffle : bool, default True
        As of `Federation.folds`.
    random_state : int, optional
        As of `Federation.folds`.

    Attributes
    ----------
    cv_results_ : dict of str to array
        As of scikit-learn: "params", "param_<name>", "split0_test_score" ...,
        "mean_test_score", "std_test_score", "rank_test_score", the same of train scores
        and of each of several scores, and times in seconds.
    best_estimator_ : estimator
        Fitted on all rows; only with `refit`.
    best_score_ : float
        Mean over the folds of the best candidate's score.
    best_params_ : dict
        Its parameters.
    best_index_ : int
        Its place among the candidates.
    scorer_ : list of str
        Names of the scores.
    n_splits_ : int
        Number of folds.
    multimetric_ : bool
        Whether several scores were asked for.

    Raises
    ------
    DataError
        Where a parameter or score is unknown, `refit` names no score, or no candidate
        is given.
    ReleaseRefusedError
        Where a silo's policy refuses, such as classes with few rows in a fold.

    Notes
    -----
    Released is what the fits and scores of each fold release for each candidate, and
    with `refit` what the last fit does. Totals that candidates need alike are opened
    once: a search over `shrinkage` or `n_components` costs the fits of one candidate.

    See Also
    --------
    sklearn.model_selection.GridSearchCV : its twin on rows in one place.

    References
    ----------
    Hastie, Tibshirani and Friedman, The Elements of Statistical Learning, 2nd edition
    (2009), section 7.10.
    """

    cv_results_: dict[str, Any] = field(init=False)
    best_estimator_: Any = field(init=False)
    best_score_: float = field(init=False)
    best_params_: dict[str, Any] = field(init=False)
    best_index_: int = field(init=False)

    estimator: Any
    param_grid: Mapping[str, Any] | Sequence[Mapping[str, Any]]
    _: KW_ONLY
    scoring: Any = None
    refit: bool | str = True
    cv: int = 5
    return_train_score: bool = False
    shuffle: bool = True
    random_state: int | None = None

    def fit(self, X: Any, y: Any = None) -> "GridSearchCV":
        """Score every candidate, and fit the best one on all rows.

        Parameters
        ----------
        X : Federation
            A federation by rows, or a view of one.
        y : str or sequence of str, optional
            As for ``estimator.fit``.

        Returns
        -------
        self

        Raises
        ------
        DataError
            When the grid has no candidates, or parameters that the estimator lacks.
        ReleaseRefusedError
            When a silo's rules refuse a step.
        """
        names = list(scorers(self.scoring))
        decides = self._deciding(names)
        try:
            candidates = list(ParameterGrid(self.param_grid))
        except (TypeError, ValueError) as wrong:
            raise DataError(f"param_grid: {wrong}") from wrong
        check_federation(self, X)
        _check_candidates(self.estimator, candidates)
        validation = CrossValidation(
            self.estimator,
            candidates=candidates,
            cv=self.cv,
            scoring=self.scoring,
            train_scores=self.return_train_score,
            shuffle=self.shuffle,
            random_state=self.random_state,
        ).fit(X, y)
        self.cv_results_ = _results(validation, candidates)
        self.scorer_, self.multimetric_ = names, names != [OWN]
        self.n_splits_ = next(iter(validation.test_scores_.values())).shape[1]
        if decides is not None:
            self.best_index_ = int(self.cv_results_[f"rank_test_{decides}"].argmin())
            mean = self.cv_results_[f"mean_test_{decides}"]
            self.best_score_ = float(mean[self.best_index_])
            self.best_params_ = candidates[self.best_index_]
        if self.refit:
            best = with_parameters(self.estimator, self.best_params_)
            self.best_estimator_ = best.fit(X, *([] if y is None else [y]))
        return self

    def _deciding(self, names: Sequence[str]) -> str | None:
        """Return the name of the score that decides; None where none does."""
        if isinstance(self.refit, str):
            if self.refit not in names:
                raise DataError(
                    f"refit={self.refit!r} is none of the scores {', '.join(names)}."
                )
            return self.refit
        if len(names) == 1:
            return names[0]
        if self.refit:
            raise DataError(
                f"Several scores: name the one that decides, refit={names[0]!r}."
            )
        return None

    @property
    def classes_(self) -> Any:
        """Names of the classes of the best model."""
        return self._best().classes_

    def _best(self) -> Any:
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_

    @_delegates("predict")
    def predict(self, X: Any) -> Any:
        """Return the best model's predictions."""
        return self._best().predict(X)

    @_delegates("predict_proba")
    def predict_proba(self, X: Any) -> Any:
        """Return the best model's probabilities of classes."""
        return self._best().predict_proba(X)

    @_delegates("decision_function")
    def decision_function(self, X: Any) -> Any:
        """Return the best model's decision functions."""
        return self._best().decision_function(X)

    @_delegates("transform")
    def transform(self, X: Any) -> Any:
        """Return rows as the best model transforms them."""
        return self._best().transform(X)

    def score(self, X: Any, y: Any = None) -> float:
        """Return the best model's score, by the one that decided.

        Parameters
        ----------
        X : Federation or (n, p) array-like
            New rows; arrays are scored by scikit-learn's score of that name.
        y : str, sequence of str or (n,) array-like
            As of the model's `score`.
        """
        best = self._best()
        by_name = scorers(self.scoring)
        decides = str(self._deciding(list(by_name)))
        if isinstance(X, Federation):
            return by_name[decides](best, X, y)
        name = self.scoring if decides == OWN else decides
        if name is None or name == LIKELIHOOD:
            return best.score(X) if y is None else best.score(X, y)
        return float(get_scorer(name)(best, X, y))


def _check_candidates(estimator: Any, candidates: Sequence[Mapping[str, Any]]) -> None:
    for candidate in candidates:
        try:
            with_parameters(estimator, candidate)
        except ValueError as unknown:
            raise DataError(f"param_grid: {unknown}") from unknown


def _results(
    validation: CrossValidation, candidates: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Return the scores as scikit-learn's `cv_results_` has them."""
    fit_times, score_time = validation._seconds
    m, n = len(candidates), next(iter(validation.test_scores_.values())).shape[1]
    results: dict[str, Any] = {
        "mean_fit_time": np.array(fit_times) / n,
        "std_fit_time": np.zeros(m),
        "mean_score_time": np.full(m, score_time / (m * n)),
        "std_score_time": np.zeros(m),
    }
    for name in sorted({name for candidate in candidates for name in candidate}):
        values = np.ma.MaskedArray(np.empty(m, dtype=object), mask=True)
        for place, candidate in enumerate(candidates):
            if name in candidate:
                values[place] = candidate[name]
        results[f"param_{name}"] = values
    results["params"] = list(candidates)
    for side in ("test", "train"):
        for name, scores in getattr(validation, f"{side}_scores_", {}).items():
            results |= _of_score(f"{side}_{name}", scores, ranks=side == "test")
    return results


def _of_score(
    name: str, scores: Float[Array, "m k"], *, ranks: bool
) -> dict[str, Array]:
    results = {f"split{k}_{name}": scores[:, k] for k in range(scores.shape[1])}
    mean = scores.mean(axis=1)
    results |= {f"mean_{name}": mean, f"std_{name}": scores.std(axis=1)}
    if ranks:
        # Equal means share the smallest rank.
        better = (mean[None, :] > mean[:, None]).sum(axis=1)
        results[f"rank_{name}"] = (better + 1).astype(np.int32)
    return results
