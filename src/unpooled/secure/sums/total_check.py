"""Checks that an opened total is the sum of what the parties sent.

    party p       reply_p, and the sums of 64 random subsets of its words, sealed
    coordinator   total = Σ_p reply_p         cannot read the sums, nor know the subsets
    every party   Σ_p sums of reply_p  ==  sums of the same subsets of the total

The subsets follow from a key that the parties share and the coordinator lacks. They
take 512 bytes a party and one pass over the words, in place of every party's words.

Proof. Let D be the total that a party receives minus the sum of all replies, word by
word, in the ring of the code, and let r be a subset, as a vector of zeros and ones.
Adding words is linear in the ring, so the check accepts only if <D, r> = 0 for all 64
subsets. Suppose word j of D is not zero. Whatever the other bits of r are, the two
choices of r_j give values of <D, r> that differ by D_j, so at most one of them is zero:
the subset misses D with probability at most 1/2. The argument uses no division, so it
holds for every D and every code, also for 2^63 in one word, and for rings of 8 bits.
The coordinator chooses D without knowing the subsets, and the subsets are independent,
so a wrong total passes with probability at most 2^-64, plus the chance of telling the
key stream from random bits or of forging a sealed message.

What the sums disclose. They are a linear function of the masked words, which the masks
make uniform given their total: among honest parties the sums disclose what the total
does, and the coordinator cannot open them.
"""

import secrets
from collections.abc import Mapping

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

from unpooled.arrays import Array, Shaped
from unpooled.errors import AggregationError
from unpooled.secure.sums.fixed_point import CHUNK
from unpooled.secure.sums.masking import key_cipher

# Random subsets of the words: a wrong total passes with probability 2^-64.
SUBSETS = 64
# Subsets that share a pass over the words: a word's bits in them are its bucket.
_PASS = 16
# Fewer words than these are added subset by subset, which costs less than the buckets.
_FEW = 2**12
_NONCE, _TAG = 12, 16


def check_sums(
    words: Shaped[Array, "..."], key: bytes, context: bytes
) -> Shaped[Array, "..."]:
    """Return the sums of 64 random subsets of words, in the ring of their code.

    Parameters
    ----------
    words : (w,) or (w, 4) array of unsigned integers
        Words of a `Code`: with a second axis, numbers of four 64-bit limbs, least
        significant first.
    key : bytes
        Shared by the parties and unknown to the coordinator.
    context : bytes
        Names study, session, round, step and release.

    Returns
    -------
    (64,) or (64, 4) array
        Sums of the same type as the words.
    """
    if words.dtype.kind != "u" or words.ndim not in (1, 2):
        raise TypeError("only words of a ring have subset sums that add exactly")
    if words.ndim == 1:
        return _subset_sums(words[:, None], key, context)[:, 0]
    # Half limbs, little endian, in 64 bits: up to 2^32 of them add without overflow.
    halves = np.ascontiguousarray(words, "<u8").view("<u4").astype(np.uint64)
    return _carried(_subset_sums(halves, key, context))


def seal_sums(
    sums: Shaped[Array, "..."], key: bytes, party: str, context: bytes
) -> bytes:
    """Return a party's sums, encrypted and authenticated for the other parties.

    Parameters
    ----------
    sums : array
        Result of `check_sums`.
    key : bytes
        Shared by the parties and unknown to the coordinator.
    party : str
        The party whose words were added.
    context : bytes
        As of `check_sums`. Sums of another party or context cannot be opened as these.
    """
    data = np.ascontiguousarray(sums, sums.dtype.newbyteorder("<")).tobytes()
    nonce = secrets.token_bytes(_NONCE)
    return nonce + _sealing(key).encrypt(nonce, data, _about(party, context))


def check_total(
    total: Shaped[Array, "..."], sealed: Mapping[str, bytes], key: bytes, context: bytes
) -> None:
    """Raise unless a total is the sum of the words that the parties sent.

    Parameters
    ----------
    total : array
        Words of the total, before they are decoded.
    sealed : mapping of str to bytes
        The sealed sums by party. The caller checks that these are all the parties of
        the roster: a party that is missing here would be missing in the total.
    key, context : bytes
        As of `seal_sums`.

    Raises
    ------
    AggregationError
        When the total is wrong by any amount in any word, except with probability
        2^-64; also when sums were altered or are of another total.
    """
    sums = check_sums(total, key, context)
    sealing = _sealing(key)
    opened = [_opened(sealing, data, party, context) for party, data in sealed.items()]
    if any(len(data) != sums.nbytes for data in opened):
        raise _wrong_total()
    parts = np.frombuffer(b"".join(opened), sums.dtype.newbyteorder("<"))
    if not np.array_equal(_added(parts.reshape(-1, *sums.shape)), sums):
        raise _wrong_total()


