"""Points of ristretto255 in bulk: hashing texts to points, multiplying points.

    text ── SHA-512, expanded to 64 bytes ──> point ── scalar · point ──> point

The group has a prime order and one encoding for each of its elements, so that no point
says anything about its id, and what is no element is refused. libsodium does the
arithmetic, by way of the package rbcl; its calls release Python's interpreter lock, so
that threads share long lists.

References
----------
RFC 9496, the group. RFC 9380, section 5.3.1 and appendix B, the suite
ristretto255_XMD:SHA-512_R255MAP_RO_.
"""

import hashlib
import importlib
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from typing import Any

from unpooled.errors import DataError
from unpooled.posix import processors

POINT_BYTES = 32
# Below this number of items a thread takes longer to start than to do its share.
_FEWEST = 500


def points_of(texts: Sequence[bytes], domain: bytes) -> bytes:
    """Return one point for each text, 32 bytes each.

    Parameters
    ----------
    texts : sequence of bytes
        Equal texts give equal points, whose discrete logarithms are unknown.
    domain : bytes
        Separates uses, at most 255 bytes. Another domain gives unrelated points.
    """
    group = _group()
    return _shared_out(
        lambda text: group.crypto_core_ristretto255_from_hash(_expanded(text, domain)),
        texts,
    )


def multiplied(points: bytes, scalar: bytes) -> bytes:
    """Return the product of every point and a scalar.

    Raises
    ------
    ValueError
        When something is no point, or the point at zero, as only a dishonest party
        would send.
    """
    if len(scalar) != POINT_BYTES or len(points) % POINT_BYTES:
        raise ValueError("points and scalars have 32 bytes")
    group = _group()
    each = [points[i : i + POINT_BYTES] for i in range(0, len(points), POINT_BYTES)]
    try:
        return _shared_out(
            lambda point: group.crypto_scalarmult_ristretto255(scalar, point), each
        )
    except RuntimeError as wrong:
        raise ValueError("a point is not of the group") from wrong


def scalar_of(seed: bytes) -> bytes:
    """Return a scalar, the same for the same secret bytes."""
    # Twice as long as the order, so that its remainder is as good as uniform.
    return _group().crypto_core_ristretto255_scalar_reduce(
        hashlib.sha512(b"unpooled scalar\0" + seed).digest()
    )


def detour(scalar: bytes) -> tuple[bytes, bytes]:
    """Return a fresh pair (there, back) of scalars whose product is `scalar`.

    A point times the one-time scalar `there` is indistinguishable from a random point.
    Whatever scalars multiply it in between, `back` completes the product with `scalar`.
    """
    group = _group()
    there = group.crypto_core_ristretto255_scalar_random()
    inverse = group.crypto_core_ristretto255_scalar_invert(there)
    return there, group.crypto_core_ristretto255_scalar_mul(scalar, inverse)


def _expanded(text: bytes, domain: bytes) -> bytes:
    """Return 64 bytes by expand_message_xmd of RFC 9380."""
    suffix = domain + bytes([len(domain)])
    first = hashlib.sha512(bytes(128) + text + b"\x00\x40\x00" + suffix).digest()
    return hashlib.sha512(first + b"\x01" + suffix).digest()


def _shared_out(work: Callable[[bytes], bytes], items: Sequence[bytes]) -> bytes:
    """Return the results for all items, by several threads where that is faster."""
    workers = max(min(processors(), len(items) // _FEWEST), 1)
    share = -(-len(items) // workers)
    runs = [items[i * share : (i + 1) * share] for i in range(workers)]
    if workers == 1:
        return b"".join(map(work, items))
    with ThreadPoolExecutor(workers) as pool:
        return b"".join(pool.map(lambda run: b"".join(map(work, run)), runs))


@cache
def _group() -> Any:
    try:
        group = importlib.import_module("rbcl")
    except (ImportError, OSError):
        raise DataError(
            "Matching rows by ids needs rbcl, which is not installed, or whose library "
            "cannot be loaded from the folder of temporary files. Install it with: pip "
            "install 'unpooled[psi]'.",
            rule="psi",
        ) from None
    # It loads libsodium from a temporary file of its own and leaves that behind; on
    # Windows a library cannot be removed while it is loaded.
    with suppress(OSError, AttributeError):
        os.unlink(importlib.import_module("rbcl._sodium").lib_path)
    return group
