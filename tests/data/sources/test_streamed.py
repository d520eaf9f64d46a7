import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from unpooled.data.columns import Roles
from unpooled.data.sources.arrow_files import ParquetReader
from unpooled.data.sources.delimited import DelimitedReader
from unpooled.data.sources.streamed import FileTable, cut
from unpooled.errors import DataError

CELLS = {"a": [1.0, 2.0, None], "b": [4, 5, 6], "y": ["u", None, "w"]}


@pytest.fixture(params=["csv", "parquet"])
def file(request, tmp_path):
    path = tmp_path / f"rows.{request.param}"
    if request.param == "csv":
        path.write_text("a,b,y\n1,4,u\n2,5,\n,6,w\n")
        return path, DelimitedReader(path, ",")
    pq.write_table(pa.table(CELLS), path)
    return path, ParquetReader(path)


@given(
    sizes=st.lists(st.integers(0, 7), max_size=8),
    rows=st.integers(1, 12),
)
def test_pieces_are_the_batches_cut_at_multiples_of_rows(sizes, rows):
    numbers = iter(range(100))
    batches = [pa.table({"a": [next(numbers) for _ in range(s)]}) for s in sizes]

    pieces = list(cut(batches, rows))

    assert [x for t in pieces for x in t["a"].to_pylist()] == list(range(sum(sizes)))
    for piece in pieces:
        first, last = piece["a"][0].as_py(), piece["a"][-1].as_py()
        assert first // rows == last // rows


@pytest.mark.parametrize("rows", [1, 2, 3, None])
def test_blocks_are_the_file(file, rows):
    table = FileTable(*file, roles=Roles(label="y"))

    blocks = list(table.blocks(["b", "a"], ["y", "a"], rows=rows))

    assert (table.columns, table.named, table.n_rows) == (("a", "b"), True, 3)
    X = [[4.0, 1.0], [5.0, 2.0], [6.0, np.nan]]
    assert_array_equal(np.vstack([b.X for b in blocks]), X)
    assert [b.start for b in blocks] == list(range(0, 3, rows or 3))
    assert np.concatenate([b.extra["y"] for b in blocks]).tolist() == CELLS["y"]
    assert_array_equal(np.concatenate([b.extra["a"] for b in blocks]), [1, 2, np.nan])


def test_blocks_without_columns_still_count_rows(file):
    table = FileTable(*file, roles=Roles(label="y"))

    assert [b.X.shape for b in table.blocks([], rows=2)] == [(2, 0), (1, 0)]


def test_a_file_can_be_read_again_and_left_early(file):
    table = FileTable(*file, roles=Roles(label="y"))
    first = next(table.blocks(["b"], rows=1))

    again = next(table.blocks(["b"], rows=1))

    assert_array_equal(first.X, again.X)


def test_text_is_refused_unless_it_is_not_asked_for(file):
    with pytest.raises(DataError, match=r"file .*rows.*not numbers: 'y'"):
        FileTable(*file)

    assert FileTable(*file, roles=Roles(columns=["b"])).columns == ("b",)


def test_a_file_that_changed_is_refused(file):
    table = FileTable(*file, roles=Roles(label="y"))
    os.utime(file[0], ns=(1, 1))

    with pytest.raises(DataError, match="changed since it was opened"):
        table.blocks(["a"])


@pytest.mark.parametrize("rows", [1, 2, 3, 4])
@pytest.mark.parametrize("lines", ["a\n1\n2\n", "a\n1\n2\n3\n4\n5\n"])
def test_a_file_that_changes_while_it_is_read_is_refused(tmp_path, rows, lines):
    path = tmp_path / "rows.csv"
    path.write_text("a\n1\n2\n3\n")
    table = FileTable(path, DelimitedReader(path, ","))
    blocks = table.blocks(["a"], rows=rows)
    path.write_text(lines)

    with pytest.raises(DataError, match="changed since it was opened"):
        list(blocks)


def test_a_file_that_vanished_is_refused(file):
    table = FileTable(*file, roles=Roles(label="y"))
    file[0].unlink()

    with pytest.raises(DataError, match="cannot be read"):
        table.blocks(["a"])


def test_an_unreadable_file_is_refused(file):
    file[0].write_bytes(b"\x00\xff garbage")

    with pytest.raises(DataError, match=r"cannot be read|not numbers|no rows"):
        FileTable(*file)
