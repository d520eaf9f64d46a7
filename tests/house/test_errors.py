"""Errors: one tree, rich at home, and nothing but a rule's name across the boundary."""

import ast
import re

import pytest

import unpooled
from source_trees import FILES, ROOT, nodes_of
from unpooled import errors
from unpooled.errors import (
    RULES,
    AggregationError,
    ConvergenceError,
    DataError,
    ReleaseRefusedError,
    StudyError,
    UnpooledError,
)

TREE = (
    DataError,
    ReleaseRefusedError,
    AggregationError,
    ConvergenceError,
    StudyError,
)


def test_the_tree():
    assert all(issubclass(error, UnpooledError) for error in TREE)
    assert issubclass(DataError, ValueError)
    assert not any(issubclass(a, b) for a in TREE for b in TREE if a is not b)
    named = [n for n, v in vars(errors).items() if isinstance(v, type)]
    public = {n for n in named if n.endswith("Error")}
    assert public == {error.__name__ for error in (*TREE, UnpooledError)}
    assert all(name in (errors.__doc__ or "") for name in public)


@pytest.mark.parametrize("error", [DataError, AggregationError, StudyError])
def test_an_error_crosses_as_failed_unless_it_has_a_rule(error):
    assert error("cell 5 is 7").rule == "failed_in_silo"
    assert error("cell 5 is 7", rule="missing_values").rule == "missing_values"
    assert str(error("cell 5 is 7")) == "cell 5 is 7"


def test_a_refusal_is_made_of_the_rule():
    for rule, (sentence, remedy) in RULES.items():
        refused = ReleaseRefusedError("north", "pca.local_total", rule)
        assert str(refused) == (
            f"north refused pca.local_total: {rule} ({sentence}). {remedy}"
        )
        assert (refused.party, refused.step, refused.rule, refused.remedy) == (
            "north",
            "pca.local_total",
            rule,
            remedy,
        )


def test_a_remedy_of_ones_own():
    refused = ReleaseRefusedError("a", "b.c", "min_rows", "Ask a.")
    assert str(refused).endswith(". Ask a.")


def test_rules_are_plain_sentences_without_places_to_fill():
    for rule, (sentence, remedy) in RULES.items():
        assert re.fullmatch(r"[a-z_]+", rule)
        assert not re.search(r"[{}%/\\]", sentence + remedy), rule
        assert not sentence.endswith("."), rule
        assert remedy.endswith("."), rule
        assert remedy[0].isupper(), rule


def test_rules_cannot_be_changed():
    with pytest.raises(TypeError):
        RULES["new"] = ("", "")  # type: ignore[index]


def strings(tree: tuple[ast.AST, ...], names: set[str]) -> set[str]:
    """Literal rules in Refusal("...") and rule="..."."""
    found = set()
    for node in tree:
        if isinstance(node, ast.Call):
            name = getattr(node.func, "id", getattr(node.func, "attr", ""))
            values = [k.value for k in node.keywords if k.arg == "rule"]
            if name in names:
                values += node.args[:1]
            for value in values:
                found |= {
                    leaf.value
                    for leaf in ast.walk(value)
                    if isinstance(leaf, ast.Constant) and isinstance(leaf.value, str)
                }
    return found


def test_every_rule_that_the_code_names_is_a_rule_and_is_used():
    used = {"failed_in_silo"}
    for path in FILES:
        found = strings(nodes_of(path), {"Refusal"})
        used |= found
        text = path.read_text("utf-8")
        room = path.relative_to(ROOT).parts[0]
        if room in ("party", "protocol") or path.stem == "job_guard":
            used |= set(re.findall(r'"([a-z_]+)"', text)) & set(RULES)
        assert found <= set(RULES), path
    # What the policy knows and nobody asks yet comes with later capabilities.
    assert set(RULES) - used <= {"min_changed_rows", "infinite_values"}


def test_the_package_shows_its_errors():
    assert unpooled.errors is errors
