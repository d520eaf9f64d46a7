"""Discriminants: what is released, planned and refused."""

import numpy as np
import pytest

from classed_silos import LABEL, P, data, silos
from unpooled import (
    LinearDiscriminantAnalysis,
    Policy,
    plan,
    simulate,
)
from unpooled.errors import DataError, ReleaseRefusedError

# Fixtures of another module.
__all__ = ["data"]


def test_releases_only_what_the_docstring_says(data):
    X, y = data
    federation = silos(X, y)
    planned = plan(LinearDiscriminantAnalysis(classes=[0, 1, 2]), federation, "class")

    LinearDiscriminantAnalysis().fit(federation, "class")

    left = [
        (line.step, line.name, line.shape, line.visibility)
        for line in federation.ledger
        if line.direction == "out"
    ]
    assert left == [
        ("discriminant.local_names", "cells", (64, 16), "summed"),
        ("discriminant.local_class_totals", "count", (3,), "summed"),
        ("discriminant.local_class_totals", "total", (3, P), "summed"),
        ("discriminant.local_within_squares", "squares", (P,), "summed"),
        ("discriminant.local_within_scatter", "scatter", (P, P), "summed"),
    ]
    assert federation.ledger.verify()
    out = [line for line in planned.releases if line.direction == "out"]
    assert [(x.step, x.name, x.shape, x.visibility) for x in out] == left[1:]
    assert planned.refusals == ()


# --- Refusals ------------------------------------------------------------------------


def refusal(X, y, label="class", wrong=DataError, policy=None, **options):
    federation = silos(X, y, policy=policy)
    with pytest.raises(wrong) as refused:
        LinearDiscriminantAnalysis(**options).fit(federation, label)
    return str(refused.value)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"n_components": 3}, r"min\(n_features, n_classes - 1\)=2"),
        ({"n_components": 0}, "n_components=0"),
        ({"shrinkage": 2}, "shrinkage=2"),
        ({"shrinkage": "some"}, "shrinkage='some'"),
        ({"priors": [0.5, 0.5]}, "must be 3 positive numbers"),
        ({"solver": "svd"}, "solver='svd'"),
        ({"classes": [0, 1]}, "not among the study's classes"),
        ({"classes": [0, 1, 2, 3]}, r"No silo has a row of the classes \[3\]"),
        ({"classes": [0, 1, "two"]}, "both numbers and texts"),
        ({"label": None}, "Name the label column"),
        ({"label": "v1"}, "is not the label that the silos carry"),
    ],
)
def test_arguments_are_checked(data, options, says):
    with pytest.raises(DataError, match=says):
        raise DataError(refusal(*data, **options))


def test_a_rare_class_is_refused_before_anything_leaves(data):
    X, y = data
    y = np.where(np.arange(120) == 7, 3, y)
    federation = silos(X, y)
    with pytest.raises(ReleaseRefusedError, match=r"silo1 .* min_rows_per_class"):
        LinearDiscriminantAnalysis().fit(federation, "class")
    own = [line for line in federation.ledger if "silo1" in line.parties]
    assert own == []


def test_rare_classes_are_refused_where_one_class_could_be_singled_out(data):
    X, y = data
    # Some silo has four rows or fewer of the class 2.
    federation = simulate(
        {f"silo{i}": np.column_stack([X, y])[i::8] for i in range(8)}, label=LABEL
    )
    model = LinearDiscriminantAnalysis(classes=[0, 1, 2])
    refused = {step for _, step, rule in plan(model, federation, LABEL).refusals}
    assert refused <= {"discriminant.local_within_scatter"}
    with pytest.raises(ReleaseRefusedError, match="min_rows_per_class"):
        model.fit(federation, LABEL)


def test_labels_must_be_there_and_classes_two(data):
    X, y = data
    texts = np.array(["a", "b", "c"], dtype=object)[y]
    texts[5] = None
    assert "missing_labels" in refusal(X, texts)
    assert "missing_labels" in refusal(X, np.where(np.arange(120) == 5, np.nan, y))
    assert "single class 1" in refusal(X, np.ones(120, int))
    assert "label_values" in refusal(X, np.array(["long " * 10] * 120))
    many = Policy(min_rows_per_class=0)
    assert "label_values" in refusal(np.tile(X, (3, 1)), np.arange(360.0), policy=many)


def test_missing_values_are_named(data):
    X, y = data[0].copy(), data[1]
    X[3, 2] = np.nan
    assert "silo0 could not answer" in (text := refusal(X, y))
    assert "missing_values" in text


def test_ill_posed_requests_are_refused_with_the_remedy():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((30, 40)), np.arange(30) % 2
    # Ledoit and Wolf's formula takes fourth powers over all columns by all columns.
    for shrinkage in (None, 0.0, "auto"):
        text = refusal(X, y, policy=Policy.open(), shrinkage=shrinkage)
        assert "40 columns, but 30 rows" in text
        assert "Choose a shrinkage, 0.1 for instance" in text
    X = rng.standard_normal((60, 3))
    assert "collinear" in refusal(np.column_stack([X, X[:, 0]]), np.arange(60) % 2)


# --- More columns than rows ----------------------------------------------------------


def test_a_plan_for_more_columns_than_rows():
    rng = np.random.default_rng(0)
    y = np.arange(60) % 3
    X = rng.standard_normal((60, 80)) + rng.standard_normal((3, 80))[y]
    model = LinearDiscriminantAnalysis(shrinkage=0.3, classes=[0, 1, 2])
    federation = silos(X, y, policy=Policy.open())
    planned = plan(model, federation, "class", n_rows=60)
    assert len(federation.ledger) == 0
    model.fit(federation, "class")
    assert [(x.step, x.name, x.shape) for x in planned.releases] == [
        (x.step, x.name, x.shape) for x in federation.ledger
    ]
    # Nobody said how many rows there are: then there are many.
    whole = plan(model, federation, "class")
    assert any(line.shape == (80, 80) for line in whole.releases)
    with pytest.raises(DataError, match="n_rows=1"):
        plan(model, federation, "class", n_rows=1)
