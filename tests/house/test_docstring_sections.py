"""Public docstrings: shapes, units, errors, what is released, and the source."""

import ast
import inspect
import re
import textwrap

import pytest

import unpooled
import unpooled.metrics
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
        (unpooled.metrics, unpooled.metrics.__all__),
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
METRICS = [function for function in FUNCTIONS if "metrics" in function.__module__]
# Public names without a source: objects and files of the library, pictures of values
# that other functions compute, and short forms of estimators, which state the source.
WITHOUT_SOURCE = {
    *("Federation", "Ledger", "Plan", "Policy", "Study", "plan", "simulate"),
    *("load", "save", "open_source", "partition_columns"),
    *("make_column_selector", "make_column_transformer"),
    *("ConfusionMatrixDisplay", "HeatmapDisplay", "HistogramDisplay"),
    *("LoadingsDisplay", "describe", "heterogeneity", "quantiles"),
    *("compare_with_meta_analysis", "check_estimator", "check_step"),
}
SOURCED = [
    thing
    for thing in [*FUNCTIONS, *(getattr(unpooled, name) for name in CLASSES)]
    if thing.__name__ not in WITHOUT_SOURCE
]
# Parameters that a function can find wrong.
CHECKED = {
    *("X", "estimator", "federation", "model", "parties", "path", "source"),
    *("y_pred", "y_prob", "y_score"),
}
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


@pytest.mark.parametrize("thing", SOURCED, ids=lambda thing: thing.__name__)
def test_every_source_can_be_found(thing):
    text = "\n".join(sections(thing).get("References", []))
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


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_a_function_says_what_comes_back_and_what_it_raises(function):
    found = sections(function)
    returned = inspect.signature(function).return_annotation
    # Some first lines name the class that comes back, which has a docstring.
    named = re.match(r"Return a `\w+`", found[""][0])
    if returned not in (None, "None") and not named:
        assert found.get("Returns")
    if CHECKED & set(parameters(function)):
        assert found.get("Raises")


@pytest.mark.parametrize("function", METRICS, ids=lambda function: function.__name__)
def test_a_metric_says_what_is_released(function):
    assert "Released" in " ".join(sections(function)["Notes"])


def test_what_has_no_source_is_public():
    assert {thing.__name__ for thing in FUNCTIONS} | set(CLASSES) >= WITHOUT_SOURCE
