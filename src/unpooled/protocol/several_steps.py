"""Several steps of one round in one message, and their replies in one.

    coordinator ── request 0, request 1, ... ──> silo answers them in this order
                <── reply 0, reply 1, ... ─────  up to the first that it refuses

Each request and each reply is a message of its own, with its own digest and signature:
what both ends check of a step, and write about it, does not depend on how it came.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from unpooled.arrays import Array
from unpooled.protocol.message import Framed, Message, decode, joined

STEPS, REPLIES = "steps", "released together"


def together(
    study: str, session: str, requests: Sequence[bytes]
) -> tuple[dict[str, Any], dict[str, Array]]:
    """Return header and arrays of the message with the requests of a round."""
    header = {"kind": STEPS, "study": study, "session": session}
    return header, _as_arrays(requests)


def replies_together(
    replies: Sequence[Framed],
) -> tuple[dict[str, Any], dict[str, Array]]:
    """Return header and arrays of the message with the replies to them."""
    return {"kind": REPLIES}, _as_arrays([joined(reply) for reply in replies])


def parts_of(message: Message) -> list[bytes]:
    """Return the messages in a message, in order; another form is a ValueError."""
    names = [str(place) for place in range(len(message.arrays))]
    if list(message.arrays) != names:
        raise ValueError("messages out of order")
    if any(part.dtype != np.uint8 for part in message.arrays.values()):
        raise ValueError("not messages")
    return [message.arrays[name].tobytes() for name in names]


def requests_of(message: Message) -> list[Message]:
    """Return the requests in a message, which belong to one round of its session."""
    requests = [decode(part) for part in parts_of(message)]
    names = ("study", "session")
    about = {tuple(one.header[name] for name in names) for one in [message, *requests]}
    rounds = {one.header["round"] for one in requests}
    steps = all(one.header["kind"] == "step" for one in requests)
    if len(requests) < 2 or len(about) > 1 or len(rounds) > 1 or not steps:
        raise ValueError("not the steps of one round")
    return requests


def _as_arrays(messages: Sequence[bytes]) -> dict[str, Array]:
    return {
        str(place): np.frombuffer(message, np.uint8)
        for place, message in enumerate(messages)
    }
