"""Linear regression where parties have other columns of the same people."""

import re

import numpy as np
import pandas as pd
import pytest
import sklearn.linear_model
import sklearn.metrics
import statsmodels.api as sm
from numpy.testing import assert_allclose
from sklearn.pipeline import make_pipeline

import unpooled as up
from command_line import call
from line_fields import fields
from party_views import chosen
from unpooled.errors import DataError, ReleaseRefusedError, StudyError
from unpooled.models.regression.linear_columns import (
    local_residual_products,
    own_mixtures,
)
from unpooled.study import Study
from unpooled.testing import check_estimator, check_step

N = 120
NAMES = list("abcdef")
SPLITS = {
    "two": (["a", "b", "c"], ["d", "e", "f", "y"]),
    "one column": (["a"], ["y", "b", "c", "d", "e", "f"]),
    "response alone": (NAMES, ["y"]),
    "three": (["a", "b"], ["c", "y", "d"], ["e", "f"]),
}
# Sums keep twelve digits; the condition number of these predictors takes two.
RTOL = 1e-9


def made(n=N, seed=0, units=(1.0, 1e5, 1e-5, 1.0, 100.0, 1.0)):
    """Predictors with factors in common, in units ten orders of magnitude apart."""
    rng = np.random.default_rng(seed)
    common = rng.standard_normal((n, 2)) @ rng.standard_normal((2, 6))
    Z = common + rng.standard_normal((n, 6))
    y = Z @ [0.5, -1.0, 0.0, 2.0, 0.0, 0.1] + rng.standard_normal(n) + 7.0
    return pd.DataFrame(Z * units + np.asarray(units), columns=NAMES).assign(y=y)


def by_columns(X, split="two", **options):
    parties = {f"p{i}": X[names] for i, names in enumerate(SPLITS[split])}
    options = {"policy": up.Policy.open(), **options}
    return up.simulate(parties, partition="columns", **options)


def in_order(split):
    """The predictors as the federation has them: party by party."""
    return [name for names in SPLITS[split] for name in names if name != "y"]


def oracle(X, names):
    Z = X[names]
    # In units in which its own solver keeps its digits.
    scale = Z.std()
    return sm.OLS(X.y, sm.add_constant((Z - Z.mean()) / scale)).fit(), scale


@pytest.mark.parametrize("split", SPLITS)
def test_equals_statsmodels_on_joined_columns(split, secure_sum):
    X, names = made(), in_order(split)
    theirs, scale = oracle(X, names)

    federation = by_columns(X, split, secure_sum=secure_sum)
    ours = up.LinearRegression().fit(federation, "y")

    assert ours.predictors_ == names
    for name, value in {
        "r2_": theirs.rsquared,
        "adjusted_r2_": theirs.rsquared_adj,
        "sigma_": np.sqrt(theirs.scale),
        "f_statistic_": float(np.asarray(theirs.fvalue)),
        "deviance_": theirs.ssr,
        "aic_": theirs.aic,
        "bic_": theirs.bic,
    }.items():
        assert_allclose(getattr(ours, name), value, rtol=1e-8)
    assert_allclose(ours.predict(federation), theirs.fittedvalues, rtol=RTOL)
    # What follows every party discloses, which these allow.
    assert_allclose(ours.coef_, theirs.params.iloc[1:] / scale, rtol=RTOL)
    assert_allclose(ours.coef_se_, theirs.bse.iloc[1:] / scale, rtol=RTOL)
    assert_allclose(ours.p_values_, theirs.pvalues.iloc[1:], rtol=1e-6)
    plain = sm.OLS(X.y, sm.add_constant(X[names] / scale)).fit()
    assert_allclose(ours.intercept_, plain.params["const"], rtol=1e-8)
    assert_allclose(ours.intercept_se_, plain.bse["const"], rtol=1e-8)
    wanted = plain.conf_int(0.1).to_numpy() / np.append(1.0, scale)[:, None]
    assert_allclose(ours.conf_int(0.1), wanted, rtol=1e-7)


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("alpha", [0.1, 30.0])
def test_ridge_equals_sklearns(split, alpha, secure_sum):
    X, names = made(units=[1.0, 2.0, 0.5, 1.0, 3.0, 1.0]), in_order(split)
    theirs = sklearn.linear_model.Ridge(alpha).fit(X[names], X.y)
    federation = by_columns(X, split, secure_sum=secure_sum)
    ours = up.Ridge(alpha).fit(federation, "y")
    assert_allclose(ours.coef_, theirs.coef_, rtol=RTOL)
    assert_allclose(ours.intercept_, theirs.intercept_, rtol=RTOL)
    assert_allclose(ours.r2_, theirs.score(X[names], X.y), rtol=RTOL)
    assert_allclose(ours.predict(federation), theirs.predict(X[names]), rtol=RTOL)
    assert not hasattr(ours, "coef_se_")


