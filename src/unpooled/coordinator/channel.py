"""The seam between the coordinator and whatever carries its messages to the parties.

`LocalChannel` calls parties in this process; `unpooled.federation.nvflare.channel`
calls silos over NVFlare. Neither knows what the bytes mean.
"""

import abc
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol, final, runtime_checkable

from unpooled.linalg.settled import unsettled
from unpooled.protocol.message import Framed, Message


class Channel(abc.ABC):
    """Carries messages to parties and their replies back.

    Attributes
    ----------
    parties : tuple of str
        Names of the parties that can be reached, in the study's order.
    carry : callable or None
        Sends a message of the coordinator's own computing process to a party:
        ((study, session), party, message). None where all computing processes are on
        one machine and reach each other.
    deliver : callable or None
        Set by the coordinator while it computes: takes (party, (study, session),
        message) from a party's computing process.
    cut_off : frozenset of str
        Parties that gave no reply because the engine ended the exchange, for another
        party's fault.
    """

    parties: tuple[str, ...]
    carry: Callable[[tuple[str, str], str, bytes], None] | None = None
    deliver: Callable[[str, tuple[str, str], bytes], object] | None = None
    cut_off: frozenset[str] = frozenset()

    @abc.abstractmethod
    def exchange(self, requests: Mapping[str, bytes]) -> Iterator[tuple[str, Framed]]:
        """Send each party its request and yield (party, reply) as replies arrive.

        A party that does not reply within the channel's time limit is left out; the
        coordinator decides what that means.
        """


@runtime_checkable
class Send(Protocol):
    """Sends some parties a message that is not a step: `Coordinator.send`."""

    def __call__(
        self, header: Mapping[str, Any], *, parties: Iterable[str]
    ) -> dict[str, Message]:
        """Return their checked replies, by party."""
        ...


@final
class LocalChannel(Channel):
    """Calls the parties of this process, one after the other.

    Parameters
    ----------
    doors : mapping of str to callable
        `Party.handle` by party.
    """

    def __init__(self, doors: Mapping[str, Callable[[bytes], Framed]]) -> None:
        self.parties = tuple(doors)
        self._doors = dict(doors)

    def exchange(self, requests: Mapping[str, bytes]) -> Iterator[tuple[str, Framed]]:
        """Yield each party's reply as soon as it is made."""
        for name, request in requests.items():
            # What a silo computes from its rows is its own, and no hint for others.
            with unsettled():
                reply = self._doors[name](request)
            yield name, reply
