"""The library's estimators by class name.

Model files and study files name classes; the names are looked up here, and never as an
import path, so that a file cannot make this process import anything else.
"""

import functools
import importlib
import inspect
import re
from pathlib import Path

import unpooled.models
from unpooled.models.base import FederatedEstimator

_PACKAGE = unpooled.models.__name__


def estimators() -> dict[str, type[FederatedEstimator]]:
    """Return every estimator of the library by its class name, sorted.

    This imports all models; `estimator` imports one. Those that only judge others, such
    as cross-validation, are left out.
    """
    found = ((name, estimator(name)) for name in sorted(_modules_by_class()))
    return {name: kind for name, kind in found if kind is not None and kind.is_model}


def estimator(name: str) -> type[FederatedEstimator] | None:
    """Return the estimator of the library with a class name, or None."""
    for module in _modules_by_class().get(name, ()):
        kind = getattr(importlib.import_module(module), name, None)
        if (
            inspect.isclass(kind)
            and issubclass(kind, FederatedEstimator)
            and not inspect.isabstract(kind)
        ):
            return kind
    return None


def parameter_names(kind: type[FederatedEstimator]) -> tuple[str, ...]:
    """Return the names of an estimator's constructor parameters."""
    return tuple(name for name in inspect.signature(kind).parameters)


@functools.cache
def _modules_by_class() -> dict[str, list[str]]:
    """Return the modules of each class that the package's source files define."""
    # Read, not imported: importing every model takes longer than fitting some.
    found: dict[str, list[str]] = {}
    for folder in map(Path, unpooled.models.__path__):
        for path in sorted(folder.rglob("*.py")):
            parts = path.relative_to(folder).with_suffix("").parts
            module = ".".join((_PACKAGE, *parts)).removesuffix(".__init__")
            for name in re.findall(r"^class (\w+)", path.read_text("utf-8"), re.M):
                found.setdefault(name, []).append(module)
    return found
