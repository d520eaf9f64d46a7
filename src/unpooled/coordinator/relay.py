"""The coordinator's part where neighbours tell each other: it carries, and sees bytes.

replies ── each party's arrays, a sealed piece for each neighbour
next request of a step that reads `inbox` ── each party's pieces, put together
"""

from collections.abc import Mapping
from typing import Any, final

import numpy as np

from unpooled.arrays import Array
from unpooled.errors import AggregationError, DataError
from unpooled.protocol.ledger_lines import NOTHING
from unpooled.protocol.message import Message
from unpooled.protocol.neighbour_messages import Sealed, sealed_size
from unpooled.protocol.step import Step
from unpooled.protocol.topology import Graph

Inboxes = Mapping[str, Mapping[str, Sealed]]


@final
class Relay:
    """What waits to be delivered: at most the pieces of one round."""

    def __init__(self) -> None:
        self._waiting: Inboxes = NOTHING

    def clear(self) -> None:
        """Forget what was not delivered: the fit that it belongs to is over."""
        self._waiting = NOTHING

    def deliver(self, step: Step) -> Inboxes:
        """Return what goes with a step's requests, by party and release; once."""
        if "inbox" not in step.reads:
            return NOTHING
        waiting, self._waiting = self._waiting, NOTHING
        return waiting

    def carry(
        self,
        step: Step,
        graph: Graph,
        sizes: Mapping[str, Mapping[str, int]],
        replies: Mapping[str, Message] | None,
    ) -> None:
        """Take what parties sealed for each other; None where that is only planned."""
        waiting: dict[str, dict[str, Sealed]] = {party: {} for party in graph}
        for name, declared in step.leaves.items():
            shapes = {party: declared.shape(its) for party, its in sizes.items()}
            shape = next(iter(shapes.values()))
            if set(shapes.values()) != {shape}:
                raise DataError(
                    f"{step.name}: {name} has another shape at each party, and "
                    f"neighbours could not check what they get."
                )
            size = sealed_size(shape)
            pieces = _pieces(name, size, graph, replies)
            for party, peers in graph.items():
                words = np.concatenate([pieces[peer, party] for peer in peers])
                waiting[party][name] = Sealed(shape, peers, words)
        self._waiting = waiting


def _pieces(
    name: str, size: int, graph: Graph, replies: Mapping[str, Message] | None
) -> dict[tuple[str, str], Any]:
    """Return the piece that each party sealed for each neighbour."""
    found: dict[tuple[str, str], Array] = {}
    for party, peers in graph.items():
        words = np.zeros(len(peers) * size, np.uint8)
        if replies is not None:
            told = replies[party].arrays.get(name)
            if told is None or told.shape != words.shape or told.dtype != words.dtype:
                raise AggregationError(
                    f"{party} sent something else than is declared for {name}.",
                    rule="malformed_message",
                )
            words = told
        for place, peer in enumerate(peers):
            found[party, peer] = words[place * size : (place + 1) * size]
    return found
