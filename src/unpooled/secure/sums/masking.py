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

The context names study, session, round, step, view and release. HKDF turns the pair's
key and the context into a fresh AES-256 key, so no part of a key stream is used twice.

References
----------
Bonawitz et al., Practical Secure Aggregation for Privacy-Preserving Machine Learning,
CCS 2017, section 4, the masking with one-time pads.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import final

import numpy as np
from cryptography.hazmat.primitives.ciphers import (
    Cipher,
    CipherContext,
    algorithms,
    modes,
)
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

from unpooled.arrays import Array, Float, Shaped
from unpooled.errors import AggregationError
from unpooled.secure.sums.fixed_point import CHUNK, Code
from unpooled.secure.sums.secure_sum import SecureSum

# Bytes of key stream generated at a time, so that they stay in the cache until added.
_CHUNK = 2**18
_ZEROS = bytes(_CHUNK)


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
        _mask(
            words,
            code,
            context,
            added=[key for peer, key in self._keys.items() if peer > self.party],
            subtracted=[key for peer, key in self._keys.items() if peer < self.party],
        )

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
    _mask(words, code, b"veil" + context, added=[key])


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
    _mask(words, code, b"veil" + context, subtracted=[key])
    return words


def key_stream(key: bytes, context: bytes, size: int) -> bytes:
    """Return `size` pseudo-random bytes, different for every (key, context)."""
    return key_cipher(key, context).update(bytes(size))


def _mask(
    words: Shaped[Array, "..."],
    code: Code,
    context: bytes,
    *,
    added: Sequence[bytes] = (),
    subtracted: Sequence[bytes] = (),
) -> None:
    """Add the masks of some keys to words and subtract those of others, in place."""
    # Chunks hold complete numbers: 32 bytes, the widest one, divides their size.
    rows = _CHUNK // code.bytes_per_number
    # The masks of short arrays are added up in a chunk before they are applied.
    at_once = max(_CHUNK // max(words.nbytes, 1), 1)
    signs = (added, code.add), (subtracted, code.subtract)
    groups = [
        ([key_cipher(key, context) for key in keys[first : first + at_once]], apply)
        for keys, apply in signs
        for first in range(0, len(keys), at_once)
    ]
    most = max((len(streams) for streams, _ in groups), default=0)
    buffer = bytearray(most * min(_CHUNK, words.nbytes) + 15)
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
    stream_key = HKDFExpand(SHA256(), 32, context).derive(key)
    # The key is used for this stream only, so the counter may start anywhere.
    return Cipher(algorithms.AES(stream_key), modes.CTR(bytes(16))).encryptor()
