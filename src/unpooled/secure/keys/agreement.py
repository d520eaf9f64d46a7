"""Fresh keys for every pair of parties, agreed through an untrusted relay.

    party i ── offer: X25519 public key and head of i's audit log, signed by i's
               identity; the head of j's that i saw last ──> relay ──> party j
    both:      k_ij = HKDF(X25519(own private, other's public),
                           study ‖ session ‖ roster ‖ heads that i and j saw last)

The signature covers study, session and roster, so that a relay cannot use an offer of
another fit, of another roster, or of another party. Private keys live until the keys
are agreed. A relay that hides from j which head i saw last gives the two different
keys, so that nothing of theirs is opened.
"""

import functools
import hashlib
import secrets
from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import (
    X25519PrivateKey,
    X25519PublicKey,
)
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF, HKDFExpand

from unpooled.errors import AggregationError
from unpooled.ledger import canonical
from unpooled.secure.keys.roster import Identity, Roster

KEY_BYTES = 32
_NONCE = 12
# Bytes that encryption adds to a secret: the nonce and the tag.
SEAL_BYTES = _NONCE + 16


class Offer(NamedTuple):
    """A party's offer for a session.

    Attributes
    ----------
    public : bytes
        Ephemeral X25519 public key, 32 bytes.
    signature : bytes
        Signature of the party's identity, 64 bytes.
    head : str
        Hash of the party's audit log up to the session.
    """

    public: bytes
    signature: bytes
    head: str = ""

    def as_header(self) -> dict[str, str]:
        """Return it as a reply has it."""
        key, signature = self.public.hex(), self.signature.hex()
        return {"key": key, "signature": signature, "head": self.head}


def offer_in(header: Mapping[str, Any]) -> list[Any]:
    """Return an offer as `offers_of` takes it, from the reply that has it."""
    return [header.get(part) for part in ("key", "signature", "head")]


def offers_of(signed: Mapping[str, Sequence[Any]]) -> dict[str, Offer]:
    """Return offers by party as messages have them: key, signature and head."""
    return {
        party: Offer(bytes.fromhex(key), bytes.fromhex(signature), str(head))
        for party, (key, signature, head) in signed.items()
    }


