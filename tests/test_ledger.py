"""The ledger: no line edited, dropped, moved, doubled or invented without notice."""

import dataclasses
import hashlib
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.pipeline import make_pipeline

import unpooled as up
from unpooled.arrays import Array
from unpooled.errors import StudyError
from unpooled.ledger import VISIBILITIES, Ledger, Release, Seal, canonical
from unpooled.models.scaler import local_observed
from unpooled.party.step import disclosed, kept
from unpooled.secure.roster import Identity
from wire import Silos, rows, silos


@disclosed(total="p")
def shown(X: Array) -> dict[str, Array]:
    return {"total": X.sum(axis=0)}


@kept(total="p")
def stays_here(X: Array) -> dict[str, Array]:
    return {"total": X.sum(axis=0)}


@pytest.fixture(scope="module")
def here() -> Silos:
    """A study with lines of every kind."""
    tables = {name: rows(seed=i) for i, name in enumerate("abc")}
    made = silos(tables, policy={"allow_disclosed": True})
    federation = made.federation
    make_pipeline(up.SimpleImputer(), up.StandardScaler(), up.PCA(2)).fit(federation)
    with federation.fitting():
        veiled = federation.sum(local_observed, to="parties")["total"]
        federation.sum(up.models.scaler.local_squares, mean=veiled)
        federation.collect(shown)
        federation.keep(stays_here)
    return made


@pytest.fixture(scope="module")
def ledger(here) -> Ledger:
    assert len(here.ledger) > 15
    assert {line.visibility for line in here.ledger} == {
        "summed", "veiled", "disclosed", "kept", "public",
    }  # fmt: skip
    return here.ledger


def rechained(lines: list[Release]) -> Ledger:
    """What a coordinator can always do: compute the hashes anew."""
    made, head = [], "0" * 64
    for line in lines:
        record = line.as_record()
        del record["hash"]
        head = hashlib.sha256(head.encode() + canonical(record)).hexdigest()
        made.append(dataclasses.replace(line, hash=head))
    return Ledger(made)


def test_an_honest_ledger_holds(here, ledger):
    assert ledger.verify() is True
    assert ledger.verify(here.roster) is True
    assert Ledger().verify() is True
    assert rechained(list(ledger)) == ledger


FIELDS = {
    "study": "another",
    "round": 99,
    "step": "pca.local_total",
    "name": "nothing",
    "shape": (1,),
    "dtype": "float32",
    "bytes": 77,
    "visibility": "exchanged",
    "direction": "sideways",
    "peers": ("c",),
}


@pytest.mark.parametrize("field", [*FIELDS, "parties", "time", "hash", "seals"])
@pytest.mark.parametrize("number", [0, 4, -1])
def test_every_field_of_a_line_counts(ledger, field, number):
    lines = list(ledger)
    other = {"parties": ("a", "b"), "time": "2020", "hash": "0" * 64, "seals": {}}
    value = {**FIELDS, **other}[field]
    assert getattr(lines[number], field) != value
    lines[number] = dataclasses.replace(lines[number], **{field: value})

    with pytest.raises(StudyError, match=r"Line \d+ of the ledger"):
        Ledger(lines).verify()


@pytest.mark.parametrize("field", FIELDS)
def test_a_new_chain_does_not_hide_an_edited_line(ledger, field):
    """The coordinator can compute hashes, and not the silos' seals."""
    for number in (0, 4, len(ledger) - 1):
        lines = list(ledger)
        lines[number] = dataclasses.replace(lines[number], **{field: FIELDS[field]})
        forged = rechained(lines)
        with pytest.raises(StudyError, match=f"Line {number} of the ledger .*sealed"):
            forged.verify()


def _reseal(field: str, value: Any) -> Callable[[Release], Release]:
    def change(line: Release) -> Release:
        seal = dataclasses.replace(line.seals["b"], **{field: value})
        return dataclasses.replace(line, seals={**line.seals, "b": seal})

    return change


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("key", Identity(bytes(range(32))).public.hex()),
        ("key", ""),
        ("key", "zz"),
        ("sequence", 1),
        ("sequence", -1),
        ("digest", "00" * 32),
        ("digest", ""),
        ("signature", "00" * 64),
        ("signature", "zz"),
        ("signature", ""),
    ],
)
def test_every_field_of_a_seal_counts(here, ledger, field, value):
    lines = list(ledger)
    lines[0] = _reseal(field, value)(lines[0])
    for identities in (None, here.roster):
        with pytest.raises(StudyError, match="Line 0 of the ledger"):
            rechained(lines).verify(identities)


@pytest.mark.parametrize("number", [0, 1, 7])
def test_dropped_lines(ledger, number):
    lines = [line for i, line in enumerate(ledger) if i != number]
    with pytest.raises(StudyError, match=f"Line {number} of"):
        Ledger(lines).verify()
    with pytest.raises(StudyError, match="not sealed by a"):
        rechained(lines).verify()


