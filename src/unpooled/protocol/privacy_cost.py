"""Cost of private releases: the ρ of one request, and of a whole study together.

    request ── step's declaration, (ε, δ), share ──> ρ     in the silo, beforehand
    ledger  ── ρ of every line ─────────────────────> ε     over all steps of a study

The silo computes the cost of a request itself, and so does the coordinator for its
ledger, from the declaration and the (ε, δ) of the request. Every line of a private
release has its ρ, which the silo signs. All costs add up, whatever step they are of:
`unpooled.secure.noise` has the rule.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, final

from unpooled.ledger import Release
from unpooled.protocol.refusal import Refusal
from unpooled.protocol.step import Step
from unpooled.secure.noise import epsilon_of, rho_of


def is_private(step: Step) -> bool:
    """Whether everything that leaves has noise in it."""
    return bool(step.leaves) and all(d.noise for d in step.leaves.values())


def cost(step: Step, public: Mapping[str, Any]) -> float:
    """Return the ρ that a request costs a silo, 0 where it promises no privacy.

    A step that takes a `share` costs that part of the (ε, δ)'s ρ: rounds whose shares
    add up to 1 cost (ε, δ) together. The noise is drawn for the same ρ that is charged.

    Raises
    ------
    Refusal
        As "arguments", when the (ε, δ) or the share is none.
    """
    if not is_private(step):
        return 0.0
    epsilon, delta = public.get("epsilon"), public.get("delta")
    if not isinstance(epsilon, float) or not isinstance(delta, float):
        raise Refusal("arguments")
    if not (0 < epsilon < math.inf and 0 < delta < 1):
        raise Refusal("arguments")
    share = public.get("share", 1.0)
    if not isinstance(share, float) or not 0.0 < share <= 1.0:
        raise Refusal("arguments")
    return rho_of(epsilon, delta) * share


@final
@dataclass(frozen=True)
class Spent:
    """The cost of several private releases together.

    Attributes
    ----------
    rho : float
        The sum of their ρ.
    delta : float
        The smallest δ of their requests.
    epsilon : float
        The ε at this δ, of all of them together.
    steps : tuple of str
        The steps that released them, in order.
    exact : tuple of str
        Other steps whose results left without noise, in order.
    """

    rho: float
    delta: float
    epsilon: float
    steps: tuple[str, ...]
    exact: tuple[str, ...]

    def __str__(self) -> str:
        """Return the cost as a sentence."""
        one = len({name.rpartition(".")[0] for name in self.steps}) == 1
        text = (
            f"Differential privacy: the releases with noise"
            f"{'' if one else ' of all steps'} are together private with "
            f"ε = {self.epsilon:.4g} at δ = {self.delta:g} (ρ = {self.rho:.4g})."
        )
        if not self.exact:
            return f"{text} No total leaves without noise."
        names = ", ".join(self.exact)
        return f"{text} This does not cover what leaves without noise: {names}."


def spent(lines: Iterable[Release]) -> Spent | None:
    """Return the cost of the private releases among ledger lines, if there are any."""
    left = [line for line in lines if line.direction == "out"]
    private = [line for line in left if line.rho > 0.0]
    if not private:
        return None
    rho = math.fsum(line.rho for line in private)
    delta = min(line.delta for line in private)
    exact = (line.step for line in left if line.rho == 0.0)
    return Spent(
        rho=rho,
        delta=delta,
        epsilon=epsilon_of(rho, delta),
        steps=tuple(dict.fromkeys(line.step for line in private)),
        exact=tuple(dict.fromkeys(exact)),
    )
