"""A pytest plugin for `make test-shapes`: every annotated function, in one case.

``--jaxtyping-packages=unpooled,shape_tier.checked`` checks arguments and results by
beartype, and notes which functions were entered. Of a parametrised test only the first
case runs, unless it is marked `shapes`: another case enters the same functions.

jaxtyping binds the arguments of every call anew, checks them before the call and after
it, and makes its checks each time that a function inside another is defined. So it has
the functions whose annotations name a shape alone; all others are checked by beartype
itself, and functions inside others by checks that are made once.

With ``--every-shape`` the run fails where a function of the library whose annotation
has the shape of an array was not entered.
"""

import dataclasses
import functools
import inspect
import sys
from collections.abc import Callable, Iterator
from types import FunctionType, SimpleNamespace
from typing import Any, get_type_hints

import pytest

CHECKER = "shape_tier.checked"
ARRAYS = ("Float[", "Int[", "Bool[", "Shaped[", "UInt8[", "UInt64[")

annotated: set[str] = set()
entered: set[str] = set()
# Checks of functions inside others, by name and signature.
made: dict[Any, Callable[..., Any]] = {}


def checked(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return what jaxtyping calls with a function's arguments, or with its result."""
    from beartype import beartype

    name = f"{function.__module__}.{function.__qualname__}"
    hints = function.__annotations__
    # jaxtyping makes two functions without a body for each that it decorates.
    code, inner = function.__code__, "<locals>" in name
    optional = len(function.__defaults__ or ()), *(function.__kwdefaults__ or ())
    same = (name, code.co_flags, code.co_argcount, code.co_varnames, optional)
    same += (str(hints),)
    if inner and same in made:
        return made[same]
    check: Callable[..., Any] = beartype(function)
    if has_shape(hints):
        annotated.add(name)
        check = noted(name, check)
    if inner:
        made[same] = check
    return check


def noted(name: str, check: Callable[..., Any]) -> Callable[..., Any]:
    """Return a check that notes which function was entered."""

    @functools.wraps(check)
    def noting(*arguments: Any, **named: Any) -> Any:
        entered.add(name)
        return check(*arguments, **named)

    return noting


def has_shape(hints: dict[str, Any]) -> bool:
    """Whether an annotation has the shape of an array."""
    return any(kind in str(hint) for hint in hints.values() for kind in ARRAYS)


def decorating(jaxtyped: Callable[..., Any], *, typechecker: Any) -> Callable[..., Any]:
    """Return the decorator of a library's functions and classes: jaxtyping's, or less.

    Parameters
    ----------
    jaxtyped : callable
        ``jaxtyping.jaxtyped``.
    typechecker : callable
        `checked`, by the name that the hook has for it.
    """
    theirs = jaxtyped(typechecker=typechecker)

    def decorate(thing: Any) -> Any:
        if isinstance(thing, FunctionType):
            return without_shapes(thing) or theirs(thing)
        init = vars(thing).get("__init__")
        if dataclasses.is_dataclass(thing) and isinstance(init, FunctionType):
            # One that the class defines is decorated as a function already.
            if not hasattr(init, "__wrapped__"):
                thing.__init__ = without_shapes(init) or theirs(init)
            return thing
        return theirs(thing)

    return decorate


def without_shapes(function: FunctionType) -> Callable[..., Any] | None:
    """Return a function checked by beartype alone; None where that is not enough."""
    from beartype import BeartypeConf, beartype
    from jaxtyping import TypeCheckError

    inner = "<locals>" in function.__qualname__
    if inner or inspect.isgeneratorfunction(function):
        return None
    scope = function.__globals__
    hints = {n: resolved(h, scope) for n, h in function.__annotations__.items()}
    if has_shape(hints):
        return None
    # A copy, since the library reads the annotations of its functions as they stand.
    copy = FunctionType(
        function.__code__,
        scope,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    functools.update_wrapper(copy, function)
    copy.__kwdefaults__ = function.__kwdefaults__
    copy.__annotations__ = hints
    # An error is the one that jaxtyping raises, which is a TypeError.
    check: Any = beartype(conf=BeartypeConf(violation_type=TypeCheckError))(copy)
    return functools.update_wrapper(check, function)


def resolved(hint: Any, scope: dict[str, Any]) -> Any:
    """Return an annotation without strings; Any where a name is not known (yet)."""
    try:
        return get_type_hints(
            SimpleNamespace(__annotations__={"it": hint}), scope, include_extras=True
        )["it"]
    except Exception:  # as jaxtyping has it
        return Any


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
        install()


def install() -> None:
    """Put `decorating` where jaxtyping's import hook finds its decorator."""
    import jaxtyping

    jaxtyping.jaxtyped = functools.partial(decorating, jaxtyping.jaxtyped)


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
