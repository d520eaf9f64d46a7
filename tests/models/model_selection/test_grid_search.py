"""A search over parameters: scikit-learn's results on the same folds."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import sklearn.discriminant_analysis
import sklearn.model_selection
import sklearn.preprocessing
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.pipeline import Pipeline

import unpooled as up
from pooled_folds import pooled_folds, pooled_rows
from unpooled.errors import DataError

# As in test_cross_validation.py.
CLOSE: dict[str, Any] = {"rtol": 1e-12, "atol": 1e-12}
GRID = {"lda__shrinkage": [0.1, 0.5, 0.9], "scale__with_std": [True, False]}


def federated(**options):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 300)
    X = rng.standard_normal((300, 5)) @ rng.standard_normal((5, 5)) + y[:, None]
    frame = pd.DataFrame(X, columns=list("abcde")).assign(kind=y)
    tables = {name: frame.iloc[k::3] for k, name in enumerate("xyz")}
    options = {"random_state": 0, "policy": {"max_released_share": 10.0}} | options
    return up.simulate(tables, label="kind", **options)


def pipelines():
    ours = Pipeline(
        [("scale", up.StandardScaler()), ("lda", up.LinearDiscriminantAnalysis())]
    )
    theirs = Pipeline(
        [
            ("scale", sklearn.preprocessing.StandardScaler()),
            (
                "lda",
                sklearn.discriminant_analysis.LinearDiscriminantAnalysis(
                    solver="eigen"
                ),
            ),
        ]
    )
    return ours, theirs


@pytest.mark.slow
@pytest.mark.parametrize("follow", [False, True])
def test_results_equal_scikit_learns(follow):
    federation = federated(follow=follow)
    ours, theirs = pipelines()
    options = {"scoring": "neg_log_loss", "return_train_score": True}

    found = up.GridSearchCV(ours, GRID, cv=4, **options).fit(federation, "kind")
    expected = sklearn.model_selection.GridSearchCV(
        theirs, GRID, cv=pooled_folds(federation, 4), **options
    )
    X, y = pooled_rows(federation)
    expected.fit(X, y)

    assert set(found.cv_results_) == set(expected.cv_results_)
    for name, values in expected.cv_results_.items():
        if "score" in name and "time" not in name and "rank" not in name:
            assert_allclose(found.cv_results_[name], values, **CLOSE, err_msg=name)
    for name in ("param_lda__shrinkage", "param_scale__with_std"):
        assert_array_equal(found.cv_results_[name], expected.cv_results_[name])
    assert found.cv_results_["params"] == expected.cv_results_["params"]
    assert found.best_params_ == expected.best_params_
    assert_allclose(found.best_score_, expected.best_score_, **CLOSE)
    assert found.n_splits_ == 4
    # The best candidate is fitted on all rows, and scores and predicts.
    assert_array_equal(found.predict(X), expected.predict(X))
    assert_allclose(found.score(federation, "kind"), expected.score(X, y), **CLOSE)
    assert_array_equal(found.classes_, expected.classes_)
    assert_array_equal(
        up.metrics.confusion_matrix("kind", found.predict(federation)),
        sklearn.metrics.confusion_matrix(y, expected.predict(X)),
    )


@pytest.mark.slow
def test_candidates_that_ask_alike_ask_once():
    federation = federated()
    up.cross_validate(up.LinearDiscriminantAnalysis(), federation, "kind", cv=3)
    alone, before = len({x.round for x in federation.ledger}), len(federation.ledger)

    search = up.GridSearchCV(
        up.LinearDiscriminantAnalysis(),
        {"shrinkage": [0.0, 0.2, 0.4, 0.6, 0.8]},
        cv=3,
        refit=False,
    ).fit(federation, "kind")

    assert len({x.round for x in federation.ledger[before:]}) == alone
    assert search.best_params_ in search.cv_results_["params"]
    assert not hasattr(search, "best_estimator_")


@pytest.mark.slow
def test_ties_go_to_the_first_and_several_scores_need_one_that_decides():
    federation = federated()
    ours, _ = pipelines()
    grid = [{"lda__n_components": [1, 2]}, {"scale": ["passthrough"]}]

    found = up.GridSearchCV(
        ours, grid, cv=2, scoring=["accuracy", "balanced_accuracy"], refit="accuracy"
    ).fit(federation, "kind")

    results = found.cv_results_
    assert found.multimetric_
    assert results["rank_test_accuracy"][:2].tolist() == [1, 1]
    assert found.best_index_ == 0
    assert results["param_lda__n_components"].mask.tolist() == [False, False, True]
    with pytest.raises(DataError, match="name the one that decides, refit='accuracy'"):
        up.GridSearchCV(ours, grid, scoring=["accuracy", "roc_auc"]).fit(
            federation, "kind"
        )


@pytest.mark.slow
def test_numbers_of_components_of_a_regression():
    federation = federated()
    search = up.GridSearchCV(up.PLSRegression(), {"n_components": [1, 2, 3]}, cv=3).fit(
        federation, ["a"]
    )

    for k, mean in zip((1, 2, 3), search.cv_results_["mean_test_score"], strict=True):
        one = up.cross_validate(up.PLSRegression(k), federation, ["a"], cv=3)
        assert_allclose(mean, one["test_score"].mean(), rtol=1e-15)


def test_mistakes_are_refused_by_name():
    federation = federated()
    model = up.LinearDiscriminantAnalysis()

    with pytest.raises(DataError, match="param_grid: Invalid parameter 'shrink'"):
        up.GridSearchCV(model, {"shrink": [0.1]}).fit(federation, "kind")
    with pytest.raises(DataError, match="param_grid: "):
        up.GridSearchCV(model, {"shrinkage": 0.1}).fit(federation, "kind")
    with pytest.raises(DataError, match="takes a Federation, not list"):
        up.GridSearchCV(model, {"shrinkage": [0.1]}).fit([[1.0]], "kind")
    with pytest.raises(DataError, match="refit='f1' is none of the scores"):
        up.GridSearchCV(model, {"shrinkage": [0.1]}, refit="f1").fit(federation, "kind")
    assert clone(up.GridSearchCV(model, {"shrinkage": [0.1]})).cv == 5


@pytest.mark.slow
@pytest.mark.parametrize(
    "grid",
    [
        {"lda__shrinkage": [0.1, 0.5]},
        {"lda__shrinkage": [0.1, 0.5], "scale__with_std": [True, False]},
        [{"lda__n_components": [1, 2]}, {"scale__with_mean": [False]}],
    ],
)
def test_a_plan_has_the_rounds_that_a_search_takes(grid):
    """Whether candidates share totals or not, and with the fit of the best one."""
    federation = federated()
    search = up.GridSearchCV(pipelines()[0], grid, cv=3)

    planned = up.plan(search, federation, "kind")
    assert len(federation.ledger) == 0
    search.fit(federation, "kind")

    # The plan has the first candidate's fit at the end; the best one may scale by
    # nothing, which takes no round of squares.
    less = not search.best_params_.get("scale__with_std", True)
    rounds = len({line.round for line in federation.ledger})
    assert planned.rounds - less == rounds
    steps = {line.step for line in planned.releases}
    assert steps == {line.step for line in federation.ledger}


@pytest.mark.slow
@pytest.mark.parametrize("follow", [False, True])
def test_steps_are_parameters_too(follow):
    """Each fold fits a step of its own, though the grid has one object."""
    federation = federated(follow=follow)
    ours, theirs = pipelines()
    grid: Any = {"scale": ["passthrough", up.StandardScaler()]}

    found = up.GridSearchCV(ours, grid, cv=3, scoring="neg_log_loss")
    found.fit(federation, "kind")

    X, y = pooled_rows(federation)
    pooled = {"scale": ["passthrough", sklearn.preprocessing.StandardScaler()]}
    expected = sklearn.model_selection.GridSearchCV(
        theirs, pooled, cv=pooled_folds(federation, 3), scoring="neg_log_loss"
    ).fit(X, y)
    for k in range(3):
        name = f"split{k}_test_score"
        assert_allclose(found.cv_results_[name], expected.cv_results_[name], **CLOSE)
    assert not hasattr(grid["scale"][1], "mean_"), "the grid's own object was fitted"


@pytest.mark.slow
@pytest.mark.parametrize("scoring", [None, "neg_log_loss", "balanced_accuracy"])
def test_arrays_are_scored_as_the_federation_is(scoring):
    federation = federated()
    grid = {"lda__shrinkage": [0.1, 0.5]}
    search = up.GridSearchCV(pipelines()[0], grid, cv=2, scoring=scoring)
    search.fit(federation, "kind")
    X, y = pooled_rows(federation)

    assert_allclose(search.score(X, y), search.score(federation, "kind"), **CLOSE)


@pytest.mark.slow
def test_likelihoods_of_arrays():
    federation = federated().select(list("abcd"))
    search = up.GridSearchCV(
        up.PCA(1), {"n_components": [1, 2]}, cv=3, scoring="log_likelihood"
    ).fit(federation)
    X, _ = pooled_rows(federation)

    assert_allclose(search.score(X), search.score(federation), **CLOSE)
