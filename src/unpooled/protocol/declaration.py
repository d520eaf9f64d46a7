"""The declaration of one array of a step: axes, meaning, bound; whether it leaves.

@summed(count=release("", meaning="how many rows there are"), scatter=stays("p p"))
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any, final

from unpooled.arrays import Array
from unpooled.errors import DataError
from unpooled.protocol.bounds import Bound
from unpooled.secure.noise import Noise

# Axis letters over people; everything else is an aggregate.
ROW_AXES = frozenset("nN")
FEATURE_AXES = frozenset("pq")


@final
@dataclass(frozen=True)
class Declared:
    """The declaration of one array of a step.

    Attributes
    ----------
    axes : str
        Axis letters or sizes, separated by blanks; empty for a number.
    meaning : str
        A plain phrase for people who never saw the library.
    symmetric : bool
        Whether only the upper triangle is read, sent and kept; of more than two axes,
        that of the last two.
    bound : Bound, optional
        A public bound on the total; without one the wide code is used.
    noise : Noise, optional
        Noise that the silo adds before the array leaves, as whole numbers.
    bits : str
        The public argument that holds the number of bits in which a bounded total
        travels; 64 bits where none is named.
    repeats : int
        How many entries tell one number, where the others follow from it.
    kept : bool
        Whether the array stays in the silo and is never sent.
    until : str
        How long a kept array stays: to the end of the "fit" or of the "study".
    counts : str
        What the entries count: observed "cells" of each column, rows of each of the
        "classes", or with "names" classes whose names are mixed with their sizes. Empty
        where they are no counts. The silo refuses to go on where one person is alone in
        it: `unpooled.party.rules.counts_first`. Of "columns", which a transform makes
        of each column, no person is counted: their number is known of every silo.
    veiled : bool
        Whether the parties alone open the total. A silo answers no request that would
        open it elsewhere, and it is no number that was opened: what later steps release
        of it is counted.
    pairs : bool
        Whether the entries are over pairs of features though the axes do not say so:
        two letters of features, or symmetric, say it by themselves.
    weighed : bool
        Whether rows are added with weights that depend on arguments or on other
        columns. The step returns a `Weighed`, and the silo judges the leverage of these
        rows as it judges that of rows without weights.
    """

    axes: str
    meaning: str = ""
    symmetric: bool = False
    bound: Bound | None = None
    bits: str = ""
    noise: Noise | None = None
    repeats: int = 1
    kept: bool = False
    until: str = "study"
    counts: str = ""
    veiled: bool = False
    pairs: bool = False
    weighed: bool = False

    @cached_property
    def letters(self) -> tuple[str, ...]:
        """The axes, one by one."""
        return tuple(self.axes.split())

    @property
    def level(self) -> str:
        """Either "row", when an axis is over people, or "aggregate"."""
        return "row" if ROW_AXES & set(self.letters) else "aggregate"

    @property
    def pairs_features(self) -> bool:
        """Whether the release is over pairs of features, like a covariance.

        The axes of quantities that a step derives from the features, such as an
        information matrix, have other letters; a symmetric array of them counts too.
        """
        features = sum(letter in FEATURE_AXES for letter in self.letters)
        squares = self.symmetric and self.level == "aggregate"
        return self.pairs or squares or features >= 2

    def shape(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """Return the shape under the given sizes of the axis letters."""
        known = {letter for letter in self.letters if letter.isdigit()} | set(sizes)
        if unknown := sorted(set(self.letters) - known):
            raise DataError(
                f"The size of the axis {unknown[0]} is not known before the step runs. "
                f"An axis is p, a number, or a letter of an array that the step takes.",
                rule="declaration",
            )
        return tuple(
            int(letter) if letter.isdigit() else sizes[letter]
            for letter in self.letters
        )

    def numbers(self, shape: Sequence[int]) -> int:
        """Return the number of entries that are sent of an array of this shape."""
        if self.symmetric:
            *shape, p, _ = shape
            return prod(shape) * (p * (p + 1) // 2)
        return prod(shape)


@final
@dataclass(frozen=True, eq=False)
class Weighed:
    """A sum that a step makes of rows with weights, and these rows.

    Attributes
    ----------
    total : array
        The sum.
    rows : tuple of (n, m) arrays
        What it multiplies, such as predictors by the roots of their weights: one array
        for each set of weights, of one block of rows.
    products : tuple of (m, m) arrays, optional
        ``rows.T @ rows`` of each, where the step makes them anyway.
    period : int, optional
        After how many columns the next intercept's stands, where rows have several. The
        first column is one.
    squares : bool
        Whether it is the sum of their squares, as sums of products are. Otherwise they
        are added as they are.
    """

    total: Array
    rows: tuple[Array, ...]
    products: tuple[Array, ...] | None = None
    period: int | None = None
    squares: bool = False


def totals_of(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arrays of a step by name, of rows with weights the sums alone."""
    return {
        name: value.total if isinstance(value, Weighed) else value
        for name, value in found.items()
    }


