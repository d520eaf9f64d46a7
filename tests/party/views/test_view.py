"""Views: what a silo reads is what NumPy says the operations give."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unpooled.data.row_blocks import Block
from unpooled.data.sources.open_source import open_source
from unpooled.data.table import Table
from unpooled.errors import DataError, UnpooledError
from unpooled.models.preprocessing.imputer import imputed
from unpooled.party.views.view import View
from unpooled.protocol.shared_blocks import LEVELS
from unpooled.protocol.view_operations import (
    Derive,
    Rows,
    Select,
)
from viewed_tables import NAMES, ROWS, table_of

assert imputed  # its module must be loaded for the transforms' names


def read(view: View) -> np.ndarray:
    return np.concatenate([block.X for block in view.blocks()])


def source(n: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal((n, 3))


BLOCKS = st.lists(st.integers(0, 19), unique=True, max_size=20).map(sorted).map(tuple)


@given(st.integers(2, 7), st.integers(-1, 3), BLOCKS)
def test_folds_partition_the_blocks_and_any_first_ones(of, seed, blocks):
    test = [Rows(k, of, 0.0, False, seed).chosen(blocks) for k in range(of)]
    train = [Rows(k, of, 0.0, True, seed).chosen(blocks) for k in range(of)]
    assert sorted(b for part in test for b in part) == list(blocks)
    for part, others in zip(test, train, strict=True):
        assert sorted(part + others) == list(blocks)
    # As a silo with fewer blocks has them.
    for K in range(len(blocks) + 1):
        sizes = [len(set(part) & set(blocks[:K])) for part in test]
        assert max(sizes) - min(sizes) <= 1


@given(st.floats(0, 1), st.integers(-1, 3), BLOCKS)
def test_shares_are_rounded_to_blocks_of_which_each_side_has_one(share, seed, blocks):
    test = Rows(0, 0, share, False, seed).chosen(blocks)
    train = Rows(0, 0, share, True, seed).chosen(blocks)
    assert sorted(test + train) == list(blocks)
    for K in range(2, len(blocks) + 1):
        n = len(set(test) & set(blocks[:K]))
        assert 1 <= n <= K - 1
        # Half a block by rounding; of the five blocks between two such numbers those
        # that are picked may be the first or the last.
        assert abs(n - share * K) < 2.0
    if len(blocks) == 20 and 0.05 <= share <= 0.95:
        assert abs(len(test) - 20 * share) <= 1.0
    # The numbers of blocks that are common: half a block by rounding.
    for level in LEVELS:
        K = len([block for block in blocks if block < level])
        n = len([block for block in test if block < level])
        if K > 1:
            assert n in (1, K - 1) or abs(n - share * K) <= 0.5 + 1e-9


def test_all_silos_keep_blocks_of_the_same_numbers():
    """So what two selections differ in is of every silo that has so many blocks."""
    chain = [Rows(1, 3, 0.0, True, 4), Rows(0, 0, 0.3, False, 2)]
    kept = [View(table_of(n), chain).kept_blocks for n in (30, 150, 200, 900)]
    assert kept[2] == kept[3]
    assert set(kept[0]) < set(kept[1]) < set(kept[2])
    for some, K in zip(kept[:2], (3, 15), strict=True):
        assert set(some) == set(kept[2]) & set(range(K))


@given(st.permutations(NAMES), st.integers(1, 3), st.lists(ROWS, max_size=3))
def test_chains_are_what_numpy_says(names, k, chain):
    chosen = tuple(names[:k])
    view = View(table_of(40), [Select(NAMES), Select(chosen), *chain])
    X = source(40)[:, [NAMES.index(name) for name in chosen]]
    # All silos share four blocks of every fourth row.
    blocks = tuple(range(20))
    for rows in chain:
        blocks = rows.chosen(blocks)
    X = X[np.isin(np.arange(40) % 4, blocks)]

    assert view.columns == view.source_columns == chosen
    assert view.n_rows == len(X)
    assert view.left_out == 40 - len(X)
    assert view.fewest_rows == (min(10, len(X)) if chain else 40)
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

    kept = view.rows()
    expected = X.copy()
    expected[3, 1] = 8.0
    expected = (expected[kept, 1:] - [1, 2]) / [2, 4]
    assert 0 < len(expected) < 30
    assert (read(view) == expected).all()
    assert view.columns == ("x1", "x2")
    assert view.source_columns == NAMES
    assert view.transforms == ["imputer.imputed", "scaler.standardised"]
    np.testing.assert_equal(read(view.source()), X[kept])


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


def test_all_rows_are_added_up_once(monkeypatch):
    added = []
    monkeypatch.setattr(
        "unpooled.party.views.view.column_sums",
        lambda X: added.append(len(X)) or X.sum(axis=0),
    )
    view = View(table_of(40), [Select(NAMES[:2]), Rows(0, 2, 0.0, True, -1)])
    (block,) = view.blocks()

    first, again, part = (view.sums(X) for X in (block.X, block.X, block.X[:7]))

    assert added == [20, 7]
    assert again is first
    assert not first.flags.writeable
    np.testing.assert_array_equal(first, block.X.sum(axis=0))
    np.testing.assert_array_equal(part, block.X[:7].sum(axis=0))
