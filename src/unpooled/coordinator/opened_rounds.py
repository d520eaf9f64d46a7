"""Calls and opened rounds, which the coordinator sends to silos that follow.

    fit begins      the call                           with its first request
    round r         words of the totals, sealed sums   with request r + 1, beside the
                    of the silos' own words            decompositions computed between
    fit ends        the last round's                   with the next fit, if any

The last totals of a study are sent to nobody.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, final

import numpy as np

from unpooled.arrays import Array
from unpooled.linalg.settled import Hint, recording
from unpooled.protocol.following import Call, OpenedRound
from unpooled.protocol.message import Message
from unpooled.protocol.request import Request

_NOBODY: Mapping[str, Message] = {}


@final
class OpenedRounds:
    """Calls and opened rounds that the silos have not received yet."""

    def __init__(self) -> None:
        # Calls that no silo knows of yet: the last one is under way.
        self._calls: list[Call] = []
        self._recording: AbstractContextManager[list[Hint]] | None = None
        self._hints: list[Hint] = []
        # Results of the last round's steps, and those of an earlier call's last round.
        self._last: list[OpenedRound] = []
        self._ended: list[OpenedRound] = []
        # Whether a request is out that not every silo answered.
        self._open = False

    def begin(self, call: Call) -> None:
        """Begin a call: decompositions are recorded from now on."""
        self.end()
        self._calls.append(call)
        self._recording = recording()
        self._hints = self._recording.__enter__()

    def end(self) -> None:
        """End a call, if one was begun."""
        if self._recording is None:
            return
        self._recording.__exit__(None, None, None)
        self._recording = None
        if self._open:
            # A refusal ended the call. Silos have no use for the rest of it: they
            # begin the next one anew, and would wait for this one's further rounds.
            self._calls, self._open = self._calls[:-1], False
        elif self._last:
            self._ended = self._with_hints(self._last)
        self._last, self._hints = [], []

    def due(self, session: str, step: str) -> dict[str, Any]:
        """Return the entries `calls` and `opened` of the request that is sent now."""
        if self._recording is None:
            return {}
        last = self._last
        if not last and self._hints:
            last = [OpenedRound(session=session, round=0, step=step)]
        opened, self._open = (*self._ended, *self._with_hints(last)), True
        return {"calls": tuple(self._calls), "opened": opened}

    def _with_hints(self, last: list[OpenedRound]) -> list[OpenedRound]:
        """Return the results of a round, with the decompositions computed since."""
        return [
            replace(one, hints=tuple(self._hints)) if place == 0 else one
            for place, one in enumerate(last)
        ]

    def was_sent(self) -> None:
        """Note that every silo took what was due."""
        self._calls, self._ended, self._last = [], [], []
        self._open = False
        self._hints.clear()

    def add(
        self,
        request: Request,
        words: Mapping[str, Array],
        *,
        sealed: Mapping[str, Message] = _NOBODY,
        signed: Mapping[str, Message] = _NOBODY,
    ) -> None:
        """Note what a step of a round gave, once what was due before has been sent.

        Parameters
        ----------
        request : Request
            Request of the step.
        words : mapping of str to array
            As of `OpenedRound`.
        sealed : mapping of str to Message
            Replies with sealed sums of their words.
        signed : mapping of str to Message
            Replies whose signatures show that the words are theirs.
        """
        if self._recording is None:
            return
        one = OpenedRound(
            session=request.session,
            round=request.round,
            step=request.step,
            to=request.to,
            words=words,
            sealed={
                party: reply.header.get("checks", {}) for party, reply in sealed.items()
            },
            signed={party: (r.front, r.signature) for party, r in signed.items()},
        )
        self._last.append(one)


def words_by_party(replies: Mapping[str, Message]) -> dict[str, Array]:
    """Return the arrays of all replies, as `OpenedRound` names them."""
    return {
        f"{party}/{name}": np.asarray(array)
        for party, reply in replies.items()
        for name, array in reply.arrays.items()
    }
