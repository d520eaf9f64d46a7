"""Metrics of predicted columns, and likelihoods: scikit-learn's on the same rows."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import sklearn.metrics
from numpy.testing import assert_allclose

import unpooled as up
from pooled_folds import pooled_rows
from unpooled.errors import DataError

# Sums of some hundred numbers in another order, after differences of like numbers.
CLOSE: dict[str, Any] = {"rtol": 1e-12, "atol": 1e-13}
X_NAMES, Y_NAMES = ["a", "d", "e"], ["b", "c"]


def tables(n=(50, 80, 40)):
    rng, made = np.random.default_rng(0), {}
    for name, rows in zip("xyz", n, strict=True):
        X = rng.standard_normal((rows, 3))
        Y = X @ rng.standard_normal((3, 2)) + rng.standard_normal((rows, 2)) + 100.0
        made[name] = pd.DataFrame(np.hstack([X, Y]), columns=[*X_NAMES, *Y_NAMES])
    return made


def federated(**options):
    options = {"policy": up.Policy.open(), "random_state": 0} | options
    return up.simulate(tables(), **options)


@pytest.mark.slow
@pytest.mark.parametrize("model", [up.PLSRegression(2), up.PLSCanonical(1), up.CCA(2)])
def test_equal_scikit_learns_on_new_rows(model):
    federation = federated()
    train, test = federation.train_test_split(random_state=1)
    model.fit(train, Y_NAMES)
    twin, rows = model.to_sklearn(), pooled_rows(test)[0]
    X, Y = rows[X_NAMES], rows[Y_NAMES].to_numpy()
    theirs, ours = twin.predict(X), model.predict(test)

    assert ours.feature_names == ("predicted b", "predicted c", "b", "c")
    for options in ({}, {"multioutput": "raw_values"}):
        for name in ("r2_score", "mean_squared_error", "root_mean_squared_error"):
            assert_allclose(
                getattr(up.metrics, name)(Y_NAMES, ours, **options),
                getattr(sklearn.metrics, name)(Y, theirs, **options),
                **CLOSE,
            )
    assert_allclose(
        up.metrics.r2_score(Y_NAMES, ours, multioutput="variance_weighted"),
        sklearn.metrics.r2_score(Y, theirs, multioutput="variance_weighted"),
        **CLOSE,
    )
    assert_allclose(
        up.metrics.r2_score("c", ours),
        sklearn.metrics.r2_score(Y[:, 1], theirs[:, 1]),
        **CLOSE,
    )
    assert_allclose(model.score(test), twin.score(X, Y), **CLOSE)
    assert_allclose(model.score(test, Y_NAMES[::-1]), twin.score(X, Y), **CLOSE)
    assert_allclose(model.score(X, Y), twin.score(X, Y), **CLOSE)


@pytest.mark.thinned(1)
@pytest.mark.parametrize("k", [1, 3, None])
def test_mean_log_likelihood_equals_scikit_learns(k):
    federation = federated()
    train, test = federation.train_test_split(random_state=1)
    model = up.PCA(k).fit(train)
    rows = pooled_rows(test)[0]
    before = len(federation.ledger)

    score = model.score(test)

    assert_allclose(score, model.to_sklearn().score(rows), **CLOSE)
    opened = [
        (x.name, x.shape)
        for x in federation.ledger[before:]
        if x.direction == "out" and x.visibility != "veiled"
    ]
    assert opened == [("count", ()), ("squares", ()), ("along", (k or 5,))]


@pytest.mark.slow
def test_silos_that_follow_score_too():
    def scores(federation):
        pls = up.PLSRegression(1).fit(federation, Y_NAMES)
        return (
            pls.score(federation),
            up.metrics.root_mean_squared_error("c", pls.predict(federation)),
            up.PCA(2).fit(federation).score(federation),
        )

    assert scores(federated(follow=True)) == scores(federated())


def test_columns_that_are_not_there_are_refused_by_name():
    federation = federated()
    model = up.PLSRegression(1).fit(federation, Y_NAMES)
    blind = federation.select(X_NAMES)

    assert model.predict(blind).feature_names == ("predicted b", "predicted c")
    with pytest.raises(DataError, match=r"no columns \['b'\]"):
        up.metrics.r2_score("b", model.predict(blind))
    with pytest.raises(DataError, match="multioutput='mean'"):
        up.metrics.r2_score("b", model.predict(federation), multioutput="mean")
    with pytest.raises(DataError, match="have no weights"):
        model.score(federation, sample_weight=[1.0])
