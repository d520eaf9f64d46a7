"""The result of a check, whatever is checked: a run's folder, a silo, a kit."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

from unpooled.errors import UnpooledError


@final
@dataclass(frozen=True)
class Finding:
    """The result of one check.

    Attributes
    ----------
    what : str
        What was checked: "Ledger", "Models", the log of a silo, ...
    text : str
        What was found, in sentences.
    good : bool
        Whether nothing has to be done.
    """

    what: str
    text: str
    good: bool = True

    @classmethod
    def of(cls, what: str, look: Callable[[], str]) -> "Finding":
        """Return the finding of a check; the text of its error where it raises one."""
        try:
            return cls(what, look())
        except (UnpooledError, OSError, UnicodeError) as problem:
            return cls(what, str(problem), good=False)
