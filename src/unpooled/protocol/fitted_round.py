"""What a silo checks a transform against: the rounds of its fit, opened again."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, final

from unpooled.arrays import Array
from unpooled.protocol.view_operations import Operation


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
    further : tuple of Operation
        What stood between the transform's columns and the round: a selection that
        begins with these columns, a transform that the silo accepted then. Empty unless
        the transform is declared with `further`.
    """

    public: Mapping[str, Any]
    totals: Mapping[str, Array]
    earlier: "tuple[Fit, ...]" = ()
    further: tuple[Operation, ...] = ()

    @property
    def rounds(self) -> "tuple[Fit, ...]":
        """The rounds of the step, in order, this one last."""
        return (*self.earlier, self)


# (fits by the name of their step's function, the transform's public arguments) ->
# whether a fit with these totals gives these arguments, and no others.
Follows = Callable[[Mapping[str, Fit], Mapping[str, Any]], bool]
