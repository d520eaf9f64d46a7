"""scikit-learn's own test functions, run against ours.

They ship inside the installed package. A module of them is executed once more, with our
adapter where scikit-learn's class would be, and the functions that use it are handed to
pytest with their own marks. No code of theirs is copied.
"""

import importlib
import importlib.util
import inspect
from collections import Counter
from types import CodeType, FunctionType, ModuleType
from typing import Any
from unittest import mock

import pytest
from adapters import Adapter
from sklearn.base import BaseEstimator

# Where a run notes its cases: (file, key of the table, or None where it runs) -> cases.
CASES = pytest.StashKey[Counter[tuple[str, str | None]]]()


def borrow(*modules: str, adapter: type[Adapter]) -> dict[str, FunctionType]:
    """Return the test functions of some modules that use an adapter's class, by name.

    Parameters
    ----------
    *modules : str
        Such as ``"sklearn.decomposition.tests.test_pca"``.
    adapter : type
        Stands for the class of the same name in the package that the module tests.
    """
    found: dict[str, FunctionType] = {}
    for name in modules:
        module = executed_with(name, adapter)
        for test, function in vars(module).items():
            if test.startswith("test_") and inspect.isfunction(function):
                list_cases(function)
                if uses(function, module, adapter) or is_given(function, adapter):
                    assert test not in found, f"{test} stands in two modules"
                    found[test] = function
    return found


def executed_with(name: str, adapter: type[Adapter]) -> ModuleType:
    """Execute a module of tests afresh, with the adapter in the package it imports."""
    # Once as it is, so that nothing else is imported while the package is changed.
    importlib.import_module(name)
    spec = importlib.util.find_spec(name)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    package = importlib.import_module(name.split(".tests.")[0])
    with mock.patch.object(package, adapter.__name__, adapter):
        spec.loader.exec_module(module)
    return module


def list_cases(function: Any) -> None:
    """Make lists of cases that come from generators, which can be read only once."""
    for i, mark in enumerate(getattr(function, "pytestmark", [])):
        if mark.name == "parametrize":
            names, cases, *rest = mark.args
            again = pytest.mark.parametrize(names, list(cases), *rest, **mark.kwargs)
            function.pytestmark[i] = again.mark


def uses(function: FunctionType, module: ModuleType, adapter: type[Adapter]) -> bool:
    """Whether a function names the adapter's class, or calls one that does."""
    names = names_in(function.__code__)
    if adapter.__name__ in names:
        return True
    # One module's tests call its own checks, and never in a circle.
    called = [vars(module).get(name) for name in names - {function.__name__}]
    return any(
        uses(other, module, adapter)
        for other in called
        if inspect.isfunction(other) and other.__module__ == module.__name__
    )


def names_in(code: CodeType) -> set[str]:
    """Return the global names that a function's code reads, inner ones included."""
    inner = [names_in(c) for c in code.co_consts if isinstance(c, CodeType)]
    return set(code.co_names).union(*inner)


def is_given(function: FunctionType, adapter: type[Adapter]) -> bool:
    """Whether some case of a parametrised test is given the adapter."""
    marks = [m for m in getattr(function, "pytestmark", []) if m.name == "parametrize"]
    return any(about(list(flat(mark.args[1])), adapter) for mark in marks)


def about(values: list[Any], adapter: type[Adapter]) -> bool:
    """Whether the adapter, or one of its instances, is among values."""
    return any(value is adapter or isinstance(value, adapter) for value in values)


def flat(values: Any) -> Any:
    """Yield the values of parametrised cases, whatever they are packed in."""
    for value in list(values):
        if isinstance(value, list | tuple):
            yield from flat(value)
        else:
            yield value


def is_about_another(item: Any) -> bool:
    """Whether a case is given estimators, and none of ours."""
    given = flat(item.callspec.params.values()) if hasattr(item, "callspec") else []
    kinds = [value if inspect.isclass(value) else type(value) for value in given]
    estimators = [kind for kind in kinds if issubclass(kind, BaseEstimator)]
    return bool(estimators) and not any(issubclass(k, Adapter) for k in estimators)
