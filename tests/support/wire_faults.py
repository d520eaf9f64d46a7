"""Faults on the wire, each at every stage of a fit, and what must hold after one."""

import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from unpooled.arrays import Array
from unpooled.errors import (
    AggregationError,
    DataError,
    ReleaseRefusedError,
    UnpooledError,
)
from unpooled.protocol.message import decode, encode
from unpooled.protocol.step import release, summed
from unpooled.secure.keys.roster import Identity
from wire import Silos, Wire, rows, silos

SECRET = 918273.5
STEP = "wire_faults.echo"
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


def three_silos() -> Silos:
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


def flipped(data: bytes, place: int) -> bytes:
    altered = bytearray(data)
    altered[place] ^= 0x20
    return bytes(altered)


def front(data: bytes) -> int:
    return 13 + struct.unpack_from("<9sI", data)[1]


def on_one(change: Callable[[bytes], bytes | None]) -> Any:
    """A fault that changes the reply of the last party, or drops it."""

    def fault(replies: list[Reply]) -> list[Reply]:
        party, data = replies[-1]
        altered = change(data)
        return replies[:-1] + ([] if altered is None else [(party, altered)])

    return fault


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
