import datetime

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from unpooled.data.columns import Roles
from unpooled.data.sources.frames import FrameTable, eager_frame
from unpooled.errors import DataError

CELLS = {
    "age": [63, 41, None, 57],
    "pressure": [145.5, None, 120.0, np.inf],
    "smoker": [True, None, False, True],
    "unmeasured": [None, None, None, None],
    "sex": ["m", "f", None, "f"],
    "num": [0, 2, 1, 0],
}
NUMBERS = np.array(
    [
        [63.0, 145.5, 1.0, np.nan],
        [41.0, np.nan, np.nan, np.nan],
        [np.nan, 120.0, 0.0, np.nan],
        [57.0, np.inf, 1.0, np.nan],
    ]
)
FRAMES = {
    "pandas": lambda: pd.DataFrame(CELLS),
    "pandas nullable": lambda: pd.DataFrame(CELLS).convert_dtypes(),
    "pandas arrow": lambda: pd.DataFrame(CELLS).convert_dtypes(dtype_backend="pyarrow"),
    "polars": lambda: pl.DataFrame(CELLS),
    "pyarrow": lambda: pa.table(CELLS),
    "pyarrow chunked": lambda: pa.concat_tables(
        [pa.table(CELLS)[:1], pa.table(CELLS)[1:]]
    ),
}


@pytest.fixture(params=list(FRAMES.values()), ids=list(FRAMES))
def frame(request):
    return request.param()


@pytest.mark.parametrize("rows", [1, 2, 3, 4, 100])
def test_blocks_are_the_frame_with_nulls_as_nan(frame, rows):
    table = FrameTable(frame, Roles(label="num", ids="sex"))

    blocks = list(table.blocks(table.columns, ["num", "sex"], rows=rows))

    assert table.columns == ("age", "pressure", "smoker", "unmeasured")
    assert table.named
    assert table.n_rows == 4
    assert [b.start for b in blocks] == list(range(0, 4, rows))
    assert_array_equal(np.vstack([b.X for b in blocks]), NUMBERS)
    assert np.concatenate([b.extra["sex"] for b in blocks]).tolist() == CELLS["sex"]
    labels = np.concatenate([b.extra["num"] for b in blocks])
    assert labels.tolist() == CELLS["num"]
    assert labels.dtype == np.int64


def test_columns_come_in_the_order_asked(frame):
    table = FrameTable(frame, Roles(label="num", ids="sex"))

    block = next(table.blocks(["smoker", "age"], ["pressure"]))

    assert_array_equal(block.X, NUMBERS[:, [2, 0]])
    assert_array_equal(block.extra["pressure"], NUMBERS[:, 1])


def test_label_with_nulls_is_float_in_every_block(frame):
    table = FrameTable(frame, Roles(label="age", columns=["pressure"]))

    dtypes = [b.extra["age"].dtype for b in table.blocks([], ["age"], rows=1)]

    assert dtypes == [np.float64] * 4


def test_text_is_refused_by_name_with_the_remedy(frame):
    with pytest.raises(
        DataError, match=r"'sex' \(.*columns of categories \(categorical\)"
    ):
        FrameTable(frame)

    assert FrameTable(frame, Roles(columns=["age"])).columns == ("age",)


@pytest.mark.slow
@given(
    cells=st.lists(
        st.one_of(st.none(), st.floats(), st.integers(-(2**70), 2**70).map(float)),
        min_size=1,
    ),
    rows=st.integers(1, 5),
)
def test_any_floats_and_nulls_survive(cells, rows):
    expected = np.array(cells, float)
    column = pa.array(cells, pa.float64())
    arrow = pa.table({"a": column})

    for frame in (arrow, pl.from_arrow(arrow), pd.DataFrame({"a": expected})):
        blocks = FrameTable(frame).blocks(["a"], rows=rows)
        assert_array_equal(np.vstack([b.X for b in blocks])[:, 0], expected)


