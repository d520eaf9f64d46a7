"""Cross-validation over folds that the silos cut: fits and scores, in one session.

    candidate 1   fold 1 ── fit ──┐
                  ...             ├── the rounds of all folds in the same messages
                  fold 5 ── fit ──┘
    candidate 2   the same; what it asks alike was asked before
    all           fold 1 ... 5 of every candidate ── scores, in the same messages

Silos that follow run all of it as one call, so that they know the folds, the models and
the scores that are asked for.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, final

import numpy as np
from sklearn.base import clone

from unpooled.arrays import Array, Float
from unpooled.errors import DataError
from unpooled.federation.federation import Federation
from unpooled.federation.lock_step import LockStep
from unpooled.models.base import FederatedEstimator
from unpooled.models.model_selection.scoring import scorers

# The parameters of one candidate by name, as `set_params` takes them.
Candidate = Mapping[str, Any]


@final
class CrossValidation(FederatedEstimator):
    """The scores of a model on folds that it was not fitted on.

    `cross_validate` and `GridSearchCV` run it, and studies do.

    Parameters
    ----------
    estimator : estimator or Pipeline
        Of this library; clones of it are fitted.
    candidates : sequence of dict, optional
        Parameters of the estimator to try; by default those that it has.
    cv : int, default 5
        Number of folds: those of ``federation.folds(cv)``.
    scoring : str or sequence of str, optional
        Names of scores; the model's own by default.
    train_scores : bool, default False
        Whether to score the models on the rows of their fits too.
    shuffle : bool, default True
        As of `Federation.folds`.
    random_state : int, optional
        As of `Federation.folds`.

    Attributes
    ----------
    test_scores_ : dict of str to (candidates, cv) array
        By the name of the score; greater is better.
    train_scores_ : dict of str to (candidates, cv) array
        Only with `train_scores`.
    """

    is_model = False
    test_scores_: dict[str, Float[Array, "m k"]]
    train_scores_: dict[str, Float[Array, "m k"]]

    def __init__(
        self,
        estimator: Any = None,
        *,
        candidates: Sequence[Candidate] | None = None,
        cv: int = 5,
        scoring: Any = None,
        train_scores: bool = False,
        shuffle: bool = True,
        random_state: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.candidates = candidates
        self.cv = cv
        self.scoring = scoring
        self.train_scores = train_scores
        self.shuffle = shuffle
        self.random_state = random_state

    def _fit(self, federation: Federation, y: Any) -> None:
        scores = scorers(self.scoring)
        if not hasattr(self.estimator, "fit"):
            raise DataError(
                f"estimator={self.estimator!r}; give a model of unpooled, or a "
                f"scikit-learn Pipeline of such."
            )
        folds = federation.folds(
            self.cv, shuffle=self.shuffle, random_state=self.random_state
        )
        candidates = [{}] if self.candidates is None else list(self.candidates)
        # The folds of a candidate ask the same steps; candidates may not.
        rounds, models, fit_times = LockStep(federation), [], []
        for candidate in candidates:
            fits = [(train, partial(_fitted, self.estimator, candidate, y))
                    for train, _ in folds]  # fmt: skip
            began = time.perf_counter()
            models.append(rounds.run(fits))
            fit_times.append(time.perf_counter() - began)
        sides = {"test": 1, "train": 0} if self.train_scores else {"test": 1}
        asked = [
            (folds[k][side], partial(_scored, score, model, y))
            for side in sides.values()
            for score in scores.values()
            for of_candidate in models
            for k, model in enumerate(of_candidate)
        ]
        began = time.perf_counter()
        found = np.array(rounds.run(asked), dtype=float)
        # Neither is part of the result, which is the same at all ends.
        self._models, self._seconds = models, (fit_times, time.perf_counter() - began)
        shape = len(sides), len(scores), len(candidates), len(folds)
        for values, side in zip(found.reshape(shape), sides, strict=True):
            by_name = dict(zip(scores, map(np.array, values), strict=True))
            setattr(self, f"{side}_scores_", by_name)


def _fitted(estimator: Any, candidate: Candidate, y: Any, train: Federation) -> Any:
    model = clone(estimator).set_params(**candidate)
    return model.fit(train, y)


def _scored(
    score: Callable[[Any, Federation, Any], float],
    model: Any,
    y: Any,
    rows: Federation,
) -> float:
    return score(model, rows, y)


def cross_validate(
    estimator: Any,
    X: Any,
    y: Any = None,
    *,
    cv: int = 5,
    scoring: Any = None,
    return_train_score: bool = False,
    return_estimator: bool = False,
    shuffle: bool = True,
    random_state: int | None = None,
) -> dict[str, Any]:
    """Judge a model on rows that it was not fitted on, fold by fold.

    Parameters
    ----------
    estimator : estimator or Pipeline
        A model of this library, or a scikit-learn Pipeline of such; not changed.
    X : Federation
        A federation by rows, or a view of one.
    y : str or sequence of str, optional
        As for ``estimator.fit``: the name of the label, or the columns of the second
        view.
    cv : int, default 5
        Number of folds, from 2 to 20: those of ``X.folds(cv)``, which are unions of the
        blocks that each silo cuts its rows into, and stratified by the label.
    scoring : str or sequence of str, optional
        "accuracy", "balanced_accuracy", "neg_log_loss", "roc_auc", "r2" or
        "neg_root_mean_squared_error"; by default the model's own ``score``.
    return_train_score : bool, default False
        Also score each model on the rows that it was fitted on.
    return_estimator : bool, default False
        Also return the fitted models.
    shuffle : bool, default True
        Deal the blocks at random.
    random_state : int, optional
        Seed of the folds; None: as of ``X.seed``.

    Returns
    -------
    dict of str to array
        As of scikit-learn: "test_score" (cv,), or "test_<name>" for each of several
        scores; "train_score" likewise; "fit_time" and "score_time" (cv,), seconds, of
        all folds together and divided by their number; "estimator", a list.

    Raises
    ------
    DataError
        Where a score is unknown, or does not go with the model.
    ReleaseRefusedError
        Where a silo's policy refuses, such as classes with few rows in a fold.

    Notes
    -----
    Released is what each fit and each score releases, for each fold: about `cv` times
    the numbers of one fit. They count in `max_released_share`. All folds share their
    messages, so that the rounds are those of one fit and of one score. The folds are
    not the same as those of scikit-learn's own splitters.

    See Also
    --------
    sklearn.model_selection.cross_validate : its twin on rows in one place.
    """
    validation = CrossValidation(
        estimator,
        cv=cv,
        scoring=scoring,
        train_scores=return_train_score,
        shuffle=shuffle,
        random_state=random_state,
    ).fit(X, y)
    fit_times, score_time = validation._seconds
    n = len(validation.test_scores_[next(iter(validation.test_scores_))][0])
    result: dict[str, Any] = {
        "fit_time": np.full(n, fit_times[0] / n),
        "score_time": np.full(n, score_time / n),
    }
    if return_estimator:
        result["estimator"] = validation._models[0]
    for side, wanted in (("test", True), ("train", return_train_score)):
        for name, values in getattr(validation, f"{side}_scores_", {}).items():
            if wanted:
                result[f"{side}_{name}"] = values[0]
    return result
