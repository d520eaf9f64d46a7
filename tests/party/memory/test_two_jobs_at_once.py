"""Two processes of a silo with one log: what one writes counts in the other at once.

The other job gets in where a check and a write of the first lie furthest apart.
"""

import pytest

from logged_silos import NAMES, place
from unpooled import PCA, GaussianPrivacy, Policy
from unpooled.errors import ReleaseRefusedError
from unpooled.party.memory.audit_log import AuditLog

# A fixture of another module.
__all__ = ["place"]


def two_jobs(place, monkeypatch, fit, before, **policy):
    """Run a job in the middle of another, and return the rule that ends the first.

    Parameters
    ----------
    fit : callable
        Runs a job over a federation of its own.
    before : str
        The method of `AuditLog` at whose first call in silo a the other job runs.
    """
    place.start(policy=Policy(**policy))
    logs = [place.parties[name].audit_log for name in NAMES]
    first = place.federation("abc", "first")
    place.start(policy=Policy(**policy))
    second = place.federation("abc", "second")
    write, others, ended = getattr(AuditLog, before), [second], []

    def in_between(log, *given, **named):
        if log is logs[0] and others:
            ended.append(fit(others.pop()))
        return write(log, *given, **named)

    monkeypatch.setattr(AuditLog, before, in_between)
    with pytest.raises(ReleaseRefusedError) as refused:
        fit(first)
    assert len(ended) == 1
    return refused.value.rule


def test_privacy_is_not_spent_twice(place, monkeypatch):
    # Costs add up as squares: of 1.0 there is room for one of two costs of 0.8.
    privacy = GaussianPrivacy(epsilon=0.8, delta=Policy().privacy_delta, row_norm=20.0)
    rule = two_jobs(
        place,
        monkeypatch,
        lambda federation: PCA(2, privacy=privacy).fit(federation),
        "charged",
        privacy_budget=1.0,
    )
    assert rule == "privacy_budget"


def test_numbers_are_not_opened_twice(place, monkeypatch):
    # Equal totals would count once.
    columns = [["x0", "x1"], ["x0", "x1", "x2"]]
    rule = two_jobs(
        place,
        monkeypatch,
        lambda federation: PCA(2).fit(federation.select(columns.pop())),
        "released",
        # Of 90 cells of a column: room for the 4.3 numbers about each of three columns,
        # but not for those about two of them as well.
        max_released_share=0.06,
    )
    assert rule == "max_released_share"
