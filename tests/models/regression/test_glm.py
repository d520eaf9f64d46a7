"""Generalised linear models: statsmodels' answers on pooled rows."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import sklearn.linear_model
import statsmodels.api as sm
from numpy.testing import assert_allclose

import unpooled as up
from unpooled.errors import ConvergenceError, DataError
from unpooled.testing import check_estimator

OPEN = up.Policy.open()
FAMILIES = {
    "gaussian": sm.families.Gaussian(),
    "binomial": sm.families.Binomial(),
    "poisson": sm.families.Poisson(),
    "gamma": sm.families.Gamma(sm.families.links.Log()),
}
# Newton's last step is 1e-8 standard errors long, and the error after it its square.
CLOSE: dict[str, Any] = {"rtol": 1e-8, "atol": 1e-12}


def made(family, n=240):
    rng = np.random.default_rng(2)
    X = pd.DataFrame(rng.standard_normal((n, 3)), columns=list("abc"))
    eta = 0.3 + 0.4 * X.a - 0.3 * X.b
    mu = np.exp(eta)
    y = {
        "gaussian": eta + rng.standard_normal(n),
        "binomial": (rng.random(n) < mu / (1 + mu)).astype(float),
        "poisson": rng.poisson(mu).astype(float),
        "gamma": rng.gamma(2.0, mu / 2.0),
    }[family]
    return X.assign(y=y)


def silos(X, **options):
    parts = {"r": X[:90], "s": X[90:91], "t": X[91:]}
    return up.simulate(parts, **{"policy": OPEN, **options})


def sandwich(X, family, coef):
    """Return HC0 by its formula, with expected information."""
    Z = sm.add_constant(X.drop(columns="y")).to_numpy()
    mu = FAMILIES[family].link.inverse(Z @ coef)
    slope = FAMILIES[family].link.inverse_deriv(Z @ coef)
    variance = FAMILIES[family].variance(mu)
    bread = np.linalg.inv((Z * (slope**2 / variance)[:, None]).T @ Z)
    scores = Z * (slope * (X.y.to_numpy() - mu) / variance)[:, None]
    return bread @ scores.T @ scores @ bread


@pytest.mark.parametrize("check", check_estimator(
    up.GLM("gaussian"), y=["f"], generate_only=True,
), ids=repr)  # fmt: skip
def test_convention(check):
    check()


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_equals_statsmodels(family):
    X = made(family)
    Z = sm.add_constant(X.drop(columns="y"))
    oracle = sm.GLM(X.y, Z, FAMILIES[family]).fit(tol=1e-14)

    ours = up.GLM(family).fit(silos(X, follow=True), "y")

    assert_allclose(ours.coef_, oracle.params.iloc[1:], **CLOSE)
    assert_allclose(ours.intercept_, oracle.params["const"], **CLOSE)
    assert_allclose(ours.coef_se_, oracle.bse.iloc[1:], **CLOSE)
    assert_allclose(ours.p_values_, oracle.pvalues.iloc[1:], rtol=1e-6)
    assert_allclose(ours.conf_int(), oracle.conf_int(), rtol=1e-7, atol=1e-9)
    for name, value in {
        "deviance_": oracle.deviance,
        "null_deviance_": oracle.null_deviance,
        "log_likelihood_": oracle.llf,
        "aic_": oracle.aic,
        "bic_": oracle.bic_llf,
        "dispersion_": oracle.scale,
    }.items():
        assert_allclose(getattr(ours, name), value, rtol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("family", ["binomial", "poisson", "gamma"])
def test_robust_errors_are_the_sandwich(family):
    X = made(family)

    ours = up.GLM(family, cov_type="HC0").fit(silos(X), "y")
    other = up.GLM(family, cov_type="HC1").fit(silos(X), "y")

    coef = np.array([ours.intercept_, *ours.coef_])
    assert_allclose(ours.covariance_, sandwich(X, family, coef), rtol=1e-7, atol=1e-12)
    assert_allclose(other.covariance_, ours.covariance_ * len(X) / (len(X) - 4))
    if family != "gamma":
        # With the canonical link, so that observed and expected information are equal.
        Z = sm.add_constant(X.drop(columns="y"))
        oracle = sm.GLM(X.y, Z, FAMILIES[family]).fit(tol=1e-14, cov_type="HC0")
        assert_allclose(ours.coef_se_, oracle.bse.iloc[1:], **CLOSE)


@pytest.mark.parametrize(
    ("offset", "message"),
    [
        (
            "log(exposure)",
            r"columns 'a', .*DerivedColumns\(\{'log_time': 'log\(time\)'",
        ),
        ("y", "a column other than the response"),
    ],
)
def test_what_is_no_column_for_an_offset_is_refused(offset, message):
    X = made("poisson").assign(exposure=1.0)
    with pytest.raises(DataError, match=message):
        up.GLM("poisson", offset=offset).fit(silos(X), "y")


@pytest.mark.slow
def test_an_offset_is_added_to_the_linear_predictor():
    X = made("poisson").assign(exposure=np.linspace(-1.0, 1.0, 240))
    Z = sm.add_constant(X[list("abc")])
    oracle = sm.GLM(X.y, Z, FAMILIES["poisson"], offset=X.exposure).fit(tol=1e-14)

    ours = up.GLM("poisson", offset="exposure").fit(silos(X), "y")

    assert ours.predictors_ == list("abc")
    assert_allclose(ours.coef_, oracle.params.iloc[1:], **CLOSE)
    assert_allclose(ours.coef_se_, oracle.bse.iloc[1:], **CLOSE)
    predicted = ours.predict(X[list("abc")], offset=X.exposure)
    assert_allclose(predicted, oracle.fittedvalues)
    assert not hasattr(ours, "null_deviance_")
    with pytest.raises(DataError, match="Pass an offset"):
        ours.predict(X[list("abc")])


@pytest.mark.slow
def test_score_is_the_explained_deviance_of_new_rows():
    X = made("poisson", 400)
    ours = up.GLM("poisson").fit(silos(X[:240]), "y")
    twin = sklearn.linear_model.PoissonRegressor(alpha=0.0, tol=1e-12, max_iter=10**4)
    twin.fit(X[:240][list("abc")], X.y[:240])

    wanted = twin.score(X[240:][list("abc")], X.y[240:])
    assert_allclose(ours.score(X[240:][list("abc")], X.y[240:]), wanted, rtol=1e-5)
    assert_allclose(ours.score(silos(X[240:])), wanted, rtol=1e-5)
    r2 = up.metrics.r2_score("y", ours.predict(silos(X[240:])))
    assert np.isfinite(r2)


@pytest.mark.slow
def test_rounds_are_two_and_those_of_the_search():
    federation = silos(made("poisson"))

    ours = up.GLM("poisson", cov_type="HC0").fit(federation, "y")

    assert max(line.round for line in federation.ledger) == 2 + ours.n_iter_ + 1
    assert ours.n_iter_ < 8


@pytest.mark.slow
def test_skewed_costs_are_fitted_within_the_rounds_that_there_are():
    """Fisher scoring takes 50 steps here: of a gamma its curvature is another one."""
    rng = np.random.default_rng(2)
    X = pd.DataFrame(rng.standard_normal((300, 4)), columns=list("abcd"))
    X["d"] = (rng.random(300) < 0.06).astype(float)
    X["y"] = np.exp(7.0 + 0.4 * X.a + 1.6 * rng.standard_normal(300))

    parts = {"r": X[:90], "s": X[90:180], "t": X[180:]}
    ours = up.GLM("gamma").fit(up.simulate(parts), "y")

    wanted = sm.GLM(
        X.y, sm.add_constant(X[list("abcd")]), family=FAMILIES["gamma"]
    ).fit(maxiter=200, tol=1e-14, tol_criterion="params")
    assert wanted.fit_history["iteration"] > 2 * ours.n_iter_
    assert_allclose(ours.coef_, wanted.params[1:], rtol=1e-8)
    assert_allclose(ours.coef_se_, wanted.bse[1:], rtol=1e-8)


def of_one(value):
    """Return what replaces one row's response by a value, and others by halves."""
    return lambda X: np.where(np.arange(len(X)) == 5, value, 0.5)


