"""SimpleImputer on a federation: the pooled means in the missing cells."""

import numpy as np
import pandas as pd
import pytest
import sklearn.impute
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import NotFittedError

from federations import open_silos
from line_fields import fields
from twins import RTOL, assert_close
from unpooled import (
    PCA,
    ColumnTransformer,
    OneHotEncoder,
    Policy,
    SimpleImputer,
    StandardScaler,
    load,
    partition_rows,
    save,
    simulate,
)
from unpooled.errors import DataError, ReleaseRefusedError

N, P = 90, 5


@pytest.fixture(scope="module")
def holes():
    """Rows with every fifth cell missing, of columns of very different kinds."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((N, P)) * [1e-8, 1, 1e4, 1e8, 1] + [0, 1e8, -1, 1e8, 3]
    X[rng.random(X.shape) < 0.2] = np.nan
    return X


@pytest.fixture(scope="module")
def new_rows():
    X = np.arange(20.0).reshape(4, P)
    X[[0, 1, 3], [0, 4, 3]] = np.nan
    return X


def test_equals_the_pooled_twin(federate, holes, new_rows):
    theirs = sklearn.impute.SimpleImputer().fit(holes)

    ours = SimpleImputer().fit(federate(holes))

    # A mean of zero has no digits of its own: compare with the column's spread.
    size = np.maximum(np.abs(theirs.statistics_), np.nanstd(holes, axis=0))
    assert (np.abs(ours.statistics_ - theirs.statistics_) <= RTOL * size).all()
    assert ours.n_features_in_ == P
    assert_close(ours.transform(new_rows), theirs.transform(new_rows))


def test_complete_rows_pass_unchanged(holes):
    X = np.nan_to_num(holes)
    imputer = SimpleImputer().fit(open_silos(X))
    assert_array_equal(imputer.transform(X), X)


def test_arrays_given_are_left_as_they_were(holes, new_rows):
    before = new_rows.copy()
    SimpleImputer().fit(open_silos(holes)).transform(new_rows)
    assert_array_equal(new_rows, before)


def test_column_without_a_value_at_one_silo(holes):
    silos = {name: part.copy() for name, part in partition_rows(holes, 3).items()}
    silos["silo2"][:, [1, 3]] = np.nan
    pooled = np.concatenate(list(silos.values()))
    theirs = sklearn.impute.SimpleImputer().fit(pooled)

    ours = SimpleImputer().fit(simulate(silos))

    assert_close(ours.statistics_[1:], theirs.statistics_[1:])


def test_column_that_only_one_row_anywhere_has(holes):
    X = holes.copy()
    X[:, 2] = np.nan
    X[40, 2] = 6.25
    assert SimpleImputer().fit(open_silos(X)).statistics_[2] == 6.25


def test_column_without_a_value_anywhere_is_refused_by_name(holes):
    X = holes.copy()
    X[:, [1, 4]] = np.nan
    with pytest.raises(DataError, match=r"No silo has a value in x1, x4.* with select"):
        SimpleImputer().fit(open_silos(X))


def test_empty_columns_may_be_kept(holes):
    X = holes.copy()
    X[:, 1] = np.nan
    theirs = sklearn.impute.SimpleImputer(keep_empty_features=True).fit(X)
    ours = SimpleImputer(keep_empty_features=True).fit(open_silos(X))
    assert_close(ours.transform(X), theirs.transform(X))
    assert ours.statistics_[1] == theirs.statistics_[1] == 0.0
    assert_close(ours.to_sklearn().transform(X), ours.transform(X))


@pytest.mark.parametrize("fill_value", [None, 0, -1.5, np.float32(2.5), np.int64(3)])
def test_constants_ask_the_silos_nothing(holes, fill_value):
    federation = open_silos(holes)
    theirs = sklearn.impute.SimpleImputer(
        strategy="constant", fill_value=fill_value
    ).fit(holes)

    ours = SimpleImputer("constant", fill_value=fill_value).fit(federation)

    assert_array_equal(ours.transform(holes), theirs.transform(holes))
    assert len(federation.ledger) == 0


def test_constants_fill_views_though_no_step_fitted_them(holes):
    silos = partition_rows(holes, 3)
    constant = SimpleImputer("constant", fill_value=2.0)
    view = constant.fit_transform(simulate(silos))

    after = SimpleImputer().fit(view)

    assert_allclose(after.statistics_, np.nan_to_num(holes, nan=2.0).mean(axis=0))


def test_absurd_constants_single_nobody_out(holes):
    few = np.nan_to_num(holes, nan=1.0)
    few[3, 0] = np.nan
    view = SimpleImputer("constant", fill_value=1e9).fit_transform(
        simulate(partition_rows(few, 3))
    )
    with pytest.raises(ReleaseRefusedError, match="max_leverage"):
        PCA().fit(view)


@pytest.mark.parametrize("fill_value", ["x", [1.0], np.nan, np.inf, None])
def test_fill_values_that_are_no_numbers(holes, fill_value):
    imputer = SimpleImputer("constant", fill_value=fill_value)
    if fill_value is None:
        assert_array_equal(imputer.fit(open_silos(holes)).statistics_, 0.0)
        return
    with pytest.raises(DataError, match=r"fill_value=.* cannot be cast to a finite"):
        imputer.fit(open_silos(holes))


def test_a_federation_is_filled_in_its_silos(holes):
    federation = open_silos(holes)
    imputer = SimpleImputer().fit(federation)
    before = len(federation.ledger)

    view = imputer.transform(federation)

    assert view.feature_names == federation.feature_names
    assert len(federation.ledger) == before, "a view released something"
    # Filling with the mean does not move the mean, and leaves no cell to count.
    assert_close(SimpleImputer().fit(view).statistics_, imputer.statistics_)


@pytest.mark.slow
def test_twin_for_silos_without_this_library(holes, new_rows):
    for strategy in ("mean", "median", "constant"):
        imputer = SimpleImputer(strategy).fit(open_silos(holes))
        twin = imputer.to_sklearn()
        assert type(twin) is sklearn.impute.SimpleImputer
        assert twin.strategy == strategy
        assert_array_equal(twin.transform(new_rows), imputer.transform(new_rows))
        twin.statistics_[:] = 7
        assert (imputer.statistics_ != 7).all(), "the twin shares its arrays"


def test_releases_only_what_the_docstring_says(holes):
    federation = simulate(partition_rows(holes, 3))
    SimpleImputer().fit(federation)

    seen = fields(federation.ledger, "round step name shape visibility direction")

    assert seen == [
        (1, "imputer.local_counts", "count", (P,), "summed", "out"),
        (1, "imputer.local_counts", "total", (P,), "kept", "in"),
        (2, "imputer.local_observed", "count", (P,), "public", "in"),
        (2, "imputer.local_observed", "total", (P,), "summed", "out"),
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    "cuts", [[30, 60], [5, 85], [1, 2]], ids=["balanced", "skewed", "one row"]
)
@pytest.mark.parametrize("start", [0, 1], ids=["even", "odd"])
def test_medians_are_those_of_pooled_rows(holes, new_rows, cuts, start):
    X = holes[start:]
    theirs = sklearn.impute.SimpleImputer(strategy="median").fit(X)
    silos = dict(zip("abc", np.split(X, cuts), strict=True))
    federation = simulate(silos, policy=Policy.open())

    ours = SimpleImputer("median", min_rows=1).fit(federation)

    # A median is a value or the middle of two, rounded once.
    assert_allclose(ours.statistics_, theirs.statistics_, rtol=1e-15)
    assert_array_equal(ours.n_observed_, (~np.isnan(X)).sum(axis=0))
    assert_allclose(ours.transform(new_rows), theirs.transform(new_rows), rtol=1e-15)
    view = ours.transform(federation)
    filled = theirs.transform(X)
    assert_allclose(SimpleImputer().fit(view).statistics_, filled.mean(0), rtol=1e-12)


@pytest.mark.slow
def test_medians_under_default_rules_lie_among_ten_values(holes):
    X = np.random.default_rng(1).standard_normal((300, 2))
    X[::7, 1] = np.nan
    found = SimpleImputer("median").fit(simulate(partition_rows(X, 3))).statistics_
    for median, column in zip(found, X.T, strict=True):
        present = np.sort(column[~np.isnan(column)])
        # A bracket of ten values that has the median has no value farther than ten.
        middle = len(present) // 2
        assert present[middle - 10] < median < present[middle + 10]


@pytest.mark.slow
def test_medians_of_whole_numbers_are_these_numbers():
    ages = np.random.default_rng(2).integers(50, 60, (400, 2)).astype(float)
    ages[::5, 0] = np.nan
    federation = simulate(partition_rows(ages, 4))
    found = SimpleImputer("median", decimals=0).fit(federation).statistics_
    assert_array_equal(found, np.nanmedian(ages, axis=0))


@pytest.mark.slow
def test_empty_columns_have_no_median_and_may_be_kept(holes):
    X = holes.copy()
    X[:, [1, 3]] = np.nan
    with pytest.raises(DataError, match=r"No silo has a value in x1, x3, .* no median"):
        SimpleImputer("median").fit(open_silos(X))
    named = {"strategy": "median", "keep_empty_features": True}
    theirs = sklearn.impute.SimpleImputer(**named).fit(X)
    ours = SimpleImputer(min_rows=1, decimals={"x1": 0}, **named).fit(open_silos(X))
    assert_allclose(ours.transform(X), theirs.transform(X), rtol=1e-15)


@pytest.mark.slow
def test_too_few_values_have_no_median(holes):
    X = holes.copy()
    X[15:, 2] = np.nan
    with pytest.raises(DataError, match=r"Fewer than 10 values lie .* of x2"):
        SimpleImputer("median").fit(open_silos(X))


@pytest.mark.slow
def test_medians_release_only_what_the_docstring_says(holes):
    federation = simulate(partition_rows(holes, 3), follow=True)
    SimpleImputer("median").fit(federation)

    seen = fields(federation.ledger, "step name visibility", direction="out")
    search = ["below"] * 5

    assert seen == [
        ("imputer.local_counts", "count", "summed"),
        ("imputer.local_log_sums", "count", "veiled"),
        ("imputer.local_log_sums", "total", "veiled"),
        ("imputer.local_log_squares", "squares", "veiled"),
        *[("imputer.local_below", name, "veiled") for name in search],
        ("imputer.found_quantiles", "value", "summed"),
        ("imputer.found_quantiles", "error", "summed"),
    ]


def test_a_silo_refuses_a_median_that_is_a_persons_value(holes):
    with pytest.raises(ReleaseRefusedError, match="allow_order_statistics"):
        SimpleImputer("median", min_rows=1).fit(simulate(partition_rows(holes, 3)))


@pytest.mark.slow
def test_a_mean_and_a_median_of_few_missing_cells_do_not_subtract():
    X = np.random.default_rng(5).exponential(size=(N, 2))
    X[7, 1] = np.nan
    federation = simulate(partition_rows(X, 3))
    means = SimpleImputer().fit(federation)
    medians = SimpleImputer("median").fit(federation)
    StandardScaler().fit(means.transform(federation))
    # A silo that filled a cell with the mean does not silently keep it for a median.
    with pytest.raises(ReleaseRefusedError, match="another_filling"):
        StandardScaler().fit(medians.transform(federation))
    StandardScaler().fit(means.transform(federation))


@pytest.mark.slow
def test_results_name_the_median(holes):
    imputer = SimpleImputer("median", min_rows=5).fit(open_silos(holes))
    frame = imputer.summary().to_frame("columns")
    assert_array_equal(frame["median_filled_in"], imputer.statistics_)
    assert_array_equal(frame["n"], imputer.n_observed_)


def test_a_strategy_that_there_is_not(holes):
    federation = open_silos(holes)
    with pytest.raises(DataError, match='choose "mean", "median"'):
        SimpleImputer("Mean").fit(federation)
    assert len(federation.ledger) == 0


CUTS = [[70, 140], [5, 195], [1, 2]]


def mixed():
    """Return a frame of whole numbers, decimals and text, all with missing cells."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "age": rng.integers(40, 50, 200).astype(float),
            # Two values are the most frequent ones: the smaller is taken.
            "dose": np.repeat([0.1, -0.25, 1e300, 7.0], [70, 70, 40, 20]),
            "site": rng.choice(["north", "south", "west"], 200, p=[0.2, 0.2, 0.6]),
        }
    ).sample(frac=1.0, random_state=1, ignore_index=True)
    frame["site"] = frame["site"].astype(object)
    for value in (0.1, -0.25, 1e300):
        frame.loc[frame.index[frame.dose == value][:10], "dose"] = np.nan
    frame.loc[::6, "age"] = np.nan
    frame.loc[1::5, "site"] = None
    return frame


