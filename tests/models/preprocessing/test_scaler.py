"""StandardScaler on a federation: the pooled answer, cells missing or not."""

import warnings

import numpy as np
import pytest
import sklearn.preprocessing
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import NotFittedError

from federations import open_silos
from line_fields import fields
from twins import RTOL, assert_close
from unpooled import Policy, StandardScaler, partition_rows, simulate
from unpooled.errors import AggregationError, DataError

N, P = 90, 5


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(3)
    return rng.standard_normal((N, P)) * [1e-8, 1, 1e4, 1e8, 1] + [0, 1e8, -1, 1e8, 3]


@pytest.fixture(scope="module")
def holes(rows):
    """Return rows with every fifth cell missing, and half of one column."""
    X = rows.copy()
    X[np.random.default_rng(4).random(X.shape) < 0.2] = np.nan
    X[: N // 2, 2] = np.nan
    return X


@pytest.fixture(scope="module")
def new_rows(rows):
    X = rows[::-9] + rows.std(axis=0)
    X[1, 3] = np.nan
    return X


def assert_same_scaler(ours, theirs):
    """Compare everything that scikit-learn's StandardScaler estimates."""
    for name in ("mean_", "var_", "scale_"):
        a, b = getattr(ours, name), getattr(theirs, name)
        if b is None:
            assert a is None, name
        else:
            assert_allclose(a, b, rtol=RTOL, err_msg=name)
    assert_array_equal(ours.n_samples_seen_, theirs.n_samples_seen_)
    assert np.shape(ours.n_samples_seen_) == np.shape(theirs.n_samples_seen_)
    assert ours.n_features_in_ == theirs.n_features_in_


@pytest.mark.parametrize("missing", [False, True], ids=["complete", "holes"])
def test_equals_the_pooled_twin(federate, rows, holes, new_rows, missing):
    X = holes if missing else rows
    theirs = sklearn.preprocessing.StandardScaler().fit(X)

    ours = StandardScaler().fit(federate(X))

    assert_same_scaler(ours, theirs)
    scaled = theirs.transform(new_rows)
    # (x - mean) / scale loses what the mean exceeds the spread by: up to 1e8 eps.
    assert_allclose(ours.transform(new_rows), scaled, rtol=0, atol=1e-7)
    assert_allclose(ours.inverse_transform(scaled), new_rows, rtol=RTOL)


@pytest.mark.thinned(1)
@pytest.mark.parametrize("with_mean", [False, True])
@pytest.mark.parametrize("with_std", [False, True])
def test_options(holes, new_rows, with_mean, with_std):
    options = {"with_mean": with_mean, "with_std": with_std}
    theirs = sklearn.preprocessing.StandardScaler(**options).fit(holes)

    ours = StandardScaler(**options).fit(open_silos(holes))

    assert_same_scaler(ours, theirs)
    assert_allclose(ours.transform(new_rows), theirs.transform(new_rows), 1e-7, 1e-7)


@pytest.mark.thinned(1)
@pytest.mark.parametrize("constant", [0.0, 7.3, -1e8, 1e-8])
def test_constant_columns_are_not_scaled(federate, rows, constant):
    X = np.column_stack([rows[:, 4], np.full(N, constant)])

    ours = StandardScaler().fit(federate(X))

    assert ours.scale_[1] == 1.0
    # Sums of equal numbers round, so the mean is some eps off, and the variance is the
    # square of that.
    off = 8 * np.finfo(float).eps * abs(constant)
    assert_allclose(ours.mean_[1], constant, rtol=0, atol=off)
    assert_allclose(ours.var_[1], 0.0, atol=off**2)
    assert_allclose(ours.transform(X)[:, 1], 0.0, atol=off)


def test_column_that_one_silo_does_not_have_at_all(rows):
    X = rows.copy()
    silos = partition_rows(X, 3)
    silos["silo1"] = silos["silo1"].copy()
    silos["silo1"][:, 1] = np.nan
    pooled = np.concatenate(list(silos.values()))
    theirs = sklearn.preprocessing.StandardScaler().fit(pooled)

    ours = StandardScaler().fit(simulate(silos))

    assert_same_scaler(ours, theirs)
    assert_array_equal(ours.n_samples_seen_, [N, 2 * N // 3, N, N, N])


def test_column_that_nobody_has(rows):
    X = rows.copy()
    X[:, 1] = np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        theirs = sklearn.preprocessing.StandardScaler().fit(X)

    ours = StandardScaler().fit(open_silos(X))

    assert np.isnan(ours.mean_[1])
    assert np.isnan(ours.var_[1])
    assert_same_scaler(ours, theirs)
    assert np.isnan(ours.transform(rows)[:, 1]).all()


def test_no_value_at_all():
    X = np.full((30, 2), np.nan)
    with pytest.raises(DataError, match="No silo has a single value"):
        StandardScaler().fit(open_silos(X))


def test_silo_with_one_row():
    X = np.random.default_rng(0).standard_normal((20, 3))
    silos = {"one": X[:1], "rest": X[1:]}
    ours = StandardScaler().fit(simulate(silos, policy=Policy.open()))
    assert_same_scaler(ours, sklearn.preprocessing.StandardScaler().fit(X))


def test_a_federation_is_standardised_in_its_silos(rows):
    federation = open_silos(rows)
    scaler = StandardScaler().fit(federation)
    before = len(federation.ledger)

    view = scaler.transform(federation)

    assert view.feature_names == federation.feature_names
    assert len(federation.ledger) == before, "a view released something"
    again = StandardScaler().fit(view)
    assert_allclose(again.mean_, 0.0, atol=1e-7)
    assert_allclose(again.var_, 1.0, rtol=1e-7)


def test_twin_for_silos_without_this_library(holes, new_rows):
    scaler = StandardScaler().fit(open_silos(holes))
    twin = scaler.to_sklearn()
    assert type(twin) is sklearn.preprocessing.StandardScaler
    assert_same_scaler(scaler, twin)
    assert_close(twin.transform(new_rows[2:]), scaler.transform(new_rows[2:]))
    twin.mean_[:] = 0
    assert scaler.mean_.any(), "the twin shares its arrays with the model"
    twin = StandardScaler(with_mean=False, with_std=False).fit(open_silos(holes))
    assert_array_equal(twin.to_sklearn().transform(holes), holes)


def test_releases_only_what_the_docstring_says(rows):
    federation = simulate(partition_rows(rows, 3))
    StandardScaler().fit(federation)

    out = fields(federation.ledger, "round step name shape visibility", direction="out")

    assert out == [
        (1, "scaler.local_counts", "count", (P,), "summed"),
        (2, "scaler.local_observed", "total", (P,), "summed"),
        (3, "scaler.local_squares", "squares", (P,), "summed"),
    ]


def test_variances_that_nobody_wants_are_not_asked_for(rows):
    federation = simulate(partition_rows(rows, 3))
    StandardScaler(with_std=False).fit(federation)
    steps = {line.step for line in federation.ledger}
    assert steps == {"scaler.local_counts", "scaler.local_observed"}


def test_refusal_limit(rows):
    with pytest.raises(DataError, match=r"StandardScaler\.fit takes a Federation"):
        StandardScaler().fit(rows)
    for ask in (
        lambda: StandardScaler().transform(rows),
        lambda: StandardScaler().inverse_transform(rows),
        lambda: StandardScaler().to_sklearn(),
    ):
        with pytest.raises(NotFittedError):
            ask()
    scaler = StandardScaler().fit(open_silos(rows))
    with pytest.raises(ValueError, match="X has 4 features, but StandardScaler is exp"):
        scaler.transform(rows[:, :4])
    with pytest.raises(ValueError, match="1 features, but StandardScaler gives 5"):
        scaler.inverse_transform(rows[:, :1])


@pytest.mark.thinned(1)
@pytest.mark.parametrize("scale", [1e-12, 1e15])
def test_scales_beyond_what_is_promised(scale):
    X = np.random.default_rng(0).standard_normal((N, 2)) * [1, scale]
    ours = StandardScaler().fit(open_silos(X))
    assert_same_scaler(ours, sklearn.preprocessing.StandardScaler().fit(X))


def test_columns_too_large_for_the_code_are_refused_with_the_remedy():
    # Squares of 1e20 are beyond 2^126.
    X = np.random.default_rng(0).standard_normal((N, 2)) * [1, 1e20]
    with pytest.raises(AggregationError, match="rescale columns beyond 1e15"):
        StandardScaler().fit(open_silos(X))
