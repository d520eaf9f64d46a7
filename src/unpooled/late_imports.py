"""scikit-learn's start without the libraries that it imports and rarely uses.

Importing any part of scikit-learn imports SciPy's statistics and special functions,
pandas and narwhals, where they are installed: three quarters of the time that its start
takes, for functions that most processes never call. Once `install` ran, the statements
that import them bind names that import them at their first use::

    import sklearn ── finder ─> sklearn.utils.fixes, with an `__import__` of its own
        import scipy.stats      binds `scipy`, whose `stats` is imported when used
        import pandas as pd     binds `pd`, which is imported when used
        any other import        as everywhere

Only import statements in the files of `IMPORTERS` change. The usual way, a placeholder
in `sys.modules`, would be seen by the whole process: another thread would receive it
for pandas, import a submodule of it, or take pandas for loaded. Here nothing but
modules is ever in `sys.modules`, `import pandas` elsewhere imports pandas, locks and
errors are those of Python's imports, and what is not installed is an `ImportError` as
ever.
"""

import builtins
import importlib
import importlib.util
import sys
from collections.abc import Mapping, Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import ModuleType
from typing import Any, final

IMPORTERS = frozenset(
    f"sklearn.utils.{name}"
    for name in ("fixes", "_array_api", "validation", "_indexing")
)
LATE = frozenset({"scipy.stats", "scipy.special", "pandas", "narwhals.stable.v2"})


def install() -> None:
    """Make scikit-learn's start light, if the process has not imported it yet."""
    if sys.modules.keys().isdisjoint(IMPORTERS) and _FINDER not in sys.meta_path:
        # It stays there: where one thread removes from this list, another that imports
        # would skip a finder.
        sys.meta_path.insert(0, _FINDER)


@final
class _Late(ModuleType):
    """Stands for a late module, or a package of it, until a name in it is used."""

    def __getattr__(self, name: str) -> Any:
        inner = f"{self.__name__}.{name}"
        leads_on = any(f"{late}.".startswith(f"{inner}.") for late in LATE)
        if leads_on and inner not in sys.modules:
            return _Late(inner)
        return getattr(importlib.import_module(self.__name__), name)


def _import(
    name: str,
    globals: Mapping[str, object] | None = None,
    locals: Mapping[str, object] | None = None,
    fromlist: Sequence[str] | None = (),
    level: int = 0,
) -> ModuleType:
    """Return the module of an import statement; one that can be late is not loaded."""
    package = name.partition(".")[0]
    if (
        name in LATE
        and not fromlist  # as in `from pandas import DataFrame`, which uses it
        and name not in sys.modules  # also where it is None, which forbids the import
        and importlib.util.find_spec(package) is not None
    ):
        return _Late(package)
    return importlib.__import__(name, globals, locals, fromlist or (), level)


@final
class _Loader(SourceFileLoader):
    """Runs a file whose import statements call `_import`."""

    def exec_module(self, module: ModuleType) -> None:
        # Code looks its builtins up in the globals that it runs in.
        vars(module)["__builtins__"] = vars(builtins) | {"__import__": _import}
        super().exec_module(module)


@final
class _Finder:
    """Finds the files whose imports can be late, in a plain installation."""

    def find_spec(
        self,
        fullname: str,
        path: Any = None,  # of a namespace package it is no sequence
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        if fullname not in IMPORTERS:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        # Another loader, of an archive or a checker of types, does its work as ever.
        if spec is None or type(spec.loader) is not SourceFileLoader:
            return None
        spec.loader = _Loader(fullname, spec.loader.path)
        return spec


_FINDER = _Finder()
