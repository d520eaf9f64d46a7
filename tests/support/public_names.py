"""What the library's public names say of themselves: sections, entries, parameters."""

import inspect
from itertools import pairwise

import unpooled

PUBLIC = [name for name in unpooled.__all__ if name not in ("__version__", "report")]
CLASSES = [name for name in PUBLIC if inspect.isclass(getattr(unpooled, name))]


def sections(thing):
    """Return a numpydoc docstring's sections: heading -> its lines, dedented."""
    lines = (inspect.getdoc(thing) or "").splitlines()
    heads = [
        i - 1
        for i, line in enumerate(lines)
        if i and line and set(line) == {"-"} and len(line) == len(lines[i - 1])
    ]
    found = {"": lines[: heads[0] if heads else None]}
    for start, end in pairwise([*heads, len(lines)]):
        found[lines[start]] = lines[start + 2 : end]
    return found


def entries(thing, heading):
    """Return the names that a section documents, in order."""
    lines = sections(thing).get(heading, [])
    heads = [line for line in lines if line and not line.startswith(" ")]
    return [
        name.strip(" *") for head in heads for name in head.split(" : ")[0].split(",")
    ]


def described(thing, heading):
    """Return name -> description of a section's entries."""
    found, names = {}, []
    for line in sections(thing).get(heading, []):
        if line and not line.startswith(" "):
            names = [name.strip() for name in line.split(" : ")[0].split(",")]
            found |= dict.fromkeys(names, "")
        else:
            found[names[-1]] += line
    return found


def parameters(function):
    """Return the names a caller may pass."""
    names = inspect.signature(function).parameters
    return [name for name in names if name not in ("self", "cls")]
