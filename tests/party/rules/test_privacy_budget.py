"""A release passes the budget with what was charged before it."""

import pytest

from unpooled import Policy
from unpooled.party.memory.audit_log import AuditLog
from unpooled.party.rules.privacy_budget import check_budget
from unpooled.protocol.refusal import Refusal
from unpooled.secure.noise import rho_of

DELTA = Policy().privacy_delta


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 5.0])
def test_a_budget_has_room_for_itself(epsilon):
    policy = Policy(privacy_budget=epsilon)
    check_budget(policy, AuditLog(), rho_of(epsilon, DELTA))
    with pytest.raises(Refusal, match="privacy_budget"):
        check_budget(policy, AuditLog(), rho_of(1.01 * epsilon, DELTA))


def test_costs_of_all_studies_add_up():
    policy, audit_log, rho = Policy(privacy_budget=1.0), AuditLog(), rho_of(1.0, DELTA)
    for study, share in (("first", 0.5), ("second", 0.25)):
        audit_log.charged(study, "pca.local_private", share * rho, lambda: None)
    check_budget(policy, audit_log, 0.25 * rho)
    with pytest.raises(Refusal, match="privacy_budget"):
        check_budget(policy, audit_log, 0.26 * rho)
    # What has no cost, and a silo without a budget, are never refused.
    check_budget(policy, audit_log, 0.0)
    check_budget(Policy.open(), audit_log, 100.0)