@final
class Agreement:
    """One party's part in the key agreement of one session.

    Parameters
    ----------
    party : str
        This party's name.
    identity : Identity
        The party's identity, which signs the offer.
    roster : Roster
        The parties of the session and their pinned public keys.
    session : bytes
        Names study and attempt. Offers of other sessions are refused.
    pinned : mapping of str to str, optional
        The head of each other party's audit log that this party saw last.

    Attributes
    ----------
    pinned : dict of str to str
        As given.
    """

    def __init__(
        self,
        party: str,
        identity: Identity,
        roster: Roster,
        session: bytes,
        pinned: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.party, self._identity, self._roster = party, identity, roster
        self.pinned = dict(pinned)
        self._context = hashlib.sha256(session + roster.digest().encode()).digest()
        # Dropped once the keys are agreed.
        self._private: X25519PrivateKey | None = X25519PrivateKey.generate()
        self._public = self._private.public_key().public_bytes_raw()

    def offer(self, head: str = "") -> Offer:
        """Return a signed ephemeral public key, with the head of the audit log."""
        statement = self._statement(self.party, self._public, head)
        return Offer(self._public, self._identity.sign(statement), head)

    def agree(
        self,
        offers: Mapping[str, Offer],
        seen: Mapping[str, str] = MappingProxyType({}),
        partners: Collection[str] | None = None,
    ) -> dict[str, bytes]:
        """Return the key shared with each other party of the roster, once.

        Parameters
        ----------
        offers : mapping of str to Offer
            Offers of all parties, this one included.
        seen : mapping of str to str, optional
            The head of this party's audit log that each other party saw last.
        partners : collection of str, optional
            The other parties with whom a key is needed; by default all. The offers of
            all are checked in any case.

        Raises
        ------
        AggregationError
            When an offer is missing, unknown, or not signed by the pinned identity, or
            when the keys were agreed before.
        """
        private = self._private
        if private is None:
            # Counters of messages under these keys would begin at 0 again.
            raise AggregationError(
                "The keys of this session are agreed already.", rule="replayed"
            )
        if set(offers) != set(self._roster):
            raise AggregationError(
                "The offers are not from the parties of the roster.",
                rule="wrong_roster",
            )
        self._check(offers)
        keys = {}
        for peer in offers if partners is None else sorted(partners):
            if peer == self.party:
                continue
            heads = {self.party: seen.get(peer, ""), peer: self.pinned.get(peer, "")}
            keys[peer] = self._derive(private, peer, offers[peer].public, heads)
        # Anyone who takes the process over later cannot compute its sessions' keys
        # anew.
        self._private = None
        return keys

    def about(self, what: str, sender: str, receiver: str) -> bytes:
        """Return the associated data of what a party seals for another: see `seal_for`.

        It differs between any two sessions, and between the two ways.
        """
        return canonical([what, sender, receiver, self._context.hex()])

    def _check(self, offers: Mapping[str, Offer]) -> None:
        """Raise `AggregationError` unless each party signed its offer."""
        parts = [self._context]
        for peer, (public, signature, head) in offers.items():
            parts += [peer.encode(), public, signature, head.encode()]
        content = digest_of(parts)
        if content in _checked:
            return
        for peer, (public, signature, head) in offers.items():
            self._roster.check(peer, self._statement(peer, public, head), signature)
        _checked[content] = None
        if len(_checked) > _MOST_CHECKED:
            _checked.popitem(last=False)

    def _derive(
        self,
        private: X25519PrivateKey,
        peer: str,
        public: bytes,
        heads: Mapping[str, str],
    ) -> bytes:
        try:
            shared = private.exchange(X25519PublicKey.from_public_bytes(public))
        except ValueError as wrong:
            raise AggregationError(
                f"The public key of {peer} is not a point of the curve's group.",
                rule="wrong_signature",
            ) from wrong
        # Names in their order, each with its head: the same at both ends.
        pair = canonical(sorted(heads.items()))
        return HKDF(SHA256(), KEY_BYTES, self._context, b"mask\0" + pair).derive(shared)

    def _statement(self, party: str, public: bytes, head: str) -> bytes:
        about = canonical([self._context.hex(), party, public.hex(), head])
        return b"unpooled ephemeral key\0" + about


def session_seed(study: str, session: str, offers: Mapping[str, Offer]) -> int:
    """Return a public seed that depends on every party's fresh key, below 2^31.

    Parameters
    ----------
    study, session : str
        Names of the study and the session.
    offers : mapping of str to Offer
        As of `Agreement.agree`.

    Notes
    -----
    No party, and not the coordinator, chooses the seed of a session: each party draws
    its key before it sees the others'. Whoever relays the offers can begin another
    session, and so draw again.
    """
    parts = [study.encode(), session.encode()]
    for party in sorted(offers):
        parts += [party.encode(), offers[party].public]
    return int.from_bytes(digest_of(parts, b"unpooled seed")[:4], "big") >> 1


def digest_of(parts: Iterable[bytes], purpose: bytes = b"") -> bytes:
    """Return the SHA-256 of a purpose and of parts, each behind its length."""
    framed = [piece for part in parts for piece in (_length(len(part)), part)]
    return hashlib.sha256(purpose + b"".join(framed)).digest()


# Thousands of parts have few different lengths.
@functools.lru_cache(maxsize=2**10)
def _length(n: int) -> bytes:
    return n.to_bytes(8, "big")


# Sessions and rosters whose offers were found to be signed, by the digest of all of
# them: in a simulation every silo checks the same ones.
_checked: OrderedDict[bytes, None] = OrderedDict()
_MOST_CHECKED = 16


def new_group_key() -> bytes:
    """Return a random key for totals that only the parties may open."""
    return secrets.token_bytes(KEY_BYTES)


def seal_for(pair_key: bytes, secret: bytes, about: bytes) -> bytes:
    """Encrypt a secret for one peer, so that the relay can neither read nor alter it.

    Parameters
    ----------
    pair_key : bytes
        The key shared with the peer.
    secret : bytes
        The bytes to encrypt, for instance a group key.
    about : bytes
        Associated data: content, sender and receiver. Decryption needs the same.
    """
    nonce = secrets.token_bytes(_NONCE)
    return nonce + _sealing(pair_key).encrypt(nonce, secret, about)


def open_sealed(
    pair_key: bytes,
    sealed: bytes,
    about: bytes,
    *,
    rule: str = "wrong_signature",
) -> bytes:
    """Decrypt a result of `seal_for`, or raise `AggregationError` with the rule."""
    try:
        return _sealing(pair_key).decrypt(sealed[:_NONCE], sealed[_NONCE:], about)
    except (InvalidTag, ValueError) as wrong:
        raise AggregationError(
            "An encrypted message of a peer was altered, or is for another purpose.",
            rule=rule,
        ) from wrong


def _sealing(pair_key: bytes) -> ChaCha20Poly1305:
    # A separate key, because the pair's key itself expands to masks.
    key = HKDFExpand(SHA256(), KEY_BYTES, b"seal").derive(pair_key)
    return ChaCha20Poly1305(key)
