"""Tables in SQLite files: mixed cells, other writers, paths."""

import sqlite3
import subprocess
import sys
from urllib.parse import quote

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import unpooled as up
from database_rows import patients, whole
from databases import run, write
from unpooled.data.sources import sqlite
from unpooled.data.sources.database_address import read_address
from unpooled.data.sources.open_source import open_source
from unpooled.errors import DataError

HOLDER = """
import sqlite3, sys
held = sqlite3.connect(sys.argv[1], isolation_level=None)
held.execute("BEGIN EXCLUSIVE")
print("locked", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def rows():
    return patients()


@pytest.mark.slow
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
    with pytest.raises(DataError, match="cannot be read") as ended:
        whole(table, ["late"])
    assert ended.value.rule == "failed_in_silo"


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


@pytest.mark.slow
def test_a_lock_or_damage_of_a_sqlite_file_is_no_answer_about_rows(tmp_path):
    path = tmp_path / "rows.db"
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("CREATE TABLE rows (a REAL)")
    connection.execute("BEGIN")
    rows = [(number / 7.0,) for number in range(100_000)]
    connection.executemany("INSERT INTO rows VALUES (?)", rows)
    connection.execute("COMMIT")
    connection.close()
    table = open_source(f"sqlite:///{path}?table=rows")
    # In this process SQLite and the driver's SQLite would not see each other's locks.
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "locked\n"

    rules = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sqlite, "MILLISECONDS_TO_WAIT", 1)
        with pytest.raises(DataError, match="database is locked") as ended:
            whole(table)
        rules.append(ended.value.rule)
    holder.communicate()
    assert len(whole(table)[0]) == len(rows)
    content = bytearray(path.read_bytes())
    half = len(content) // 2
    content[half : half + 50_000] = bytes(50_000)
    path.write_bytes(content)
    with pytest.raises(DataError, match="cannot be read") as ended:
        whole(table)
    rules.append(ended.value.rule)

    assert rules == ["source_unavailable", "source_damaged"]


def test_a_commit_of_another_program_is_waited_for(tmp_path):
    write(f"sqlite:///{tmp_path}/rows.db", "rows", patients())
    reader = sqlite.SQLiteReader(read_address(f"sqlite:///{tmp_path}/rows.db?table=x"))

    with reader.cursor() as cursor:
        cursor.execute("PRAGMA busy_timeout")
        assert cursor.fetchall() == [(30_000,)]


@pytest.mark.slow
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
