"""Two processes of a silo with one log: what one writes counts in the other at once.

The other job gets in where a check and a write of the first lie furthest apart.
"""

from logged_silos import NAMES, place
from unpooled import PCA, GaussianPrivacy, Policy
from unpooled.errors import DataError, ReleaseRefusedError
from unpooled.party.memory.audit_log import AuditLog

# A fixture of another module.
__all__ = ["place"]


def two_jobs(place, monkeypatch, before, model, columns, **policy):
    """Run a job in the middle of another; return the rules that end the two.

    Parameters
    ----------
    before : str
        The method of `AuditLog` at whose first call in silo a the other job runs.
    model : estimator
        Of both.
    columns : pair of lists of str
        What the first job reads, and the other.
    """
    logs, jobs = [], []
    for study, names in zip(("first", "other"), columns, strict=True):
        place.start(policy=Policy(**policy))
        logs.append([place.parties[name].audit_log for name in NAMES])
        jobs.append(place.federation("abc", study).select(names))
    write, rules = getattr(AuditLog, before), list[str]()

    def in_between(log, *given, **named):
        if log is logs[0][0] and not rules:
            rules.append("")
            rules.append(rule_of(model, jobs[1]))
        return write(log, *given, **named)

    monkeypatch.setattr(AuditLog, before, in_between)
    rules[0] = rule_of(model, jobs[0])
    return rules


def rule_of(model, federation):
    try:
        model.fit(federation)
    except ReleaseRefusedError as refused:
        return refused.rule
    except DataError:
        # Silos have answered; noise may be as large as the number of rows.
        pass
    return ""


TWO, THREE = ["x0", "x1"], ["x0", "x1", "x2"]


def test_privacy_is_not_spent_twice(place, monkeypatch):
    # Costs add up as squares: of 1.0 there is room for one of two costs of 0.8.
    delta = Policy().privacy_delta
    model = PCA(2, privacy=GaussianPrivacy(epsilon=0.8, delta=delta, row_norm=20.0))
    rules = two_jobs(
        place, monkeypatch, "charged", model, (THREE, THREE), privacy_budget=1.0
    )
    assert rules == ["privacy_budget", ""]


def test_numbers_are_not_opened_twice(place, monkeypatch):
    # Of 90 cells of a column: room for the 4.3 numbers about each of three columns, but
    # not for those about two of them as well. Equal totals would count once.
    rules = two_jobs(
        place, monkeypatch, "released", PCA(2), (THREE, TWO), max_released_share=0.06
    )
    assert rules == ["max_released_share", ""]


def test_refusals_are_not_given_twice(place, monkeypatch):
    rules = two_jobs(
        place,
        monkeypatch,
        "refused",
        PCA(2),
        (THREE, TWO),
        max_refusals=1,
        min_rows=40,
    )
    assert rules == ["refusals", "min_rows"]


def test_nothing_is_answered_beside_the_last_refusal(place, monkeypatch):
    """The verdicts on many thresholds that are tried at once tell a number."""
    rules = two_jobs(
        place,
        monkeypatch,
        "released",
        PCA(2),
        (TWO, THREE),
        max_refusals=1,
        max_feature_ratio=0.08,
    )
    assert rules == ["refusals", "max_feature_ratio"]
    assert len(AuditLog(place.log("a")).ledger("first")) == 0
