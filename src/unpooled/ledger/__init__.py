"""The ledger: one line per array that left or entered a silo.

Lines form a hash chain, so that `Ledger.verify` detects lines that were edited, removed
or reordered. Every party signs (seals) each line with its Ed25519 identity, so that the
coordinator cannot write a new chain either.

    line t: body_t ── hash_t = SHA-256(hash_{t-1} ‖ body_t) ── seals {party: signature}
"""

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, final, overload

from unpooled.errors import StudyError
from unpooled.ledger.json_text import from_json
from unpooled.ledger.lines import VISIBILITIES, Release, Seal, canonical, changed
from unpooled.ledger.notebook_tables import data_frame, html_table
from unpooled.ledger.rounds import equal_rounds, round_numbers

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["VISIBILITIES", "Ledger", "Release", "Seal", "canonical"]

# The columns of the table that a ledger or plan prints.
HEAD = ("round", "step", "name", "shape", "bytes", "visibility", "direction")
_GENESIS = "0" * 64
# Public keys by party; several for a party that had another key before.
Identities = Mapping[str, bytes] | Mapping[str, tuple[bytes, ...]]


@final
class Ledger(Sequence[Release]):
    """The arrays that left and entered the silos, in order; append-only.

    Parameters
    ----------
    lines : sequence of Release, optional
        Lines of an earlier ledger, with their hashes and seals.

    Notes
    -----
    `to_json` gives a JSON array of lines and `to_lines` one JSON object per line of
    text, for files that grow; `from_json` reads both.
    """

    def __init__(self, lines: Sequence[Release] = ()) -> None:
        self._lines = list(lines)
        # Lines are counted once: a ledger of years has many.
        self._sealed, self._counted = Counter[tuple[str, str, str]](), 0

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
        rows = [HEAD, *((*row[:4], f"{row[4]:,}", *row[5:]) for row in self.rows())]
        widths = [max(len(row[i]) for row in rows) for i in range(len(HEAD))]
        return "\n".join(
            "  ".join(
                cell.ljust(width) for cell, width in zip(row, widths, strict=True)
            ).rstrip()
            for row in rows
        )

    def _repr_html_(self) -> str:
        rounds = len({(line.study, line.round) for line in self})
        caption = f"{rounds} rounds; each silo sent at most {self.bytes_out():,} bytes."
        return html_table(caption, HEAD, self.rows())

    def rows(self) -> list[tuple[Any, ...]]:
        """Return the cells under `HEAD`, once for rounds that exchanged the same.

        Returns
        -------
        list of tuple
            "2 to 41" or "2 to 41, 13 of them" is the first cell of such rounds; the
            bytes are those of one of them.
        """
        return [
            (round_numbers([one[0].round for one in rounds]), line.step, line.name,
             shape_text(line.shape), line.bytes, line.visibility, _direction(line))
            for rounds in equal_rounds(self)
            for line in rounds[0]
        ]  # fmt: skip

    def to_frame(self) -> "pd.DataFrame":
        """Return the lines as a pandas data frame, without hashes and seals.

        Returns
        -------
        DataFrame
            One row a line: "study", "round", "step", "name", "shape" (a tuple),
            "bytes", "visibility", "direction", "parties" and "peers" (tuples), "time".

        Raises
        ------
        DataError
            If pandas is not installed.
        """
        head = (
            "study round step name shape bytes visibility direction parties peers time"
        ).split()
        return data_frame(
            head,
            [tuple(getattr(line, name) for name in head) for line in self],
        )

    def append(self, line: Release, seals: Mapping[str, Seal]) -> Release:
        """Append a line to the chain; return it with time, hash and seals."""
        time = datetime.now(UTC).isoformat(timespec="milliseconds")
        records = {party: seal.as_record() for party, seal in seals.items()}
        record = line.as_record() | {"time": time, "seals": records}
        head = _chained(self._head(), record)
        line = changed(line, time=time, hash=head, seals=dict(seals))
        self._lines.append(line)
        return line

    def n_sealed(self, study: str, party: str, key: str) -> int:
        """Return how many lines of a study a party's key has sealed."""
        for line in self._lines[self._counted :]:
            self._sealed.update((line.study, p, s.key) for p, s in line.seals.items())
        self._counted = len(self._lines)
        return self._sealed[study, party, key]

    def verify(self, identities: Identities | None = None) -> bool:
        """Check the chain and every seal.

        Parameters
        ----------
        identities : mapping of str to bytes or tuple of bytes, optional
            Public keys by party, from a trusted roster; several for a party that had
            another key before. When omitted, the keys in the seals are used, which
            detects edits but not a forged ledger.

        Returns
        -------
        bool
            True.

        Raises
        ------
        StudyError
            When the ledger is not intact; the message names the first bad line.
        """
        from cryptography.exceptions import InvalidSignature

        head, counts = _GENESIS, dict[tuple[str, str], int]()
        for number, line in enumerate(self):
            if line.hash != _chained(head, line.as_record()):
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
                    _check_seal(line, party, counts)
                except (InvalidSignature, ValueError) as wrong:
                    raise StudyError(
                        f"Line {number} of the ledger ({line.step}, {line.name}) is "
                        f"not sealed by {party} as written here."
                    ) from wrong
                if identities is not None and not _is_trusted(line, party, identities):
                    raise StudyError(
                        f"Line {number} of the ledger ({line.step}, {line.name}) is "
                        f"sealed with the key {line.seals[party].key}, which is not "
                        f"{party}'s on the roster, and none that it had before. Was "
                        f"that key revoked? Otherwise the ledger is invented."
                    )
        return True

    @property
    def libraries(self) -> dict[str, tuple[str, ...]]:
        """The builds of the library under which each party sealed lines, by party.

        A party has several where it was upgraded during the study, and an empty one
        where version 0.1 of the library wrote lines.
        """
        found: dict[str, dict[str, None]] = {}
        for line in self:
            for party, seal in line.seals.items():
                found.setdefault(party, {})[seal.library] = None
        return {party: tuple(builds) for party, builds in found.items()}

    def bytes_out(self, party: str | None = None) -> int:
        """Return the bytes that a party sent; the maximum over parties when None."""
        if party is None:
            everybody = {name for line in self for name in line.parties}
            return max(map(self.bytes_out, everybody), default=0)
        left = [line for line in self if line.direction == "out"]
        return sum(line.bytes for line in left if party in line.parties)

    def to_json(self) -> str:
        """Return the ledger as a JSON array, with one line of text per line."""
        return "[" + ",\n ".join(self._records()) + "]\n"

    def to_lines(self) -> str:
        """Return the ledger as JSON lines."""
        return "".join(record + "\n" for record in self._records())

    @classmethod
    def from_json(cls, text: str) -> "Ledger":
        """Read a ledger from `to_json` or `to_lines`, without verifying it.

        Raises
        ------
        StudyError
            When the text is not JSON, or has records that are no lines of a ledger.
        """
        try:
            if text.lstrip().startswith("["):
                records = from_json(text)
            else:
                records = [from_json(row) for row in text.splitlines() if row.strip()]
        except ValueError as wrong:
            raise StudyError(f"The ledger is not JSON: {wrong}.") from wrong
        return cls([Release.from_record(record) for record in records])

    def _records(self) -> Iterator[str]:
        return (json.dumps(line.as_record(), allow_nan=False) for line in self)

    def _head(self) -> str:
        return self._lines[-1].hash if self._lines else _GENESIS


