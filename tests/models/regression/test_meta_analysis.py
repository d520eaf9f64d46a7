"""Meta-analysis equals statsmodels on the silos' own fits, and names who has none."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from numpy.testing import assert_allclose
from statsmodels.stats.meta_analysis import combine_effects

import unpooled as up
from unpooled.errors import DataError, ReleaseRefusedError
from unpooled.models.regression.meta_analysis import own_regression
from unpooled.testing import check_estimator

OPEN = {"allow_disclosed": True}
FAMILIES = {
    "gaussian": sm.families.Gaussian(),
    "binomial": sm.families.Binomial(),
    "poisson": sm.families.Poisson(),
    "gamma": sm.families.Gamma(sm.families.links.Log()),
}
# Fisher scoring of both ends at a change of the deviance of 1e-12 or less.
RTOL = 1e-7


def tables(family, seed=0):
    rng = np.random.default_rng(seed)
    found = {}
    for i, n in enumerate((60, 300, 120, 90)):
        X = rng.normal(size=(n, 2)) * [1.0, 100.0] + [0.0, 500.0]
        eta = 0.4 + (0.5 + 0.2 * i) * X[:, 0] + 0.002 * (X[:, 1] - 500.0)
        y = {
            "gaussian": lambda eta=eta: eta + rng.normal(size=len(eta)),
            "binomial": lambda eta=eta: rng.random(len(eta)) < 1 / (1 + np.exp(-eta)),
            "poisson": lambda eta=eta: rng.poisson(np.exp(eta)),
            "gamma": lambda eta=eta: rng.gamma(3.0, np.exp(eta) / 3.0),
        }[family]()
        found[f"s{i}"] = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": 1.0 * y})
    return found


def own_fits(frames, family):
    fits = []
    for frame in frames.values():
        X = sm.add_constant(frame[["a", "b"]].to_numpy())
        if family == "gaussian":
            fits.append(sm.OLS(frame.y, X).fit())
        else:
            model = sm.GLM(frame.y, X, family=FAMILIES[family])
            fits.append(model.fit(tol=1e-15, maxiter=200))
    return np.array([f.params for f in fits]), np.array([f.bse for f in fits])


@pytest.mark.slow
@pytest.mark.parametrize("follow", [False, True])
@pytest.mark.parametrize("family", FAMILIES)
def test_equals_statsmodels(family, follow):
    frames = tables(family)
    theta, error = own_fits(frames, family)
    model = up.LinearRegression() if family == "gaussian" else up.GLM(family)
    federation = up.simulate(frames, policy=OPEN, follow=follow)

    found = up.compare_with_meta_analysis(model, federation, "y")

    assert found.terms_ == ["intercept", "a", "b"]
    assert_allclose(found.estimates_, theta, rtol=RTOL)
    assert_allclose(found.standard_errors_, error, rtol=RTOL)
    for j in range(3):
        one = combine_effects(theta[:, j], error[:, j] ** 2, method_re="dl", use_t=True)
        assert_allclose(found.fixed_[j], one.mean_effect_fe, rtol=RTOL)
        assert_allclose(found.fixed_se_[j], one.sd_eff_w_fe, rtol=RTOL)
        assert_allclose(found.q_[j], one.q, rtol=1e-6)
        normal = combine_effects(
            theta[:, j], error[:, j] ** 2, method_re="dl"
        ).conf_int(use_t=False)
        assert_allclose(found.conf_int("fixed")[j], normal[0], rtol=1e-6)
        with pytest.raises(DataError, match="one less the level"):
            found.conf_int("fixed", alpha=0.95)
        if one.tau2 < 0.0:
            # There statsmodels goes on with it; here it is 0, as the paper has it.
            assert found.tau2_[j] == 0.0
            assert_allclose(found.random_[j], found.fixed_[j], rtol=1e-12)
            continue
        assert_allclose(found.tau2_[j], one.tau2, rtol=1e-5, atol=1e-12)
        assert_allclose(found.random_[j], one.mean_effect_re, rtol=1e-6)
        assert_allclose(found.random_se_[j], one.sd_eff_w_re, rtol=1e-6)
        assert_allclose(found.hartung_knapp_se_[j], one.sd_eff_w_re_hksj, rtol=1e-6)
        # Four intervals: of fixed effects, random ones, and both by Hartung and Knapp.
        assert_allclose(found.conf_int("random")[j], normal[1], rtol=1e-6)
        exact = one.conf_int(use_t=True)
        assert_allclose(found.conf_int("hartung-knapp")[j], exact[3], rtol=1e-6)
    assert (found.tau2_ > 0.0).any()
    pooled = model.fit(federation, "y")
    assert_allclose(found.pooled_, [pooled.intercept_, *pooled.coef_], rtol=1e-10)
    assert_allclose(found.conf_int("pooled")[1:], pooled.conf_int()[1:], rtol=1e-8)


@pytest.mark.slow
def test_of_the_classes_of_a_label():
    frames = tables("binomial", seed=1)
    theta, error = own_fits(frames, "binomial")
    labelled = {
        name: frame.assign(kind=np.where(frame.y > 0.5, "yes", "no")).drop(columns="y")
        for name, frame in frames.items()
    }
    federation = up.simulate(labelled, label="kind", policy=OPEN)

    found = up.compare_with_meta_analysis(up.LogisticRegression(), federation)

    assert found.response_ == "kind: yes"
    assert_allclose(found.estimates_, theta, rtol=RTOL)
    assert_allclose(found.standard_errors_, error, rtol=RTOL)


def test_with_site_effects_the_pooled_regression_has_no_intercept():
    frames = tables("gaussian")
    federation = up.simulate(frames, policy=OPEN)
    model = up.LinearRegression(site_effects=True)

    found = up.compare_with_meta_analysis(model, federation, "y")

    assert np.isnan(found.pooled_[0])
    assert_allclose(found.pooled_[1:], model.fit(federation, "y").coef_, rtol=1e-10)
    assert "none" not in str(found.summary())


@pytest.mark.slow
def test_silos_without_a_fit_of_their_own_are_named_and_left_out():
    frames = tables("binomial", seed=2)
    separated = frames["s3"]
    frames["s3"] = separated.assign(y=(separated.a > 0.0).astype(float))
    federation = up.simulate(frames, policy=OPEN)

    found = up.compare_with_meta_analysis(up.GLM("binomial"), federation, "y")

    assert found.fitted_.tolist() == [True, True, True, False]
    assert np.isnan(found.estimates_[3]).all()
    assert "left out by a meta-analysis: s3" in " ".join(str(found.summary()).split())
    theta, error = own_fits({n: f for n, f in frames.items() if n != "s3"}, "binomial")
    one = combine_effects(theta[:, 1], error[:, 1] ** 2, method_re="dl")
    assert_allclose(found.random_[1], one.mean_effect_re, rtol=RTOL)
    display = up.ForestDisplay.from_estimator(found, "a")
    assert display.names == ["s0", "s1", "s2", *display.names[3:]]
    with pytest.raises(DataError, match="is none of intercept, a, b"):
        up.ForestDisplay.from_estimator(found, "c")
    with pytest.raises(DataError, match="draws a MetaAnalysis"):
        up.ForestDisplay.from_estimator(up.LinearRegression().fit(federation, "y"))
    plt.close("all")


@pytest.mark.parametrize("case", ["few", "constant", "collinear", "one response"])
def test_a_silo_has_no_fit(case):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 3))
    X = {
        "few": X[:3],
        "constant": X * [0.0, 1.0, 1.0],
        "collinear": np.column_stack([X[:, 0], 2 * X[:, 0], X[:, 2]]),
        "one response": X * [1.0, 1.0, 0.0],
    }[case]
    made = own_regression(X, family="gaussian", offset=False, width=3)
    assert made["fitted"] == 0.0
    assert not made["estimate"].any()


def test_refusals_and_mistakes():
    frames = tables("gaussian")
    federation = up.simulate(frames)
    with pytest.raises(ReleaseRefusedError, match="allow_disclosed"):
        up.compare_with_meta_analysis(up.LinearRegression(), federation, "y")
    for model in (up.Ridge(), up.GLM("poisson", cov_type="HC1"), up.PCA()):
        with pytest.raises(DataError, match="without penalty or robust"):
            up.compare_with_meta_analysis(model, federation, "y")
    with pytest.raises(DataError, match="family='beta'; choose "):
        up.MetaAnalysis("beta").fit(federation, "y")


def test_each_silo_shows_its_own_coefficients_and_nothing_else():
    frames = tables("gaussian")
    federation = up.simulate(frames, policy=OPEN)
    up.MetaAnalysis().fit(federation, "y")
    shown = {x.name for x in federation.ledger if x.visibility == "disclosed"}
    assert shown == {"estimate", "variance", "fitted"}


@pytest.mark.slow
def test_checks():
    asks = "the steps of the pooled regression are asked under its name"
    check_estimator(
        up.MetaAnalysis(),
        y=["f"],
        exact=False,
        expected_failed_checks={"check_ledger": asks},
    )
