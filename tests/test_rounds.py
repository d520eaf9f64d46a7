"""Faults on the wire: every one ends the round with an error that holds no value.

Each fault is tried at every stage of a fit: join, agree, the group key, a step.
"""

import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import unpooled as up
from unpooled.arrays import Array
from unpooled.errors import (
    AggregationError,
    DataError,
    ReleaseRefusedError,
    UnpooledError,
)
from unpooled.party.step import release, summed
from unpooled.secure.message import decode, digest, encode
from unpooled.secure.roster import Identity
from wire import Silos, Wire, kind, rows, silos

SECRET = 918273.5
STEP = "test_rounds.echo"
STAGES = ["join", "agree", "offer group key", "accept group key", STEP]
Reply = tuple[str, bytes]


@summed(total=release("p", meaning="the sum of each column"))
def echo(X: Array) -> dict[str, Array]:
    return {"total": X.sum(axis=0)}


@summed(takes={"mean": "p"}, total=release("p"))
def picky(X: Array, *, mean: Array) -> dict[str, Array]:
    if np.abs(X).max() > 1e9:
        raise DataError("too large", rule="infinite_values")
    return {"total": X.sum(axis=0) - mean}


@pytest.fixture
def here() -> Silos:
    tables = {name: rows(seed=i) for i, name in enumerate("abc")}
    tables["b"][4, 1] = SECRET
    return silos(tables)


def stage_of(wire: Wire) -> str:
    header = decode(wire.sent[-1][1]).header
    return header["step"] if header["kind"] == "step" else header["kind"]


def fails(here: Silos, to: str = "parties", **options: Any) -> UnpooledError:
    """Run a step that must fail, and check that its error tells no secret."""
    before = len(here.wire.received)
    with pytest.raises((AggregationError, ReleaseRefusedError)) as wrong:
        here.federation.sum(echo, to=to, **options)
    text, error = "", wrong.value
    while error is not None:
        text += f"{error} {error!r} {vars(error)}"
        error = error.__cause__ or error.__context__
    total = sum(float(part.sum()) for part in (rows(seed=i) for i in range(3)))
    for secret in ("918273", f"{total:.2f}", ".csv", "/", "30"):
        assert secret not in text
    assert len(here.wire.received) - before <= 3 * len(STAGES)
    return wrong.value


def works(here: Silos) -> None:
    """After a fault the next fit, with keys of its own, is as if nothing had been."""
    here.wire.on_request = lambda _, data: data
    here.wire.on_replies = lambda replies: replies
    with here.federation.fitting():
        total = here.federation.sum(echo)["total"]
    expected = np.sum([rows(seed=i).sum(axis=0) for i in range(3)], axis=0)
    expected[1] += SECRET - rows(seed=1)[4, 1]
    np.testing.assert_allclose(total, expected, rtol=1e-14)


def at(stage: str, here: Silos, fault: Callable[[list[Reply]], list[Reply]]) -> None:
    def on_replies(replies: list[Reply]) -> list[Reply]:
        return fault(replies) if stage_of(here.wire) == stage else replies

    here.wire.on_replies = on_replies


def on_one(change: Callable[[bytes], bytes | None]) -> Any:
    """A fault that changes the reply of the last party, or drops it."""

    def fault(replies: list[Reply]) -> list[Reply]:
        party, data = replies[-1]
        altered = change(data)
        return replies[:-1] + ([] if altered is None else [(party, altered)])

    return fault


def flipped(data: bytes, place: int) -> bytes:
    altered = bytearray(data)
    altered[place] ^= 0x20
    return bytes(altered)


def front(data: bytes) -> int:
    return 13 + struct.unpack_from("<9sI", data)[1]


def resigned(data: bytes) -> bytes:
    message = decode(data)
    return encode(message.header, message.arrays, Identity())


def unsigned(data: bytes) -> bytes:
    message = decode(data)
    return encode(message.header, message.arrays)