def _opened(
    sealing: ChaCha20Poly1305, sealed: bytes, party: str, context: bytes
) -> bytes:
    try:
        return sealing.decrypt(sealed[:_NONCE], sealed[_NONCE:], _about(party, context))
    except (InvalidTag, ValueError) as wrong:
        raise AggregationError(
            f"The sums with which {party} checks a total were altered, or are of "
            f"another total.",
            rule="wrong_total",
        ) from wrong


def _wrong_total() -> AggregationError:
    return AggregationError(
        "A total is not the sum of what the parties sent.", rule="wrong_total"
    )


def _subset_sums(
    words: Shaped[Array, "w l"], key: bytes, context: bytes
) -> Shaped[Array, "k l"]:
    """Return the subset sums of each column, modulo the size of its words."""
    n, limbs = words.shape
    rounds = SUBSETS // _PASS
    stream = key_cipher(key, b"check subsets" + context)
    if n < _FEW:
        return _subset_sums_of_few(words, stream.update(bytes(2 * rounds * n)))
    # By limb, the sums of the words in each bucket.
    sums = np.zeros((rounds, limbs, 2**_PASS), words.dtype)
    for start in range(0, n, CHUNK):
        part = words[start : start + CHUNK]
        random = stream.update(bytes(2 * rounds * len(part)))
        drawn = np.frombuffer(random, "<u2").reshape(rounds, len(part))
        for buckets, each in zip(drawn, sums, strict=True):
            for limb in range(limbs):
                # Each word to the sum of its bucket.
                np.add.at(each[limb], buckets, part[:, limb])
    sums = _halved(sums)
    return np.ascontiguousarray(sums.swapaxes(1, 2).reshape(SUBSETS, limbs))


def _subset_sums_of_few(
    words: Shaped[Array, "w l"], random: bytes
) -> Shaped[Array, "k l"]:
    """Return the subset sums of few words, as products with matrices of bits.

    Pieces of 32 bits, of at most 2^12 words, add in double precision without rounding.
    """
    drawn = np.frombuffer(random, "<u2").reshape(-1, 1, len(words))
    bits = (drawn >> np.arange(_PASS, dtype=np.uint16)[:, None]) & np.uint16(1)
    subsets = bits.reshape(SUBSETS, len(words)).astype(np.float64)
    sums = np.zeros((SUBSETS, words.shape[1]), words.dtype)
    rest, shift = words.astype(np.uint64), 0
    while rest.any():
        pieces = (rest & np.uint64(2**32 - 1)).astype(np.float64)
        product = (subsets @ pieces).astype(np.uint64)
        sums += (product << np.uint64(shift)).astype(words.dtype)
        rest, shift = rest >> np.uint64(32), shift + 32
    return sums


def _halved(rest: Shaped[Array, "r l b"]) -> Shaped[Array, "r l k"]:
    """Return the sums of the buckets that have bit 0, 1, ... 15."""
    sums = np.empty((*rest.shape[:2], _PASS), rest.dtype)
    for bit in reversed(range(_PASS)):
        # The upper half of the buckets has the leading bit; then that bit is dropped.
        low, high = np.split(rest, 2, axis=2)
        sums[:, :, bit] = high.sum(axis=2, dtype=rest.dtype)
        rest = low + high
    return sums


def _carried(halves: Shaped[Array, "k 8"]) -> Shaped[Array, "k 4"]:
    """Return four-limb numbers from sums of their half limbs, modulo 2^256."""
    limbs = np.zeros((len(halves), halves.shape[1] // 2), np.uint64)
    carry = np.zeros(len(halves), np.uint64)
    for half in range(halves.shape[1]):
        total = halves[:, half] + carry
        carry = total >> np.uint64(32)
        part = total & np.uint64(2**32 - 1)
        limbs[:, half // 2] |= part << np.uint64(32 * (half % 2))
    return limbs


def _added(parts: Shaped[Array, "m k ..."]) -> Shaped[Array, "k ..."]:
    """Return the sum over the first axis: with a third axis, of four-limb numbers."""
    if parts.ndim == 2:
        # In the words' own type, so that the sum is modulo their size.
        return parts.sum(axis=0, dtype=parts.dtype.newbyteorder("="))
    halves = np.ascontiguousarray(parts, "<u8").view("<u4")
    return _carried(halves.sum(axis=0, dtype=np.uint64))


def _sealing(key: bytes) -> ChaCha20Poly1305:
    # A separate key, because the group key itself expands to veils and subsets.
    return ChaCha20Poly1305(HKDFExpand(SHA256(), 32, b"check sums").derive(key))


def _about(party: str, context: bytes) -> bytes:
    name = party.encode()
    return len(name).to_bytes(8, "big") + name + context
