"""Quantiles are NumPy's of the pooled rows: within a bracket, or to the last digit."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import unpooled as up
from line_fields import fields
from unpooled.errors import AggregationError, DataError, ReleaseRefusedError
from unpooled.linalg.rank_search import joined, parted
from unpooled.protocol.step import find_step
from unpooled.testing import check_estimator
from wire import silos as wire_silos

P = (0.1, 0.25, 0.5, 0.75, 0.9)


@pytest.fixture(scope="module")
def rows():
    """Columns of several kinds: skewed, whole, far from 0, tiny, with an outlier."""
    rng = np.random.default_rng(4)
    X = rng.standard_normal((400, 6))
    X[:, 0] = np.exp(2.0 * X[:, 0])
    X[:, 1] = rng.integers(20, 80, 400)
    X[:, 2] = 1e6 + X[:, 2]
    X[:, 3] *= 1e-9
    X[:, 5] = rng.integers(0, 2, 400)
    X[17, 4], X[3, 0] = 1e12, np.nan
    return X


def silos(X, cuts=(120, 250), **options):
    parts = np.split(X, list(cuts))
    return up.simulate(dict(zip("abcdef", parts, strict=False)), **options)


@pytest.fixture(scope="module")
def found(rows):
    federation = silos(rows)
    return federation, up.Quantiles(P).fit(federation)


@pytest.mark.slow
def test_every_quantile_lies_within_its_bracket(rows, found):
    wanted = np.nanquantile(rows, P, axis=0)
    errors = found[1].errors_
    assert (np.abs(found[1].quantiles_ - wanted) <= errors).all()
    # Brackets have at least 10 of 400 values and are cut into eighths, so that about
    # 1/20 of the rows are in the widest of a column without gaps.
    assert (errors[:, 2] < 0.35).all()
    assert (errors[:, 4] < 0.6).all(), "the outlier made brackets wide"


def test_brackets_have_enough_values(rows, found):
    model = found[1]
    for j, x in enumerate(rows.T):
        for q, error in zip(model.quantiles_[:, j], model.errors_[:, j], strict=True):
            # The bracket lies within one width of what is interpolated in it.
            assert ((x >= q - error) & (x <= q + error)).sum() >= 10


@pytest.mark.slow
def test_equals_numpy_where_order_statistics_are_allowed(federate, rows):
    ends, X = [0.0, 0.3, 1.0], rows[:, [0, 1, 4]]
    model = up.Quantiles(ends, min_rows=1).fit(federate(X))
    assert_array_equal(model.quantiles_, np.nanquantile(X, ends, axis=0))
    assert not model.errors_.any()


@pytest.mark.slow
def test_decimals_end_the_search_at_values(rows):
    X = np.column_stack([np.repeat(np.arange(30.0), 20), np.repeat([0.1, 0.2], 300)])
    model = up.Quantiles(P, decimals=1).fit(silos(X))
    wanted = np.quantile(X, P, axis=0)
    exact = model.errors_ == 0
    assert exact[:, 1].all()
    np.testing.assert_allclose(model.quantiles_[exact], wanted[exact], rtol=1e-12)


def test_equal_values_are_found_without_decimals(rows):
    X = np.column_stack([np.repeat([0.0, 1.0, 54.0], 100), np.repeat([-2.5, 0.3], 150)])
    frame = up.quantiles(silos(X), [0.2, 0.5, 0.9])
    assert_array_equal(frame.to_numpy(), np.quantile(X, [0.2, 0.5, 0.9], axis=0))


@pytest.mark.slow
def test_nothing_is_said_of_few_values_beyond(rows):
    federation = silos(rows[:120], (40, 80))
    frame = up.quantiles(federation, [0.0, 0.05, 0.5, 1.0])
    assert frame.iloc[[0, 1, 3]].isna().all(axis=None)
    assert frame.loc[0.5].notna().all()
    assert frame.index.name == "probability"
    assert list(frame.columns) == [f"x{j}" for j in range(6)]


def test_only_quantiles_are_opened(found):
    federation = found[0]
    opened = fields(
        federation.ledger, "step name shape", direction="out", visibility="summed"
    )
    step = "quantiles.found_quantiles"
    assert opened == [(step, "value", (6, 5)), (step, "error", (6, 5))]
    assert len(federation.rounds) <= 14


@pytest.mark.slow
def test_a_round_more_for_no_column():
    rng = np.random.default_rng(0)
    federation = silos(rng.standard_normal((90, 50)), (30, 60))
    assert up.plan(up.Quantiles(), federation).rounds <= 14
    assert up.plan(up.Quantiles(comparison="mpc"), federation).rounds <= 120


@pytest.mark.slow
def test_silos_follow(rows, found):
    followed = up.quantiles(silos(rows, follow=True), P)
    assert_array_equal(followed.to_numpy(), found[1].quantiles_)


@pytest.mark.slow
def test_the_budget_counts_quantiles_alone(rows):
    # 2 x 5 numbers of some 400 cells are opened about a column, and no counts.
    policy = up.Policy(max_released_share=0.03)
    up.quantiles(silos(rows, policy=policy), P)
    with pytest.raises(ReleaseRefusedError, match="max_released_share"):
        up.quantiles(silos(rows, policy=replace(policy, max_released_share=0.024)), P)


def opened_by_a_search(X, probabilities, comparison):
    """Return what each silo's account has about each column after one search."""
    parts = np.split(X, [120, 250])
    here = wire_silos(dict(zip("abc", parts, strict=True)))
    up.quantiles(here.federation, probabilities, comparison=comparison)
    accounts = [
        dict(party._studies._audit_log._state.opened.of_column)
        for party in here.parties.values()
    ]
    assert accounts[0] == accounts[1] == accounts[2]
    return np.array(list(accounts[0].values()))


