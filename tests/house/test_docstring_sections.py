"""Public docstrings: shapes, units, errors, what is released, and the source."""

import ast
import inspect
import re
import textwrap

import pytest

import unpooled
import unpooled.testing
from public_names import CLASSES, PUBLIC, described, entries, parameters, sections
from unpooled.models.base import FederatedEstimator

ESTIMATORS = [
    kind
    for kind in (getattr(unpooled, name) for name in CLASSES)
    if issubclass(kind, FederatedEstimator)
]
FUNCTIONS = [
    getattr(module, name)
    for module, names in (
        (unpooled, PUBLIC),
        (unpooled.testing, unpooled.testing.__all__),
    )
    for name in names
    if inspect.isfunction(getattr(module, name))
]
METHODS = [
    getattr(kind, name)
    for kind in (getattr(unpooled, name) for name in CLASSES)
    for name, value in vars(kind).items()
    if not name.startswith("_")
    if inspect.isfunction(value) or isinstance(value, classmethod | staticmethod)
]
WANTED = ("Attributes", "Notes", "References", "Raises")
# Attributes in the squared or plain units of the columns, of which the denominator has
# to be said: of these alone, or as another attribute that says it.
IN_UNITS = re.compile(r"((?<!co)variance|std|var)_$")
FOUND = re.compile(r"\b(18|19|20)\d\d\b|[Ss]ections? \d|[Aa]lgorithm \d|equation")
DENOMINATOR = re.compile(
    r"denominator|N - 1|\bN\b|likewise|See `|square", re.IGNORECASE
)


def raises(function):
    """Whether the function's own body has a raise, functions within it aside."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    (whole,) = tree.body
    assert isinstance(whole, ast.FunctionDef)
    work = list[ast.AST](whole.body)
    while work:
        node = work.pop()
        if isinstance(node, ast.Raise):
            return True
        if not isinstance(node, ast.FunctionDef | ast.Lambda):
            work += ast.iter_child_nodes(node)
    return False


def test_control_a_raise_is_found_and_that_of_a_function_within_is_not():
    def within():
        def inner():
            raise ValueError

        return inner

    def own(x):
        if x:
            raise ValueError

    assert raises(own)
    assert not raises(within)


@pytest.mark.parametrize("kind", ESTIMATORS, ids=lambda kind: kind.__name__)
def test_an_estimator_says_what_a_reader_has_to_know(kind):
    found = sections(kind)
    missing = [name for name in WANTED if not found.get(name)]
    if parameters(kind) and not found.get("Parameters"):
        missing.append("Parameters")
    notes = " ".join(found.get("Notes", []))
    missing += [words for words in ("Released", "Never released") if words not in notes]
    assert not missing


@pytest.mark.parametrize("kind", ESTIMATORS, ids=lambda kind: kind.__name__)
def test_every_array_has_its_shape_and_every_variance_its_denominator(kind):
    heads = [x for x in sections(kind)["Attributes"] if x and not x.startswith(" ")]
    untyped = [head for head in heads if " : " not in head]
    assert not untyped, "an attribute without a type"
    types = dict(head.split(" : ", 1) for head in heads)
    shapeless = [n for n, of in types.items() if "array" in of and "(" not in of]
    assert not shapeless, "an array without a shape"
    said = described(kind, "Attributes")
    bare = [
        name
        for name in entries(kind, "Attributes")
        if IN_UNITS.search(name) and not DENOMINATOR.search(said[name])
    ]
    assert not bare, "a variance without its denominator"


@pytest.mark.parametrize("kind", ESTIMATORS, ids=lambda kind: kind.__name__)
def test_every_source_can_be_found(kind):
    text = "\n".join(sections(kind)["References"])
    sources = re.split(r"\n\s*\n", text.strip())
    vague = [one for one in sources if not FOUND.search(one)]
    assert not vague, "a source without its year or the place in it"


@pytest.mark.parametrize(
    "function", [*FUNCTIONS, *METHODS], ids=lambda function: function.__qualname__
)
def test_what_raises_says_so(function):
    # Rules of a policy are named by what they refuse.
    refuses = (inspect.getdoc(function) or "").startswith("Refuse")
    if raises(function) and not refuses:
        assert sections(function).get("Raises")