@final
@dataclass(frozen=True)
class Public:
    """The declaration of one public argument that is an array.

    Attributes
    ----------
    axes : str
        Axis letters or sizes, separated by blanks, as in `Declared`; empty for a
        number. "size q" declares a whole number that gives the letter q its size.
    meaning : str
        What the argument is, in a plain phrase for the report.
    counts : str
        For counts over all silos, which an earlier round opened, what they count, as in
        `Declared`, or rows of each of the "groups" of categories that a transform makes
        columns of. A silo judges them by its policy before it sends the step's sums.
    least : str
        For a limit that the step keeps for the silo, the rule of its policy that the
        limit may not be below: "min_rows" or "min_rows_per_class". With "min_rows" a
        silo that allows order statistics takes any.
    weighs : bool
        Whether these are weights of the classes, in products of two columns: with
        unequal ones, those of a class by itself follow from a few totals.
    """

    axes: str
    meaning: str
    counts: str = ""
    least: str = ""
    weighs: bool = False


# As steps are written: ``takes={"mean": public("p", "the mean of ...")}``, and
# ``total=release("p", meaning="...")`` for an array that leaves the silo.
public = Public
release = Declared


def stays(
    axes: str,
    *,
    meaning: str = "",
    symmetric: bool = False,
    until: str = "study",
    counts: str = "",
) -> Declared:
    """Declare an array that is kept in the silo and never sent; see `Declared`."""
    return Declared(axes, meaning, symmetric, kept=True, until=until, counts=counts)


def bind_axes(
    step: str,
    takes: Mapping[str, Public],
    arguments: Mapping[str, Any],
    sizes: dict[str, int],
) -> dict[str, int]:
    """Return the sizes of axis letters, with those that public arguments bind.

    Parameters
    ----------
    step : str
        The step's name, for messages.
    takes : mapping of str to Public
        Declarations of the arguments that are arrays.
    arguments : mapping
        The values of the public arguments.
    sizes : dict
        Sizes of the letters known already.

    Raises
    ------
    DataError
        When an argument is not of the declared axes.
    """
    for name, value in arguments.items():
        letters = takes[name].axes.split() if name in takes else []
        if letters[:1] == ["size"]:
            sizes[letters[1]] = _size(step, name, value)
            continue
        shape = tuple(getattr(value, "shape", ()))
        wanted = tuple(
            sizes.setdefault(letter, size)
            for letter, size in zip(letters, shape, strict=False)
        )
        if shape != wanted or len(letters) != len(shape):
            hint = f' Declare takes={{"{name}": "..."}}.' * (not letters)
            raise DataError(
                f"{step} takes {name} with axes ({', '.join(letters)}), "
                f"not an array of shape {shape}.{hint}",
                rule="arguments",
            )
    return sizes


def _size(step: str, name: str, value: Any) -> int:
    if type(value) is not int or not 1 <= value < 2**31:
        raise DataError(
            f"{step} takes {name} as a whole number of at least 1, not {value!r}.",
            rule="arguments",
        )
    return value
