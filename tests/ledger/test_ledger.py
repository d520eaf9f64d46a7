"""Ledgers that were altered, cut or invented are found out."""

import dataclasses
import hashlib
from collections.abc import Callable
from typing import Any

import pytest

from study_ledger import here, ledger
from unpooled.errors import StudyError
from unpooled.ledger import Ledger, Release, Seal, canonical
from unpooled.secure.keys.roster import Identity

# Fixtures of another module.
__all__ = ["here", "ledger"]


def rechained(lines: list[Release]) -> Ledger:
    """What a coordinator can always do: compute the hashes anew."""
    made, head = [], "0" * 64
    for line in lines:
        record = line.as_record()
        del record["hash"]
        head = hashlib.sha256(head.encode() + canonical(record)).hexdigest()
        made.append(dataclasses.replace(line, hash=head))
    return Ledger(made)


@pytest.mark.slow
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


@pytest.mark.thinned(1)
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


@pytest.mark.thinned(1)
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
