"""Rows of column partitions matched by ids, through the silos' doors."""

import logging

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import wire
from unpooled import Policy, VFedPCA, partition_columns, plan, simulate
from unpooled.errors import AggregationError, DataError, ReleaseRefusedError
from unpooled.federation import matching
from unpooled.federation.matching import agree_on_rows
from unpooled.party import matcher
from unpooled.party.matching import STAGES
from unpooled.party.step import find_step
from unpooled.secure import intersection
from unpooled.secure.message import decode, encode

OPEN = Policy.open()
COLUMNS = {"clinic": ["a", "b"], "laboratory": ["c"], "pharmacy": ["d", "e"]}


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(rng.standard_normal((60, 5)), columns=list("abcde"))
    frame["id"] = [f"Person {i}" for i in range(60)]
    return frame


def silos_of(people):
    """Each silo's own columns of some of the people, in its own order."""
    return {
        name: people.sample(45, random_state=i)[["id", *columns]]
        for i, (name, columns) in enumerate(COLUMNS.items())
    }


def match(tables, **options):
    options = {"ids": "id", "policy": OPEN, **options}
    return simulate(tables, partition="columns", **options)


def common_ids(tables):
    return set.intersection(*(set(table["id"]) for table in tables.values()))


def ordered_ids(federation, tables):
    rows = federation.layout.rows_of
    return {name: list(table["id"].iloc[rows[name]]) for name, table in tables.items()}


@pytest.mark.parametrize("parties", [("clinic", "pharmacy"), tuple(COLUMNS)])
def test_every_silo_has_the_common_rows_in_one_order(people, parties):
    tables = {name: silos_of(people)[name] for name in parties}

    federation = match(tables)

    ids = ordered_ids(federation, tables)
    assert set(ids["clinic"]) == common_ids(tables)
    assert all(own == ids["clinic"] for own in ids.values())
    assert federation.n_rows == len(common_ids(tables))


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


def test_ids_are_normalised_before_they_are_compared(people):
    tables = silos_of(people)
    same = dict(tables)
    same["clinic"] = tables["clinic"].assign(
        id=tables["clinic"]["id"].str.upper() + "  "
    )

    assert match(same).n_rows == len(common_ids(tables))


def test_many_ids_go_in_several_messages(people, monkeypatch):
    monkeypatch.setattr(matching, "PART", 16)
    monkeypatch.setattr(matcher, "PART", 16)
    tables = silos_of(people)
    tables["laboratory"] = tables["laboratory"].head(20)

    federation = match(tables)

    ids = ordered_ids(federation, tables)
    assert set(ids["clinic"]) == common_ids(tables)
    assert federation.ledger.verify()


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


# --- What it shows -------------------------------------------------------------------


def test_ledger_has_what_travelled(people):
    tables = silos_of(people)
    federation = match(tables)
    N, places = len(common_ids(tables)), intersection.places_for(45)

    left = [
        (line.step, line.name, line.shape, line.visibility)
        for line in federation.ledger
        if line.direction == "out"
    ]

    assert left == [
        ("matching.count", "count", (), "disclosed"),
        ("matching.blind", "points", (45,), "exchanged"),
        ("matching.hand_on", "points", (45,), "exchanged"),
        ("matching.hand_on", "points", (45,), "exchanged"),
        ("matching.table", "table", (places,), "summed"),
        ("matching.common", "count", (), "disclosed"),
    ]
    kept = [line.shape for line in federation.ledger if line.visibility == "kept"]
    assert kept == [(N,)]
    assert {len(line.parties) for line in federation.ledger} == {3}
    assert federation.ledger.verify()


def test_coordinator_sees_counts_and_sealed_bytes_only(people):
    tables = silos_of(people)
    silos = wire.silos(tables, partition="columns", ids="id", policy=OPEN)
    agree_on_rows(silos.federation)

    seen = {}
    for _, data in silos.wire.received:
        message = decode(data)
        for name, array in message.arrays.items():
            seen.setdefault(name, []).append(array)
    assert set(seen) == {"count", "points", "table"}
    # Sealed: 28 bytes more than the points, and no two alike.
    assert {len(array) for array in seen["points"]} == {45 * 32 + 28}
    assert len({bytes(array) for array in seen["points"]}) == len(seen["points"]) == 9
    # Masked words: their sum is no zero at the common ids either, for it is veiled.
    assert np.sum(seen["table"], axis=0).all()


