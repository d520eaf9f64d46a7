"""Declarations: read, checked at both ends, and found by name without running code."""

import sys
import types
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from unpooled.arrays import Array
from unpooled.errors import DataError, ReleaseRefusedError
from unpooled.models import moments
from unpooled.models.pca import pca
from unpooled.protocol import step as step_module
from unpooled.protocol.bounds import CauchySchwarz
from unpooled.protocol.step import (
    Declared,
    Step,
    derived,
    disclosed,
    find_step,
    kept,
    release,
    stays,
    summed,
)


@summed(
    takes={"axes": "k p", "mean": "p"},
    total="p",
    product=release("p k", meaning="products"),
    number="",
    square=release("p p", symmetric=True, bound=CauchySchwarz("mean")),
    here=stays("4 k", until="fit"),
)
def example(X: Array, y: Array, kept: Any, *, axes: Array, mean: Array, c: int) -> Any:
    """Stand for a step with everything."""
    return len(X), c


def test_a_declaration_is_read_from_the_function():
    assert example.name == "test_step.example"
    assert example.verb == "summed"
    assert example.by == "rows"
    assert example.reads == ("X", "y", "kept")
    assert example.public == ("axes", "mean", "c")
    assert set(example.declared) == {"total", "product", "number", "square", "here"}
    assert set(example.leaves) == {"total", "product", "number", "square"}
    assert example.__doc__ == "Stand for a step with everything."
    assert example([1, 2], 0, 0, axes=0, mean=0, c=3) == (2, 3)


def test_sizes_come_from_the_table_and_the_arguments():
    public = {"axes": np.ones((2, 5)), "mean": np.ones(5), "c": 7}
    sizes = example.sizes(5, public)
    assert sizes == {"p": 5, "k": 2}
    shapes = {name: d.shape(sizes) for name, d in example.declared.items()}
    assert shapes == {
        "total": (5,),
        "product": (5, 2),
        "number": (),
        "square": (5, 5),
        "here": (4, 2),
    }
    numbers = {n: d.numbers(shapes[n]) for n, d in example.declared.items()}
    assert numbers == {"total": 5, "product": 10, "number": 1, "square": 15, "here": 8}


@pytest.mark.parametrize(
    "change",
    [
        {"axes": np.ones((2, 4))},
        {"axes": np.ones(5)},
        {"axes": np.ones((2, 5, 1))},
        {"axes": np.float64(1.0)},
        {"axes": 1.0},
        {"mean": np.ones(4)},
        {"mean": np.ones((5, 1))},
        {"mean": np.ones(0)},
        {"mean": [1.0] * 5},
        {"mean": None},
        {"c": np.ones(1)},
        {"c": np.ones((5, 5))},
        {"d": 1},
        {"c": None},
    ],
)
def test_other_arguments_are_refused(change):
    public: dict[str, Any] = {"axes": np.ones((2, 5)), "mean": np.ones(5), "c": 7}
    public |= change
    if public["c"] is None:
        del public["c"]
    with pytest.raises(DataError, match=r"test_step.example takes") as refused:
        example.sizes(5, public)
    assert refused.value.rule == "arguments"


@dataclass(frozen=True, eq=False)
class Place:
    mean: Array
    power: int = 1


def test_a_dataclass_stands_for_the_arguments_that_are_its_fields():
    @summed(takes={"mean": "p"}, out="p")
    def shifted(X: Array, *, at: Place, factor: float) -> Any:
        """Add shifted rows."""
        return {"out": factor * ((X - at.mean) ** at.power).sum(axis=0)}

    assert shifted.public == ("mean", "power", "factor")
    assert shifted.function.__name__ == "shifted"
    assert shifted.__doc__ == "Add shifted rows."
    X, public = np.ones((4, 2)), {"mean": np.zeros(2), "power": 3, "factor": 2.0}
    assert shifted.sizes(2, public) == {"p": 2}
    assert_array_equal(shifted(X, **public)["out"], [8.0, 8.0])
    with pytest.raises(TypeError, match="mean"):
        shifted(X, power=3, factor=2.0)


def test_arrays_that_are_not_declared_are_said_to_be_so():
    @summed(out="p")
    def centred(X: Array, *, mean: Array) -> Any:
        return {}

    with pytest.raises(DataError, match=r'Declare takes=\{"mean": "..."\}'):
        centred.sizes(3, {"mean": np.ones(3)})


def test_axes_have_a_size_before_the_step_runs():
    assert release("p 2").shape({"p": 3}) == (3, 2)
    for axes in ("n", "p k", "k k"):
        with pytest.raises(
            DataError, match=r"size of the axis [nk] is not known before"
        ):
            release(axes).shape({"p": 3})


