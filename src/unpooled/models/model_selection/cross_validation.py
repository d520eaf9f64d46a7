"""Cross-validation over folds that the silos cut: fits and scores, in one session.

    candidate 1   all rows ── fit    only of a regression that is searched for:
                  fold 1 ── fit ──┐  its folds begin there
                  ...             ├── the rounds of all folds in the same messages
                  fold 5 ── fit ──┘
    candidate 2   the same; what it asks alike was asked before
    all           fold 1 ... 5 of every candidate ── scores, in the same messages

A jackknife is made of such fits too: of all rows, and without each of some blocks. They
share the messages of the first candidate's.

Silos that follow run all of it as one call, so that they know the folds, the models and
the scores that are asked for.
"""

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from typing import Any, final

import numpy as np
from sklearn.base import clone

from unpooled.arrays import Array, Float, Int, Shaped
from unpooled.errors import DataError
from unpooled.federation.federation import Federation
from unpooled.federation.lock_step import LockStep
from unpooled.models.base import FederatedEstimator
from unpooled.models.metrics.classification import (
    BinnedScore,
    added_confusions,
    confusion,
)
from unpooled.models.model_selection.jackknife import (
    ALIGNMENTS,
    Jackknife,
    jackknife_of,
    replicated,
)
from unpooled.models.model_selection.scoring import (
    CLASS_SCORERS,
    COLUMN_SCORERS,
    check_scores,
    last_step,
    parted,
    scorers,
    suited_scorers,
)
from unpooled.models.preprocessing.column_transformer import ColumnTransformer
from unpooled.models.preprocessing.imputer import SimpleImputer
from unpooled.results.formats import listed

# The parameters of one candidate by name, as `set_params` takes them.
Candidate = Mapping[str, Any]

# A silo fills few missing cells as the first time (`unpooled.party.rules`), which is no
# mean of this fold's training part.
FILLED_WITHIN_FOLDS = (
    "SimpleImputer is fitted within the folds. Of a column that lacks few cells in a "
    "silo, these get the value of the first fit and not the fold’s: scores may differ "
    "from those of pooled rows, from the third digit on. They are equal where all rows "
    "are filled before the folds."
)