def test_ridge_of_more_predictors_than_people_and_of_collinear_ones():
    rng = np.random.default_rng(0)
    wide = pd.DataFrame(rng.standard_normal((30, 50))).add_prefix("x")
    wide = wide.assign(x9=wide.x1 + wide.x40, y=rng.standard_normal(30))
    names = [f"x{j}" for j in range(50)]
    theirs = sklearn.linear_model.Ridge(2.0).fit(wide[names], wide.y)
    parties = {"one": wide[names[:20]], "two": wide[[*names[20:], "y"]]}
    federation = up.simulate(parties, partition="columns", policy=up.Policy.open())
    ours = up.Ridge(2.0).fit(federation, "y")
    assert_allclose(ours.coef_, theirs.coef_, rtol=1e-8, atol=1e-10)


@pytest.mark.slow
def test_new_people_are_predicted_before_the_response_is_known():
    X, names = made(), in_order("two")
    model = up.LinearRegression().fit(by_columns(X), "y")
    new = made(40, seed=1)
    found = model.predict(by_columns(new.assign(y=np.nan)))
    theirs, scale = oracle(X, names)
    Z = (new[names] - X[names].mean()) / scale
    assert_allclose(found, theirs.predict(sm.add_constant(Z)), rtol=RTOL)
    assert_allclose(model.predict(new[names]), found, rtol=RTOL)
    assert_allclose(model.to_sklearn().predict(new[names]), found, rtol=RTOL)


@pytest.mark.slow
def test_silos_that_follow_know_the_model_though_not_the_others_names():
    federation = by_columns(made(), "three", follow=True)
    alone = by_columns(made(), "three")
    for kind in (up.LinearRegression, up.Ridge):
        ours, theirs = kind().fit(federation, "y"), kind().fit(alone, "y")
        assert_allclose(ours.coef_, theirs.coef_)
        assert_allclose(ours.predict(federation), theirs.predict(alone))


@pytest.mark.slow
def test_held_out_rows():
    X, names = made(units=[1.0] * 6), in_order("three")
    federation = by_columns(X, "three")
    train, test = federation.train_test_split(test_size=0.25, random_state=0)
    model = up.LinearRegression().fit(train, "y")
    inside, outside = chosen(train), chosen(test)
    theirs = sklearn.linear_model.LinearRegression()
    theirs.fit(X[names].iloc[inside], X.y.iloc[inside])
    found = theirs.predict(X[names].iloc[outside])
    assert_allclose(model.predict(test), found, rtol=RTOL)


@pytest.mark.slow
def test_order_of_parties_changes_nothing():
    X = made()
    parties = {f"p{i}": X[names] for i, names in enumerate(SPLITS["three"])}
    turned = dict(reversed(parties.items()))
    how = {"partition": "columns", "policy": up.Policy.open()}
    one = up.LinearRegression().fit(up.simulate(parties, **how), "y")
    other = up.LinearRegression().fit(up.simulate(turned, **how), "y")
    places = [other.predictors_.index(name) for name in one.predictors_]
    assert_allclose(other.coef_[places], one.coef_, rtol=RTOL)
    assert_allclose(other.intercept_, one.intercept_, rtol=RTOL)


def test_what_leaves_is_what_the_docstring_says():
    federation = by_columns(made())
    planned = up.plan(up.LinearRegression(), federation, "y")
    up.LinearRegression().fit(federation, "y")
    left = fields(federation.ledger, "step name shape visibility", direction="out")
    shares = "r2 residual intercept intercept_variance condition".split()
    assert left == [
        ("linear.local_image", "image", (N, 16), "veiled"),
        ("linear.local_products", "gram", (16, 16), "veiled"),
        ("linear.local_products", "centre", (16,), "veiled"),
        ("linear.local_products", "response", (16,), "veiled"),
        ("linear.local_products", "squares", (), "veiled"),
        ("linear.local_products", "mean", (), "veiled"),
        *[("linear.own_coefficients", name, (), "summed") for name in shares],
    ]
    assert left == fields(
        planned.releases, "step name shape visibility", direction="out"
    )


