"""The estimators that are installed here, by name.

Model files and study files name classes; they are looked up in this list and never by
an import path, so a file cannot make this process load anything.
"""

import importlib
import inspect
import pkgutil

import unpooled.models
from unpooled.models.base import FederatedEstimator


def estimators() -> dict[str, type[FederatedEstimator]]:
    """Return every estimator of the library by its class name, sorted."""
    package = unpooled.models
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        importlib.import_module(module.name)
    # Classes that users derive elsewhere are theirs to save and to load.
    return {
        kind.__name__: kind
        for kind in sorted(_derived(FederatedEstimator), key=lambda kind: kind.__name__)
        if kind.__module__.startswith(f"{package.__name__}.")
        and not inspect.isabstract(kind)
    }


def parameter_names(kind: type[FederatedEstimator]) -> tuple[str, ...]:
    """Return the names of an estimator's constructor parameters."""
    return tuple(name for name in inspect.signature(kind).parameters)


def _derived(kind: type) -> set[type]:
    found = set(kind.__subclasses__())
    return found.union(*(_derived(subclass) for subclass in found))
