"""The library's files as the nodes of their syntax, for the rules that no file shows.

Several rules read all files: each file is parsed and walked once for all of them.
"""

import ast
import functools
from pathlib import Path

import unpooled

ROOT = Path(unpooled.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))


def nodes(source: str) -> tuple[ast.AST, ...]:
    """Return every node of a text's syntax, in the order of `ast.walk`."""
    return tuple(ast.walk(ast.parse(source)))


@functools.cache
def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    """Return every node of a file of the library."""
    return nodes(path.read_text("utf-8"))
