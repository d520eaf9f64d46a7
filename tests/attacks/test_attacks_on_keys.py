"""Attacks on a session: keys agreed again or handed back, and rounds used up."""

import pytest

from wire import Rogue, Silos, silos


@pytest.fixture
def here() -> Silos:
    return silos()


def computing(here: Silos) -> list[object]:
    return [s.computing for p in here.parties.values() for s in p._sessions.values()]


def test_the_same_keys_are_not_agreed_again(here):
    rogue = Rogue(here)
    offers = rogue.join()
    rogue.agree(offers)
    before = computing(here)
    # A second agreement would put a new tunnel in place of one whose messages are
    # numbered already, under the same keys, and leave its process behind.
    for reply in rogue.agree(offers).values():
        assert reply.header["rule"] == "replayed"
    assert computing(here) == before
    # The session itself goes on.
    assert set(rogue.rules("scaler.local_counts").values()) == {""}


def test_who_takes_a_silo_over_later_has_no_private_half(here):
    Rogue(here).enter()
    for party in here.parties.values():
        (session,) = party._sessions.values()
        assert session._agreement._private is None


def test_no_silo_takes_its_own_group_key_for_another_s(here):
    rogue = Rogue(here).enter()
    sealed = rogue.say("a", {"kind": "offer group key", **rogue.where}).header["sealed"]
    # What a sealed for b, under the key that the two share, back to a.
    reflected = {"leader": "b", "sealed": {"a": sealed["b"]}}
    told = rogue.say("a", {"kind": "accept group key", **rogue.where, **reflected})
    assert told.header["kind"] == "refused"
    # And what a sealed for b, to c: nobody but b opens it.
    swapped = {"leader": "a", "sealed": {"c": sealed["b"]}}
    told = rogue.say("c", {"kind": "accept group key", **rogue.where, **swapped})
    assert told.header["rule"] == "wrong_signature"


def test_a_group_key_stays_what_it_is(here):
    rogue = Rogue(here).enter()
    offer = {"kind": "offer group key", **rogue.where}
    assert rogue.say("a", offer).header["kind"] == "group"
    assert rogue.say("a", offer).header["rule"] == "replayed"


@pytest.mark.parametrize("far", [10**30, 2**31, 10_000])
def test_no_request_uses_all_rounds_of_a_session_up(here, far):
    rogue = Rogue(here).enter()
    assert set(rogue.rules("scaler.local_counts").values()) == {""}
    rogue.round = far
    assert set(rogue.rules("scaler.local_counts").values()) == {"out_of_order"}
    rogue.round = 1
    assert set(rogue.rules("scaler.local_counts").values()) == {""}


def test_a_session_begins_where_a_study_was_and_not_at_its_end(here):
    resumed = Rogue(here).enter()
    resumed.round = 5_000_000
    assert set(resumed.rules("scaler.local_counts").values()) == {""}
    endless = Rogue(here).enter()
    endless.round = 10**30
    assert set(endless.rules("scaler.local_counts").values()) == {"out_of_order"}
