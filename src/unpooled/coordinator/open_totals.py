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
from unpooled.protocol.message import Message
from unpooled.protocol.request import Request, Veiled
from unpooled.protocol.step import Step
from unpooled.protocol.wire_format import WireFormat
from unpooled.secure.sums.masking import MaskedSum
from unpooled.secure.sums.secure_sum import SecureSum

# Sizes of the axis letters, by party.
Sizes = Mapping[str, Mapping[str, int]]


def added_words(
    request: Request,
    step: Step,
    sizes: Sizes,
    released: Mapping[str, Message],
    secure_sum: SecureSum,
) -> dict[str, Array]:
    """Return the words of a round's totals by name: the parties' words, added.

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
    words, parties = dict[str, Array](), sorted(sizes)
    for name, form in _forms(request, step, sizes).items():
        code = form.code(len(parties), request.context(name))
        wanted = form.words(code if isinstance(secure_sum, MaskedSum) else None)
        concealed = [
            as_declared(party, name, released[party].arrays.get(name), wanted)
            for party in parties
        ]
        words[name] = secure_sum.added(concealed, code)
    return words


def opened_totals(
    request: Request,
    step: Step,
    sizes: Sizes,
    words: Mapping[str, Array],
    protection: str,
) -> dict[str, Any]:
    """Return the totals of a round by name; `Veiled` where only parties may open them.

    Parameters
    ----------
    request, step, sizes
        As of `added_words`.
    words : mapping of str to array
        The words of the totals.
    protection : {"masked", "plain"}
        How they travelled.
    """
    results = dict[str, Any]()
    for name, form in _forms(request, step, sizes).items():
        code = form.code(len(sizes), request.context(name))
        if request.to == "parties":
            release = request.veiled_name(name)
            results[name] = Veiled(release, form.shape, words[name], code.dtype)
        else:
            masked = protection == "masked"
            flat = code.decode(words[name]) if masked else words[name]
            results[name] = form.restored(flat)
    return results


def _forms(request: Request, step: Step, sizes: Sizes) -> dict[str, WireFormat]:
    # Totals have one shape, whatever the parties' own columns are.
    of_total = sizes[min(sizes)]
    return {
        name: WireFormat.of(declared, of_total, request.public)
        for name, declared in step.leaves.items()
    }


def disclosed_values(
    request: Request, step: Step, sizes: Sizes, words: Mapping[str, Array]
) -> dict[str, dict[str, Any]]:
    """Return the values that each party disclosed, by party and name.

    Parameters
    ----------
    request, step, sizes
        As of `added_words`.
    words : mapping of str to array
        What the parties sent, by party/name.
    """
    results: dict[str, dict[str, Any]] = {party: {} for party in sizes}
    for name, declared in step.leaves.items():
        for party in sizes:
            form = WireFormat.of(declared, sizes[party], request.public)
            sent = words.get(f"{party}/{name}")
            value = as_declared(party, name, sent, form.words(None))
            results[party][name] = form.restored(value)
    return results


def as_declared(
    party: str,
    name: str,
    array: Array | None,
    wanted: tuple[tuple[int, ...], np.dtype[Any]],
) -> Array:
    """Return an array that a party sent, if it has the declared shape and type."""
    if array is None or (array.shape, array.dtype) != wanted:
        raise AggregationError(
            f"{party} did not send {name}, or sent it in another shape or type than "
            f"declared.",
            rule="malformed_message",
        )
    return array
