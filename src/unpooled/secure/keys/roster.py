"""Identities and the roster that pins them.

Each silo makes one Ed25519 key pair for itself. The public halves are exchanged once,
by people, and every silo pins them in its own roster file; from then on a relay that
swaps a key, or a party that is not on the roster, is noticed before anything is sent.
"""

import hashlib
import json
import tomllib
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

from unpooled.errors import AggregationError, StudyError
from unpooled.ledger import canonical

# Of two parties each would see all; more than five only cost time.
FEWEST_COMPUTING, MOST_COMPUTING = 3, 5


@final
class Identity:
    """A silo's own signing key; it never leaves the silo.

    Parameters
    ----------
    private : bytes, optional
        32 bytes of an Ed25519 private key; a new key when omitted.
    """

    def __init__(self, private: bytes | None = None) -> None:
        if private is None:
            self._key = Ed25519PrivateKey.generate()
        else:
            self._key = Ed25519PrivateKey.from_private_bytes(private)
        self.public = self._key.public_key().public_bytes_raw()

    def sign(self, statement: bytes) -> bytes:
        """Return the 64-byte signature under a statement."""
        return self._key.sign(statement)

    def derived(self, use: bytes) -> bytes:
        """Return 32 secret bytes for a use: the same again for the same use only."""
        return HKDF(SHA256(), 32, None, b"unpooled " + use).derive(self.private_bytes())

    def private_bytes(self) -> bytes:
        """Return the private key, to be written to a file that only the silo reads."""
        return self._key.private_bytes_raw()


@final
class Roster(Mapping[str, bytes]):
    """The parties of a study and their public keys, as one silo pins them.

    Parameters
    ----------
    keys : mapping of str to bytes
        32 bytes of an Ed25519 public key by party.
    committee : sequence of str, optional
        Who computes secure comparisons for all; by default everybody, up to five.
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
        """Who computes; nobody where there are many parties and none was pinned."""
        everybody = tuple(self) if len(self) <= MOST_COMPUTING else ()
        return self.pinned_committee or everybody

    def part(self, parties: Iterable[str]) -> "Roster":
        """Return the roster of some of the parties, with its committee if all are in.

        Raises
        ------
        KeyError
            When one is not on this roster.
        """
        keys = {name: self._keys[name] for name in parties}
        whole = set(self.pinned_committee) <= set(keys)
        return Roster(keys, self.pinned_committee if whole else ())

    def digest(self) -> str:
        """Return the SHA-256 of names, keys and committee: equal where rosters are."""
        content: dict[str, object] = {n: key.hex() for n, key in self._keys.items()}
        if self.pinned_committee:
            # No party has this name.
            content[""] = self.pinned_committee
        return hashlib.sha256(canonical(content)).hexdigest()

    def check(self, party: str, statement: bytes, signature: bytes) -> None:
        """Raise `AggregationError` unless `party` signed `statement`."""
        try:
            pinned = self._keys[party]
            if _is_weak(pinned):
                raise ValueError("anybody can sign under this key")
            Ed25519PublicKey.from_public_bytes(pinned).verify(signature, statement)
        except (KeyError, ValueError, InvalidSignature) as wrong:
            raise AggregationError(
                f"A message in the name of {party} is not signed by the identity that "
                f"the roster pins. Nothing was opened.",
                rule="wrong_signature",
            ) from wrong

    def to_toml(self) -> str:
        """Return the roster as the text of a file (UTF-8) that `from_file` reads."""
        lines = [f'{_quoted(name)} = "{key.hex()}"' for name, key in self.items()]
        head = []
        if self.pinned_committee:
            head = [f"committee = [{', '.join(map(_quoted, self.pinned_committee))}]"]
        return "\n".join([*head, "[roster]", *lines, ""])

    @classmethod
    def from_file(cls, path: str | Path) -> "Roster":
        """Read a roster: a TOML table of hexadecimal public keys by party.

        Above it may stand a committee: ``committee = ["a", "b", "c"]``.
        """
        try:
            content = tomllib.loads(Path(path).read_text("utf-8"))
            table, committee = content["roster"], content.get("committee", [])
            keys = {str(name): bytes.fromhex(key) for name, key in table.items()}
            if any(len(key) != 32 for key in keys.values()):
                raise ValueError("a key has not 32 bytes")
            # One silo under two names would count twice where parties are counted.
            if len(set(keys.values())) != len(keys):
                raise ValueError("two parties have the same key")
            _check_committee(committee, keys)
        except (OSError, KeyError, TypeError, ValueError, AttributeError) as wrong:
            raise StudyError(
                f"{path} is not a roster ({wrong}). It needs a table [roster] with one "
                f'line per party: name = "64 hexadecimal digits".'
            ) from wrong
        return cls(keys, committee)


def _quoted(name: str) -> str:
    # JSON's escapes are TOML's but for pairs of surrogates and an unescaped DEL.
    return json.dumps(name, ensure_ascii=False).replace("\x7f", "\\u007f")


def _check_committee(committee: object, keys: Mapping[str, bytes]) -> None:
    if not isinstance(committee, list) or not all(name in keys for name in committee):
        raise ValueError("its committee is not a list of parties on it")
    if committee and not FEWEST_COMPUTING <= len(set(committee)) == len(committee) <= (
        MOST_COMPUTING
    ):
        raise ValueError("a committee has three to five parties")


# The field of Curve25519, and the y of a point of order 8; 0, 1 and -1 are the y of
# the points of order 4, 1 and 2.
_P = 2**255 - 19
_Y = int("7a03ac9277fdc74ec6cc392cfa53202a0f67100d760b3cba4fd84d3d706a17c7", 16)


def _is_weak(key: bytes) -> bool:
    """Whether a key is a point of small order, such as a placeholder of zeros.

    A signature of zeros is good under such a key for every fourth message or more.
    """
    y = int.from_bytes(key, "little") % 2**255 % _P
    return y in (0, 1, _P - 1, _Y, _P - _Y)
