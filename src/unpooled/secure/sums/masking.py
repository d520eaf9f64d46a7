"""Pairwise additive masking without recovery of absent parties.

Every two parties i < j share a 32-byte key k_ij, agreed afresh for each fit. Party i
adds PRG(k_ij, context) for every j > i and subtracts it for every j < i, in the ring of
the code, so the masks cancel in the total and in no smaller sum:

    party 1:  x_1 + r_12 + r_13
    party 2:  x_2 - r_12 + r_23          total:  x_1 + x_2 + x_3
    party 3:  x_3 - r_13 - r_23

A coordinator that follows the protocol learns the total; together with c parties it
learns the sum over the other m - c, and nothing finer; of more than 97 parties not
every pair shares masks (`unpooled.secure.sums.mask_graph`). No key is ever revealed, so
a party that is missing ends the round instead of being subtracted: a total is over the
study's roster, or it is not opened.

A total that only the parties may open carries one more mask, added by one party under a
key that all parties have and the coordinator has not (`veil`, `unveil`).

Every pair has one AES-256 key for a session. The context names study, session, round,
step, view, arguments and release; HKDF turns it and the pair's key into the place, one
of 2^128, at which the masks of this release begin in the pair's counter stream.

**No mask is used twice.** To whoever lacks the pair's key the places are independent
and uniform, so that no choice of contexts makes them meet. Of q releases of at most L
blocks of 16 bytes, two overlap with a probability below q² L / 2^128: for a thousand
releases of 16 MB each, 4e-27. As a cipher permutes blocks, none of the B blocks of a
session comes twice, where random ones would with a probability of B² / 2^129: 2e-21.

References
----------
Bonawitz et al., Practical Secure Aggregation for Privacy-Preserving Machine Learning,
CCS 2017, section 4, the masking with one-time pads.
"""

import hmac
from collections.abc import Iterable, Mapping, Sequence
from typing import final

import numpy as np
from cryptography.hazmat.primitives.ciphers import (
    Cipher,
    CipherContext,
    algorithms,
    modes,
)

from unpooled.arrays import Array, Float, Shaped
from unpooled.errors import AggregationError
from unpooled.secure.sums.fixed_point import CHUNK, Code
from unpooled.secure.sums.secure_sum import SecureSum

# Bytes of key stream generated at a time, so that they stay in the cache until added.
_CHUNK = 2**18
_ZEROS = memoryview(bytes(_CHUNK))
# Bytes of a block of AES, and of the number of a block in a stream.
_BLOCK = 16
_FROM_ZERO = modes.CTR(bytes(_BLOCK))


@final
class MaskedSum(SecureSum):
    """Conceal each party's vector under masks that cancel in the total.

    Parameters
    ----------
    party : str
        This party's name; empty at the coordinator, which has no keys.
    keys : mapping of str to bytes
        The 32-byte key shared with each party that it shares masks with.
    """

    def __init__(
        self, party: str = "", keys: Mapping[str, bytes] | None = None
    ) -> None:
        self.party = party
        self._keys = dict(keys or {})
        self._added = [
            _MaskStream(key) for peer, key in self._keys.items() if peer > party
        ]
        self._subtracted = [
            _MaskStream(key) for peer, key in self._keys.items() if peer < party
        ]

    def conceal(
        self, values: Float[Array, " d"], code: Code, context: bytes
    ) -> Shaped[Array, "..."]:
        """Return the encoded vector plus this party's masks for the context."""
        if not self._keys:
            raise AggregationError(
                "A secure sum needs at least two parties, or there are no masks.",
                rule="min_parties",
            )
        words = code.encode(values)
        self.cover(words, code, context)
        return words

    def cover(self, words: Shaped[Array, "..."], code: Code, context: bytes) -> None:
        """Apply this party's masks for the context to words, in place."""
        added = [stream.at(context) for stream in self._added]
        subtracted = [stream.at(context) for stream in self._subtracted]
        _mask(words, code, added, subtracted)

    def added(
        self, concealed: Iterable[Shaped[Array, "..."]], code: Code
    ) -> Shaped[Array, "..."]:
        """Add the words of all parties, so that the masks cancel; a veil stays on."""
        first, *others = concealed
        total = first.copy()
        for start in range(0, len(total), CHUNK):
            chunk = slice(start, start + CHUNK)
            for part in others:
                code.add(total[chunk], part[chunk])
        return total


