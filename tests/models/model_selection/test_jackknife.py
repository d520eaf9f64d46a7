"""Delete-one-block jackknife: the spread of scikit-learn's fits without each block."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.stats
import sklearn.cross_decomposition
import sklearn.decomposition
import sklearn.discriminant_analysis
import sklearn.preprocessing
from numpy.testing import assert_allclose
from sklearn.pipeline import make_pipeline

import unpooled as up
from pooled_folds import pooled_folds, pooled_rows
from splits import SPLITS
from unpooled.errors import DataError, ReleaseRefusedError
from unpooled.models.base import FederatedEstimator
from unpooled.models.files.catalogue import estimators
from unpooled.models.model_selection.jackknife import Jackknife, jackknife_of

# A standard error is a difference of estimates that agree to 1e-12, a hundredth of
# them or more: ten digits.
CLOSE: dict[str, Any] = {"rtol": 1e-8, "atol": 1e-10}


def rows(n=300):
    rng = np.random.default_rng(5)
    y = rng.integers(0, 3, n)
    X = rng.standard_t(8, (n, 4)) * [4.0, 2.5, 1.5, 1.0] + y[:, None] * [1, 0, 2, 0]
    return pd.DataFrame(X, columns=list("abcd")).assign(kind=y)


def federated(split="balanced", **options):
    frame = rows()
    places = SPLITS[split](frame["kind"].to_numpy())
    tables = {f"s{k}": frame.iloc[own] for k, own in enumerate(places)}
    options = {"policy": up.Policy.open(), "random_state": 3, **options}
    return up.simulate(tables, label="kind", **options)


def n_rounds(federation, after=0):
    return len({line.round for line in federation.ledger[after:]})


def expected(federation, g, fit, towards):
    """Return the standard error and bias by pseudo-values, of fits on pooled rows.

    `fit` takes rows and labels; estimates take the signs that are nearest `towards`,
    where it is not None.
    """
    X, y = (np.asarray(part) for part in pooled_rows(federation))
    N, whole = len(X), fit(X, y)

    def signed(value):
        if towards is None:
            return value
        return value * np.sign((value * towards).sum(axis=1, keepdims=True))

    whole = signed(whole)
    others, sizes = [], []
    for train, test in pooled_folds(federation, g, shuffle=False):
        others.append(signed(fit(X[train], y[train])))
        sizes.append(len(test))
    # Written out for one block at a time, from Busing et al., equations 3 to 5.
    estimate = g * whole
    for other, m in zip(others, sizes, strict=True):
        estimate = estimate - (1 - m / N) * other
    variance = 0.0
    for other, m in zip(others, sizes, strict=True):
        h = N / m
        pseudo = h * whole - (h - 1) * other
        variance = variance + (pseudo - estimate) ** 2 / (h - 1)
    return np.sqrt(variance / g), whole - estimate


def pooled_components(X, y):
    scaled = sklearn.preprocessing.StandardScaler().fit_transform(X)
    return sklearn.decomposition.PCA(2).fit(scaled).components_


@pytest.mark.slow
@pytest.mark.parametrize("secure_sum", ["masked", "plain"])
@pytest.mark.parametrize("split", ["balanced", "skewed", "one-row", "sorted"])
def test_a_pipeline_has_the_errors_of_refits_on_pooled_rows(split, secure_sum):
    federation = federated(split, secure_sum=secure_sum)

    found = up.jackknife(
        make_pipeline(up.StandardScaler(), up.PCA(2)), federation, n_blocks=6
    )

    error, bias = expected(
        federation, 6, pooled_components, found.estimates["components_"]
    )
    assert_allclose(found.standard_errors["components_"], error, **CLOSE)
    assert_allclose(found.bias["components_"], bias, **CLOSE)
    sizes = [len(test) for _, test in pooled_folds(federation, 6, shuffle=False)]
    assert found.block_rows.tolist() == sizes
    assert found.n_rows == sum(sizes) == 300


@pytest.mark.slow
def test_a_discriminant_has_the_errors_of_refits():
    federation = federated("six", follow=True)

    found = up.jackknife(
        up.LinearDiscriminantAnalysis(), federation, "kind", n_blocks=5
    )

    def coefficients(X, y):
        model = sklearn.discriminant_analysis.LinearDiscriminantAnalysis(solver="eigen")
        return model.fit(X, y).coef_

    error, _ = expected(federation, 5, coefficients, None)
    assert_allclose(found.standard_errors["coef_"], error, **CLOSE)
    # Scalings have no sign of their own; each fit's points as that of all rows does.
    whole = found.estimates["scalings_"]
    assert ((found.replicates["scalings_"] * whole).sum(axis=1) > 0.0).all()


def test_means_have_the_textbook_error_and_interval():
    """With blocks of equal size it is the jackknife of a mean of block means."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 2))
    blocks = np.arange(200).reshape(10, 20)

    def model(places):
        fitted = up.StandardScaler()
        fitted.mean_, fitted.n_samples_ = X[places].mean(axis=0), len(places)
        fitted.n_features_in_ = 2
        return fitted

    parts = [model(np.setdiff1d(np.arange(200), block)) for block in blocks]
    found = jackknife_of(model(np.arange(200)), parts, attributes=["mean_"])

    means = X[blocks].mean(axis=1)
    error = means.std(axis=0, ddof=1) / np.sqrt(10)
    assert_allclose(found.standard_errors["mean_"], error, rtol=1e-12)
    assert_allclose(found.bias["mean_"], 0.0, atol=1e-14)
    with pytest.raises(DataError, match="one less the level"):
        found.conf_int("mean_", alpha=0.9)
    low, high = found.conf_int("mean_", alpha=0.1)
    within = scipy.stats.t.interval(0.9, 9, loc=X.mean(axis=0), scale=error)
    assert_allclose((low, high), within, rtol=1e-12)


