"""Requests: data in, and the ledger lines that both ends write from them alone."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unpooled.errors import AggregationError
from unpooled.models.preprocessing import scaler
from unpooled.protocol.ledger_lines import ledger_lines
from unpooled.protocol.message import decode, encode
from unpooled.protocol.request import Request, Veiled, view_arrays
from unpooled.protocol.step import find_step, release
from unpooled.protocol.view_operations import Derive, Rows, Select
from unpooled.protocol.wire_format import WireFormat
from unpooled.secure.sums.fixed_point import BoundedCode, WideCode
from wire import silos

TOTAL = find_step("pca.local_total")
SQUARES = find_step("pca.local_squares")
SCATTER = find_step("pca.local_scatter")
NAMES = ("x0", "x1", "x2")
CHAIN = (
    Select(NAMES),
    Derive("imputer.imputed", NAMES, {"statistics": np.zeros(3)}),
    Rows(1, 3, 0.0, False, 5),
    Derive("scaler.standardised", NAMES, {"mean": np.zeros(3), "scale": np.ones(3)}),
)
VEILED = Veiled("one", (3,), np.zeros((3, 4), np.uint64), "uint256")


def request(**changes: Any) -> Request:
    fields: dict[str, Any] = {
        "study": "heart",
        "session": "s",
        "round": 2,
        "step": "scaler.local_squares",
        "to": "coordinator",
        "operations": CHAIN,
        "public": {"mean": np.arange(3.0), "n": 5, "text": "ä", "veiled": VEILED},
        "fresh": frozenset(view_arrays(CHAIN)),
    }
    return Request(**(fields | changes))


def travelled(asked: Request, known: dict[str, Any] | None = None) -> Request:
    return Request.from_message(decode(encode(*asked.as_message())), known or {})


def test_a_request_arrives_as_it_was_sent():
    asked, got = request(), travelled(request())
    for name in ("study", "session", "round", "step", "to", "fresh"):
        assert getattr(got, name) == getattr(asked, name)
    assert got.view_digest == asked.view_digest
    assert got.context("total") == asked.context("total")
    assert (got.public["mean"] == np.arange(3.0)).all()
    assert got.public["n"] == 5
    assert got.public["text"] == "ä"
    assert got.public["veiled"].release == "one"
    assert (got.public["veiled"].words == VEILED.words).all()


def test_transform_arrays_travel_once():
    asked = request(fresh=frozenset())
    _, arrays = asked.as_message()
    assert set(arrays) == {"public.mean", "public.veiled"}
    known = view_arrays(CHAIN)
    assert travelled(asked, known).view_digest == asked.view_digest
    for missing in known:
        with pytest.raises(AggregationError) as refused:
            travelled(asked, {k: v for k, v in known.items() if k != missing})
        assert refused.value.rule == "malformed_message"


def test_both_ends_write_the_same_lines():
    here = silos()
    parties = tuple("abc")
    for step, public in [
        (TOTAL, {}),
        (SQUARES, {"mean": np.zeros(3)}),
        (SCATTER, {"squares": np.ones(3)}),
        (find_step("imputer.local_counts"), {}),
    ]:
        asked = request(step=step.name, public=public)
        sizes = step.sizes(3, public)
        mine = ledger_lines(asked, step, sizes, "masked", parties)
        theirs = ledger_lines(travelled(asked), step, sizes, "masked", parties)
        assert mine == theirs
    assert here


def test_what_the_lines_say():
    asked = request(public={"mean": np.arange(3.0)})
    lines = ledger_lines(asked, scaler.local_squares, {"p": 3}, "masked", tuple("abc"))
    told = [
        (x.step, x.name, x.shape, x.dtype, x.bytes, x.visibility, x.direction, source)
        for x, source in lines
    ]
    placed = {key.rsplit(".", 1)[0]: f"view.{key}" for key in view_arrays(CHAIN)}
    assert told == [
        ("imputer.imputed", "statistics", (3,), "float64", 24, "public", "in",
         placed["1.statistics"]),
        ("scaler.standardised", "mean", (3,), "float64", 24, "public", "in",
         placed["3.mean"]),
        ("scaler.standardised", "scale", (3,), "float64", 24, "public", "in",
         placed["3.scale"]),
        ("scaler.local_squares", "mean", (3,), "float64", 24, "public", "in",
         "public.mean"),
        ("scaler.local_squares", "squares", (3,), "uint256", 128, "summed", "out",
         "squares"),
    ]  # fmt: skip


def test_lines_of_every_kind_of_release():
    squares = {"squares": np.ones(3)}
    scatter = request(step="pca.local_scatter", public=squares, fresh=frozenset())
    ((_, _), (line, _)) = ledger_lines(
        scatter, SCATTER, {"p": 3}, "masked", tuple("abc")
    )
    # A triangle in the narrow code: 8 bytes a number, and 16 of guard words.
    assert (line.dtype, line.bytes, line.shape) == ("uint64", 64, (3, 3))
    plain = ledger_lines(scatter, SCATTER, {"p": 3}, "plain", tuple("abc"))
    assert (plain[1][0].dtype, plain[1][0].bytes) == ("float64", 48)
    total = request(step="pca.local_total", public={}, fresh=frozenset())
    lines = ledger_lines(total, TOTAL, {"p": 3}, "masked", tuple("abc"))
    assert [(x.dtype, x.bytes, x.shape) for x, _ in lines] == [
        ("uint256", 64, ()),
        ("uint256", 128, (3,)),
    ]


def test_codes_are_wide_unless_a_bound_is_declared():
    assert isinstance(WireFormat(release("p"), (3,), {}).code(3), WideCode)
    scatter = SCATTER.declared["scatter"]
    assert isinstance(WireFormat(scatter, (3, 3), {}).code(3), BoundedCode)


def corrupt(**changes: Any) -> Any:
    header, arrays = request().as_message()
    for name, value in changes.items():
        if value is None:
            del header[name]
        else:
            header[name] = value
    return encode(header, arrays)


@pytest.mark.parametrize(
    "changes",
    [
        {"study": 5},
        {"session": None},
        {"step": ["x"]},
        {"round": "1"},
        {"round": 1.0},
        {"round": True},
        {"to": "everybody"},
        {"to": None},
        {"view": {}},
        {"view": 5},
        {"view": [5]},
        {"view": [{"operation": "select"}]},
        {"public": []},
        {"public": None},
        {"public": {"mean": 5}},
        {"public": {"mean": []}},
        {"public": {"mean": {}}},
        {"public": {"mean": {"array": True, "value": 5}}},
        {"public": {"mean": {"value": 5}, "veiled": {"value": 1}}},
        {"public": {"other": {"array": True}}},
        {"public": {"mean": {"veiled": 5}}},
        {"public": {"mean": {"veiled": [1]}}},
        {"public": {"mean": {"veiled": ["x", "y"]}}},
        {"public": {"mean": "value"}},
    ],
)
def test_other_forms_are_refused(changes):
    with pytest.raises(AggregationError, match="not a request") as refused:
        Request.from_message(decode(corrupt(**changes)), {})
    assert refused.value.rule == "malformed_message"


def test_arrays_are_the_ones_that_are_named():
    header, arrays = request().as_message()
    key = next(name for name in arrays if name.startswith("view.1"))
    for broken in (
        {**arrays, key: np.ones(3)},
        {name: value for name, value in arrays.items() if name != key},
        {**arrays, "view.9.x.00": np.ones(3)},
        {**arrays, "public.more": np.ones(3)},
        {**arrays, "rows": np.ones((9, 3))},
        {name: value for name, value in arrays.items() if name != "public.mean"},
    ):
        with pytest.raises(AggregationError) as refused:
            Request.from_message(decode(encode(header, broken)), {})
        assert refused.value.rule == "malformed_message"


SEPARATED = st.fixed_dictionaries(
    {
        "study": st.text(max_size=4),
        "session": st.text(max_size=4),
        "round": st.integers(1, 12),
        "step": st.text(max_size=4),
        "to": st.sampled_from(["coordinator", "parties"]),
    }
)


@given(SEPARATED, SEPARATED, st.text(max_size=4), st.text(max_size=4))
def test_different_releases_have_different_contexts(one, two, first, second):
    same = (one, first) == (two, second)
    a, b = request(**one).context(first), request(**two).context(second)
    assert (a == b) == same


def test_the_context_knows_the_view():
    chains = [
        (),
        CHAIN[:1],
        CHAIN[:2],
        CHAIN,
        (Select(("x1", "x0", "x2")),),
        (*CHAIN[:2], Rows(2, 3, 0.0, False, 5)),
        (*CHAIN[:2], Rows(1, 3, 0.0, True, 5)),
        (Select(NAMES), Derive("imputer.imputed", NAMES, {"statistics": np.ones(3)})),
    ]
    contexts = {request(operations=chain).context("total") for chain in chains}
    assert len(contexts) == len(chains)


def test_the_context_knows_the_arguments():
    veil = Veiled("one", (3,), np.ones((3, 4), np.uint64), "uint256")
    given = dict(request().public)
    asked = [
        given,
        given | {"mean": np.array([0.0, 1.0, 2.5])},
        given | {"n": 6},
        given | {"text": "a"},
        given | {"veiled": veil},
        given | {"veiled": replace(VEILED, release="other")},
    ]
    contexts = {request(public=public).context("total") for public in asked}
    contexts.add(request(kept_of="s.1").context("total"))
    assert len(contexts) == len(asked) + 1
    # A veiled total's shape is what each end makes of it.
    public = given | {"veiled": replace(VEILED, shape=())}
    assert request(public=public).context("total") in contexts
