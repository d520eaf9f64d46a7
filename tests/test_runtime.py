"""The party's door: any bytes get a signed reply, and it holds nothing but a rule."""

import copy
import json
import logging
import os

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from unpooled.arrays import Array
from unpooled.errors import RULES, DataError
from unpooled.party.operations import Derive, Rows, Select
from unpooled.party.step import disclosed, kept, summed
from unpooled.secure.message import Message, decode, digest, encode
from wire import COLUMNS, Rogue, Silos, kind, rows, silos

# Planted in the data and in a file's name: if any of it shows in a reply, it leaked.
SECRET = 918273.5
PLACE = "ward-seven"
SECRETS = ("918273", "9.18273", PLACE, "/", "Traceback", "Error(")

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5)
    | st.sampled_from(["a", "b", "step", "parties", "study", *COLUMNS]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner)
    ),
    max_leaves=6,
)
QUICK = settings(
    max_examples=60,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    deadline=None,
)
ran: list[str] = []


@summed(out="")
def fails_loudly(X: Array) -> dict[str, Array]:
    raise RuntimeError(f"row {X[0]} of {os.getcwd()}/{PLACE}.csv is {SECRET}")


@summed(out="")
def fails_politely(X: Array) -> dict[str, Array]:
    raise DataError(f"cell {X[0, 0]} in {PLACE}: {SECRET}", rule="infinite_values")


class OddError(Exception):
    """An error of somebody else's library that has a `rule` of its own."""

    rule = (SECRET, [PLACE])


@summed(out="")
def fails_oddly(X: Array) -> dict[str, Array]:
    raise OddError


@summed(out="")
def counts(X: Array) -> dict[str, Array]:
    ran.append("counts")
    return {"out": np.array(float(len(X)))}


@summed(out="")
def shouts(X: Array, *, text: str = "", number: float = 0.0) -> dict[str, Array]:
    raise ValueError(text)


@disclosed(out="p")
def shows(X: Array) -> dict[str, Array]:
    ran.append("shows")
    return {"out": X.sum(axis=0)}


@kept(out="p")
def stays_here(X: Array) -> dict[str, Array]:
    return {"out": X.sum(axis=0)}


@pytest.fixture
def here(tmp_path_factory) -> Silos:
    table = rows()
    table[3, 0] = SECRET
    path = tmp_path_factory.mktemp("silo") / f"{PLACE}.csv"
    np.savetxt(path, table, delimiter=",", header="x0,x1,x2", comments="")
    names = [f"x{j}" for j in range(3)]
    import pandas as pd

    return silos(
        {
            "a": path,
            "b": pd.DataFrame(rows(seed=1), columns=names),
            "c": pd.DataFrame(rows(seed=2), columns=names),
        }
    )


def check_refusal(reply: Message, rule: str | None = None) -> None:
    """A refusal says which rule, in which class of error, and nothing else."""
    assert set(reply.header) == {"party", "request", "kind", "error", "rule"}
    assert reply.header["kind"] == "refused"
    assert reply.header["error"] in (
        "ReleaseRefusedError",
        "DataError",
        "AggregationError",
    )
    assert reply.header["rule"] in RULES
    assert reply.arrays == {}
    if rule is not None:
        assert reply.header["rule"] == rule


def knock(here: Silos, data: bytes) -> Message:
    """Hand any bytes to party a; its reply is signed and tied to them."""
    reply = here.parties["a"].handle(data)
    message = decode(reply, here.roster, "a")
    assert message.header["party"] == "a"
    assert message.header["request"] == digest(data)
    return message


@QUICK
@given(st.binary(max_size=200))
def test_any_bytes_are_refused(here, data):
    for text in (data, b"UNPOOLED1" + data):
        check_refusal(knock(here, text), "malformed_message")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"UNPOOLED1",
        b"UNPOOLED1" + b"\xff" * 4,
        encode({"kind": "step"}, {})[:-1],
        b"[" * 200_000,
        b"UNPOOLED1" + (200_000).to_bytes(4, "little") + b"[" * 200_000 + bytes(128),
    ],
)
def test_broken_messages_are_refused(here, data):
    check_refusal(knock(here, data), "malformed_message")


KINDS = [
    *"describe join agree step plan leave refused released opened".split(),
    *"announce recall deliver".split(),
    "offer group key",
    "accept group key",
]


