"""The subject of a model or a step in a few words: the first line of its module.

A module of several models has one line for all; a model may have its own.
"""

import re
import sys
from typing import Any


def subject(model: Any) -> str:
    """Return in a few words what a model does: its own, or its module's first line."""
    own = getattr(type(model), "_subject", "")
    return own or first_line(type(model).__module__) or type(model).__name__


def title_of(model: Any) -> str:
    """Return "PCA: principal component analysis ..." as the title of results."""
    what = subject(model)
    # Not that of a name such as VFedPCA.
    if what[1:2].islower() or what[:2] == "A ":
        what = f"{what[:1].lower()}{what[1:]}"
    return f"{type(model).__name__}: {what}"


def first_line(module: str) -> str:
    """Return the first line of a module's docstring, without its full stop."""
    text = (getattr(sys.modules.get(module), "__doc__", None) or "").strip()
    line = re.split(r"\n|(?<=[\w)])\.(?:\s|$)", text, maxsplit=1)[0].strip()
    return line.replace("'", "’")
