"""Everything this library raises on purpose.

UnpooledError
├── DataError              a silo's table does not fit the study (also a ValueError)
├── ReleaseRefusedError    a party refused to release a value
├── AggregationError       a secure sum could not be opened
├── ConvergenceError       a solver stopped before it reached its tolerance
└── StudyError             a study file, run folder, ledger or model file is invalid

Inside a silo the messages may name columns, files and values. Only the name of a rule
crosses the silo boundary: both ends look up its sentence in `RULES`, so no value, count
or path can leave with an error.
"""

from unpooled.errors.rules import DATA_RULES, RULES

__all__ = ["DATA_RULES", "RULES", "AggregationError", "ConvergenceError", "DataError"]
__all__ += ["ReleaseRefusedError", "StudyError", "UnpooledError", "crossing"]


class UnpooledError(Exception):
    """Anything this library raises on purpose.

    Parameters
    ----------
    message : str
        What came, what is allowed, what to do.
    rule : str, optional
        The key of `RULES` under which the error may cross the silo boundary;
        ``"failed_in_silo"`` when omitted.
    """

    def __init__(self, message: str, *, rule: str = "failed_in_silo") -> None:
        super().__init__(message)
        self.rule = rule


class DataError(UnpooledError, ValueError):
    """A silo's table, or an argument about it, does not fit what was asked."""


class ReleaseRefusedError(UnpooledError):
    """A party refused to release a value from its silo.

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
    """A solver stopped before it reached its tolerance; the message says how near."""


class StudyError(UnpooledError):
    """A study file, a run folder, a ledger or a model file is invalid."""


def crossing(reason: Exception) -> tuple[str, str]:
    """Return the class name and the rule of an error: all of it that may leave."""
    rule = getattr(reason, "rule", "")
    kind = "ReleaseRefusedError"
    for other in (DataError, AggregationError):
        if isinstance(reason, other):
            kind = other.__name__
    return kind, rule if isinstance(rule, str) and rule in RULES else "failed_in_silo"
