"""Totals that a silo keeps, so that rows which it read before are not read again.

    rows 1 .. n   their digest, and what the step gave for them, kept
    next time     the same digest over rows 1 .. n ── the step on the rows behind, added
                  another one (a row was replaced or moved) ── the step on all rows

Only for steps that are additive over rows. A silo that lost what it kept computes all
of it again, with the same answer.
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
    step: Step, view: View, key: str, public: Mapping[str, Any], reused: TotalsCache
) -> dict[str, Array]:
    """Return a step's totals over all rows, reading few of them where that is enough.

    Parameters
    ----------
    key : str
        The view's digest.
    reused : TotalsCache
        Is read, and given what this run found.
    """
    asked = _asked(public)
    known = reused.find(key, step.name, asked, view.n_rows)
    found = _added(step, view, public, asked, known)
    if found is None:
        found = _added(step, view, public, asked, None)
    assert found is not None
    reused.put(key, step.name, found)
    return {name: value.copy() for name, value in found.totals.items()}


def _added(
    step: Step,
    view: View,
    public: Mapping[str, Any],
    asked: bytes,
    known: PartialTotals | None,
) -> PartialTotals | None:
    """Return the totals of all rows, or None where the first are not the known ones."""
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
    return PartialTotals(asked, seen, rows.digest(), totals)


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


def _asked(public: Mapping[str, Any]) -> bytes:
    return canonical(
        [
            [name, array_digest(value) if isinstance(value, np.ndarray) else value]
            for name, value in sorted(public.items())
        ]
    )
