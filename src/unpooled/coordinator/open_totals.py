"""Opening a round: from the checked replies to totals, or to each party's values.

masked words of every party ── added: the masks cancel ──> decoded ──> totals
masked words, to="parties" ─── added ──> `Veiled`: noise without the group key
disclosed values ──> the same, by party
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from unpooled.arrays import Array
from unpooled.errors import AggregationError
from unpooled.protocol.ledger_lines import code_for
from unpooled.protocol.message import Message
from unpooled.protocol.packing import restored
from unpooled.protocol.request import Request, Veiled
from unpooled.protocol.step import Step
from unpooled.secure.sums.fixed_point import Code
from unpooled.secure.sums.masking import MaskedSum
from unpooled.secure.sums.secure_sum import SecureSum

# Sizes of the axis letters, by party.
Sizes = Mapping[str, Mapping[str, int]]


def opened_totals(
    request: Request,
    step: Step,
    sizes: Sizes,
    released: Mapping[str, Message],
    secure_sum: SecureSum,
) -> dict[str, Any]:
    """Return the totals of a round by name; `Veiled` where only parties may open them.

    Parameters
    ----------
    request : Request
        What every party was sent.
    step : Step
        Declares the arrays.
    sizes : mapping of str to mapping of str to int
        Sizes of the axis letters, by party.
    released : mapping of str to Message
        The checked replies, of every party.
    secure_sum : SecureSum
        Adds them.
    """
    results, parties = dict[str, Any](), sorted(sizes)
    for name, declared in step.leaves.items():
        # Totals have one shape, whatever the parties' own columns are.
        shape = declared.shape(sizes[parties[0]])
        context = request.context(name)
        code = code_for(declared, len(parties), request.public, context)
        concealed = [
            _released_array(
                released[party],
                name,
                declared.numbers(shape),
                code if isinstance(secure_sum, MaskedSum) else None,
            )
            for party in parties
        ]
        if request.to == "parties":
            words = secure_sum.added(concealed, code)
            results[name] = Veiled(request.round, name, shape, words, code.dtype)
        else:
            total = secure_sum.reveal(concealed, code)
            results[name] = restored(total, declared, shape, request.public)
    return results


def disclosed_values(
    request: Request, step: Step, sizes: Sizes, released: Mapping[str, Message]
) -> dict[str, dict[str, Any]]:
    """Return the values that each party disclosed, by party and name."""
    results: dict[str, dict[str, Any]] = {party: {} for party in sizes}
    for name, declared in step.leaves.items():
        for party in sizes:
            shape = declared.shape(sizes[party])
            numbers = declared.numbers(shape)
            value = _released_array(released[party], name, numbers, None)
            results[party][name] = restored(value, declared, shape, request.public)
    return results


def _released_array(
    message: Message, name: str, numbers: int, code: Code | None
) -> Array:
    """Return an array of a reply, if it has the declared size and type.

    `code` is that of a masked total; None for values that travel in clear.
    """
    shape, kind = (numbers,), np.dtype(np.float64)
    if code is not None:
        shape, kind = code.shape(numbers), np.dtype(code.word)
    array = message.arrays.get(name)
    if array is None or array.shape != shape or array.dtype != kind:
        raise AggregationError(
            f"{message.header['party']} sent something else than is declared for "
            f"{name}.",
            rule="malformed_message",
        )
    return array
