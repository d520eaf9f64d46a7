"""Everything this library raises on purpose.

UnpooledError
├── DataError              a silo's table does not fit the study (also a ValueError)
├── ReleaseRefusedError    a party declined to let a value leave
├── AggregationError       a secure sum could not be opened
├── ConvergenceError       a solver stopped before its tolerance
└── StudyError             a study, a run or a file of one is not what it should be

At home these are rich. Across the silo boundary only the name of a rule travels: both
ends look its sentence up in `RULES`, so no value, count or path can ride along.
"""

from unpooled.errors.rules import RULES

__all__ = ["RULES", "AggregationError", "ConvergenceError", "DataError"]
__all__ += ["ReleaseRefusedError", "StudyError", "UnpooledError", "crossing"]


class UnpooledError(Exception):
    """Anything this library raises on purpose.

    Parameters
    ----------
    message : str
        What came, what is allowed, what to do.
    rule : str, optional
        The key of `RULES` under which the error may cross the silo boundary; without
        one it crosses as ``"failed_in_silo"``.
    """

    def __init__(self, message: str, *, rule: str = "failed_in_silo") -> None:
        super().__init__(message)
        self.rule = rule


class DataError(UnpooledError, ValueError):
    """A silo's table, or an argument about it, does not fit what was asked."""


class ReleaseRefusedError(UnpooledError):
    """A party declined to let a value leave its silo.

    The message crosses the silo boundary, so it is itself a release: it names the
    party, the step and the rule, and never a value, a row count or a path.
    """

    def __init__(self, party: str, step: str, rule: str, remedy: str = "") -> None:
        sentence, default = RULES.get(rule, (rule, ""))
        remedy = remedy or default
        super().__init__(
            f"{party} refused {step}: {rule} ({sentence}). {remedy}".rstrip(), rule=rule
        )
        self.party, self.step, self.remedy = party, step, remedy


class AggregationError(UnpooledError):
    """A secure sum could not be formed or opened, so nothing was learned from it."""


class ConvergenceError(UnpooledError):
    """A solver stopped before its tolerance; the message says how far it came."""


class StudyError(UnpooledError):
    """A study file, a run folder, a ledger or a model file is not what it should be."""


def crossing(reason: Exception) -> tuple[str, str]:
    """Return what may cross the silo boundary of an error: its kind, and its rule."""
    rule = getattr(reason, "rule", "")
    kind = "ReleaseRefusedError"
    for other in (DataError, AggregationError):
        if isinstance(reason, other):
            kind = other.__name__
    return kind, rule if isinstance(rule, str) and rule in RULES else "failed_in_silo"