def shape_text(shape: Sequence[int]) -> str:
    """Return a shape as it is read: "5×5", or "number" for a single one."""
    return "×".join(map(str, shape)) or "number"


def _direction(line: Release) -> str:
    """Return the direction, with sender and receiver of exchanged arrays."""
    if not line.peers:
        return line.direction
    way = "to" if line.direction == "out" else "from"
    return f"{line.direction}: {', '.join(line.parties)} {way} {', '.join(line.peers)}"


def _chained(head: str, record: dict[str, Any]) -> str:
    """Return the hash of the chain up to and with a line, given as its record."""
    del record["hash"]
    return hashlib.sha256(head.encode() + canonical(record)).hexdigest()


def _check_seal(line: Release, party: str, counts: dict[tuple[str, str], int]) -> None:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    seal = line.seals[party]
    expected = counts.get((party, seal.key), 0)
    if seal.sequence != expected:
        raise ValueError(f"line {expected} of this party is missing")
    counts[party, seal.key] = expected + 1
    Ed25519PublicKey.from_public_bytes(bytes.fromhex(seal.key)).verify(
        bytes.fromhex(seal.signature),
        line.statement(party, seal.sequence, seal.digest, seal.library),
    )


def _is_trusted(line: Release, party: str, identities: Identities) -> bool:
    trusted = identities.get(party, ())
    trusted = (trusted,) if isinstance(trusted, bytes) else trusted
    return bytes.fromhex(line.seals[party].key) in trusted