@QUICK
@given(JSON, st.sampled_from(KINDS))
def test_any_header_gets_a_reply(here, value, said):
    where = Rogue(here).enter().where
    for header in (
        {"kind": value},
        {"kind": said},
        {"kind": said, "study": value, "session": value},
        {"kind": said, **where, "parties": value, "roster": value, "offers": value},
        {**where, "kind": said, "sealed": value, "leader": value, "view": value},
    ):
        reply = knock(here, encode(header, {}))
        if reply.header["kind"] == "refused":
            check_refusal(reply)
        else:
            assert reply.header["kind"] in (
                "described", "group", "left", "planned", "announced", "recalled",
            )  # fmt: skip


def _good_request(here: Silos) -> tuple[dict, dict]:
    rogue = Rogue(here).enter()
    # So that transforms are fitted, and their parameters reach the arithmetic.
    rogue.totals("imputer.local_observed")
    operations = (
        Select(COLUMNS),
        Rows(1, 2, 0.0, False, 7),
        Derive("imputer.imputed", COLUMNS, {"statistics": np.zeros(3)}),
    )
    return rogue.request("pca.local_total", operations=operations).as_message()


def _places(value, path=()):
    yield path
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, inner in items:
            yield from _places(inner, (*path, key))


@settings(QUICK, max_examples=25)
@given(data=st.data())
def test_every_field_of_a_request_may_be_anything(here, data):
    header, arrays = _good_request(here)
    for _ in range(3):
        place = data.draw(st.sampled_from(list(_places(header))[1:]))
        altered = copy.deepcopy(header)
        inner = altered
        for key in place[:-1]:
            inner = inner[key]
        if data.draw(st.booleans()):
            inner[place[-1]] = data.draw(JSON)
        else:
            del inner[place[-1]]
        altered["round"] = header["round"] = header["round"] + 1
        try:
            message = encode(altered, arrays)
        except (TypeError, ValueError):
            continue
        reply = knock(here, message)
        if reply.header["kind"] == "refused":
            check_refusal(reply)
        else:
            assert reply.header["kind"] in ("released", "left")


@QUICK
@given(data=st.data())
def test_every_array_of_a_request_may_be_anything(here, data):
    header, arrays = _good_request(here)
    (name,) = arrays
    value = data.draw(
        st.sampled_from(
            [
                np.zeros(2),
                np.zeros(0),
                np.zeros((3, 1)),
                np.zeros((30, 3)),
                np.zeros((1, 3)),
                np.full(3, np.nan),
                np.full(3, np.inf),
                np.array([1e308, -1e308, 1e308]),
                np.zeros(3, np.int64),
                np.zeros(3, np.uint8),
                np.zeros(3, bool),
                np.zeros((3,) * 5),
            ]
        )
    )
    renamed = f"{name.rpartition('.')[0]}.{digest(value.tobytes())}"
    altered = copy.deepcopy(header)
    altered["view"][2]["public"]["statistics"]["array"] = digest(value.tobytes())
    extra = {**arrays, "view.2.other.00": np.zeros(1)}
    for message in (
        encode(header, {name: value}),
        encode(altered, {renamed: value}),
        encode(header, {}),
        encode(header, extra),
        encode(header, {**arrays, "public.more": np.zeros(3)}),
        encode(header, {**arrays, "more": np.zeros(3)}),
    ):
        reply = knock(here, message)
        if reply.header["kind"] != "released":
            check_refusal(reply)
        else:
            assert value.shape == (3,)


@pytest.mark.parametrize(
    "step",
    [
        "",
        ".",
        "os.system",
        "os.path.join",
        "builtins.eval",
        "builtins.__import__",
        "subprocess.run",
        "sys.modules",
        "pca.PCA",
        "pca.__dict__",
        "pca.__loader__",
        "pca.scatter",
        "pca.np",
        "pca.local_total.function",
        "pca.local_total.__call__",
        "pca.projected",
        "imputer.imputed",
        "__init__.x",
        "__main__.x",
        "models.pca.local_total",
        "unpooled.models.pca.local_total",
        "unpooled.PCA",
        "unpooled.errors.RULES",
        "pca .local_total",
        "pca.local_total ",
        "PCA.local_total",
        "..pca.local_total",
        "test_runtime.SECRET",
        "test_runtime.Rogue",
        "test_runtime.no_such",
        "test_runtime.check_refusal",
        "a" * 10_000,
        "a." * 5_000 + "b",
        "\0.\0",
        "pca.local_totаl",  # a Cyrillic letter
    ],
)
def test_unknown_steps_are_refused(here, step):
    rogue = Rogue(here).enter()
    for reply in rogue.step(step).values():
        check_refusal(reply, "allowed_steps")


