"""Public docstrings: a sentence first, then what there is, in its order."""

import inspect

import unpooled
from public_names import CLASSES, PUBLIC, described, entries, parameters, sections


def public_methods(cls):
    """Return the class's own public methods, not scikit-learn's."""
    found = {}
    for base in reversed(cls.__mro__):
        if base.__module__.startswith("unpooled."):
            found |= {
                name: value
                for name, value in vars(base).items()
                if not name.startswith("_") and callable(getattr(cls, name))
            }
    return {name: getattr(cls, name) for name in found}


METHODS = [
    (getattr(unpooled, cls), name)
    for cls in CLASSES
    for name in public_methods(getattr(unpooled, cls))
]


# --- Docstrings ----------------------------------------------------------------------


def test_first_line_is_a_sentence():
    for name in PUBLIC:
        first, *rest = sections(getattr(unpooled, name))[""]
        assert first.endswith((".", ";", ",", ":")) or rest, (name, first)
        assert len(first.split()) >= 3, (name, first)
        assert len(first) <= 88, (name, first)
        assert not rest or not rest[0], f"{name}: the first line stands alone"


def test_parameters_are_documented_in_their_order():
    for name in PUBLIC:
        thing = getattr(unpooled, name)
        if name in ("Federation", "Plan", "Study"):
            # Made by the library, never by hand: what they hold is documented instead.
            assert entries(thing, "Attributes"), name
            continue
        assert entries(thing, "Parameters") == parameters(thing), name
        assert all(described(thing, "Parameters").values()), name


def test_methods_are_documented():
    for cls, name in METHODS:
        method, title = getattr(cls, name), f"{cls.__name__}.{name}"
        assert inspect.getdoc(method), f"{title} has no docstring"
        documented = entries(method, "Parameters")
        if documented:
            assert documented == parameters(method), title
        elif wanted := parameters(method):
            # A one-liner may do where it says all there is to say.
            assert len(wanted) <= 3, f"{title} should document {wanted}"


def test_defaults_are_the_ones_documented():
    for name in PUBLIC:
        thing = getattr(unpooled, name)
        lines = sections(thing).get("Parameters", [])
        heads = [line for line in lines if " : " in line]
        for parameter in inspect.signature(thing).parameters.values():
            default = parameter.default
            if not heads or default in (parameter.empty, None, ()):
                continue
            said = f"default {default}".replace("'", '"')
            if isinstance(default, str):
                said = f'default "{default}"'
            if isinstance(default, float):
                said = f"default {default}".replace("e-0", "e-")
            head = next(
                h for h in heads if parameter.name in h.split(" : ")[0].split(", ")
            )
            assert head.endswith(said), (name, head)
