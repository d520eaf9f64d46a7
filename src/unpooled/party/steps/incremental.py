"""Running a step on appended rows only, and adding the totals of the earlier rows.

    rows 1 .. n   their digest and the step's totals are kept
    next time     same digest over rows 1 .. n ── the step runs on the rows behind
                  another digest (a row was replaced or moved) ── it runs on all rows

Only for steps that are additive over rows. A silo that lost its totals computes them
again from all rows, with the same result.
"""

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from unpooled.arrays import Array, Float
from unpooled.ledger import canonical
from unpooled.party.memory.partial_totals import PartialTotals, TotalsCache
from unpooled.party.views.view import View
from unpooled.protocol.step import Step
from unpooled.protocol.view_operations import array_digest


def run_incrementally(
    step: Step, view: View, key: str, public: Mapping[str, Any], cache: TotalsCache
) -> dict[str, Array]:
    """Return a step's totals over all rows, running it on new rows where possible.

    Parameters
    ----------
    key : str
        The view's digest.
    cache : TotalsCache
        Read first, and then given the new totals.
    """
    arguments = _canonical(public)
    known = cache.find(key, step.name, arguments, view.n_rows)
    result = _added(step, view, public, arguments, known)
    if result is None:
        result = _added(step, view, public, arguments, None)
    assert result is not None
    cache.put(key, step.name, result)
    return {name: value.copy() for name, value in result.totals.items()}


def _added(
    step: Step,
    view: View,
    public: Mapping[str, Any],
    arguments: bytes,
    known: PartialTotals | None,
) -> PartialTotals | None:
    """Return the totals of all rows, or None where the first rows have changed."""
    first = 0 if known is None else known.n_rows
    totals = {} if known is None else {n: v.copy() for n, v in known.totals.items()}
    rows, seen = hashlib.blake2b(), 0
    for X in _cut(view, first):
        rows.update(np.ascontiguousarray(X).data)
        seen += len(X)
        if seen == first and known is not None:
            if rows.digest() != known.digest:
                return None
        elif seen > first:
            for name, value in step(X, **public).items():
                totals[name] = np.asarray(np.add(totals.get(name, 0.0), value))
    return PartialTotals(arguments, seen, rows.digest(), totals)


def _cut(view: View, first: int) -> Iterator[Float[Array, "n p"]]:
    """Yield blocks of rows, none of which holds rows before and behind `first`."""
    seen = 0
    for block in view.blocks():
        X, inside = block.X, first - seen
        if 0 < inside < len(X):
            yield X[:inside]
            X = X[inside:]
        yield X
        seen += len(block.X)


def _canonical(public: Mapping[str, Any]) -> bytes:
    return canonical(
        [
            [name, array_digest(value) if isinstance(value, np.ndarray) else value]
            for name, value in sorted(public.items())
        ]
    )