@pytest.mark.slow
def test_who_has_predictions_and_coefficients():
    rules = {"allow_row_level": "parties", "min_parties": 2}
    rules["max_released_share"] = 10.0
    hidden = by_columns(made(), policy=up.Policy(**rules))
    model = up.LinearRegression(scores="parties").fit(hidden, "y")
    assert model.predict(hidden).predicted_by.model is model
    with pytest.raises(ReleaseRefusedError, match="allow_disclosed"):
        _ = model.coef_
    with pytest.raises(ReleaseRefusedError, match="allow_row_level"):
        up.LinearRegression().fit(hidden, "y").predict(hidden)
    with pytest.raises(ReleaseRefusedError, match="allow_row_level"):
        up.LinearRegression().fit(
            by_columns(made(), policy=up.Policy(min_parties=2)), "y"
        )
    # One of three silos alone has the response.
    three = by_columns(made(), "three", policy=up.Policy(**rules))
    with pytest.raises(ReleaseRefusedError, match="allow_disclosed"):
        up.LinearRegression().fit(three, "y")


def test_files_keep_what_the_coordinator_has(tmp_path):
    federation = by_columns(made())
    model = up.LinearRegression().fit(federation, "y")
    up.save(model, tmp_path / "model.unpooled")
    again = up.load(tmp_path / "model.unpooled")
    assert_allclose(again.predict(federation), model.predict(federation))
    with pytest.raises(DataError, match="kept in the silos"):
        _ = again.coef_
    assert "R²" in str(again.summary())


@pytest.mark.parametrize(
    ("model", "change", "y", "says"),
    [
        (up.LinearRegression(), {"f": 1.0}, "y", "constant or collinear"),
        (up.LinearRegression(), {"f": lambda X: X.a + X.d}, "y", "collinear"),
        (up.LinearRegression(), {"f": np.nan}, "y", "Missing|missing"),
        (up.LinearRegression(), {}, "z", "no column 'z'"),
        (up.LinearRegression(), {}, None, "Name the column"),
        (up.LinearRegression(cov_type="cluster"), {}, "y", "knows the clusters"),
        (up.LinearRegression(site_effects=True), {}, "y", "site_effects"),
        (up.Ridge(site_effects=True), {}, "y", "site_effects"),
        (up.LinearRegression(scores="all"), {}, "y", "scores='all'"),
        (up.Ridge(0.0), {}, "y", "must be a number above 0"),
    ],
)
def test_what_cannot_be_done_is_refused(model, change, y, says):
    with pytest.raises(DataError, match=says):
        model.fit(by_columns(made().assign(**change)), y)


def test_too_few_people():
    with pytest.raises(DataError, match="more than 7 rows"):
        up.LinearRegression().fit(by_columns(made(7)), "y")


def test_nobody_may_predict():
    federation = by_columns(made())
    model = up.LinearRegression(scores=None).fit(federation, "y")
    for ask in (model.score, model.predict):
        with pytest.raises(DataError, match="nobody may predict"):
            ask(federation)


# --- Robust errors ------------------------------------------------------------------


def uneven(n=300):
    """Rows whose errors' variance grows with a predictor."""
    X = made(n)
    rng = np.random.default_rng(3)
    return X.assign(y=X.y + np.abs(X.a) * rng.standard_normal(n))


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("cov_type", ["HC0", "HC1"])
def test_robust_errors_equal_statsmodels(split, cov_type, secure_sum):
    X, names = uneven(), in_order(split)
    _, scale = oracle(X, names)
    plain = sm.OLS(X.y, sm.add_constant(X[names] / scale))
    theirs = plain.fit(cov_type=cov_type, use_t=True)

    federation = by_columns(X, split, secure_sum=secure_sum, follow=True)
    ours = up.LinearRegression(cov_type=cov_type).fit(federation, "y")

    assert_allclose(ours.intercept_se_, theirs.bse["const"], rtol=1e-8)
    assert_allclose(ours.f_statistic_, np.asarray(theirs.fvalue).item(), rtol=1e-8)
    assert_allclose(ours.coef_se_, theirs.bse.iloc[1:] / scale, rtol=1e-8)
    assert_allclose(ours.p_values_, theirs.pvalues.iloc[1:], rtol=1e-6, atol=1e-300)
    assert_allclose(ours.sigma_, np.sqrt(plain.fit().scale), rtol=1e-8)


