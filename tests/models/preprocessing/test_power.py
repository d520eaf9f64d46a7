"""PowerTransformer on a federation: the pooled optimum, whatever the split."""

import functools

import numpy as np
import pytest
import scipy.stats
import sklearn.decomposition
import sklearn.impute
import sklearn.preprocessing
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline

from federations import open_silos
from hard_columns import HARDEST, made_up, real
from line_fields import fields
from optima import is_optimal
from tiers import mostly_slow
from unpooled import (
    PCA,
    Policy,
    PowerTransformer,
    SimpleImputer,
    load,
    partition_rows,
    plan,
    save,
    simulate,
)
from unpooled.errors import DataError, ReleaseRefusedError

# Its sums travel as the others' do; `comparison="mpc"` is in test_power_mpc.py.
summed = functools.partial(PowerTransformer, comparison="summed")
# The promise: 1e-7 max(1/σ, |λ|). The last cell is 2^-27 wide.
TOL = 1e-8


@pytest.fixture(scope="module")
def rows():
    """Columns of five kinds; λ, means and spreads all differ."""
    rng = np.random.default_rng(3)
    bell = rng.standard_normal((90, 5))
    return np.column_stack(
        [
            np.exp(bell[:, 0]),
            -np.exp(bell[:, 1]),
            bell[:, 2] * 1e-6,
            1e6 + 10 * bell[:, 3],
            bell[:, 4] ** 3 + 0.2,
        ]
    )


@pytest.fixture(scope="module")
def holes(rows):
    X = rows.copy()
    X[np.random.default_rng(4).random(X.shape) < 0.2] = np.nan
    return X


def units(X):
    """Return σ of every column, in whose inverse λ is measured."""
    return np.nanstd(np.sign(X) * np.log1p(np.abs(X)), axis=0)


@pytest.mark.slow
def test_finds_the_pooled_optimum(federate, rows, holes):
    X = np.column_stack([rows[:, :3], holes[:, 3:]])

    ours = summed().fit(federate(X))

    for j, lam in enumerate(ours.lambdas_):
        assert is_optimal(X[:, j], float(lam), TOL), f"column {j}"
    scaled = ours.transform(X)
    # What a pooled mean and deviation would give, by definition.
    assert_allclose(np.nanmean(scaled, axis=0), 0.0, atol=1e-12)
    assert_allclose(np.nanstd(scaled, axis=0), 1.0, rtol=1e-12)
    assert_array_equal(np.isnan(scaled), np.isnan(X))
    assert_array_equal(ours.n_samples_seen_, (~np.isnan(X)).sum(axis=0).tolist())


def test_equals_the_pooled_twin_where_the_twin_is_right(rows):
    X = rows[:, [0, 1, 4]]
    new = X[::-7] * 1.1
    theirs = sklearn.preprocessing.PowerTransformer().fit(X)

    ours = summed().fit(open_silos(X))

    # Brent's method stops at about the root of the likelihood's precision.
    assert_allclose(ours.lambdas_, theirs.lambdas_, atol=1e-4)
    assert_allclose(ours.transform(new), theirs.transform(new), atol=1e-4)
    plain = sklearn.preprocessing.StandardScaler()
    psi = np.column_stack(list(map(scipy_psi, X.T, ours.lambdas_)))
    plain.fit(psi)
    assert_allclose(ours.mean_, plain.mean_, rtol=1e-9)
    assert_allclose(ours.var_, plain.var_, rtol=1e-9)


def scipy_psi(x, lam):
    import scipy.stats

    return scipy.stats.yeojohnson(x, float(lam))