@pytest.mark.thinned(1)
@pytest.mark.parametrize(
    ("family", "change", "error", "sentence"),
    [
        ("logit", {}, DataError, "choose "),
        ("gamma", {"y": of_one(0.0)}, DataError, "response_values"),
        ("poisson", {"y": of_one(-1.0)}, DataError, "response_values"),
        ("poisson", {"y": 0.0}, DataError, "all responses are equal"),
        ("binomial", {"y": of_one(1.5)}, DataError, "response_values"),
        ("poisson", {"d": lambda X: X.a - X.b}, DataError, "linear combination"),
    ],
)
def test_refused(family, change, error, sentence):
    X = made("poisson").assign(**change)
    with pytest.raises(error, match=sentence):
        up.GLM(family).fit(silos(X), "y")


@pytest.mark.slow
def test_separated_responses_and_too_few_rounds_are_named():
    X = made("binomial")
    with pytest.raises(DataError, match=r"are separated: .* 'a' foremost"):
        up.GLM("binomial").fit(silos(X.assign(y=(X.a > 0).astype(float))), "y")
    with pytest.raises(ConvergenceError, match=r"After 2 rounds .* Raise max_iter"):
        up.GLM("binomial", max_iter=2).fit(silos(X), "y")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "name", "text"),
    [
        ("poisson", "rate_ratio", "its exponential is the rate ratio"),
        ("gamma", "ratio_of_means", "its exponential is the ratio of means"),
        ("binomial", "odds_ratio", "its exponential is the odds ratio"),
    ],
)
def test_results_have_ratios_with_their_intervals(family, name, text):
    ours = up.GLM(family).fit(silos(made(family)), "y")

    table = ours.summary().to_frame("coefficients")
    assert_allclose(table[name][1:], np.exp(ours.coef_))
    limits = ours.summary().to_frame(name)
    assert_allclose(limits[["low", "high"]], np.exp(ours.conf_int()[1:]))
    assert text in ours.summary().exhibits[0].text
    assert f"by a {family} model" in ours.summary().exhibits[0].text.lower()


def test_a_difference_has_no_ratio():
    table = up.GLM("gaussian").fit(silos(made("gaussian")), "y").summary()
    assert "ratio" not in " ".join(table.to_frame("coefficients"))


def test_a_constant_response_is_fitted_perfectly():
    ours = up.GLM("gaussian").fit(silos(made("gaussian").assign(y=2.0)), "y")
    assert ours.log_likelihood_ == np.inf
    assert_allclose(ours.intercept_, 2.0)