def pooled_twin(frame, **parameters):
    rows = frame.astype(object).where(frame.notna(), np.nan)
    twin = sklearn.impute.SimpleImputer(**parameters)
    return twin.fit(rows), rows


def parts_of(frame, cuts):
    edges = zip([0, *cuts], [*cuts, len(frame)], strict=True)
    return dict(zip("abc", (frame.iloc[i:j] for i, j in edges), strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("add_indicator", [False, True])
@pytest.mark.parametrize("cuts", CUTS, ids=["balanced", "skewed", "one row"])
def test_most_frequent_values_are_those_of_pooled_rows(cuts, add_indicator):
    frame = mixed()
    named = {"strategy": "most_frequent", "add_indicator": add_indicator}
    theirs, rows = pooled_twin(frame, **named)
    federation = simulate(
        parts_of(frame, cuts),
        categorical=["site"],
        policy=Policy.open(),
        follow=True,
    )

    ours = SimpleImputer(min_rows=1, **named).fit(federation)

    assert_array_equal(ours.statistics_, theirs.statistics_)
    assert ours.statistics_.tolist()[1:] == [-0.25, "west"]
    assert_array_equal(ours.transform(frame), theirs.transform(rows))
    assert_array_equal(ours.get_feature_names_out(), theirs.get_feature_names_out())
    assert_array_equal(ours.n_observed_, frame.notna().sum())
    assert ours.certain_.all()
    twin = ours.to_sklearn()
    assert_array_equal(twin.transform(rows), theirs.transform(rows))
    view = ours.transform(federation)
    assert view.categorical == ("site",)
    assert view.feature_names == tuple(ours.get_feature_names_out())
    numbers = [name for name in view.feature_names if name not in ("site", "dose")]
    filled = pd.DataFrame(theirs.transform(rows), columns=view.feature_names)
    means = filled[numbers].astype(float).mean()
    # Sums keep twelve digits.
    assert_allclose(SimpleImputer().fit(view.select(numbers)).statistics_, means, 1e-11)


@pytest.mark.slow
def test_a_silo_fills_in_a_category_that_none_of_its_rows_has():
    frame = mixed()
    frame.loc[:69, "site"] = frame.loc[:69, "site"].replace("west", "south")
    parts = parts_of(frame, [70, 140])
    for model, last in [
        (SimpleImputer("most_frequent"), ["west"]),
        (SimpleImputer("constant"), ["missing_value"]),
        (SimpleImputer("constant", fill_value="east"), ["east"]),
    ]:
        theirs, rows = pooled_twin(
            frame[["site"]], strategy=model.strategy, fill_value=model.fill_value
        )
        # A silo fills a column in one way only, so each has silos of its own.
        here = simulate(parts, categorical=["site"], follow=True)
        sites = here.select(["site"])
        made = model.fit(sites)
        assert made.statistics_.tolist() == last
        encoder = OneHotEncoder().fit(made.transform(sites))
        names, counts = np.unique(
            theirs.transform(rows).astype(str), return_counts=True
        )
        assert_array_equal(encoder.categories_[0], names)
        assert_array_equal(encoder.counts_[0], counts)


@pytest.mark.slow
def test_numbers_of_few_rows_of_a_silo_are_not_named():
    frame = mixed()[["age", "dose"]]
    frame.iloc[:3, 1] = 5.5
    federation = simulate(parts_of(frame, [70, 140]))
    ours = SimpleImputer("most_frequent", min_rows=5).fit(federation)
    few = [
        sum(
            count
            for part in parts_of(frame, [70, 140]).values()
            for count in part[name].value_counts()
            if count < 5
        )
        for name in frame
    ]
    # Three rows more, and the smaller of two that are as frequent is not for certain.
    assert few[1] >= 3
    assert ours.certain_.tolist() == [few[0] == 0, False]
    shown = " ".join(str(ours.summary()).split())
    assert "another value may be more frequent" in shown
    assert_array_equal(
        ours.statistics_, pooled_twin(frame, strategy="most_frequent")[0].statistics_
    )
    with pytest.raises(ReleaseRefusedError, match="min_rows_per_class"):
        SimpleImputer("most_frequent", min_rows=4).fit(federation)
    scattered = pd.DataFrame({"a": np.arange(200.0), "b": np.arange(200.0) % 3})
    with pytest.raises(DataError, match="No value of a is that of 10 rows"):
        SimpleImputer("most_frequent").fit(simulate(parts_of(scattered, [70, 140])))


@pytest.mark.slow
def test_what_most_frequent_values_release():
    federation = simulate(parts_of(mixed(), [70, 140]), categorical=["site"])
    model = SimpleImputer("most_frequent", add_indicator=True).fit(federation)
    assert set(fields(federation.ledger, "step name visibility", direction="out")) == {
        ("imputer.local_counts", "count", "summed"),
        ("imputer.local_values", "names", "veiled"),
        ("imputer.found_modes", "found", "summed"),
        ("imputer.found_modes", "value", "summed"),
        ("imputer.local_categories", "names", "summed"),
        ("imputer.local_missing", "missing", "summed"),
    }
    assert_array_equal(model.n_missing_, mixed().isna().sum())
    frame = model.summary().to_frame("columns")
    assert frame["most_frequent_value_filled_in"].tolist()[2] == "west"
    assert_array_equal(frame["missing"], model.n_missing_)


def test_a_category_has_no_mean_and_text_no_number():
    federation = simulate(parts_of(mixed(), [70, 140]), categorical=["site"])
    for strategy in ("mean", "median"):
        with pytest.raises(DataError, match=f"have no {strategy}"):
            SimpleImputer(strategy).fit(federation)
    with pytest.raises(DataError, match="cannot be cast to a finite"):
        SimpleImputer("constant", fill_value="none").fit(federation)


@pytest.mark.thinned(1)
@pytest.mark.parametrize("strategy", ["mean", "median", "constant"])
def test_indicators_are_those_of_pooled_rows(holes, new_rows, strategy):
    X = holes.copy()
    X[:, 1] = 3.0
    federation = open_silos(X)
    named = {"strategy": strategy, "add_indicator": True}
    theirs = sklearn.impute.SimpleImputer(**named).fit(X)
    ours = SimpleImputer(min_rows=1, **named).fit(federation)
    assert_array_equal(ours.indicator_features_, theirs.indicator_.features_)
    new = new_rows.copy()
    new[:, 1] = 3.0
    assert_close(ours.transform(new), theirs.transform(new))
    assert_close(ours.to_sklearn().transform(new), theirs.transform(new))
    view = ours.transform(federation)
    assert view.feature_names == tuple(theirs.get_feature_names_out())
    scaled = StandardScaler().fit(view)
    assert_allclose(scaled.mean_[P:], theirs.transform(X)[:, P:].mean(0), rtol=1e-12)


def test_indicators_stand_in_a_column_transformer(holes):
    federation = open_silos(holes)
    imputer = SimpleImputer(add_indicator=True)
    made = ColumnTransformer([(imputer, ["x1", "x3"])], remainder="passthrough")
    view = made.fit(federation).transform(federation)
    new = made.transform(holes)
    observed = SimpleImputer().fit(view).statistics_
    assert view.feature_names == tuple(made.get_feature_names_out())
    assert_allclose(observed, np.nanmean(new.astype(float), axis=0), rtol=1e-9)


def test_an_indicator_of_few_people_is_refused():
    X = np.random.default_rng(1).standard_normal((N, 2))
    X[7, 1] = np.nan
    federation = simulate(partition_rows(X, 3))
    with pytest.raises(ReleaseRefusedError, match="min_own_cells"):
        SimpleImputer(add_indicator=True).fit(federation)
    X[[3, 8, 9], 1] = np.nan  # two, and two, of two silos
    X[[3, 9], 1] = 0.0
    X[[7, 8, 40, 41], 1] = np.nan
    federation = simulate(partition_rows(X, 3))
    view = SimpleImputer(add_indicator=True).fit_transform(federation)
    with pytest.raises(ReleaseRefusedError, match="min_rows_per_class"):
        StandardScaler().fit(view)


@pytest.mark.slow
def test_an_indicator_is_no_filling():
    """A mean with and without indicators is one filling; a median is another."""
    X = np.random.default_rng(5).exponential(size=(N, 2))
    X[[1, 2, 31, 32, 61, 62], 1] = np.nan
    federation = simulate(partition_rows(X, 3))
    both = SimpleImputer(add_indicator=True).fit_transform(federation)
    first = StandardScaler().fit(both)
    second = StandardScaler().fit(SimpleImputer().fit_transform(federation))
    assert_allclose(first.mean_[:2], second.mean_, rtol=1e-12)
    with pytest.raises(ReleaseRefusedError, match="another_filling"):
        StandardScaler().fit(SimpleImputer("median").fit_transform(federation))


@pytest.mark.slow
def test_names_and_numbers_are_saved_and_read(tmp_path):
    federation = simulate(parts_of(mixed(), [70, 140]), categorical=["site"])
    model = SimpleImputer("most_frequent").fit(federation)
    save(model, tmp_path / "imputer.unpooled")
    again = load(tmp_path / "imputer.unpooled")
    assert again.statistics_.tolist() == model.statistics_.tolist()
    assert_array_equal(again.transform(mixed()), model.transform(mixed()))


def test_refusal_limit(holes, new_rows):
    with pytest.raises(DataError, match=r"SimpleImputer\.fit takes a Federation"):
        SimpleImputer().fit(holes)
    for ask in (
        lambda: SimpleImputer().transform(holes),
        lambda: SimpleImputer().to_sklearn(),
    ):
        with pytest.raises(NotFittedError):
            ask()
    imputer = SimpleImputer().fit(open_silos(holes))
    with pytest.raises(ValueError, match="X has 4 features, but SimpleImputer is exp"):
        imputer.transform(new_rows[:, :4])
    with pytest.raises(ValueError, match="X has 4 features, but SimpleImputer is exp"):
        imputer.transform(open_silos(holes[:, :4]))