def veil(words: Shaped[Array, "..."], code: Code, key: bytes, context: bytes) -> None:
    """Add, at one party, the mask that hides a total from the coordinator."""
    _mask(words, code, added=[key_cipher(key, b"veil" + context)])


def unveil(
    total: Shaped[Array, "..."], code: Code, key: bytes, context: bytes
) -> Float[Array, " d"]:
    """Open a veiled total, in a silo."""
    return code.decode(unveiled(total, code, key, context))


def unveiled(
    total: Shaped[Array, "..."], code: Code, key: bytes, context: bytes
) -> Shaped[Array, "..."]:
    """Return the words of a veiled total, without the veil."""
    words = total.copy()
    _mask(words, code, subtracted=[key_cipher(key, b"veil" + context)])
    return words


def key_stream(key: bytes, context: bytes, size: int) -> bytes:
    """Return `size` pseudo-random bytes, different for every (key, context)."""
    return key_cipher(key, context).update(bytes(size))


@final
class _MaskStream:
    """The counter stream that a pair of parties shares in a session.

    Parameters
    ----------
    key : bytes
        The pair's key.
    """

    # One process may simulate many silos, with an object for every two of them.
    __slots__ = ("_key", "_stream")

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._stream = _cipher(_expanded(key, b"mask stream"))

    def at(self, context: bytes) -> CipherContext:
        """Return the stream from the place of a context on, until the next call."""
        self._stream.reset_nonce(_expanded(self._key, context)[:_BLOCK])
        return self._stream


def _mask(
    words: Shaped[Array, "..."],
    code: Code,
    added: Sequence[CipherContext] = (),
    subtracted: Sequence[CipherContext] = (),
) -> None:
    """Add the next words of some streams to words and subtract others', in place."""
    # Chunks hold complete numbers: 32 bytes, the widest one, divides their size.
    rows = _CHUNK // code.bytes_per_number
    # The masks of short arrays are added up in a chunk before they are applied.
    at_once = max(_CHUNK // max(words.nbytes, 1), 1)
    signs = (added, code.add), (subtracted, code.subtract)
    groups = [
        (streams[first : first + at_once], apply)
        for streams, apply in signs
        for first in range(0, len(streams), at_once)
    ]
    most = max((len(streams) for streams, _ in groups), default=0)
    buffer = bytearray(most * min(_CHUNK, words.nbytes) + _BLOCK - 1)
    for start in range(0, len(words), rows):
        part = words[start : start + rows]
        for streams, apply in groups:
            apply(part, code.summed(_pads(streams, part, buffer)))


def _pads(
    streams: Sequence[CipherContext], part: Shaped[Array, "..."], buffer: bytearray
) -> Shaped[Array, "m ..."]:
    """Return the next words of key streams for a chunk, in `buffer`."""
    size, there = part.nbytes, memoryview(buffer)
    for place, stream in enumerate(streams):
        stream.update_into(_ZEROS[:size], there[place * size :])
    pads = np.frombuffer(buffer, part.dtype, len(streams) * part.size)
    return pads.reshape(len(streams), *part.shape)


def key_cipher(key: bytes, context: bytes) -> CipherContext:
    """Return the key stream of (key, context): its encryptions of zeros."""
    # The key is used for this stream only, so the counter may start anywhere.
    return _cipher(_expanded(key, context))


def _cipher(key: bytes) -> CipherContext:
    return Cipher(algorithms.AES256(key), _FROM_ZERO).encryptor()


def _expanded(key: bytes, context: bytes) -> bytes:
    """Return the 32 bytes of HKDF-Expand-SHA256 (RFC 5869, section 2.3)."""
    return hmac.digest(key, context + b"\1", "sha256")
