"""What parties compute together of totals that nobody opens: the declared part.

    each party   integers(totals) ── masked, as Shamir shares ──> all processes
    processes    job(rows): the name of a computation that they know, and its input
    opened       words of the result, the same at every party

A subclass is the declaration of one computation. Its program is in the process, by the
name that `job` gives: no code travels.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from unpooled.arrays import Array

# Statistical security: opened intermediate values are within 2^-64 of noise.
STATISTICAL_BITS = 64

Rows = list[list[int]]
Shape = tuple[int, ...]
# Shapes of the arrays that a step declares, by name.
Shapes = Mapping[str, Shape]


class JointComputation(ABC):
    """A computation on totals in secret sharing, as a step declares it.

    Attributes
    ----------
    bits : int
        Bits of the integers that hold totals and intermediate values.
    verb : str
        Of the steps that declare it, and the visibility of their lines.
    patience : float
        Seconds within which a process answers.
    """

    bits: int
    verb: str
    patience: float = 600.0

    @property
    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """Names of the totals, in order."""

    @abstractmethod
    def rounds(self, n_computing: int) -> int:
        """Return the number of the ledger's rounds among so many computing parties."""

    @abstractmethod
    def bytes(self, name: str, shape: Shape, n_computing: int) -> int:
        """Return roughly the bytes that a party sends in a round for one array."""

    def messages(self, name: str, shape: Shape) -> int:
        """Return how many messages processes send within a round for one array."""
        return 0

    @abstractmethod
    def input_shape(self, shapes: Shapes) -> Shape:
        """Return the shape of a party's part of each total."""

    @abstractmethod
    def integers(self, totals: Mapping[str, Array]) -> Rows:
        """Return this party's part of the totals as integers, one list per name."""

    @abstractmethod
    def job(self, rows: Rows, shapes: Shapes) -> dict[str, Any]:
        """Return the message for this party's process, as JSON values."""

    @abstractmethod
    def words(self, found: Mapping[str, Any]) -> dict[str, Array]:
        """Return the arrays of the party's reply, from the process's answer."""

    @abstractmethod
    def forms(self, shapes: Shapes) -> dict[str, tuple[Shape, np.dtype[Any]]]:
        """Return shape and type of each array of the reply."""

    @abstractmethod
    def opened(
        self, words: Mapping[str, Array], names: Sequence[str]
    ) -> dict[str, Array]:
        """Return the arrays that the step declares, by their `names`."""

    @abstractmethod
    def placeholders(self, shapes: Shapes) -> dict[str, Array]:
        """Return arrays that stand for the result in a plan."""
