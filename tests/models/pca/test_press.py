"""PRESS: every cell predicted from its row's others, by fits on the other folds."""

import numpy as np
import pytest
import sklearn.decomposition
from numpy.testing import assert_allclose

import unpooled as up
from pooled_folds import pooled_folds, pooled_rows
from splits import SPLITS
from unpooled.errors import DataError, ReleaseRefusedError


def data():
    """Two factors of seven columns, in units far apart, far from 0."""
    rng = np.random.default_rng(8)
    factors = rng.standard_normal((210, 2)) @ rng.standard_normal((2, 7))
    X = 2.0 * factors + rng.standard_normal((210, 7))
    return X + 1e4


def federated(split="balanced", **options):
    X = data()
    tables = {f"s{k}": X[own] for k, own in enumerate(SPLITS[split](np.arange(210)))}
    return up.simulate(tables, **{"policy": up.Policy.open(), **options})


def expected(federation, cv):
    """Return PRESS by a least-squares fit for every row, column and number."""
    X = pooled_rows(federation)[0].to_numpy()
    p = X.shape[1]
    errors = np.zeros(p)
    for train, test in pooled_folds(federation, cv, shuffle=False):
        pca = sklearn.decomposition.PCA(svd_solver="full").fit(X[train])
        for k in range(p):
            V = pca.components_[:k].T
            for x in X[test] - pca.mean_:
                for j in range(p):
                    others = np.arange(p) != j
                    t = np.linalg.lstsq(V[others], x[others], rcond=None)[0]
                    errors[k] += (x[j] - V[j] @ t) ** 2
    return errors


@pytest.mark.slow
@pytest.mark.parametrize("secure_sum", ["masked", "plain"])
@pytest.mark.parametrize("split", ["balanced", "skewed", "one-row"])
def test_it_is_that_of_refits_on_pooled_rows(split, secure_sum):
    federation = federated(split, secure_sum=secure_sum)

    pca = up.PCA("press", cv=4).fit(federation)

    # A scatter has twelve digits of its bound; 1 - h is above a thousandth here.
    assert_allclose(pca.press_, expected(federation, 4), rtol=1e-7)
    assert pca.n_components_ == pca.component_numbers_["press"] == 2
    assert pca.n_components_ == int(np.argmin(pca.press_))


@pytest.mark.slow
def test_the_components_are_those_of_all_rows_in_the_same_rounds():
    federation = federated(random_state=0, follow=True)
    pooled = sklearn.decomposition.PCA(2, svd_solver="full").fit(data())

    pca = up.PCA("press").fit(federation)

    assert_allclose(pca.components_, pooled.components_, atol=1e-9)
    assert_allclose(pca.explained_variance_, pooled.explained_variance_, rtol=1e-9)
    assert_allclose(pca.mean_, pooled.mean_, rtol=1e-12)
    opened = [one for one in federation.ledger if one.visibility == "summed"]
    steps = [one.step for one in opened if one.name == "scatter"]
    assert steps == ["pca.local_scatter"] * len(steps)
    # Two rounds for the counts of blocks and of their rows, and three.
    rounds = len({line.round for line in federation.ledger})
    assert rounds == 5 == up.plan(up.PCA("press"), federation).rounds
    summary = str(pca.summary())
    assert "cross-validated reconstruction (PRESS)" in summary
    assert len(pca.summary().tables["press"].rows) == 7


@pytest.mark.slow
def test_what_is_opened_counts():
    """About a column six numbers of each part, of 210 cells."""
    policy = {"min_rows": 5, "max_released_share": 0.1, "max_feature_ratio": 1.0}
    federation = federated(policy=policy)
    up.PCA().fit(federation)
    with pytest.raises(ReleaseRefusedError, match="max_released_share"):
        up.PCA("press", cv=4).fit(federation)


@pytest.mark.slow
def test_no_folds_were_updated():
    federation = federated()
    pca = up.PCA("press").fit(federation)
    with pytest.raises(DataError, match="Fit anew"):
        pca.update(federation)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [({"cv": 1}, "n=1 folds"), ({"svd_solver": "krylov"}, "exact scatter")],
)
def test_refused(options, sentence):
    with pytest.raises(DataError, match=sentence):
        up.PCA("press", **options).fit(federated())
