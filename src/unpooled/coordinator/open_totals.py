"""What the coordinator makes of a round's replies: totals, or each party's values."""

from collections.abc import Mapping
from typing import Any

from unpooled.coordinator.replies import released_array
from unpooled.protocol.ledger_lines import code_for
from unpooled.protocol.message import Message
from unpooled.protocol.packing import restored
from unpooled.protocol.request import Request, Veiled
from unpooled.protocol.step import Step
from unpooled.secure.sums.masking import MaskedSum
from unpooled.secure.sums.secure_sum import SecureSum

# Of the axis letters, by party.
Sizes = Mapping[str, Mapping[str, int]]


def opened(
    request: Request,
    step: Step,
    sizes: Sizes,
    released: Mapping[str, Message],
    secure_sum: SecureSum,
) -> dict[str, Any]:
    """Return the totals of a round by name; `Veiled` those for the parties alone."""
    results, parties = dict[str, Any](), sorted(sizes)
    for name, declared in step.leaves.items():
        # Totals have one shape, whatever the parties' own columns are.
        shape = declared.shape(sizes[parties[0]])
        context = request.context(name)
        code = code_for(declared, len(parties), request.public, context)
        concealed = [
            released_array(
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


def shown(
    request: Request, step: Step, sizes: Sizes, released: Mapping[str, Message]
) -> dict[str, dict[str, Any]]:
    """Return the values that each party disclosed, by party and name."""
    results: dict[str, dict[str, Any]] = {party: {} for party in sizes}
    for name, declared in step.leaves.items():
        for party, its in sizes.items():
            shape = declared.shape(its)
            numbers = declared.numbers(shape)
            value = released_array(released[party], name, numbers, None)
            results[party][name] = restored(value, declared, shape, request.public)
    return results
