"""What carries messages to parties and their replies back."""

import abc
from collections.abc import Callable, Iterator, Mapping

from unpooled.protocol.message import Framed


class Channel(abc.ABC):
    """Carry bytes; know nothing of what they mean.

    Attributes
    ----------
    parties : tuple of str
        Names of the parties that can be reached, in the study's order.
    carry : callable or None
        Hands a message of the coordinator's own process in secure comparisons to a
        party: ((study, session), party, message). None where processes of all ends are
        on one machine and reach each other.
    deliver : callable or None
        Set by whoever computes here: takes (party, (study, session), message).
    """

    parties: tuple[str, ...]
    carry: Callable[[tuple[str, str], str, bytes], None] | None = None
    deliver: Callable[[str, tuple[str, str], bytes], object] | None = None

    @abc.abstractmethod
    def exchange(self, requests: Mapping[str, bytes]) -> Iterator[tuple[str, Framed]]:
        """Send each party its request and yield (party, reply) as replies arrive.

        A party that does not answer is left out, in whatever time the channel allows;
        the coordinator decides what that means.
        """
