"""The lines of a ledger or plan, one per array, and the seals of the parties."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, final

from unpooled.errors import StudyError

Bytes = bytes  # a line has a field of that name
VISIBILITIES = (
    "summed opened veiled disclosed kept exchanged compared computed public".split()
)
_TEXTS = ("study", "step", "name", "dtype", "visibility", "direction", "time", "hash")
_OF_SEAL = ("key", "sequence", "digest", "signature")
# Parties do not sign `parties`, `time` and `hash`, which the coordinator adds.
_SEALED = "study round step name shape dtype bytes visibility direction".split()


_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)


def canonical(value: object) -> bytes:
    """Return the canonical JSON text of a value, for hashing and signing."""
    return _CANONICAL.encode(value).encode()


@final
@dataclass(frozen=True)
class Seal:
    """One party's signature of one line.

    Attributes
    ----------
    key : str
        The party's Ed25519 public key, hexadecimal.
    sequence : int
        The party's number of earlier lines under this key. A gap shows that the ledger
        lacks a line that the party signed.
    digest : str
        SHA-256 of the array's bytes on the wire (of no bytes for a kept array).
    signature : str
        Signature of the line's statement, sequence, digest and library, hexadecimal.
    library : str
        The build of the library that the party runs, "version+digest"; empty in a
        ledger of version 0.1.
    """

    key: str
    sequence: int
    digest: str
    signature: str
    library: str = ""

    def as_record(self) -> dict[str, Any]:
        """Return the seal as JSON values."""
        record: dict[str, Any] = dict(vars(self))
        # As a ledger of version 0.1 has it, so that such ledgers keep their hashes.
        if not self.library:
            del record["library"]
        return record


@final
@dataclass(frozen=True)
class Release:
    """One array that left or entered a silo: a line of a ledger or plan.

    Attributes
    ----------
    study, step, name : str
        Name of the study, of the step, and of the array in the step's declaration.
    round : int
        Number of the synchronous exchange, from 1 over the study.
    shape : tuple of int
        Shape of the array as declared. Of a symmetric one the upper triangle is sent.
    dtype : str
        Type of the numbers on the wire.
    bytes : int
        Bytes on the wire per party; 0 for arrays that stay in the silo.
    visibility : str
        "summed", "veiled" (the parties alone open the total), "disclosed", "kept",
        "exchanged", "compared", "computed" (a result of totals that stayed in secret
        sharing) or "public".
    direction : str
        "out" of the silo, or "in" to it (arguments, and arrays that are kept there).
    parties : tuple of str
        The parties that sent or received it.
    peers : tuple of str
        For exchanged arrays, the neighbours to which or from which they were sent.
    rho, delta : float
        What a total with noise for differential privacy costs each silo, and the δ of
        its request; 0 for all others.
    time : str
        Time at which the coordinator wrote the line, ISO 8601, UTC; empty in a plan.
    hash : str
        Hash of the chain up to this line, included; empty in a plan.
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
    rho: float = 0.0
    delta: float = 0.0

    @property
    def leaves(self) -> bool:
        """Whether the array left the silos, which kept arrays do not."""
        return self.direction == "out" and self.visibility != "kept"

    def statement(
        self, party: str, sequence: int, digest: str, library: str = ""
    ) -> "Bytes":
        """Return the statement that a party signs to seal this line."""
        body = {name: getattr(self, name) for name in _SEALED}
        body |= {"peers": list(self.peers)} if self.peers else {}
        body |= {"library": library} if library else {}
        body |= self._cost
        body |= {"party": party, "sequence": sequence, "digest": digest}
        return canonical(body)

    def as_record(self) -> dict[str, Any]:
        """Return the line as JSON values."""
        seals = {party: seal.as_record() for party, seal in self.seals.items()}
        record = {**vars(self), "shape": list(self.shape), "seals": seals}
        # Only for exchanged arrays and for totals with noise, so that older ledgers
        # keep their hashes.
        for name in ("peers", "rho", "delta"):
            del record[name]
        record |= {"peers": list(self.peers)} if self.peers else {}
        return record | self._cost | {"parties": list(self.parties)}

    @property
    def _cost(self) -> dict[str, float]:
        return {"rho": self.rho, "delta": self.delta} if self.rho > 0.0 else {}

    @classmethod
    def from_record(cls, record: Any) -> "Release":
        """Return the line of JSON values, or raise a `StudyError`."""
        try:
            values: dict[str, Any] = {name: str(record[name]) for name in _TEXTS}
            values |= {name: int(record[name]) for name in ("round", "bytes")}
            values["shape"] = tuple(map(int, record["shape"]))
            values["parties"] = tuple(map(str, record["parties"]))
            values["peers"] = tuple(map(str, record.get("peers", ())))
            values |= {name: float(record.get(name, 0.0)) for name in ("rho", "delta")}
            values["seals"] = {
                party: Seal(str(key), int(sequence), str(digest), str(signature), build)
                for party, seal in record["seals"].items()
                for key, sequence, digest, signature in [[seal[n] for n in _OF_SEAL]]
                for build in [str(seal.get("library", ""))]
            }
            line = cls(**values)
            # No value may have been converted: 5, 5.0, true and "5" differ in JSON.
            if canonical(line.as_record()) != canonical(record):
                raise ValueError("a field is absent, unknown or of another type")
        except Exception as wrong:
            raise StudyError(f"This is not a line of a ledger: {wrong}.") from wrong
        return line


def changed(line: Release, **values: Any) -> Release:
    """Return a line with other values of some attributes."""
    # `dataclasses.replace` sets all sixteen anew, for each of thousands of lines.
    other = object.__new__(Release)
    vars(other).update(vars(line), **values)
    return other
