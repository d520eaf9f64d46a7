"""An own intercept for each silo: statsmodels with indicators of the silos."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import sklearn.linear_model
import statsmodels.api as sm
from numpy.testing import assert_allclose

import unpooled as up
from unpooled.errors import DataError
from unpooled.models.regression import site_effects
from unpooled.study import Study
from unpooled.testing import check_step

OPEN = up.Policy.open()
# Newton's last step is 1e-8 standard errors long, and the error after it its square.
CLOSE: dict[str, Any] = {"rtol": 1e-8, "atol": 1e-10}
# From a balanced split to a silo of few rows.
SIZES = [[80, 160], [12, 100]]
FAMILIES = {
    "gaussian": sm.families.Gaussian(),
    "binomial": sm.families.Binomial(),
    "poisson": sm.families.Poisson(),
    "gamma": sm.families.Gamma(sm.families.links.Log()),
}
SHIFTS = np.array([-1.0, 0.2, 1.2])


def made(family, sizes, n=240):
    """Rows whose intercept and predictors differ between silos."""
    rng = np.random.default_rng(3)
    silo = np.searchsorted(sizes, np.arange(n), side="right")
    X = pd.DataFrame(rng.standard_normal((n, 3)), columns=list("abc"))
    X["b"] = X.b * 1e4 + 3e4 * silo
    eta = SHIFTS[silo] + 0.4 * X.a - 3e-5 * (X.b - 3e4 * silo)
    mu = np.exp(eta)
    y = {
        "gaussian": eta + rng.standard_normal(n) * (1.0 + X.a.abs()),
        "binomial": (rng.random(n) < mu / (1 + mu)).astype(float),
        "poisson": rng.poisson(mu).astype(float),
        "gamma": rng.gamma(2.0, mu / 2.0),
    }[family]
    return X.assign(y=y), silo


def silos(X, silo, **options):
    parts = {f"s{i}": X[silo == i] for i in range(3)}
    return up.simulate(parts, **{"policy": OPEN, **options})


def pooled(X, silo):
    """Return predictors, in units of their spread, with indicators of the silos."""
    predictors = X[list("abc")]
    indicators = {f"s{i}": (silo == i).astype(float) for i in range(3)}
    return (predictors / predictors.std()).assign(**indicators), predictors.std()


@pytest.mark.thinned(3)
@pytest.mark.parametrize("cov_type", ["nonrobust", "HC0", "HC1"])
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_a_linear_regression_equals_statsmodels(cov_type, sizes):
    X, silo = made("gaussian", sizes)
    Z, unit = pooled(X, silo)
    oracle = sm.OLS(X.y, Z).fit(cov_type=cov_type, use_t=True)

    federation = silos(X, silo, follow=True)
    ours = up.LinearRegression(cov_type=cov_type, site_effects=True)
    ours.fit(federation, "y")

    assert_allclose(ours.coef_, oracle.params.iloc[:3] / unit, **CLOSE)
    assert_allclose(ours.coef_se_, oracle.bse.iloc[:3] / unit, **CLOSE)
    assert_allclose(ours.p_values_, oracle.pvalues.iloc[:3], rtol=1e-7)
    wanted = oracle.conf_int().iloc[:3].to_numpy() / np.asarray(unit)[:, None]
    assert_allclose(ours.conf_int(), wanted, rtol=1e-8)
    test = oracle.f_test(np.eye(3, 6))
    for name, value in {
        "dof_": oracle.df_resid,
        "sigma_": np.sqrt(oracle.scale),
        "log_likelihood_": oracle.llf,
        "aic_": oracle.aic,
        "bic_": oracle.bic,
        "r2_": oracle.rsquared,
        "adjusted_r2_": oracle.rsquared_adj,
        "f_statistic_": np.asarray(test.fvalue).item(),
        "f_p_value_": np.asarray(test.pvalue).item(),
    }.items():
        assert_allclose(getattr(ours, name), value, rtol=1e-8)
    assert not hasattr(ours, "intercept_")
    # Rows of the silos are predicted there, each with its silo's own intercept.
    assert_allclose(ours.score(federation), oracle.rsquared)


@pytest.mark.thinned(2)
@pytest.mark.parametrize("alpha", [0.5, 50.0])
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_a_ridge_regression_equals_sklearns_within_silos(sizes, alpha, secure_sum):
    X, silo = made("gaussian", sizes)
    # In units in which the penalty counts for every column.
    X["b"] = X.b / 1e4
    within = X - X.groupby(silo).transform("mean")
    oracle = sklearn.linear_model.Ridge(alpha, fit_intercept=False)
    oracle.fit(within[list("abc")], within.y)
    # Another oracle: indicators of the silos, without a penalty.
    Z = np.column_stack([X[list("abc")], silo[:, None] == np.arange(3)])
    penalty = np.diag([alpha] * 3 + [0.0] * 3)
    beta = np.linalg.solve(Z.T @ Z + penalty, Z.T @ X.y)

    federation = silos(X, silo, follow=True, secure_sum=secure_sum)
    ours = up.Ridge(alpha, site_effects=True).fit(federation, "y")

    assert_allclose(ours.coef_, oracle.coef_, **CLOSE)
    assert_allclose(ours.coef_, beta[:3], **CLOSE)
    residuals = X.y - Z @ beta
    r2 = 1.0 - residuals @ residuals / np.sum((X.y - X.y.mean()) ** 2)
    assert_allclose(ours.r2_, r2, rtol=1e-9)
    assert_allclose(ours.rmse_, np.sqrt((residuals**2).mean()), rtol=1e-9)
    score = oracle.score(within[list("abc")], within.y)
    assert_allclose(ours.r2_within_, score, rtol=1e-9)
    assert ours.n_intercepts_ == 3
    # Each silo predicts with the intercept that it keeps.
    assert_allclose(ours.score(federation), r2, rtol=1e-9)
    for name in ("intercept_", "coef_se_"):
        assert not hasattr(ours, name)
    assert "Each silo has an intercept" in str(ours.summary())
    for ask in (lambda: ours.predict(X[list("abc")]), ours.to_sklearn):
        with pytest.raises(DataError, match="own intercept"):
            ask()


def test_what_a_ridge_regression_with_site_effects_releases():
    X, silo = made("gaussian", SIZES[0])
    # Constant within silos: its coefficient is 0, as the intercepts absorb it.
    federation = silos(X.assign(d=silo.astype(float)), silo)
    ours = up.Ridge(2.0, site_effects=True).fit(federation, "y")
    assert ours.coef_[list(ours.predictors_).index("d")] == 0.0
    out = [x for x in federation.ledger if x.direction == "out"]
    assert [(x.step, x.name, x.visibility) for x in out] == [
        ("linear.local_total", "count", "summed"),
        ("linear.local_total", "total", "summed"),
        ("linear.local_within_squares", "squares", "summed"),
        ("linear.local_within_squares", "response", "summed"),
        ("linear.local_scatter", "scatter", "summed"),
    ]


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_a_generalised_linear_model_equals_statsmodels(family):
    X, silo = made(family, SIZES[1])
    Z, unit = pooled(X, silo)
    oracle = sm.GLM(X.y, Z, FAMILIES[family]).fit(tol=1e-14)

    ours = up.GLM(family, site_effects=True).fit(silos(X, silo, follow=True), "y")

    assert_allclose(ours.coef_, oracle.params.iloc[:3] / unit, **CLOSE)
    assert_allclose(ours.coef_se_, oracle.bse.iloc[:3] / unit, **CLOSE)
    assert_allclose(ours.p_values_, oracle.pvalues.iloc[:3], rtol=1e-6, atol=1e-14)
    for name, value in {
        "deviance_": oracle.deviance,
        "log_likelihood_": oracle.llf,
        "aic_": oracle.aic,
        "bic_": oracle.bic_llf,
        "dispersion_": oracle.scale,
    }.items():
        assert_allclose(getattr(ours, name), value, rtol=1e-8)
    with pytest.raises(DataError, match=r"own intercept .* Pass a federation"):
        ours.predict(X[list("abc")])


@pytest.mark.slow
@pytest.mark.parametrize("family", ["binomial", "poisson"])
def test_robust_errors_equal_statsmodels(family):
    X, silo = made(family, SIZES[0])
    X = X.assign(exposure=np.linspace(-1.0, 1.0, len(X)))
    Z, unit = pooled(X, silo)
    oracle = sm.GLM(X.y, Z, FAMILIES[family], offset=X.exposure)

    ours = up.GLM(family, cov_type="HC0", site_effects=True, offset="exposure")
    federation = silos(X, silo)
    ours.fit(federation, "y")

    wanted = oracle.fit(tol=1e-14, cov_type="HC0")
    assert_allclose(ours.coef_se_, wanted.bse.iloc[:3] / unit, **CLOSE)
    error = up.metrics.root_mean_squared_error("y", ours.predict(federation))
    residuals = X.y - wanted.fittedvalues
    assert_allclose(error, np.sqrt((residuals**2).mean()), rtol=1e-8)


def of_classes(n_classes, sizes):
    X, silo = made("gaussian", sizes)
    rng = np.random.default_rng(5)
    others = np.column_stack([X.y, 0.5 * X.a - 0.8 * X.c + silo])[:, : n_classes - 1]
    eta = np.column_stack([np.zeros(len(X)), others])
    P = np.exp(eta) / np.exp(eta).sum(axis=1)[:, None]
    codes = (P.cumsum(axis=1) < rng.random(len(X))[:, None]).sum(axis=1)
    kind = np.array(["u", "v", "w"])[codes]
    return X.drop(columns="y").assign(kind=kind), silo, codes


@pytest.mark.slow
@pytest.mark.parametrize("cov_type", ["nonrobust", "HC0"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_logistic_regression_equals_statsmodels(n_classes, cov_type):
    X, silo, codes = of_classes(n_classes, [40, 120])
    Z, unit = pooled(X, silo)
    oracle = sm.MNLogit(codes, Z).fit(
        disp=0, tol=1e-14, method="newton", maxiter=50, cov_type=cov_type
    )
    federation = silos(X, silo, label="kind", follow=True)

    ours = up.LogisticRegression(cov_type=cov_type, site_effects=True).fit(federation)

    wanted, errors = (
        (np.asarray(table)[:3] / np.asarray(unit)[:, None]).T
        for table in (oracle.params, oracle.bse)
    )
    if n_classes == 2:
        assert_allclose(ours.coef_, wanted, **CLOSE)
        assert_allclose(ours.coef_se_, errors, **CLOSE)
    else:
        assert_allclose(ours.coef_[1:] - ours.coef_[0], wanted, **CLOSE)
        against = np.kron([[-1, 1, 0], [-1, 0, 1]], np.eye(3))
        variances = np.diag(against @ ours.covariance_ @ against.T)
        assert_allclose(np.sqrt(variances).reshape(2, 3), errors, **CLOSE)
    assert_allclose(ours.log_likelihood_, oracle.llf, rtol=1e-9)
    k = (n_classes - 1) * 6
    assert_allclose(ours.aic_, 2 * k - 2 * oracle.llf)
    assert_allclose(ours.bic_, k * np.log(len(X)) - 2 * oracle.llf)
    # The silos predict with their own intercepts.
    loss = up.metrics.log_loss("kind", ours.predict_proba(federation))
    assert loss == pytest.approx(-oracle.llf / len(X))
    right = np.mean(np.asarray(oracle.predict()).argmax(axis=1) == codes)
    assert ours.score(federation, "kind") == pytest.approx(right)
    assert up.metrics.accuracy_score("kind", ours.predict(federation)) == right
    with pytest.raises(DataError, match=r"own intercept .* Pass a federation"):
        ours.predict(X[list("abc")])


@pytest.mark.slow
def test_a_search_by_gradients_gives_the_same():
    X, silo, _ = of_classes(3, [40, 120])
    federation = silos(X, silo, label="kind", follow=True)

    wanted = up.LogisticRegression(site_effects=True).fit(federation)
    ours = up.LogisticRegression(site_effects=True, solver="bfgs").fit(federation)

    assert_allclose(ours.coef_, wanted.coef_, **CLOSE)
    assert_allclose(ours.coef_se_, wanted.coef_se_, rtol=1e-7)


@pytest.mark.slow
def test_a_penalty_leaves_the_silos_intercepts_alone():
    X, silo, codes = of_classes(2, [80, 160])
    X = X.assign(b=X.b * 1e-4)
    ours = up.LogisticRegression(0.05, site_effects=True)
    ours.fit(silos(X, silo, label="kind"))

    # Indicators in large units carry next to no penalty.
    large = np.column_stack([X[list("abc")], 1e4 * np.eye(3)[silo]])
    twin = sklearn.linear_model.LogisticRegression(
        C=0.05, fit_intercept=False, tol=1e-12, max_iter=10**4, solver="newton-cg"
    ).fit(large, codes)
    assert_allclose(ours.coef_, twin.coef_[:, :3], rtol=1e-5)


@pytest.mark.slow
def test_what_leaves_and_what_stays():
    X, silo = made("poisson", SIZES[0])
    federation = silos(X, silo)

    ours = up.GLM("poisson", site_effects=True).fit(federation, "y")

    out = [(x.name, x.shape) for x in federation.ledger if x.direction == "out"]
    search = [("gradient", (3,)), ("information", (3, 3))]
    search += [(name, ()) for name in ("deviance", "pearson", "saturated")]
    assert out == [
        *(("count", ()), ("total", (4,)), ("squares", (4,))),
        *(search * ours.n_iter_),
    ]
    assert up.plan(up.LinearRegression(site_effects=True), federation, "y").rounds == 4


def test_a_linear_fit_leaves_squares_and_products_within_silos():
    X, silo = made("gaussian", SIZES[0])
    federation = silos(X, silo)

    up.LinearRegression(site_effects=True).fit(federation, "y")

    out = [(x.name, x.shape) for x in federation.ledger if x.direction == "out"]
    assert out == [
        *(("count", ()), ("total", (4,)), ("squares", (4,)), ("response", ())),
        ("scatter", (4, 4)),
    ]


@pytest.mark.parametrize(
    "model", [up.LinearRegression(site_effects=True), up.GLM(site_effects=True)]
)
def test_a_column_that_is_constant_within_silos_is_named(model):
    X, silo = made("gaussian", SIZES[0])
    with pytest.raises(DataError, match="'d within silos' has no variance"):
        model.fit(silos(X.assign(d=0.1 * silo), silo), "y")


@pytest.mark.slow
def test_a_silo_without_an_intercept_refuses():
    X, silo = made("poisson", SIZES[0])
    none = X.assign(y=np.where(silo == 1, 0.0, X.y))
    with pytest.raises(DataError, match="own_intercept"):
        up.GLM("poisson", site_effects=True).fit(silos(none, silo), "y")
    Y, silo, _ = of_classes(3, SIZES[0])
    lacking = Y[~((silo == 0) & (Y.kind == "w"))]
    federation = silos(lacking, silo[lacking.index], label="kind")
    with pytest.raises(DataError, match="own_intercept"):
        up.LogisticRegression(site_effects=True).fit(federation)


@pytest.mark.slow
def test_folds_and_a_later_fit_do_not_predict():
    X, silo = made("poisson", SIZES[0])
    federation = silos(X, silo)
    first = up.GLM("poisson", site_effects=True).fit(federation, "y")
    with pytest.raises(DataError, match="would determine the silos' own intercepts"):
        up.cross_validate(up.LinearRegression(site_effects=True), federation, "y", cv=3)

    second = up.GLM("gaussian", site_effects=True).fit(federation, "y")

    assert np.isfinite(up.metrics.r2_score("y", second.predict(federation)))
    with pytest.raises(DataError, match="later_fit"):
        up.metrics.r2_score("y", first.predict(federation))


@pytest.mark.slow
def test_a_study_leaves_each_silo_its_own_intercept(tmp_path):
    X, silo = made("gaussian", SIZES[0])
    lines = ["[study]", 'name = "sites"']
    for i in range(3):
        X[silo == i].to_csv(tmp_path / f"s{i}.csv", index=False)
        lines += [f"[parties.s{i}]", f'source = "s{i}.csv"']
    lines += ["[policy]", "max_released_share = 1.0", "[[steps]]"]
    lines += ['model = "LinearRegression"', 'y = ["y"]', "site_effects = true"]
    lines += ["[outputs]", "report = false", ""]
    study = Study.from_text(tmp_path / "study.toml", "\n".join(lines))

    run = study.run(tmp_path / "run", follow=True)

    Z, unit = pooled(X, silo)
    oracle = sm.OLS(X.y, Z).fit()
    (model,) = run.models.values()
    assert_allclose(model.coef_, oracle.params.iloc[:3] / unit, **CLOSE)
    for i in range(3):
        path = tmp_path / "run" / "silos" / f"s{i}" / "results" / "linear_intercept.csv"
        own = pd.read_csv(path)["value"]
        assert_allclose(own, oracle.params.iloc[3 + i], rtol=1e-8)


def test_results_say_that_intercepts_stay():
    X, silo = made("gaussian", SIZES[0])
    ours = up.LinearRegression(site_effects=True).fit(silos(X, silo), "y")

    assert "an intercept of its own" in str(ours.summary()).replace("\n", " ")
    assert ours.summary().to_frame("coefficients")["column"].tolist() == list("abc")
    with pytest.raises(DataError, match="Pass a federation"):
        ours.to_sklearn()


def test_a_silo_s_intercept_is_that_of_its_rows():
    X, silo = made("poisson", SIZES[0])
    Z, unit = pooled(X, silo)
    oracle = sm.GLM(X.y, Z, FAMILIES["poisson"]).fit(tol=1e-14)
    coef = (oracle.params.iloc[:3] / unit).to_numpy()[None]

    for i in range(3):
        rows = X[silo == i].to_numpy()
        shared = {"coef": coef, "family": "poisson", "offset": False}
        kept = site_effects.own_intercept(rows, **shared)
        assert_allclose(kept["intercept"], oracle.params.iloc[3 + i], rtol=1e-8)
        check_step(site_effects.own_intercept, rows, **shared)
