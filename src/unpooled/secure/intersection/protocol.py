"""Which ids all parties have, though nobody learns of another's that are not common.

Two stages, for any number m of parties in a ring. Capital letters are points of
Curve25519, small ones scalars; k_i is party i's own, r a fresh one for this run.

    1. Tokens.  party i ── r H(id) ──> i+1 ── × k_{i+1} ──> ... ──> i-1 ── × k_{i-1} ──>
                party i: × k_i / r, so  token(id) = (k_1 k_2 ... k_m) H(id)

    2. Table.   share_i(token): pseudo-random, adding to 0 over i = 1, ..., m
                T_i: words with T_i[a] + T_i[b] + T_i[c] = share_i(token), where a, b, c
                are three places that the token names, for all of i's tokens;
                uniformly random otherwise
                parties ── T_i under masks ──> T = sum of T_i, opened by parties only
                an id is common  <=>  T[a] + T[b] + T[c] = 0

What each sees. On its way an id is a multiple of a point by a one-time scalar, which
under the decisional Diffie-Hellman assumption is as good as a random point: to the
neighbours, to the relay, and to all of them together. A token takes every party's help,
so nobody can try out ids that are not its own. At an own token that some party
lacks, T is the sum of at least one uniformly random word: it is the same whether one
other party lacks the id or all do, so no pairwise intersection shows, neither to a
party nor to the coordinator, which sees T under masks only. Colluding parties learn
which ids of any of them all the others have.

What sizes leak. Every party's number of ids, and the number of common ones, are known
to all parties and to the coordinator.

What does not hold: a party that makes up ids learns which of them are common, as in
every private set intersection; the silos must trust one another to bring real tables.

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
from unpooled.secure.intersection.curve25519 import (
    POINT_BYTES,
    detour,
    multiplied,
    points_of,
)

# Places that a token names, one in each third of the table.
_PLACES = 3
# Places to tokens: above 1.222 a large table can almost surely be solved, and the
# addend does the same for small ones.
_ROOM, _MORE = 1.3, 384


@final
class Intersection:
    """One party's side of one intersection.

    Parameters
    ----------
    position, n_parties : int
        Of this party in the ring, from 0, and how many there are.
    ids : sequence of bytes
        The party's ids, normalised, each once.
    secret : bytes
        32 bytes that only this party knows; the same secrets give the same tokens,
        hence the same order, again.
    salt : bytes
        The same at all parties; another salt gives unrelated tokens.
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
        self._ids, self._secret = ids, secret
        self._domain = b"unpooled ids " + hashlib.sha256(salt).digest()
        # Fresh for each run: what travels is unrelated to what travelled before.
        self._there, self._back = detour(secret)
        self._tokens: list[bytes] = []

    def blinded(self, start: int, stop: int) -> bytes:
        """Return points of some of the ids, which tell nobody anything."""
        points = points_of(self._ids[start:stop], self._domain)
        return multiplied(points, self._there)

    def passed_on(self, points: bytes) -> bytes:
        """Return another party's points, multiplied by this party's secret."""
        return _times(points, self._secret)

    def take_back(self, points: bytes) -> None:
        """Take own points that went round the ring, in the order of `blinded`."""
        done = _times(points, self._back)
        self._tokens += [
            done[i : i + POINT_BYTES] for i in range(0, len(done), POINT_BYTES)
        ]
        if len(self._tokens) > self.n_ids:
            raise AggregationError("Points came twice.", rule="out_of_order")

    def table(self, n_places: int, context: bytes) -> UInt64[Array, " s"] | None:
        """Return this party's table, or None: try again under another context.

        The places are pseudo-random, and one set of tokens in some thousands cannot
        be put there; that tells nothing about them.
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
        """Return which own ids all parties have, and their tokens, in common order.

        The order is that of the tokens: the same at every party, and random to
        everybody, so it says nothing about the ids.
        """
        tokens = self._all_tokens()
        places = _places(tokens, len(total), context)
        found = np.flatnonzero(total[places].sum(axis=1) == 0)
        ordered = sorted(found.tolist(), key=tokens.__getitem__)
        return np.array(ordered, np.int64), [tokens[row] for row in ordered]

    def _all_tokens(self) -> list[bytes]:
        if len(self._tokens) != self.n_ids:
            raise AggregationError("Some points are on their way.", rule="out_of_order")
        return self._tokens


def places_for(n_ids: int) -> int:
    """Return how many places a table has when no party has more ids than this."""
    return _PLACES * -(-int(_ROOM * n_ids + _MORE) // _PLACES)


def keyed_digest(key: bytes, items: Iterable[bytes]) -> bytes:
    """Return what tells two lists apart, and nothing else to whoever lacks the key."""
    keyed = hmac.new(key, digestmod=hashlib.sha256)
    for item in items:
        # With its length before it: two lists of the same bytes are not the same list.
        keyed.update(len(item).to_bytes(8, "big") + item)
    return keyed.digest()


def _times(points: bytes, scalar: bytes) -> bytes:
    try:
        return multiplied(points, scalar)
    except ValueError as wrong:
        raise AggregationError(
            "What came are not points of the curve's group.", rule="malformed_message"
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
    """Return tokens, batch by batch, each with a place that no later one has.

    Solved in the opposite order, every token finds that place still free. None where
    some tokens have all their places in common.
    """
    n = len(places)
    degree = np.bincount(places.ravel(), minlength=n_places)
    # The sum of the tokens at a place is, where there is one, its number.
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
