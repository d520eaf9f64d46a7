"""Multivariate statistics across organisations that may not share rows.

>>> import unpooled as up
>>> federation = up.simulate({"a": rows_a, "b": rows_b, "c": rows_c})  # doctest: +SKIP
>>> pca = up.PCA(2).fit(federation)  # doctest: +SKIP
>>> print(federation.ledger)  # doctest: +SKIP

Names load when they are first used, so importing the package costs next to nothing;
``__init__.pyi`` lists them.
"""

from typing import Any

import lazy_loader

# Both are light. `report` is a package that can be called: bound here, the name means
# the same object whatever is imported first.
from unpooled import errors as errors
from unpooled import late_imports
from unpooled import report as report

__version__ = "0.2.0.dev0"

late_imports.install()

_load, _, _listed = lazy_loader.attach_stub(__name__, __file__)
_MODULES = {"errors", "metrics"}
__all__ = sorted({*_listed, "__version__"} - _MODULES)


def __getattr__(name: str) -> Any:
    if name in __all__ or name in _MODULES:
        return _load(name)
    if name[:1].isupper():
        # An estimator is public by its file being there, listed above or not.
        from unpooled.models.files.catalogue import estimator

        if (kind := estimator(name)) is not None:
            return kind
    import difflib

    known = [one for one in __dir__() if not name.startswith("_")]
    close = difflib.get_close_matches(name.casefold(), map(str.casefold, known), n=1)
    hint = [f". Did you mean {one!r}?" for one in known if [one.casefold()] == close]
    raise AttributeError(
        f"module {__name__!r} has no attribute {name!r}{''.join(hint[:1])}"
    )


def __dir__() -> list[str]:
    return sorted([*__all__, *_MODULES])
