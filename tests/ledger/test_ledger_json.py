"""Ledgers as JSON: both ways, and whatever else is refused."""

import dataclasses
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from study_ledger import here, ledger
from unpooled.errors import StudyError
from unpooled.ledger import Ledger, Release, Seal, canonical

# Fixtures of another module.
__all__ = ["here", "ledger"]


@pytest.mark.slow
def test_json_both_ways(here, ledger):
    for text in (ledger.to_json(), ledger.to_lines()):
        back = Ledger.from_json(text)
        assert back == ledger
        assert back.verify(here.roster)
    assert len(json.loads(ledger.to_json())) == len(ledger)
    assert len(ledger.to_lines().splitlines()) == len(ledger)
    assert Ledger.from_json("") == Ledger.from_json("[]") == Ledger()


TEXT = st.text(max_size=8)
SEALS = st.tuples(TEXT, st.integers(), TEXT, TEXT)
LINES = st.fixed_dictionaries(
    {
        "study": TEXT,
        "round": st.integers(),
        "step": TEXT,
        "name": TEXT,
        "shape": st.lists(st.integers(), max_size=3).map(tuple),
        "dtype": TEXT,
        "bytes": st.integers(),
        "visibility": TEXT,
        "direction": TEXT,
        "parties": st.lists(TEXT, max_size=3).map(tuple),
        "time": TEXT,
        "hash": TEXT,
        "seals": st.dictionaries(TEXT, SEALS, max_size=2),
    }
)


@pytest.mark.slow
@given(st.lists(LINES, max_size=4))
@settings(max_examples=50)
def test_any_lines_survive_json(fields):
    # Made here: beartype draws from `random`, which strategies may not.
    lines = [
        Release(**{**f, "seals": {p: Seal(*s) for p, s in f["seals"].items()}})
        for f in fields
    ]
    assert Ledger.from_json(Ledger(lines).to_json()) == Ledger(lines)
    assert Ledger.from_json(Ledger(lines).to_lines()) == Ledger(lines)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner),
    max_leaves=6,
)


@given(JSON, st.sampled_from([f.name for f in dataclasses.fields(Release)]))
def test_any_field_is_read_exactly_or_refused(ledger, value, field):
    record = {**json.loads(ledger.to_json())[3], field: value}
    try:
        back = Ledger.from_json(json.dumps([record]))
    except StudyError:
        return
    (again,) = json.loads(back.to_json())
    assert canonical(again) == canonical(record)
    with pytest.raises(StudyError):
        back.verify()


@given(JSON)
def test_any_json_is_refused_or_a_ledger(value):
    for text in (json.dumps(value), json.dumps([value]), json.dumps(value)[:-1]):
        try:
            back = Ledger.from_json(text)
        except StudyError:
            continue
        assert len(back) == 0


@given(st.text(max_size=50) | st.binary(max_size=50).map(lambda b: b.decode("latin-1")))
def test_any_text_is_refused_or_empty(text):
    try:
        assert len(Ledger.from_json(text)) == 0
    except StudyError:
        pass


def record_of(ledger: Ledger) -> dict[str, Any]:
    return json.loads(ledger.to_json())[0]


SEAL = {"key": "", "sequence": 0, "digest": "", "signature": ""}


@pytest.mark.parametrize(
    "change",
    [
        {"more": 1},
        {"round": 1.0},
        {"round": True},
        {"round": "1"},
        {"bytes": 1e999},
        {"shape": "12"},
        {"shape": [1.5]},
        {"shape": [True]},
        {"shape": [1e999]},
        {"shape": ["1"]},
        {"shape": 5},
        {"parties": "abc"},
        {"parties": [1]},
        {"study": None},
        {"seals": []},
        {"seals": {"a": 5}},
        {"seals": {"a": {}}},
        {"seals": {"a": {**SEAL, "sequence": "0"}}},
        {"seals": {"a": {**SEAL, "sequence": True}}},
        {"seals": {"a": {**SEAL, "key": 5}}},
        {"seals": {"a": {**SEAL, "signature": None}}},
        {"seals": {"a": {**SEAL, "more": 1}}},
    ],
)
def test_other_lines_are_refused(ledger, change):
    text = json.dumps({**record_of(ledger), **change})
    with pytest.raises(StudyError, match="not a line of a ledger"):
        Ledger.from_json(text)


# Only lines of what neighbours exchanged, and of totals with noise, have these.
SOME = {"peers", "rho", "delta"}
WANTED = [f.name for f in dataclasses.fields(Release) if f.name not in SOME]


@pytest.mark.parametrize("absent", WANTED)
def test_lines_want_all_their_fields(ledger, absent):
    record = {k: v for k, v in record_of(ledger).items() if k != absent}
    with pytest.raises(StudyError):
        Ledger.from_json(json.dumps([record]))


@pytest.mark.parametrize("text", ["[", "{", "[" * 100_000, "[{}]", "nonsense", "[1]"])
def test_other_texts_are_refused(text):
    with pytest.raises(StudyError):
        Ledger.from_json(text)
