"""IterativeImputer on a federation: each column predicted from all others."""

import warnings

import numpy as np
import pandas as pd
import pytest
import sklearn.impute
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline

import unpooled as up
from federations import open_silos
from line_fields import fields
from unpooled import IterativeImputer, Policy, partition_rows, simulate
from unpooled.data import heart_disease
from unpooled.errors import DataError, ReleaseRefusedError
from unpooled.testing import check_estimator

N, P = 120, 5
# Both solve the same normal equations, of condition below 1e4 here, from sums that are
# exact to 1e-16: a factor of 1e4 for the regressions of three sweeps.
RTOL = 1e-9
TOL = 1e-7
ORDERS = ("ascending", "descending", "roman", "arabic")


def with_holes(n=N, seed=3, complete=1):
    """Rows of correlated columns of different scales; the first ones are complete."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, P)) @ rng.standard_normal((P, P))
    X = X * [0.1, 1, 20, 1, 5] + [0, 1e3, -1, 5, 3]
    share = np.linspace(0.1, 0.3, P - complete)
    X[:, complete:][rng.random((n, P - complete)) < share] = np.nan
    return X


@pytest.fixture(scope="module")
def holes():
    return with_holes()


@pytest.fixture(scope="module")
def new_rows():
    X = with_holes(40, seed=4, complete=0)
    X[3] = np.nan
    return X


@pytest.fixture(scope="module")
def heart():
    """Four hospitals, zeros of cholesterol missing, and no row without a value."""
    frames = {
        name: pd.DataFrame(table.to_pydict())[list(heart_disease.FEATURES)].astype(
            float
        )
        for name, table in heart_disease.load().items()
    }
    return {n: f.assign(chol=f["chol"].replace(0, np.nan)) for n, f in frames.items()}


def theirs(X, n=10, **parameters):
    """Fit scikit-learn's on pooled rows; it warns, as nothing is below a tol of 0."""
    twin = sklearn.impute.IterativeImputer(
        LinearRegression(), tol=0, max_iter=n, **parameters
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return twin.fit(X)


def assert_near(found, wanted, X, rtol=RTOL):
    """Compare cells in units of their column's standard deviation."""
    assert (np.abs(found - wanted) <= rtol * np.nanstd(X, axis=0)).all()


@pytest.mark.slow
def test_equals_the_pooled_twin_column_by_column(federate, holes, new_rows):
    twin = theirs(holes, 3)

    ours = IterativeImputer(3, updates="column").fit(federate(holes))

    assert_near(ours.transform(holes), twin.transform(holes), holes)
    assert_near(ours.transform(new_rows), twin.transform(new_rows), holes)
    assert ours.n_iter_ == twin.n_iter_ == 3
    order = [triplet.feat_idx for triplet in twin.imputation_sequence_]
    assert ours.targets_.tolist() == order


@pytest.mark.slow
@pytest.mark.parametrize("skip_complete", [False, True])
@pytest.mark.parametrize("order", ORDERS)
def test_orders_are_those_of_the_twin(holes, new_rows, order, skip_complete):
    options = {"imputation_order": order, "skip_complete": skip_complete}
    twin = theirs(holes, 2, **options)

    ours = IterativeImputer(2, updates="column", **options).fit(open_silos(holes))

    assert_near(ours.transform(new_rows), twin.transform(new_rows), holes)
    again = ours.to_sklearn().transform(new_rows)
    assert_near(again, twin.transform(new_rows), holes)


@pytest.mark.slow
@pytest.mark.parametrize(("updates", "n"), [("sweep", 24), ("column", 8)])
def test_both_ways_converge_to_the_cells_of_the_twin(updates, n):
    rng = np.random.default_rng(8)
    X, new = rng.standard_normal((2, N, 4))
    for rows in (X, new):
        rows += 0.4 * rows[:, [0]]
        rows[:, 1:][rng.random((N, 3)) < 0.2] = np.nan
    twin = theirs(X, 60)

    ours = IterativeImputer(n, updates=updates).fit(open_silos(X))

    # Of the error a sweep of the joint way leaves the share of cells that are missing
    # in a direction of the columns, about 0.4 at most here: 0.4^24 is 3e-10. The chain
    # leaves a product of correlations and shares, below 0.1.
    assert_near(ours.transform(X), twin.transform(X), X, TOL)
    assert_near(ours.transform(new), twin.transform(new), X, TOL)
    assert ours.change_ < TOL


@pytest.mark.slow
def test_every_sweep_makes_the_generalised_variance_smaller(holes):
    sizes = []
    for n in range(1, 4):
        ours = IterativeImputer(n).fit(open_silos(holes))
        filled = (ours.transform(holes) - np.nanmean(holes, 0)) / np.nanstd(holes, 0)
        sizes.append(np.linalg.slogdet(np.cov(filled.T))[1])
    assert (np.diff(sizes) < 0).all()


@pytest.mark.slow
def test_hearts_of_four_hospitals(heart):
    X = pd.concat(heart.values()).to_numpy()
    federation = simulate(heart, policy=Policy.open())
    ours = IterativeImputer(2, updates="column").fit(federation)
    twin = theirs(X, 2)
    assert_near(ours.transform(X), twin.transform(X), X)
    assert_allclose(ours.mean_, twin.transform(X).mean(axis=0), rtol=1e-12)
    assert_allclose(ours.std_, twin.transform(X).std(axis=0), rtol=1e-10)
    assert_allclose(ours.observed_std_, np.nanstd(X, axis=0), rtol=1e-12)
    assert_array_equal(ours.n_regressed_, np.isnan(X).sum(axis=0))


def leverages(X):
    """Diagonal of the hat matrix of a regression on columns and an intercept."""
    D = np.column_stack([np.ones(len(X)), X])
    U, sizes, _ = np.linalg.svd(D / np.linalg.norm(D, axis=0).clip(1e-300), False)
    U = U[:, sizes > 1e-10 * sizes[0]]
    return (U**2).sum(axis=1)


def rare(frame, label=None, least=10, per_class=5, ratio=0.33, limit=0.95):
    """Return which rows of a silo keep their means, written down once more."""
    missing = frame.isna()
    pattern = missing.apply(lambda row: "".join("01"[int(x)] for x in row), axis=1)
    whole = pattern == "0" * missing.shape[1]
    classes = pd.Series(0, frame.index) if label is None else label
    filled = {}
    for name in pattern[~whole].unique():
        rows = pattern == name
        has = [one == "0" for one in name]
        while rows.any():
            before = rows
            counts = classes[rows].value_counts()
            if label is not None:
                rows = rows & classes.isin(counts.index[counts >= per_class])
            if rows.sum() < least or sum(has) > ratio * rows.sum():
                rows = rows & False
                break
            h = pd.Series(0.0, frame.index)
            h[rows] = leverages(frame.loc[rows, has].to_numpy())
            rows = rows & (h <= limit)
            if rows.equals(before):
                break
        if rows.any():
            filled[name] = rows
    while filled:
        rest = ~np.logical_or.reduce([*filled.values()])
        means = frame[rest].fillna(frame[rest].mean()).fillna(0.0)
        enough = rest.sum() >= max(least, frame.shape[1] / ratio)
        if not rest.any() or (enough and leverages(means).max() <= limit):
            break
        del filled[min(filled, key=lambda name: filled[name].sum())]
    if not filled:
        return ~whole
    return ~whole & ~np.logical_or.reduce([*filled.values()])


@pytest.mark.slow
@pytest.mark.parametrize("follow", [False, True])
@pytest.mark.parametrize("updates", ["sweep", "column"])
def test_rare_patterns_keep_their_means_under_a_policy(heart, updates, follow):
    """The oracle fills these cells before; their means are those of all others."""
    heart = {name: frame.reset_index(drop=True) for name, frame in heart.items()}
    pooled = pd.concat(heart.values(), ignore_index=True)
    held = pd.concat([rare(frame) for frame in heart.values()], ignore_index=True)
    before = pooled.where(~held, pooled.fillna(pooled.mean()))
    federation = simulate(heart, follow=follow)
    n = 2 if updates == "column" else 10

    ours = IterativeImputer(n, updates=updates).fit(federation)

    assert_array_equal(ours.n_regressed_, before.isna().sum())
    made = up.StandardScaler().fit(ours.transform(federation))
    if updates == "column":
        expected = theirs(before.to_numpy(), n).transform(before.to_numpy())
        assert_allclose(made.mean_, expected.mean(axis=0), rtol=1e-10)
        assert_allclose(made.var_, expected.var(axis=0), rtol=1e-9)
    assert_allclose(made.mean_, ours.mean_, rtol=1e-12)
    assert_allclose(np.sqrt(made.var_), ours.std_, rtol=1e-12)


@pytest.mark.slow
def test_classes_of_a_pattern_are_not_small_either(heart):
    tables = heart_disease.load()
    found = IterativeImputer(1).fit(simulate(tables, label="num"))
    expected = 0
    for table in tables.values():
        frame = pd.DataFrame(table.to_pydict())
        X = frame[list(heart_disease.FEATURES)].astype(float)
        expected = expected + X.isna()[~rare(X, frame["num"])].sum()
    assert_array_equal(found.n_regressed_, expected)


@pytest.mark.slow
def test_columns_that_a_silo_lacks_altogether(holes):
    silos = {name: part.copy() for name, part in partition_rows(holes, 3).items()}
    silos["silo2"][:, [2, 4]] = np.nan
    X = np.concatenate(list(silos.values()))
    ours = IterativeImputer(2, updates="column")
    ours.fit(simulate(silos, policy=Policy.open()))
    assert_near(ours.transform(X), theirs(X, 2).transform(X), X)


@pytest.mark.slow
def test_collinear_and_constant_columns(holes, new_rows):
    """Minimum norm in the columns' own units, as NumPy's and scikit-learn's."""
    rng = np.random.default_rng(5)
    X = rng.standard_normal((N, 4))
    X = np.column_stack([X, X[:, 0] + 2 * X[:, 1], np.full(N, 3.0)])
    X[rng.random((N, 6)) < [0, 0, 0.2, 0.3, 0, 0]] = np.nan
    new = rng.standard_normal((20, 6))
    new[rng.random((20, 6)) < 0.3] = np.nan
    ours = IterativeImputer(3, updates="column").fit(open_silos(X))
    unit = np.where(np.nanstd(X, axis=0) > 0, np.nanstd(X, axis=0), 1.0)
    apart = ours.transform(new) - theirs(X, 3).transform(new)
    assert (np.abs(apart) <= RTOL * unit).all()
    joint = IterativeImputer(36).fit(open_silos(X)).transform(X)
    limit = theirs(X, 100).transform(X)
    assert (np.abs(joint - limit) <= TOL * unit).all()


@pytest.mark.slow
def test_rows_without_a_missing_cell_teach_regressions_all_the_same(holes):
    X = np.nan_to_num(holes)
    new = with_holes(30, seed=9, complete=0)
    for updates in ("sweep", "column"):
        federation = open_silos(X)
        ours = IterativeImputer(60, updates=updates).fit(federation)
        assert_array_equal(ours.transform(X), X)
        # The regressions of complete columns, which the totals of one round give.
        assert_near(ours.transform(new), theirs(X, 60).transform(new), X, TOL)
        assert len({line.round for line in federation.ledger}) == 3


@pytest.mark.slow
def test_a_single_column_has_its_mean():
    X = np.arange(40.0)[:, None]
    X[::7] = np.nan
    for updates in ("sweep", "column"):
        ours = IterativeImputer(updates=updates).fit(open_silos(X))
        assert ours.n_iter_ == 0
        assert_allclose(ours.transform(X)[0], np.nanmean(X), rtol=1e-15)


def test_releases_are_those_of_the_docstring(holes):
    federation = open_silos(holes)
    IterativeImputer(2).fit(federation)
    seen = fields(
        federation.ledger, "round step name shape visibility", direction="out"
    )
    name = "iterative_imputer."
    sums = [("count", ()), ("total", (P,)), ("products", (P, P))]
    first = seen[0][0]
    wanted = [(0, "local_counts", "count", (P,)), (1, "local_observed", "total", (P,))]
    wanted += [(2, "local_filled", *one) for one in sums[:1]]
    wanted += [(2, "local_filled", "regressed", (P,))]
    wanted += [(2, "local_filled", *one) for one in sums[1:]]
    wanted += [(r, "local_imputed", *one) for r in (3, 4) for one in sums]
    assert seen == [
        (first + r, name + step, array, shape, "summed")
        for r, step, array, shape in wanted
    ]


@pytest.mark.slow
def test_column_by_column_takes_a_round_for_each_incomplete_column(holes):
    federation = open_silos(holes)
    IterativeImputer(2, updates="column", skip_complete=True).fit(federation)
    # Counts, sums, rows with means; four columns in two sweeps; the completed rows.
    assert len({line.round for line in federation.ledger}) == 3 + 2 * (P - 1) + 1


@pytest.mark.slow
def test_other_steps_follow_it(heart):
    federation = simulate(heart, follow=True)
    model = make_pipeline(IterativeImputer(3), up.StandardScaler(), up.PCA(2))
    model.fit(federation)
    assert model[-1].components_.shape == (2, 13)
    assert np.isfinite(model.transform(pd.concat(heart.values()))).all()


@pytest.mark.slow
def test_some_columns_of_a_table(heart):
    federation = simulate(heart)
    blood = ["trestbps", "chol", "thalach", "age"]
    model = up.make_column_transformer(
        (IterativeImputer(2), blood), remainder="passthrough"
    )
    made = model.fit(federation).transform(federation)
    scaled = up.StandardScaler().fit(made.select(blood))
    assert np.all(scaled.n_samples_seen_ == 920)


@pytest.mark.slow
def test_a_saved_model_transforms_alike(holes, new_rows, tmp_path):
    for updates in ("sweep", "column"):
        ours = IterativeImputer(2, updates=updates).fit(open_silos(holes))
        path = tmp_path / f"{updates}.unpooled"
        up.save(ours, path)
        again = up.load(path)
        assert_array_equal(again.transform(new_rows), ours.transform(new_rows))
        assert again.get_params() == ours.get_params()


@pytest.mark.slow
def test_results_say_what_was_filled_by_what(heart):
    summary = IterativeImputer(5).fit(simulate(heart)).summary()
    text = " ".join(str(summary).split())
    assert "were predicted from the other columns" in text
    assert "were filled with the column’s mean" in text
    frame = summary.to_frame()
    assert {"predicted", "sd_before", "sd_after"} <= set(frame.columns)
    # Predicted cells spread more than means do, and less than observed ones.
    ours = IterativeImputer(5).fit(simulate(heart))
    mean_filled = ours.observed_std_ * np.sqrt(ours.n_observed_ / ours.n_samples_)
    assert (ours.std_ >= mean_filled * (1 - 1e-12)).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    "updates", ["sweep", pytest.param("column", marks=pytest.mark.slow)]
)
def test_keeps_the_conventions(holes, updates):
    check_estimator(IterativeImputer(2, updates=updates), holes)


