"""Linear and ridge regression: the answers of statsmodels and scikit-learn."""

import itertools
from typing import Any

import numpy as np
import pandas as pd
import pytest
import sklearn.linear_model
import statsmodels.api as sm
from numpy.testing import assert_allclose
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import unpooled as up
from splits import SPLITS
from unpooled.data.heart_disease import load
from unpooled.errors import DataError, ReleaseRefusedError
from unpooled.testing import check_estimator

OPEN = up.Policy.open()
N = 240
# Sums keep twelve digits; coefficients lose what the columns' condition number takes.
CLOSE: dict[str, Any] = {"rtol": 1e-9, "atol": 1e-12}


def made(n=N):
    """Columns that differ by ten orders of magnitude, errors of unequal variances."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 3)) * [1.0, 1e5, 1e-5] + [0.0, 1e6, 0.0]
    X = pd.DataFrame(X, columns=list("abc"))
    noise = rng.standard_normal(n) * (1.0 + X.a.abs())
    return X.assign(y=0.5 * X.a - 1e-5 * X.b + 3e4 * X.c + noise)


def silos(X, sizes=(80, 80), **options):
    ends = [0, *np.cumsum(sizes), len(X)]
    parts = [X.iloc[a:b] for a, b in itertools.pairwise(ends)]
    return up.simulate(
        {f"s{i}": part for i, part in enumerate(parts)},
        **{"policy": OPEN, **options},
    )


def theirs(X, cov_type="nonrobust"):
    Z = sm.add_constant(X.drop(columns="y"))
    # In units in which its own solver keeps its digits.
    scale = Z.std().where(Z.std() > 0, 1.0)
    return sm.OLS(X.y, Z / scale).fit(cov_type=cov_type, use_t=True), scale


@pytest.mark.parametrize("check", check_estimator(
    up.LinearRegression(), y=["f"], pooled=lambda X, y: of_pooled(X, sklearn_linear()),
    generate_only=True,
), ids=repr)  # fmt: skip
def test_convention(check):
    check()


@pytest.mark.parametrize("check", check_estimator(
    up.Ridge(2.0), y=["f"], generate_only=True,
    pooled=lambda X, y: of_pooled(X, sklearn.linear_model.Ridge(2.0)),
), ids=repr)  # fmt: skip
def test_convention_of_ridge(check):
    check()


def sklearn_linear():
    return sklearn.linear_model.LinearRegression()


def of_pooled(X, twin):
    twin.fit(X[:, :-1], X[:, -1])
    return {"coef_": twin.coef_, "intercept_": twin.intercept_}


@pytest.mark.thinned(1)
@pytest.mark.parametrize("cov_type", ["nonrobust", "HC0", "HC1"])
@pytest.mark.parametrize("sizes", [(80, 80), (1, 200)], ids=str)
def test_equals_statsmodels(cov_type, sizes):
    X = made()
    oracle, scale = theirs(X, cov_type)

    ours = up.LinearRegression(cov_type=cov_type).fit(silos(X, sizes), "y")

    slopes = scale.iloc[1:]
    assert_allclose(ours.coef_, oracle.params.iloc[1:] / slopes, **CLOSE)
    assert_allclose(ours.intercept_, oracle.params["const"], **CLOSE)
    assert_allclose(ours.coef_se_, oracle.bse.iloc[1:] / slopes, **CLOSE)
    assert_allclose(ours.intercept_se_, oracle.bse["const"], **CLOSE)
    assert_allclose(ours.p_values_, oracle.pvalues.iloc[1:], rtol=1e-7)
    assert_allclose(ours.intercept_p_value_, oracle.pvalues["const"], rtol=1e-7)
    wanted = oracle.conf_int(0.1).to_numpy() / np.asarray(scale)[:, None]
    assert_allclose(ours.conf_int(0.1), wanted, rtol=1e-8)
    for level in (0.95, 95, 0.0, -0.05):
        # The level in the place of its complement gave intervals at 5 %.
        with pytest.raises(DataError, match="one less the level"):
            ours.conf_int(level)
    for name, value in {
        "r2_": oracle.rsquared,
        "adjusted_r2_": oracle.rsquared_adj,
        "deviance_": oracle.ssr,
        "aic_": oracle.aic,
        "bic_": oracle.bic,
        "f_statistic_": np.asarray(oracle.fvalue).item(),
        "sigma_": np.sqrt(oracle.scale),
    }.items():
        assert_allclose(getattr(ours, name), value, rtol=1e-8)


@pytest.mark.slow
def test_heart_disease_equals_statsmodels():
    federation = up.simulate(load(), label="num", follow=True)
    filled = up.SimpleImputer().fit(federation)

    ours = up.LinearRegression().fit(filled.transform(federation), "thalach")

    people = pd.concat([one.to_pandas() for one in load().values()]).astype(float)
    X = people.drop(columns="num")
    X = X.fillna(X.mean())
    oracle = sm.OLS(X.thalach, sm.add_constant(X.drop(columns="thalach"))).fit()
    assert_allclose(ours.coef_, oracle.params.iloc[1:], **CLOSE)
    assert_allclose(ours.coef_se_, oracle.bse.iloc[1:], **CLOSE)
    assert_allclose(ours.p_values_, oracle.pvalues.iloc[1:], rtol=1e-6)
    assert ours.predictors_ == [name for name in X if name != "thalach"]


def test_a_linear_regression_takes_three_rounds_and_a_robust_one_four():
    federation = silos(made())
    rounds = [
        up.plan(up.LinearRegression(cov_type=kind), federation, "y").rounds
        for kind in ("nonrobust", "HC1")
    ]
    assert rounds == [3, 4]


def test_ledger_is_what_the_docstring_says():
    federation = silos(made())
    up.LinearRegression(cov_type="HC1").fit(federation, "y")

    out = [(x.name, x.shape) for x in federation.ledger if x.direction == "out"]
    assert out == [
        *(("count", ()), ("total", (4,))),
        ("squares", (4,)),
        ("scatter", (4, 4)),
        ("products", (4, 4)),
    ]


@pytest.mark.slow
def test_predictions_and_scores_of_new_rows():
    X = made(300)
    old, new = X[:200], X[200:]
    ours = up.LinearRegression().fit(silos(old, (60, 60)), "y")
    # It leaves out columns whose scale is small, unless they are standardised.
    twin = make_pipeline(StandardScaler(), sklearn_linear())
    twin.fit(old[list("abc")], old.y)

    assert_allclose(ours.predict(new[list("abc")]), twin.predict(new[list("abc")]))
    score = twin.score(new[list("abc")], new.y)
    assert_allclose(ours.score(silos(new, (30, 30))), score)
    assert_allclose(
        ours.score(new[list("abc")], new.y), ours.score(silos(new, (30, 30)))
    )
    same = ours.to_sklearn().predict(new[list("abc")])
    assert_allclose(same, twin.predict(new[list("abc")]))


@pytest.mark.slow
def test_cross_validation_equals_scikit_learn_on_the_same_folds():
    federation = silos(made(), follow=True)
    found = up.cross_validate(up.Ridge(1e-3), federation, "y", cv=3)
    assert np.isfinite(found["test_score"]).all()
    search = up.GridSearchCV(up.Ridge(), {"alpha": [1e-3, 1e12]}, cv=3)
    assert search.fit(federation, "y").best_params_ == {"alpha": 1e-3}


@pytest.mark.parametrize(
    ("y", "change", "sentence"),
    [
        (None, {}, "Name the column that is predicted"),
        ("nobody", {}, "no column 'nobody'"),
        ("Y", {}, "view that is fitted has no column 'Y'. Did you mean 'y' for 'Y'"),
        (["a", "y"], {}, "name one of the columns 'a', 'b'"),
        ("y", {"d": lambda X: 2 * X.a - X.c}, "is a linear combination of"),
        ("y", {"d": 1.0}, "'d' has no variance"),
    ],
)
def test_refused(y, change, sentence):
    with pytest.raises(DataError, match=sentence):
        up.LinearRegression().fit(silos(made().assign(**change)), y)


def test_a_label_is_no_response_and_the_remedy_is_named():
    federation = up.simulate(up.partition_rows(made(), 3), label="y")

    for y in ("y", ["y"]):
        with pytest.raises(DataError, match="without label='y'"):
            up.LinearRegression().fit(federation, y)


def test_a_dummy_for_one_person_is_refused():
    X = made().assign(one=(np.arange(N) == 7).astype(float))
    policy = up.Policy(max_released_share=1.0)

    with pytest.raises(ReleaseRefusedError, match=r"max_leverage|min_own_cells"):
        up.LinearRegression().fit(silos(X, policy=policy), "y")


def test_a_penalty_has_no_standard_errors():
    ridge = up.Ridge(3.0).fit(silos(made()), "y")

    assert "there are no standard errors" in str(ridge.summary()).replace("\n", " ")
    assert not hasattr(ridge, "conf_int")
    with pytest.raises(DataError, match="above 0"):
        up.Ridge(0.0).fit(silos(made()), "y")


def test_results_have_every_number():
    ours = up.LinearRegression().fit(silos(made()), "y")

    table = ours.summary().to_frame("coefficients")
    assert table["column"].tolist() == ["intercept", "a", "b", "c"]
    assert_allclose(table["coefficient"][1:], ours.coef_)
    assert_allclose(table[["low", "high"]], ours.conf_int())
    p = theirs(made())[0].f_pvalue
    fit = ours.summary().to_frame("goodness_of_fit").set_index("measure")["value"]
    assert_allclose(fit["p of the F test"], p, rtol=1e-6)
    assert p < 0.001
    assert "The F test, that all coefficients are 0, has p < 0.001." in str(
        ours.summary()
    )


@pytest.mark.slow
def test_any_split_gives_the_same_answer():
    X = made()
    whole = up.LinearRegression().fit(silos(X), "y")
    for make in SPLITS.values():
        tables = {
            f"p{i}": X.iloc[rows] for i, rows in enumerate(make((X.a > 0).to_numpy()))
        }
        other = up.LinearRegression().fit(up.simulate(tables, policy=OPEN), "y")
        assert_allclose(other.coef_, whole.coef_, **CLOSE)
        assert_allclose(other.coef_se_, whole.coef_se_, **CLOSE)


@pytest.mark.slow
def test_a_pipeline_with_a_scaler_predicts_the_same():
    X = made()
    steps = up.StandardScaler(), up.LinearRegression()
    with pytest.raises(DataError):
        make_pipeline(*steps).fit(silos(X), "nobody")
    model = make_pipeline(*steps).fit(silos(X), "y")
    assert model[-1].r2_ == pytest.approx(theirs(X)[0].rsquared)
    # Of centred columns the intercept is 0, and not the rounding error that it is.
    coefficients = model[-1].summary().to_frame("coefficients").set_index("column")
    assert coefficients.loc["intercept", ["coefficient", "statistic"]].tolist() == [
        0,
        0,
    ]


def test_columns_are_chosen_behind_a_choice_of_complete_rows():
    X = made()
    X.loc[::10, "b"] = np.nan
    federation = silos(X, follow=True).select(["b", "a", "y"]).complete_rows()

    ours = up.LinearRegression().fit(federation, "y")

    assert ours.n_samples_ == len(X.dropna())
    oracle, scale = theirs(X.dropna()[["b", "a", "y"]])
    assert_allclose(ours.coef_, (oracle.params / scale).iloc[1:], **CLOSE)


def test_a_constant_response_has_results_without_errors():
    X = made().assign(y=3.0)
    ours = up.LinearRegression().fit(silos(X), "y")

    results = ours.summary()
    table = results.to_frame("coefficients")
    assert_allclose(table["coefficient"], [3.0, *np.zeros(len(X.columns) - 1)])
    assert_allclose(table["standard_error"], 0.0)
    assert "coefficient / standard error" in results._repr_html_()
