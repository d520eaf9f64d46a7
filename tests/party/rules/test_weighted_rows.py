"""The rule against sums of which one row, with its weight, is nearly all."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from unpooled.arrays import Array, Float
from unpooled.party.rules.weighted_rows import WeightedRows, check_parts
from unpooled.protocol.refusal import Refusal
from unpooled.protocol.step import Step, Weighed, release, summed

LIMIT = 0.8


@summed(products=release("p p", symmetric=True, weighed=True, meaning="products"))
def products(X: Float[Array, "n p"]) -> dict[str, Any]:
    """Add products of the rows as they are."""
    return {"products": Weighed(X.T @ X, (X,))}


@summed(products=release("p p", symmetric=True, weighed=True, meaning="products"))
def without_rows(X: Float[Array, "n p"]) -> dict[str, Any]:
    """Add products of rows that nobody can judge."""
    return {"products": X.T @ X}


def refused(blocks: list[Array], step: Step = products) -> tuple[bool, int]:
    """Return whether rows are refused, and how often they were read once more."""
    judge, passes = WeightedRows(step, LIMIT), 0

    def again() -> Iterator[Any]:
        nonlocal passes
        passes += 1
        return (step.function(block) for block in blocks)

    with np.errstate(all="ignore"):
        for block in blocks:
            judge.totals(step.function(block))
        try:
            judge.check(again)
        except Refusal as refusal:
            return refusal.rule == "weighted_rows", passes
    return False, passes


def largest(X: Array) -> float:
    """Return the largest leverage among rows, by NumPy's pseudo-inverse."""
    return float(np.einsum("ij,ji->i", X, np.linalg.pinv(X)).max())


@pytest.mark.thinned(1)
@pytest.mark.parametrize("cuts", [[], [50], [4, 9], list(range(5, 100, 5))])
def test_rows_are_judged_alike_in_whatever_blocks_they_come(cuts):
    rng, seen = np.random.default_rng(3), set()
    for _ in range(60):
        # Weights over several orders of magnitude, as of means of counts.
        X = rng.standard_normal((100, 4)) * np.exp(rng.normal(0, 1.5, 100))[:, None]
        above = largest(X) > LIMIT
        assert refused(np.split(X, cuts))[0] == above
        seen.add(above)
    assert seen == {True, False}


def test_well_conditioned_rows_are_read_once():
    X = np.random.default_rng(0).standard_normal((100, 4))

    assert refused([X]) == (False, 0)
    assert refused(np.split(X, 4)) == (False, 0)


@pytest.mark.parametrize("alone", [False, True])
def test_rows_of_dependent_columns_are_read_once_more(alone):
    X = np.random.default_rng(0).standard_normal((100, 3))
    X[:, 2] = X[:, 0] - X[:, 1]
    X[7] *= 1.0 + 1e4 * alone

    verdict, passes = refused(np.split(X, 4))

    assert verdict == alone
    assert passes > 0


def test_a_column_that_varies_in_a_later_block_alone_is_judged():
    X = np.random.default_rng(0).standard_normal((100, 3))
    X[:, 1] = 1.0
    assert not refused(np.split(X, 4))[0]
    X[99, 1] = 2.0
    X[:, 2] = 1.0
    assert refused(np.split(X, 4))[0]


def test_as_many_columns_as_rows_and_no_weights_at_all_are_not_judged():
    X = np.random.default_rng(0).standard_normal((5, 4))

    assert refused([X]) == (False, 0)
    assert refused([np.zeros((9, 2))]) == (False, 0)


@pytest.mark.parametrize("far", [np.inf, np.nan, 1e200])
def test_rows_beyond_the_range_of_numbers_are_refused(far):
    X = np.random.default_rng(0).standard_normal((50, 3))
    X[3, 1] = far

    assert refused(np.split(X, 2)) == (True, 0)


def test_a_step_shows_the_rows_that_it_declares_to_weigh():
    judge = WeightedRows(without_rows, LIMIT)

    with pytest.raises(Refusal, match="declaration"):
        judge.totals(without_rows.function(np.ones((9, 2))))
    # Called in a notebook, it gives its sums.
    assert set(products(np.ones((9, 2)))) == {"products"}
    np.testing.assert_array_equal(products(np.ones((9, 2)))["products"], 9.0)


# --- parts of the rows ----------------------------------------------------------------


def in_parts(weights: Array, parts: Array, **options: Any) -> bool:
    """Return whether rows are refused whose intercepts have these weights."""
    found = {"products": Weighed(weights.T @ weights, (weights,), **options)}
    try:
        check_parts(products, LIMIT, [(parts, found)])
    except Refusal as refusal:
        return refusal.rule == "weighted_rows"
    return False


@pytest.mark.parametrize(("alone", "above"), [(3.9, False), (4.1, True)])
def test_no_row_has_nearly_the_whole_weight_of_its_part(alone, above):
    # Of 4 to 1 the share is the limit. Sums of products have the roots of weights.
    weights = np.sqrt([alone, 0.5, 0.5, 9.0, 9.0])[:, None]
    parts = np.array([1, 1, 1, 0, 0])
    assert in_parts(weights, parts) == above
    assert not in_parts(weights, np.zeros(5, int))


def test_the_intercept_of_each_class_is_judged():
    scores = np.ones((6, 4))
    scores[:, 2] = [3.0, 0.1, 0.1, 1.0, 1.0, 1.0]
    parts = np.array([0, 0, 0, 1, 1, 1])
    assert in_parts(scores, parts, period=2)
    # As if the columns were those of one class.
    assert not in_parts(scores, parts)


def test_rows_of_a_part_that_come_block_by_block_are_one_part():
    blocks = [np.ones((1, 1)), np.full((3, 1), 0.4), np.ones((1, 1))]
    found = [(0, {"products": Weighed(one.T @ one, (one,))}) for one in blocks]
    check_parts(products, LIMIT, [(np.array(n), one) for n, one in found])
    with pytest.raises(Refusal, match="weighted_rows"):
        check_parts(products, LIMIT, [(np.array(n), one) for n, one in found[:1]])


def test_weights_beyond_the_range_of_numbers_are_refused():
    with np.errstate(all="ignore"):
        assert in_parts(np.array([[np.inf], [1.0]]), np.zeros(2, int))
        assert in_parts(np.array([[np.nan], [1.0]]), np.zeros(2, int))
