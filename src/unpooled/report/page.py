"""How pages are made from templates: every text escaped, and nothing loaded.

Names of silos, columns and studies come from outside. They reach a page through the
template's escaping only, cleaned of what would turn or hide the text around them.
"""

from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from unpooled.results.formats import clean, counted, listed
from unpooled.results.plots.svg import svg

_FOLDER = Path(__file__).parent


def environment(*folders: Path) -> jinja2.Environment:
    """Return an environment for templates, with the report's style and macros.

    Parameters
    ----------
    *folders : Path
        Of templates, before those of the report.
    """
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader([*folders, _FOLDER]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_readable,
    )
    made.globals |= {"listed": listed, "counted": counted, "svg": svg}
    return made


def _readable(value: Any) -> Any:
    """Clean every text on its way into the page, except markup of our own."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return clean(value)
    return value