@pytest.mark.slow
def test_names_come_out_as_they_went_in(heart):
    ours = IterativeImputer(1).fit(simulate(heart))
    assert list(ours.get_feature_names_out()) == list(heart_disease.FEATURES)
    assert ours.transform(simulate(heart)).feature_names == heart_disease.FEATURES


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"max_iter": 0}, "whole number of at least 1"),
        ({"updates": "row"}, "updates='row'"),
        ({"imputation_order": "random"}, "imputation_order='random'"),
    ],
)
def test_parameters_are_checked(holes, parameters, message):
    with pytest.raises(DataError, match=message):
        IterativeImputer(**parameters).fit(open_silos(holes))


def test_a_column_without_a_value_is_refused_by_name(holes):
    X = holes.copy()
    X[:, 3] = np.nan
    with pytest.raises(DataError, match=r"No silo has a value in x3.* with select"):
        IterativeImputer().fit(open_silos(X))


def test_partitions_of_columns_are_refused(holes):
    silos = {"a": holes[:, :2], "b": holes[:, 2:]}
    federation = simulate(silos, policy=Policy.open(), partition="columns")
    with pytest.raises(DataError, match="partitions by rows, not by columns"):
        IterativeImputer().fit(federation)


def test_only_a_sequence_of_regressions_has_a_twin(holes):
    with pytest.raises(DataError, match='only updates="column" has a twin'):
        IterativeImputer(1).fit(open_silos(holes)).to_sklearn()


@pytest.mark.slow
def test_folds_are_for_what_follows(heart):
    federation = simulate(heart_disease.load(), label="num", random_state=0)
    model = make_pipeline(IterativeImputer(2), up.LinearDiscriminantAnalysis(2))
    plan = up.plan(model, federation.folds(3)[0][0])
    assert {rule for _, _, rule in plan.refusals} == {"imputed_parts"}
    with pytest.raises(ReleaseRefusedError, match="cross-validate what follows"):
        model.fit(federation.folds(3)[0][0])
    whole = simulate(heart_disease.load(), label="num", random_state=0)
    filled = IterativeImputer(2).fit(whole).transform(whole)
    for train, test in filled.folds(3):
        fitted = up.LinearDiscriminantAnalysis(2).fit(train)
        assert up.metrics.accuracy_score("num", fitted.predict(test)) > 0.4
