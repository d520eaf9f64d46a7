"""Attacks on cells imputed from other cells, by sweeps that an adversary picks.

The adversary is the coordinator, with coefficients of its own choice in each sweep: the
totals of two sweeps differ in the rows that lack the same cells, whatever the other
rows are. Each attack has a control: a policy that lets it succeed.
"""

import itertools
import math

import numpy as np
import pytest
from numpy.testing import assert_allclose

import unpooled as up
from attacks import PERSON, scatter
from jobs import Jobs
from unpooled.data import heart_disease
from unpooled.errors import ReleaseRefusedError
from unpooled.protocol.view_operations import Complete, Derive, Rows, Select
from wire import COLUMNS, PATIENT, Rogue, rows, silos

SHARED = np.arange(12, 22)  # ten rows
_studies = itertools.count()


def tables(lacking=(PERSON,), also=()):
    """Three silos; in b some rows lack the second column, and some the third too."""
    made = {name: rows(40, seed=i) for i, name in enumerate("abc")}
    made["b"][list(lacking), 1] = np.nan
    made["b"][list(also), 1:] = np.nan
    return made


def entered(here) -> Rogue:
    return Rogue(here, study=f"study-{next(_studies)}").enter()


def sweep(coefficients=(0.0, 0.0), intercept=0.0, columns=COLUMNS):
    """Predict the second column from the first and the third."""
    b = np.array([[0.0, 0.0, 0.0], [coefficients[0], 0.0, coefficients[1]]])
    public = {
        "initial": np.full(3, 5.0),
        "targets": np.array([0.0, 1.0]),
        "coefficients": b,
        "intercepts": np.array([5.0, intercept]),
        "left_out": -1,
    }
    step = "iterative_imputer.imputed_one_by_one"
    return Select(columns), Derive(step, columns, public)


def products(rogue, chain):
    """Return the products of a sweep, about zero."""
    step = "iterative_imputer.local_imputed"
    return rogue.totals(step, {"centre": np.zeros(3)}, chain)["products"]


def taken_apart(rogue):
    """Return Σ x0, Σ x2, Σ x0² and Σ x0 x2 of the rows that lack x1 alone."""
    none = products(rogue, sweep())[1]
    number, first = products(rogue, sweep(intercept=1.0))[1], (1.0, 0.0)
    return [
        *(number - none)[[0, 2]],
        *(products(rogue, sweep(first))[1] - none)[[0, 2]],
    ]


def expected(lone):
    x0, x2 = lone[:, 0], lone[:, 2]
    return [x0.sum(), x2.sum(), x0 @ x0, x0 @ x2]


def test_a_lone_pattern_gives_the_row_where_a_policy_lets_it():
    here = silos(tables(), policy={**PATIENT, "min_rows": 1})
    found = taken_apart(entered(here))
    assert_allclose(found, expected(tables()["b"][[PERSON]]), rtol=1e-9)


def test_a_lone_pattern_never_changes_between_sweeps():
    here = silos(tables())
    assert taken_apart(entered(here)) == [0.0] * 4


def test_sums_over_ten_rows_are_all_that_sweeps_give():
    """The eleventh lacks another cell too, and is not among them."""
    here = silos(tables(SHARED, also=[PERSON]))
    found = taken_apart(entered(here))
    assert_allclose(found, expected(tables()["b"][SHARED]), rtol=1e-9)


@pytest.mark.slow
def test_nine_complete_rows_are_not_what_sweeps_leave():
    """Ten rows that lack nothing are left, or the smaller pattern is not imputed."""
    made = tables()
    made["b"][:20, 1], made["b"][20:31, 0] = np.nan, np.nan
    found = taken_apart(entered(silos(made)))
    b = rows(40, seed=1)
    assert_allclose(found[0], b[:20, 0].sum(), rtol=1e-9)
    public = {"initial": np.full(3, 5.0)}
    step = "iterative_imputer.not_yet_imputed"
    chain = Select(COLUMNS), Derive(step, COLUMNS, public)
    rogue = entered(silos(made))
    asked = rogue.totals(
        "iterative_imputer.local_filled", {"centre": np.full(3, 5.0)}, chain
    )
    assert asked["regressed"].tolist() == [0.0, 20.0, 0.0]


FILLED = (
    Select(COLUMNS),
    Derive("imputer.imputed", COLUMNS, {"statistics": np.full(3, 4.0)}),
)
COMPLETE = (Select(COLUMNS), Complete())
ZERO = {"mean": np.zeros(3)}


@pytest.mark.slow
@pytest.mark.parametrize("other", [FILLED, COMPLETE], ids=["filled", "complete"])
def test_other_sums_do_not_give_the_rows_that_sweeps_leave_alone(other):
    """Σ over the rows that lack x1, less the ten of the sweeps, is the person's row."""
    made = tables(SHARED, also=[PERSON])
    here = silos(made)
    taken_apart(entered(here))
    asked = entered(here).rules("pca.local_squares", ZERO, other)
    assert asked == {"a": "", "b": "another_filling", "c": ""}
    # Nor the other way round.
    here = silos(made)
    scatter(entered(here), other)
    step = "iterative_imputer.local_imputed"
    asked = entered(here).rules(step, {"centre": np.zeros(3)}, sweep())
    assert asked == {"a": "", "b": "another_filling", "c": ""}


@pytest.mark.slow
def test_pairs_of_observed_cells_do_not_either():
    here = silos(tables(SHARED, also=[PERSON]), policy={**PATIENT, "min_own_cells": 0})
    taken_apart(entered(here))
    asked = entered(here).rules("correlation.local_pairs", {}, (Select(COLUMNS),))
    assert asked["b"] == "another_filling"


