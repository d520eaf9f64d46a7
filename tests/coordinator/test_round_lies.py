"""Parties that sign nonsense: it ends the round, and what left is in the ledger."""

from typing import Any

import numpy as np
import pytest

from unpooled.arrays import Array
from unpooled.protocol.message import decode, digest, encode
from wire import Silos
from wire_faults import SECRET, STEP, Reply, at, echo, fails, three_silos


@pytest.fixture
def here() -> Silos:
    return three_silos()


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


@pytest.mark.thinned(1)
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

    from unpooled.protocol.ledger_lines import ledger_lines
    from unpooled.protocol.request import Request

    def change(header: dict[str, Any], arrays: dict[str, Array]) -> None:
        arrays["total"] = np.zeros((3, 5), np.uint64)
        request = Request.from_message(decode(here.wire.sent[-1][1]), {})
        ((line, _),) = ledger_lines(request, echo, {"p": 3}, "masked", tuple("abc"))
        content, number = digest(arrays["total"].data), header["seals"][0][0]
        own, build = replace(line, parties=("b",)), header["seals"][0][3]
        statement = own.statement("b", number, content, build)
        signature = here.parties["b"]._identity.sign(statement)
        header["seals"] = [[number, content, signature.hex(), build]]

    lies(here, STEP, change)
    assert "in another shape or type than declared" in str(
        fails(here, to="coordinator")
    )
