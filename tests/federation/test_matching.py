"""Matching: every silo ends with the common rows in one order."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from matched_people import COLUMNS, OPEN, common_ids, match, people, silos_of
from unpooled import VFedPCA, partition_columns, simulate
from unpooled.coordinator import matching
from unpooled.errors import AggregationError, DataError
from unpooled.party.matching import silo_matcher as matcher
from unpooled.secure.intersection import protocol as intersection

# Fixtures of another module.
__all__ = ["people"]


def ordered_ids(federation, tables):
    rows = federation.layout.rows_of
    return {name: list(table["id"].iloc[rows[name]]) for name, table in tables.items()}


@pytest.mark.thinned(1)
@pytest.mark.parametrize("parties", [("clinic", "pharmacy"), tuple(COLUMNS)])
def test_every_silo_has_the_common_rows_in_one_order(people, parties):
    tables = {name: silos_of(people)[name] for name in parties}

    federation = match(tables)

    ids = ordered_ids(federation, tables)
    assert set(ids["clinic"]) == common_ids(tables)
    assert all(own == ids["clinic"] for own in ids.values())
    assert federation.n_rows == len(common_ids(tables))


@pytest.mark.slow
def test_models_see_the_people_side_by_side(people, secure_sum):
    tables = silos_of(people)
    federation = match(tables, secure_sum=secure_sum)
    order = ordered_ids(federation, tables)["clinic"]
    joined = people.set_index("id").loc[order].to_numpy()
    init = np.random.default_rng(0).random(len(joined))

    ours = VFedPCA(rounds=2, init=init).fit(federation)

    parts = {"clinic": joined[:, :2], "laboratory": joined[:, 2:3]}
    parts["pharmacy"] = joined[:, 3:]
    theirs = VFedPCA(rounds=2, init=init).fit(
        simulate(parts, partition="columns", policy=OPEN)
    )
    assert_allclose(ours.scores_, theirs.scores_, rtol=0, atol=1e-9)


@pytest.mark.slow
@given(
    st.lists(
        st.lists(st.integers(0, 12), min_size=1, unique=True), min_size=2, max_size=4
    )
)
@settings(max_examples=15)
def test_equals_the_intersection_of_sets(sets):
    tables = {
        f"s{i}": pd.DataFrame({"id": ids, f"x{i}": np.arange(len(ids), dtype=float)})
        for i, ids in enumerate(sets)
    }
    wanted = set(sets[0]).intersection(*sets)
    if not wanted:
        with pytest.raises(DataError, match="no_common_rows"):
            match(tables)
        return

    federation = match(tables)

    ids = ordered_ids(federation, tables)
    assert all(set(own) == wanted for own in ids.values())
    assert len({tuple(own) for own in ids.values()}) == 1


@pytest.mark.slow
def test_ids_are_normalised_before_they_are_compared(people):
    tables = silos_of(people)
    same = dict(tables)
    same["clinic"] = tables["clinic"].assign(
        id=tables["clinic"]["id"].str.upper() + "  "
    )

    assert match(same).n_rows == len(common_ids(tables))


@pytest.mark.slow
def test_many_ids_go_in_several_messages(people, monkeypatch):
    monkeypatch.setattr(matching, "PART", 16)
    monkeypatch.setattr(matcher, "PART", 16)
    tables = silos_of(people)
    tables["laboratory"] = tables["laboratory"].head(20)

    federation = match(tables)

    ids = ordered_ids(federation, tables)
    assert set(ids["clinic"]) == common_ids(tables)
    assert federation.ledger.verify()


@pytest.mark.slow
def test_a_table_that_cannot_be_made_is_made_again(people, monkeypatch):
    made, tries = intersection._peeled, []

    def unlucky(*arguments):
        tries.append(1)
        return None if len(tries) <= 2 else made(*arguments)

    monkeypatch.setattr(intersection, "_peeled", unlucky)
    tables = silos_of(people)

    federation = match(tables)

    assert federation.n_rows == len(common_ids(tables))
    assert federation.ledger.verify()
    monkeypatch.setattr(intersection, "_peeled", lambda *_: None)
    with pytest.raises(AggregationError, match="could not be made"):
        match(tables)


# --- Tables that are aligned already -------------------------------------------------


def test_aligned_tables_are_checked_and_not_matched(people):
    tables = {name: people[["id", *columns]] for name, columns in COLUMNS.items()}
    federation = match(tables, aligned=True)

    assert federation.n_rows == 60
    assert {line.step for line in federation.ledger} == {"matching.check"}
    moved = dict(tables, clinic=people[["id", "a", "b"]].iloc[::-1])
    with pytest.raises(DataError, match="clinic are not those of the other silos"):
        match(moved, aligned=True)


def test_tables_without_ids_are_taken_as_they_are(people):
    parts = partition_columns(people[list("abcde")].to_numpy(), 3)

    federation = simulate(parts, partition="columns", policy=OPEN)

    assert federation.n_rows == 60
    assert len(federation.ledger) == 0
    with pytest.raises(DataError, match="is for column partitions"):
        simulate(parts, aligned=True)


@pytest.mark.slow
def test_two_sets_have_the_intersection_that_another_library_finds(people):
    psi = pytest.importorskip("private_set_intersection.python")
    tables = {name: silos_of(people)[name] for name in ("clinic", "pharmacy")}
    client, server = (
        psi.client.CreateWithNewKey(True),
        psi.server.CreateWithNewKey(True),
    )
    own, theirs = (list(table["id"]) for table in tables.values())
    setup = server.CreateSetupMessage(0.0, len(own), theirs, psi.DataStructure.RAW)
    response = server.ProcessRequest(client.CreateRequest(own))

    found = {own[i] for i in client.GetIntersection(setup, response)}

    assert set(ordered_ids(match(tables), tables)["clinic"]) == found