@pytest.mark.slow
def test_where_every_pattern_is_shared_other_sums_are_answered():
    here = silos(tables(SHARED))
    taken_apart(entered(here))
    for other in (COMPLETE, (Select(("x0", "x2")),)):
        public = {"mean": np.zeros(3 - (other is not COMPLETE))}
        asked = entered(here).rules("pca.local_squares", public, other)
        assert set(asked.values()) == {""}


@pytest.mark.slow
def test_later_steps_read_one_completed_table():
    """By class or by fold, two of them would differ in few rows."""
    here = silos(tables(SHARED))
    rogue = entered(here)
    products(rogue, sweep())
    scatter(rogue, sweep((0.5, 0.0)))
    other = entered(here)
    products(other, sweep((0.1, 0.2)))
    for chain in (sweep((0.1, 0.2)), (*sweep((0.1, 0.2)), Rows(0, 2, 0.0, False, 1))):
        asked = entered(here).rules("pca.local_squares", ZERO, chain)
        assert asked["b"] == "another_filling"
    # The same table again, and a part of it, is no other one.
    scatter(entered(here), sweep((0.5, 0.0)))
    asked = entered(here).rules(
        "pca.local_squares", ZERO, (*sweep((0.5, 0.0)), Rows(0, 2, 0.0, False, 1))
    )
    assert set(asked.values()) == {""}


def test_sweeps_are_over_all_rows():
    here = silos(tables(SHARED))
    chain = (*sweep(), Rows(0, 2, 0.0, False, 1))
    step = "iterative_imputer.local_imputed"
    asked = entered(here).rules(step, {"centre": np.zeros(3)}, chain)
    assert set(asked.values()) == {"imputed_parts"}


@pytest.mark.slow
def test_other_columns_are_not_imputed_together():
    """Patterns of fewer columns are unions of patterns, rare ones among them."""
    here = silos(tables(SHARED, also=[PERSON]))
    taken_apart(entered(here))
    two = ("x0", "x1")
    public = {"initial": np.full(2, 5.0)}
    chain = Select(two), Derive("iterative_imputer.not_yet_imputed", two, public)
    asked = entered(here).rules(
        "iterative_imputer.local_filled", {"centre": np.full(2, 5.0)}, chain
    )
    assert asked["b"] == "another_filling"


def test_cells_that_were_filled_are_not_imputed_from_others():
    here = silos(tables(SHARED))
    asked = entered(here).rules(
        "iterative_imputer.local_imputed",
        {"centre": np.zeros(3)},
        (*FILLED, sweep()[1]),
    )
    assert set(asked.values()) == {"derived_order"}


def test_two_parts_of_the_columns_are_not_imputed_in_one_view():
    """Patterns of each part are unions of patterns of both."""
    step, parts = "iterative_imputer.not_yet_imputed", (("x0", "x1"), ("x2",))
    chain = [
        Derive(step, some, {"initial": np.full(len(some), 5.0)}, of=some)
        for some in parts
    ]
    asked = entered(silos(tables(SHARED))).rules(
        "iterative_imputer.local_filled",
        {"centre": np.full(3, 5.0)},
        (Select(COLUMNS), *chain),
    )
    assert set(asked.values()) == {"another_filling"}


@pytest.mark.slow
def test_one_row_more_of_a_pattern_is_not_the_difference_of_two_versions(tmp_path):
    jobs = Jobs(tmp_path, tables(SHARED), policy={**PATIENT})
    taken_apart(entered(jobs.start()))
    more = rows(11, seed=9)
    more[0, 1] = np.nan
    jobs.tables["b"] = np.vstack([jobs.tables["b"], more])
    step = "iterative_imputer.local_imputed"
    asked = entered(jobs.start()).rules(step, {"centre": np.zeros(3)}, sweep())
    assert asked["b"] == "another_filling"


@pytest.mark.slow
def test_a_new_job_remembers_how_rows_were_imputed(tmp_path):
    made = tables(SHARED, also=[PERSON])
    jobs = Jobs(tmp_path, made, policy={**PATIENT})
    before = products(entered(jobs.start()), sweep())
    # Another mean for the rows of rare patterns is not taken: the first stays.
    select, derive = sweep()
    public = {**derive.public, "initial": np.array([5.0, 50.0, 5.0])}
    other = (select, Derive(derive.step, COLUMNS, public))
    after = products(entered(jobs.start()), other)
    assert_allclose(after, before, rtol=1e-14)
    asked = entered(jobs.start()).rules("pca.local_squares", ZERO, FILLED)
    assert asked["b"] == "another_filling"


@pytest.mark.slow
def test_an_analyst_who_compares_imputers_is_told_so():
    federation = up.simulate(heart_disease.load(), follow=True)
    filled = up.IterativeImputer(2).fit(federation).transform(federation)
    up.PCA(2).fit(filled)
    means = up.SimpleImputer().fit(federation).transform(federation)
    with pytest.raises(ReleaseRefusedError, match="another_filling"):
        up.PCA(2).fit(means)


@pytest.mark.slow
def test_the_budget_ends_sweeps():
    """A table of few rows, and many sweeps: the silos stop, at the last that fits."""
    made = {name: rows(40, seed=i) for i, name in enumerate("abc")}
    made["b"][SHARED, 1] = np.nan
    assert math.isinf(PATIENT["max_released_share"])
    here = silos(made, policy={})
    with pytest.raises(ReleaseRefusedError) as stopped:
        up.IterativeImputer(50).fit(here.federation)
    assert stopped.value.rule == "max_released_share"
    sums = [line for line in here.ledger if line.name == "products"]
    # 0.33 of 120 rows are 39 numbers about each column; two rounds of means opened 2,
    # the first sums 13 / 3, and each sweep (3 + 3) / 2 and a third for N.
    assert len(sums) == 1 + 9
