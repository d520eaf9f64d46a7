"""An estimator's sentence for the methods section of a paper, and the works it cites.

Each estimator has its own, in its method ``_citation``, so that a report's paragraph on
methods needs no list of estimators.
"""

from dataclasses import dataclass, field
from typing import Any, final

from unpooled.results.subjects import first_line


@final
@dataclass(frozen=True)
class Citation:
    """One step of an analysis, for the methods section of a paper.

    Attributes
    ----------
    sentence : str
        What was done, in the past tense, with the parameters that matter.
    references : tuple of str
        The works that describe it: authors, title, place and year.
    exact : bool
        Whether the result is that of pooled data, up to rounding. False for published
        approximations, and where noise was added.
    """

    sentence: str
    references: tuple[str, ...] = field(default=())
    exact: bool = True


def citation_of(model: Any) -> Citation:
    """Return the method of a model; of another library's, a sentence with its class."""
    own = getattr(type(model), "_citation", None)
    return plain_citation(model) if own is None else model._citation()


def plain_citation(model: Any) -> Citation:
    """Return the method of a model that declares none, by the first line on it."""
    kind = type(model)
    what = first_line(kind.__module__).strip()
    about = f" ({what[:1].lower()}{what[1:]})" if what else ""
    return Citation(f"The model {kind.__name__}{about} was fitted.")
