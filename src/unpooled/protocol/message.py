"""Messages between the coordinator and a party: JSON and arrays, never code.

    magic ‖ header length ‖ header (JSON) ‖ signature (64 bytes) ‖ padding ‖ arrays

The header lists each array's name, type, shape and SHA-256, so a signature under the
header covers the arrays as well. Anything that is not exactly this form is refused.
"""

import hashlib
import json
import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from unpooled.arrays import Array
from unpooled.errors import AggregationError
from unpooled.ledger import canonical
from unpooled.secure.keys.roster import Identity, Roster

# Bytes as they arrived: arrays are read where they lie.
Bytes = bytes | memoryview
# A message as it travels: in one piece, or its header and then each array.
Framed = Bytes | list[Bytes]

_MAGIC = b"UNPOOLED1"
_PREFIX = struct.Struct(f"<{len(_MAGIC)}sI")
_SIGNATURE = 64
_ALIGNMENT = 64
_HEADER_LIMIT = 2**24
# Bytes of a message from which on it is not put into one piece.
_LARGE = 2**18
_DTYPES = ("<f8", "<i8", "<u8", "<u4", "<u2", "|u1", "|b1")


@final
@dataclass(frozen=True)
class Message:
    """A decoded message.

    Attributes
    ----------
    header : dict
        JSON values.
    arrays : dict of str to array
        Read-only views of the message's bytes.
    digests : dict of str to str
        SHA-256 of each array's bytes, hexadecimal, checked.
    front, signature : bytes
        The header's JSON text, and the signature under it (zeros where there is none),
        which prove to others who sent it.
    """

    header: dict[str, Any]
    arrays: dict[str, Array]
    digests: dict[str, str]
    front: bytes = b""
    signature: bytes = b""


def digest(data: Any) -> str:
    """Return the SHA-256 of bytes, hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def encode(
    header: Mapping[str, Any],
    arrays: Mapping[str, Array],
    identity: Identity | None = None,
    digests: Mapping[str, str] | None = None,
) -> bytes:
    """Return the bytes of a message, signed where an identity is given.

    `digests` has the SHA-256 of arrays that need not be hashed again.
    """
    return b"".join(pieces(header, arrays, identity, digests))


def pieces(
    header: Mapping[str, Any],
    arrays: Mapping[str, Array],
    identity: Identity | None = None,
    digests: Mapping[str, str] | None = None,
) -> list[Bytes]:
    """Return the pieces of a message: header and signature, then each array.

    `decode` reads pieces too, so an array of gigabytes is never copied.
    """
    digests = digests or {}
    # Unlike `ascontiguousarray` it leaves a single number without axes.
    parts = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    manifest = [
        # The shape before: a number becomes an array of one.
        [
            name,
            part.dtype.str,
            list(np.shape(arrays[name])),
            digests.get(name) or digest(part.data),
        ]
        for name, part in parts.items()
    ]
    text = canonical({"header": header, "arrays": manifest})
    front = _PREFIX.pack(_MAGIC, len(text)) + text
    signature = identity.sign(front) if identity else bytes(_SIGNATURE)
    padding = bytes(-(len(front) + _SIGNATURE) % _ALIGNMENT)
    flat = [part.reshape(-1).view(np.uint8).data for part in parts.values()]
    return [front + signature + padding, *flat]


def framed(
    header: Mapping[str, Any],
    arrays: Mapping[str, Array],
    identity: Identity,
    digests: Mapping[str, str] | None = None,
) -> Framed:
    """Return a message in one piece, or where that is large in `pieces`."""
    parts = pieces(header, arrays, identity, digests)
    return joined(parts) if size_of(parts) < _LARGE else parts


def size_of(data: Framed) -> int:
    """Return the bytes of a message."""
    return sum(map(len, data)) if isinstance(data, list) else len(data)


def joined(data: Framed) -> bytes:
    """Return a message in one piece."""
    return b"".join(data) if isinstance(data, list) else bytes(data)


def decode(data: Framed, roster: Roster | None = None, party: str = "") -> Message:
    """Read a message, checking its form, its digests and, with a roster, who signed.

    Raises
    ------
    AggregationError
        With the rule "malformed_message" or "wrong_signature".
    """
    try:
        parts = data if isinstance(data, list) else [data]
        view, *rest = (memoryview(part).toreadonly() for part in parts)
        front, signature, start = _front(view)
        if roster is not None:
            roster.check(party, _PREFIX.pack(_MAGIC, len(front)) + front, signature)
        header, manifest = _content(front)
        sizes = _sizes(manifest)
        if not isinstance(data, list):
            rest = _cut(view[start:], sizes)
        elif len(view) != start:
            raise ValueError("trailing bytes")
        arrays, digests = _arrays(rest, sizes, manifest)
    except (
        ValueError,
        TypeError,
        KeyError,
        RecursionError,
        OverflowError,
        struct.error,
    ) as wrong:
        raise AggregationError(
            "A message does not have the form of the protocol: it was truncated or "
            "altered, or comes from another version.",
            rule="malformed_message",
        ) from wrong
    return Message(header, arrays, digests, front, signature)


def signed_by(
    roster: Roster, party: str, front: bytes, signature: bytes
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the header of a message that `party` signed, and its arrays' digests.

    For a message without its arrays.

    Raises
    ------
    AggregationError
        With the rule "malformed_message" or "wrong_signature".
    """
    roster.check(party, _PREFIX.pack(_MAGIC, len(front)) + front, signature)
    try:
        header, manifest = _content(front)
        digests = {str(name): str(found) for name, _, _, found in manifest}
    except (ValueError, TypeError, KeyError, RecursionError) as wrong:
        raise AggregationError(
            "The signed text is not a message.", rule="malformed_message"
        ) from wrong
    return header, digests