@pytest.mark.parametrize("dtype", ["float16", "float32", "uint8", "Int64", "boolean"])
def test_every_real_dtype_of_pandas(dtype):
    frame = pd.DataFrame({"a": pd.Series([0, 1, 1]).astype(dtype)})

    assert next(FrameTable(frame).blocks(["a"])).X[:, 0].tolist() == [0.0, 1.0, 1.0]


def test_integers_beyond_float64_round_as_numpy_does():
    frame = pa.table({"a": pa.array([2**62 + 1, None])})

    assert next(FrameTable(frame).blocks(["a"])).X[0, 0] == float(2**62 + 1)


@pytest.mark.parametrize(
    "cells",
    [
        [datetime.date(2020, 1, 1)],
        [datetime.timedelta(1)],
        ["1"],
        [1j],
        [[1]],
        [1, "x"],
        [{}],
    ],
    ids=str,
)
def test_other_pandas_columns_are_refused(cells):
    with pytest.raises(DataError, match="not numbers: 'a'"):
        FrameTable(pd.DataFrame({"a": cells}))


def test_categories_are_refused_as_features_and_are_text_as_label():
    frame = pd.DataFrame({"a": [1, 2], "c": pd.Categorical(["x", None])})

    with pytest.raises(DataError, match=r"'c' \(text\)"):
        FrameTable(frame)
    days = pd.DataFrame({"day": pd.to_datetime(["2024-01-31", None])})
    with pytest.raises(DataError, match=r"'day' \(dates\)"):
        FrameTable(days)
    block = next(FrameTable(frame, Roles(label="c")).blocks(["a"], ["c"]))
    assert block.extra["c"].tolist() == ["x", None]


def test_label_of_mixed_types_is_refused():
    table = FrameTable(pd.DataFrame({"a": [1, 2], "y": ["x", 3]}), Roles(label="y"))

    with pytest.raises(DataError, match="'y' mixes values"):
        next(table.blocks(["a"], ["y"]))


def test_pandas_names_that_are_numbers_are_none():
    frame = pd.DataFrame(np.arange(6.0).reshape(2, 3), index=[7, 9])
    table = FrameTable(frame, Roles(label="x1"))

    block = next(table.blocks(table.columns, ["x1"]))

    assert (table.columns, table.named) == (("x0", "x2"), False)
    assert_array_equal(block.X, [[0.0, 2.0], [3.0, 5.0]])
    assert block.extra["x1"].tolist() == [1.0, 4.0]


def test_names_partly_numbers_are_refused():
    with pytest.raises(DataError, match="partly text"):
        FrameTable(pd.DataFrame({"a": [1], 0: [1]}))


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame(np.eye(2), columns=["a", "a"]),
        pa.table([pa.array([1]), pa.array([1])], names=["a", "a"]),
    ],
    ids=["pandas", "pyarrow"],
)
def test_repeated_names_are_refused(frame):
    with pytest.raises(DataError, match="more than one column of the same name"):
        FrameTable(frame)


@pytest.mark.parametrize("rows", [CELLS, {}], ids=["no rows", "no columns"])
def test_empty_frames_are_refused(rows):
    with pytest.raises(DataError, match="has no"):
        FrameTable(pl.DataFrame(rows).head(0), Roles(columns=["age"] if rows else None))


@pytest.mark.parametrize(
    ("source", "remedy"),
    [
        (pl.LazyFrame({"a": [1]}), "collect"),
        (pl.Series([1]), "to_frame"),
        (pa.record_batch({"a": [1]}), "from_batches"),
        ({"a": [1]}, "DataFrame|pandas"),
        (None, "2-D array"),
    ],
    ids=["lazy", "series", "batch", "dict", "none"],
)
def test_what_is_no_frame_is_refused_with_the_remedy(source, remedy):
    with pytest.raises(DataError, match=remedy):
        eager_frame(source)