@final
@dataclass(eq=False, repr=False)
class CrossValidation(FederatedEstimator):
    """The scores of a model on folds that it was not fitted on.

    `cross_validate`, `GridSearchCV` and `jackknife` run it, and studies do.

    Parameters
    ----------
    estimator : estimator or Pipeline
        An estimator of this library; clones of it are fitted.
    candidates : sequence of dict, optional
        Parameters of the estimator to try; by default those that it has.
    cv : int, default 5
        Number of folds: those of ``federation.folds(cv)``. With `n_blocks` it may be 0,
        for no scores.
    scoring : str or sequence of str, optional
        Names of scores; the model's own by default.
    train_scores : bool, default False
        Whether to score the models on the rows of their fits too.
    shuffle : bool, default True
        As of `Federation.folds`.
    random_state : int, optional
        As of `Federation.folds`.
    details : bool, default False
        For studies. Without `scoring`, take all scores that suit the model in place of
        its own; and keep what the scores were computed from, for which nothing else is
        opened.
    n_blocks : int, default 0
        Number of blocks of a delete-one-block jackknife of the estimator as it is:
        those of ``federation.folds(n_blocks, shuffle=False)``. 0 for none.

    Attributes
    ----------
    test_scores_ : dict of str to (candidates, cv) array
        By the name of the score; greater is better.
    train_scores_ : dict of str to (candidates, cv) array
        Only with `train_scores`.
    score_errors_ : dict of str to (cv,) array
        Only with `details`, as those that follow are, and of the first candidate. Of
        scores that are computed from binned counts: the most by which the rows' own
        score can differ.
    classes_ : (c,) array
        The classes of `confusion_`; only where accuracies are scored.
    confusion_ : (c, c) array
        Entry (i, j) counts rows of class i that a model that was not fitted on them
        predicts as class j: the confusion matrices of all folds, added.
    response_scores_ : dict of str to (cv, q) array
        "r2" and "neg_root_mean_squared_error" of each predicted column, where they are
        scored.
    """

    is_model = False
    _partitions = ("rows", "columns")
    test_scores_: dict[str, Float[Array, "m k"]] = field(init=False)
    train_scores_: dict[str, Float[Array, "m k"]] = field(init=False)
    score_errors_: dict[str, Float[Array, " k"]] = field(init=False)
    confusion_: Int[Array, "c c"] = field(init=False)
    classes_: Shaped[Array, " c"] = field(init=False)
    response_scores_: dict[str, Float[Array, "k q"]] = field(init=False)

    estimator: Any = None
    _: KW_ONLY
    candidates: Sequence[Candidate] | None = None
    cv: int = 5
    scoring: Any = None
    train_scores: bool = False
    shuffle: bool = True
    random_state: int | None = None
    details: bool = False
    n_blocks: int = 0

    def _fit(self, federation: Federation, y: Any) -> None:
        scores = scorers(self.scoring)
        if not hasattr(self.estimator, "fit"):
            raise DataError(
                f"estimator={self.estimator!r}; give a model of unpooled, or a "
                f"scikit-learn Pipeline of such."
            )
        estimator, by_columns = self.estimator, federation.partition == "columns"
        if by_columns:
            self._check_columns()
            estimator = _without_robust_errors(estimator)
        candidates = [{}] if self.candidates is None else list(self.candidates)
        folds = []
        if self.cv or not self.n_blocks:
            for candidate in candidates:
                check_scores(with_parameters(estimator, candidate), self.scoring)
            folds = federation.folds(
                self.cv, shuffle=self.shuffle, random_state=self.random_state
            )
        blocks = []
        if self.n_blocks:
            blocks = federation.folds(self.n_blocks, shuffle=False)
        if federation.coordinator.planned:
            if fills_within_folds(self.estimator):
                federation.coordinator.notes.append(FILLED_WITHIN_FOLDS)
            # The same number for all candidates: they share the totals of the classes.
            federation.coordinator.n_classes = max(
                _n_planned(self.estimator, candidate) for candidate in candidates
            )
        # The folds of a candidate ask the same steps; candidates may not.
        rounds, models, fit_times = LockStep(federation), [], []
        for candidate in candidates:
            began, whole = time.perf_counter(), []
            fit = partial(_fitted, estimator, candidate, y)
            if hasattr(last_step(estimator), "start_near"):
                # Totals that are opened twice count once: studies fit all rows anyway.
                whole = rounds.run([(federation, fit)])
                fit = partial(fit, near=whole[0])
            fits = [(train, fit) for train, _ in folds]
            if blocks:
                # Once, with the first candidate.
                without = partial(_fitted, replicated(estimator), {}, y)
                fits += [] if whole else [(federation, fit)]
                fits += [(rest, partial(without, near=next(iter(whole), None)))
                         for rest, _ in blocks]  # fmt: skip
            found = rounds.run(fits)
            models.append(found[: len(folds)])
            fit_times.append(time.perf_counter() - began)
            if blocks:
                self._replicates, blocks = [*whole, *found[len(folds) :]], []
        if not folds:
            # Not part of the result either, as below.
            self._models, self._seconds = models, (fit_times, 0.0)
            return
        if self.details and self.scoring is None:
            scores = suited_scorers([model for fold in models for model in fold])
        sides = {"test": 1, "train": 0} if self.train_scores else {"test": 1}
        asked = [
            (folds[k][side], partial(_scored, score, model, y))
            for side in sides.values()
            for score in scores.values()
            for of_candidate in models
            for k, model in enumerate(of_candidate)
        ]
        # By columns there is one response, whose scores these are already.
        details = _details(scores) if self.details and not by_columns else {}
        asked += [
            (test, partial(_scored, detail, model, y))
            for detail in details.values()
            for (_, test), model in zip(folds, models[0], strict=True)
        ]
        began = time.perf_counter()
        found = rounds.run(asked)
        # Neither is part of the result, which is the same at all ends.
        self._models, self._seconds = models, (fit_times, time.perf_counter() - began)
        shape = len(sides), len(scores), len(candidates), len(folds)
        n_scores = math.prod(shape)
        values = np.array(found[:n_scores], dtype=float).reshape(shape)
        for of_side, side in zip(values, sides, strict=True):
            by_name = dict(zip(scores, map(np.array, of_side), strict=True))
            setattr(self, f"{side}_scores_", by_name)
        if self.details:
            by_fold = _in_parts(found[:n_scores], len(folds))[:: len(candidates)]
            rest = _in_parts(found[n_scores:], len(folds))
            self._keep_details(
                # Scores of test rows come first.
                dict(zip(scores, by_fold, strict=False)),
                dict(zip(details, rest, strict=True)),
            )

    def _check_columns(self) -> None:
        """Refuse what cannot be judged on folds of a column partition."""
        model = last_step(self.estimator)
        suited = getattr(model, "_scored_by_columns", ())
        if not suited:
            raise DataError(
                f"On a column partition a {type(model).__name__} is not judged on "
                f"folds: LinearRegression, Ridge and MMVFL are."
            )
        asked = [self.scoring] if isinstance(self.scoring, str) else self.scoring or ()
        if not set(asked) <= set(suited):
            raise DataError(
                f"scoring={self.scoring!r}: on a column partition a "
                f"{type(model).__name__} is judged by {listed(suited)}."
            )
        if self.n_blocks:
            raise DataError(
                "On a column partition the silos keep the coefficients that a "
                "jackknife would compare; cov_type gives those of a regression their "
                "standard errors."
            )
        if self.candidates is not None and len(self.candidates) > 1:
            raise DataError(
                "On a column partition the silos keep what they fitted of one "
                "candidate at a time: cross-validate each with cross_validate."
            )

    def jackknife(self, **options: Any) -> Jackknife:
        """Return the jackknife, after a fit with `n_blocks`; see `jackknife_of`."""
        whole, *parts = self._replicates
        scores = getattr(self, "test_scores_", {})
        return jackknife_of(
            whole,
            parts,
            test_scores={name: own[0] for name, own in scores.items()},
            **options,
        )

    def _keep_details(
        self, scores: Mapping[str, Sequence[Any]], details: Mapping[str, Sequence[Any]]
    ) -> None:
        """Set what the scores of the folds were computed from."""
        self.score_errors_ = {
            name: np.array([one.error for one in of_folds])
            for name, of_folds in scores.items()
            if all(isinstance(one, BinnedScore) for one in of_folds)
        }
        others = dict(details)
        if (matrices := others.pop(_CONFUSION, None)) is not None:
            pooled = added_confusions(matrices)
            self.classes_ = np.array(pooled.values)
            self.confusion_ = pooled.counts
        if others:
            self.response_scores_ = {n: np.array(v) for n, v in others.items()}