@pytest.mark.slow
def test_any_split_gives_the_same(rows):
    sigma, fits = units(rows), []
    rng = np.random.default_rng(0)
    for cuts in ([30, 60], [1, 2], [88, 89], [5, 9, 12, 70]):
        order = rng.permutation(len(rows))
        silos = {f"s{i}": rows[part] for i, part in enumerate(np.split(order, cuts))}
        fits.append(summed().fit(simulate(silos, policy=Policy.open())))
    for other in fits[1:]:
        off = np.abs(other.lambdas_ - fits[0].lambdas_) * sigma
        assert (off <= 2.0**-26 * np.maximum(1, np.abs(other.lambdas_) * sigma)).all()


@pytest.mark.thinned(2)
@pytest.mark.parametrize(
    "name", mostly_slow(sorted(set(made_up()) - {"two rows"}), *HARDEST)
)
def test_hard_columns(name):
    x = made_up()[name]

    ours = summed().fit(open_silos(x[:, None]))

    assert is_optimal(x, float(ours.lambdas_[0]), TOL)
    scaled = ours.transform(x[:, None])
    assert np.nanstd(scaled) == pytest.approx(1.0, abs=1e-9)
    assert (np.diff(scaled[np.argsort(x), 0][: np.isfinite(x).sum()]) >= 0).all()


@pytest.mark.slow
def test_digits_on_which_scikit_learn_fails():
    x = np.asarray(real("digits"))
    pixel = x[:, [np.flatnonzero((x != 0).sum(axis=0) == 1)[0]]]
    theirs = sklearn.preprocessing.PowerTransformer().fit(pixel)
    assert not is_optimal(pixel[:, 0], float(theirs.lambdas_[0]), 1e-6)
    ours = summed().fit(open_silos(pixel))
    assert is_optimal(pixel[:, 0], float(ours.lambdas_[0]), TOL)


@pytest.mark.slow
def test_new_rows_come_back(rows):
    model = summed().fit(open_silos(rows))
    new = rows[::-4] + 0.1 * rows.std(axis=0)
    new[1, 2] = np.nan
    back = model.inverse_transform(model.transform(new))
    assert_allclose(back, new, rtol=1e-9)
    plain = summed(standardize=False).fit(open_silos(rows[:, [0, 1, 4]]))
    back = plain.inverse_transform(plain.transform(new[:, [0, 1, 4]]))
    assert_allclose(back, new[:, [0, 1, 4]], rtol=1e-9)
    assert not hasattr(plain, "mean_")


@pytest.mark.thinned(2)
@pytest.mark.parametrize("constant", [0.0, 7.3, -1e8, 1e-8])
def test_constant_columns_are_warned_of_and_left(rows, constant):
    X = np.column_stack([rows[:, 0], np.full(len(rows), constant)])

    with pytest.warns(UserWarning, match=r"left as they are \(λ = 1\): x1\."):
        ours = summed().fit(open_silos(X))

    assert ours.lambdas_[1] == 1.0
    off = 8 * np.finfo(float).eps * abs(constant)
    assert_allclose(ours.transform(X)[:, 1], 0.0, atol=off)
    assert_allclose(ours.transform(X + 2.5)[:, 1], 2.5, rtol=1e-6)
    assert_allclose(ours.inverse_transform(ours.transform(X)), X, rtol=1e-12)


@pytest.mark.slow
def test_a_federation_is_transformed_in_its_silos(rows):
    federation = open_silos(rows)
    for standardize in (True, False):
        columns = rows if standardize else rows[:, :1]
        view = federation if standardize else federation.select(["x0"])
        model = summed(standardize=standardize).fit(view)
        before = len(federation.ledger)
        done = model.transform(view)
        assert len(federation.ledger) == before, "a view released something"
        # Transformed rows are as normal as they get: λ = 1.
        again = summed().fit(done)
        sigma = units(model.transform(columns))
        assert np.isfinite(again.lambdas_ * sigma).all()


@pytest.mark.slow
def test_twin_for_silos_without_this_library(rows):
    X = rows[:, [0, 1, 4]]
    for standardize in (True, False):
        model = summed(standardize=standardize).fit(open_silos(X))
        twin = model.to_sklearn()
        assert type(twin) is sklearn.preprocessing.PowerTransformer
        assert_allclose(twin.transform(X), model.transform(X), rtol=1e-9, atol=1e-9)
    model = summed().fit(open_silos(rows))
    with pytest.raises(DataError, match="no digits left for 3: subtract a constant"):
        model.to_sklearn()