@pytest.mark.parametrize("size", [0, -1, 2**31, 1.0, True, "1", None])
def test_a_size_is_a_whole_number_that_an_array_can_have(size):
    @summed(takes={"k": "size k"}, out="k")
    def sized(X: Array, *, k: int) -> Any:
        return {}

    assert sized.sizes(3, {"k": 1})["k"] == 1
    assert sized.sizes(3, {"k": 2**31 - 1})["k"] == 2**31 - 1
    with pytest.raises(DataError, match="as a whole number") as refused:
        sized.sizes(3, {"k": size})
    assert refused.value.rule == "arguments"


def test_a_letter_has_one_size():
    @summed(takes={"a": "k", "b": "k k"}, out="k")
    def twice(X: Array, *, a: Array, b: Array) -> Any:
        return {}

    assert twice.sizes(3, {"a": np.ones(2), "b": np.ones((2, 2))})["k"] == 2
    for b in (np.ones((2, 3)), np.ones((3, 3)), np.ones((3, 2))):
        with pytest.raises(DataError):
            twice.sizes(3, {"a": np.ones(2), "b": b})


@pytest.mark.parametrize(
    ("axes", "level", "pairs"),
    [
        ("", "aggregate", False),
        ("p", "aggregate", False),
        ("p p", "aggregate", True),
        ("p q", "aggregate", True),
        ("c p p", "aggregate", True),
        ("c p", "aggregate", False),
        ("k k", "aggregate", False),
        ("n", "row", False),
        ("N", "row", False),
        ("N p", "row", False),
        ("n n", "row", False),
        ("p n p", "row", True),
        ("3 4", "aggregate", False),
    ],
)
def test_axes_say_what_a_release_is(axes, level, pairs):
    declared = release(axes)
    assert declared.level == level
    assert declared.pairs_features == pairs


def test_kept_steps_release_nothing():
    @kept(out="p", more=release("p p"))
    def stay(X: Array) -> Any:
        return {}

    assert stay.leaves == {}
    assert all(d.kept for d in stay.declared.values())
    assert stay.declared["out"].until == "study"


def test_a_step_reads_rows_labels_and_kept_things_only():
    for wrong in (lambda rows: 0, lambda X, table: 0, lambda *args: 0):
        with pytest.raises(
            TypeError,
            match="may read X, cells, coded, columns, dictionary, inbox, kept, party, "
            "sums, y, not",
        ):
            summed(out="p")(wrong)
    with pytest.raises(ValueError, match='choose "rows" or "party"'):
        summed(by="block", out="p")
    for declare in (disclosed(out="p"), derived(takes={}, fitted_by=())):
        with pytest.raises(TypeError, match="may read"):
            declare(lambda table: 0)


def test_the_librarys_steps_have_short_names():
    assert moments.local_total.name == "moments.local_total"
    assert find_step("pca.local_total").name == "pca.local_total"
    assert find_step("pca.local_total").function is moments.local_total.function
    assert find_step("pca.projected") is pca.projected
    assert find_step("test_step.example") is example


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "pca",
        "pca.",
        ".local_total",
        "pca.PCA",
        "pca.Any",
        "pca.np.sum",
        "pca.__builtins__",
        "pca.no_such",
        "no_such.local_total",
        "unpooled.models.pca.pca.local_total",
        "models.pca.local_total",
        "os.system",
        "posixpath.join",
        "builtins.open",
        "sys.exit",
        "test_step.find_step",
        "test_step.disguised",
        "test_step.example.function",
        "pca.local_total\n",
        "pca/local_total",
        "..step.example",
        "__main__.anything",
    ],
)
def test_nothing_else_is_a_step(name):
    with pytest.raises(ReleaseRefusedError, match="allowed_steps"):
        find_step(name)


# Under another name than its own, a step would be logged as what it is not.
disguised = example


@given(st.text(max_size=20))
def test_any_text_is_a_step_or_refused(name):
    try:
        step = find_step(name)
    except ReleaseRefusedError:
        return
    except (ValueError, ImportError) as odd:
        pytest.fail(f"{name!r}: {odd}")
    assert step.name == name


def test_finding_runs_no_code_of_a_module(monkeypatch):
    """A module's own __getattr__ is code, and may import what it likes."""
    asked = []
    module = types.ModuleType("traps")
    module.__getattr__ = asked.append  # type: ignore[method-assign]
    monkeypatch.setitem(sys.modules, "traps", module)
    monkeypatch.setitem(sys.modules, "absent", None)
    for name in ("traps.local_total", "traps.x", "absent.local_total"):
        with pytest.raises(ReleaseRefusedError):
            find_step(name)
    assert asked == []


