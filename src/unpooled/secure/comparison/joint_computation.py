"""Declarations of joint computations on totals that nobody opens.

    each party   integers(totals) ── masked, as Shamir shares ──> all processes
    processes    job(rows): the name of a computation that they know, and its input
    opened       words of the result, the same at every party

A subclass is the declaration of one computation. Its program is in the process, by the
name that `job` gives: no code travels.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from unpooled.arrays import Array
from unpooled.errors import AggregationError

# Statistical security: opened intermediate values are within 2^-64 of noise.
STATISTICAL_BITS = 64
# Where a computation opens 2^24 of them under masks, all together are.
HIDING_BITS = STATISTICAL_BITS + 24

Rows = list[list[int]]
Shape = tuple[int, ...]
# Shapes of the arrays that a step declares, by name.
Shapes = Mapping[str, Shape]
# Sizes of the step's axis letters.
Sizes = Mapping[str, int]


class JointComputation(ABC):
    """A computation on totals in secret sharing, as a step declares it.

    Attributes
    ----------
    bits : int
        Bits of the integers that hold totals and intermediate values.
    verb : str
        Verb of the steps that declare it, and the visibility of their lines.
    patience : float
        Seconds within which a process answers.
    shares_people : bool
        Whether a total has an entry for each person.
    """

    bits: int
    verb: str
    patience: float = 600.0
    shares_people: bool = False

    @property
    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """Names of the totals, in order."""

    @property
    def declares(self) -> frozenset[str]:
        """Names of the arrays that it opens, where the computation knows them."""
        return frozenset()

    @abstractmethod
    def rounds(self, n_computing: int) -> int:
        """Return the number of the ledger's rounds among so many computing parties."""

    @abstractmethod
    def bytes(self, name: str, shape: Shape, n_computing: int, sizes: Sizes) -> int:
        """Return roughly the bytes that a party sends in a round for one array."""

    def messages(self, name: str, shape: Shape) -> int:
        """Return how many messages processes send within a round for one array."""
        return 0

    @abstractmethod
    def input_shape(self, shapes: Shapes, sizes: Sizes) -> Shape:
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


class ComputedTotal(JointComputation):
    """A computation on one total, of which numbers are opened.

    Attributes
    ----------
    name : str
        Name of the total.
    fraction : int
        Bits after the point of its entries.
    largest : float
        No entry of a party's part is larger.
    too_large : str
        The error where one is.
    """

    name: str
    fraction: int
    largest: float
    too_large: str
    verb = "computed"
    # Large totals take minutes of each party's processor, and waits.
    patience = 7200.0

    @property
    def names(self) -> tuple[str, ...]:
        """Name of the one total."""
        return (self.name,)

    @property
    def element_bytes(self) -> int:
        """Bytes of a number modulo the prime, which has room for what hides it."""
        return (self.bits + HIDING_BITS + 12) // 8

    def rounds(self, n_computing: int) -> int:
        """Return 1: messages between processes are no rounds of the coordinator's."""
        return 1

    def integers(self, totals: Mapping[str, Array]) -> Rows:
        """Return this party's part of the total as integers."""
        values = np.asarray(totals[self.name], dtype=float)
        if not (np.isfinite(values).all() and (np.abs(values) <= self.largest).all()):
            raise AggregationError(self.too_large, rule="fixed_point_range")
        return [[round(math.ldexp(value, self.fraction)) for value in values.tolist()]]

    def forms(self, shapes: Shapes) -> dict[str, tuple[Shape, np.dtype[Any]]]:
        """Return shape and type of each array of the reply."""
        return {name: (shape, np.dtype(np.float64)) for name, shape in shapes.items()}

    def opened(
        self, words: Mapping[str, Array], names: Sequence[str]
    ) -> dict[str, Array]:
        """Return the arrays that the step declares, by their `names`."""
        return {name: np.array(words[name]) for name in names}
