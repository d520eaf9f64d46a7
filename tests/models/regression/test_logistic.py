"""Logistic regression: statsmodels' and scikit-learn's answers on pooled rows."""

import re
from typing import Any

import numpy as np
import pandas as pd
import pytest
import sklearn.linear_model
import sklearn.preprocessing
import statsmodels.api as sm
from numpy.testing import assert_allclose
from sklearn.pipeline import make_pipeline

import unpooled as up
from unpooled.data.heart_disease import load
from unpooled.errors import DataError
from unpooled.testing import check_estimator

OPEN = up.Policy.open()
N, NAMES = 330, list("abc")
# Newton's last step is 1e-8 standard errors long, and the error after it its square.
CLOSE: dict[str, Any] = {"rtol": 1e-8, "atol": 1e-10}


def made(n_classes):
    rng = np.random.default_rng(4)
    X = pd.DataFrame(rng.standard_normal((N, 3)), columns=NAMES)
    eta = np.column_stack([np.zeros(N), 0.8 * X.a - 0.3, 0.5 * X.a - X.b])[
        :, :n_classes
    ]
    P = np.exp(eta) / np.exp(eta).sum(axis=1)[:, None]
    codes = (P.cumsum(axis=1) < rng.random(N)[:, None]).sum(axis=1)
    return X.assign(kind=np.array(["u", "v", "w"])[codes])


def silos(X, **options):
    # A silo of few rows, and one without a class.
    last = X.kind == X.kind.max()
    rest = X[~last][100:]
    parts = {"few": X[~last][:3], "without": X[~last][3:100]}
    parts["others"] = pd.concat([rest, X[last]])
    return up.simulate(parts, label="kind", **{"policy": OPEN, **options})


def codes(X):
    return pd.Categorical(X.kind).codes


@pytest.mark.parametrize("check", check_estimator(
    up.LogisticRegression(0.5), y="kind", generate_only=True,
    pooled=lambda X, y: of_scikit_learn(X, y, C=0.5),
), ids=repr)  # fmt: skip
def test_convention(check):
    check()


def of_scikit_learn(X, y, **options):
    twin = sklearn.linear_model.LogisticRegression(
        tol=1e-12, max_iter=10**4, solver="newton-cg", **options
    ).fit(X, y)
    return {"coef_": twin.coef_, "intercept_": twin.intercept_}


