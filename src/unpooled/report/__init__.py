"""The report: what left each silo, and what came of it, for people to read.

``unpooled.report(model, federation, path)`` writes it; `unpooled.report.html.report`
has the parameters. The name is this package and the function at once: Python binds a
package to its name whenever a module of it is imported, so the package can be called.
"""

import sys
from pathlib import Path
from types import ModuleType
from typing import Any


class _Report(ModuleType):
    # The parameters again: what a notebook shows of them is this signature.
    def __call__(
        self,
        model: Any,
        federation: Any,
        path: Any,
        *,
        title: str | None = None,
        purpose: Any = None,
        controllers: Any = None,
        contact: Any = None,
        legal_basis: Any = None,
        retention: Any = None,
    ) -> Path:
        """Write the report; see `unpooled.report.html.report`."""
        from unpooled.report.html import report

        return report(
            model,
            federation,
            path,
            title=title,
            purpose=purpose,
            controllers=controllers,
            contact=contact,
            legal_basis=legal_basis,
            retention=retention,
        )


sys.modules[__name__].__class__ = _Report
