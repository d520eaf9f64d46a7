"""Evidence that a transform is what a fit of this study gave, for every party to check.

    fit     silos ── masked words, signed, of the request's digest ──> coordinator
    use     silos <── the transform, and every silo's words and signature of that fit
            each silo: signed by whom I pin? to a request that I answered too?
            sum of the words = totals ─> do the transform's numbers follow from them?

So a coordinator cannot send numbers of its own: two modest fillings of one person's
missing cell, or a direction that points at somebody, subtract to that person's row. The
words say no more than the totals do, which is what the parties learn by them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from unpooled.arrays import Array, Shaped
from unpooled.ledger import canonical
from unpooled.party.operations import Derive, Operation, Rows, Select, array_digest
from unpooled.secure.message import digest


@final
@dataclass(frozen=True, eq=False)
class Evidence:
    """Every party's part of one round that fitted a transform.

    Attributes
    ----------
    transform : int
        The transform's place in the view's operations.
    step : str
        The summed step that ran in the round.
    public : mapping
        Its public arguments.
    words : mapping of str to (m, ...) array
        What the parties sent of each array, in the order of their sorted names.
    signed : mapping of str to (bytes, bytes)
        The text that each party signed, and its signature; empty in a plan.
    """

    transform: int
    step: str
    public: Mapping[str, Any]
    words: Mapping[str, Shaped[Array, "m ..."]]
    signed: Mapping[str, tuple[bytes, bytes]]

    def arrays(self) -> dict[str, Array]:
        """Return all arrays by the name that follows the step's in the ledger."""
        public = {n: v for n, v in self.public.items() if isinstance(v, np.ndarray)}
        return dict(sorted({**public, **self.words}.items()))


def as_message(
    evidence: Sequence[Evidence],
) -> tuple[list[dict[str, Any]], dict[str, Array]]:
    """Return evidence as records for a header, and arrays."""
    records, arrays = [], dict[str, Array]()
    for number, one in enumerate(evidence):
        arrays |= {array_name(number, name): v for name, v in one.arrays().items()}
        record: dict[str, Any] = {"transform": one.transform, "step": one.step}
        record["public"] = public_record(one.public)
        record["words"] = list(one.words)
        record["signed"] = {
            party: [front.decode("ascii"), signature.hex()]
            for party, (front, signature) in one.signed.items()
        }
        records.append(record)
    return records, arrays


def from_message(
    records: Any, arrays: Mapping[str, Array], operations: Sequence[Operation]
) -> tuple[Evidence, ...]:
    """Read what `as_message` returned; anything else is a ValueError or TypeError."""
    found = []
    for number, record in enumerate(records):
        if set(record) != {"transform", "step", "public", "words", "signed"}:
            raise ValueError("evidence")
        position = record["transform"]
        if type(position) is not int or not 0 <= position < len(operations):
            raise ValueError("evidence")
        if not isinstance(operations[position], Derive):
            raise ValueError("evidence")
        public = {
            str(name): arrays[array_name(number, name)]
            if isinstance(value, dict)
            else value
            for name, value in record["public"].items()
        }
        words = {str(n): arrays[array_name(number, n)] for n in record["words"]}
        if set(words) & set(public):
            raise ValueError("evidence")
        signed = {
            str(party): (front.encode("ascii"), bytes.fromhex(signature))
            for party, (front, signature) in record["signed"].items()
        }
        found.append(Evidence(position, str(record["step"]), public, words, signed))
    return tuple(found)


def array_name(number: int, name: str) -> str:
    """Name an array of evidence in a message."""
    return f"evidence.{number}.{name}"


def public_record(public: Mapping[str, Any]) -> dict[str, Any]:
    """Return public arguments as JSON values, arrays by their digests."""
    return {
        name: {"array": array_digest(value)} if isinstance(value, np.ndarray) else value
        for name, value in sorted(public.items())
    }


def features_digest(operations: Sequence[Operation]) -> str:
    """Name the columns and transforms of a view, whatever its rows.

    A transform that was fitted on some rows may be applied to others, as in
    cross-validation, but to no other columns, and behind no other transforms.
    """
    kept: list[Select | Derive] = []
    for operation in operations:
        if isinstance(operation, Rows):
            continue
        if isinstance(operation, Select) and kept:
            if kept[-1].columns == operation.columns:
                continue
            if isinstance(kept[-1], Select):
                kept.pop()
        kept.append(operation)
    return digest(canonical([operation.as_json() for operation in kept]))
