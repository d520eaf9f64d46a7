"""Points of Curve25519 in bulk: hashing texts to points, multiplying points.

    text ── SHA-512, Elligator 2 ──> u-coordinate ── X25519(scalar, ·) ──> u-coordinate

Every text becomes a point of the curve, never of its twist. Whether a point is on the
curve or on its twist does not change in any multiplication, so it would rule out half
of all candidates for an id.

X25519 holds Python's interpreter lock, so long lists are divided among processes. This
file is also the program of these processes: 33 bytes of input name the task, points or
numbers follow.

References
----------
RFC 7748, section 5 (X25519). RFC 9380, sections 5.3, 6.7.1 and 8.5, the suite
curve25519_XMD:SHA-512_ELL2_NU_ up to its last step: X25519's scalars are multiples of
the cofactor, so they clear it.
"""

import hashlib
import os
import secrets
import subprocess
import sys
from collections.abc import Sequence

from cryptography.hazmat.primitives.asymmetric.x25519 import (
    X25519PrivateKey,
    X25519PublicKey,
)

try:
    # Fifty times faster than a power of Python integers; in the extra "psi".
    from gmpy2 import legendre as _legendre  # pyright: ignore
except ImportError:
    _legendre = None

POINT_BYTES = 32
_P = 2**255 - 19
_HALF = (_P - 1) // 2
_A = 486662
# The order of the base point's group.
_ORDER = 2**252 + 27742317777372353535851937790883648493
# Below this number of items a process takes longer to start than to do its share.
_FEWEST = 4_000
_EXPAND, _MULTIPLY = b"e", b"m"


def points_of(texts: Sequence[bytes], domain: bytes) -> bytes:
    """Return one point for each text, 32 bytes each.

    Parameters
    ----------
    texts : sequence of bytes
        Equal texts give equal points, whose discrete logarithms are unknown.
    domain : bytes
        Separates uses, at most 255 bytes. Another domain gives unrelated points.
    """
    numbers = b"".join(_field_element(text, domain) for text in texts)
    return _shared_out(_EXPAND + bytes(POINT_BYTES), numbers)


def multiplied(points: bytes, scalar: bytes) -> bytes:
    """Return the product of every point and a scalar of X25519's form.

    Raises
    ------
    ValueError
        When a point is of small order, as only a dishonest party would send.
    """
    if len(scalar) != POINT_BYTES or len(points) % POINT_BYTES:
        raise ValueError("points and scalars have 32 bytes")
    return _shared_out(_MULTIPLY + scalar, points)


def scalar_of(seed: bytes) -> bytes:
    """Return the scalar that X25519 derives from 32 bytes (clamping)."""
    number = int.from_bytes(seed, "little") & ~7 & (2**255 - 1)
    return (number & (2**254 - 1) | 2**254).to_bytes(POINT_BYTES, "little")


def detour(scalar: bytes) -> tuple[bytes, bytes]:
    """Return a fresh pair (there, back) of scalars whose product is `scalar`.

    A point times the one-time scalar `there` is indistinguishable from a random point.
    Whatever scalars multiply it in between, `back` completes the product with `scalar`.
    Both are of X25519's form, which about every second draw permits.
    """
    wanted = int.from_bytes(scalar_of(scalar), "little")
    while True:
        there = scalar_of(secrets.token_bytes(POINT_BYTES))
        back = wanted * pow(int.from_bytes(there, "little"), -1, _ORDER) % _ORDER
        # X25519's scalars are 8 times a number from 2^251 to 2^252.
        eighth = back * pow(8, -1, _ORDER) % _ORDER
        if 2**251 <= eighth < 2**252:
            return there, (8 * eighth).to_bytes(POINT_BYTES, "little")


