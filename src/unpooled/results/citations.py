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
    apart_from : str
        Where it is: what of it is not, as a part of a sentence.
    """

    sentence: str
    references: tuple[str, ...] = field(default=())
    exact: bool = True
    apart_from: str = ""


def interpolated(what: str, model: Any) -> str:
    """Return quantiles as what is not that of pooled data; see `Citation`.

    Parameters
    ----------
    what : str
        Such as "medians".
    model : FederatedEstimator
        A fitted model with `min_rows`, the number of values that the bracket of a
        quantile has at least; with 1 it ends at the quantile itself, as where each
        silo computed those of its own columns.
    """
    exact = "kept_" in vars(model) or model.min_rows <= 1
    return (
        ""
        if exact
        else f"{what}, interpolated between at least {model.min_rows} values"
    )


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
