"""Which cases of a parametrised test `make test` has; `make test-long` has the rest."""

from collections.abc import Iterable, Mapping
from typing import Any

import pytest


def mostly_slow(cases: Mapping[str, Any] | Iterable[str], *usual: str) -> list[Any]:
    """Return the cases as pytest's parameters, all slow but the usual ones."""
    named = cases if isinstance(cases, Mapping) else {name: name for name in cases}
    assert set(usual) <= set(named), f"no cases: {set(usual) - set(named)}"
    return [
        pytest.param(case, id=name, marks=() if name in usual else pytest.mark.slow)
        for name, case in named.items()
    ]


def slow(cases: Mapping[str, Any] | Iterable[str], *names: str) -> list[Any]:
    """Return the cases as pytest's parameters, those of these names slow."""
    every = list(cases)
    assert set(names) <= set(every), f"no cases: {set(names) - set(every)}"
    return mostly_slow(cases, *(name for name in every if name not in names))
