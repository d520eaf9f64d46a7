import numpy as np
import pytest
from numpy.testing import assert_array_equal

from unpooled.data.columns import Roles
from unpooled.data.recoding import RecodedTable
from unpooled.data.table import ArrayTable
from unpooled.errors import DataError

X = np.array([[0.0, 1.0, 0.0], [2.0, 9.0, 1.0], [-1.0, 0.0, 2.0]])


def test_codes_become_missing_in_their_column_only():
    table = RecodedTable(ArrayTable(X, Roles(label="x2")), missing={"x0": [0, -1]})

    block = next(table.blocks(["x1", "x0"], ["x2", "x0"]))

    nan = np.nan
    assert_array_equal(block.X, [[1.0, nan], [9.0, 2.0], [0.0, nan]])
    assert_array_equal(block.extra["x2"], [0.0, 1.0, 2.0])
    assert_array_equal(block.extra["x0"], [nan, 2.0, nan])
    assert X[0, 0] == 0.0


def test_other_columns_stay_views():
    table = RecodedTable(ArrayTable(X), missing={"x0": [0]})

    assert np.shares_memory(next(table.blocks(["x1", "x2"])).X, X)


def test_columns_are_narrowed():
    table = RecodedTable(ArrayTable(X, Roles(label="x2")), columns=["x1"])

    assert (table.columns, table.label, table.n_rows) == (("x1",), "x2", 3)
    with pytest.raises(DataError, match="no column 'x0'"):
        table.blocks(["x0"])


def test_blocks_keep_their_rows_and_starts():
    table = RecodedTable(ArrayTable(X), missing={"x1": [9]})

    blocks = list(table.blocks(["x1"], rows=2))

    assert [(b.start, len(b.X)) for b in blocks] == [(0, 2), (2, 1)]


@pytest.mark.parametrize(
    ("missing", "message"),
    [
        ({"x9": [0]}, "Among its features, the table has no column 'x9'"),
        ({"x2": [0]}, "no column 'x2'"),  # the label
    ],
)
def test_codes_of_what_is_no_feature_are_refused(missing, message):
    with pytest.raises(DataError, match=message):
        RecodedTable(ArrayTable(X, Roles(label="x2")), missing=missing)
