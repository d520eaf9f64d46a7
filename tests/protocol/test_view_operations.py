"""The operations of a view travel as JSON, and nothing else is read."""

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unpooled.protocol.view_operations import (
    Derive,
    Rows,
    Select,
    array_digest,
    array_key,
    features_digest,
    operation_from_json,
)
from viewed_tables import NAMES, ROWS


def there_and_back(chain: list[Any]) -> list[Any]:
    arrays = {
        array_key(position, name, array_digest(value)): value
        for position, operation in enumerate(chain)
        if isinstance(operation, Derive)
        for name, value in operation.arrays().items()
    }
    texts = [json.dumps(operation.as_json()) for operation in chain]
    return [
        operation_from_json(json.loads(text), position, arrays)
        for position, text in enumerate(texts)
    ]


@given(st.lists(ROWS | st.just(Select(("x1", "x0"))), max_size=5))
def test_operations_travel(chain):
    assert there_and_back(chain) == chain


def test_transforms_travel_with_their_arrays_on_the_side():
    public = {"statistics": np.array([1.0, -0.0, np.nan]), "word": "x", "n": 5}
    chain = [Select(NAMES), Derive("imputer.imputed", NAMES, public)]
    _, back = there_and_back(chain)
    assert (back.step, back.columns) == ("imputer.imputed", NAMES)
    assert back.public["statistics"].tobytes() == public["statistics"].tobytes()
    assert (back.public["word"], back.public["n"]) == ("x", 5)
    text = json.dumps(chain[1].as_json())
    assert "NaN" not in text
    assert array_digest(public["statistics"]) in text


GOOD = {
    "operation": "rows",
    "fold": 1,
    "of": 3,
    "share": 0.0,
    "complement": False,
    "seed": 4,
}


@pytest.mark.parametrize(
    "change",
    [
        {"fold": -1},
        {"fold": 3},
        {"fold": 1.0},
        {"fold": True},
        {"fold": "1"},
        {"of": -3},
        {"of": 2.5},
        {"of": 0},
        {"of": 10**30},
        {"of": None},
        {"share": -0.1},
        {"share": 1.1},
        {"share": "0.5"},
        {"share": None},
        {"share": [0.5]},
        {"share": float("nan")},
        {"complement": 0},
        {"complement": "yes"},
        {"seed": 1.5},
        {"seed": "4"},
        {"seed": None},
        {"seed": [1, 2]},
        {"operation": "row"},
        {"operation": None},
        {"operation": "eval"},
    ],
)
def test_other_rows_are_refused(change):
    assert operation_from_json(GOOD, 0, {}) == Rows(1, 3, 0.0, False, 4)
    with pytest.raises((ValueError, TypeError)):
        operation_from_json({**GOOD, **change}, 0, {})


@pytest.mark.parametrize("absent", GOOD)
def test_rows_want_all_their_fields(absent):
    with pytest.raises(KeyError):
        operation_from_json({k: v for k, v in GOOD.items() if k != absent}, 0, {})


@pytest.mark.parametrize(
    "record",
    [
        {},
        [],
        5,
        None,
        "select",
        {"operation": "select"},
        {"operation": "select", "columns": 5},
        {"operation": "derive"},
        {"operation": "derive", "step": "x.y", "columns": [], "public": 5},
        {"operation": "derive", "step": "x.y", "columns": [], "public": {"a": {}}},
        {"operation": "derive", "step": "x.y", "columns": [],
         "public": {"a": {"array": "00"}}},
        {"operation": "derive", "step": "x.y", "columns": [],
         "public": {"a": {"array": []}}},
    ],
)  # fmt: skip
def test_what_is_no_operation_is_refused(record):
    with pytest.raises((KeyError, TypeError, ValueError, AttributeError)):
        operation_from_json(record, 0, {})


def test_every_place_and_name_makes_another_array():
    keys = {array_key(p, n, "d") for p in (0, 1, 11) for n in ("a", "b", "1.a")}
    assert len(keys) == 9


def test_other_columns_and_transforms_have_another_name_and_other_rows_the_same():
    scaled = Derive("scaler.standardised", ("a", "b"), {"mean": np.zeros(2)})
    moved = Derive("scaler.standardised", ("a", "b"), {"mean": np.ones(2)})
    some = Rows(fold=0, of=2, share=0.0, complement=False, seed=-1)
    names = {
        features_digest(chain)
        for chain in (
            [scaled],
            [moved],
            [Select(("a",))],
            [scaled, Select(("a",))],
            [scaled, Select(("b",))],
            [moved, Select(("a",))],
            [scaled, moved, Select(("a",))],
        )
    }
    assert len(names) == 7
    # Rows, a choice before a choice, and one of all columns that are made: nothing new.
    assert features_digest([scaled, some]) == features_digest([scaled])
    both = [scaled, Select(("b", "a")), Select(("a",))]
    assert features_digest(both) == features_digest([scaled, Select(("a",))])
    assert features_digest([scaled, Select(("a", "b"))]) == features_digest([scaled])
