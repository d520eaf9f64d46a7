"""Which cases of a parametrised test `make test` has; `make test-long` has the rest.

make test         the usual cases
.ci/run           and of the slow tests of each file a share, others of each commit
make test-long    all
"""

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

# Models whose fits have many rounds: `make test` has them in tests of their own alone.
LONG = {"Describe", "GLM", "Histogram", "KBinsDiscretizer", "LogisticRegression"}
LONG |= {"MetaAnalysis", "PersonalizedPCA", "PowerTransformer", "QuantileTransformer"}
LONG |= {"Quantiles", "RobustScaler", "VFedPCA"}
# A case is its own name, or the value beside its name.
Case = str | tuple[str, Any]


def thin_out(items: Iterable[pytest.Item]) -> None:
    """Mark as slow most cases of the tests that are marked `thinned`.

    ``thinned`` keeps every value of every parameter in some case, ``thinned(n)`` keeps
    n cases from the first to the last, and ``thinned("a", ...)`` the cases named. Of
    the checks of an estimator whose fit is long, the one over many splits is slow too,
    and so are the controls of attacks, which show what happens without a rule.
    """
    grids: dict[str, list[pytest.Item]] = {}
    for item in items:
        if _is_of_many_long_fits(item) or _is_control(item):
            item.add_marker(pytest.mark.slow)
        if item.get_closest_marker("slow") is None and hasattr(item, "callspec"):
            grids.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for cases in grids.values():
        if (mark := cases[0].get_closest_marker("thinned")) is not None:
            usual = _usual(cases, mark.args)
            for case in cases:
                if case not in usual:
                    case.add_marker(pytest.mark.slow)


def left_out(items: Iterable[pytest.Item], share: int, seed: str) -> set[pytest.Item]:
    """Return the slow tests that are not in a sample.

    Parameters
    ----------
    items : iterable of Item
        All that were collected, after `thin_out`.
    share : int
        One in so many slow tests of each file is in the sample, and at least one; a
        case of a parametrised test counts as one.
    seed : str
        Any text; the same one gives the same sample.
    """
    files: dict[Path, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("slow") is not None:
            files.setdefault(item.path, []).append(item)

    def place(item: pytest.Item) -> bytes:
        return hashlib.sha256(f"{seed} {item.nodeid}".encode()).digest()

    found = set[pytest.Item]()
    for tests in files.values():
        found.update(sorted(tests, key=place)[-(-len(tests) // share) :])
    return found


def _is_of_many_long_fits(item: Any) -> bool:
    """Return whether a case fits a model of many rounds over many splits."""
    case = getattr(item, "callspec", None)
    check: Any = case.params.get("check") if case else None
    over_splits = getattr(check, "__name__", "") == "check_splits"
    return over_splits and type(check.trial.model).__name__ in LONG


def _is_control(item: pytest.Item) -> bool:
    """Return whether a test shows that an attack would work without its rule."""
    return item.name.startswith("test_control_") and item.path.parent.name == "attacks"


def _usual(cases: list[Any], how: tuple[Any, ...]) -> list[Any]:
    """Return the cases that `make test` has of a test."""
    if not how:
        return _covering(cases)
    if isinstance(how[0], int):
        step = max(how[0] - 1, 1)
        places = {i * (len(cases) - 1) // step for i in range(how[0])}
        return [cases[place] for place in places]
    return [case for case in cases if case.callspec.id in how]


def _covering(cases: list[Any]) -> list[Any]:
    """Return few cases among which every value of every parameter occurs."""
    chosen = []
    # Of a grid, cases share the objects that stand in the lists of values.
    values = [{(n, id(v)) for n, v in case.callspec.params.items()} for case in cases]
    lacking = set().union(*values)
    while lacking:
        place = max(range(len(cases)), key=lambda i: len(lacking & values[i]))
        chosen.append(cases[place])
        lacking -= values[place]
    return chosen


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
