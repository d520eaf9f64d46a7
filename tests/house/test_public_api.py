"""Public names: they resolve, are the same to all, and load nothing heavy."""

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import unpooled
from unpooled import (
    errors,
)

HEAVY = """
    sklearn scipy scipy.stats scipy.special scipy.optimize scipy.spatial pandas polars
    narwhals pyarrow matplotlib typer rich jinja2 cryptography cryptography.x509
"""


# --- Names ---------------------------------------------------------------------------


def test_public_names_resolve():
    for name in unpooled.__all__:
        assert getattr(unpooled, name) is not None, name
        assert name in dir(unpooled)


def test_names_are_sorted_and_come_with_a_star():
    # ruff's order: constants, classes, the rest.
    classes = [n for n in unpooled.__all__ if n[0].isupper() and not n.isupper()]
    assert classes == sorted(classes)
    space = {}
    exec("from unpooled import *", space)
    assert set(unpooled.__all__) <= set(space)


def test_type_checkers_and_users_see_the_same_names():
    stub = Path(unpooled.__file__).with_suffix(".pyi")
    homes = {
        alias.name: f"unpooled.{node.module}"
        for node in ast.parse(stub.read_text("utf-8")).body
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
        if alias.asname == alias.name  # else it is no public name to a type checker
    }
    assert set(homes) == set(unpooled.__all__) - {"__version__"}
    # A package that can be called is what the name of its function is bound to.
    homes.pop("report")
    for name, home in homes.items():
        assert getattr(unpooled, name) is getattr(importlib.import_module(home), name)


def test_an_estimator_is_public_by_its_file_alone(monkeypatch):
    """A new one needs no line in the list of names, which is for type checkers."""
    monkeypatch.delattr(unpooled, "PCA", raising=False)
    monkeypatch.setattr(unpooled, "__all__", [])
    assert unpooled.PCA.__name__ == "PCA"


def test_unknown_names_are_attribute_errors():
    name = "pca"
    with pytest.raises(AttributeError, match="has no attribute 'pca'"):
        getattr(unpooled, name)
    assert unpooled.errors is errors
    # As after a name that a file or a study has: with the most similar one.
    for name, meant in {
        "LogisticRegresion": "LogisticRegression",
        "cross_val_score": "cross_validate",
        "pca": "PCA",
    }.items():
        with pytest.raises(AttributeError, match=f"Did you mean '{meant}'"):
            getattr(unpooled, name)
    name = "__wrapped__"
    with pytest.raises(AttributeError) as raised:
        getattr(unpooled, name)
    assert "mean" not in str(raised.value)


# --- Weight --------------------------------------------------------------------------


def loaded_after(code):
    """Return which heavy packages a fresh interpreter has after some code."""
    code += f"\nimport sys; print(*[m for m in {HEAVY.split()} if m in sys.modules])"
    # -I would hide the checkout from the import; -S would hide numpy.
    found = subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        capture_output=True,
        text=True,
        cwd=Path(unpooled.__file__).parents[1],
    )
    return set(found.stdout.split())


def test_importing_loads_nothing_heavy():
    assert loaded_after("import unpooled") == set()


SIMULATE = """
import numpy, unpooled
rows = numpy.random.default_rng(0).standard_normal((60, 3))
federation = unpooled.simulate(unpooled.partition_rows(rows, 3))
"""


@pytest.mark.slow
def test_arrays_need_no_data_frames():
    assert loaded_after(SIMULATE) == {"cryptography"}


def test_a_first_fit_loads_only_what_it_uses():
    used = {"sklearn", "scipy", "cryptography"}
    fit = "pca = unpooled.PCA().fit(federation)"
    assert loaded_after(SIMULATE + fit) == used
    # scikit-learn asks narwhals whether new rows are a data frame.
    assert loaded_after(f"{SIMULATE}{fit}; pca.transform(rows)") == used | {"narwhals"}
