"""Tables of the documentation that are made from the library's own declarations.

A page has the line ``<!-- generated: rules -->`` where the table `rules` belongs.
MkDocs calls `on_page_markdown` for every page (``hooks:`` in mkdocs.yml).
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from unpooled.errors import RULES

_PLACEHOLDER = re.compile(r"^<!-- generated: (\w+) -->$", re.MULTILINE)


def rules() -> str:
    """Return the table of the rules under which an error may leave a silo."""
    return _table(
        ["rule", "what it says", "what to do"],
        ([f"`{rule}`", sentence, remedy] for rule, (sentence, remedy) in RULES.items()),
    )


TABLES: Mapping[str, Callable[[], str]] = {"rules": rules}


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Return a page's text with its tables filled in."""
    return _PLACEHOLDER.sub(lambda placeholder: TABLES[placeholder[1]](), markdown)


def _table(head: list[str], rows: Iterable[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(map(_cell, line))} |" for line in lines)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