def test_no_module_is_imported_for_a_name(here):
    import sys

    before = set(sys.modules)
    rogue = Rogue(here).enter()
    for step in ("this.s", "antigravity.fly", "scipy.cluster", "unpooled.study"):
        rogue.step(step)
    assert not {"this", "antigravity", "scipy.cluster", "unpooled.study"} & (
        set(sys.modules) - before
    )


@pytest.mark.parametrize(
    ("step", "rule", "error"),
    [
        ("fails_loudly", "failed_in_silo", "ReleaseRefusedError"),
        ("fails_oddly", "failed_in_silo", "ReleaseRefusedError"),
        ("fails_politely", "infinite_values", "DataError"),
    ],
)
def test_reasons_stay_in_the_silos_own_log(here, caplog, step, rule, error):
    rogue = Rogue(here).enter()
    with caplog.at_level(logging.INFO, "unpooled.party"):
        replies = rogue.step(f"test_runtime.{step}")
    check_refusal(replies["a"], rule)
    assert replies["a"].header["error"] == error
    if step != "fails_oddly":
        assert str(SECRET) in caplog.text
        assert PLACE in caplog.text


def test_the_error_at_the_coordinator_holds_no_value_and_no_path(here):
    for step in (fails_loudly, fails_politely, fails_oddly):
        with pytest.raises(Exception, match="a ") as wrong:
            here.federation.sum(step)
        chain, error = "", wrong.value
        while error is not None:
            chain += f"{error!r} {error} {vars(error)}"
            error = error.__cause__ or error.__context__
        assert not [secret for secret in SECRETS[:3] if secret in chain]
    for _, data in here.wire.received:
        text = json.dumps(decode(data).header)
        assert not [secret for secret in SECRETS if secret in text]


@pytest.mark.parametrize(
    "public",
    [
        {},
        {"text": "x"},
        {"text": "x", "number": 1, "more": 2},
        {"X": 5, "text": "x", "number": 1},
        {"self": 1},
        {"text": np.zeros(3), "number": 1},
        {"__class__": "x", "number": 1},
    ],
)
def test_arguments_that_the_step_does_not_declare(here, public):
    rogue = Rogue(here).enter()
    for reply in rogue.step("test_runtime.shouts", public).values():
        check_refusal(reply, "arguments")


def test_a_step_before_the_keys_are_agreed_gets_nothing(here):
    """Join, and ask at once: no masks yet, so no values may leave."""
    ran.clear()
    rogue = Rogue(here)
    assert set(rogue.rules("test_runtime.counts").values()) == {"out_of_order"}
    rogue.join()
    for step in ("counts", "stays_here"):
        for reply in rogue.step(f"test_runtime.{step}").values():
            check_refusal(reply, "out_of_order")
    assert ran == []


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
    from unpooled.secure.roster import Roster

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
    request = encode(*rogue.request("test_runtime.counts").as_message())
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
    bad = rogue.request("test_runtime.fails_loudly")
    check = here.parties["a"].handle
    check_refusal(decode(check(encode(*bad.as_message()))), "failed_in_silo")
    check_refusal(decode(check(encode(*bad.as_message()))), "replayed")
    header = {**bad.as_message()[0], "step": "test_runtime.counts"}
    check_refusal(decode(check(encode(header, {}))), "replayed")


def test_the_silos_own_ledger_is_the_coordinators(here):
    federation = here.federation
    with federation.fitting():
        federation.sum(counts)
        federation.keep(stays_here)
    with federation.fitting():
        federation.sum(counts)
    for name, party in here.parties.items():
        own = party.studies["study"].ledger
        assert own.verify(here.roster)
        assert [line.parties for line in own] == [(name,)] * 3
        for line, theirs in zip(own, here.ledger, strict=True):
            assert line.seals[name] == theirs.seals[name]
            for field in ("study", "round", "step", "name", "shape", "dtype", "bytes"):
                assert getattr(line, field) == getattr(theirs, field)
            assert line.visibility == theirs.visibility
            assert line.direction == theirs.direction


