"""Signs of sums of three parties' numbers, in three rounds.

    all three   c = F + 2^(l-1) + r ──> parties 0 and 1     r is known to party 2 alone
    party 2     bits of r, as shares modulo 251 ──> parties 0 and 1
    0 and 1     blinded differences of the bits of c and r ──> party 2
    party 2     the signs of F ──> all

F is the sum, modulo a prime, of the three parties' parts, which leave them under shares
of 0. l is the number of bits. r is drawn below 2^(l + 64), so that c is noise to
parties 0 and 1. F is negative where bit l - 1 of c - r is 0. That bit is bit l - 1 of
c, xor that of r, xor the borrow, which is whether x < y for

    x = 2 (c mod 2^(l-1)) + 1,   y = 2 (r mod 2^(l-1)),   which are never equal.

Parties 0 and 1 toss a coin d = ±1 that party 2 does not see. In

    w_i = 1 + d (x_i - y_i) + Σ_{j > i} (x_j xor y_j)

no term is negative, so that w_i is 0 at the first bit that differs or nowhere: there if
x < y and d = 1, or x > y and d = -1. The w_i are linear in the bits of r, and parties 0
and 1 add them up in shares. They multiply each one by a random number other than 0, add
shares of 0, and rotate the places at random. So party 2 receives uniform numbers other
than 0 and, as the coin decides, one 0 at a uniform place or none. With bit l - 1 of c
under the same coin it computes the sign, and no other bit.

Every random number comes from a key that is unknown to the party from which the number
hides something. A fourth party receives the signs alone. So no single party learns
anything but signs, up to a statistical distance of 2^-64 for each. Two parties together
would learn F; where two may collude, of five, signs are computed by MPyC.

References
----------
Damgård, Geisler and Krøigaard, Efficient and secure comparison for on-line auctions,
ACISP 2007. Wagh, Gupta and Chandran, SecureNN, PoPETs 2019, algorithm 3 (private
compare). There the places are permuted; a rotation is enough, since all numbers but one
0 are uniform.
"""

import secrets
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from unpooled.arrays import Array, Bool, Int
from unpooled.secure.comparison.joint_computation import STATISTICAL_BITS
from unpooled.secure.sums.masking import key_cipher

# A prime above every w_i, which is at most l + 1; a share modulo it is a byte.
_PRIME = 251
MOST_BITS = _PRIME - 2
# c; the blinded differences; the signs.
ROUNDS = 3
# The party that knows r. Those of lower numbers know c.
_MASKING = 2
# Bytes by which a number is drawn too long, so that its remainder is uniform to 2^-128.
_LONGER = 16


class Link(ABC):
    """One party's connections to the others, and the keys that it shares.

    Attributes
    ----------
    party : int
        Number of this party, from 0.
    n_parties : int
        Three or four.
    modulus : int
        The prime modulo which parts add up.
    """

    party: int
    n_parties: int
    modulus: int

    @abstractmethod
    def seeds(self) -> Mapping[int, bytes]:
        """Return this party's new keys, by the party of the first three that lacks it.

        All parties call it at the same time. Every other party has the same key.
        """

    @abstractmethod
    async def swapped(
        self, sent: Mapping[int, bytes], senders: Sequence[int] = ()
    ) -> list[bytes]:
        """Send messages by party, and return those of the senders; one round.

        All parties call it in every round.
        """


async def blinded_signs(link: Link, parts: Array, bits: int) -> Bool[Array, " n"]:
    """Return which numbers are negative, as all parties learn; three rounds.

    Parameters
    ----------
    link : Link
        To the other parties.
    parts : (n,) array of int
        This party's part of each number; those of a fourth party count nothing.
    bits : int
        The numbers are below 2^(bits - 1); from 2 to `MOST_BITS`.
    """
    if not 1 < bits <= MOST_BITS:
        raise ValueError(f"bits={bits}: choose from 2 to {MOST_BITS}")
    ciphers = {
        absent: key_cipher(key, b"signs") for absent, key in link.seeds().items()
    }
    if link.party < _MASKING:
        return await _by_sum(link, parts, bits, ciphers)
    if link.party == _MASKING:
        return await _by_mask(link, parts, bits, ciphers)
    for _ in range(ROUNDS - 1):
        await link.swapped({})
    (packed,) = await link.swapped({}, [_MASKING])
    return _unpacked(packed, len(parts))


async def _by_mask(
    link: Link, parts: Array, bits: int, ciphers: Mapping[int, Any]
) -> Bool[Array, " n"]:
    """Return the signs at the party that knows r, and send them."""
    r = [secrets.randbits(bits + STATISTICAL_BITS) for _ in parts]
    y, top = _bits(r, bits, last=0)
    # Party 0 draws its shares of the bits itself, from the key that party 1 lacks.
    part = _packed(_under_zeros(link, parts, ciphers) + np.array(r, dtype=object), link)
    rest = (y - _uniform(ciphers[1], _PRIME, y.shape)) % _PRIME
    await link.swapped({0: part, 1: part + rest.astype(np.uint8).tobytes()})
    w, coin = np.zeros(y.size, np.int32), np.zeros(len(r), bool)
    for message in await link.swapped({}, [0, 1]):
        w += np.frombuffer(message[: y.size], np.uint8)
        coin ^= _unpacked(message[y.size :], len(r))
    has_zero = (w % _PRIME == 0).reshape(y.shape).any(axis=1)
    negative = ~(has_zero ^ coin ^ top)
    packed = np.packbits(negative).tobytes()
    others = set(range(link.n_parties)) - {_MASKING}
    await link.swapped(dict.fromkeys(others, packed))
    return negative


