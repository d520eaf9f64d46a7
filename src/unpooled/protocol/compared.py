"""Declaring steps of whose totals everybody learns a sign, and nothing else.

@compared(Polynomial({("a", "b"): 1.0, ("c",): -1.0}, ...), below=release("l"))
def local_parts(X, ...): return {"a": ..., "b": ..., "c": ...}
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from unpooled.protocol.declaration import Public
from unpooled.protocol.step import Step, summed
from unpooled.secure.comparison.polynomial import Polynomial

__all__ = ["Polynomial", "compared"]


def compared(
    polynomial: Polynomial,
    *,
    by: str = "rows",
    takes: Mapping[str, str | Public] | None = None,
    **declared: Any,
) -> Callable[[Callable[..., Any]], Step]:
    """Declare a step of whose totals everybody learns one sign.

    Parameters
    ----------
    polynomial : Polynomial
        Of the arrays that the step returns, entry by entry; whether it is negative is
        computed by the parties together.
    by, takes
        As of `summed`.
    **declared : str or Declared
        The one array of signs, with the axes of the arrays that the step returns.
    """
    if len(declared) != 1:
        raise TypeError(f"A comparison declares one array of signs, not {declared}.")

    def declare(function: Callable[..., Any]) -> Step:
        step = summed(by=by, takes=takes, **declared)(function)
        return replace(step, verb="compared", polynomial=polynomial)

    return declare