def test_description_shows_allowed_columns_only():
    here = silos(policy={"allowed_columns": ["x0", "x2"]})
    reply = knock(here, encode({"kind": "describe"}, {}))
    assert reply.header["columns"] == ["x0", "x2"]
    assert set(reply.header) == {
        "party", "request", "kind", "columns", "named", "label", "partition", "rows",
    }  # fmt: skip
    # On a row partition how many rows a silo has is its own business.
    assert reply.header["rows"] is None


def test_replies_to_no_message_hold_secrets(here):
    """All that a rogue coordinator hears from a, beside masked words, is dull."""
    rogue = Rogue(here).enter()
    said = [
        rogue.say("a", {"kind": k, **rogue.where, "parties": list("abc")})
        for k in KINDS
    ]
    said += [
        rogue.step(s)["a"] for s in ("pca.local_total", "test_runtime.counts", "x")
    ]
    for reply in said:
        text = json.dumps({k: v for k, v in reply.header.items() if k != "seals"})
        assert not [secret for secret in SECRETS if secret in text]
        assert "30" not in json.dumps(
            {k: v for k, v in reply.header.items() if k in ("rule", "error", "kind")}
        )


@QUICK
@given(JSON)
def test_announcements_recalls_and_deliveries_may_be_anything(here, value):
    """Also with the right keys: a refusal, or an answer that says nothing new."""
    content = {"file": np.zeros(3, np.uint8)}
    for header, arrays in (
        ({"kind": "announce", "study": value, "text": value}, {}),
        ({"kind": "announce", "study": "study", "text": value}, {}),
        ({"kind": "recall", "study": value, "after": value}, {}),
        ({"kind": "recall", "study": "study", "after": value}, {}),
        ({"kind": "deliver", "study": value, "name": value}, content),
        ({"kind": "deliver", "study": "study", "name": value}, content),
        ({"kind": "deliver", "study": "study", "name": "m"}, {}),
    ):
        reply = knock(here, encode(header, arrays))
        if reply.header["kind"] == "refused":
            check_refusal(reply)
        elif header["kind"] == "announce":
            assert reply.header["approval"] == "not needed"
        else:
            assert reply.header["lines"] == []


def test_recall_tells_a_coordinator_what_it_may_have_missed(here):
    here.federation.sum(counts)
    here.federation.sum(counts)
    reply = knock(here, encode({"kind": "recall", "study": "study", "after": 1}, {}))
    own = here.parties["a"].studies["study"].ledger
    assert reply.header["lines"] == [line.as_record() for line in own[1:]]
    reply = knock(here, encode({"kind": "recall", "study": "other", "after": 0}, {}))
    assert reply.header["lines"] == []


def test_a_silo_without_a_folder_takes_no_models(here):
    here.federation.sum(counts)
    header = {"kind": "deliver", "study": "study", "name": "m"}
    reply = knock(here, encode(header, {"file": np.zeros(3, np.uint8)}))
    check_refusal(reply, "delivery")


def test_threads_at_the_door_are_answered_one_at_a_time(here):
    from concurrent.futures import ThreadPoolExecutor

    rogue = Rogue(here).enter()
    request = encode(*rogue.request("test_runtime.counts").as_message())
    ran.clear()
    with ThreadPoolExecutor(8) as pool:
        replies = set(pool.map(here.parties["a"].handle, [request] * 16))
    assert len(replies) == 1
    assert ran == ["counts"]


def test_approvals_need_a_place_to_be_written():
    from unpooled.data.sources import open_source
    from unpooled.errors import StudyError
    from unpooled.party.policy import Policy
    from unpooled.party.runtime import Party
    from unpooled.secure.roster import Identity, Roster

    me = Identity()
    front = ("a", open_source(rows()), Policy(), me, Roster({"a": me.public}))
    with pytest.raises(StudyError, match="need an audit log"):
        Party(*front, approval="each-study")
    with pytest.raises(StudyError, match="choose none or each-study"):
        Party(*front, approval="sometimes")
