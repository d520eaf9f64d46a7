"""Rows of several classes at three silos, and what a discriminant must equal."""

import numpy as np
import pandas as pd
import pytest
import sklearn.datasets
import sklearn.discriminant_analysis
from numpy.testing import assert_allclose, assert_array_equal

from twins import assert_close
from unpooled import (
    simulate,
)

P, LABEL = 5, "x5"
NEW = np.random.default_rng(2).standard_normal((9, P)) * 3.0


@pytest.fixture(scope="module")
def data():
    """Rows of three unequal classes that overlap, of different scales and means."""
    rng = np.random.default_rng(1)
    y = np.repeat([0, 1, 2], [50, 40, 30])
    X = rng.standard_normal((120, P)) + 1.5 * rng.standard_normal((3, P))[y]
    order = rng.permutation(120)
    return X[order] * [1, 10, 0.1, 1, 1] + [0, 100, 0, -5, 0], y[order]


def pooled(X, y, **options):
    made = sklearn.discriminant_analysis.LinearDiscriminantAnalysis
    return made(solver="eigen", **options).fit(X, y)


def assert_same(ours, theirs, new=NEW):
    # Totals are right to twelve digits, and the condition of S_w is below 1e2.
    k = theirs._max_components
    assert_array_equal(ours.classes_, theirs.classes_)
    for name in ("means_", "covariance_", "priors_", "coef_", "intercept_"):
        assert_close(getattr(ours, name), getattr(theirs, name))
    ratio = theirs.explained_variance_ratio_
    assert_allclose(ours.explained_variance_ratio_, ratio, rtol=1e-9)
    V = theirs.scalings_[:, :k]
    peaks = V[np.abs(V).argmax(axis=0), np.arange(k)]
    assert_close(ours.scalings_, V * np.sign(peaks))
    assert_close(ours.transform(new), theirs.transform(new) * np.sign(peaks))
    assert_close(ours.decision_function(new), theirs.decision_function(new))
    assert_allclose(ours.predict_proba(new), theirs.predict_proba(new), atol=1e-9)
    # A probability of 1e-300 has a logarithm of some hundreds.
    log = theirs.predict_log_proba(new)
    assert_allclose(ours.predict_log_proba(new), log, rtol=1e-8, atol=1e-8)
    assert_array_equal(ours.predict(new), theirs.predict(new))


def silos(X, y, m=3, label="class", **options):
    """Put rows into silos in turn, as data frames with a label."""
    frame = pd.DataFrame(X, columns=[f"v{j}" for j in range(X.shape[1])])
    frame[label] = y
    return simulate({f"silo{i}": frame[i::m] for i in range(m)}, label=label, **options)
