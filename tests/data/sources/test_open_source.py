import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
import scipy.sparse
from numpy.testing import assert_array_equal

import unpooled
from databases import write
from unpooled.data.columns import Roles
from unpooled.data.sources import delimited
from unpooled.data.sources.open_source import open_source
from unpooled.data.table import ArrayTable
from unpooled.errors import DataError

NAMES = ("age", "chol", "ca")


@pytest.fixture
def cells():
    """37 rows, some missing and infinite; the last column is the label."""
    rng = np.random.default_rng(11)
    X = rng.standard_normal((37, 4)).round(6)
    X[rng.random(X.shape) < 0.2] = np.nan
    X[3, 0] = np.inf
    X[:, 1] = 0.0
    X[:, 3] = rng.integers(0, 5, 37)
    return X


@pytest.fixture(
    params=[
        "array",
        "list",
        "pandas",
        "polars",
        "pyarrow",
        "csv",
        "CSV",
        "csv.gz",
        "tsv",
        "txt",
        "parquet",
        "sqlite",
        "postgresql",
    ]
)
def source(request, cells, tmp_path):
    kind = request.param
    frame = pd.DataFrame(cells, columns=[*NAMES, "num"])
    if kind == "array":
        return cells
    if kind == "list":
        return [[None if np.isnan(x) else x for x in row] for row in cells]
    if kind == "pandas":
        return frame
    if kind == "polars":
        return pl.from_pandas(frame)
    if kind == "pyarrow":
        return pa.Table.from_pandas(frame)
    if kind in ("sqlite", "postgresql"):
        address = f"sqlite:///{tmp_path}/rows.db?"
        if kind == "postgresql":
            address = request.getfixturevalue("postgresql") + "&"
        write(address, "rows", pa.Table.from_pandas(frame))
        return f"{address}table=rows"
    path = tmp_path / f"rows.{kind}"
    if kind == "parquet":
        frame.to_parquet(path, row_group_size=5)
    else:
        frame.to_csv(path, index=False, sep="\t" if kind in ("tsv", "txt") else ",")
    return path


def label_of(source):
    return "x3" if isinstance(source, list | np.ndarray) else "num"


@pytest.mark.thinned(1)
@pytest.mark.parametrize("rows", [1, 5, 36, 37, None])
def test_every_source_gives_the_same_rows(source, cells, rows):
    label = label_of(source)
    table = open_source(source, label=label)

    blocks = list(table.blocks(table.columns, [label], rows=rows))

    assert table.n_rows == 37
    assert table.columns == (("x0", "x1", "x2") if label == "x3" else NAMES)
    assert table.named == (label == "num")
    assert all(len(b.X) == rows for b in blocks[:-1])
    assert [b.start for b in blocks] == list(range(0, 37, rows or 37))
    assert_array_equal(np.vstack([b.X for b in blocks]), cells[:, :3])
    assert_array_equal(np.concatenate([b.extra[label] for b in blocks]), cells[:, 3])


@pytest.mark.slow
def test_every_source_takes_columns_and_codes(source, cells):
    first, second, *_ = open_source(source).columns

    table = open_source(source, columns=[second, first], missing={second: [0]})

    assert table.columns == (first, second)
    block = next(table.blocks([second, first]))
    assert_array_equal(block.X[:, 0], np.full(37, np.nan))
    assert_array_equal(block.X[:, 1], cells[:, 0])


@pytest.mark.parametrize("chosen", [{"columns": ["a"]}, {"exclude": ["b"]}])
def test_what_is_declared_of_a_column_may_stand_while_it_is_left_out(
    chosen: dict[str, Any], tmp_path: Path
):
    rows = pd.DataFrame({"a": [1.0, 0.0], "b": [0.0, 7.0]})
    declared: dict[str, Any] = {
        "missing": {"a": [0], "b": [0]},
        "plausible": {"b": [8, 9]},
    }

    table = open_source(rows, **chosen, **declared)

    assert table.columns == ("a",)
    assert_array_equal(next(table.blocks(["a"])).X, [[1.0], [np.nan]])
    for role in declared:
        misspelt: dict[str, Any] = {role: {"B": [8, 9]}}
        with pytest.raises(DataError, match=r"no column 'B'\. Did you mean 'b'"):
            open_source(rows, **chosen, **misspelt)
    # Texts, too, which a file's own reader replaces.
    rows.to_csv(path := tmp_path / "rows.csv", index=False)
    texts: dict[str, Any] = {"a": [0, "n/d"], "b": ["n/d"]}
    assert open_source(path, **chosen, missing=texts).columns == ("a",)
    # A label is read, and is no feature whose cells could be blanked.
    with pytest.raises(DataError, match="Among its features"):
        open_source(rows, label="b", columns=["a"], missing={"b": [0]})


@pytest.mark.slow
def test_every_source_refuses_unknown_columns(source):
    with pytest.raises(DataError, match="no column 'chole'"):
        open_source(source, columns=["chole"])
    with pytest.raises(DataError, match="no column 'numm'"):
        open_source(source, label="numm")
    with pytest.raises(DataError, match="no column 'id'"):
        open_source(source, ids="id")


def test_paths_may_be_text(cells, tmp_path):
    path = tmp_path / "rows.csv"
    pd.DataFrame(cells).to_csv(path, index=False)

    assert open_source(str(path)).n_rows == 37


def test_sparse_arrays_are_sources():
    X = np.eye(3)

    assert_array_equal(
        next(open_source(scipy.sparse.csr_array(X)).blocks(["x1"])).X[1], 1
    )


