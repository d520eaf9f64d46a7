"""The ledger: one line per array that crossed a silo's door, in either direction.

Lines form a hash chain, so none can be edited, dropped or reordered afterwards without
`Ledger.verify` noticing; and every party seals each line with its Ed25519 identity, so
the coordinator cannot write a new chain either.

    line t: body_t ── hash_t = SHA-256(hash_{t-1} ‖ body_t) ── seals {party: signature}
"""

import dataclasses
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, final, overload

from unpooled.errors import StudyError

Bytes = bytes  # a line has a field of that name
VISIBILITIES = "summed veiled disclosed kept exchanged compared public".split()
_GENESIS = "0" * 64


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


_TEXTS = ("study", "step", "name", "dtype", "visibility", "direction", "time", "hash")
_OF_SEAL = ("key", "sequence", "digest", "signature")
# Not `parties`, `time` and `hash`: those are the coordinator's own.
_SEALED = "study round step name shape dtype bytes visibility direction".split()


@final
class Ledger(Sequence[Release]):
    """What left every silo and what came in, in order; append-only.

    Parameters
    ----------
    lines : sequence of Release, optional
        Lines written earlier, with their hashes and seals.

    Notes
    -----
    `to_json` gives a JSON array of lines and `to_lines` one JSON object per line of
    text, for files that grow; `from_json` reads both.
    """

    def __init__(self, lines: Sequence[Release] = ()) -> None:
        self._lines = list(lines)

    @overload
    def __getitem__(self, index: int) -> Release: ...
    @overload
    def __getitem__(self, index: slice) -> "Ledger": ...
    def __getitem__(self, index: int | slice) -> "Release | Ledger":
        if isinstance(index, slice):
            return Ledger(self._lines[index])
        return self._lines[index]

    def __len__(self) -> int:
        return len(self._lines)

    def __iter__(self) -> Iterator[Release]:
        return iter(self._lines)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ledger) and self._lines == other._lines

    __hash__ = None  # type: ignore[assignment]  # it grows

    def __repr__(self) -> str:
        rounds, out = len({(x.study, x.round) for x in self}), self.bytes_out()
        return f"<Ledger: {len(self)} lines, {rounds} rounds, {out} bytes out per silo>"

    def __str__(self) -> str:
        rows = [("round", "step", "name", "shape", "bytes", "visibility", "direction")]
        for line in self:
            shape = "×".join(map(str, line.shape)) or "number"
            what = (str(line.round), line.step, line.name, shape, f"{line.bytes:,}")
            rows.append((*what, line.visibility, _whither(line)))
        widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
        return "\n".join(
            "  ".join(
                cell.ljust(width) for cell, width in zip(row, widths, strict=True)
            ).rstrip()
            for row in rows
        )

    def append(self, line: Release, seals: Mapping[str, Seal]) -> Release:
        """Write a line at the end of the chain and return it as written."""
        time = datetime.now(UTC).isoformat(timespec="milliseconds")
        line = dataclasses.replace(line, time=time, seals=dict(seals))
        line = dataclasses.replace(line, hash=_chained(self._head(), line))
        self._lines.append(line)
        return line

    def verify(self, identities: Mapping[str, bytes] | None = None) -> bool:
        """Check the chain and every seal.

        Parameters
        ----------
        identities : mapping of str to bytes, optional
            Public keys by party, from a roster you trust. Without it the keys written
            in the seals are used, which shows edits but not an invented ledger.

        Returns
        -------
        bool
            True. What does not hold is a `StudyError` that names the first bad line.
        """
        from cryptography.exceptions import InvalidSignature

        head, counts = _GENESIS, dict[tuple[str, str], int]()
        for number, line in enumerate(self):
            if line.hash != _chained(head, line):
                raise StudyError(
                    f"Line {number} of the ledger ({line.step}, {line.name}) was "
                    f"altered, or lines before it were removed or reordered."
                )
            head = line.hash
            if not line.parties or set(line.seals) != set(line.parties):
                raise StudyError(
                    f"Line {number} of the ledger ({line.step}, {line.name}) has other "
                    f"seals than those of its parties."
                )
            for party in line.parties:
                try:
                    _check_seal(line, party, counts, identities)
                except (InvalidSignature, ValueError, KeyError) as wrong:
                    raise StudyError(
                        f"Line {number} of the ledger ({line.step}, {line.name}) is "
                        f"not sealed by {party} as written here."
                    ) from wrong
        return True

    def bytes_out(self, party: str | None = None) -> int:
        """Return the bytes of arrays that one party sent; the most that any did."""
        if party is None:
            everybody = {name for line in self for name in line.parties}
            return max(map(self.bytes_out, everybody), default=0)
        left = [line for line in self if line.direction == "out"]
        return sum(line.bytes for line in left if party in line.parties)

    def to_json(self) -> str:
        """Return the ledger as a JSON array, a line of text for each of its lines."""
        return "[" + ",\n ".join(self._records()) + "]\n"

    def to_lines(self) -> str:
        """Return the ledger as JSON lines."""
        return "".join(record + "\n" for record in self._records())

    @classmethod
    def from_json(cls, text: str) -> "Ledger":
        """Read what `to_json` or `to_lines` wrote; `verify` says if it is intact."""
        try:
            if text.lstrip().startswith("["):
                records = json.loads(text)
            else:
                records = [json.loads(row) for row in text.splitlines() if row.strip()]
        except (ValueError, RecursionError) as wrong:
            raise StudyError(f"The ledger is not JSON: {wrong}.") from wrong
        return cls([Release.from_record(record) for record in records])

    def _records(self) -> Iterator[str]:
        return (json.dumps(line.as_record(), allow_nan=False) for line in self)

    def _head(self) -> str:
        return self._lines[-1].hash if self._lines else _GENESIS


def _whither(line: Release) -> str:
    """Return the direction, and between whom what was exchanged went."""
    if not line.peers:
        return line.direction
    way = "to" if line.direction == "out" else "from"
    return f"{line.direction}: {', '.join(line.parties)} {way} {', '.join(line.peers)}"


def _chained(head: str, line: Release) -> str:
    record = line.as_record()
    del record["hash"]
    return hashlib.sha256(head.encode() + canonical(record)).hexdigest()


def _check_seal(
    line: Release,
    party: str,
    counts: dict[tuple[str, str], int],
    identities: Mapping[str, bytes] | None,
) -> None:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    seal = line.seals[party]
    expected = counts.get((party, seal.key), 0)
    if seal.sequence != expected:
        raise ValueError(f"line {expected} of this party is missing")
    counts[party, seal.key] = expected + 1
    key = bytes.fromhex(seal.key)
    if identities is not None and identities[party] != key:
        raise ValueError("another key than the one trusted")
    Ed25519PublicKey.from_public_bytes(key).verify(
        bytes.fromhex(seal.signature),
        line.statement(party, seal.sequence, seal.digest),
    )
