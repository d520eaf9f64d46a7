"""Which parties share masks: every pair; among many parties, pairs near on a circle.

With m parties every pair would need m (m - 1) / 2 masks for each array: 500,000 for
1,000 parties, of which each one computes 999. So more than 97 parties are placed on a
circle in a random order, and each shares masks with the 48 before it and the 48 after
it. Up to 97 parties every pair does.

**What collusion then gives.** The coordinator and c colluding parties can compute the
sum over each connected part of what is left of the circle without the c. It is in one
part, so that they learn the sum over the other m - c and nothing finer, unless 48
colluding neighbours stand in each of two gaps. Where the places are random, 96 given
ones are all of colluding parties with a probability of at most (c/m)^96, and there are
fewer than m²/2 pairs of gaps:

    P(anything finer)  <  m²/2 (c/m)^96

Of 1,000 parties, half may collude: 7e-24. Parties that draw their fresh keys last can
try 2^40 of them, or the coordinator begin so many sessions: 7e-12. Parties that begin
to collude once the circle is known are another matter: then 96 of them suffice against
one, where every pair shares masks all m - 1 would have to.

Parties with different people agree on keys with these 96, and with the few that every
party sends something sealed to. A key takes one multiplication on Curve25519 at each of
two ends, which for a thousand parties was most of the time of a fit.

References
----------
Bell, Bonawitz, Gascón, Lepoint and Raykova, Secure Single-Server Aggregation with
(Poly)Logarithmic Overhead, CCS 2020, section 3: Harary graphs on a random order.
"""

import functools
import hashlib
from collections.abc import Mapping

from unpooled.secure.keys.agreement import digest_of

# Peers with whom a party shares masks, half of them on each side; an even number.
PEERS = 96


def every_pair(m: int) -> bool:
    """Whether every pair of m parties shares masks."""
    return m <= PEERS + 1


def mask_peers(party: str, offers: Mapping[str, bytes]) -> frozenset[str]:
    """Return the parties with which a party shares masks in a session.

    Parameters
    ----------
    party : str
        One of the names in `offers`.
    offers : mapping of str to bytes
        The fresh public key of every party, from which the order on the circle
        follows: nobody chooses it, and all find the same.
    """
    others = frozenset(offers) - {party}
    if every_pair(len(offers)):
        return others
    names = tuple(sorted(offers))
    parts = [part for name in names for part in (name.encode(), offers[name])]
    circle, places = _circle(digest_of(parts, b"unpooled masks"), names)
    place, half = places[party], PEERS // 2
    near = (d for d in range(-half, half + 1) if d)
    return frozenset(circle[(place + d) % len(circle)] for d in near)


# In a simulation every party asks for the same circle.
@functools.lru_cache(maxsize=4)
def _circle(seed: bytes, names: tuple[str, ...]) -> tuple[list[str], Mapping[str, int]]:
    """Return the names in their order on the circle, and the place of each."""
    circle = sorted(
        names, key=lambda name: hashlib.sha256(seed + name.encode()).digest()
    )
    return circle, {name: place for place, name in enumerate(circle)}