@pytest.mark.slow
@pytest.mark.parametrize("probabilities", [(0.5,), P])
def test_the_account_has_the_quantiles_and_their_brackets(rows, probabilities):
    found = opened_by_a_search(rows, probabilities, "summed")
    # A quantile and the width of its bracket: two numbers, whatever was searched.
    assert found.tolist() == [2 * len(probabilities)] * 6


@pytest.mark.slow
@pytest.mark.parametrize("probabilities", [(0.5,), P])
def test_the_account_of_a_search_in_secret_has_as_much(rows, probabilities):
    """A sign is 1/64 of a number: some are of each column, most of each quantile."""
    found = opened_by_a_search(rows[:, :2], probabilities, "mpc")
    # The count of values, and a hundred signs that place all searches of a column; of
    # a quantile at most 4 levels of 9 parts, asked two things, and of 8 candidates
    # for each of two values.
    most = 1 + 130 / 64 + len(probabilities) * 4 * (18 + 16) / 64
    assert (found <= most).all()
    assert (found <= 2 * len(probabilities) + 3.5).all()
    assert (found > 1).all()


def test_counts_are_opened_to_nobody_else(rows):
    """A coordinator that asks for the counts itself is refused."""
    federation = silos(rows)
    model = up.Quantiles()
    federation.model = "quantiles"
    with federation.fitting(), pytest.raises(ReleaseRefusedError, match="declaration"):
        federation.sum(find_step("quantiles.local_log_sums"))
    assert not hasattr(model, "quantiles_")


@pytest.mark.slow
def test_a_silo_takes_no_lower_limit_than_its_own(rows):
    with pytest.raises(ReleaseRefusedError, match="allow_order_statistics"):
        up.quantiles(silos(rows), min_rows=9)
    with pytest.raises(ReleaseRefusedError, match="allow_order_statistics"):
        up.quantiles(silos(rows, policy=up.Policy(min_rows=20)))
    allowed = up.Policy(allow_order_statistics=True)
    up.quantiles(silos(rows, policy=allowed), [0.5], min_rows=1)


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"probabilities": [1.5]}, "numbers from 0 to 1"),
        ({"probabilities": "half"}, "numbers from 0 to 1"),
        ({"comparison": "sum"}, '"summed" or "mpc"'),
        ({"min_rows": 0}, "a whole number from 1"),
        ({"decimals": 0.5}, "give a whole number"),
        ({"decimals": {"x9": 1}}, "are no columns"),
    ],
)
def test_parameters_are_checked(rows, parameters, words):
    with pytest.raises(DataError, match=words):
        up.Quantiles(**parameters).fit(silos(rows))


