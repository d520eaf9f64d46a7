"""The coordinator's end of secure comparisons: it carries offers and learns signs.

It holds no share, and cannot exchange the parties' certificates for its own.
"""

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from unpooled.arrays import Array
from unpooled.errors import AggregationError
from unpooled.federation.costs import RoundRecord
from unpooled.party.step import Step
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


def compared(
    step: Step, sizes: Mapping[str, int], number: int, asked: RoundRecord, tell: Tell
) -> tuple[dict[str, Array], list[RoundRecord]]:
    """Return where a polynomial is negative, and a record for each of MPyC's rounds.

    Parameters
    ----------
    step : Step
        Declared with `compared`; the parties were asked and hold their integers.
    sizes : mapping of str to int
        Of its axes.
    number : int
        Of the first of its rounds.
    asked : RoundRecord
        What asking cost; it counts with the first.
    tell : callable
        Sends every party a message of the session.

    Raises
    ------
    AggregationError
        When parties found different signs, or something else than signs.
    """
    ((name, declared),) = step.declared.items()
    began = time.perf_counter()
    replies = tell({"kind": "signs"})
    took = asked.seconds + time.perf_counter() - began
    found = [reply.arrays.get("negative") for reply in replies.values()]
    first = found[0]
    if first is None or first.shape != declared.shape(sizes) or first.dtype != np.uint8:
        raise AggregationError("A party sent no signs.", rule="malformed_message")
    if any(other is None or not np.array_equal(first, other) for other in found):
        raise AggregationError(
            "The parties computed different signs.", rule="comparison"
        )
    rounds, sent = _spent(replies)
    records = [
        RoundRecord(
            number + turn,
            step.name,
            took / rounds,
            sent // rounds + (asked.bytes_out if turn == 0 else 0),
            asked.bytes_in if turn == 0 else 0,
        )
        for turn in range(rounds)
    ]
    return {name: first.astype(bool)}, records


def _spent(replies: Mapping[str, Message]) -> tuple[int, int]:
    """Return rounds and bytes, of the party that had most."""
    spent = [reply.header["spent"] for reply in replies.values()]
    rounds, sent, _ = np.max(spent, axis=0)
    return max(round(float(rounds)), 1), int(sent)