def test_robust_errors_leave_what_the_docstring_says():
    federation = by_columns(made())
    model = up.LinearRegression(cov_type="HC0")
    planned = up.plan(model, federation, "y")
    model.fit(federation, "y")
    left = fields(federation.ledger, "step name shape visibility", direction="out")
    assert left[-4:] == [
        ("linear.local_residual_products", "products", (16, 16), "veiled"),
        ("linear.local_residual_products", "weighted", (16,), "veiled"),
        ("linear.own_robust_errors", "intercept_variance", (), "summed"),
        ("linear.own_robust_errors", "wald", (), "summed"),
    ]
    assert left == fields(
        planned.releases, "step name shape visibility", direction="out"
    )


def test_residuals_cannot_be_solved_for_from_their_products():
    # 6 predictors: 21 products and 13 further numbers, three times of which is 102.
    few, enough = made(101), made(102)
    model = up.LinearRegression(cov_type="HC0")
    with pytest.raises(DataError, match="could be solved for"):
        model.fit(by_columns(few), "y")
    assert model.fit(by_columns(enough), "y").coef_se_.shape == (6,)
    # A silo checks it too, whoever asks.
    Q = np.linalg.qr(np.random.default_rng(0).standard_normal((30, 16)))[0]
    kept = {"basis": Q, "rows": np.zeros((30, 2))}
    with pytest.raises(DataError) as refused:
        local_residual_products.function(
            kept, ["a", "y"], target="y", gram=np.eye(16), response=np.ones(16)
        )
    assert refused.value.rule == "max_feature_ratio"


# --- Scores -------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("split", SPLITS)
def test_scores_on_new_people_equal_sklearns(split, secure_sum):
    X, names = made(units=[1.0] * 6), in_order(split)
    federation = by_columns(X, split, secure_sum=secure_sum, follow=True)
    train, test = federation.train_test_split(test_size=0.25, random_state=0)
    inside, outside = chosen(train), chosen(test)
    for ours, theirs in (
        (up.LinearRegression(), sklearn.linear_model.LinearRegression()),
        (up.Ridge(5.0, scores="parties"), sklearn.linear_model.Ridge(5.0)),
    ):
        ours.fit(train, "y")
        theirs.fit(X[names].iloc[inside], X.y.iloc[inside])
        new, y = X[names].iloc[outside], X.y.iloc[outside]
        assert_allclose(ours.score(test), theirs.score(new, y), rtol=RTOL)
    # The predictions of the last one, which the silos keep.
    view, found = ours.predict(test), theirs.predict(new)
    error = sklearn.metrics.root_mean_squared_error(y, found)
    assert_allclose(up.metrics.root_mean_squared_error("y", view), error, rtol=RTOL)
    raw = up.metrics.r2_score("y", view, multioutput="raw_values")
    assert_allclose(raw, [theirs.score(new, y)], rtol=RTOL)


@pytest.mark.slow
@pytest.mark.parametrize("scores", ["coordinator", "parties"])
def test_cross_validation_equals_sklearns(scores):
    X, names = made(units=[1.0] * 6), in_order("three")
    federation = by_columns(X, "three", follow=True)
    model = make_pipeline(up.StandardScaler(), up.Ridge(5.0, scores=scores))
    error = "mean_squared_error"
    names_of_scores = ["r2", f"neg_{error}", f"neg_root_{error}"]
    found = up.cross_validate(
        model, federation, "y", cv=3, scoring=names_of_scores, random_state=4
    )
    wanted = {name: [] for name in names_of_scores}
    for train, test in federation.folds(3, random_state=4):
        # The response is scaled too, as every column is.
        inside, outside = X.iloc[chosen(train)], X.iloc[chosen(test)]
        scaled = (outside - inside.mean()) / inside.std(ddof=0)
        rows = (inside - inside.mean()) / inside.std(ddof=0)
        theirs = sklearn.linear_model.Ridge(5.0).fit(rows[names], rows.y)
        predicted = theirs.predict(scaled[names])
        wanted["r2"].append(sklearn.metrics.r2_score(scaled.y, predicted))
        for name in (error, f"root_{error}"):
            metric = getattr(sklearn.metrics, name)
            wanted[f"neg_{name}"].append(-metric(scaled.y, predicted))
    for name, values in wanted.items():
        assert_allclose(found[f"test_{name}"], values, rtol=RTOL)


