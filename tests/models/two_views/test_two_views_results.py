"""Results of correlations and regressions equal those of the pooled rows."""

from collections.abc import Iterable

import numpy as np
import pandas as pd
import pytest
import scipy.stats
import sklearn.cross_decomposition as theirs_of
from numpy.testing import assert_allclose
from sklearn.metrics import r2_score, root_mean_squared_error

from unpooled import CCA, PLSSVD, PLSCanonical, PLSRegression, Policy, simulate
from unpooled.results.plots.svg import svg

# Totals are right to twelve digits, and conditions are below 1e2.
RTOL, ATOL = 1e-9, 1e-11
Q = ["f", "g", "h"]
MODELS = {
    "PLSRegression": PLSRegression(2),
    "PLSRegression unscaled": PLSRegression(2, scale=False),
    "PLSRegression of all": PLSRegression(5),
    "PLSCanonical": PLSCanonical(2),
    "PLSSVD": PLSSVD(2),
    "CCA": CCA(2),
    "CCA regularised": CCA(2, regularisation=0.3),
}


@pytest.fixture(scope="module")
def views():
    rng = np.random.default_rng(4)
    common = rng.standard_normal((120, 3)) * [2.0, 1.0, 0.5]
    X = common @ rng.standard_normal((3, 5)) + rng.standard_normal((120, 5))
    Y = common @ rng.standard_normal((3, 3)) + rng.standard_normal((120, 3))
    return X * [1, 10, 1, 0.1, 1] + 3.0, Y * [1, 1, 5] - 7.0


def silos(X, Y, names: Iterable[str] = "abcdefgh", **options):
    frame = pd.DataFrame(np.column_stack([X, Y]), columns=list(names))
    return simulate({f"silo{i}": frame[i::3] for i in range(3)}, **options)


def correlations(X, Z):
    return np.corrcoef(X.T, Z.T)[: X.shape[1], X.shape[1] :]


def frame_of(model, name):
    return model.summary().to_frame(name)


@pytest.mark.thinned(1)
@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_correlations_and_fit_are_those_of_pooled_rows(views, model):
    X, Y = views
    model.fit(silos(X, Y, follow=True), y=Q)
    T, U = model.transform(X, Y)

    for name, expected in {
        "x_cross_correlations": correlations(X, U),
        "y_cross_correlations": correlations(Y, T),
    }.items():
        found = frame_of(model, name).iloc[:, 1:]
        assert_allclose(found, expected, rtol=RTOL, atol=ATOL)
    drawn = frame_of(model, "column_correlations").set_index("column").iloc[:, 1:]
    scores = T if isinstance(model, PLSRegression) else U
    assert_allclose(drawn.loc[list("abcde")], correlations(X, T), rtol=RTOL, atol=ATOL)
    assert_allclose(drawn.loc[Q], correlations(Y, scores), rtol=RTOL, atol=ATOL)
    if isinstance(model, PLSSVD):
        return
    predicted = model.predict(X)
    responses = frame_of(model, "responses")
    assert responses["response"].tolist() == Q
    each = {"multioutput": "raw_values"}
    assert_allclose(responses["r2"], r2_score(Y, predicted, **each), rtol=RTOL)
    rmse = root_mean_squared_error(Y, predicted, **each)
    assert_allclose(responses["rmse"], rmse, rtol=RTOL)
    coefficients = frame_of(model, "coefficients").iloc[:, 1:].to_numpy()
    by_hand = coefficients[0] + X @ coefficients[1:]
    assert_allclose(by_hand, predicted, rtol=RTOL, atol=1e-10)


def test_regression_equals_its_twin_and_importance_its_formula(views):
    X, Y = views
    theirs = theirs_of.PLSRegression(3, tol=1e-28, max_iter=100_000).fit(X, Y)
    model = PLSRegression(3).fit(silos(X, Y), y=Q)

    for name in ("x_loadings", "y_loadings", "x_rotations", "x_weights"):
        found = frame_of(model, name).iloc[:, 1:]
        assert_allclose(found, getattr(theirs, f"{name}_"), rtol=RTOL, atol=ATOL)
    found = frame_of(model, "coefficients").iloc[1:, 1:]
    assert_allclose(found, theirs.coef_.T, rtol=RTOL, atol=ATOL)
    # VIP as in textbooks, term by term.
    T, W, C = theirs.transform(X), theirs.x_weights_, theirs.y_loadings_
    squares = [T[:, a] @ T[:, a] * (C[:, a] @ C[:, a]) for a in range(3)]
    vip = {
        name: np.sqrt(
            5
            * sum(squares[a] * W[j, a] ** 2 / (W[:, a] @ W[:, a]) for a in range(3))
            / sum(squares)
        )
        for j, name in enumerate("abcde")
    }
    table = frame_of(model, "vip").set_index("column")["vip"]
    assert_allclose(table[list(vip)], list(vip.values()), rtol=RTOL)
    assert table.is_monotonic_decreasing
    # Shares of variance, from the components one by one.
    shares = frame_of(model, "correlations")
    for side, Z, loadings in (("x", X, theirs.x_loadings_), ("y", Y, C)):
        S = (Z - Z.mean(axis=0)) / Z.std(axis=0, ddof=1)
        left = [
            1 - np.sum((S - T[:, :k] @ loadings[:, :k].T) ** 2) / np.sum(S**2)
            for k in (1, 2, 3)
        ]
        assert_allclose(shares[f"{side}_cumulative"], left, rtol=RTOL)


