"""A session's last exchange between neighbours, and the arrays that it brought."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import final

import numpy as np

from unpooled.arrays import Array, Float
from unpooled.errors import AggregationError
from unpooled.party.memory.kept_arrays import Origins
from unpooled.protocol.neighbour_messages import RULE, Exchange, Inbox
from unpooled.protocol.refusal import Refusal
from unpooled.protocol.request import Request
from unpooled.protocol.step import Step


@final
class Neighbours:
    """A party's end of all rounds of a fit in which neighbours exchange arrays.

    Parameters
    ----------
    party : str
        This party.
    parties : tuple of str
        The roster of the session.
    """

    def __init__(self, party: str, parties: tuple[str, ...]) -> None:
        self._party, self._parties = party, parties
        self._last: Exchange | None = None
        self._inbox = Inbox(party)

    def check(self, step: Step, request: Request, keys: Collection[str]) -> None:
        """Refuse a graph over other parties, or one where none belongs.

        `keys` are the parties with whom this one has a key: see `Session.agree`.
        """
        if (step.verb == "exchanged") != (request.topology is not None):
            raise Refusal("malformed_message")
        if request.topology is not None and set(request.topology) != set(self._parties):
            raise Refusal("wrong_roster")
        if request.topology is not None and keys:
            if not set(request.topology[self._party]) <= set(keys):
                raise Refusal("malformed_message")
        if request.inbox and "inbox" not in step.reads:
            raise Refusal("malformed_message")

    def open_inbox(self, step: Step, request: Request) -> tuple[Request, Inbox]:
        """Return the arrays of neighbours, and the request with their shapes.

        They come with the first step after the exchange that reads `inbox`, and may be
        read again until the next exchange.
        """
        if "inbox" not in step.reads:
            return request, self._inbox
        if self._last is not None:
            sealed = self._last.described(request.inbox)
            self._inbox, self._last = self._last.opened(sealed), None
            request = replace(request, inbox=sealed)
        elif request.inbox:
            raise Refusal(RULE)
        return request, self._inbox

    def seal_for_neighbours(
        self,
        keys: Mapping[str, bytes],
        request: Request,
        own: Mapping[str, Float[Array, "..."]],
        origins: Origins,
    ) -> dict[str, Array]:
        """Return this party's arrays, each sealed for every neighbour."""
        if not all(np.isfinite(value).all() for value in own.values()):
            raise AggregationError(
                "A value for neighbours is not finite; find it in the step's result.",
                rule="fixed_point_range",
            )
        contexts = {name: origins.bound(request.context(name)) for name in own}
        graph = request.topology or {}
        self._last = Exchange(self._party, keys, graph, contexts, own)
        return {name: self._last.sealed(name) for name in own}
