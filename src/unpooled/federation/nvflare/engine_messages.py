"""NVFlare as both ends of a job use it: bytes as it carries them, calls, start-up.

Imported only in the processes of a job: it needs NVFlare, an optional extra.
"""

import importlib
import logging
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from nvflare.collab import collab

from unpooled.arrays import Array
from unpooled.protocol.message import Bytes, Framed

log = logging.getLogger("unpooled.engine")

# Up to this size bytes travel within the call. NVFlare fetches arrays in calls of their
# own: two more for each message, and the only way for one of gigabytes.
INLINE_BYTES = 2**18
# The server's name in calls.
_SERVER = "server"


def packed(data: Framed) -> bytes | Array | list[bytes | Array]:
    """Return a message as NVFlare takes it: large pieces as arrays of bytes."""
    if isinstance(data, list):
        return [_packed_piece(piece) for piece in data]
    return _packed_piece(data)


def unpacked(message: Any) -> Framed:
    """Return a message from what NVFlare gives, in one piece or several."""
    if isinstance(message, list):
        return [unpacked_piece(piece) for piece in message]
    return unpacked_piece(message)


def unpacked_piece(piece: Any) -> Bytes:
    """Return the bytes of one piece."""
    return piece if isinstance(piece, bytes) else np.asarray(piece).data


def _packed_piece(piece: Bytes) -> bytes | Array:
    small = len(piece) <= INLINE_BYTES
    return bytes(piece) if small else np.frombuffer(piece, np.uint8)


def one_way(proxies: Sequence[Any]) -> Callable[[tuple[str, str], str, bytes], None]:
    """Return a function that sends a message of a session to a party's process.

    Nobody waits for a reply, so a round of comparisons takes one latency and not two.
    Such messages may overtake each other, or be lost:
    `unpooled.secure.comparison.relayed_streams` puts them in order and repeats them.
    """
    by_name = {proxy.name: proxy for proxy in proxies}

    def carry(session: tuple[str, str], peer: str, message: bytes) -> None:
        proxy = by_name[peer or _SERVER](expect_result=False)
        # The argument's name is that of `carry` at both ends of a job.
        proxy.carry(where=list(session), message=message)

    return carry


def caller() -> str:
    """Return the caller's name in NVFlare's certificates; empty for the server."""
    name = str(collab.caller)
    return "" if name == _SERVER else name


def load_in_background(*modules: str) -> None:
    """Load what the first rounds need while NVFlare still gathers the silos."""

    def load() -> None:
        try:
            for name in modules:
                importlib.import_module(name)
        except Exception:
            # The code that needs the module meets the same error, and reports it.
            log.warning("Not loaded in advance", exc_info=True)

    threading.Thread(target=load, daemon=True).start()


def quieten_engine() -> None:
    """Silence NVFlare's two lines per call, and show this library's own."""
    logging.getLogger("nvflare.collab").setLevel(logging.WARNING)
    logging.getLogger("unpooled").setLevel(logging.INFO)
