import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_array_equal

from unpooled.data.columns import Roles
from unpooled.data.row_blocks import BLOCK_BYTES, FEWEST_ROWS
from unpooled.data.table import ArrayTable, rows_per_block
from unpooled.errors import DataError

REAL = st.one_of(
    hnp.boolean_dtypes(),
    hnp.integer_dtypes(),
    hnp.unsigned_integer_dtypes(),
    hnp.floating_dtypes(endianness="="),
)
MATRICES = REAL.flatmap(
    lambda dtype: hnp.arrays(
        dtype, hnp.array_shapes(min_dims=2, max_dims=2, max_side=7)
    )
)


@given(X=MATRICES, rows=st.integers(1, 9))
def test_blocks_of_any_dtype_and_size_are_the_array(X, rows):
    table = ArrayTable(X)

    blocks = list(table.blocks(table.columns, rows=rows))

    assert [b.start for b in blocks] == list(range(0, len(X), rows))
    assert all(len(b.X) == rows for b in blocks[:-1])
    assert all(b.X.dtype == np.float64 for b in blocks)
    assert_array_equal(np.vstack([b.X for b in blocks]), X.astype(np.float64))


def test_columns_come_in_the_order_asked():
    X = np.arange(12.0).reshape(3, 4)

    block = next(ArrayTable(X).blocks(["x3", "x0", "x1"]))

    assert_array_equal(block.X, X[:, [3, 0, 1]])


def test_float64_blocks_are_read_only_views():
    X = np.random.default_rng(0).standard_normal((10, 3))
    table = ArrayTable(X)

    for columns in (table.columns, ["x1", "x2"]):
        for block in table.blocks(columns, ["x0"], rows=4):
            assert np.shares_memory(block.X, X)
            with pytest.raises(ValueError, match="read-only"):
                block.X[0, 0] = 0.0
    X[0, 0] = 5.0  # the owner's array itself stays writeable
    assert next(table.blocks(["x0"])).X[0, 0] == 5.0


def test_label_and_ids_travel_along_with_their_dtype():
    X = np.array([[1, 7, 0], [2, 8, 1]], np.int16)
    table = ArrayTable(X, Roles(label="x2", ids="x1"))

    block = next(table.blocks(table.columns, ["x2", "x1", "x0"]))

    assert table.columns == ("x0",)
    assert not table.named
    assert_array_equal(block.X, [[1.0], [2.0]])
    assert {name: values.tolist() for name, values in block.extra.items()} == {
        "x2": [0, 1],
        "x1": [7, 8],
        "x0": [1.0, 2.0],
    }
    assert block.extra["x2"].dtype == np.int16
    assert block.extra["x0"].dtype == np.float64


def test_label_alone_can_be_read():
    block = next(ArrayTable(np.eye(3), Roles(label="x2")).blocks([], ["x2"]))

    assert block.X.shape == (3, 0)
    assert block.extra["x2"].tolist() == [0.0, 0.0, 1.0]


@pytest.mark.parametrize("kind", ["csr", "csc", "coo"])
@pytest.mark.parametrize("sparse", [scipy.sparse.csr_array, scipy.sparse.csr_matrix])
def test_sparse_blocks_are_dense(sparse, kind):
    X = np.random.default_rng(0).poisson(0.3, (9, 5))
    table = ArrayTable(sparse(X).asformat(kind), Roles(label="x4"))

    blocks = list(table.blocks(["x2", "x0"], ["x4"], rows=2))

    assert_array_equal(np.vstack([b.X for b in blocks]), X[:, [2, 0]])
    assert_array_equal(np.concatenate([b.extra["x4"] for b in blocks]), X[:, 4])


def test_infinite_and_missing_cells_are_kept():
    X = np.array([[np.inf, np.nan], [-np.inf, 0.0]])

    assert_array_equal(next(ArrayTable(X).blocks(["x0", "x1"])).X, X)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.ones(3), r"1 axes; two are needed.*reshape"),
        (np.ones((2, 2, 2)), "3 axes"),
        (np.ones((2, 2), complex), "complex128; real numbers"),
        (np.ones((2, 2), object), r"object; real.*astype\(float\)"),
        (np.array([["a"]]), "real numbers are needed"),
        (np.ones((2, 2), "M8[s]"), "dates"),
        (np.ones((0, 2)), "at least one row"),
        (np.ones((2, 0)), "at least one row"),
        (np.ma.masked_array(np.ones((2, 2)), True), r"masked.*filled"),
    ],
)
def test_what_is_no_real_matrix_is_refused_with_the_remedy(X, message):
    with pytest.raises(DataError, match=message):
        ArrayTable(X)


@pytest.mark.slow
def test_default_rows_fill_a_block_but_are_never_few():
    table = ArrayTable(np.ones((1, 100_000)))

    assert rows_per_block(table, ["x0"], (), None) == BLOCK_BYTES // 8
    assert rows_per_block(table, table.columns[:64], (), None) == 2**17
    assert rows_per_block(table, table.columns, (), None) == BLOCK_BYTES // 800_000
    table.block_bytes = 2**20
    assert rows_per_block(table, table.columns[:64], (), None) == 2**11
    assert rows_per_block(table, table.columns, (), None) == FEWEST_ROWS


@pytest.mark.parametrize("rows", [0, -1])
def test_blocks_have_at_least_one_row(rows):
    with pytest.raises(DataError, match="at least 1"):
        ArrayTable(np.eye(2)).blocks(["x0"], rows=rows)


def test_unknown_columns_are_refused_before_the_first_block():
    table = ArrayTable(np.eye(2), Roles(label="x1"))

    with pytest.raises(DataError, match="no column 'x1'"):
        table.blocks(["x1"])
    with pytest.raises(DataError, match="no column 'x7'"):
        table.blocks(["x0"], ["x7"])
