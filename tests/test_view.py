"""Views: chains of operations as data; the silo evaluates them, and numpy agrees."""

import json
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from unpooled.data.sources import open_source
from unpooled.data.table import Block, Table
from unpooled.errors import DataError, UnpooledError
from unpooled.models.imputer import local_observed
from unpooled.party import operations as operations_module
from unpooled.party.operations import (
    Derive,
    Rows,
    Select,
    array_digest,
    array_key,
    operation_from_json,
)
from unpooled.party.view import View

NAMES = ("x0", "x1", "x2")
assert local_observed  # its module must be loaded for the transforms' names


def table_of(n: int, p: int = 3, seed: int = 0) -> Any:
    return open_source(np.random.default_rng(seed).standard_normal((n, p)))


def read(view: View) -> np.ndarray:
    return np.concatenate([block.X for block in view.blocks()])


def source(n: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal((n, 3))


ROWS = st.builds(
    lambda of, fold, complement, seed: Rows(fold % of, of, 0.0, complement, seed),
    st.integers(1, 7),
    st.integers(0, 6),
    st.booleans(),
    st.integers(-1, 5),
) | st.builds(
    lambda share, complement, seed: Rows(0, 0, share, complement, seed),
    st.floats(0, 1),
    st.booleans(),
    st.integers(-1, 5),
)


@given(ROWS, st.integers(0, 60), st.integers(1, 25))
def test_rows_are_the_same_in_any_blocks(rows, n, stretch):
    """Also over the ends of stretches, here made short."""
    before, operations_module._STRETCH = operations_module._STRETCH, stretch
    try:
        whole = rows.chosen(0, n, n)
        assert len(whole) == n
        assert whole.sum() == rows.count(n)
        for size in (1, 4, 13):
            parts = [
                rows.chosen(start, min(start + size, n), n)
                for start in range(0, n, size)
            ]
            assert (np.concatenate(parts or [whole]) == whole).all()
    finally:
        operations_module._STRETCH = before


@given(st.integers(2, 7), st.integers(-1, 3), st.integers(0, 100))
def test_folds_partition_the_rows(of, seed, n):
    test = [Rows(k, of, 0.0, False, seed).chosen(0, n, n) for k in range(of)]
    train = [Rows(k, of, 0.0, True, seed).chosen(0, n, n) for k in range(of)]
    assert (np.sum(test, axis=0) == 1).all()
    assert all((a ^ b).all() for a, b in zip(test, train, strict=True))
    sizes = [part.sum() for part in test]
    assert max(sizes) - min(sizes) <= 1


@given(st.floats(0.01, 0.99), st.integers(0, 3), st.integers(1, 100))
def test_shares_are_rounded_up(share, seed, n):
    test = Rows(0, 0, share, False, seed)
    assert test.count(n) == math.ceil(share * n)
    assert (test.chosen(0, n, n) ^ Rows(0, 0, share, True, seed).chosen(0, n, n)).all()


@given(st.permutations(NAMES), st.integers(1, 3), st.lists(ROWS, max_size=3))
def test_chains_are_what_numpy_says(names, k, chain):
    chosen = tuple(names[:k])
    view = View(table_of(40), [Select(NAMES), Select(chosen), *chain])
    X = source(40)[:, [NAMES.index(name) for name in chosen]]
    left_out = []
    for rows in chain:
        kept = rows.chosen(0, len(X), len(X))
        left_out.append(int((~kept).sum()))
        X = X[kept]

    assert view.columns == view.source_columns == chosen
    assert view.n_rows == len(X)
    assert view.left_out == left_out
    assert (read(view) == X).all()


def test_transforms_apply_in_their_place():
    fill = Derive("imputer.imputed", NAMES, {"statistics": np.array([7.0, 8, 9])})
    scale = {"mean": np.array([1.0, 2]), "scale": np.array([2.0, 4])}
    X = source(30)
    X[3, 1] = np.nan
    chain = [
        Select(NAMES),
        Rows(0, 2, 0.0, True, -1),
        fill,
        Select(("x1", "x2")),
        Derive("scaler.standardised", ("x1", "x2"), scale),
    ]
    view = View(open_source(X), chain)

    expected = X[1::2].copy()
    expected[1, 1] = 8.0
    expected = (expected[:, 1:] - [1, 2]) / [2, 4]
    assert (read(view) == expected).all()
    assert view.columns == ("x1", "x2")
    assert view.source_columns == NAMES
    assert view.transforms == ["imputer.imputed", "scaler.standardised"]
    np.testing.assert_equal(read(view.source()), X[1::2])


def test_only_selected_columns_are_read():
    class Watched(Table):
        columns, label, ids, named = NAMES, None, None, True

        @property
        def n_rows(self) -> int:
            return 5

        def blocks(
            self,
            columns: Sequence[str],
            extra: Sequence[str] = (),
            rows: int | None = None,
        ) -> Iterator[Block]:
            asked.append(tuple(columns))
            return iter(())

    asked: list[Any] = []
    list(View(Watched(), [Select(("x2", "x0")), Select(("x0",))]).blocks())
    assert asked == [("x0",)]


@pytest.mark.parametrize("columns", [("x9",), (), ("x0", "x0"), ("x0", "x9")])
def test_unknown_columns(columns):
    for chain in ([Select(columns)], [Rows(0, 2, 0.0, False, 1), Select(columns)]):
        with pytest.raises(LookupError, match="unknown_columns"):
            View(table_of(20), chain)


# --- as they travel -------------------------------------------------------------------


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


# --- dominance ------------------------------------------------------------------------


def share_by_hand(X: np.ndarray) -> float:
    shares = [0.0]
    for column in X.T:
        there = column[~np.isnan(column)]
        if len(there) and np.ptp(there) > 0:
            squares = (there - there.mean()) ** 2
            shares.append(squares.max() / squares.sum())
    return max(shares)


# Means as large as 1e8 spreads, also where the first row's cell is missing.
@given(st.integers(0, 1000), st.sampled_from([0.0, 1.0, 1e6, 1e8]), st.booleans())
@example(63, 1e6, True)
def test_the_largest_share_is_that_of_the_definition(seed, mean, holes):
    rng = np.random.default_rng(seed)
    X = mean + rng.standard_normal((int(rng.integers(1, 30)), 3))
    X[0, 1] *= 3
    if holes:
        X[rng.random(X.shape) < 0.3] = np.nan
    view = View(open_source(X), [Select(NAMES)])
    assert view.row_shares().max() == pytest.approx(share_by_hand(X), rel=1e-6)


@pytest.mark.parametrize(
    ("columns", "share"),
    [
        ([[1.0] * 10], 0.0),
        ([[0.1] * 10], 0.0),
        ([[np.nan] * 10], 0.0),
        ([[np.nan] * 9 + [5.0]], 0.0),
        ([[0.0] * 9 + [1.0]], 0.9),
        ([[0.0] * 9 + [-1e100]], 0.9),
        ([[0.0] * 9 + [1.0], [np.nan] * 10], 0.9),
        # A large offset hides nobody, down to the last bit of a number.
        ([[1e12] * 9 + [1e12 + 1]], 0.9),
        ([[1e15] * 9 + [1e15 + 0.125]], 0.9),
        ([[np.nan] + [1e15] * 9 + [1e15 + 0.125], [0.0] * 11], 0.9),
        # Nor do squares that overflow.
        ([[0.0] * 9 + [1e200]], np.inf),
        ([[-1e308] * 9 + [1e308]], np.inf),
    ],
)
def test_shares_of_odd_columns(columns, share):
    view = View(open_source(np.array(columns).T), [])
    assert view.row_shares().max() == pytest.approx(share)


def test_a_table_without_rows_has_no_shares():
    nobody = Rows(0, 0, 0.0, False, -1)
    assert View(table_of(20), [nobody]).row_shares().max() == 0.0


def test_shares_are_of_the_rows_of_the_view():
    X = np.random.default_rng(1).standard_normal((40, 3))
    X[7, 2] = 1e3
    kept = Rows(0, 0, 0.5, False, -1)
    left = Rows(0, 0, 0.5, True, -1)
    assert View(open_source(X), [kept]).row_shares().max() > 0.9
    assert View(open_source(X), [left]).row_shares().max() < 0.5
    assert View(open_source(X), [Select(("x0",)), kept]).row_shares().max() < 0.5


# --- transforms that the silo does not take -------------------------------------------


@pytest.mark.parametrize(
    "public",
    [
        {},
        {"statistics": np.zeros(4)},
        {"statistics": np.zeros((20, 3))},
        {"statistics": np.zeros((1, 3))},
        {"statistics": 0.0},
        {"statistics": [0.0, 0.0, 0.0]},
        {"statistics": np.array([0.0, np.inf, 0.0])},
        {"statistics": np.zeros(3), "X": np.zeros(3)},
        {"other": np.zeros(3)},
    ],
)
def test_arguments_are_checked_where_the_rows_are(public):
    with pytest.raises(DataError) as refused:
        View(table_of(20), [Select(NAMES), Derive("imputer.imputed", NAMES, public)])
    assert refused.value.rule == "arguments"


@pytest.mark.parametrize("step", ["os.system", "imputer.SimpleImputer", "", "x"])
def test_a_transform_is_a_step_that_is_installed(step):
    with pytest.raises(UnpooledError, match="allowed_steps"):
        View(table_of(20), [Derive(step, NAMES, {})])


def test_infinite_cells_do_not_pass_a_transform():
    X = source(20)
    X[2, 2] = np.inf
    fill = Derive("imputer.imputed", NAMES, {"statistics": np.zeros(3)})
    with pytest.raises(DataError) as refused:
        read(View(open_source(X), [fill]))
    assert refused.value.rule == "infinite_values"
    # Large and missing cells do.
    X[2, 2] = np.nan
    X[3] = 1e308
    assert read(View(open_source(X), [fill]))[2, 2] == 0
