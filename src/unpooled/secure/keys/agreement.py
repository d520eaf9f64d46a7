"""Fresh keys for every pair of parties, agreed through an untrusted relay.

    party i ── offer: X25519 public key, signed by i's identity ──> relay ──> party j
    both:      k_ij = HKDF(X25519(own private, other's public),
                           study ‖ session ‖ roster)

The signature covers study, session and roster, so that a relay cannot use an offer of
another fit, of another roster, or of another party. Private keys live for one session.
"""

import hashlib
import secrets
from collections.abc import Mapping
from typing import final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import (
    X25519PrivateKey,
    X25519PublicKey,
)
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF, HKDFExpand

from unpooled.errors import AggregationError
from unpooled.secure.keys.roster import Identity, Roster

KEY_BYTES = 32
_NONCE = 12
# Bytes that encryption adds to a secret: the nonce and the tag.
SEAL_BYTES = _NONCE + 16


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
    """

    def __init__(
        self, party: str, identity: Identity, roster: Roster, session: bytes
    ) -> None:
        self.party, self._identity, self._roster = party, identity, roster
        self._context = hashlib.sha256(session + roster.digest().encode()).digest()
        self._private = X25519PrivateKey.generate()

    def offer(self) -> tuple[bytes, bytes]:
        """Return the ephemeral public key (32 bytes) and its signature (64 bytes)."""
        public = self._private.public_key().public_bytes_raw()
        return public, self._identity.sign(self._statement(self.party, public))

    def agree(self, offers: Mapping[str, tuple[bytes, bytes]]) -> dict[str, bytes]:
        """Return the key shared with each other party of the roster.

        Raises
        ------
        AggregationError
            When an offer is missing, unknown, or not signed by the pinned identity.
        """
        if set(offers) != set(self._roster):
            raise AggregationError(
                "The offers are not from the parties of the roster.",
                rule="wrong_roster",
            )
        keys = {}
        for peer, (public, signature) in offers.items():
            self._roster.check(peer, self._statement(peer, public), signature)
            if peer == self.party:
                continue
            keys[peer] = self._derive(peer, public)
        return keys

    def _derive(self, peer: str, public: bytes) -> bytes:
        try:
            shared = self._private.exchange(X25519PublicKey.from_public_bytes(public))
        except ValueError as wrong:
            raise AggregationError(
                f"The public key of {peer} is not a point of the curve's group.",
                rule="wrong_signature",
            ) from wrong
        pair = "\0".join(sorted((self.party, peer))).encode()
        return HKDF(SHA256(), KEY_BYTES, self._context, b"mask\0" + pair).derive(shared)

    def _statement(self, party: str, public: bytes) -> bytes:
        return b"unpooled ephemeral key\0" + self._context + party.encode() + public


def session_seed(
    study: str, session: str, offers: Mapping[str, tuple[bytes, bytes]]
) -> int:
    """Return a public seed that depends on every party's fresh key, below 2^31.

    Parameters
    ----------
    study, session : str
        Names of the study and the session.
    offers : mapping of str to (bytes, bytes)
        Each party's ephemeral public key, and its signature, as in `Agreement.agree`.

    Notes
    -----
    No party, and not the coordinator, chooses the seed of a session: each party draws
    its key before it sees the others'. Whoever relays the offers can begin another
    session, and so draw again.
    """
    digest = hashlib.sha256(b"unpooled seed")
    parts = [study.encode(), session.encode()]
    for party in sorted(offers):
        parts += [party.encode(), offers[party][0]]
    for part in parts:
        digest.update(len(part).to_bytes(8, "big") + part)
    return int.from_bytes(digest.digest()[:4], "big") >> 1


def new_group_key() -> bytes:
    """Return a random key for totals that only the parties may open."""
    return secrets.token_bytes(KEY_BYTES)


def seal_for(pair_key: bytes, secret: bytes, about: bytes = b"group key") -> bytes:
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
    about: bytes = b"group key",
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
