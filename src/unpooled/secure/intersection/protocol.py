"""Private set intersection: the ids common to all parties, and no other id.

There are two stages, for any number m of parties in a ring. Capital letters are points
of ristretto255, small ones scalars: k_i is party i's secret, r a fresh one for this
run.

    1. Tokens.  party i ── r H(id) ──> i+1 ── × k_{i+1} ──> ... ──> i-1 ── × k_{i-1} ──>
                party i: × k_i / r, so  token(id) = (k_1 k_2 ... k_m) H(id)

    2. Table.   share_i(token) is pseudo-random, and the shares add to 0 over all i
                T_i: words with T_i[a] + T_i[b] + T_i[c] = share_i(token) for all tokens
                of party i, where a, b, c are three places derived from the token;
                uniformly random otherwise
                parties ── T_i under masks ──> T = sum of T_i, opened by parties only
                an id is common  <=>  T[a] + T[b] + T[c] = 0

What each party learns. In transit an id is a point multiplied by a one-time scalar,
which under the decisional Diffie-Hellman assumption is indistinguishable from a random
point, to the neighbours, to the relay, and to all of them together. A token needs a
contribution of every party, so no party can test guessed ids by itself. At a token of
its own that some party lacks, T is a sum with at least one uniformly random word. Its
distribution is the same whether one other party lacks the id or all do, so no pairwise
intersection is disclosed, neither to a party nor to the coordinator, which receives
tables under masks only. Colluding parties learn which of their ids all other parties
have.

What sizes disclose. All parties and the coordinator know every party's number of ids,
and the number of common ones.

What is not prevented. A party that invents ids learns which of them are common, as in
every private set intersection; the silos must trust one another to use real tables.

References
----------
Jarecki, Liu, Fast Secure Computation of Set Intersection, SCN 2010 (blinded tokens).
Kolesnikov, Matania, Pinkas, Rosulek, Trieu, Practical Multi-party Private Set
Intersection from Symmetric-Key Techniques, CCS 2017 (shares of zero). Garimella,
Pinkas, Rosulek, Trieu, Yanai, Oblivious Key-Value Stores, CRYPTO 2021 (the table).
"""

import hashlib
import hmac
import secrets
from collections.abc import Iterable, Sequence
from typing import final

import numpy as np

from unpooled.arrays import Array, Int, UInt64
from unpooled.errors import AggregationError
from unpooled.secure.intersection.ristretto255 import (
    POINT_BYTES,
    detour,
    multiplied,
    points_of,
    scalar_of,
)

# Places derived from a token, one in each third of the table.
_PLACES = 3
# Ratio of places to tokens, and additional places. Above a ratio of 1.222 a large table
# can be solved almost surely; the additional places do the same for small tables.
_ROOM, _MORE = 1.3, 384