@pytest.mark.slow
def test_saves_and_loads(rows, tmp_path):
    model = summed().fit(open_silos(rows))
    again = load(save(model, tmp_path / "power.unpooled"))
    assert_array_equal(again.transform(rows), model.transform(rows))


@pytest.mark.slow
def test_releases_only_what_the_docstring_says(rows):
    federation = simulate(partition_rows(rows, 3), policy={"max_released_share": 1.0})
    model = summed(tol=2.0**-10).fit(federation)

    out = fields(federation.ledger, "round step name shape visibility", direction="out")

    last = 4 + model.n_iter_
    # Two candidates for each column whose λ is not yet known to the tolerance.
    widths = [shape[1] for _, _, name, shape, _ in out if name == "sums"]
    assert widths[0] == 10
    assert widths == sorted(widths, reverse=True)
    assert out == [
        (1, "power.local_count", "count", (5,), "summed"),
        (2, "power.local_log_sizes", "total", (5,), "summed"),
        (3, "power.local_log_squares", "squares", (5,), "summed"),
        *[
            (round_, "power.local_slopes", "sums", (5, width), "summed")
            for round_, width in zip(range(4, last), widths, strict=True)
        ],
        (last, "power.local_transformed", "total", (5,), "summed"),
        (last, "power.local_transformed", "squares", (5,), "summed"),
    ]


@pytest.mark.slow
def test_a_plan_tells_what_a_fit_of_moderate_columns_would_ask(rows):
    """How many rounds it takes depends on the slopes, which a plan has not."""
    federation = open_silos(rows)
    expected = plan(summed(), federation)
    before = len(federation.ledger)
    summed().fit(federation)
    lines = list(federation.ledger)[before:]
    assert abs(expected.rounds - len({line.round for line in lines})) <= 2
    told = [[x.name, *x.shape] for x in expected.releases if x.name != "sums"]
    asked = [[x.name, *x.shape] for x in lines if x.name != "sums"]
    assert {tuple(one) for one in told} >= {
        tuple(one) for one in asked if one[0] not in ("lam", "column")
    }


@pytest.mark.slow
def test_skewness_before_and_after_is_that_of_pooled_rows(rows):
    """Equal to SciPy's on the pooled rows; cells are missing, a column is constant."""
    X = rows.copy()
    X[::9, 0] = np.nan
    X[:, 1] = 3.0
    silos = {"one": X[:1], "few": X[1:12], "rest": X[12:]}
    federation = simulate(silos, policy=Policy.open(), follow=True)

    with pytest.warns(UserWarning, match="Constant columns"):
        model = summed(skewness=True).fit(federation)

    pooled = [scipy.stats.skew(x[~np.isnan(x)]) for x in np.delete(X, 1, axis=1).T]
    after = np.delete(model.transform(X), 1, axis=1).T
    pooled_after = [scipy.stats.skew(x[~np.isnan(x)]) for x in after]
    # Means travel with twelve digits, in units of which a deviation has some ten.
    assert_allclose(np.delete(model.skewness_, 1), pooled, rtol=1e-9, atol=1e-9)
    assert_allclose(
        np.delete(model.transformed_skewness_, 1), pooled_after, rtol=1e-9, atol=1e-9
    )
    assert np.isnan(model.skewness_[1])
    assert np.isnan(model.transformed_skewness_[1])
    table = model.summary().tables["columns"]
    assert table.column("skewness_before")[0] == model.skewness_[0]
    assert "Skewness is 0 for a symmetric column" in table.note
    with pytest.warns(UserWarning, match="Constant columns"):
        other = summed(skewness=True, standardize=False).fit(federation)
    assert_array_equal(other.transformed_skewness_, model.transformed_skewness_)
    steps = [line.step for line in federation.ledger]
    assert {"power.local_sums", "power.local_squares"} < set(steps)
    assert steps[-1] == "power.local_third_powers"


