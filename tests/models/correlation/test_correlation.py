"""Correlation on a federation: pandas' correlations of the pooled rows, with tests."""

import numpy as np
import pandas as pd
import pytest
import scipy.stats
import statsmodels.api as sm
import statsmodels.stats.multitest
from numpy.testing import assert_allclose, assert_array_equal
from statsmodels.stats.outliers_influence import variance_inflation_factor

import unpooled as up
from line_fields import fields
from unpooled.data.heart_disease import load
from unpooled.errors import DataError, ReleaseRefusedError
from unpooled.testing import check_estimator

# A scatter keeps twelve digits of the bound of every entry, a ratio of three loses one.
ATOL = 1e-10
NAMES = ["age", "trestbps", "thalach", "oldpeak"]
OPEN = up.Policy.open()


def words(summary):
    return " ".join(str(summary).split())


def pooled(X, y):
    R = np.corrcoef(X.T)
    upper = np.triu_indices(len(R), 1)
    pairs = [
        scipy.stats.pearsonr(X[:, i], X[:, j]) for i, j in zip(*upper, strict=True)
    ]
    p_values = np.zeros_like(R)
    p_values[upper] = [pair.pvalue for pair in pairs]
    low, high = np.eye(len(R)), np.eye(len(R))
    low[upper], high[upper] = zip(
        *(p.confidence_interval() for p in pairs), strict=True
    )
    both = p_values + p_values.T
    return {
        "correlation_": R,
        "mean_": X.mean(axis=0),
        "n_samples_": len(X),
        "p_value_": both,
        "confidence_low_": low + low.T - np.eye(len(R)),
        "confidence_high_": high + high.T - np.eye(len(R)),
    }


@pytest.mark.parametrize(
    "check",
    check_estimator(up.Correlation(), pooled=pooled, generate_only=True),
    ids=repr,
)
def test_convention(check):
    check()


@pytest.mark.parametrize(
    "check",
    check_estimator(
        up.Correlation("pairwise"),
        pooled=lambda X, y: {"correlation_": np.corrcoef(X.T)},
        generate_only=True,
    ),
    ids=repr,
)
def test_convention_of_pairs(check):
    check()


@pytest.fixture(scope="module")
def hospitals():
    return {name: t.to_pandas().drop(columns="num") for name, t in load().items()}


@pytest.fixture(scope="module")
def pool(hospitals):
    return pd.concat(hospitals.values())


@pytest.fixture(scope="module")
def complete(hospitals):
    return up.Correlation().fit(up.simulate(hospitals).select(NAMES))


@pytest.fixture(scope="module")
def pairwise(hospitals):
    return up.Correlation("pairwise").fit(up.simulate(hospitals, policy=OPEN))


def test_complete_rows_of_heart_disease(complete, pool):
    rows = pool[NAMES].dropna()

    assert complete.n_samples_ == len(rows) < len(pool)
    assert_allclose(complete.correlation_, rows.corr(), atol=ATOL)
    assert_allclose(complete.mean_, rows.mean(), rtol=1e-12)


def test_pairs_of_heart_disease(pairwise, pool):
    assert_allclose(pairwise.correlation_, pool.corr(), atol=ATOL)
    there = pool.notna().to_numpy().astype(int)
    assert_array_equal(pairwise.n_pairs_, there.T @ there)
    assert not hasattr(pairwise, "partial_correlation_")


@pytest.mark.slow
def test_adjusted_p_values_are_statsmodels(pairwise):
    upper = np.triu_indices(len(pairwise.p_value_), 1)
    p = pairwise.p_value_[upper]
    for method, ours in (
        ("holm", pairwise.p_holm_),
        ("fdr_bh", pairwise.p_benjamini_hochberg_),
    ):
        theirs = statsmodels.stats.multitest.multipletests(p, method=method)[1]
        assert_allclose(ours[upper], theirs, rtol=1e-12)
        assert_array_equal(ours, ours.T)


def test_partial_correlations_are_those_of_residuals(complete, pool):
    rows = pool[NAMES].dropna().to_numpy()
    N, p = rows.shape
    for i, j in ((0, 1), (1, 3)):
        others = np.delete(rows, [i, j], axis=1)
        design = np.column_stack([np.ones(N), others])
        left = (
            rows[:, [i, j]]
            - design @ np.linalg.lstsq(design, rows[:, [i, j]], rcond=None)[0]
        )
        r = np.corrcoef(left.T)[0, 1]
        assert_allclose(complete.partial_correlation_[i, j], r, atol=ATOL)
        t = r * np.sqrt((N - p) / (1 - r**2))
        assert_allclose(
            complete.partial_p_value_[i, j],
            2 * scipy.stats.t.sf(abs(t), N - p),
            rtol=1e-7,
        )


def test_variance_inflation_is_statsmodels(complete, pool):
    rows = pool[NAMES].dropna()
    design = np.column_stack([np.ones(len(rows)), rows])
    theirs = [variance_inflation_factor(design, j + 1) for j in range(len(NAMES))]
    assert_allclose(complete.variance_inflation_, theirs, rtol=1e-9)
    # 1 - 1/VIF is R² of a column's regression on the others.
    shown = complete.summary().tables["variance_inflation"]
    for j, (name, factor, shared) in enumerate(shown.rows):
        others = sm.OLS(design[:, j + 1], np.delete(design, j + 1, axis=1)).fit()
        assert name == NAMES[j]
        assert_allclose([factor, shared], [theirs[j], others.rsquared], rtol=1e-9)


