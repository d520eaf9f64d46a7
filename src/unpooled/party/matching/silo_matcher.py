"""A party's end of matching rows: each stage once, in its order."""

from collections.abc import Mapping
from typing import Any, final

import numpy as np

from unpooled.arrays import Array, Int
from unpooled.data.ids import read_ids
from unpooled.data.table import Table
from unpooled.errors import DataError
from unpooled.ledger import canonical
from unpooled.party.rules.policy import Policy
from unpooled.protocol.ledger_lines import Lines
from unpooled.protocol.matching_stages import PART, STAGES, Place, lines_of
from unpooled.protocol.message import Message
from unpooled.protocol.refusal import Refusal
from unpooled.secure.intersection.protocol import Intersection, keyed_digest, places_for
from unpooled.secure.keys.agreement import open_sealed, seal_for
from unpooled.secure.sums.fixed_point import BoundedCode
from unpooled.secure.sums.masking import MaskedSum, unveiled, veil

# A table of more places than this would not fit a message.
_MOST_PLACES = 2**28
# Result of a stage: entries of the reply's header, its arrays, and the numbers of
# points, places or rows that were received and are sent.
_Done = tuple[dict[str, Any], dict[str, Array], tuple[int, int]]


@final
class SiloMatcher:
    """A party's end of one matching of rows.

    Parameters
    ----------
    place : Place
        Study, session and party; the round changes.
    parties : tuple of str
        The roster of the session, sorted: the ring.
    source : Table
        The silo's rows, all of them.
    policy : Policy
        The silo's rules.
    keys : mapping of str to bytes
        Shared with each other party, for this session.
    group_key : bytes
        Shared with all parties; the coordinator does not have it.
    secret : bytes
        This silo's own for the study; the same secret gives the same order again.
    salt : bytes
        Separates the ids of this study from those of any other.

    Attributes
    ----------
    source : Table
        As given.
    rows : (N,) array of int, or None
        The common rows, in common order, once they are known.
    """

    def __init__(
        self,
        place: Place,
        parties: tuple[str, ...],
        source: Table,
        policy: Policy,
        *,
        keys: Mapping[str, bytes],
        group_key: bytes,
        secret: bytes,
        salt: bytes,
    ) -> None:
        self.rows: Int[Array, " N"] | None = None
        self._me, self._parties = place.party, parties
        self._session = [place.study, place.session]
        self.source, self._policy = source, policy
        self._keys, self._group_key = keys, group_key
        self._secret, self._salt = secret, salt
        self._code = BoundedCode(len(parties))
        self._own: Intersection | None = None
        self._begun: set[tuple[Any, ...]] = set()

    def answer(
        self, place: Place, message: Message
    ) -> tuple[dict[str, Any], dict[str, Array], Lines]:
        """Do a stage; return the reply's header, its arrays, and their ledger lines."""
        step = STAGES.get(message.header["stage"])
        if step is None:
            raise Refusal("malformed_message")
        policy = self._policy
        if policy.allowed_steps is not None and not policy.lists_step(step.name):
            raise Refusal("allowed_steps")
        if policy.require_privacy:
            # Numbers of ids and of common rows have no noise.
            raise Refusal("require_privacy")
        stages = {
            "matching.count": self._count,
            "matching.blind": self._blind,
            "matching.hand_on": self._hand_on,
            "matching.take": self._take,
            "matching.table": self._table,
            "matching.common": self._common,
            "matching.check": self._check,
        }
        header, arrays, (received, sent) = stages[step.name](message)
        lines = lines_of(place, step, received, sent)
        if "unlucky" in header:
            # Nothing is sent; the coordinator repeats the stage in another context.
            return {"kind": "released"}, {}, []
        return {"kind": "released", **header}, arrays, lines

    def _count(self, message: Message) -> _Done:
        self._once("count")
        self._own = Intersection(
            self._parties.index(self._me),
            len(self._parties),
            read_ids(self.source),
            self._secret,
            self._salt,
        )
        return {}, {"count": np.array([self._own.n_ids])}, (0, 1)

    def _blind(self, message: Message) -> _Done:
        own, start = self._intersection(), _whole(message, "start")
        self._once("blind", start)
        stop = min(start + PART, own.n_ids)
        if start >= stop:
            return {}, {}, (0, 0)
        points = own.blinded(start, stop)
        return {}, {"points": self._sealed(points, self._me, start)}, (0, stop - start)

    def _hand_on(self, message: Message) -> _Done:
        origin, start = message.header["origin"], _whole(message, "start")
        if origin not in self._keys:
            raise Refusal("wrong_roster")
        points = self._unsealed(message, origin, start)
        done = self._intersection().passed_on(points)
        n = len(points) // 32
        return {}, {"points": self._sealed(done, origin, start)}, (n, n)

    def _take(self, message: Message) -> _Done:
        points = self._unsealed(message, self._me, _whole(message, "start"))
        self._intersection().take_back(points)
        return {}, {}, (len(points) // 32, 0)

    def _table(self, message: Message) -> _Done:
        own, places = self._intersection(), _whole(message, "places")
        self._once("table", _whole(message, "attempt"))
        if not places_for(own.n_ids) <= places <= _MOST_PLACES or places % 3:
            raise Refusal("arguments")
        context = self._context(message)
        words = own.table(places, context)
        if words is None:
            return {"unlucky": True}, {}, (0, 0)
        MaskedSum(self._me, self._keys).cover(words, self._code, context)
        if self._me == self._parties[0]:
            veil(words, self._code, self._group_key, context)
        return {}, {"table": words}, (0, places)

    def _common(self, message: Message) -> _Done:
        total = message.arrays["total"]
        self._once("common")
        if total.dtype != "uint64" or total.ndim != 1 or len(total) % 3:
            raise Refusal("arguments")
        context = self._context(message)
        words = unveiled(total, self._code, self._group_key, context)
        rows, tokens = self._intersection().common(words, context)
        if not len(rows):
            raise DataError("No id is common to all silos.", rule="no_common_rows")
        # Before the number is sent, which would be about fewer people than allowed.
        self._policy.check_rows(len(rows))
        self.rows = rows
        return self._count_and_digest(len(rows), tokens, len(total), len(rows))

    def _check(self, message: Message) -> _Done:
        self._once("check")
        ids = read_ids(self.source)
        return self._count_and_digest(len(ids), ids, 0, 1)

    def _count_and_digest(
        self, n: int, items: list[bytes], received: int, sent: int
    ) -> _Done:
        """Return a number of rows, and a digest that is equal where the rows are."""
        key = self._group_key + canonical(self._session)
        digest = keyed_digest(key, items).hex()
        return {"digest": digest}, {"count": np.array([n])}, (received, sent)

    def _intersection(self) -> Intersection:
        if self._own is None:
            raise Refusal("out_of_order")
        return self._own

    def _once(self, *stage: Any) -> None:
        if stage in self._begun:
            raise Refusal("replayed")
        self._begun.add(stage)

    def _neighbour(self, step: int) -> str:
        place = self._parties.index(self._me) + step
        return self._parties[place % len(self._parties)]

    def _sealed(self, points: bytes, origin: str, start: int) -> Array:
        peer = self._neighbour(1)
        about = canonical([*self._session, "points", origin, start, self._me, peer])
        return np.frombuffer(seal_for(self._keys[peer], points, about), np.uint8)

    def _unsealed(self, message: Message, origin: str, start: int) -> bytes:
        # Points in a second message would be multiplied by the same scalars.
        self._once("points", origin, start)
        peer = self._neighbour(-1)
        about = canonical([*self._session, "points", origin, start, peer, self._me])
        points = open_sealed(
            self._keys[peer], message.arrays["received"].tobytes(), about
        )
        if len(points) % 32 or not 0 < len(points) <= 32 * PART:
            raise Refusal("malformed_message")
        return points

    def _context(self, message: Message) -> bytes:
        return canonical([*self._session, "table", _whole(message, "attempt")])


def _whole(message: Message, name: str) -> int:
    value = message.header[name]
    if type(value) is not int or not 0 <= value < 2**32:
        raise Refusal("malformed_message")
    return value