@pytest.mark.slow
def test_a_rotation_leaves_what_the_span_does():
    """Two components of nearly equal variance turn into each other, block by block."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((900, 4)) * [3.0, 3.0, 0.3, 0.3]
    federation = up.simulate(up.partition_rows(X, 3), policy=up.Policy.open())

    by_signs = up.jackknife(up.PCA(2), federation)
    turned = up.jackknife(up.PCA(2), federation, align="rotation")

    def largest(found):
        return found.standard_errors["components_"].max()

    # The span varies by about 0.3 / 3 / sqrt(900), the axes within it much more.
    assert largest(turned) < 0.02 < 0.1 < largest(by_signs)


@pytest.mark.slow
def test_with_a_cross_validation_it_costs_at_most_twice_the_rounds_of_a_fit():
    federation = federated()
    up.PCA(2).fit(federation)
    fit, before = n_rounds(federation), len(federation.ledger)

    found = up.jackknife(up.PCA(2), federation, n_blocks=10, cv=5)

    # Two for the counts of blocks and of their rows, one for the scores.
    assert n_rounds(federation, before) == fit + 3 <= 2 * fit
    alone = up.cross_validate(up.PCA(2), federation, cv=5, shuffle=False)
    assert_allclose(found.test_scores["score"], alone["test_score"], rtol=1e-12)


@pytest.mark.slow
def test_it_opens_what_the_fits_open():
    federation = federated()
    before = len(federation.ledger)

    up.jackknife(up.PCA(2, standard_errors=True), federation, n_blocks=4)

    names = [line.name for line in federation.ledger[before:]]
    # All rows, and without each of four blocks; the errors of the model once.
    for name in ("total", "squares"):
        assert len([one for one in names if one == name]) % 5 == 0
    triangles = [
        line
        for line in federation.ledger[before:]
        if line.name == "scatter" and line.visibility == "summed"
    ]
    influences = [
        line for line in federation.ledger[before:] if "loadings" in line.name
    ]
    assert len(triangles) == 5 * len(influences) > 0


@pytest.mark.slow
def test_the_models_own_errors_stand_beside():
    federation = federated()

    found = up.jackknife(up.PCA(2, standard_errors=True), federation, n_blocks=20)

    assert set(found.of_fit) == {"components_", "explained_variance_"}
    own = found.model.components_se_
    assert_allclose(found.of_fit["components_"], own)
    # 19 degrees of freedom: a factor of two is far out.
    ratio = found.standard_errors["components_"] / own
    assert 0.7 < np.median(ratio) < 1.4
    frame = found.summary().to_frame("jackknife_components")
    assert frame.columns.tolist() == [
        *("number", "column", "estimate", "se_jackknife", "se_fit"),
        *("confidence_low", "confidence_high", "bias"),
    ]
    assert frame["column"].tolist() == [*"abcd"] * 2
    assert "Own SE" in str(found)


@pytest.mark.slow
def test_rows_of_classes_have_their_names():
    model = up.LinearDiscriminantAnalysis()
    found = up.jackknife(model, federated(), "kind", n_blocks=3)

    again = Jackknife.of_json(found.as_json())

    assert again.classes == found.classes == ["0", "1", "2"]
    table = again.summary().tables["jackknife_coef"]
    assert [column.heading for column in table.columns[:2]] == ["Class", "Column"]
    assert table.column("class") == [*"000011112222"]
    assert table.column("column") == [*"abcd"] * 3
    assert table.caption == "Coefficients (coef_)"
    # As many columns as components: which is which follows from the attribute.
    square = up.jackknife(up.PCA(4), federated(), n_blocks=3).summary()
    heads = square.tables["jackknife_components"].columns[:2]
    assert [column.heading for column in heads] == ["Component", "Column"]


@pytest.mark.slow
def test_a_file_keeps_the_numbers():
    found = up.jackknife(up.PCA(2), federated(), n_blocks=3)
    # As where a component is not determined.
    found = replace(found, of_fit={"components_": np.full((2, 4), np.nan)})

    again = Jackknife.of_json(found.as_json())

    assert again.columns == found.columns
    for name, value in found.standard_errors.items():
        assert_allclose(again.standard_errors[name], value, rtol=0)
    assert np.isnan(again.of_fit["components_"]).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        (up.PCA("parallel"), {}, "Name the number for a jackknife"),
        (up.PCA(0.9), {}, "Name the number for a jackknife"),
        (
            up.PCA(1, privacy={"epsilon": 1, "delta": 1e-5, "row_norm": 1.0}),
            {},
            "noise",
        ),
        (up.PCA(1), {"align": "order"}, 'choose "signs" or "rotation"'),
        (up.PCA(1), {"n_blocks": 0}, "choose from 2 to 20 blocks"),
        (up.PCA(1), {"n_blocks": 21}, "at most 20"),
        (up.PCA(1), {"attributes": ["coef_"], "n_blocks": 2}, "no numbers 'coef_'"),
    ],
)
def test_mistakes_are_named(model, options, message):
    with pytest.raises(DataError, match=message):
        up.jackknife(model, federated(), **options)


def test_a_model_without_numbers_has_no_jackknife():
    with pytest.raises(DataError, match="OneHotEncoder estimates no numbers"):
        jackknife_of(up.OneHotEncoder(), [])


@pytest.mark.slow
def test_a_budget_of_numbers_holds_for_all_fits_together():
    federation = federated(policy=up.Policy(max_released_share=0.08))
    up.PCA(2).fit(federation)

    with pytest.raises(ReleaseRefusedError, match="max_released_share"):
        # 5 numbers about a column for each of 6 fits, of 300 cells.
        up.jackknife(up.PCA(2), federation, n_blocks=5)


@pytest.mark.slow
def test_blocks_that_silos_do_not_share_are_refused_before_any_fit():
    """A fit without a block that no silo has is the fit of all rows: no error of it."""
    for call in (
        lambda here: up.jackknife(up.PCA(2), here, n_blocks=12),
        lambda here: up.cross_validate(up.PCA(2), here, cv=12),
    ):
        federation = federated(policy=up.Policy(), follow=True)
        with pytest.raises(ReleaseRefusedError, match="shared_blocks"):
            call(federation)
        assert not any("squares" in line.step for line in federation.ledger)


@pytest.mark.slow
def test_blocks_without_rows_have_no_error():
    """Silos that disclose their own share no number of blocks."""
    federation = federated(policy={"allow_disclosed": True})
    with pytest.raises(DataError, match="Of 12 blocks 3 have no rows"):
        up.jackknife(up.PCA(2), federation, n_blocks=12)


@pytest.mark.slow
def test_folds_that_are_unions_of_blocks_open_no_smaller_part():
    """Ten blocks and five folds of them; six folds would cut the blocks."""
    X = np.random.default_rng(0).standard_normal((720, 13))
    policy = {"max_released_share": 10.0}

    def made(cv):
        federation = up.simulate(up.partition_rows(X, 3), policy=policy, random_state=0)
        return up.jackknife(up.PCA(2), federation, n_blocks=10, cv=cv)

    assert len(made(5).test_scores["score"]) == 5
    # The same fits serve both: each training part is opened once.
    assert len(made(10).test_scores["score"]) == 10
    with pytest.raises(ReleaseRefusedError, match="max_feature_ratio"):
        made(6)


@pytest.mark.slow
def test_blocks_with_few_rows_for_the_columns_are_refused():
    """Two fits differ in a block: a scatter of 15 rows by 6 columns could be solved."""
    X = np.random.default_rng(0).standard_normal((300, 6))
    policy = {"min_rows": 2, "max_released_share": 10.0}
    federation = up.simulate(up.partition_rows(X, 3), policy=policy)
    up.jackknife(up.PCA(2), federation, n_blocks=5)

    with pytest.raises(ReleaseRefusedError, match="max_feature_ratio"):
        up.jackknife(up.PCA(2), federation, n_blocks=20)


def test_models_say_what_they_estimate_by_their_fitted_attributes():
    for name, kind in estimators().items():
        assert issubclass(kind, FederatedEstimator)
        documented = " ".join(base.__doc__ or "" for base in kind.__mro__)
        for attribute in kind._estimates:
            known = attribute in documented or name in ("PLSSVD", "PLSCanonical")
            assert known, (name, attribute)
