import errno
import gzip
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


# --- Why a pass breaks off: only what depends on cells is an answer about rows -------


@pytest.fixture(params=["csv", "parquet"])
def long_file(request, tmp_path):
    """Of more rows than a reader holds at a time."""
    path = tmp_path / f"rows.{request.param}"
    values = np.arange(10.0**6) / 7.0
    if request.param == "csv":
        np.savetxt(path, values, header="a", comments="")
        return path, DelimitedReader(path, ",")
    # Plain pages, so that the file is as long as its rows.
    pq.write_table(pa.table({"a": values}), path, use_dictionary=False)
    return path, ParquetReader(path)


def rule_of_pass(blocks):
    with pytest.raises(DataError) as ended:
        list(blocks)
    return ended.value.rule


@pytest.mark.slow
@pytest.mark.parametrize("left", [0.5, 0.999])
def test_a_file_that_is_cut_while_it_is_read_has_changed(long_file, left):
    path, reader = long_file
    blocks = FileTable(path, reader).blocks(["a"], rows=1000)
    next(blocks)
    os.truncate(path, int(left * path.stat().st_size))

    assert rule_of_pass(blocks) == "source_changed"


@pytest.mark.slow
def test_rows_that_are_replaced_while_they_are_read_are_not_used(long_file):
    """The last block of a pass comes only from the file that was opened."""
    path, reader = long_file
    blocks = FileTable(path, reader).blocks(["a"], rows=400_000)
    assert len(next(blocks).X) == 400_000
    os.utime(path, ns=(1, 1))

    assert rule_of_pass(blocks) == "source_changed"


def test_a_drive_that_fails_is_away(file, monkeypatch):
    path, reader = file
    table = FileTable(path, reader, Roles(label="y"))

    def failing(types):
        raise OSError(errno.EIO, "Input/output error")
        yield

    monkeypatch.setattr(type(reader), "batches", lambda self, types: failing(types))

    assert rule_of_pass(table.blocks(["a"])) == "source_unavailable"


def test_a_file_with_damaged_pages_is_damaged(tmp_path):
    """Types are in the footer: on opening nobody reads the numbers."""
    path = tmp_path / "rows.parquet"
    columns = {name: np.arange(10.0**5) / 7.0 for name in "ab"}
    pq.write_table(pa.table(columns), path, use_dictionary=False, compression="snappy")
    content = bytearray(path.read_bytes())
    middle = slice(len(content) // 4, len(content) // 4 + 50_000)
    content[middle] = bytes(50_000)
    path.write_bytes(content)

    table = FileTable(path, ParquetReader(path))

    assert rule_of_pass(table.blocks(["a", "b"])) == "source_damaged"


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["cut", "bad line"])
def test_a_text_that_is_damaged_is_seen_when_it_is_opened(tmp_path, damage):
    lines = ["a,b", *(f"{i},1" for i in range(10**6))]
    if damage == "bad line":
        lines[-2] += ",7"
    path = tmp_path / "rows.csv.gz"
    content = gzip.compress("\n".join(lines).encode(), 1)
    path.write_bytes(content[:-1000] if damage == "cut" else content)

    with pytest.raises(DataError, match="cannot be read"):
        FileTable(path, DelimitedReader(path, ","))


def test_a_file_that_vanished_is_refused(file):
    table = FileTable(*file, roles=Roles(label="y"))
    file[0].unlink()

    with pytest.raises(DataError, match="cannot be read"):
        table.blocks(["a"])


def test_an_unreadable_file_is_refused(file):
    file[0].write_bytes(b"\x00\xff garbage")

    with pytest.raises(DataError, match=r"cannot be read|not numbers|no rows"):
        FileTable(*file)
