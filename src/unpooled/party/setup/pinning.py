"""The keys that a silo pins: its roster's file, bundles of public lines, new keys.

    roster.toml / bundle.toml
    ├── [roster]      name = "public key"             what `Roster` reads
    ├── [former]      name = ["key", ...]             keys before a rotation
    ├── [revoked]     name = ["key", ...]             keys that are never pinned again
    └── [[rotated]]   name, old, new, signature       the old key signed the new one

A bundle is a file of the same form with the public lines of several silos: each adds
its own, and all pin the whole. People compare one fingerprint for all of them by phone.
"""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from unpooled.data.atomic_file import replacing
from unpooled.data.toml import toml_text
from unpooled.errors import StudyError
from unpooled.secure.keys.roster import Identity, Roster

_Keys = dict[str, tuple[bytes, ...]]


@final
@dataclass(frozen=True)
class KeyRotation:
    """A silo's change from one key to the next, signed with the old one."""

    name: str
    old: bytes
    new: bytes
    signature: bytes

    @classmethod
    def of(cls, name: str, old: Identity, new: Identity) -> "KeyRotation":
        """Return the rotation from one identity to another."""
        statement = _statement(name, new.public)
        return cls(name, old.public, new.public, old.sign(statement))

    def is_signed(self) -> bool:
        """Whether the old key signed the new one, for this silo."""
        try:
            public = Ed25519PublicKey.from_public_bytes(self.old)
            public.verify(self.signature, _statement(self.name, self.new))
        except (InvalidSignature, ValueError):
            return False
        return True


@final
@dataclass
class Pinned:
    """The content of a roster's file or of a bundle.

    Attributes
    ----------
    roster : Roster
        The present keys.
    former, revoked : dict of str to tuple of bytes
        Keys before a rotation, and keys that are never pinned again, by name.
    rotated : list of Rotation
        Signed changes of keys.
    """

    roster: Roster
    former: _Keys = field(default_factory=dict)
    revoked: _Keys = field(default_factory=dict)
    rotated: list[KeyRotation] = field(default_factory=list)

    @classmethod
    def from_file(cls, path: Path) -> "Pinned":
        """Read a file; one without the other tables has a roster only."""
        roster = Roster.from_file(path)
        try:
            content = tomllib.loads(path.read_text("utf-8"))
            return cls(
                roster,
                _keys(content.get("former", {})),
                _keys(content.get("revoked", {})),
                [_rotation(one) for one in content.get("rotated", [])],
            )
        except (AttributeError, KeyError, TypeError, ValueError) as wrong:
            raise StudyError(f"{path} is not a roster or bundle: {wrong}.") from wrong

    def write(self, path: Path) -> Roster:
        """Replace a file, and return its roster as it is read again."""
        lines = [self.roster.to_toml()]
        for title, keys in (("former", self.former), ("revoked", self.revoked)):
            if keys:
                lines.append(f"[{title}]")
                lines += [
                    f"{toml_text(name)} = [{', '.join(map(_quoted, own))}]"
                    for name, own in sorted(keys.items())
                ]
                lines.append("")
        for one in self.rotated:
            lines += ["[[rotated]]", f"name = {toml_text(one.name)}"]
            lines += [f'old = "{one.old.hex()}"', f'new = "{one.new.hex()}"']
            lines += [f'signature = "{one.signature.hex()}"', ""]
        with replacing(path) as stream:
            stream.write("\n".join(lines).encode())
        return Roster.from_file(path)

    def add(self, other: "Pinned", source: Path) -> None:
        """Add the public lines of a bundle or of one silo.

        Raises
        ------
        StudyError
            When a key was revoked, or a silo is pinned under another key that did not
            sign this one: a person must confirm a new identity.
        """
        keys = dict(self.roster)
        for name, key in other.roster.items():
            if key in self.revoked.get(name, ()):
                raise StudyError(
                    f"{source} gives {name} a key that was revoked here. Ask {name} "
                    f"for its new one."
                )
            pinned = keys.setdefault(name, key)
            if pinned == key:
                continue
            passed = _passed(name, pinned, key, other.rotated)
            if not passed or set(passed) & set(self.revoked.get(name, ())):
                raise StudyError(
                    f"{source} gives {name} another key than is pinned, and the pinned "
                    f"one did not sign it. If {name} confirms, by another way than "
                    f"this file's, that it has a new key, run `unpooled silo unpin "
                    f"{name}` first."
                )
            keys[name] = key
            self.former[name] = (*passed, *self.former.get(name, ()))
        # For silos that missed a change: they pin from this file later.
        self.rotated += [
            one
            for one in other.rotated
            if one not in self.rotated and one.name in keys and one.is_signed()
        ]
        # It may be two names for one key.
        if len(set(keys.values())) != len(keys):
            raise StudyError(f"{source} gives two silos the same key.")
        self.roster = Roster(keys, self.roster.pinned_committee)