@final
class Intersection:
    """One party's part in one intersection.

    Parameters
    ----------
    position, n_parties : int
        Position of this party in the ring, from 0, and the number of parties.
    ids : sequence of bytes
        The party's normalised ids, without repetition.
    secret : bytes
        32 bytes that only this party knows. The same secrets give the same tokens, and
        so the same order, in every run.
    salt : bytes
        The same at all parties. Another salt gives unrelated tokens.
    """

    def __init__(
        self,
        position: int,
        n_parties: int,
        ids: Sequence[bytes],
        secret: bytes,
        salt: bytes,
    ) -> None:
        self.position, self.n_parties, self.n_ids = position, n_parties, len(ids)
        self._ids, self._secret = ids, scalar_of(secret)
        self._domain = b"unpooled ids " + hashlib.sha256(salt).digest()
        # Fresh for each run, so that messages of two runs are unrelated.
        self._there, self._back = detour(self._secret)
        self._tokens: list[bytes] = []

    def blinded(self, start: int, stop: int) -> bytes:
        """Blind a block of ids: H(id)^r as points of ristretto255."""
        points = points_of(self._ids[start:stop], self._domain)
        return multiplied(points, self._there)

    def passed_on(self, points: bytes) -> bytes:
        """Return another party's points multiplied by this party's secret."""
        return _times(points, self._secret)

    def take_back(self, points: bytes) -> None:
        """Unblind own points after they passed all parties, in order of `blinded`."""
        done = _times(points, self._back)
        self._tokens += [
            done[i : i + POINT_BYTES] for i in range(0, len(done), POINT_BYTES)
        ]
        if len(self._tokens) > self.n_ids:
            raise AggregationError("Points were received twice.", rule="out_of_order")

    def table(self, n_places: int, context: bytes) -> UInt64[Array, " s"] | None:
        """Return this party's table, or None when there is none for this context.

        For about one set of tokens in some thousands, the pseudo-random places cannot
        be solved. That discloses nothing about them; another context is tried.
        """
        tokens = self._all_tokens()
        places = _places(tokens, n_places, context)
        order = _peeled(places, n_places)
        if order is None:
            return None
        following = (self.position + 1) % self.n_parties
        shares = _share(tokens, self.position, context)
        shares -= _share(tokens, following, context)
        table = np.frombuffer(secrets.token_bytes(8 * n_places), np.uint64).copy()
        for rows, free in reversed(order):
            others = table[places[rows]].sum(axis=1) - table[free]
            table[free] = shares[rows] - others
        return table

    def common(
        self, total: UInt64[Array, " s"], context: bytes
    ) -> tuple[Int[Array, " N"], list[bytes]]:
        """Return the indices of own ids that all parties have, and their tokens.

        Both are in the order of the tokens. It is the same at every party and
        pseudo-random, so it discloses nothing about the ids.
        """
        tokens = self._all_tokens()
        places = _places(tokens, len(total), context)
        rows = np.flatnonzero(total[places].sum(axis=1) == 0)
        ordered = sorted(rows.tolist(), key=tokens.__getitem__)
        return np.array(ordered, np.int64), [tokens[row] for row in ordered]

    def _all_tokens(self) -> list[bytes]:
        if len(self._tokens) != self.n_ids:
            raise AggregationError("Some points are missing.", rule="out_of_order")
        return self._tokens


def places_for(n_ids: int) -> int:
    """Return the number of places of a table, for the largest number of ids."""
    return _PLACES * -(-int(_ROOM * n_ids + _MORE) // _PLACES)


def keyed_digest(key: bytes, items: Iterable[bytes]) -> bytes:
    """Return a digest to compare lists, which is useless without the key."""
    keyed = hmac.new(key, digestmod=hashlib.sha256)
    for item in items:
        # Each item after its length, so that lists of the same bytes differ.
        keyed.update(len(item).to_bytes(8, "big") + item)
    return keyed.digest()


def _times(points: bytes, scalar: bytes) -> bytes:
    try:
        return multiplied(points, scalar)
    except ValueError as wrong:
        raise AggregationError(
            "The message does not hold points of the curve's group.",
            rule="malformed_message",
        ) from wrong


def _words(tokens: list[bytes], n_words: int, use: bytes) -> UInt64[Array, "n w"]:
    digests = (
        hashlib.blake2b(token, digest_size=8 * n_words, key=use).digest()
        for token in tokens
    )
    return np.frombuffer(b"".join(digests), np.uint64).reshape(-1, n_words)


def _places(tokens: list[bytes], n_places: int, context: bytes) -> Int[Array, "n 3"]:
    third = n_places // _PLACES
    words = _words(tokens, _PLACES, hashlib.sha256(b"places" + context).digest())
    within = (words % np.uint64(third)).astype(np.int64)
    return within + third * np.arange(_PLACES)


def _share(tokens: list[bytes], party: int, context: bytes) -> UInt64[Array, " n"]:
    use = hashlib.sha256(b"share %d of " % party + context).digest()
    return _words(tokens, 1, use)[:, 0].copy()


def _peeled(
    places: Int[Array, "n 3"], n_places: int
) -> list[tuple[Int[Array, " a"], Int[Array, " a"]]] | None:
    """Return tokens, batch by batch, each with a place that no later token has.

    In reverse order, each token finds this place still free. None when there is no
    such order (the hypergraph of the places has a core).
    """
    n = len(places)
    degree = np.bincount(places.ravel(), minlength=n_places)
    # At a place with one token, the sum of the indices is the index of that token.
    rows = np.repeat(np.arange(n), _PLACES)
    which = np.zeros(n_places, np.int64)
    np.add.at(which, places.ravel(), rows)
    order, left = [], n
    while left:
        free = np.flatnonzero(degree == 1)
        batch, first = np.unique(which[free], return_index=True)
        if not len(batch):
            return None
        order.append((batch, free[first]))
        touched = places[batch].ravel()
        np.subtract.at(degree, touched, 1)
        np.subtract.at(which, touched, np.repeat(batch, _PLACES))
        left -= len(batch)
    return order
