"""Checks of constructor parameters, with the same errors for all models."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from unpooled.errors import DataError


def check_choice(name: str, value: Any, allowed: Iterable[Any], why: str = "") -> None:
    """Refuse a value that is not among the allowed ones; `why` ends the sentence."""
    if value not in (choices := list(allowed)):
        *others, last = (f'"{x}"' if isinstance(x, str) else repr(x) for x in choices)
        named = " or ".join([", ".join(others), last] if others else [last])
        raise DataError(f"{name}={value!r}; choose {named}{why}.")


def whole_number(
    name: str, value: Any, least: int = 1, most: int | None = None, why: str = ""
) -> int:
    """Return a whole number as an int; refuse all but those from `least` to `most`.

    `why` ends the sentence of the refusal.
    """
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not whole or value < least or (most is not None and value > most):
        to = "" if most is None else f" to {most}"
        raise DataError(
            f"{name}={value!r}; choose a whole number from {least}{to}{why}."
        )
    return int(value)


def is_number(value: Any) -> bool:
    """Return whether a value is a number; True and False are none."""
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)


def check_share(name: str, value: float) -> None:
    """Refuse a number outside [0, 1]."""
    if not 0.0 <= value <= 1.0:
        raise DataError(f"{name}={value!r}; choose a number in [0, 1].")


def check_alpha(alpha: Any) -> None:
    """Refuse what is no complement of the level of an interval, such as the level."""
    if not is_number(alpha) or not 0.0 < alpha <= 0.5:
        raise DataError(
            f"alpha={alpha!r} is one less the level, as in statsmodels: choose a "
            f"number above 0 and at most 0.5, such as 0.05 for intervals at 95 %."
        )


def component_count(k: Any, most: int) -> int:
    """Return the number of components; refuse all but whole numbers up to `most`."""
    # As scikit-learn's checks of estimators expect it.
    why = f": `n_components` upper bound is {most}"
    return whole_number("n_components", k, most=most, why=why)
