"""Plans say what silos will refuse because of what they answered before."""

from typing import Any

import numpy as np
import pytest

import unpooled as up
from unpooled.data.sources.open_source import open_source
from wire import rows, silos

TABLES = {name: rows(40, 4, i) for i, name in enumerate("abcd")}


@pytest.fixture
def here():
    return silos(TABLES)


def rules(federation: up.Federation, **options: Any) -> set[tuple[str, str]]:
    """Who would refuse what of a plan, in whichever step."""
    model = options.pop("model", up.PCA(2))
    return {(p, rule) for p, _, rule in up.plan(model, federation, **options).refusals}


def of_three(federation: up.Federation) -> None:
    coordinator: Any = federation.coordinator
    coordinator.parties = ("a", "b", "c")
    coordinator.roster = type(coordinator.roster)(
        {name: coordinator.roster[name] for name in "abc"}
    )


@pytest.mark.thinned(1)
@pytest.mark.parametrize(
    ("new", "expected"),
    [
        (0, set()),
        (1, {("a", "min_changed_rows")}),
        (10, {("a", "changed_rows")}),
        (20, set()),
    ],
)
def test_rows_that_changed(here, new, expected):
    model = up.PCA(2).fit(here.federation)
    more = np.vstack([TABLES["a"], rows(new, 4, seed=9)])
    here.parties["a"].table = open_source(more)

    assert rules(here.federation) == expected
    assert rules(here.federation, model=model, update=True) == expected
    # What was planned is not what was answered: the next plan says the same.
    assert rules(here.federation) == expected


def test_a_silo_that_left(here):
    model = up.PCA(2).fit(here.federation)
    assert rules(here.federation) == set()
    of_three(here.federation)

    expected = {(party, "allow_roster_change") for party in "abc"}
    assert rules(here.federation) == expected
    assert rules(here.federation, model=model, update=True) == expected


def test_plans_alone_bind_nobody(here):
    assert rules(here.federation) == set()
    of_three(here.federation)
    assert rules(here.federation) == set()
    up.PCA(2).fit(here.federation)


@pytest.mark.slow
def test_splits_differ_in_whole_blocks_and_are_planned_whatever_came_before(here):
    split = here.federation.train_test_split
    sizes = (0.65, 0.7, 0.75)
    for train, test in (split(train_size=s, random_state=0) for s in sizes):
        for view in (train, test):
            assert rules(view, model=up.StandardScaler()) == set()
            up.StandardScaler().fit(view)


def test_columns_are_planned_whatever_rows_will_match():
    parts = {name: X[:, [j]] for j, (name, X) in enumerate(TABLES.items())}
    here = silos(parts, partition="columns", policy={"allow_row_level": True})
    up.PCA(2).fit(here.federation)
    here.parties["a"].table = open_source(parts["a"] + np.eye(40)[:, :1])
    assert rules(here.federation) == set()