@pytest.mark.slow
def test_skewness_is_opened_only_where_it_is_asked_for(rows):
    federation = simulate(partition_rows(rows, 3), policy=Policy.open())

    model = summed().fit(federation)

    assert not hasattr(model, "skewness_")
    assert "power.local_third_powers" not in {one.step for one in federation.ledger}
    assert "skewness=True" in model.summary().tables["columns"].note


@pytest.mark.slow
@pytest.mark.parametrize("name", ["wine", "diabetes", "breast_cancer"])
def test_opens_a_hundred_numbers_of_a_column_at_most(name):
    X = real(name)
    federation = open_silos(X)
    summed().fit(federation)
    slopes = [x for x in federation.ledger if x.name == "sums"]
    numbers = sum(5 * line.shape[1] for line in slopes)
    assert numbers <= 75 * X.shape[1]
    # Of the column that takes longest.
    assert len(slopes) * 10 <= 100


def test_refusal_limit(rows):
    X = rows.copy()
    X[5, 0] = np.inf
    with pytest.raises(DataError, match="contains infinity"):
        summed().fit(open_silos(X))
    X = rows.copy()
    X[:, 2] = np.nan
    with pytest.raises(DataError, match=r"No silo has a single value in x2\."):
        summed().fit(open_silos(X))
    with pytest.raises(DataError, match=r"comparison='exact'; choose"):
        PowerTransformer(comparison="exact").fit(open_silos(rows))
    for tol in (0.0, 1.0, float("nan")):
        with pytest.raises(DataError, match="tol="):
            summed(tol=tol).fit(open_silos(rows))
    for ask in ("transform", "inverse_transform"):
        with pytest.raises(NotFittedError):
            getattr(summed(), ask)(rows)
    with pytest.raises(ReleaseRefusedError, match="min_parties"):
        summed().fit(simulate(partition_rows(rows, 2)))


@pytest.mark.slow
def test_stands_in_a_pipeline_between_others(holes):
    federation = open_silos(holes)
    steps = (SimpleImputer(), summed(), PCA(3))

    ours = make_pipeline(*steps).fit(federation)

    filled = sklearn.impute.SimpleImputer().fit_transform(holes)
    normal = ours[1].transform(filled)
    theirs = sklearn.decomposition.PCA(3).fit(normal)
    assert_allclose(ours[2].explained_variance_, theirs.explained_variance_, rtol=1e-9)
    assert_allclose(np.abs(ours.transform(holes)), np.abs(theirs.transform(normal)),
                    rtol=1e-6, atol=1e-9)  # fmt: skip


@pytest.mark.thinned(1)
@pytest.mark.parametrize("mode", ["mpc", "summed"])
def test_a_plan_tells_what_both_ways_cost(rows, mode):
    federation = open_silos(rows)
    steps = make_pipeline(SimpleImputer(), PowerTransformer(comparison=mode))

    planned = plan(steps, federation)

    told = [note for note in planned.notes if note.startswith("comparison=")]
    assert [note.partition(":")[0] for note in told] == [
        'comparison="mpc"',
        'comparison="summed"',
    ]
    own = told[mode == "summed"]
    assert f"{planned.rounds} rounds, each party sends {planned.bytes:,} bytes" in own
    assert planned.latency > 0
    assert f"about {planned.seconds:.2g} s at" in own
    assert str(planned).count('comparison="') == 2


def test_a_plan_says_where_one_way_is_closed(rows):
    two = open_silos(rows, 2)
    told = "\n".join(plan(summed(), two).notes)
    assert 'comparison="mpc": not here. 2 parties cannot compare in secret' in told
    assert 'comparison="summed": 10 rounds' in told