def test_released_of_complete_rows_is_what_the_docstring_says(hospitals):
    federation = up.simulate(hospitals)
    up.Correlation().fit(federation.select(NAMES))

    seen = fields(federation.ledger, "step name shape", visibility="summed")
    assert list(dict.fromkeys(seen)) == [
        ("correlation.local_total", "count", ()),
        ("correlation.local_total", "total", (4,)),
        ("correlation.local_squares", "squares", (4,)),
        ("correlation.local_scatter", "scatter", (4, 4)),
    ]


def test_large_means_keep_digits():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((60, 3)) + 1e7
    X[rng.random(X.shape) < 0.2] = np.nan
    frame = pd.DataFrame(X)
    silos = up.simulate(up.partition_rows(X, 3), policy=OPEN)
    # Means of 1e7 leave cells nine digits behind the point.
    wanted = (frame - 1e7).corr()
    for missing, theirs in (
        ("pairwise", wanted),
        ("complete", (frame - 1e7).dropna().corr()),
    ):
        ours = up.Correlation(missing).fit(silos)
        assert_allclose(ours.correlation_, theirs, atol=1e-8)


def test_collinear_and_constant_columns():
    rng = np.random.default_rng(2)
    X = rng.standard_normal((60, 4))
    X[:, 2], X[:, 3] = X[:, 0] + X[:, 1], 7.0
    silos = up.simulate(up.partition_rows(X, 3), policy=OPEN)

    ours = up.Correlation().fit(silos)

    assert_allclose(ours.correlation_[:3, :3], np.corrcoef(X[:, :3].T), atol=ATOL)
    assert np.isnan(ours.correlation_[3]).all()
    assert not hasattr(ours, "variance_inflation_")
    assert "Without variance, and so without correlations: x3" in words(ours.summary())


def test_imputed_columns_have_all_rows(hospitals, pool):
    view = up.simulate(hospitals, policy=OPEN)
    filled = up.SimpleImputer().fit_transform(view)

    ours = up.Correlation().fit(filled)

    assert ours.n_samples_ == len(pool)
    assert_allclose(ours.correlation_, pool.fillna(pool.mean()).corr(), atol=ATOL)


@pytest.mark.slow
def test_scaled_columns_are_complete_where_their_sources_are(hospitals, complete):
    view = up.simulate(hospitals, policy=OPEN).select(NAMES)
    scaled = up.StandardScaler().fit_transform(view)

    ours = up.Correlation().fit(scaled)

    assert ours.n_samples_ == complete.n_samples_
    assert_allclose(ours.correlation_, complete.correlation_, atol=ATOL)


def test_a_person_with_one_column_of_a_pair_alone_is_not_asked_about():
    X = np.random.default_rng(3).standard_normal((90, 3))
    X[:20, 1] = np.nan
    X[5, 2] = np.nan
    with pytest.raises(ReleaseRefusedError, match="min_own_cells"):
        up.Correlation("pairwise").fit(up.simulate(up.partition_rows(X, 3)))


def test_columns_that_differ_in_one_missing_cell_are_not_asked_about():
    X = np.random.default_rng(3).standard_normal((180, 4))
    X[:20, 1] = np.nan
    X[:19, 2] = np.nan  # the sums of x0 next to x1 and to x2 differ by row 19
    silos = {"a": X[:60], "b": X[60:120], "c": X[120:]}
    with pytest.raises(ReleaseRefusedError, match=r"a refused.*min_own_cells"):
        up.Correlation("pairwise").fit(up.simulate(silos))


def test_few_rows_with_a_column_alone_in_all_silos_are_not_asked_about():
    X = np.random.default_rng(3).standard_normal((180, 3))
    X[:6, 1] = np.nan
    silos = {"a": X[:60], "b": X[60:120], "c": X[120:]}
    with pytest.raises(ReleaseRefusedError, match="min_rows"):
        up.Correlation("pairwise").fit(up.simulate(silos))


def test_parameters_are_judged(hospitals):
    federation = up.simulate(hospitals)
    with pytest.raises(DataError, match="missing='listwise'; choose "):
        up.Correlation("listwise").fit(federation)
    with pytest.raises(DataError, match=r"confidence_level=1\.5"):
        up.Correlation(confidence_level=1.5).fit(federation)


def test_too_few_rows_for_an_interval():
    X = np.random.default_rng(0).standard_normal((3, 2))
    silos = up.simulate(up.partition_rows(X, 3), policy=OPEN)
    with pytest.raises(DataError, match=r"has 3 rows.*needs 4"):
        up.Correlation().fit(silos)


def test_results_and_display(complete):
    summary = complete.summary()
    pairs = summary.to_frame("pairs")
    assert list(pairs.columns[:3]) == ["column", "with", "r"]
    assert_allclose(abs(pairs["r"]).max(), abs(complete.correlation_[0, 2]), atol=1e-12)
    assert "6 pairs of 6 have a p-value by Holm below 0.05" in words(summary)
    display = up.HeatmapDisplay.from_estimator(complete)
    assert sorted(display.rows) == sorted(NAMES)
    i, j = display.rows.index("age"), display.rows.index("thalach")
    assert display.values[i, j] == complete.correlation_[0, 2]
    partial = up.HeatmapDisplay.from_estimator(complete, values="partial correlations")
    assert partial.values[i, j] == complete.partial_correlation_[0, 2]
    with pytest.raises(DataError, match="are not drawn of a Correlation"):
        up.HeatmapDisplay.from_estimator(complete, values="loadings")
    assert_array_equal(complete.to_frame().columns, NAMES)
