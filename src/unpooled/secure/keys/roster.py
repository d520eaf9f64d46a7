"""Identities of the parties, and the roster in which each silo pins them.

Each silo makes one Ed25519 key pair. People exchange the public keys once, and every
silo pins them in its own roster file. From then on a silo detects a relay that swaps a
key, or a party that is not on the roster, before it sends anything.
"""

import functools
import hashlib
import secrets
import tomllib
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import (
    Ed25519PrivateKey,
    Ed25519PublicKey,
)
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from unpooled.data.toml import read_text, toml_text
from unpooled.errors import AggregationError, StudyError
from unpooled.ledger import canonical

# With two computing parties each would see all values; more than five only cost time.
FEWEST_COMPUTING, MOST_COMPUTING = 3, 5
_KEY_BYTES = 32


@final
class Identity:
    """A silo's signing key, and a secret for derivations; neither leaves the silo.

    Parameters
    ----------
    private : bytes, optional
        32 bytes of an Ed25519 private key, then 32 bytes of the secret; both are new
        when omitted. Files of earlier versions have the key alone, and secrets are then
        derived from it, as they were.
    """

    def __init__(self, private: bytes | None = None) -> None:
        if private is None:
            private = secrets.token_bytes(2 * _KEY_BYTES)
        if len(private) not in (_KEY_BYTES, 2 * _KEY_BYTES):
            raise ValueError("an identity has 32 or 64 bytes")
        self._key = Ed25519PrivateKey.from_private_bytes(private[:_KEY_BYTES])
        # A secret of its own, so that signatures reveal nothing about tokens of ids and
        # digests of rows, nor the reverse.
        self._secret = private[_KEY_BYTES:]
        self.public = self._key.public_key().public_bytes_raw()

    def sign(self, statement: bytes) -> bytes:
        """Return the 64-byte signature of a statement."""
        signature = self._key.sign(statement)
        _made_here[self.public, statement, signature] = None
        if len(_made_here) > _MOST_MADE:
            _made_here.popitem(last=False)
        return signature

    def derivation_secret(self, purpose: bytes) -> bytes:
        """Return 32 secret bytes for a purpose, the same at every call."""
        if not self._secret:
            # As earlier versions did: audit logs have digests under such secrets.
            key = self._key.private_bytes_raw()
            return hashlib.sha256(purpose + key).digest()
        return HKDF(SHA256(), 32, None, b"unpooled " + purpose).derive(self._secret)

    def private_bytes(self) -> bytes:
        """Return key and secret, for a file that only the silo can read."""
        return self._key.private_bytes_raw() + self._secret


