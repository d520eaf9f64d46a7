"""What carries messages to parties and their replies back."""

import abc
from collections.abc import Iterator, Mapping

from unpooled.secure.message import Bytes


class Channel(abc.ABC):
    """Carry bytes; know nothing of what they mean.

    Attributes
    ----------
    parties : tuple of str
        Names of the parties that can be reached, in the study's order.
    on_one_machine : bool
        Whether processes of the parties can reach each other's ports.
    """

    parties: tuple[str, ...]
    on_one_machine = False

    @abc.abstractmethod
    def exchange(self, requests: Mapping[str, bytes]) -> Iterator[tuple[str, Bytes]]:
        """Send each party its request and yield (party, reply) as replies arrive.

        A party that does not answer is left out, in whatever time the channel allows;
        the coordinator decides what that means.
        """
