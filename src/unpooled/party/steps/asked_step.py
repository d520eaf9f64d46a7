"""One request to run a step, as a party answers it."""

from dataclasses import dataclass
from functools import cached_property
from typing import final

from unpooled.party.views.view import IdColumn, View
from unpooled.protocol.privacy_cost import cost
from unpooled.protocol.request import Request
from unpooled.protocol.step import Step


@final
@dataclass(frozen=True, eq=False)
class AskedStep:
    """A request with the step that it names and the view that the step reads.

    Every rule of the party reads this object, so nothing is looked up twice.

    Attributes
    ----------
    request : Request
        As it came.
    step : Step
        The declared step; of matching, the stage.
    view : View or IdColumn
        The rows and columns that the step reads.
    """

    request: Request
    step: Step
    view: View | IdColumn

    @cached_property
    def rho(self) -> float:
        """The ρ that the request costs the silo, 0 where it promises no privacy."""
        return cost(self.step, self.request.public)