def test_a_table_is_returned_as_it_is():
    table = ArrayTable(np.eye(3), Roles(label="x2"))

    assert open_source(table) is table
    assert open_source(table, label="x2") is table
    assert open_source(table, columns=["x1"]).columns == ("x1",)
    with pytest.raises(DataError, match="opened with label='x2'"):
        open_source(table, label="x1")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("missing.csv", "There is no file missing.csv"),
        (".", "is a directory"),
        ("sqlite:///missing.db?table=t", "There is no SQLite file missing.db"),
        ("postgresql://me:secret@host/db", "names one table, or one query"),
        ("mysql://me:secret@host/db", "mysql:// sources.*SQLite and PostgreSQL"),
        (3, "int cannot be read"),
        (None, "NoneType cannot be read"),
        ({"a": [1]}, "dict cannot be read"),
        ([[1, 2], [3]], "rows of equal length"),
        ([[1, "x"], [3, None]], "with numbers"),
        ([["1"], ["2"]], "real numbers are needed"),
        ([], "two are needed"),
    ],
    ids=str,
)
def test_other_sources_are_refused_with_what_is_allowed(source, message):
    with pytest.raises(DataError, match=message):
        open_source(source)


def test_a_password_in_an_address_is_not_repeated():
    with pytest.raises(DataError) as caught:
        open_source("postgresql://me:secret@host/db")

    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("name", ["rows.xls", "rows", "rows.gz", "rows.parquet.gz"])
def test_other_endings_are_refused(name, tmp_path):
    (tmp_path / name).write_text("a\n1\n")

    with pytest.raises(DataError, match=r"ending of .*rows.* is not known.*\.parquet"):
        open_source(tmp_path / name)


def test_data_errors_are_value_errors():
    with pytest.raises(ValueError, match="no file"):
        open_source("missing.csv")


def written(path, n_rows, n_columns=20):
    rng = np.random.default_rng(0)
    names = [f"c{j}" for j in range(n_columns)]
    # In pieces, so that the writer itself stays small.
    writer = None
    for _ in range(0, n_rows, 10_000):
        cells = rng.integers(0, 1000, (n_columns, 10_000)).astype(float)
        batch = pa.table(dict(zip(names, cells, strict=True)))
        if writer is None:
            kind = pyarrow.csv.CSVWriter if path.suffix == ".csv" else pq.ParquetWriter
            writer = kind(path, batch.schema)
        writer.write_table(batch)
    assert writer is not None
    writer.close()
    return path


def peak_bytes(path):
    """Arrow's and NumPy's largest allocation while the whole file is read."""
    pool, before = (
        pa.proxy_memory_pool(pa.system_memory_pool()),
        pa.default_memory_pool(),
    )
    pa.set_memory_pool(pool)
    tracemalloc.start()
    try:
        table = open_source(path)
        total = sum(len(b.X) for b in table.blocks(table.columns, rows=2000))
        assert total == table.n_rows
        return pool.max_memory() + tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        pa.set_memory_pool(before)


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_memory_does_not_grow_with_rows(ending, tmp_path, monkeypatch):
    # Small batches, so that reading ahead ends before the smaller file does.
    monkeypatch.setattr(delimited, "READ_BYTES", 2**16)
    monkeypatch.setattr(delimited, "GATHERED_BYTES", 2**19)
    small = written(tmp_path / f"small.{ending}", 50_000)
    large = written(tmp_path / f"large.{ending}", 400_000)

    # How far Arrow reads ahead depends on its threads: hence half as much again, where
    # eight times the rows held in memory would be eight times as much.
    assert peak_bytes(large) < 1.5 * peak_bytes(small)


READ_ALL = """
import resource, sys
from unpooled.data.sources.open_source import open_source
table = open_source(sys.argv[1])
for block in table.blocks(table.columns):
    pass
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_process_stays_small_with_the_settings_as_shipped(ending, tmp_path):
    def peak(path):
        command = [sys.executable, "-c", READ_ALL, str(path)]
        folder = str(next(iter(unpooled.__path__)) + "/..")
        done = subprocess.run(
            command, env={"PYTHONPATH": folder}, capture_output=True, check=True
        )
        return int(done.stdout) * 1024

    small = written(tmp_path / f"small.{ending}", 1_000_000)
    large = written(tmp_path / f"large.{ending}", 2_000_000)

    # Both have more rows than two blocks of 64 MB (419,000). The larger one has 160 MB
    # more of float64; the two peaks may differ by one block.
    assert peak(large) - peak(small) < 2**26


@pytest.mark.parametrize("where", [None, "ward == 'b' and x1 < 40"])
def test_codes_beside_columns_that_are_no_features(where, tmp_path):
    """Columns of categories and of a condition became features once more."""
    path = tmp_path / "rows.csv"
    path.write_text("x0,x1,ward,kind\n1,0,a,u\n2,30,b,v\n3,0,b,u\n4,50,b,v\n")
    table = open_source(
        path,
        exclude=["ward"],
        missing={"x1": [0]},
        where=where,
        categorical=["kind"],
    )
    assert table.columns == ("x0", "x1", "kind")
    assert table.categorical == ("kind",)
    block = next(table.blocks(["x0", "x1"]))
    wanted = (
        [[1, np.nan], [2, 30], [3, np.nan], [4, 50]] if where is None else [[2, 30]]
    )
    assert_array_equal(block.X, wanted)