def pin(roster: Path, lines: Sequence[Path]) -> Roster:
    """Add public lines to a roster's file, or to a bundle.

    Parameters
    ----------
    roster : Path
        The file; made when absent.
    lines : sequence of Path
        Bundles, and files with the public line of one silo.

    Returns
    -------
    Roster
        The new roster.

    Raises
    ------
    StudyError
        As `Pinned.add`; then nothing is written.
    """
    pinned = Pinned.from_file(roster) if roster.exists() else Pinned(Roster({}))
    for path in lines:
        pinned.add(Pinned.from_file(path), path)
    return pinned.write(roster)


def unpin(roster: Path, name: str) -> Roster:
    """Remove a silo's line from a roster's file, and never pin its key again."""
    pinned = Pinned.from_file(roster)
    if name not in pinned.roster:
        raise StudyError(f"{roster} does not have {name}.")
    key = pinned.roster[name]
    pinned.revoked[name] = (key, *pinned.revoked.get(name, ()))
    left = {other: k for other, k in pinned.roster.items() if other != name}
    committee = pinned.roster.pinned_committee
    if name in committee:
        raise StudyError(
            f"{name} is in the committee of {roster}. Agree on another committee with "
            f"the other silos, and write it into the file first."
        )
    pinned.roster = Roster(left, committee)
    return pinned.write(roster)


def trusted_keys(roster: Path) -> dict[str, tuple[bytes, ...]]:
    """Return each silo's keys, the present one and those before a rotation."""
    pinned = Pinned.from_file(roster)
    return {
        name: (key, *pinned.former.get(name, ())) for name, key in pinned.roster.items()
    }


def differences(first: Path, second: Path) -> Iterator[str]:
    """Yield a sentence for each silo of which two rosters or bundles differ."""
    ours, theirs = Roster.from_file(first), Roster.from_file(second)
    for name in sorted({*ours, *theirs}):
        if name not in theirs:
            yield f"{name} is in {first} only."
        elif name not in ours:
            yield f"{name} is in {second} only."
        elif ours[name] != theirs[name]:
            yield f"{name} has another key in {first} than in {second}."
    if ours.pinned_committee != theirs.pinned_committee:
        yield f"{first} and {second} name other committees."


def _passed(
    name: str, pinned: bytes, key: bytes, rotated: Sequence[KeyRotation]
) -> tuple[bytes, ...]:
    """Return the keys from a pinned one to a new one, the latest first, if signed."""
    passed: tuple[bytes, ...] = ()
    while pinned != key:
        found = [
            one
            for one in rotated
            if (one.name, one.old) == (name, pinned) and one.is_signed()
        ]
        if not found or found[0].new in (*passed, pinned):
            return ()
        passed = (pinned, *passed)
        pinned = found[0].new
    return passed


def _quoted(key: bytes) -> str:
    return f'"{key.hex()}"'


def _statement(name: str, new: bytes) -> bytes:
    return b"unpooled new key\0" + name.encode() + b"\0" + new


def _keys(table: Mapping[str, Any]) -> _Keys:
    return {name: tuple(map(_key, own)) for name, own in table.items()}


def _key(text: str) -> bytes:
    key = bytes.fromhex(text)
    if len(key) != 32:
        raise ValueError("a key does not have 32 bytes")
    return key


def _rotation(record: Mapping[str, str]) -> KeyRotation:
    return KeyRotation(
        str(record["name"]),
        _key(record["old"]),
        _key(record["new"]),
        bytes.fromhex(record["signature"]),
    )
