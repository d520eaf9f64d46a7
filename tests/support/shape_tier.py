"""A pytest plugin for `make test-shapes`: every annotated function, in one case.

``--jaxtyping-packages=unpooled,shape_tier.checked`` checks arguments and results by
beartype, and notes which functions were entered. Of a parametrised test only the first
case runs, unless it is marked `shapes`: another case enters the same functions.

With ``--every-shape`` the run fails where a function of the library whose annotation
has the shape of an array was not entered.
"""

import functools
import inspect
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

CHECKER = "shape_tier.checked"
ARRAYS = ("Float[", "Int[", "Bool[", "Shaped[", "UInt8[", "UInt64[")

annotated: set[str] = set()
entered: set[str] = set()


def checked(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return what jaxtyping calls with a function's arguments, or with its result."""
    from beartype import beartype

    check = beartype(function)
    name = f"{function.__module__}.{function.__qualname__}"
    hints = inspect.get_annotations(function).values()
    if not any(kind in str(hint) for hint in hints for kind in ARRAYS):
        return check
    annotated.add(name)

    @functools.wraps(function)
    def noted(*arguments: Any, **named: Any) -> Any:
        entered.add(name)
        return check(*arguments, **named)

    return noted


def is_concrete(name: str) -> bool:
    """Whether a function has a body to be entered: it is no abstract method."""
    module = name
    while module and module not in sys.modules:
        module = module.rpartition(".")[0]
    found: Any = sys.modules.get(module)
    for part in name[len(module) + 1 :].split("."):
        found = getattr(found, "__dict__", {}).get(part)
    return not getattr(found, "__isabstractmethod__", False)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--every-shape``."""
    parser.addoption(
        "--every-shape",
        action="store_true",
        help="fail where a function with an array's shape was not entered",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Switch the plugin on where its checker is named."""
    if (config.getoption("--jaxtyping-packages", "") or "").endswith(CHECKER):
        config.pluginmanager.register(ShapeTier())


class ShapeTier:
    """The selection of cases, and the list of functions that none of them entered."""

    def __init__(self) -> None:
        self.annotated, self.entered = annotated, entered

    # Once slow tests are gone: the first case of those that run.
    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        """Keep one case of each test, and all of those that are marked `shapes`."""
        seen, kept, gone = set(), [], []
        for item in items:
            test = item.nodeid.partition("[")[0]
            again = test in seen and item.get_closest_marker("shapes") is None
            (gone if again else kept).append(item)
            seen.add(test)
        config.hook.pytest_deselected(items=gone)
        items[:] = kept

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Add what a process of pytest-xdist saw."""
        shapes = getattr(node, "workeroutput", {}).get("shapes", ((), ()))
        self.annotated.update(shapes[0])
        self.entered.update(shapes[1])

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Fail where a function was not entered; a process of xdist reports instead."""
        self.annotated = set(filter(is_concrete, self.annotated))
        output = getattr(session.config, "workeroutput", None)
        if output is not None:
            output["shapes"] = sorted(self.annotated), sorted(self.entered)
        elif session.config.getoption("--every-shape") and self.missing():
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    @pytest.hookimpl(wrapper=True)
    def pytest_terminal_summary(
        self, terminalreporter: pytest.TerminalReporter, config: pytest.Config
    ) -> Iterator[None]:
        """List the functions that were not entered."""
        if config.getoption("--every-shape") and (missing := self.missing()):
            terminalreporter.section("annotated with shapes and not entered")
            for name in missing:
                terminalreporter.line(name)
        return (yield)

    def missing(self) -> list[str]:
        """Return the names of functions that no test entered, in order."""
        return sorted(self.annotated - self.entered)