@pytest.mark.parametrize("number", [0, 3, 8])
def test_doubled_and_moved_lines(ledger, number):
    lines = list(ledger)
    doubled = [*lines[: number + 1], *lines[number:]]
    moved = [*lines[:number], lines[number + 1], lines[number], *lines[number + 2 :]]
    for forged in (doubled, moved, lines[::-1]):
        with pytest.raises(StudyError):
            Ledger(forged).verify()
        with pytest.raises(StudyError):
            rechained(forged).verify()


def test_a_partys_seals_cannot_be_taken_off_a_line(here, ledger):
    """Without its seal b would not have taken part in the round."""
    lines = list(ledger)
    seals = {p: seal for p, seal in lines[2].seals.items() if p != "b"}
    # The parties still name it, or no longer do: then its count has a gap.
    for parties in (("a", "b", "c"), ("a", "c")):
        lines[2] = dataclasses.replace(lines[2], seals=seals, parties=parties)
        with pytest.raises(StudyError):
            rechained(lines).verify()


def test_a_line_of_nobody_is_no_line(ledger):
    """Nobody's seals are easily had: a line without parties would pass unsigned."""
    made_up = dataclasses.replace(ledger[0], parties=(), seals={}, name="invented")
    for lines in ([made_up], [*ledger, made_up], [made_up, *ledger]):
        with pytest.raises(StudyError, match="other seals"):
            rechained(lines).verify()


def test_seals_of_strangers_beside_the_parties(ledger):
    seals = {**ledger[0].seals, "mallory": ledger[0].seals["a"]}
    lines = [dataclasses.replace(ledger[0], seals=seals), *ledger[1:]]
    with pytest.raises(StudyError, match="other seals"):
        rechained(lines).verify()


def invented(identities: dict[str, Identity], ledger: Ledger) -> Ledger:
    """The same lines but one, signed by keys that a coordinator made for itself."""
    lines = []
    for number, line in enumerate(ledger):
        if number == 3:
            line = dataclasses.replace(line, bytes=1)
        seals = {}
        for party in line.parties:
            key, old = identities[party], line.seals[party]
            statement = line.statement(party, number, old.digest)
            signature = key.sign(statement).hex()
            seals[party] = Seal(key.public.hex(), number, old.digest, signature)
        lines.append(dataclasses.replace(line, seals=seals))
    return rechained(lines)


def test_an_invented_ledger_needs_the_roster_to_be_noticed(here, ledger):
    forged = invented({name: Identity() for name in "abc"}, ledger)

    assert forged.verify() is True  # as the docstring says: edits show, not inventions
    with pytest.raises(StudyError, match="Line 0 of the ledger"):
        forged.verify(here.roster)
    # One party's keys are not another's, nor may a party be unknown.
    swapped = {**here.roster, "a": here.roster["b"]}
    for identities in (swapped, {"a": here.roster["a"]}, {}):
        with pytest.raises(StudyError):
            ledger.verify(identities)


def test_the_key_written_in_a_seal_must_be_the_trusted_one(here, ledger):
    """A right signature under a seal that names another key is a false seal."""
    lines = [_reseal("key", Identity().public.hex())(line) for line in ledger]
    with pytest.raises(StudyError):
        rechained(lines).verify(here.roster)


def test_the_end_is_compared_with_the_silos_own_ledgers(here, ledger):
    """Lines cut from the end leave no gap; the silos' own ledgers are longer."""
    cut = Ledger(list(ledger)[:-2])
    assert cut.verify(here.roster)
    for party in here.parties.values():
        own = party.studies["study"].ledger
        assert len(own) == len(ledger) > len(cut)
        assert own.verify(here.roster)


def test_each_silos_own_ledger_has_the_same_lines_and_seals(here, ledger):
    for name, party in here.parties.items():
        for own, line in zip(party.studies["study"].ledger, ledger, strict=True):
            assert own.seals == {name: line.seals[name]}
            assert own.parties == (name,)
            for field in FIELDS:
                assert getattr(own, field) == getattr(line, field)


# --- what a fit's ledger says ---------------------------------------------------------


def fitted(*models: Any) -> list[tuple[Any, ...]]:
    tables = {name: rows(seed=i) for i, name in enumerate("abcd")}
    federation = up.simulate(tables)
    make_pipeline(*models).fit(federation)
    assert federation.ledger.verify()
    return [
        (x.round, x.step, x.name, x.shape, x.dtype, x.bytes, x.visibility, x.direction)
        for x in federation.ledger
    ]


WIDE, NARROW, FLOAT = "uint256", "uint64", "float64"