def _field_element(text: bytes, domain: bytes) -> bytes:
    """Hash a text to a field element modulo p, by expand_message_xmd of RFC 9380."""
    suffix = domain + bytes([len(domain)])
    first = hashlib.sha512(bytes(128) + text + b"\x00\x30\x00" + suffix).digest()
    uniform = hashlib.sha512(first + b"\x01" + suffix).digest()[:48]
    return (int.from_bytes(uniform, "big") % _P).to_bytes(POINT_BYTES, "little")


def _elligator(numbers: bytes) -> bytes:
    """Map numbers to u-coordinates of points on the curve (Elligator 2)."""
    # u = -A / (1 + 2 r^2) or -A - u: exactly one of them is on the curve. The zero
    # denominator of RFC 9380's exceptional case cannot occur, as -1/2 is not a square.
    denominators = [(1 + 2 * r * r) % _P for r in _integers(numbers)]
    coordinates = []
    for inverse in _inverses(denominators):
        u = -_A * inverse % _P
        if not _is_square(u * (u * (u + _A) + 1) % _P):
            u = (-_A - u) % _P
        coordinates.append(u.to_bytes(POINT_BYTES, "little"))
    return b"".join(coordinates)


def _is_square(number: int) -> bool:
    if _legendre is not None:
        return _legendre(number, _P) >= 0
    return pow(number, _HALF, _P) <= 1


def _inverses(numbers: list[int]) -> list[int]:
    """Return all inverses by one inversion (Montgomery's trick)."""
    products, product = [], 1
    for number in numbers:
        products.append(product)
        product = product * number % _P
    inverse, inverses = pow(product, -1, _P), []
    for number, before in zip(reversed(numbers), reversed(products), strict=True):
        inverses.append(inverse * before % _P)
        inverse = inverse * number % _P
    return inverses[::-1]


def _integers(numbers: bytes) -> list[int]:
    return [
        int.from_bytes(numbers[i : i + POINT_BYTES], "little")
        for i in range(0, len(numbers), POINT_BYTES)
    ]


def _exchanged(points: bytes, scalar: bytes) -> bytes:
    key = X25519PrivateKey.from_private_bytes(scalar)
    return b"".join(
        key.exchange(X25519PublicKey.from_public_bytes(points[i : i + POINT_BYTES]))
        for i in range(0, len(points), POINT_BYTES)
    )


def _done(task: bytes, items: bytes) -> bytes:
    if task[:1] == _EXPAND:
        return _elligator(items)
    return _exchanged(items, task[1:])


def _shared_out(task: bytes, items: bytes) -> bytes:
    """Apply a task to all items, in several processes where that is faster."""
    count = len(items) // POINT_BYTES
    workers = min(_processors(), count // _FEWEST)
    if workers < 2 or not sys.executable:
        return _done(task, items)
    share = -(-count // workers) * POINT_BYTES
    parts = [items[i : i + share] for i in range(0, len(items), share)]
    # -P: modules in this folder could otherwise shadow others of the same name.
    command = [sys.executable, "-P", __file__]
    running = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for _ in parts[1:]
    ]
    try:
        # A process reads all input before it writes, so that no pipe can block both.
        for process, part in zip(running, parts[1:], strict=True):
            assert process.stdin is not None
            process.stdin.write(task + part)
            process.stdin.close()
        results = [_done(task, parts[0])]
        for process, part in zip(running, parts[1:], strict=True):
            assert process.stdout is not None
            results.append(process.stdout.read())
            if process.wait() or len(results[-1]) != len(part):
                raise ValueError("a point is of small order, or a process was killed")
    finally:
        for process in running:
            process.kill()
            for pipe in (process.stdin, process.stdout):
                assert pipe is not None
                pipe.close()
            process.wait()
    return b"".join(results)


def _processors() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _work() -> None:
    data = sys.stdin.buffer.read()
    try:
        done = _done(data[: 1 + POINT_BYTES], data[1 + POINT_BYTES :])
    except ValueError:
        # The parent reports the error; a traceback would only name points.
        sys.exit(1)
    sys.stdout.buffer.write(done)


if __name__ == "__main__":
    _work()