REPLY_FAULTS = {
    "dropped": on_one(lambda data: None),
    "empty": on_one(lambda data: b""),
    "truncated": on_one(lambda data: data[:-1]),
    "half": on_one(lambda data: data[: len(data) // 2]),
    "header only": on_one(lambda data: data[: front(data)]),
    "longer": on_one(lambda data: data + b"\0"),
    "flipped magic": on_one(lambda data: flipped(data, 0)),
    "flipped length": on_one(lambda data: flipped(data, 9)),
    "flipped header": on_one(lambda data: flipped(data, 40)),
    "flipped signature": on_one(lambda data: flipped(data, front(data) + 7)),
    "flipped end": on_one(lambda data: flipped(data, len(data) - 1)),
    "signed by another": on_one(resigned),
    "not signed": on_one(unsigned),
    "garbage": on_one(lambda data: b"\x93NUMPY" + data),
    "twice": lambda replies: [*replies, replies[-1]],
    "twice, first": lambda replies: [replies[0], *replies],
    "nobody": lambda replies: [],
    "a stranger too": lambda replies: [*replies, ("mallory", replies[0][1])],
    "renamed": lambda replies: [("mallory", replies[0][1]), *replies[1:]],
}


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("fault", REPLY_FAULTS)
def test_a_faulty_reply_ends_the_round(here, stage, fault):
    at(stage, here, REPLY_FAULTS[fault])

    error = fails(here)

    assert isinstance(error, AggregationError)
    if stage == STEP:
        works(here)


@pytest.mark.parametrize("stage", ["join", "agree", STEP])
def test_replies_swapped_between_parties(here, stage):
    def swap(replies: list[Reply]) -> list[Reply]:
        (a, one), (b, two), *rest = replies
        return [(a, two), (b, one), *rest]

    at(stage, here, swap)
    assert fails(here).rule == "wrong_signature"
    works(here)


def test_replies_in_another_order_are_no_fault(here):
    here.wire.on_replies = lambda replies: replies[::-1]
    with here.federation.fitting():
        here.federation.sum(echo, to="parties")
        backwards = here.federation.sum(echo)["total"]
    works(here)
    assert (here.federation.sum(echo)["total"] == backwards).all()
    assert here.ledger.verify(here.roster)


@pytest.mark.parametrize("stage", STAGES)
def test_a_reply_of_an_earlier_fit_comes_late(here, stage):
    """The same party's honest, signed reply to the same question, one fit before."""
    with here.federation.fitting():
        here.federation.sum(echo, to="parties")
    earlier = {}
    asked: dict[str, str] = {}
    for _, data in here.wire.sent:
        header = decode(data).header
        asked[digest(data)] = header.get("step", header["kind"])
    for party, data in here.wire.received:
        earlier[asked[decode(data).header["request"]], party] = data

    def fault(replies: list[Reply]) -> list[Reply]:
        return [(party, earlier[stage, party]) for party, _ in replies]

    at(stage, here, fault)
    with here.federation.fitting():
        assert fails(here).rule == "out_of_order"


def test_a_reply_of_an_earlier_round_comes_late(here):
    federation = here.federation
    with federation.fitting():
        federation.sum(echo)
        late = dict(here.wire.of_kind("released"))
        at(STEP, here, lambda replies: [*replies[:-1], ("c", late["c"])])
        assert fails(here, to="coordinator").rule == "out_of_order"
        # And next to the right one, it is a second answer.
        at(STEP, here, lambda replies: [*replies, ("c", late["c"])])
        assert "twice" in str(fails(here, to="coordinator"))


@pytest.mark.parametrize("party", "abc")
@pytest.mark.parametrize("stage", STAGES)
def test_a_party_that_is_not_there(here, stage, party):
    def on_request(name: str, data: bytes) -> bytes | None:
        return None if name == party and stage_of(here.wire) == stage else data

    here.wire.on_request = on_request
    if (stage, party) in {
        ("offer group key", "b"),
        ("offer group key", "c"),
        ("accept group key", "a"),
    }:
        here.federation.sum(echo, to="parties")  # nobody asked it there
        return
    error = fails(here)
    assert str(error).startswith(f"{party} did not answer {stage}")
    assert "run the fit again" in str(error)
    works(here)


def test_a_party_that_leaves_without_a_word_does_no_harm(here):
    here.wire.on_request = lambda name, data: None if kind(data) == "leave" else data
    with here.federation.fitting():
        here.federation.sum(echo)
    works(here)


# --- requests altered on their way ----------------------------------------------------


def altered_to(here: Silos, party: str, stage: str, change: Any) -> None:
    def on_request(name: str, data: bytes) -> bytes | None:
        hit = name == party and stage_of(here.wire) == stage
        return change(data) if hit else data

    here.wire.on_request = on_request


REQUEST_FAULTS = {
    "flipped magic": lambda data: flipped(data, 3),
    "flipped length": lambda data: flipped(data, 9),
    "flipped header": lambda data: flipped(data, 30),
    "flipped end of header": lambda data: flipped(data, front(data) - 3),
    "flipped signature": lambda data: flipped(data, front(data) + 3),
    "truncated": lambda data: data[:-1],
    "longer": lambda data: data + bytes(64),
    "empty": lambda data: b"",
}


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("fault", REQUEST_FAULTS)
def test_an_altered_request_ends_the_round(here, stage, fault):
    party = "a" if stage == "offer group key" else "b"
    altered_to(here, party, stage, REQUEST_FAULTS[fault])

    # Whatever the party made of it, its reply is tied to what it got.
    assert fails(here).rule == "out_of_order"
    if stage == "agree":
        works(here)


def test_every_byte_of_a_step_request_counts(here):
    federation = here.federation
    with federation.fitting():
        federation.sum(echo)
        length = len(here.wire.sent[-1][1])
        for place in range(0, length, 23):
            altered_to(here, "b", STEP, lambda data, p=place: flipped(data, p))
            assert fails(here, to="coordinator").rule == "out_of_order"


def test_an_argument_altered_on_its_way(here):
    """The relay sends one party another mean: the total would be another."""

    def change(data: bytes) -> bytes:
        message = decode(data)
        return encode(message.header, {"public.mean": np.ones(3)})

    altered_to(here, "b", "test_rounds.picky", change)
    with pytest.raises(AggregationError, match="belongs to another request"):
        here.federation.sum(picky, mean=np.zeros(3))


def test_an_old_request_in_place_of_the_new_one(here):
    federation = here.federation
    with federation.fitting():
        federation.sum(echo)
        (old,) = {data for _, data in here.wire.sent if kind(data) == "step"}
        altered_to(here, "b", STEP, lambda data: old)
        assert fails(here, to="coordinator").rule == "out_of_order"
        # The party answered the old round with the bytes of the old round.
        replies = [data for p, data in here.wire.of_kind("released") if p == "b"]
        assert replies[0] == replies[1]


def _swap_keys(message: Any, mallory: Any) -> dict[str, Any]:
    public, _ = mallory.offer()
    offers = dict(message.header["offers"])
    offers["a"] = [public.hex(), offers["a"][1]]
    return {**message.header, "offers": offers}


def _swap_offer(message: Any, mallory: Any) -> dict[str, Any]:
    public, signature = mallory.offer()
    offers = {**message.header["offers"], "a": [public.hex(), signature.hex()]}
    return {**message.header, "offers": offers}


def _drop_offer(message: Any, mallory: Any) -> dict[str, Any]:
    offers = {k: v for k, v in message.header["offers"].items() if k != "a"}
    return {**message.header, "offers": offers}


@pytest.mark.parametrize("swap", [_swap_keys, _swap_offer, _drop_offer])
@pytest.mark.parametrize("victims", ["b", "bc"])
def test_a_relay_that_swaps_ephemeral_keys(here, swap, victims):
    """The man in the middle of every key agreement; identities are pinned."""
    from unpooled.ledger import canonical
    from unpooled.secure.agreement import Agreement

    refusals = []

    def on_request(name: str, data: bytes) -> bytes:
        if name not in victims or kind(data) != "agree":
            return data
        message = decode(data)
        session = canonical([message.header["study"], message.header["session"]])
        mallory = Agreement("a", Identity(), here.roster, session)
        altered = encode(swap(message, mallory), {})
        refusals.append(decode(here.parties[name].handle(altered)).header["rule"])
        return altered

    here.wire.on_request = on_request
    assert fails(here).rule == "out_of_order"
    assert set(refusals) <= {"wrong_signature", "wrong_roster"}
    assert len(refusals) == len(victims)
    works(here)


def test_a_roster_with_a_stranger_is_refused(here):
    here.wire.parties = ("a", "b", "c")
    coordinator = here.federation.coordinator
    coordinator._parties = ("a", "b", "c", "mallory")
    with pytest.raises(ReleaseRefusedError, match="wrong_roster"):
        here.federation.sum(echo)


# --- parties that sign nonsense -------------------------------------------------------


def lies(here: Silos, stage: str, change: Any) -> None:
    """Party b answers with its own signature, and something else."""

    def fault(replies: list[Reply]) -> list[Reply]:
        made = []
        for party, data in replies:
            if party == "b":
                message = decode(data)
                header, arrays = dict(message.header), dict(message.arrays)
                change(header, arrays)
                data = encode(header, arrays, here.parties["b"]._identity)
            made.append((party, data))
        return made

    at(stage, here, fault)


def _set(**fields: Any) -> Any:
    return lambda header, arrays: header.update(fields)


LIES = {
    "other kind": (STEP, _set(kind="left")),
    "odd kind": (STEP, _set(kind=["released"])),
    "no kind": (STEP, lambda header, arrays: header.pop("kind")),
    "more fields": (STEP, _set(note="918273.5")),
    "no seals": (STEP, lambda header, arrays: header.pop("seals")),
    "empty seals": (STEP, _set(seals=[])),
    "odd seals": (STEP, _set(seals=5)),
    "odd seal": (STEP, _set(seals=[[0, "", "zz"]])),
    "too many seals": (STEP, lambda h, _: h["seals"].append(h["seals"][0])),
    "text for a number": (
        STEP,
        lambda header, arrays: header["seals"][0].__setitem__(0, "0"),
    ),
    "no array": (STEP, lambda header, arrays: arrays.clear()),
    "another array": (STEP, lambda h, a: a.update(total=a["total"] + np.uint64(1))),
    "one array more": (STEP, lambda h, a: a.update(more=np.zeros(3))),
    "renamed": (STEP, lambda header, arrays: arrays.update(x=arrays.pop("total"))),
    "no key": ("join", lambda header, arrays: header.pop("key")),
    "odd key": ("join", _set(key=5)),
    "short key": ("join", _set(key="00")),
    "agreed to nothing": ("agree", _set(kind="offer")),
    "not for itself": (STEP, _set(party="a")),
    "another request": (STEP, _set(request="00" * 32)),
    "unknown rule": (STEP, _set(kind="refused", rule="918273.5", error="x")),
    "odd rule": (STEP, _set(kind="refused", rule=[SECRET], error={})),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_party_that_signs_nonsense(here, lie):
    stage, change = LIES[lie]
    lies(here, stage, change)

    error = fails(here)

    if "rule" in lie:
        assert error.rule == "failed_in_silo"
    # What the others released is in the ledger all the same.
    if stage == STEP and lie not in ("not for itself", "another request"):
        assert {p for line in here.ledger for p in line.parties} >= {"a", "c"}
    assert here.ledger.verify(here.roster)


def test_words_of_another_shape_are_not_added(here):
    """A consistent lie, sealed and all: only the declaration tells."""
    from dataclasses import replace

    from unpooled.party.lines import ledger_lines
    from unpooled.party.request import Request

    def change(header: dict[str, Any], arrays: dict[str, Array]) -> None:
        arrays["total"] = np.zeros((3, 5), np.uint64)
        request = Request.from_message(decode(here.wire.sent[-1][1]), {})
        ((line, _),) = ledger_lines(request, echo, {"p": 3}, "masked", tuple("abc"))
        content, number = digest(arrays["total"].data), header["seals"][0][0]
        statement = replace(line, parties=("b",)).statement("b", number, content)
        signature = here.parties["b"]._identity.sign(statement)
        header["seals"] = [[number, content, signature.hex()]]

    lies(here, STEP, change)
    assert "something else than is declared" in str(fails(here, to="coordinator"))


# --- what stays ----------------------------------------------------------------------


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