async def _by_sum(
    link: Link, parts: Array, bits: int, ciphers: Mapping[int, Any]
) -> Bool[Array, " n"]:
    """Return the signs at a party that knows c, from the party that knows r."""
    first, other = link.party == 0, 1 - link.party
    own = _under_zeros(link, parts, ciphers)
    theirs, masked = await link.swapped({other: _packed(own, link)}, [other, _MASKING])
    width = _width(link.modulus)
    c = own + _numbers(theirs, width) + _numbers(masked[: width * len(parts)], width)
    c = (c + (1 << (bits - 1))) % link.modulus
    # Below 2^(bits + 64) + 2^bits, and so below the prime, unless the parties' parts do
    # not belong together; then the signs are those of noise.
    x, top = _bits(c.tolist(), bits, last=1)
    if first:
        y = _uniform(ciphers[1], _PRIME, x.shape)
    else:
        rest = np.frombuffer(masked[width * len(parts) :], np.uint8)
        y = rest.astype(np.int32).reshape(x.shape)
    w, coin = _differences(x, y, ciphers[_MASKING], first=first)
    # One of the two sends the bit of c, under the coin.
    hidden = coin ^ top if first else np.zeros(len(parts), bool)
    blinded = w.astype(np.uint8).tobytes() + np.packbits(hidden).tobytes()
    await link.swapped({_MASKING: blinded})
    (packed,) = await link.swapped({}, [_MASKING])
    return _unpacked(packed, len(parts))


def _differences(
    x: Int[Array, "n l"], y: Int[Array, "n l"], cipher: Any, *, first: bool
) -> tuple[Int[Array, "n l"], Bool[Array, " n"]]:
    """Return this party's shares of the blinded w_i, and the coins.

    Parameters
    ----------
    x : (n, l) array of int
        Bits of c, the lowest first.
    y : (n, l) array of int
        Shares of the bits of r.
    cipher : CipherContext
        Cipher of the key that the party lacks which receives the shares.
    first : bool
        Whether this is the party whose shares contain public numbers.
    """
    n, places = x.shape
    coin = _uniform(cipher, 2, (n,)).astype(bool)
    d = np.where(coin, -1, 1)[:, None]
    differs = y * (1 - 2 * x) + (x if first else 0)
    above = differs.sum(axis=1, keepdims=True) - differs.cumsum(axis=1)
    w = above - d * y + (1 + d * x if first else 0)
    w = w % _PRIME * (1 + _uniform(cipher, _PRIME - 1, x.shape))
    # Each share alone would be a multiple of a number that the receiver may know.
    nothing = _uniform(cipher, _PRIME, x.shape)
    w = (w + nothing if first else w - nothing) % _PRIME
    turns = _drawn(cipher, places, n).astype(np.intp)
    return np.take_along_axis(w, (np.arange(places) + turns[:, None]) % places, 1), coin


def _under_zeros(link: Link, parts: Array, ciphers: Mapping[int, Any]) -> Array:
    """Return the parts of this party so that only the sum of all parts is no noise.

    The numbers of each key are added by one of its two parties and subtracted by the
    other.
    """
    for absent, sign in ((link.party + 1) % 3, 1), ((link.party + 2) % 3, -1):
        parts = parts + sign * _drawn(ciphers[absent], link.modulus, len(parts))
    return parts


def _bits(
    numbers: Sequence[int], bits: int, *, last: int
) -> tuple[Int[Array, "n l"], Bool[Array, " n"]]:
    """Return the bits below bit l - 1, the lowest first after `last`; and bit l - 1."""
    width, below = (bits + 7) // 8, (1 << bits) - 1
    low = b"".join((int(v) & below).to_bytes(width, "little") for v in numbers)
    table = np.frombuffer(low, np.uint8).reshape(len(numbers), width)
    found = np.unpackbits(table, axis=1, count=bits, bitorder="little")
    appended = np.full((len(numbers), 1), last, np.uint8)
    places = np.hstack([appended, found[:, :-1]]).astype(np.int32)
    return places, found[:, -1].astype(bool)


def _uniform(cipher: Any, below: int, shape: tuple[int, ...]) -> Int[Array, "..."]:
    """Return the stream's next uniform numbers below a bound, which is at most 256."""
    size, most = int(np.prod(shape)), 256 - 256 % below
    kept = np.empty(0, np.uint8)
    while len(kept) < size:
        # Bytes too large for a whole number of remainders are left out.
        drawn = np.frombuffer(cipher.update(bytes(size - len(kept) + 64)), np.uint8)
        kept = np.append(kept, drawn[drawn < most])
    return kept[:size].astype(np.int32).reshape(shape) % below


def _drawn(cipher: Any, below: int, n: int) -> Array:
    """Return the stream's next n uniform numbers below any bound."""
    width = _width(below) + _LONGER
    return _numbers(cipher.update(bytes(width * n)), width) % below


def _width(bound: int) -> int:
    return (bound.bit_length() + 7) // 8


def _packed(numbers: Array, link: Link) -> bytes:
    width, q = _width(link.modulus), link.modulus
    return b"".join(int(v).to_bytes(width, "little") for v in numbers % q)


def _numbers(packed: bytes, width: int) -> Array:
    parts = (packed[i : i + width] for i in range(0, len(packed), width))
    return np.array([int.from_bytes(part, "little") for part in parts], dtype=object)


def _unpacked(packed: bytes, n: int) -> Bool[Array, " n"]:
    return np.unpackbits(np.frombuffer(packed, np.uint8), count=n).astype(bool)
