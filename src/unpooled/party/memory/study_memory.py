"""What a party remembers: between the rounds of a fit, and between fits of a study."""

import fnmatch
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, final

from unpooled.errors import StudyError
from unpooled.ledger import Ledger
from unpooled.party.memory.kept_arrays import KeptStore
from unpooled.party.memory.partial_totals import TotalsCache
from unpooled.protocol.answered import Answered
from unpooled.protocol.message import digest

# A step that ran, with the transforms in front of it.
Ran = tuple[str, tuple[str, ...]]


@final
@dataclass(eq=False)
class StudyMemory:
    """What a party remembers of a study between fits.

    Attributes
    ----------
    kept : KeptStore
        Arrays that stay until the study ends.
    fitted : set of (str, tuple of str)
        Steps that ran, with the transforms in front of them: what a view may apply.
    answered : dict of str to Answered
        Rounds that were answered, by the SHA-256 of the request.
    ledger : Ledger
        The silo's own record of what crossed its door.
    totals_cache : TotalsCache
        Totals that steps add to when rows were appended.
    """

    kept: KeptStore = field(default_factory=KeptStore)
    fitted: set[Ran] = field(default_factory=set)
    answered: dict[str, Answered] = field(default_factory=dict)
    ledger: Ledger = field(default_factory=Ledger)
    totals_cache: TotalsCache = field(default_factory=TotalsCache)

    def as_record(self) -> dict[str, Any]:
        """Return what a party must know to go on after a restart, as JSON values.

        Which steps ran, never what they gave: what was kept lies on the shelf, which
        outlives the process where it has a folder. Without one a step that needs it is
        refused as "nothing_kept".
        """
        return {
            "fitted": [[step, list(front)] for step, front in sorted(self.fitted)],
            "answered": {key: a.as_record() for key, a in self.answered.items()},
        }

    @classmethod
    def from_record(cls, record: Any) -> "StudyMemory":
        """Read what `as_record` returned; anything else is a `StudyError`."""
        try:
            fitted = {(step, tuple(front)) for step, front in record["fitted"]}
            if not all(isinstance(n, str) for s, front in fitted for n in (s, *front)):
                raise TypeError("a step's name is not a text")
            if not all(isinstance(front, list) for _, front in record["fitted"]):
                raise TypeError("transforms are not a list")
            answered = {
                str(key): Answered.from_record(asked)
                for key, asked in record.get("answered", {}).items()
            }
        except (AttributeError, KeyError, TypeError, ValueError) as wrong:
            raise StudyError(
                f"This is not what a party remembers of a study: {wrong}."
            ) from wrong
        return cls(fitted=fitted, answered=answered)


@final
@dataclass(eq=False)
class LoggedStudy:
    """What the log says of one study.

    Attributes
    ----------
    lines : int
        Lines of the silo's own ledger.
    sealed : dict of str to int
        Of those, by the key that sealed them: each key counts its own.
    fitted : set of (str, tuple of str)
        Steps that ran, with the transforms in front of them, since it was forgotten.
    answered : dict of str to Answered
        Those rounds by the SHA-256 of the request.
    sessions : set of str
        Sessions that the silo joined, ever.
    text : str
        The study file as it was announced last; empty before.
    decision : mapping
        What a person decided last: "approved", "text" (a digest), "steps", "by".
    models : dict of str to str
        SHA-256 of the models that were delivered, by name, since it was forgotten.
    forgotten : int
        How often a person had it forgotten.
    refusals : int
        How often a refusal told of rows.
    """

    lines: int = 0
    sealed: dict[str, int] = field(default_factory=dict)
    fitted: set[Ran] = field(default_factory=set)
    answered: dict[str, Answered] = field(default_factory=dict)
    sessions: set[str] = field(default_factory=set)
    text: str = ""
    decision: Mapping[str, Any] = field(default_factory=dict)
    models: dict[str, str] = field(default_factory=dict)
    forgotten: int = 0
    refusals: int = 0

    @property
    def approval(self) -> str:
        """Either "approved", "denied", "waiting" for a person, or "unknown"."""
        if not self.text:
            return "unknown"
        # A decision is on a text: another one under the same name waits for its own.
        if self.decision.get("text") != digest(self.text.encode()):
            return "waiting"
        return "approved" if self.decision["approved"] else "denied"

    def approves(self, step: str) -> bool:
        """Whether a person approved the study, and the step as part of it."""
        patterns = self.decision.get("steps", ())
        return self.approval == "approved" and any(
            fnmatch.fnmatchcase(step, pattern) for pattern in patterns
        )
