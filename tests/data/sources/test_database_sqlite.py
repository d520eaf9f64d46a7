"""Tables in SQLite files: mixed cells, other writers, paths."""

import sqlite3
from urllib.parse import quote

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import unpooled as up
from database_rows import patients, whole
from databases import run, write
from unpooled.data.sources.open_source import open_source
from unpooled.errors import DataError


@pytest.fixture
def rows():
    return patients()


def test_sqlite_cells_of_mixed_types(tmp_path):
    path = tmp_path / "rows.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE rows (late, y, k, b)")
    # The first fraction comes long after the first batch.
    connection.executemany(
        "INSERT INTO rows VALUES (?, ?, ?, ?)",
        [(None, 1, "a", None)] * 50_000 + [(7, 2.5, 3, None), (0.25, None, None, None)],
    )
    connection.commit()
    connection.close()

    table = open_source(f"sqlite:///{path}?table=rows", label="y", ids="k")
    X, extra = whole(table, ["late", "b"], ["y", "k"], rows=1000)

    assert_array_equal(X[-3:, 0], [np.nan, 7, 0.25])
    assert_array_equal(extra["y"][-3:], [1, 2.5, np.nan])
    assert extra["k"][-3:].tolist() == ["a", "3", None]
    run(f"sqlite:///{path}", "UPDATE rows SET late = 'unknown' WHERE y = 2.5")
    with pytest.raises(DataError, match=r"'late' \(text in 1 of 50002 rows\)"):
        open_source(f"sqlite:///{path}?table=rows", columns=["late"])
    # Opened before, it must not become SQLite's number for any text, which is 0.
    with pytest.raises(DataError, match="cannot be read"):
        whole(table, ["late"])


def test_sqlite_files_are_never_made(tmp_path):
    with pytest.raises(DataError, match=r"no SQLite file .*missing\.db"):
        open_source(f"sqlite:///{tmp_path}/missing.db?table=rows")
    (tmp_path / "rows.db").write_text("age\n1\n" * 100)
    with pytest.raises(DataError, match="file is not a database"):
        open_source(f"sqlite:///{tmp_path}/rows.db?table=rows")

    assert [p.name for p in tmp_path.iterdir()] == ["rows.db"]


def test_sqlite_is_read_while_others_write(tmp_path):
    path = tmp_path / "a b?#%41.db"
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("CREATE TABLE rows (a REAL, k TEXT PRIMARY KEY) WITHOUT ROWID")
    connection.executemany("INSERT INTO rows VALUES (?, ?)", [(1, "u"), (2, "t")])
    connection.commit()

    table = open_source(f"sqlite:///{quote(str(path))}?table=rows", ids="k")
    blocks = table.blocks(["a"], ["k"], rows=1)
    first = next(blocks)
    connection.execute("INSERT INTO rows VALUES (3, 'a')")
    connection.commit()

    assert [first.extra["k"][0], next(blocks).extra["k"][0]] == ["t", "u"]
    assert next(blocks, None) is None
    with pytest.raises(DataError, match="changed"):
        whole(table, ["a"])
    connection.close()


def test_sqlite_paths_start_where_their_file_lies(tmp_path, rows, monkeypatch):
    folder = tmp_path / "study with blanks"
    folder.mkdir()
    for name in ("one", "two", "three"):
        write(f"sqlite:///{folder}/{name}.db", "rows", rows)
    text = '[study]\nname = "s"\ncolumns = ["age", "chol"]\n[policy]\nmin_rows = 5\n'
    for name in ("one", "two", "three"):
        text += f'[parties.{name}]\nsource = "sqlite:///{name}.db?table=rows"\n'
    text += '[[steps]]\nmodel = "SimpleImputer"\n[[steps]]\nmodel = "PCA"\n'
    text += "[outputs]\nreport = false\n"
    (folder / "study.toml").write_text(text)
    monkeypatch.chdir(tmp_path)

    done = up.Study.from_file(folder / "study.toml").run()

    assert done.models["pca"].n_features_in_ == 2
    monkeypatch.chdir(folder)
    assert open_source("sqlite:///one.db?table=rows", columns=["age"]).n_rows == 200
