"""RobustScaler and QuantileTransformer equal scikit-learn's on pooled rows."""

import numpy as np
import pytest
import sklearn.preprocessing as theirs
from numpy.testing import assert_allclose

import unpooled as up
from unpooled.errors import DataError
from unpooled.testing import check_estimator

# Rounding of a difference, and of an interpolation.
RTOL = 1e-12


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(6)
    X = np.exp(rng.standard_normal((200, 3))) * [1.0, 10.0, 1e4]
    X[4, 0] = np.nan
    return X


def silos(X, **options):
    return up.simulate(dict(zip("abc", np.split(X, [60, 120]), strict=True)), **options)


@pytest.mark.slow
@pytest.mark.parametrize("parameters", [{}, {"unit_variance": True}])
def test_robust_scaler_is_scikit_learns(rows, parameters):
    federation = silos(rows, policy=up.Policy.open())
    ours = up.RobustScaler(min_rows=1, **parameters).fit(federation)
    twin = theirs.RobustScaler(**parameters).fit(rows)
    new = rows[::-3] * 1.5
    assert_allclose(ours.transform(new), twin.transform(new), rtol=RTOL)
    assert_allclose(ours.to_sklearn().transform(new), twin.transform(new), rtol=RTOL)


@pytest.mark.slow
@pytest.mark.parametrize("output", ["uniform", "normal"])
def test_quantile_transformer_is_scikit_learns(rows, output):
    named = {"n_quantiles": 11, "output_distribution": output}
    federation = silos(rows, policy=up.Policy.open())
    ours = up.QuantileTransformer(min_rows=1, **named).fit(federation)
    twin = theirs.QuantileTransformer(subsample=None, **named).fit(rows)
    new = rows[::-3] * 1.5
    assert_allclose(ours.quantiles_, twin.quantiles_, rtol=RTOL)
    assert_allclose(ours.transform(new), twin.transform(new), rtol=1e-9)


@pytest.mark.slow
def test_outer_quantiles_move_inward(rows):
    model = up.QuantileTransformer(n_quantiles=5).fit(silos(rows))
    ordered = np.sort(rows[:, 1])
    low, high = model.quantiles_[[0, -1], 1]
    # The bracket of the tenth value has values on both sides of it.
    assert ordered[0] < low < ordered[25]
    assert ordered[-25] < high < ordered[-1]
    assert (np.diff(model.quantiles_, axis=0) >= 0).all()


@pytest.mark.slow
def test_default_rules_leave_scales_within_brackets(rows):
    model = up.RobustScaler().fit(silos(rows))
    twin = theirs.RobustScaler().fit(rows)
    assert_allclose(model.center_, twin.center_, rtol=0.15)
    assert_allclose(model.scale_, twin.scale_, rtol=0.3)


def test_a_column_of_mostly_equal_values_keeps_its_scale():
    X = np.random.default_rng(2).standard_normal((200, 2))
    X[:, 1] = np.arange(200) % 10 == 0
    assert up.RobustScaler().fit(silos(X)).scale_[1] == 1.0


@pytest.mark.thinned(1)
@pytest.mark.parametrize(
    ("model", "words"),
    [
        (up.RobustScaler(quantile_range=(75, 25)), "the smaller first"),
        (up.RobustScaler(quantile_range=(1.0, 99.0)), "at or beyond a quantile"),
        (up.QuantileTransformer(n_quantiles=1), "a whole number from 2"),
        (up.QuantileTransformer(output_distribution="flat"), '"uniform" or "normal"'),
        (up.QuantileTransformer(min_rows=120), "Fewer than 240 values"),
    ],
)
def test_mistakes_are_named(rows, model, words):
    with pytest.raises(DataError, match=words):
        model.fit(silos(rows))


X = np.random.default_rng(1).standard_normal((64, 3))


@pytest.mark.parametrize(
    "check",
    check_estimator(up.RobustScaler(), X, generate_only=True)
    + check_estimator(up.QuantileTransformer(n_quantiles=4), X, generate_only=True),
    ids=repr,
)
def test_conventions(check):
    check()
