"""Silos with a secret, steps that fail in their ways, and who knocks at the door."""

import os

import numpy as np
import pytest

from unpooled.arrays import Array
from unpooled.errors import RULES, DataError
from unpooled.protocol.message import Message, decode, digest
from unpooled.protocol.step import disclosed, kept, summed
from wire import Silos, rows, silos

# Planted in the data and in a file's name: if any of it shows in a reply, it leaked. So
# many digits do not stand in the random ones of keys and digests by chance.
SECRET = 918273645546372.5
PLACE = "ward-seven"
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


KINDS = [
    *"describe join agree step plan leave refused released opened".split(),
    *"announce recall deliver".split(),
    "offer group key",
    "accept group key",
]
