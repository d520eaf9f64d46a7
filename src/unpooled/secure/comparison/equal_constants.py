"""Whether columns that are constant in each silo have the same value in all of them.

    silo i ── signed ephemeral key ──> coordinator ──> all silos
    silo i ── t_i = Σ_{j>i} f(k_ij, value_i) - Σ_{j<i} f(k_ij, value_i) ──> coordinator
    coordinator: the value is the same everywhere if Σ_i t_i = 0 (mod 2^256)

f is a keyed hash (HMAC-SHA-256) of the column's name and its value, k_ij the key that
silos i and j agree on for this comparison. Where all values are equal, each pair's two
terms cancel. Elsewhere the sum is a random number, and so is every sum over fewer
silos: the coordinator learns whether all are equal, and not which ones differ. The
probability that it finds different values equal is 2^-256.

Silos that work together with the coordinator know their own keys. If all other silos
have the same value, they can try values until the sum of the others is explained. So a
silo compares only what such parties would read from a mean of the planned fit.
"""

import hashlib
import hmac
from collections.abc import Iterable, Mapping
from typing import final

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

from unpooled.ledger import canonical
from unpooled.secure.keys.agreement import KEY_BYTES, Agreement, Offer
from unpooled.secure.keys.roster import Identity, Roster

SHARE_BYTES = 32
_MODULUS = 1 << (8 * SHARE_BYTES)
_PURPOSE = b"equal constants"


@final
class ComparedConstants:
    """One silo's part in a comparison, which ends with its shares.

    Parameters
    ----------
    party : str
        The silo's name.
    identity : Identity
        Its identity, which signs the offer.
    roster : Roster
        The silos that compare.
    study, session : str
        Names of the study and of this comparison. Offers of others are refused.
    """

    def __init__(
        self, party: str, identity: Identity, roster: Roster, study: str, session: str
    ) -> None:
        about = canonical([_PURPOSE.decode(), study, session])
        self._party = party
        self._agreement = Agreement(party, identity, roster, about)

    def offer(self) -> Offer:
        """Return this silo's signed ephemeral key."""
        return self._agreement.offer()

    def shares(
        self, offers: Mapping[str, Offer], constants: Mapping[str, float]
    ) -> dict[str, bytes]:
        """Return this silo's share of each column, once.

        Parameters
        ----------
        offers : mapping of str to Offer
            Offers of all silos, this one included.
        constants : mapping of str to float
            By column its value in all rows of this silo.

        Raises
        ------
        AggregationError
            As `Agreement.agree`.
        """
        keys = {
            peer: HKDFExpand(SHA256(), KEY_BYTES, _PURPOSE).derive(key)
            for peer, key in self._agreement.agree(offers).items()
        }
        found = dict[str, bytes]()
        for column, value in constants.items():
            # 0.0 and -0.0 are equal.
            about = canonical([column, (value + 0.0).hex()])
            share = 0
            for peer, key in keys.items():
                term = int.from_bytes(hmac.digest(key, about, hashlib.sha256))
                share += term if self._party < peer else -term
            found[column] = (share % _MODULUS).to_bytes(SHARE_BYTES)
        return found


def all_equal(shares: Iterable[bytes]) -> bool:
    """Return whether the silos with these shares of a column have the same value."""
    return sum(map(int.from_bytes, shares)) % _MODULUS == 0