def test_standardised_coefficients_are_those_of_standardised_columns(views):
    X, Y = views
    Zx, Zy = ((Z - Z.mean(axis=0)) / Z.std(axis=0, ddof=1) for Z in views)
    theirs = theirs_of.PLSRegression(2, tol=1e-28, max_iter=100_000).fit(Zx, Zy)

    model = PLSRegression(2).fit(silos(X, Y), y=Q)

    found = frame_of(model, "standardised_coefficients").iloc[:, 1:]
    assert_allclose(found, theirs.coef_.T, rtol=RTOL, atol=ATOL)
    # Of standardised columns they are the coefficients, which stand there once.
    again = PLSRegression(2).fit(silos(Zx, Zy), y=Q)
    assert "standardised_coefficients" not in again.summary().tables
    coefficients = frame_of(again, "coefficients").set_index("column")
    assert_allclose(coefficients.iloc[1:], theirs.coef_.T, rtol=RTOL, atol=ATOL)
    assert (coefficients.loc["(intercept)"] == 0).all()


@pytest.mark.thinned(1)
@pytest.mark.parametrize("k", [1, 2])
def test_one_response_is_drawn_within_the_circle(views, k):
    """Its correlation with its own scores is 1: it is drawn against x-scores."""
    X, Y = views
    model = PLSRegression(k).fit(silos(X, Y[:, :1], "abcdef"), y="f")
    table = frame_of(model, "column_correlations").set_index("column").iloc[:, 1:]
    (exhibit,) = [
        e for e in model.summary().exhibits if "column_correlations" in str(e.tables)
    ]

    assert (np.sum(table.to_numpy(float) ** 2, axis=1) <= 1 + 1e-12).all()
    expected = correlations(Y[:, :1], model.transform(X))
    assert_allclose(table.loc[["f"]], expected, rtol=RTOL, atol=ATOL)
    assert ">f<" in str(svg(exhibit.picture, "picture"))


def test_a_response_is_not_crowded_out_by_many_columns():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((120, 50))
    names = [*(f"v{j}" for j in range(50)), "response"]
    y = 0.5 * X[:, 0] + rng.standard_normal(120)
    federation = silos(X, y, names, policy=Policy.open())
    model = PLSRegression(2).fit(federation, y=["response"])

    table = model.summary().tables["column_correlations"]

    assert "response" in [row[0] for row in table.shown]
    assert len(table.shown) == 30
    assert len({row[0] for row in table.rows}) == 51


@pytest.mark.slow
def test_more_columns_than_rows_have_the_same_results():
    rng = np.random.default_rng(2)
    common = rng.standard_normal((60, 2))
    X, Y = (
        common @ rng.standard_normal((2, p)) + rng.standard_normal((60, p))
        for p in (70, 65)
    )
    names = [f"v{j}" for j in range(135)]
    federation = silos(X, Y, names, policy=Policy.open())
    model = CCA(2, regularisation=0.5).fit(federation, y=names[70:])
    T, U = model.transform(X, Y)

    for name, (columns, scores) in {
        "x_correlations_": (X, T),
        "y_correlations_": (Y, U),
        "x_cross_correlations_": (X, U),
        "y_cross_correlations_": (Y, T),
    }.items():
        expected = correlations(columns, scores)
        assert_allclose(getattr(model, name), expected, rtol=RTOL, atol=ATOL)
    r2 = r2_score(Y, model.predict(X), multioutput="raw_values")
    assert_allclose(model.r2_, r2, rtol=RTOL, atol=ATOL)
    # A page shows the columns farthest out; a file has all.
    assert len(frame_of(model, "column_correlations")) == 135


def test_significance_prints_all_pairs_as_a_table(views):
    X, Y = views
    model = CCA(1).fit(silos(X, Y), y=Q)
    test = model.significance()
    frame = test.to_frame()

    assert "< 0.001" in str(test)
    assert repr(test) == str(test)
    assert "<table>" in test._repr_html_()
    for key, attribute in {
        "correlation": model.all_correlations_,
        "wilks_lambda": test.wilks,
        "bartlett_s_statistic": test.statistic,
        "degrees_of_freedom": test.dof,
        "p_value": test.p_value,
    }.items():
        np.testing.assert_array_equal(frame[key], attribute)
    shown = frame_of(model, "correlations")
    np.testing.assert_array_equal(shown["p_value"], test.p_value)
    expected = scipy.stats.chi2.sf(test.statistic, test.dof)
    assert_allclose(test.p_value, expected, rtol=RTOL)


def test_a_constant_response_has_no_share_of_variance(views):
    X, Y = views
    Y = np.column_stack([Y[:, :2], np.full(len(Y), 4.0)])
    model = PLSRegression(1).fit(silos(X, Y, policy=Policy.open()), y=Q)

    frame = frame_of(model, "responses")

    assert np.isnan(frame["r2"].iloc[2])
    assert frame["rmse"].iloc[2] == pytest.approx(0.0, abs=1e-9)


def test_one_shot_directions_and_their_diagnosis_print_as_tables(views):
    federation = silos(*views)
    model = CCA(2, solver="dgep-eigh").fit(federation, y=Q)

    weights = frame_of(model, "y_weights").iloc[:, 1:]
    assert_allclose(weights, model.y_weights_)
    found = model.diagnose(federation)
    assert found.to_frame()["value"].iloc[0] == found.error
    assert "Error" in str(found)


def test_parties_that_keep_their_coefficients_show_none():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((60, 3))
    Y = X[:, :2] + rng.standard_normal((60, 2))
    pair = simulate({"a": X, "b": Y}, partition="columns", policy=Policy.open())
    model = PLSRegression(2).fit(pair)

    before = set(model.summary().tables)
    coef = model.coef_
    found = frame_of(model, "coefficients").iloc[1:, 1:]

    assert "coefficients" not in before
    assert_allclose(found, coef.T)