@pytest.mark.slow
def test_a_score_opens_predictions_for_the_silos_alone():
    rules = {"allow_row_level": "parties", "min_parties": 2}
    rules["max_released_share"] = 10.0
    federation = by_columns(made(), policy=up.Policy(**rules))
    model = up.LinearRegression().fit(federation, "y")
    before = len(list(federation.ledger))
    model.score(federation)
    left = fields(
        federation.ledger[before:], "step name shape visibility", direction="out"
    )
    assert left == [
        ("linear.local_predictions", "predictions", (N,), "veiled"),
        ("linear.local_score_squares", "residual", (), "veiled"),
        ("linear.local_score_squares", "squares", (), "veiled"),
        ("linear.own_score", "score", (), "summed"),
    ]
    with pytest.raises(ReleaseRefusedError, match="allow_row_level"):
        model.predict(federation)
    three = by_columns(made(), "three", policy=up.Policy(**rules, allow_disclosed=True))
    fitted = up.LinearRegression().fit(three, "y")
    assert 0.0 < fitted.score(three) < 1.0


@pytest.mark.parametrize(
    ("ask", "says"),
    [
        (lambda fed: up.cross_validate(up.PCA(2), fed), "judged on folds"),
        (lambda fed: up.jackknife(up.Ridge(), fed, "y"), "jackknife would compare"),
        (
            lambda fed: up.GridSearchCV(up.Ridge(), {"alpha": [1.0, 2.0]}).fit(
                fed, "y"
            ),
            "one candidate",
        ),
        (
            lambda fed: up.metrics.r2_score(
                "a", up.Ridge(scores="parties").fit(fed, "y").predict(fed)
            ),
            "predicts 'y'",
        ),
    ],
)
def test_what_cannot_be_judged_is_refused(ask, says):
    with pytest.raises(DataError, match=says):
        ask(by_columns(made()))


STUDY = """
[study]
name = "apart"
partition = "columns"
aligned = true
random_state = 0
[parties]
one = "one.csv"
two = "two.csv"
[policy]
min_parties = 2
allow_row_level = "parties"
max_released_share = 100.0
[[steps]]
model = "LinearRegression"
y = ["y"]
cov_type = "HC1"
scores = "parties"
[evaluate]
cv = 3
"""


def written(tmp_path, text=STUDY):
    X = made()
    for name, columns in zip(("one", "two"), SPLITS["two"], strict=True):
        X[columns].to_csv(tmp_path / f"{name}.csv", index=False)
    path = tmp_path / "study.toml"
    path.write_text(text)
    return Study.from_file(path)


@pytest.mark.slow
def test_a_study_judges_folds_by_columns(tmp_path):
    study = written(tmp_path)
    planned = study.plan()
    run = study.run()
    federation = study.federation()
    found = up.cross_validate(
        up.LinearRegression(scores="parties"),
        federation,
        "y",
        cv=3,
        scoring=["r2", "neg_root_mean_squared_error"],
    )
    assert run.evaluation is not None
    for name, values in run.evaluation.scores.items():
        assert_allclose(values, found[f"test_{name}"])
    sent = {(x.step, x.name) for x in planned.releases}
    assert ("linear.own_score", "score") in sent
    assert "R²" in (run.folder / "report.html").read_text()
    (whole,) = run.models.values()
    again = up.LinearRegression(cov_type="HC1", scores="parties").fit(federation, "y")
    assert_allclose(whole.intercept_se_, again.intercept_se_)
    assert_allclose(whole.f_statistic_, again.f_statistic_)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("cv = 3", "cv = 3\njackknife = 4"), "by rows only"),
        (('model = "LinearRegression"\ny = ["y"]\ncov_type = "HC1"',
          'model = "PCA"'), "LinearRegression, Ridge"),
    ],
)  # fmt: skip
def test_a_study_says_what_is_not_judged_by_columns(tmp_path, change, says):
    with pytest.raises(StudyError, match=says):
        written(tmp_path, STUDY.replace(*change))


@pytest.mark.slow
def test_folds_open_no_products_of_residuals():
    federation = by_columns(made())
    model = up.LinearRegression(cov_type="HC1")
    up.cross_validate(model, federation, "y", cv=2)
    assert not [x for x in federation.ledger if "residual_products" in x.step]


def test_mixtures_are_a_function_of_the_rows():
    check_step(own_mixtures, made(), columns=[*NAMES, "y"],
               target="y", width=9, scaled=True)  # fmt: skip


