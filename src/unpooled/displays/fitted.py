"""Attributes of a fitted model for a display, never requested from the silos."""

from typing import Any

from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from unpooled.errors import DataError


def last_step(model: Any) -> Any:
    """Return a fitted model; of a Pipeline, its last step.

    Raises
    ------
    NotFittedError
        Before a fit.
    """
    if isinstance(model, Pipeline):
        model = model.steps[-1][1]
    check_is_fitted(model)
    return model


def opened(model: Any, name: str, display: str) -> Any:
    """Return a fitted attribute that is there.

    Raises
    ------
    DataError
        When the silos keep it, or the model does not have it. A display asks silos for
        nothing: reading the attribute does, where that is wanted.
    """
    # Not `getattr`: the silos would be asked for what they keep.
    if name in vars(model):
        return vars(model)[name]
    kind = type(model).__name__
    if "kept_" in vars(model) and name in getattr(type(model), "_kept_by_silos", ()):
        raise DataError(
            f"{name} is kept in the silos, and {display} asks them for nothing. Read "
            f"the attribute {name} of this {kind} first, where the silos allow it."
        )
    raise DataError(f"{display} draws {name}, which this {kind} does not have.")


def checked_pair(components: Any, k: int, display: str) -> tuple[int, int]:
    """Return the positions of two components; refuse others.

    Raises
    ------
    DataError
        When they are not two different positions of the k components.
    """
    pair = tuple(components)
    whole = all(type(i) is int and 0 <= i < k for i in pair)
    if len(pair) != 2 or not whole or pair[0] == pair[1]:
        raise DataError(
            f"{display} has two axes: components={components!r} must be two different "
            f"positions from 0 to {k - 1}."
            if k > 1
            else f"{display} has two axes, and this model has one component."
        )
    return pair[0], pair[1]