def _front(view: memoryview) -> tuple[bytes, bytes, int]:
    """Return a message's JSON text, its signature, and where its arrays begin."""
    magic, length = _PREFIX.unpack_from(view)
    if magic != _MAGIC or length > _HEADER_LIMIT:
        raise ValueError("not a message of this version")
    signed = _PREFIX.size + length
    end = signed + _SIGNATURE
    if len(view) < end:
        raise ValueError("truncated")
    start = end + -end % _ALIGNMENT
    # Neither signature nor digests cover the padding: it must not carry anything.
    if bytes(view[end:start]) != bytes(start - end):
        raise ValueError("padding")
    return bytes(view[_PREFIX.size : signed]), bytes(view[signed:end]), start


def _sizes(manifest: Any) -> list[int]:
    """Return the bytes of each array that a message lists."""
    sizes, names = [], set[str]()
    for name, dtype, shape, _ in manifest:
        if dtype not in _DTYPES or not isinstance(name, str) or name in names:
            raise ValueError("array")
        if not all(type(size) is int and size >= 0 for size in shape):
            raise ValueError("shape")
        names.add(name)
        sizes.append(math.prod(shape) * np.dtype(dtype).itemsize)
    return sizes


def _cut(payload: memoryview, sizes: list[int]) -> list[memoryview]:
    parts, start = [], 0
    for size in sizes:
        parts.append(payload[start : start + size])
        start += size
    if start != len(payload):
        raise ValueError("trailing bytes")
    return parts


def _arrays(
    parts: list[memoryview], sizes: list[int], manifest: Any
) -> tuple[dict[str, Array], dict[str, str]]:
    arrays, digests = {}, {}
    for part, size, listed in zip(parts, sizes, manifest, strict=True):
        name, dtype, shape, expected = listed
        if len(part) != size or digest(part) != expected:
            raise ValueError("digest")
        arrays[name] = np.frombuffer(part, dtype).reshape(shape)
        digests[name] = expected
    return arrays, digests


def _content(front: bytes) -> tuple[dict[str, Any], Any]:
    """Return a message's header, and the list of its arrays as it was sent."""
    content = _STRICT.decode(front.decode())
    header, manifest = content["header"], content["arrays"]
    if set(content) != {"header", "arrays"} or not isinstance(header, dict):
        raise ValueError("header")
    return header, manifest


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands twice")
    return found


def _finite(digits: str) -> float:
    # 1e999 is JSON too; NaN and Infinity come here as well.
    if not math.isfinite(value := float(digits)):
        raise ValueError("a number that is not finite")
    return value


# Made once: `json.loads` would make one for every message.
_STRICT = json.JSONDecoder(
    object_pairs_hook=_unique, parse_float=_finite, parse_constant=_finite
)
