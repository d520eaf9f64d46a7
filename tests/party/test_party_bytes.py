"""The party's door: anything may be said, and gets a reply that tells nothing."""

import copy

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from silo_doors import KINDS, check_refusal, here, knock
from unpooled.protocol.message import digest, encode
from unpooled.protocol.view_operations import Derive, Rows, Select
from wire import COLUMNS, Rogue, Silos

# Fixtures of another module.
__all__ = ["here"]

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


@pytest.mark.slow
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
    rogue.observed("imputer")
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


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
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
        ({"kind": "finish", "study": value}, {}),
    ):
        reply = knock(here, encode(header, arrays))
        if reply.header["kind"] == "refused":
            check_refusal(reply)
        elif header["kind"] == "announce":
            assert reply.header["approval"] == "not needed"
        elif header["kind"] == "finish":
            assert set(reply.header) == {"party", "request", "kind"}
        else:
            assert reply.header["lines"] == []
