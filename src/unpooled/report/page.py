"""How pages are made from templates: every text escaped, and nothing loaded.

Names of silos, columns and studies come from outside. They reach a page through the
template's escaping only, cleaned of what would turn or hide the text around them.
"""

import re
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from unpooled.results.exhibits import ResultTable
from unpooled.results.formats import clean, counted, listed
from unpooled.results.plots.svg import svg

_FOLDER = Path(__file__).parent
# On 400 pixels: columns and letters side by side, letters of a row's name at most, and
# those that a column of texts has room for at least.
_MOST_BESIDE, _LETTERS, _NAME, _TEXT = 5, 41, 18, 10


def environment(*folders: Path) -> jinja2.Environment:
    """Return an environment for templates, with the report's style and macros.

    Parameters
    ----------
    *folders : Path
        Folders of templates, read before those of the report.
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
    made.tests["broad"] = _is_broad
    return made


def _is_broad(table: ResultTable) -> bool:
    """Whether a telephone has no room for a table's columns side by side."""
    letters = len(table.columns) - 1
    for j, column in enumerate(table.columns):
        cells = [row[j] for row in table.shown]
        if not column.numeric:
            cells = [word for cell in cells for word in cell.split()]
        least = _TEXT if j and not column.numeric else 0
        widest = max(map(len, [*cells, *column.heading.split()]), default=0)
        letters += max(widest, least) if j else min(widest, _NAME)
    return len(table.columns) > _MOST_BESIDE or letters > _LETTERS


def _readable(value: Any) -> Any:
    """Clean every text on its way into the page, except markup of our own.

    Lines do not break between a number and its unit.
    """
    if isinstance(value, str) and not isinstance(value, Markup):
        return re.sub(r"(?<=\d) (?=%|(?:bytes|[kMGT]B)\b)", "\u00a0", clean(value))
    return value
