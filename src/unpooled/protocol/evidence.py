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
from unpooled.protocol.message import digest
from unpooled.protocol.view_operations import (
    Derive,
    Operation,
    Rows,
    Select,
    array_digest,
    array_key,
    operation_from_json,
)

# The array of signs in a reply of a party that computes.
SIGNS = "negative"
_FIELDS = {"transform", "step", "public", "words", "signed"}


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
    further : tuple of Operation
        What the round's view had behind what the transform reads; see `Fit`.
    """

    transform: int
    step: str
    public: Mapping[str, Any]
    words: Mapping[str, Shaped[Array, "m ..."]]
    signed: Mapping[str, tuple[bytes, bytes]]
    further: tuple[Operation, ...] = ()

    def arrays(self) -> dict[str, Array]:
        """Return all arrays by the name that follows the step's in the ledger."""
        public = {n: v for n, v in self.public.items() if isinstance(v, np.ndarray)}
        further = {
            f"further.{place}.{name}": value
            for place, operation in enumerate(self.further)
            if isinstance(operation, Derive)
            for name, value in operation.arrays().items()
        }
        return dict(sorted({**further, **public, **self.words}.items()))


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
        if one.further:
            record["further"] = [operation.as_json() for operation in one.further]
        records.append(record)
    return records, arrays


def from_message(
    records: Any, arrays: Mapping[str, Array], operations: Sequence[Operation]
) -> tuple[Evidence, ...]:
    """Read what `as_message` returned; anything else is a ValueError or TypeError."""
    found = []
    for number, record in enumerate(records):
        if set(record) - {"further"} != _FIELDS:
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
        further = _further(number, record.get("further", ()), arrays)
        step = str(record["step"])
        found.append(Evidence(position, step, public, words, signed, further))
    return tuple(found)


def _further(
    number: int, records: Any, arrays: Mapping[str, Array]
) -> tuple[Operation, ...]:
    found = []
    for place, record in enumerate(records):
        named = {
            array_key(place, name, value["array"]): arrays[
                array_name(number, f"further.{place}.{name}")
            ]
            for name, value in record.get("public", {}).items()
            if isinstance(value, dict)
        }
        operation = operation_from_json(record, place, named)
        if isinstance(operation, Rows) or operation.as_json() != record:
            raise ValueError("evidence")
        found.append(operation)
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
    return digest(canonical([o.as_json() for o in features(operations)]))


def features(operations: Sequence[Operation]) -> list[Select | Derive]:
    """Return the shortest chain with the same columns and transforms, without rows."""
    kept: list[Select | Derive] = []
    for operation in operations:
        if isinstance(operation, Rows):
            continue
        if isinstance(operation, Select):
            if kept and isinstance(kept[-1], Select):
                kept.pop()
            if kept and kept[-1].columns == operation.columns:
                continue
        kept.append(operation)
    return kept


def rows_digest(operations: Sequence[Operation]) -> str:
    """Name the rows of a view, whatever its columns."""
    rows = [o.as_json() for o in operations if isinstance(o, Rows)]
    return digest(canonical(rows))


def beyond(
    before: Sequence[Operation], operations: Sequence[Operation]
) -> tuple[Operation, ...]:
    """Return what a round's chain has behind the chain that a transform reads.

    A transform of some columns may be fitted with others beside them: where `before`
    ends by selecting columns, the chain behind may begin by selecting more.
    """
    ahead, chain = features(before), features(operations)
    if _begins(chain, ahead):
        return tuple(chain[len(ahead) :])
    if not ahead or not isinstance(ahead.pop(), Select) or not _begins(chain, ahead):
        return ()
    rest = chain[len(ahead) :]
    if ahead and not (rest and isinstance(rest[0], Select)):
        rest = [Select(ahead[-1].columns), *rest]
    return tuple(rest)


def _begins(chain: Sequence[Operation], ahead: Sequence[Operation]) -> bool:
    # By what travels: transforms have arrays, which do not compare.
    pairs = zip(chain, ahead, strict=False)
    return len(chain) >= len(ahead) and all(
        one.as_json() == other.as_json() for one, other in pairs
    )
