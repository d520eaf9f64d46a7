"""A line of a ledger or a plan: one array that crossed a silo's door, and its seals."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, final

from unpooled.errors import StudyError

Bytes = bytes  # a line has a field of that name
VISIBILITIES = "summed veiled disclosed kept exchanged compared public".split()
_TEXTS = ("study", "step", "name", "dtype", "visibility", "direction", "time", "hash")
_OF_SEAL = ("key", "sequence", "digest", "signature")
# Not `parties`, `time` and `hash`: those are the coordinator's own.
_SEALED = "study round step name shape dtype bytes visibility direction".split()


def canonical(value: object) -> bytes:
    """Return the one JSON text of a value that is hashed and signed."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return text.encode()


@final
@dataclass(frozen=True)
class Seal:
    """One party's signature under one line.

    Attributes
    ----------
    key : str
        The party's Ed25519 public key, hexadecimal.
    sequence : int
        The party's own count of lines under this key, from 0: a gap shows a line that
        the party wrote and the ledger lacks.
    digest : str
        SHA-256 of the bytes of the array on the wire (of nothing for a kept array).
    signature : str
        Over the line's statement, the sequence and the digest, hexadecimal.
    """

    key: str
    sequence: int
    digest: str
    signature: str


@final
@dataclass(frozen=True)
class Release:
    """One array that crossed a silo's door: a line of the ledger, or of a plan.

    Attributes
    ----------
    study, step, name : str
        What was asked, the declared step, and the array's name in its declaration.
    round : int
        The synchronous exchange it belonged to, counted from 1 over the study.
    shape : tuple of int
        Shape of the array as declared; a symmetric one travels as its upper triangle.
    dtype : str
        The type of the numbers on the wire.
    bytes : int
        Bytes of the array on the wire, of one party; 0 for what stays in the silo.
    visibility : str
        "summed", "veiled" (the parties alone open the total), "disclosed", "kept",
        "exchanged", "compared" or "public".
    direction : str
        "out" of the silo or "in"to it (arguments, and what is kept there).
    parties : tuple of str
        Whose doors it crossed.
    peers : tuple of str
        Of what neighbours exchanged: whom the party told, or who told it.
    time : str
        When the coordinator wrote the line, ISO 8601 in UTC; empty in a plan.
    hash : str
        The chain up to and with this line; empty in a plan.
    seals : mapping of str to Seal
        Signatures by party.
    """

    study: str
    round: int
    step: str
    name: str
    shape: tuple[int, ...]
    dtype: str
    bytes: int
    visibility: str
    direction: str
    parties: tuple[str, ...]
    time: str = ""
    hash: str = ""
    seals: Mapping[str, Seal] = field(default_factory=dict)
    peers: tuple[str, ...] = ()

    def statement(self, party: str, sequence: int, digest: str) -> "Bytes":
        """Return the bytes that a party signs to seal this line."""
        body = {name: getattr(self, name) for name in _SEALED}
        body |= {"peers": list(self.peers)} if self.peers else {}
        body |= {"party": party, "sequence": sequence, "digest": digest}
        return canonical(body)

    def as_record(self) -> dict[str, Any]:
        """Return the line as plain JSON values."""
        seals = {party: dict(vars(seal)) for party, seal in self.seals.items()}
        record = {**vars(self), "shape": list(self.shape), "seals": seals}
        # Only where there are any, so that older ledgers keep their hashes.
        del record["peers"]
        record |= {"peers": list(self.peers)} if self.peers else {}
        return record | {"parties": list(self.parties)}

    @classmethod
    def from_record(cls, record: Any) -> "Release":
        """Read a line from plain JSON values; anything else is a `StudyError`."""
        try:
            values: dict[str, Any] = {name: str(record[name]) for name in _TEXTS}
            values |= {name: int(record[name]) for name in ("round", "bytes")}
            values["shape"] = tuple(map(int, record["shape"]))
            values["parties"] = tuple(map(str, record["parties"]))
            values["peers"] = tuple(map(str, record.get("peers", ())))
            values["seals"] = {
                party: Seal(str(key), int(sequence), str(digest), str(signature))
                for party, seal in record["seals"].items()
                for key, sequence, digest, signature in [[seal[n] for n in _OF_SEAL]]
            }
            line = cls(**values)
            # Nothing may have been coerced: 5, 5.0, true and "5" are different texts.
            if canonical(line.as_record()) != canonical(record):
                raise ValueError("a field is absent, unknown or of another type")
        except Exception as wrong:
            raise StudyError(f"This is not a line of a ledger: {wrong}.") from wrong
        return line