def test_pca_releases_what_its_docstring_says():
    assert fitted(up.PCA(2)) == [
        (1, "pca.local_total", "count", (), WIDE, 32, "summed", "out"),
        (1, "pca.local_total", "total", (3,), WIDE, 96, "summed", "out"),
        (2, "pca.local_squares", "mean", (3,), FLOAT, 24, "public", "in"),
        (2, "pca.local_squares", "squares", (3,), WIDE, 96, "summed", "out"),
        (2, "pca.local_squares", "scatter", (3, 3), FLOAT, 0, "kept", "in"),
        (3, "pca.local_scatter", "squares", (3,), FLOAT, 24, "public", "in"),
        (3, "pca.local_scatter", "scatter", (3, 3), NARROW, 48, "summed", "out"),
    ]


def test_scaler_releases_what_its_docstring_says():
    assert fitted(up.StandardScaler()) == [
        (1, "scaler.local_observed", "count", (3,), WIDE, 96, "summed", "out"),
        (1, "scaler.local_observed", "total", (3,), WIDE, 96, "summed", "out"),
        (2, "scaler.local_squares", "mean", (3,), FLOAT, 24, "public", "in"),
        (2, "scaler.local_squares", "squares", (3,), WIDE, 96, "summed", "out"),
    ]


def test_imputer_releases_what_its_docstring_says():
    assert fitted(up.SimpleImputer()) == [
        (1, "imputer.local_observed", "count", (3,), WIDE, 96, "summed", "out"),
        (1, "imputer.local_observed", "total", (3,), WIDE, 96, "summed", "out"),
    ]


def test_a_pipeline_sends_each_transform_once_per_fit():
    lines = fitted(up.SimpleImputer(), up.StandardScaler(), up.PCA(2))
    came = [(line[0], line[1], line[2], line[6]) for line in lines if line[7] == "in"]
    # Behind each transform its evidence: the four silos' words of the rounds that
    # fitted it, and the arguments of those rounds.
    filled = [
        ("imputer.imputed", "statistics", "public"),
        ("imputer.imputed", "imputer.local_observed.count", "summed"),
        ("imputer.imputed", "imputer.local_observed.total", "summed"),
    ]
    standardised = [
        ("scaler.standardised", "mean", "public"),
        ("scaler.standardised", "scale", "public"),
        ("scaler.standardised", "scaler.local_observed.count", "summed"),
        ("scaler.standardised", "scaler.local_observed.total", "summed"),
        ("scaler.standardised", "scaler.local_squares.mean", "public"),
        ("scaler.standardised", "scaler.local_squares.squares", "summed"),
    ]
    assert came == [
        *[(2, *line) for line in filled],
        (3, "scaler.local_squares", "mean", "public"),
        *[(4, *line) for line in (*filled, *standardised)],
        (5, "pca.local_squares", "mean", "public"),
        (5, "pca.local_squares", "scatter", "kept"),
        (6, "pca.local_scatter", "squares", "public"),
    ]
    words = [line for line in lines if line[6:] == ("summed", "in")]
    assert {line[3] for line in words} == {(4, 3)}
    assert {line[6] for line in lines if line[7] == "out"} == {"summed"}


def test_bytes_are_those_on_the_wire(here, ledger):
    from unpooled.secure.message import decode

    heard: dict[str, int] = dict.fromkeys("abc", 0)
    for party, data in here.wire.of_kind("released"):
        heard[party] += sum(a.nbytes for a in decode(data).arrays.values())
    for party in "abc":
        assert ledger.bytes_out(party) == heard[party] == ledger.bytes_out()
    assert ledger.bytes_out("mallory") == 0
    assert {line.visibility for line in ledger} <= set(VISIBILITIES)


# --- JSON -----------------------------------------------------------------------------


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


# Only lines of what neighbours exchanged name them.
WANTED = [f.name for f in dataclasses.fields(Release) if f.name != "peers"]


@pytest.mark.parametrize("absent", WANTED)
def test_lines_want_all_their_fields(ledger, absent):
    record = {k: v for k, v in record_of(ledger).items() if k != absent}
    with pytest.raises(StudyError):
        Ledger.from_json(json.dumps([record]))


@pytest.mark.parametrize("text", ["[", "{", "[" * 100_000, "[{}]", "nonsense", "[1]"])
def test_other_texts_are_refused(text):
    with pytest.raises(StudyError):
        Ledger.from_json(text)


def test_ledgers_are_sequences_that_grow(here):
    tables = {name: rows(seed=i) for i, name in enumerate("abc")}
    federation = up.simulate(tables)
    up.SimpleImputer().fit(federation)
    ledger = federation.ledger
    first = list(ledger)
    assert ledger[0] is first[0]
    assert list(ledger[:1]) == first[:1]
    assert isinstance(ledger[:1], Ledger)
    up.SimpleImputer().fit(federation)
    assert list(ledger)[: len(first)] == first
    assert len(ledger) == 2 * len(first)
    with pytest.raises(TypeError):
        hash(ledger)
    assert ledger != first
    assert repr(ledger) == "<Ledger: 4 lines, 2 rounds, 384 bytes out per silo>"
    assert len(str(ledger).splitlines()) == 5
    assert "30" not in str(ledger)
    assert np.all([line.time for line in ledger])
