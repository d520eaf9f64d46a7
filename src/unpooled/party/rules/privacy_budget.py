"""The privacy budget of a silo, over all its studies.

Costs of all releases add up as ρ (`unpooled.secure.noise`), also where each is chosen
after the answers before it; the policy's budget is an ε, at its δ, on their sum. A cost
is written before the step runs, so that a failure that depends on rows is no free
answer.

It is refunded where the rows could not be reached. Of such an attempt everybody learns
that the database or drive was away, which no row decides, and no noise that was drawn
for it: however often it is repeated, with other noise each time, the answers together
have the distribution of the one that is paid for.
"""

import math

from unpooled.party.memory.audit_log import AuditLog
from unpooled.party.rules.policy import Policy
from unpooled.protocol.refusal import Refusal
from unpooled.secure.noise import epsilon_of


def check_budget(policy: Policy, audit_log: AuditLog, rho: float) -> None:
    """Refuse a release whose ρ exceeds the room that the policy's budget has left."""
    if rho <= 0.0 or policy.privacy_budget == math.inf:
        return
    epsilon = epsilon_of(audit_log.spent() + rho, policy.privacy_delta)
    # A budget of ε has room for ε, whatever the last digit of the sum is.
    if epsilon > policy.privacy_budget * (1.0 + 1e-9):
        raise Refusal("privacy_budget")
