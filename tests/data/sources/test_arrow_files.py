import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.testing import assert_array_equal

from unpooled.data.columns import Roles
from unpooled.data.sources.arrow_files import ParquetReader
from unpooled.data.sources.streamed import FileTable
from unpooled.errors import DataError


@pytest.fixture
def written(tmp_path):
    path = tmp_path / "rows.parquet"

    def write(table, **options):
        pq.write_table(pa.table(table), path, **options)
        return path

    return write


def test_rows_are_counted_without_reading_columns(written):
    path = written({"a": list(range(1000))}, row_group_size=7)

    survey = ParquetReader(path).survey(["a"], Roles())

    assert survey.n_rows == 1000


def test_only_the_columns_asked_for_are_read(written):
    reader = ParquetReader(written({"a": [1], "b": [2], "c": [3]}))

    (batch,) = reader.batches({"c": pa.int64(), "a": pa.int64()})

    assert set(batch.column_names) == {"a", "c"}


def test_rows_cross_row_groups(written):
    path = written({"a": list(range(20))}, row_group_size=3)
    table = FileTable(path, ParquetReader(path))

    blocks = list(table.blocks(["a"], rows=8))

    assert [len(b.X) for b in blocks] == [8, 8, 4]
    assert [x for b in blocks for x in b.X[:, 0]] == list(range(20))


def test_columns_named_alike_are_told_apart(written):
    path = written({"a.b": [1.0], "a": [2.0]})
    table = FileTable(path, ParquetReader(path))

    assert_array_equal(next(table.blocks(["a", "a.b"])).X, [[2.0, 1.0]])


def test_types_are_numbers_or_refused(written):
    path = written(
        {
            "small": pa.array([1, None], pa.int8()),
            "flag": [True, None],
            "blank": pa.array([None, None], pa.string()),
            "nothing": pa.nulls(2),
            "name": ["x", "y"],
            "pair": [{"u": 1}, {"u": 2}],
        }
    )
    numbers = ["small", "flag", "blank", "nothing"]

    with pytest.raises(DataError, match=r"'name' \(string\), 'pair' \(struct"):
        FileTable(path, ParquetReader(path))
    table = FileTable(path, ParquetReader(path), Roles(columns=numbers))
    nan = float("nan")
    assert_array_equal(
        next(table.blocks(numbers)).X, [[1.0, 1.0, nan, nan], [nan, nan, nan, nan]]
    )


def test_labels_have_one_dtype_in_all_blocks(written):
    path = written({"a": [1, 2], "y": [1, None], "i": [1, 2]})
    table = FileTable(path, ParquetReader(path), Roles(label="y", ids="i"))

    first = next(table.blocks(["a"], ["y", "i"], rows=1))

    assert first.extra["y"].dtype == "float64"
    assert first.extra["i"].dtype == "int64"


def test_row_index_of_pandas_is_no_feature(tmp_path):
    frame = pd.DataFrame({"a": [1.0, 2.0]}, index=[5, 3])
    frame.to_parquet(tmp_path / "rows.parquet")

    table = FileTable(
        tmp_path / "rows.parquet", ParquetReader(tmp_path / "rows.parquet")
    )

    assert table.columns == ("a",)


def test_files_of_polars_are_read(tmp_path):
    path = tmp_path / "rows.parquet"
    pl.DataFrame({"a": [1, None], "y": ["u", None]}).write_parquet(path)

    table = FileTable(path, ParquetReader(path), Roles(label="y"))

    assert next(table.blocks(["a"], ["y"])).extra["y"].tolist() == ["u", None]