@pytest.mark.slow
@pytest.mark.parametrize("cov_type", ["nonrobust", "HC0"])
def test_two_classes_equal_statsmodels(cov_type):
    X = made(2)
    oracle = sm.Logit(codes(X), sm.add_constant(X[NAMES])).fit(
        disp=0, tol=1e-14, cov_type=cov_type
    )

    ours = up.LogisticRegression(cov_type=cov_type).fit(silos(X, follow=True))

    assert_allclose(ours.coef_[0], oracle.params.iloc[1:], **CLOSE)
    assert_allclose(ours.intercept_[0], oracle.params["const"], **CLOSE)
    assert_allclose(ours.coef_se_[0], oracle.bse.iloc[1:], **CLOSE)
    assert_allclose(ours.p_values_[0], oracle.pvalues.iloc[1:], rtol=1e-6, atol=1e-14)
    assert_allclose(ours.conf_int(), oracle.conf_int(), rtol=1e-7, atol=1e-9)
    for name, value in {
        "log_likelihood_": oracle.llf,
        "null_deviance_": -2 * oracle.llnull,
        "aic_": oracle.aic,
        "bic_": oracle.bic,
    }.items():
        assert_allclose(getattr(ours, name), value, rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("cov_type", ["nonrobust", "HC0"])
def test_three_classes_equal_statsmodels(cov_type):
    X = made(3)
    oracle = sm.MNLogit(codes(X), sm.add_constant(X[NAMES])).fit(
        disp=0, tol=1e-14, method="newton", cov_type=cov_type
    )

    ours = up.LogisticRegression(cov_type=cov_type).fit(silos(X))

    # Its functions are against the first class; ours add up to 0.
    all_of = np.column_stack([ours.intercept_, ours.coef_])
    assert_allclose((all_of[1:] - all_of[0]).T, oracle.params, **CLOSE)
    assert_allclose(all_of.sum(axis=0), 0.0, atol=1e-12)
    against = ours.contrasts()
    assert list(against.index.names) == ["class", "column"]
    for name, wanted in {
        "coefficient": oracle.params,
        "standard_error": oracle.bse,
        "z": oracle.tvalues,
    }.items():
        assert_allclose(against[name].to_numpy().reshape(2, 4).T, wanted, **CLOSE)
    p_values = against["p"].to_numpy().reshape(2, 4).T
    assert_allclose(p_values, oracle.pvalues, rtol=1e-6, atol=1e-14)
    limits = against[["low", "high"]].to_numpy()
    assert_allclose(limits, oracle.conf_int(), rtol=1e-7, atol=1e-9)
    assert_allclose(against["odds_ratio"], np.exp(against["coefficient"]))
    # The report has the same table.
    table = ours.summary().to_frame("contrasts")
    assert_allclose(table["standard_error"], against["standard_error"])
    assert_allclose(ours.aic_, oracle.aic)
    assert ours.conf_int().shape == (12, 2)


@pytest.mark.slow
def test_contrasts_against_any_class():
    ours = up.LogisticRegression().fit(silos(made(3)))
    first, last = ours.classes_[0], ours.classes_[-1]
    one = ours.contrasts().loc[str(last)]
    other = ours.contrasts(last).loc[str(first)]
    assert_allclose(one["coefficient"], -other["coefficient"])
    assert_allclose(one["standard_error"], other["standard_error"])
    with pytest.raises(DataError, match="choose"):
        ours.contrasts("nobody")
    # Of two classes they are the coefficients.
    two = up.LogisticRegression().fit(silos(made(2)))
    assert_allclose(two.contrasts()["coefficient"][1:], two.coef_[0])
    assert_allclose(two.contrasts(two.classes_[1])["coefficient"][1:], -two.coef_[0])
    with pytest.raises(DataError, match="penalised fit has no standard errors"):
        up.LogisticRegression(1.0).fit(silos(made(2))).contrasts()


@pytest.mark.slow
@pytest.mark.parametrize("site_effects", [False, True])
def test_results_of_two_classes_are_told_against_the_reference(site_effects):
    """Of "ja" and "nein" the odds are of the second, which nobody asks for."""
    X = made(2)
    parts = {name: X[k::3] for k, name in enumerate("xyz")}
    federation = up.simulate(parts, label="kind", policy=OPEN)
    ours, told = (
        up.LogisticRegression(site_effects=site_effects, **options).fit(federation)
        for options in ({}, {"reference": sorted(X.kind.unique())[1]})
    )
    # What scikit-learn has is not touched.
    assert_allclose(told.coef_, ours.coef_, rtol=1e-12)

    table = told.summary().to_frame("coefficients")
    if not site_effects:
        oracle = sm.Logit(1 - codes(X), sm.add_constant(X[NAMES]))
        oracle = oracle.fit(disp=0, tol=1e-14)
        assert_allclose(table["coefficient"], oracle.params, **CLOSE)
        assert_allclose(table[["low", "high"]], oracle.conf_int(), rtol=1e-6)
        assert_allclose(table["statistic"], oracle.tvalues, **CLOSE)
        assert_allclose(table["odds_ratio"], np.exp(oracle.params), rtol=1e-6)
    usual = ours.summary().to_frame("coefficients")
    assert_allclose(table["coefficient"], -usual["coefficient"], rtol=1e-9)
    assert_allclose(table["standard_error"], usual["standard_error"], rtol=1e-9)
    ratios = told.summary().to_frame("odds_ratio")
    wanted = 1 / ours.summary().to_frame("odds_ratio")[["ratio", "high", "low"]]
    assert_allclose(ratios[["ratio", "low", "high"]], wanted, rtol=1e-9)
    first, second = ours.classes_
    # A terminal shows tables, and not the text above them.
    caption = f"Odds ratio of {str(first)!r} against {str(second)!r} for one unit"
    table_of_ratios = told.summary().tables["odds_ratio"]
    assert table_of_ratios.caption.startswith(caption)
    assert "one standard deviation" in table_of_ratios.note
    assert f"of the class {str(first)!r} against {str(second)!r}" in str(told.summary())
    assert_allclose(
        told.contrasts()["coefficient"], ours.contrasts(second)["coefficient"]
    )


@pytest.mark.slow
def test_results_of_three_classes_are_told_against_the_reference():
    X = made(3)
    second = sorted(X.kind.unique())[1]

    ours = up.LogisticRegression(reference=second).fit(silos(X))

    table = ours.summary().to_frame("contrasts")
    assert_allclose(table["coefficient"], ours.contrasts(second)["coefficient"])
    assert list(table["class"].unique()) == [
        str(ours.classes_[0]),
        str(ours.classes_[2]),
    ]
    federation = silos(X)
    with pytest.raises(DataError, match="reference='nobody'; choose"):
        up.LogisticRegression(reference="nobody").fit(federation)
    # Before anything but the names and sizes of the classes was opened.
    assert {line.step for line in federation.ledger} == {"logistic.local_names"}
    up.plan(up.LogisticRegression(reference="nobody"), silos(X))


@pytest.mark.slow
@pytest.mark.parametrize("n_classes", [2, 3])
def test_rounds_are_at_most_four_and_those_of_the_search(n_classes):
    federation = silos(made(n_classes))

    ours = up.LogisticRegression(cov_type="HC1").fit(federation)

    assert len({line.round for line in federation.ledger}) <= 4 + ours.n_iter_


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n_classes", "options"), [(3, {"cov_type": "HC0"}), (2, {"C": 0.05})], ids=str
)
def test_a_search_by_gradients_gives_the_same(n_classes, options):
    federation = silos(made(n_classes), follow=True)
    wanted = up.LogisticRegression(**options).fit(federation)

    ours = up.LogisticRegression(**options, solver="bfgs")
    ours.fit(federation)

    # Both end within 1e-8 standard errors of the maximum.
    assert_allclose(ours.coef_, wanted.coef_, **CLOSE)
    # With a penalty the likelihood alone is not stationary there.
    assert_allclose(ours.log_likelihood_, wanted.log_likelihood_, rtol=1e-10)
    if "C" not in options:
        assert_allclose(ours.coef_se_, wanted.coef_se_, rtol=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize(("C", "n_opened"), [(np.inf, 2), (1.0, 1)])
def test_a_search_by_gradients_opens_the_information_near_its_end(C, n_opened):
    federation = silos(made(2))
    ours = up.LogisticRegression(C, solver="bfgs").fit(federation)

    search = [
        x.name
        for x in federation.ledger
        if x.direction == "out" and x.step.endswith(("working", "gradient"))
    ]
    rounds = [search[i + 1] for i, name in enumerate(search) if name == "gradient"]
    assert len(rounds) == ours.n_iter_ > 3
    assert rounds[0] == "deviance"
    assert rounds.count("information") == n_opened
    assert (rounds[-1] == "information") == (C == np.inf)


@pytest.mark.slow
def test_five_classes_of_heart_disease_fit_into_the_default_budget():
    """The blocks of the information are symmetric, and two are opened of 17 rounds."""
    federation = up.simulate(load(), label="num", random_state=0, follow=True)
    model = make_pipeline(up.SimpleImputer(), up.LogisticRegression())
    model.fit(federation, "num")

    ours = model[-1]
    rows = pd.concat([table.to_pandas() for table in load().values()])
    X, y = rows.drop(columns="num"), rows["num"].astype(int)
    # Of columns in their own units statsmodels' search does not end.
    scale = X.std().to_numpy()
    X = sm.add_constant((X.fillna(X.mean()) - X.mean()).to_numpy() / scale)
    oracle = sm.MNLogit(y.to_numpy(), X).fit(disp=0, tol=1e-12, method="newton")
    against = ours.contrasts()
    # Two searches that end within 1e-8 standard errors; these are at most 1.
    for name, wanted in {
        "coefficient": oracle.params,
        "standard_error": oracle.bse,
    }.items():
        found = against[name].to_numpy().reshape(4, 14)[:, 1:].T * scale[:, None]
        assert_allclose(found, wanted[1:], rtol=1e-7, atol=1e-8)
    opened = [x for x in federation.ledger if x.leaves and x.name == "information"]
    assert [x.shape for x in opened] == [(10, 14, 14)] * 2
    with pytest.raises(DataError, match="choose"):
        up.LogisticRegression(solver="lbfgs").fit(federation)
    X = made(2)
    separated = X.assign(kind=np.where(X.a > 0, "u", "v"))
    with pytest.raises(DataError, match=r"'a.*' foremost"):
        up.LogisticRegression(solver="bfgs").fit(
            up.simulate(
                {"r": separated[:150], "s": separated[150:]}, label="kind", policy=OPEN
            )
        )


@pytest.mark.slow
@pytest.mark.parametrize("solver", ["newton", "bfgs"])
def test_a_column_that_separates_some_rows_is_named(solver):
    X = made(2).assign(d=np.arange(N) % 5 == 0).astype({"d": float})
    X["kind"] = np.where(X.d > 0, "v", X.kind)
    model = up.LogisticRegression(solver=solver)
    with pytest.raises(DataError, match="'d' foremost"):
        model.fit(silos(X))


@pytest.mark.slow
def test_heart_disease_is_fitted_and_cross_validated_within_the_default_budget():
    people = {name: table.to_pandas() for name, table in load().items()}
    ill = {
        name: frame.assign(num=np.where(frame.num.astype(float) > 0, "yes", "no"))
        for name, frame in people.items()
    }
    federation = up.simulate(ill, label="num", random_state=0, follow=True)
    model = make_pipeline(up.SimpleImputer(), up.LogisticRegression(solver="bfgs"))
    model.fit(federation)

    found = up.cross_validate(model, federation, "num", cv=5)

    assert (found["test_score"] > 0.7).all()


@pytest.mark.slow
@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_penalty_equals_scikit_learn(n_classes):
    X = made(n_classes)
    wanted = of_scikit_learn(X[NAMES], X.kind, C=0.05)

    ours = up.LogisticRegression(C=0.05).fit(silos(X))

    assert_allclose(ours.coef_, wanted["coef_"], rtol=1e-7, atol=1e-9)
    assert_allclose(ours.intercept_, wanted["intercept_"], rtol=1e-7, atol=1e-9)
    with pytest.raises(DataError, match="no standard errors"):
        ours.conf_int()


@pytest.mark.slow
@pytest.mark.parametrize("n_classes", [2, 3])
def test_predictions_and_metrics(n_classes):
    X = made(n_classes)
    federation = silos(X, follow=True)
    ours = up.LogisticRegression().fit(federation)
    twin = sklearn.linear_model.LogisticRegression(C=np.inf, tol=1e-10, max_iter=10**4)
    twin.fit(X[NAMES], X.kind)

    proba = ours.predict_proba(X[NAMES])
    assert_allclose(proba, twin.predict_proba(X[NAMES]), atol=1e-4)
    assert (
        ours.to_sklearn().predict(X[NAMES]).tolist() == ours.predict(X[NAMES]).tolist()
    )
    accuracy = np.mean(ours.predict(X[NAMES]) == X.kind)
    assert up.metrics.accuracy_score("kind", ours.predict(federation)) == accuracy
    loss = up.metrics.log_loss("kind", ours.predict_proba(federation))
    assert loss == pytest.approx(ours.deviance_ / 2 / N)
    if n_classes == 2:
        auc = up.metrics.roc_auc_score("kind", ours.decision_function(federation))
        assert 0.5 < auc < 1.0


@pytest.mark.slow
def test_ten_orders_of_magnitude_between_columns():
    X = made(2)
    wide = X.assign(a=X.a * 1e5 + 1e6, b=X.b * 1e-5)

    plain = up.LogisticRegression().fit(silos(X))
    scaled = up.LogisticRegression().fit(silos(wide))

    # The mean of `a` is ten of its standard deviations, which costs a digit.
    assert_allclose(scaled.coef_ * [1e5, 1e-5, 1.0], plain.coef_, rtol=1e-7)
    assert_allclose(scaled.coef_se_ * [1e5, 1e-5, 1.0], plain.coef_se_, rtol=1e-7)


def test_heart_disease_equals_statsmodels():
    federation = up.simulate(load(), label="num", follow=True)
    people = pd.concat([one.to_pandas() for one in load().values()]).astype(float)
    X = people.drop(columns="num")
    filled = X.fillna(X.mean())
    imputer = up.SimpleImputer().fit(federation)
    scaler = sklearn.preprocessing.StandardScaler().fit(filled)

    model = make_pipeline(up.StandardScaler(), up.LogisticRegression(C=1.0))
    # Five classes open 56 × 57 / 2 numbers a round, more than the default budget.
    open_silos = up.simulate(load(), label="num", policy=OPEN)
    model.fit(imputer.transform(open_silos))

    wanted = of_scikit_learn(scaler.transform(filled), people.num.astype(int), C=1.0)
    assert_allclose(model[-1].coef_, wanted["coef_"], rtol=1e-6, atol=1e-8)


@pytest.mark.thinned(1)
@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"kind": "u"}, "the single class"),
        ({"d": lambda X: X.a - X.b}, "linear combination"),
        ({"kind": lambda X: np.where(X.a > 0, "u", "v")}, "'a.*' foremost"),
    ],
)
def test_refused(change, sentence):
    X = made(2).assign(**change)
    parts = {"r": X[:100], "s": X[100:200], "t": X[200:]}
    with pytest.raises(DataError, match=sentence):
        up.LogisticRegression().fit(up.simulate(parts, label="kind", policy=OPEN))