def of_joined(twin):
    def fitted(X, y):
        twin.fit(X[:, :-1], X[:, -1])
        return {"intercept_": twin.intercept_}

    return fitted


COLUMNS = {"y": ["f"], "partition": "columns", "generate_only": True}


@pytest.mark.parametrize(
    "check",
    [
        *check_estimator(
            up.LinearRegression(),
            pooled=of_joined(sklearn.linear_model.LinearRegression()),
            **COLUMNS,
        ),
        *check_estimator(
            up.Ridge(2.0),
            pooled=of_joined(sklearn.linear_model.Ridge(2.0)),
            **COLUMNS,
        ),
    ],
    ids=repr,
)
def test_convention(check):
    check()


def constant_in_one(**changed):
    X = made().assign(**changed)
    return by_columns(X, "three")


def test_a_plan_refuses_a_predictor_that_is_constant_at_its_silo():
    federation = constant_in_one(e=3.0)

    plan = up.plan(up.LinearRegression(), federation, "y")

    assert {(party, rule) for party, _, rule in plan.refusals} == {
        ("p2", "constant_columns")
    }
    assert set(plan.refused_columns) == {("e",)}
    with pytest.raises(DataError, match="constant or collinear"):
        up.LinearRegression().fit(federation, "y")


@pytest.mark.thinned(1)
@pytest.mark.parametrize(
    ("model", "y"), [(up.Ridge(), "y"), (up.CCA(1), None), (up.PCA(2), None)]
)
def test_no_plan_refuses_a_constant_column_that_the_fit_takes(model, y):
    federation = constant_in_one(e=3.0)

    assert up.plan(model, federation, y).refusals == ()
    model.fit(federation, y)


@pytest.mark.thinned(1)
@pytest.mark.parametrize("y", ["y", ["y"]])
def test_a_response_may_be_constant_in_plan_and_fit(y):
    federation = constant_in_one(y=3.0)

    assert up.plan(up.LinearRegression(), federation, y).refusals == ()
    assert_allclose(up.LinearRegression().fit(federation, y).intercept_, 3.0)


def test_a_plan_by_rows_refuses_a_constant_predictor_and_no_response():
    X = made().assign(e=3.0, y=2.0)
    federation = up.simulate(up.partition_rows(X, 3), policy=up.Policy.open())

    plan = up.plan(up.LinearRegression(), federation, "y")
    assert {rule for *_, rule in plan.refusals} == {"constant_columns"}
    assert set(plan.refused_columns) == {("e",)}


@pytest.mark.slow
def test_a_study_with_a_constant_predictor_ends_at_its_plan(tmp_path):
    X = made().assign(e=3.0)
    parties = ""
    for i, names in enumerate(SPLITS["three"]):
        X[names].to_csv(tmp_path / f"p{i}.csv", index=False)
        parties += f'[parties.p{i}]\nsource = "p{i}.csv"\n'
    text = (
        '[study]\nname = "same"\npartition = "columns"\naligned = true\n'
        f"{parties}[policy]\nallow_row_level = true\nmax_leverage = 1.0\n"
        '[[steps]]\nmodel = "LinearRegression"\ny = "y"\n'
    )
    (tmp_path / "study.toml").write_text(text)

    shown = call("plan", tmp_path / "study.toml", width=200)
    ran = call("run", tmp_path / "study.toml", width=200)

    assert shown.exit_code == ran.exit_code == 1
    assert "p2, columns: 'e'" in " ".join(shown.stdout.split())
    assert "constant_columns" in ran.stderr
    assert not (tmp_path / "runs").exists(), "something may have left"


@pytest.mark.slow
def test_the_plan_says_how_many_people_its_numbers_take():
    """A silo counts the numbers of all silos' totals about its own few columns."""
    rules = {"allow_row_level": True, "allow_disclosed": True, "max_leverage": 1.0}

    def federation(n):
        return by_columns(made(n), "three", policy=rules)

    plan = up.plan(up.LinearRegression(), federation(400), "y")
    assert "p0, with 2 of 7, allows them by a share of 0.33" in plan.opened
    least = int(re.findall(r"from ([\d,]+) people", plan.opened)[0].replace(",", ""))

    up.LinearRegression().fit(federation(least), "y")
    # Whole people: a silo rounds the cells of its columns down.
    with pytest.raises(ReleaseRefusedError, match="max_released_share"):
        up.LinearRegression().fit(federation(least - 2), "y")
