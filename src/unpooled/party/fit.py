"""What a silo checks a transform against: the rounds of its fit, opened again."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, final

from unpooled.arrays import Array


@final
@dataclass(frozen=True, eq=False)
class Fit:
    """One round that fitted a transform, as a party can check it.

    Attributes
    ----------
    public : mapping
        The public arguments with which the step ran.
    totals : mapping of str to array
        What it gave, over all parties.
    earlier : tuple of Fit
        The rounds of the same step that were shown before this one.
    """

    public: Mapping[str, Any]
    totals: Mapping[str, Array]
    earlier: "tuple[Fit, ...]" = ()


# (fits by the name of their step's function, the transform's public arguments) ->
# whether a fit with these totals gives these arguments, and no others.
Follows = Callable[[Mapping[str, Fit], Mapping[str, Any]], bool]