def test_silos_keep_the_match_rate_to_themselves(people, caplog):
    tables = silos_of(people)
    with caplog.at_level(logging.INFO, "unpooled.party"):
        federation = match(tables)

    N = federation.n_rows
    reports = [r.getMessage() for r in caplog.records if "common to all" in r.message]
    assert len(reports) == 3
    assert all(f"{N} of 45 rows are common to all silos" in text for text in reports)


# --- What is refused -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (lambda t: t.assign(id=["x", "X ", *t["id"][2:]]), "duplicate_ids"),
        (lambda t: t.assign(id=[None, *t["id"][1:]]), "missing_ids"),
        (lambda t: t.assign(id=[f"other {i}" for i in range(45)]), "no_common_rows"),
    ],
)
def test_ids_that_cannot_be_matched_are_refused_by_rule(people, change, rule):
    tables = silos_of(people)
    tables["pharmacy"] = change(tables["pharmacy"])

    with pytest.raises(DataError, match=rule) as refused:
        match(tables)

    assert "Person" not in str(refused.value)


def test_few_common_rows_are_refused_before_their_number_is_told(people):
    tables = silos_of(people)
    few = [*sorted(common_ids(tables))[:3], *[f"other {i}" for i in range(20)]]
    tables["clinic"] = pd.DataFrame({"id": few, "a": 1.0, "b": 2.0})

    with pytest.raises(ReleaseRefusedError, match="min_rows"):
        match(tables, policy=Policy(allow_row_level=True))


def test_two_silos_must_allow_it(people):
    tables = {name: silos_of(people)[name] for name in ("clinic", "pharmacy")}

    with pytest.raises(ReleaseRefusedError, match="min_parties"):
        match(tables, policy=Policy(allow_row_level=True))


def test_a_silo_may_list_what_it_takes_part_in(people):
    rules = {"allow_row_level": True, "allowed_steps": ["vfedpca.*"]}
    with pytest.raises(ReleaseRefusedError, match="allowed_steps"):
        match(silos_of(people), policy=rules)

    rules["allowed_steps"].append("matching.*")
    assert match(silos_of(people), policy=rules).n_rows


@pytest.mark.parametrize("stage", STAGES)
def test_stages_are_not_steps(stage):
    with pytest.raises(ReleaseRefusedError, match="allowed_steps"):
        find_step(stage)


@pytest.mark.parametrize("stage", ["hand_on", "take"])
def test_a_relay_cannot_change_points_or_exchange_them(people, stage):
    tables = silos_of(people)
    silos = wire.silos(tables, partition="columns", ids="id", policy=OPEN)

    def altered(party, data):
        message = decode(data)
        if message.header.get("stage") != f"matching.{stage}":
            return data
        points = message.arrays["received"].copy()
        points[40] ^= 1
        return encode(message.header, {"received": points})

    silos.wire.on_request = altered
    with pytest.raises(AggregationError):
        agree_on_rows(silos.federation)
    rules = [
        decode(data).header.get("rule") for _, data in silos.wire.of_kind("refused")
    ]
    assert set(rules) == {"wrong_signature"}


def test_a_relay_cannot_ask_twice(people):
    silos = wire.silos(silos_of(people), partition="columns", ids="id", policy=OPEN)
    agree_on_rows(silos.federation)
    asked = [
        (party, data)
        for party, data in silos.wire.sent
        if decode(data).header["kind"] == "match"
    ]

    for party, data in asked:
        reply = decode(silos.parties[party].handle(data))
        assert reply.header["kind"] == "refused"


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
    with pytest.raises(DataError, match="is about column partitions"):
        simulate(parts, aligned=True)


def test_plan_says_what_matching_releases(people):
    tables = silos_of(people)
    silos = wire.silos(tables, partition="columns", ids="id", policy=OPEN)
    planned = plan(VFedPCA(rounds=1), silos.federation)
    assert len(silos.federation.ledger) == 0

    agree_on_rows(silos.federation)
    VFedPCA(rounds=1).fit(silos.federation)

    names = [(line.round, line.step, line.name) for line in planned.releases]
    assert names == [(x.round, x.step, x.name) for x in silos.ledger]


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