def fills_within_folds(estimator: Any) -> bool:
    """Return whether each fold's fit computes the values for missing cells itself."""
    if isinstance(estimator, SimpleImputer):
        return estimator.strategy != "constant"
    if hasattr(estimator, "steps"):
        return any(fills_within_folds(part) for _, part in estimator.steps)
    if isinstance(estimator, ColumnTransformer):
        return any(fills_within_folds(model) for model, _ in estimator.parts())
    return False


def _without_robust_errors(estimator: Any) -> Any:
    """Return a copy whose fits of folds open no products of squared residuals.

    Scores do not read errors, and the products of all folds together would be more
    equations about the same people than those of one fit.
    """
    copied = clone(estimator)
    model = last_step(copied)
    if "cov_type" in model.get_params():
        model.set_params(cov_type="nonrobust")
    return copied


def _in_parts(values: Sequence[Any], size: int) -> list[Sequence[Any]]:
    return [values[start : start + size] for start in range(0, len(values), size)]


_CONFUSION = "confusion"


def _details(scores: Iterable[str]) -> dict[str, Callable[..., Any]]:
    """Return, by name, further results from the totals that scores open."""
    found: dict[str, Callable[..., Any]] = {
        name: COLUMN_SCORERS[name] for name in scores if name in COLUMN_SCORERS
    }
    if CLASS_SCORERS.keys() & {parted(name)[0] for name in scores}:
        found[_CONFUSION] = lambda model, rows, y: confusion(y, model.predict(rows))
    return found


def _n_planned(estimator: Any, candidate: Candidate) -> int:
    model = last_step(with_parameters(estimator, candidate))
    return model._n_planned() if isinstance(model, FederatedEstimator) else 2


def _fitted(
    estimator: Any, candidate: Candidate, y: Any, train: Federation, near: Any = None
) -> Any:
    """Return a fitted copy, searched from a fit of all rows where one is given."""
    model = with_parameters(estimator, candidate)
    if near is not None:
        last_step(model).start_near(last_step(near))
    return model.fit(train, y)


def with_parameters(estimator: Any, candidate: Candidate) -> Any:
    """Return an unfitted copy of an estimator with the parameters of a candidate.

    Parameters
    ----------
    estimator : estimator or Pipeline
        Copied.
    candidate : mapping of str to object
        Values that are estimators, as of a Pipeline's step, are copied too: folds are
        fitted side by side, each its own.
    """
    values = {name: clone(value, safe=False) for name, value in candidate.items()}
    return clone(estimator).set_params(**values)


