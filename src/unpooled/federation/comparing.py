"""The coordinator's end of secure comparisons: it carries offers and learns signs.

It holds no share, and cannot exchange the parties' certificates for its own.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from unpooled.arrays import Array
from unpooled.errors import AggregationError
from unpooled.secure.comparison import FEWEST
from unpooled.secure.message import Message

Tell = Callable[[dict[str, Any]], dict[str, Message]]


def begin_computing(parties: tuple[str, ...], tell: Tell, on_one_machine: bool) -> None:
    """Have every party start its process, and all of them prove their arithmetic."""
    if not on_one_machine:
        raise AggregationError(
            "Secure comparisons run in simulations so far: between organisations the "
            'silos\' processes cannot reach each other. Use comparison="summed".',
            rule="comparison",
        )
    if len(parties) < FEWEST:
        raise AggregationError(
            f"{len(parties)} parties cannot compare in secret: with two, each would "
            f'see all. Add a silo, or use comparison="summed".',
            rule="two_parties",
        )
    offers = tell({"kind": "offer computing"})
    ports = {party: reply.header["port"] for party, reply in offers.items()}
    sealed = {party: reply.header["sealed"] for party, reply in offers.items()}
    tell({"kind": "begin computing", "ports": ports, "sealed": sealed})
    tell({"kind": "test computing"})


def signs(shape: tuple[int, ...], tell: Tell) -> tuple[Array, tuple[int, int, float]]:
    """Return which values are negative, and rounds, bytes and seconds of a party.

    Raises
    ------
    AggregationError
        When parties found different signs, or something else than signs.
    """
    replies = tell({"kind": "signs"})
    found = [reply.arrays.get("negative") for reply in replies.values()]
    first = found[0]
    if first is None or first.shape != shape or first.dtype != np.uint8:
        raise AggregationError("A party sent no signs.", rule="malformed_message")
    if any(other is None or not np.array_equal(first, other) for other in found):
        raise AggregationError(
            "The parties computed different signs.", rule="comparison"
        )
    return first.astype(bool), _spent(replies)


def _spent(replies: Mapping[str, Message]) -> tuple[int, int, float]:
    rounds, sent, seconds = np.max(
        [reply.header["spent"] for reply in replies.values()], axis=0
    )
    return round(float(rounds)), int(sent), float(seconds)