def test_steps_of_modules_that_nobody_imported_are_not_there():
    assert "this" not in sys.modules
    with pytest.raises(ReleaseRefusedError):
        find_step("this.s")
    assert "this" not in sys.modules


def test_every_step_of_the_library_says_what_it_releases():
    import importlib
    import pkgutil

    import unpooled.models

    found = 0
    for info in pkgutil.walk_packages(unpooled.models.__path__, "unpooled.models."):
        module = importlib.import_module(info.name)
        for value in vars(module).values():
            if isinstance(value, Step) and value.function.__module__ == info.name:
                found += 1
                assert value.__doc__
                assert value.name.endswith(f".{value.function.__name__}")
                for name, declared in value.declared.items():
                    assert isinstance(declared, Declared)
                    assert declared.meaning, (value.name, name)
                assert set(value.takes) <= set(value.public)
                for fitting in value.fitted_by:
                    assert find_step(fitting).verb != "derived"
    assert found >= 100


# Arrays with two axes that are over no pairs of columns: ...
NO_PAIRS = {
    "groups or bins by columns": {
        *("by_silo.flagged_columns", "by_silo.withheld_counts"),
        *("by_silo_and_class.own_class_table", "by_silo_and_class.small_by_class"),
        *("classes.local_class_totals", "classification.local_binned"),
        *("classification.local_confusion", "describe.local_below"),
        *("describe.local_class_below", "describe.local_class_columns"),
        *("describe.local_class_squares", "describe.local_columns"),
        *("describe.local_squares", "histogram.local_below", "histogram.local_inside"),
    },
    "names of categories": {
        *("agreed_categories.local_values", "describe.local_texts"),
        "famd.local_categories",
    },
    "of rows in another order, after a fit that has the pairs": {
        *("heterogeneity.local_dealt_rows", "permutation_test.local_permuted_classes"),
        *("permutation_test.local_permuted_columns",),
        "permutation_test.local_permuted_products",
    },
    "a few directions, which the rule of leverage knows by their arguments": {
        *("krylov.local_image", "personalized.local_slope"),
        "personalized.local_stiefel",
    },
    "sums of squares, after a fit that has the pairs": {
        *("pca.local_correlation_influence", "pca.local_influence"),
    },
    "of people who are the same in all silos": {
        *("cca.local_products", "cca.local_residuals"),
    },
    "the fitted model of a silo, which its policy discloses": {
        *("two_views.shown_structure", "pca_columns.shown_loadings"),
        "gossip.gossip_shown",
        *("correspondence_columns.shown_coordinates", "quantiles.shown_quantiles"),
        "own_classes.shown_by_class",
        "kernel_pca.shown_map",
        *("merged_directions.neighbour_history", "merged_directions.shown_loadings"),
        *("mmvfl.shown_weights", "personalized.shown_own"),
        "pls_regression.shown_model",
    },
}


def test_arrays_of_two_axes_are_over_pairs_of_columns_or_known_not_to_be():
    """What is over pairs is judged by leverage and by the number of columns."""
    found = set[str]()
    for home in step_module._library_homes():
        for step in step_module.steps_of(home).values():
            if not {"X", "cells", "sums", "kept"} & set(step.reads):
                continue
            found |= {
                f"{step.function.__module__.rpartition('.')[2]}.{step.function.__name__}"
                for declared in step.leaves.values()
                if len([a for a in declared.letters if not a.isdigit()]) > 1
                and declared.level == "aggregate"
                and declared.noise is None
                and not declared.pairs_features
            }
    known = {name.partition(".")[2] for names in NO_PAIRS.values() for name in names}
    assert {name.partition(".")[2] for name in found} == known


@summed(total="p")
def over_rows(X: Array, *, ridge: float) -> Any:
    """Stand for a step that adds over rows."""


@summed(by="party", total="p")
def over_a_party(X: Array, *, ridge: float, seed: int) -> Any:
    """Stand for one that does not."""


@summed(total="p")
def over_what_was_kept(kept: Any, *, ridge: float) -> Any:
    """Stand for one of which nobody knows."""


def test_a_silo_holds_on_to_numbers_of_steps_that_may_not_add_over_rows():
    assert over_rows.settings == ()
    assert over_a_party.settings == ("ridge",)
    assert over_what_was_kept.settings == ("ridge",)
