"""What the coordinator makes of a round's replies: totals, or each party's values."""

from collections.abc import Mapping
from typing import Any

from unpooled.coordinator.replies import released_array
from unpooled.protocol.message import Message
from unpooled.protocol.request import Request, Veiled
from unpooled.protocol.step import Step
from unpooled.protocol.wire_format import WireFormat
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
        form = WireFormat.of(declared, sizes[parties[0]], request.public)
        code = form.code(len(parties), request.context(name))
        words_of = form.words(code if isinstance(secure_sum, MaskedSum) else None)
        concealed = [released_array(released[p], name, *words_of) for p in parties]
        if request.to == "parties":
            words = secure_sum.added(concealed, code)
            results[name] = Veiled(request.round, name, form.shape, words, code.dtype)
        else:
            results[name] = form.restored(secure_sum.reveal(concealed, code))
    return results


def shown(
    request: Request, step: Step, sizes: Sizes, released: Mapping[str, Message]
) -> dict[str, dict[str, Any]]:
    """Return the values that each party disclosed, by party and name."""
    results: dict[str, dict[str, Any]] = {party: {} for party in sizes}
    for name, declared in step.leaves.items():
        for party, its in sizes.items():
            form = WireFormat.of(declared, its, request.public)
            value = released_array(released[party], name, *form.words(None))
            results[party][name] = form.restored(value)
    return results
