"""The party's door: rosters, messages in their order, rounds answered once."""

import numpy as np
import pytest

from silo_doors import check_refusal, here, knock, ran
from unpooled.protocol.library_build import library_build
from unpooled.protocol.message import decode, encode
from wire import Rogue, kind

# Fixtures of another module.
__all__ = ["here"]


@pytest.mark.parametrize(
    "listed",
    [
        ["a", "a", "b"],
        ["a", "b", "b", "b"],
        ["a", "b", "mallory"],
        ["b", "c"],
        [],
        "abc",
        ["a", "b", "c", "c"],
        ["a", "b", 5],
        {"a": 1, "b": 1},
    ],
)
def test_a_roster_that_is_not_what_it_says(here, listed):
    """Names that stand twice would let two parties pass for three."""
    known = {name: here.roster[name] for name in "abc" if name in listed}
    from unpooled.secure.keys.roster import Roster

    reply = knock(
        here,
        encode(
            {
                "kind": "join",
                "study": "s",
                "session": "t",
                "parties": listed,
                "roster": Roster(known).digest(),
                "protection": "masked",
                "library": library_build(),
            },
            {},
        ),
    )
    if listed == "abc":
        assert reply.header["kind"] in ("offer", "refused")
    else:
        check_refusal(reply)
        assert reply.header["rule"] in (
            "wrong_roster",
            "min_parties",
            "malformed_message",
        )


def test_messages_out_of_their_order(here):
    rogue = Rogue(here)
    for said in ("agree", "offer group key", "accept group key"):
        sealed = dict.fromkeys("abc", "")
        header = {"kind": said, "offers": {}, "leader": "b", "sealed": sealed}
        for reply in rogue.ask_all(header).values():
            check_refusal(reply, "out_of_order")
    offers = rogue.join()
    for reply in rogue.join().values():
        check_refusal(reply, "replayed")
    # There are no keys yet under which parties could compare.
    for reply in rogue.ask_all(
        {"kind": "offer computing", "coordinator": True}
    ).values():
        check_refusal(reply, "out_of_order")
    rogue.agree(offers)
    header = {"kind": "accept group key", "leader": "b", "sealed": {"a": "00" * 60}}
    check_refusal(rogue.say("a", {**rogue.where, **header}), "wrong_signature")
    header["leader"] = "a"
    check_refusal(rogue.say("a", {**rogue.where, **header}), "wrong_roster")
    for reply in rogue.ask_all({"kind": "leave"}).values():
        assert reply.header["kind"] == "left"
    assert set(rogue.rules("pca.local_total").values()) == {"out_of_order"}


def test_the_same_request_again_gets_the_same_bytes(here):
    rogue = Rogue(here).enter()
    request = encode(*rogue.request("silo_doors.counts").as_message())
    ran.clear()

    first = here.parties["a"].handle(request)

    assert kind(first) == "released"
    assert here.parties["a"].handle(request) == first
    assert ran == ["counts"]
    assert len(here.parties["a"].studies["study"].ledger) == 1


def test_a_round_is_answered_once(here):
    """Other arguments, another step or view in an answered round: no second mask."""
    rogue = Rogue(here).enter()
    first = rogue.request("pca.local_squares", {"mean": np.zeros(3)})
    check = here.parties["a"].handle
    assert kind(check(encode(*first.as_message()))) == "released"
    header, arrays = first.as_message()
    for altered in (
        ({**header, "step": "pca.local_total", "public": {}}, {}),
        (header, {"public.mean": np.ones(3)}),
        ({**header, "view": []}, arrays),
        ({**header, "round": 0}, arrays),
        ({**header, "round": -5}, arrays),
        ({**header, "to": "parties"}, arrays),
        ({**header, "extra": 1}, arrays),
    ):
        check_refusal(decode(check(encode(*altered))), "replayed")


def test_a_refused_round_is_spent(here):
    rogue = Rogue(here).enter()
    bad = rogue.request("silo_doors.fails_loudly")
    check = here.parties["a"].handle
    check_refusal(decode(check(encode(*bad.as_message()))), "failed_in_silo")
    check_refusal(decode(check(encode(*bad.as_message()))), "replayed")
    header = {**bad.as_message()[0], "step": "silo_doors.counts"}
    check_refusal(decode(check(encode(header, {}))), "replayed")