def test_parts_are_joined_until_they_have_enough():
    counts = np.array([[0, 3, 9, 0, 10, 4], [10, 0, 0, 0, 0, 0], [4, 4, 0, 0, 0, 0]])
    stays = parted(counts.astype(float), 10)
    assert stays.astype(int).tolist() == [[1, 0, 1, 1, 0], [1] * 5, [0] * 5]


@pytest.mark.parametrize(
    ("counts", "groups"),
    [
        # Parts with enough stay alone, and those between them are joined.
        ([20, 3, 8, 2, 30], [(0, 0), (1, 3), (1, 3), (1, 3), (4, 4)]),
        ([6, 6, 6, 5, 40], [(0, 1), (0, 1), (2, 3), (2, 3), (4, 4)]),
        ([6, 6, 6, 40], [(0, 2), (0, 2), (0, 2), (3, 3)]),
        # Where they have too few together, with the smaller of their neighbours.
        ([540, 3, 0, 600], [(0, 0), (0, 2), (0, 2), (3, 3)]),
        ([600, 3, 0, 540], [(0, 0), (1, 3), (1, 3), (3, 3)]),
        ([6, 0, 50, 3], [(0, 2), (0, 2), (2, 2), (2, 3)]),
        ([3, 3, 3, 0], [(0, 3)] * 4),
    ],
)
def test_a_part_of_few_values_is_joined_with_others(counts, groups):
    first, last = joined(np.array([counts, counts], float), 10)
    for row in zip(first.tolist(), last.tolist(), strict=True):
        assert list(zip(*row, strict=True)) == groups


@pytest.mark.slow
def test_medians_of_columns_about_0_in_large_units_are_as_near_as_others():
    """About 0 the search has many candidates for few values: parts join across it."""
    rng = np.random.default_rng(2)
    X = rng.standard_normal((400, 30)) * np.repeat([1e2, 1e4, 1e6], 10)
    model = up.Quantiles().fit(silos(X))
    deviations = X.std(axis=0)
    wanted = np.quantile(X, (0.25, 0.5, 0.75), axis=0)
    off = np.abs(model.quantiles_ - wanted)
    assert (off <= model.errors_).all()
    # Ten of 400 values about the median lie in 0.06 standard deviations.
    assert (off <= 0.06 * deviations).all()
    assert (model.errors_ <= 0.4 * deviations).all()


def pooled(X, y):
    return {"quantiles_": np.quantile(X, [0.5], axis=0)}


@pytest.mark.parametrize(
    "check", check_estimator(up.Quantiles(), generate_only=True), ids=repr
)
def test_conventions(check):
    check()


@pytest.mark.slow
def test_conventions_where_order_statistics_are_allowed():
    X = np.random.default_rng(1).standard_normal((64, 3))
    check_estimator(up.Quantiles([0.5], min_rows=1), X, pooled=pooled)


@pytest.mark.slow
def test_compared_in_secret(rows):
    federation = silos(rows[:, :2])
    model = up.Quantiles([0.5], comparison="mpc").fit(federation)
    wanted = np.nanquantile(rows[:, :2], [0.5], axis=0)
    assert (np.abs(model.quantiles_ - wanted) <= model.errors_).all()
    assert len(federation.rounds) <= 120
    opened = {
        line.name: line.visibility
        for line in federation.ledger
        if line.direction == "out"
    }
    summed = [name for name, seen in opened.items() if seen == "summed"]
    assert summed == ["count"]


def test_a_silo_by_itself_opens_no_total_for_silos_alone(rows):
    """It was a division by zero: there is nobody to send a group key to."""
    here = up.simulate({"a": rows[:, 1:3]}, policy={"min_parties": 1})
    with pytest.raises(AggregationError, match="min_parties"):
        up.Quantiles().fit(here)
