"""What a silo's private releases have cost so far, over all studies.

Costs are those of zero-concentrated differential privacy, which add up; the policy's
budget is an ε, at its δ, on their sum. It is written with the round that it paid for,
before the reply leaves: after a crash a cost may stand for a reply that nobody got, and
never the other way round.
"""

import math
from typing import final

from unpooled.party.memory.audit_log import AuditLog
from unpooled.party.rules.policy import Policy
from unpooled.protocol.refusal import Refusal
from unpooled.secure.noise import epsilon_of


@final
class PrivacyBudget:
    """A silo's account.

    Parameters
    ----------
    policy : Policy
        Has `privacy_budget` and `privacy_delta`.
    journal : AuditLog, optional
        Knows what was spent, over restarts and in every process; without it the account
        lives as long as the party.
    """

    def __init__(self, policy: Policy, journal: AuditLog | None = None) -> None:
        self._policy, self._journal = policy, journal
        self._spent = 0.0

    @property
    def spent(self) -> float:
        """The ρ of all releases so far."""
        return self._spent if self._journal is None else self._journal.spent()

    def check(self, rho: float) -> None:
        """Refuse what the budget has no room for."""
        if rho <= 0.0 or self._policy.privacy_budget == math.inf:
            return
        told = epsilon_of(self.spent + rho, self._policy.privacy_delta)
        # A budget of ε has room for ε, whatever the last digit of the sum is.
        if told > self._policy.privacy_budget * (1.0 + 1e-9):
            raise Refusal("privacy_budget")

    def record(self, rho: float) -> None:
        """Add a cost; a journal has it from its round."""
        self._spent += rho
