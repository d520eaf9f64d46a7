"""Rounds: what stays in ledgers and sessions, of failed ones and of whole ones."""

import numpy as np
import pytest

import unpooled as up
from unpooled.arrays import Array
from unpooled.errors import DataError, ReleaseRefusedError
from unpooled.protocol.message import decode
from unpooled.protocol.step import release, summed
from wire import Silos, kind, rows, silos
from wire_faults import REPLY_FAULTS, STEP, at, echo, fails, picky, three_silos, works


@pytest.fixture
def here() -> Silos:
    return three_silos()


def test_what_left_is_in_the_ledger_although_the_round_failed(here):
    at(STEP, here, REPLY_FAULTS["dropped"])
    fails(here, to="coordinator")
    assert [(line.step, line.parties) for line in here.ledger] == [(STEP, ("a", "b"))]
    assert here.ledger.verify(here.roster)
    assert len(here.parties["c"].studies["study"].ledger) == 1


def test_a_ledger_outlives_a_lost_reply(here):
    """What the coordinator never heard of, it asks for when it joins again."""
    at(STEP, here, REPLY_FAULTS["dropped"])
    fails(here, to="coordinator")
    works(here)
    assert here.ledger.verify(here.roster)
    for name, party in here.parties.items():
        own = [line.seals[name] for line in party.studies["study"].ledger]
        assert own == [line.seals[name] for line in here.ledger if name in line.seals]


def test_a_refusal_by_one_party_opens_nothing():
    tables = {name: rows(seed=i) for i, name in enumerate("abc")}
    tables["b"][0, 0] = 1e10
    here = silos(tables)
    with pytest.raises(DataError, match="b could not answer") as wrong:
        here.federation.sum(picky, mean=np.zeros(3))
    assert "100" not in str(wrong.value)
    assert [line.parties for line in here.ledger] == 2 * [("a", "c")]


def test_transforms_are_sent_again_after_a_refusal():
    """A silo that refused has not kept what came: the next step brings it anew."""
    tables = {name: rows(seed=i) for i, name in enumerate("abc")}
    here = silos(tables)
    scaler = up.StandardScaler().fit(here.federation)
    view = scaler.transform(here.federation)

    with view.fitting():
        with pytest.raises(ReleaseRefusedError, match="failed_in_silo"):
            view.sum(failing)
        total = view.sum(echo)["total"]

    np.testing.assert_allclose(total, 0, atol=1e-12)
    assert here.ledger.verify(here.roster)


@summed(total=release("p"))
def failing(X: Array) -> dict[str, Array]:
    raise RuntimeError


def test_every_fit_has_a_session_and_offers_of_its_own(here):
    for _ in range(3):
        with here.federation.fitting():
            here.federation.sum(echo)
            here.federation.sum(echo)
    sessions = {
        decode(data).header["session"]
        for _, data in here.wire.sent
        if kind(data) == "step"
    }
    assert len(sessions) == 3
    offers = {decode(d).header["key"] for _, d in here.wire.of_kind("offer")}
    assert len(offers) == 9
    rounds = [line.round for line in here.ledger]
    assert rounds == [1, 2, 3, 4, 5, 6]
    # Left behind: no session, so no keys.
    assert all(not party._sessions for party in here.parties.values())


def test_listeners_hear_every_reply_and_records_count_bytes(here):
    heard: list[tuple[str, str, int]] = []
    coordinator = here.federation.coordinator
    coordinator.listeners.append(lambda *event: heard.append(event))
    with here.federation.fitting():
        here.federation.sum(echo)
    assert [event[1] for event in heard[::3]] == ["join", "agree", STEP, "leave"]
    assert [event[0] for event in heard] == list("abc") * 4
    by_step = {record.step: record for record in here.federation.rounds}
    (request,) = {data for _, data in here.wire.sent if kind(data) == "step"}
    assert by_step[STEP].bytes_in == len(request)
    replies = [len(data) for _, data in here.wire.of_kind("released")]
    assert by_step[STEP].bytes_out == sum(replies) // 3
    assert by_step["join"].round == 0
    assert by_step[STEP].round == 1
