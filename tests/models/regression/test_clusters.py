"""Cluster-robust standard errors: statsmodels with groups of pooled rows."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from numpy.testing import assert_allclose

import unpooled as up
from unpooled.errors import DataError

OPEN = up.Policy.open()
# Newton's last step is 1e-8 standard errors long, and the error after it its square.
CLOSE: dict[str, Any] = {"rtol": 1e-8, "atol": 1e-12}
N = 240
SILO = np.repeat(np.arange(6), [20, 60, 30, 50, 40, 40])
# Wards have numbers of their own in each silo, so that two silos share a number.
WARD = np.tile(np.arange(8.0), N // 8)


def made():
    rng = np.random.default_rng(11)
    X = pd.DataFrame(rng.standard_normal((N, 2)), columns=["a", "b"])
    shift = rng.standard_normal((6, 8))[SILO, WARD.astype(int)]
    eta = 0.4 * X.a - 0.3 * X.b + 0.7 * shift
    count = rng.poisson(np.exp(eta)).astype(float)
    return X.assign(y=eta + rng.standard_normal(N), count=count, ward=WARD)


def silos(X, **options):
    parts = {f"s{i}": X[SILO == i] for i in range(6)}
    return up.simulate(parts, **{"policy": OPEN, **options})


def groups(clusters):
    return SILO if clusters is None else (SILO * 8 + WARD).astype(int)


def of_clusters(clusters, *, site_effects):
    """Return options of the two libraries, and predictors of theirs."""
    Z = made()[["a", "b"]]
    Z = Z.join(pd.get_dummies(SILO, dtype=float)) if site_effects else Z.assign(one=1.0)
    Z.columns = Z.columns.astype(str)
    ours = {
        "cov_type": "cluster", "clusters": clusters, "site_effects": site_effects
    }  # fmt: skip
    theirs = {"cov_type": "cluster", "cov_kwds": {"groups": groups(clusters)}}
    return Z, ours, theirs


WAYS = [(None, False), ("ward", False), ("ward", True)]


@pytest.mark.slow
@pytest.mark.parametrize(("clusters", "site_effects"), WAYS)
def test_a_linear_regression_equals_statsmodels(clusters, site_effects):
    X = made()
    Z, ours, theirs = of_clusters(clusters, site_effects=site_effects)
    oracle = sm.OLS(X.y, Z).fit(**theirs, use_t=True)

    model = up.LinearRegression(**ours)
    model.fit(silos(X.drop(columns="count"), follow=True).select(_of(clusters)), "y")

    assert model.predictors_ == ["a", "b"]
    assert model.feature_names_in_.tolist() == ["a", "b"]
    assert_allclose(model.coef_, oracle.params.iloc[:2], **CLOSE)
    assert_allclose(model.coef_se_, oracle.bse.iloc[:2], **CLOSE)
    assert_allclose(model.p_values_, oracle.pvalues.iloc[:2], rtol=1e-6)
    assert_allclose(model.conf_int().loc["a"], oracle.conf_int().loc["a"], rtol=1e-7)
    test = oracle.f_test(np.eye(2, Z.shape[1]))
    assert_allclose(model.f_statistic_, np.asarray(test.fvalue).item(), rtol=1e-7)
    assert_allclose(model.f_p_value_, np.asarray(test.pvalue).item(), rtol=1e-6)
    assert model.n_clusters_ == len(np.unique(groups(clusters)))


def _of(clusters):
    return ["a", "b", "y"] if clusters is None else ["a", "ward", "b", "y"]


@pytest.mark.slow
@pytest.mark.parametrize(("clusters", "site_effects"), WAYS)
def test_a_generalised_linear_model_equals_statsmodels(clusters, site_effects):
    X = made()
    Z, ours, theirs = of_clusters(clusters, site_effects=site_effects)
    family = sm.families.Poisson()
    oracle = sm.GLM(X["count"], Z, family).fit(tol=1e-14, **theirs)
    federation = silos(X.drop(columns="y"), follow=True)
    if clusters is None:
        federation = federation.select(["a", "b", "count"])

    model = up.GLM("poisson", **ours).fit(federation, "count")

    assert_allclose(model.coef_se_, oracle.bse.iloc[:2], **CLOSE)
    assert_allclose(model.p_values_, oracle.pvalues.iloc[:2], rtol=1e-6, atol=1e-14)
    assert np.isfinite(up.metrics.r2_score("count", model.predict(federation)))


@pytest.mark.slow
@pytest.mark.parametrize(("clusters", "site_effects"), WAYS)
def test_a_logistic_regression_equals_statsmodels(clusters, site_effects):
    X = made()
    Z, ours, theirs = of_clusters(clusters, site_effects=site_effects)
    oracle = sm.Logit(X.y > 0, Z).fit(disp=0, tol=1e-14, **theirs)
    X = X.assign(kind=np.where(X.y > 0, "v", "u")).drop(columns=["y", "count"])
    if clusters is None:
        X = X.drop(columns="ward")

    model = up.LogisticRegression(**ours)
    federation = silos(X, label="kind", follow=True)
    model.fit(federation)

    assert_allclose(model.coef_[0], oracle.params.iloc[:2], **CLOSE)
    assert_allclose(model.coef_se_[0], oracle.bse.iloc[:2], **CLOSE)
    right = np.mean((np.asarray(oracle.predict()) > 0.5) == (X.kind == "v"))
    assert model.score(federation, "kind") == pytest.approx(right)


@pytest.mark.slow
def test_one_more_round_opens_products_and_the_number_of_clusters():
    X = made().drop(columns="count")
    federation = silos(X)
    up.LinearRegression(cov_type="cluster", clusters="ward").fit(federation, "y")

    out = [(x.name, x.shape) for x in federation.ledger if x.direction == "out"]
    assert out[-2:] == [("products", (3, 3)), ("clusters", ())]
    model = up.LinearRegression(cov_type="cluster", clusters="ward")
    assert up.plan(model, federation, "y").rounds == 4


@pytest.mark.thinned(1)
@pytest.mark.parametrize(
    ("options", "change", "sentence"),
    [
        ({"cov_type": "HC1", "clusters": "ward"}, {}, 'for cov_type="cluster"'),
        ({"cov_type": "cluster", "clusters": "bed"}, {}, "name one of the columns"),
        ({"cov_type": "cluster", "clusters": "y"}, {}, "other than the response"),
        (
            {"cov_type": "cluster", "clusters": "ward"},
            {"ward": lambda X: X.ward % 4},
            "few_clusters",
        ),
    ],
)
def test_refused(options, change, sentence):
    X = made().drop(columns="count").assign(**change)
    with pytest.raises(DataError, match=sentence):
        up.LinearRegression(**options).fit(silos(X), "y")


@pytest.mark.slow
def test_few_silos_are_no_clusters_and_few_clusters_are_named():
    X = made()[["a", "b", "y"]]
    model = up.LinearRegression(cov_type="cluster")
    parts = {"r": X[:80], "s": X[80:160], "t": X[160:]}
    with pytest.raises(DataError, match="takes each silo for a cluster"):
        model.fit(up.simulate(parts, policy=OPEN), "y")

    text = str(model.fit(silos(X), "y").summary()).replace("\n", " ")

    assert "There are only 6 clusters" in text
