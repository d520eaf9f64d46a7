"""Matching: what is told to whom, what is refused, what a relay cannot do."""

import logging

import numpy as np
import pandas as pd
import pytest

import wire
from line_fields import fields
from matched_people import OPEN, common_ids, match, people, silos_of
from unpooled import Policy, VFedPCA, plan
from unpooled.errors import AggregationError, DataError, ReleaseRefusedError
from unpooled.federation.matching import agree_on_rows
from unpooled.protocol.matching_stages import STAGES
from unpooled.protocol.message import decode, encode
from unpooled.protocol.step import find_step
from unpooled.secure.intersection import protocol as intersection

# Fixtures of another module.
__all__ = ["people"]


# --- What it shows -------------------------------------------------------------------


@pytest.mark.slow
def test_ledger_has_what_travelled(people):
    tables = silos_of(people)
    federation = match(tables)
    N, places = len(common_ids(tables)), intersection.places_for(45)

    left = fields(federation.ledger, "step name shape visibility", direction="out")

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


@pytest.mark.slow
def test_silos_keep_the_match_rate_to_themselves(people, caplog):
    tables = silos_of(people)
    with caplog.at_level(logging.INFO, "unpooled.party"):
        federation = match(tables)

    N = federation.n_rows
    reports = [r.getMessage() for r in caplog.records if "common to all" in r.message]
    assert len(reports) == 3
    assert all(f"{N} of 45 rows are common to all silos" in text for text in reports)


# --- What is refused -----------------------------------------------------------------


@pytest.mark.thinned(1)
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


@pytest.mark.slow
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


@pytest.mark.thinned(1)
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


@pytest.mark.slow
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


@pytest.mark.slow
def test_plan_says_what_matching_releases(people):
    tables = silos_of(people)
    silos = wire.silos(tables, partition="columns", ids="id", policy=OPEN)
    planned = plan(VFedPCA(rounds=1), silos.federation)
    assert len(silos.federation.ledger) == 0

    agree_on_rows(silos.federation)
    VFedPCA(rounds=1).fit(silos.federation)

    names = [(line.round, line.step, line.name) for line in planned.releases]
    assert names == [(x.round, x.step, x.name) for x in silos.ledger]