@final
class Roster(Mapping[str, bytes]):
    """The parties of a study and their public keys, as pinned by one silo.

    Parameters
    ----------
    keys : mapping of str to bytes
        Ed25519 public key, 32 bytes, of each party.
    committee : sequence of str, optional
        Parties that compute secure comparisons; by default all, up to five.
    """

    def __init__(
        self, keys: Mapping[str, bytes], committee: Sequence[str] = ()
    ) -> None:
        self._keys = {name: bytes(keys[name]) for name in sorted(keys)}
        self.pinned_committee = tuple(sorted(committee))

    def __getitem__(self, party: str) -> bytes:
        return self._keys[party]

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)

    @property
    def committee(self) -> tuple[str, ...]:
        """Parties that compute; empty with more than five parties and none pinned."""
        everybody = tuple(self) if len(self) <= MOST_COMPUTING else ()
        return self.pinned_committee or everybody

    @property
    def n_computing(self) -> int:
        """Number of computing parties, the coordinator beside two included."""
        return max(len(self.committee), FEWEST_COMPUTING)

    def part(self, parties: Iterable[str]) -> "Roster":
        """Return the roster of some parties, with the committee if all of it is in.

        Raises
        ------
        KeyError
            When a party is not on this roster.
        """
        keys = {name: self._keys[name] for name in parties}
        whole = set(self.pinned_committee) <= set(keys)
        return Roster(keys, self.pinned_committee if whole else ())

    def digest(self) -> str:
        """Return the SHA-256 digest of names, keys and committee."""
        return self._digest

    @functools.cached_property
    def _digest(self) -> str:
        content: dict[str, object] = {n: key.hex() for n, key in self._keys.items()}
        if self.pinned_committee:
            # The empty string is not a party's name.
            content[""] = self.pinned_committee
        return hashlib.sha256(canonical(content)).hexdigest()

    def check(self, party: str, statement: bytes, signature: bytes) -> None:
        """Raise `AggregationError` unless `party` signed `statement`."""
        try:
            signed = self._keys[party], statement, signature
            if signed not in _made_here:
                _verify(*signed)
        except (KeyError, ValueError, InvalidSignature) as wrong:
            raise AggregationError(
                f"A message in the name of {party} is not signed by the identity that "
                f"the roster pins. Nothing was opened. If it has a new key, pin it: "
                f"`unpooled silo pin` in each silo and at the server.",
                rule="wrong_signature",
            ) from wrong

    def to_toml(self) -> str:
        """Return the roster as text for a file in UTF-8, which `from_file` reads."""
        lines = [f'{toml_text(name)} = "{key.hex()}"' for name, key in self.items()]
        head = []
        if self.pinned_committee:
            head = [f"committee = [{', '.join(map(toml_text, self.pinned_committee))}]"]
        return "\n".join([*head, "[roster]", *lines, ""])

    @classmethod
    def from_file(cls, path: str | Path) -> "Roster":
        """Read a roster, a TOML table [roster] of hexadecimal public keys by party.

        The file may begin with a committee: ``committee = ["a", "b", "c"]``.
        """
        try:
            content = tomllib.loads(read_text(Path(path)))
            table, committee = content["roster"], content.get("committee", [])
            keys = {str(name): bytes.fromhex(key) for name, key in table.items()}
            if any(len(key) != 32 for key in keys.values()):
                raise ValueError("a key does not have 32 bytes")
            # A silo under two names would count as two parties.
            if len(set(keys.values())) != len(keys):
                raise ValueError("two parties have the same key")
            _check_committee(committee, keys)
        except (KeyError, TypeError, ValueError, AttributeError) as wrong:
            raise StudyError(
                f"{path} is not a roster ({wrong}). It needs a table [roster] with one "
                f'line per party: name = "64 hexadecimal digits".'
            ) from wrong
        return cls(keys, committee)


# The last signatures that this process made, with their keys and statements. They are
# valid by their making. A simulation checks no others, which took a sixth of its time.
_made_here: OrderedDict[tuple[bytes, bytes, bytes], None] = OrderedDict()
_MOST_MADE = 2**12


# Cached, since a message from elsewhere is often checked more than once.
@functools.lru_cache(maxsize=2**12)
def _verify(key: bytes, statement: bytes, signature: bytes) -> None:
    """Raise ValueError or InvalidSignature unless the key signed the statement."""
    if _is_weak(key):
        raise ValueError("the key is of small order")
    Ed25519PublicKey.from_public_bytes(key).verify(signature, statement)


def _check_committee(committee: object, keys: Mapping[str, bytes]) -> None:
    if not isinstance(committee, list) or not all(name in keys for name in committee):
        raise ValueError("its committee is not a list of parties on it")
    if committee and not FEWEST_COMPUTING <= len(set(committee)) == len(committee) <= (
        MOST_COMPUTING
    ):
        raise ValueError("a committee has three to five parties")


# The prime of Curve25519, and the y coordinate of a point of order 8; 0, 1 and -1 are
# those of points of order 4, 1 and 2.
_P = 2**255 - 19
_Y = int("7a03ac9277fdc74ec6cc392cfa53202a0f67100d760b3cba4fd84d3d706a17c7", 16)


def _is_weak(key: bytes) -> bool:
    """Whether a key is a point of small order, such as a placeholder of zeros.

    Under a key of zeros, a signature of zeros is valid for every fourth message.
    """
    y = int.from_bytes(key, "little") % 2**255 % _P
    return y in (0, 1, _P - 1, _Y, _P - _Y)