@pytest.mark.slow
def test_cross_validated_and_searched():
    X = made(2)
    parts = {"r": X[:110], "s": X[110:220], "t": X[220:]}
    policy = up.Policy(max_released_share=10.0)
    federation = up.simulate(parts, label="kind", policy=policy, follow=True)

    found = up.cross_validate(up.LogisticRegression(), federation, "kind", cv=3)

    assert (found["test_score"] > 0.5).all()
    search = up.GridSearchCV(up.LogisticRegression(), {"C": [1e-6, 1.0]}, cv=3)
    search.fit(federation, "kind")
    assert search.best_params_ == {"C": 1.0}


@pytest.mark.slow
def test_results_have_odds_ratios():
    ours = up.LogisticRegression().fit(silos(made(2)))

    table = ours.summary().to_frame("coefficients")
    assert_allclose(table["odds_ratio"][1:], np.exp(ours.coef_[0]))
    limits = ours.summary().to_frame("odds_ratio")
    assert_allclose(limits["ratio"], np.exp(ours.coef_[0]))
    assert_allclose(limits[["low", "high"]], np.exp(ours.conf_int()[1:]))
    assert table["statistic"][1] == pytest.approx(ours.statistics_[0, 0])


@pytest.mark.slow
def test_results_say_of_which_class_two_classes_coefficients_are():
    summary = up.LogisticRegression().fit(silos(made(2))).summary()

    assert set(summary.to_frame("coefficients")["class"]) == {"v"}
    assert "Of the logarithm of the odds of 'v' against 'u'" in str(summary)
    # Numbers end below each other, whatever they are.
    lines = str(summary).split("Goodness of fit")[1].splitlines()
    ends = {
        len(line.rstrip()) for line in lines if re.match(r"(AIC|sample size) ", line)
    }
    assert len(ends) == 1


@pytest.mark.slow
def test_coefficients_of_classes_stand_side_by_side():
    ours = up.LogisticRegression(0.5).fit(silos(made(3)))

    by_class, every = ours.summary().exhibits[0].tables
    assert by_class.place == "everywhere"
    assert by_class.column("class_w") == [ours.intercept_[2], *ours.coef_[2]]
    assert by_class.column("column") == ["intercept", *NAMES]
    # One below the other they are in the files alone.
    assert every.place == "files"
    assert every.column("coefficient")[1:4] == ours.coef_[0].tolist()
    with_errors = up.LogisticRegression().fit(silos(made(3))).summary()
    # With errors pages have those against the first class beside them.
    places = [table.place for table in with_errors.exhibits[0].tables]
    assert places == ["everywhere", "files", "everywhere"]
