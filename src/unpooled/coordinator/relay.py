"""The coordinator's part of an exchanged step: it carries sealed bytes.

replies       each party's arrays, as one sealed piece for each neighbour
next request  of a step that reads `inbox`: the pieces for each party, put together
"""

from collections.abc import Mapping
from typing import Any, final

import numpy as np

from unpooled.arrays import Array
from unpooled.coordinator.open_totals import as_declared
from unpooled.errors import DataError
from unpooled.protocol.ledger_lines import NOTHING
from unpooled.protocol.message import Message
from unpooled.protocol.neighbour_messages import Sealed, sealed_size
from unpooled.protocol.step import Step
from unpooled.protocol.topology import Graph

Inboxes = Mapping[str, Mapping[str, Sealed]]


@final
class Relay:
    """Sealed pieces that wait for delivery: at most those of one round."""

    def __init__(self) -> None:
        self._waiting: Inboxes = NOTHING

    def clear(self) -> None:
        """Drop what was not delivered: the fit that it belongs to is over."""
        self._waiting = NOTHING

    def deliver(self, step: Step) -> Inboxes:
        """Return the inboxes for a step's requests, by party and release; once."""
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
        """Take the pieces of a round; `replies` is None where it is only planned."""
        waiting: dict[str, dict[str, Sealed]] = {party: {} for party in graph}
        for name, declared in step.leaves.items():
            shapes = {party: declared.shape(sizes[party]) for party in sizes}
            shape = next(iter(shapes.values()))
            if set(shapes.values()) != {shape}:
                raise DataError(
                    f"{step.name}: {name} differs in shape between parties, so "
                    f"neighbours could not check what they receive."
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
    pieces: dict[tuple[str, str], Array] = {}
    for party, peers in graph.items():
        words = np.zeros(len(peers) * size, np.uint8)
        if replies is not None:
            sent = replies[party].arrays.get(name)
            words = as_declared(party, name, sent, (words.shape, words.dtype))
        for place, peer in enumerate(peers):
            pieces[party, peer] = words[place * size : (place + 1) * size]
    return pieces