def _scored(
    score: Callable[[Any, Federation, Any], Any],
    model: Any,
    y: Any,
    rows: Federation,
) -> Any:
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
        A federation, or a view of one. By columns a `LinearRegression` or a `Ridge` is
        judged, of which the parties alone open the predictions.
    y : str or sequence of str, optional
        As for ``estimator.fit``: the name of the label, or the columns of the second
        view.
    cv : int, default 5
        Number of folds, from 2 to 20: those of ``X.folds(cv)``, which are unions of the
        blocks that each silo cuts its rows into, and stratified by the label.
    scoring : str or sequence of str, optional
        "accuracy", "balanced_accuracy", "matthews_corrcoef", "neg_log_loss", "roc_auc";
        "f1", "precision" or "recall" of the second of two classes in alphabetical
        order, of another as in "recall:ill" (of two classes, the recall of the other
        one is the specificity), or of all with "_macro" or "_weighted" behind; "r2",
        "neg_mean_squared_error", "neg_root_mean_squared_error"; "log_likelihood" (of a
        PCA, the mean over the rows). By default the model's own ``score``.
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
    messages, so that the rounds are those of one fit and of one score. A regression
    that is searched for (`LogisticRegression`, `GLM`) is first fitted to all rows, from
    where the searches of the folds take fewer numbers. The folds are not the same as
    those of scikit-learn's own splitters.

    See Also
    --------
    sklearn.model_selection.cross_validate : its twin on rows in one place.

    References
    ----------
    Stone, Cross-validatory choice and assessment of statistical predictions, Journal of
    the Royal Statistical Society B 36 (1974).
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


def jackknife(
    estimator: Any,
    X: Any,
    y: Any = None,
    *,
    n_blocks: int = 10,
    attributes: Iterable[str] | None = None,
    align: str = "signs",
    cv: int = 0,
    scoring: Any = None,
) -> Jackknife:
    """Return standard errors of what a model estimates, by deleting blocks of rows.

    Parameters
    ----------
    estimator : estimator or Pipeline
        A model of this library, or a scikit-learn Pipeline of such; not changed. Of a
        Pipeline the estimates are those of the last step, and the steps before it are
        fitted without each block too.
    X : Federation
        A federation by rows, or a view of one.
    y : str or sequence of str, optional
        As for ``estimator.fit``.
    n_blocks : int, default 10
        g, from 2 to 20: the blocks are those of ``X.folds(n_blocks, shuffle=False)``,
        unions of the at most 20 blocks that each silo cuts its rows into.
    attributes : sequence of str, optional
        Fitted attributes, such as ``["components_"]``; by default those that estimate
        something of the population. One that grows with the sample size has no
        standard error that means anything.
    align : {"signs", "rotation"}, default "signs"
        How directions, such as components, are brought near those of all rows: by
        their signs, or by an orthogonal rotation among the k of them (Procrustes),
        which is for models whose span matters and whose axes do not.
    cv : int, default 0
        Number of folds of a cross-validation in the same rounds; 0 for none. They are
        those of ``X.folds(cv, shuffle=False)``: unions of the jackknife's blocks where
        cv divides `n_blocks`, so that folds and blocks differ in nothing smaller.
    scoring : str or sequence of str, optional
        Scores of the cross-validation, as of `cross_validate`.

    Returns
    -------
    Jackknife
        Estimates, standard errors, bias, intervals; a model's own standard errors
        beside them, and the model that was fitted on all rows. Prints as a table.

    Raises
    ------
    DataError
        For a model with `privacy`, a number of components that a rule finds, blocks
        without rows, or where fits without a block have results of other shapes.
    ReleaseRefusedError
        Where a silo's policy refuses, such as blocks with few rows for the number of
        columns, or more numbers than `max_released_share` leaves.

    Notes
    -----
    Released is what a fit releases, for all rows and without each block: ``g + 1``
    times the numbers of one fit, which count in `max_released_share`. All fits share
    their messages, so that the rounds are those of one fit; with `cv` one fit's and one
    score's. Every two fits differ in a union of the silos' blocks.

    It is the jackknife for blocks of unequal sizes. Rows are to be independent. Where
    silos differ and a small silo has fewer blocks than others, blocks differ in which
    silos they have rows of, and standard errors are too large rather than too small.

    References
    ----------
    Busing, Meijer and van der Leeden, Delete-m jackknife for unequal m, Statistics and
    Computing 9 (1999).

    Examples
    --------
    >>> found = up.jackknife(up.PCA(2), federation)
    >>> found.standard_errors["explained_variance_"]
    """
    if align not in ALIGNMENTS:
        raise DataError(f'align={align!r}; choose "signs" or "rotation".')
    if not n_blocks:
        raise DataError("n_blocks=0; choose from 2 to 20 blocks.")
    validation = CrossValidation(
        estimator,
        cv=cv,
        scoring=scoring,
        shuffle=False,
        n_blocks=n_blocks,
    ).fit(X, y)
    return validation.jackknife(align=align, attributes=attributes)
