"""Steps that tell when they ran, and silos whose rules refuse them."""

from typing import Any

import numpy as np
import pytest

from unpooled.arrays import Array
from unpooled.errors import RULES, ReleaseRefusedError
from unpooled.protocol.step import disclosed, kept, release, summed
from wire import Silos, kind, rows

TABLES = {name: rows(seed=i) for i, name in enumerate("abc")}
ran: list[str] = []


@summed(total="p")
def totals(X: Array) -> dict[str, Array]:
    ran.append("totals")
    return {"total": X.sum(axis=0)}


@summed(square="p p")
def squares(X: Array) -> dict[str, Array]:
    ran.append("squares")
    return {"square": X.T @ X}


@disclosed(total="p")
def shown(X: Array) -> dict[str, Array]:
    ran.append("shown")
    return {"total": X.sum(axis=0)}


@summed(by="party", takes={"who": "n"}, values="n")
def by_person(X: Array, *, who: Array) -> dict[str, Array]:
    ran.append("by_person")
    return {"values": X[:, 0] * who}


@disclosed(by="party", takes={"who": "N"}, values="N p")
def everybody(X: Array, *, who: Array) -> dict[str, Array]:
    ran.append("everybody")
    return {"values": X}


@summed(takes={"classes": "c"}, counts="c")
def class_counts(X: Array, y: Array, *, classes: Array) -> dict[str, Array]:
    ran.append("class_counts")
    return {"counts": (y[:, None] == classes).sum(axis=0).astype(float)}


@summed(largest="")
def reads_the_label(X: Array, y: Array) -> dict[str, Array]:
    ran.append("reads_the_label")
    return {"largest": np.array(float(np.max(y)))}


@kept(total="p")
def stays_here(X: Array) -> dict[str, Array]:
    ran.append("stays_here")
    return {"total": X.sum(axis=0)}


@summed(out=release("p"))
def from_kept(kept: Any) -> dict[str, Array]:
    ran.append("from_kept")
    return {"out": kept["total"]}


def refuses(here: Silos, rule: str, ask: Any, party: str = "a") -> None:
    """The rule is in the message; at that party no step ran and nothing left."""
    ran.clear()
    lines, heard = len(here.ledger), len(here.wire.received)
    with pytest.raises(ReleaseRefusedError, match=f"{party} refused .*{rule}") as error:
        ask()
    released = {p for p, d in here.wire.received[heard:] if kind(d) == "released"}
    assert party not in released
    assert len(ran) == len(released)
    assert not [line for line in here.ledger[lines:] if party in line.parties]
    assert error.value.rule == rule
    assert error.value.party == party
    sentence, remedy = RULES[rule]
    assert sentence in str(error.value)
    assert remedy in str(error.value)
    for count in ("30", "90", "29", "9 "):
        assert count not in str(error.value)
