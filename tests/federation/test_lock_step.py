"""Programs in lock step: whose messages are shared, and what is not asked twice."""

import numpy as np
import pytest

import unpooled as up
from unpooled.errors import DataError
from unpooled.federation.lock_step import LockStep
from unpooled.models.moments import (
    local_scatter,
    local_squares,
    local_total,
    pooled_mean,
    pooled_scatter,
)


@pytest.fixture
def federation():
    rng = np.random.default_rng(0)
    return up.simulate({name: rng.standard_normal((60, 3)) for name in "abc"})


def n_rounds(federation):
    return len({line.round for line in federation.ledger})


def total(view):
    return view.sum(local_total)["total"]


@pytest.mark.slow
def test_programs_share_rounds_and_get_their_own_answers(federation):
    views = [test for _, test in federation.folds(3, random_state=0)]
    with federation.fitting():
        found = LockStep(federation).run([(view, total) for view in views])
    assert n_rounds(federation) == 2 + 1

    alone = []
    for view in views:
        with view.fitting():
            alone.append(total(view))

    assert np.array_equal(found, alone)
    federation.ledger.verify()


def test_programs_of_different_lengths_go_on_without_each_other(federation):
    one, other = federation.folds(2, random_state=0)[0]

    def scatter(view):
        return pooled_scatter(view, pooled_mean(view)[1])

    with federation.fitting():
        found = LockStep(federation).run(
            [(one, total), (other, scatter), (one, lambda view: 7)]
        )

    assert found[2] == 7
    assert n_rounds(federation) == 2 + 3
    assert found[1].shape == (3, 3)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["masked", "plain"])
def test_totals_for_the_silos_alone_share_rounds_too(how):
    federation = up.simulate(
        {name: np.arange(120.0).reshape(60, 2) for name in "abc"}, secure_sum=how
    )
    views = [test for _, test in federation.folds(3, random_state=0)]

    def squares(view):
        mean = view.sum(local_total, to="parties")["total"]
        return view.sum(local_squares, mean=mean)["squares"]

    with federation.fitting():
        found = LockStep(federation).run([(view, squares) for view in views])
    assert n_rounds(federation) == 2 + 2

    for view, of_view in zip(views, found, strict=True):
        with view.fitting():
            total = view.sum(local_total)["total"]
            assert np.allclose(of_view, view.sum(local_squares, mean=total)["squares"])


def test_equal_requests_are_sent_once_and_answers_are_their_own(federation):
    with federation.fitting():
        steps = LockStep(federation)
        first, second = steps.run([(federation, total)] * 2)
        (third,) = steps.run([(federation, total)])

    assert n_rounds(federation) == 1
    first += 1.0
    assert np.array_equal(second, third)
    assert not np.array_equal(first, second)


def test_what_silos_keep_anew_makes_answers_stale(federation):
    """A scatter about another mean replaces the one that silos kept of the view."""

    def about(mean):
        def scatter(view):
            squares = view.sum(local_squares, mean=mean)["squares"]
            return view.sum(local_scatter, squares=squares)["scatter"]

        return scatter

    means = [np.zeros(3), np.ones(3), np.zeros(3)]
    with federation.fitting():
        steps = LockStep(federation)
        found = [steps.run([(federation, about(mean))])[0] for mean in means]
        again = steps.run([(federation, about(means[-1]))])[0]

    # The third had the silos keep its scatter again, which was opened before; the
    # fourth was not asked at all.
    assert n_rounds(federation) == 5
    assert np.array_equal(found[0], found[2])
    assert np.array_equal(again, found[2])
    assert not np.array_equal(found[0], found[1])


def test_an_error_ends_all_programs(federation):
    ended = []

    def fails(view):
        total(view)
        raise ValueError("of one program")

    def waits(view):
        try:
            while True:
                view.select(["x0"]).sum(local_total)
                total(view)
        finally:
            ended.append(True)

    with federation.fitting():
        steps = LockStep(federation)
        with pytest.raises(ValueError, match="of one program"):
            steps.run([(federation, fails), (federation, waits)])

    assert ended == [True]


def test_values_for_neighbours_are_refused():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 6))
    federation = up.simulate(
        {"a": X[:, :2], "b": X[:, 2:4], "c": X[:, 4:]},
        partition="columns",
        policy=up.Policy.open(),
    )
    model = up.PCA(1, svd_solver="gossip", topology="ring")

    with federation.fitting(), pytest.raises(DataError, match="to neighbours"):
        LockStep(federation).run([(federation, model.fit)])
