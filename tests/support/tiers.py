"""Which cases of a parametrised test `make test` has; `make test-long` has the rest."""

from collections.abc import Iterable
from typing import Any

import pytest

# A case is its own name, or the value beside its name.
Case = str | tuple[str, Any]


def mostly_slow(cases: Iterable[Case], *usual: str) -> list[Any]:
    """Return the cases as pytest's parameters, all slow but the usual ones."""
    named = [case if isinstance(case, tuple) else (case, case) for case in cases]
    unknown = set(usual) - {name for name, _ in named}
    assert not unknown, f"no cases: {unknown}"
    return [
        pytest.param(value, id=name, marks=() if name in usual else pytest.mark.slow)
        for name, value in named
    ]


def slow(cases: Iterable[Case], *names: str) -> list[Any]:
    """Return the cases as pytest's parameters, those of these names slow."""
    every = list(cases)
    found = [case if isinstance(case, str) else case[0] for case in every]
    unknown = set(names) - set(found)
    assert not unknown, f"no cases: {unknown}"
    return mostly_slow(every, *(name for name in found if name not in names))
