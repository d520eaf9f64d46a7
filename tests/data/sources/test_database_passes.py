"""Passes over tables in databases: they change nothing, and notice what changed.

Every test runs on both kinds of database.
"""

import gc
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from numpy.testing import assert_array_equal

import unpooled as up
from database_rows import NAMES, rows, source, whole
from databases import run, write
from unpooled.data.sources.open_source import open_source
from unpooled.errors import DataError

# Fixtures of another module.
__all__ = ["rows", "source"]


def test_nothing_can_be_written(source, database):
    written = {
        "sqlite": "DELETE FROM rows RETURNING age",
        "postgresql": "WITH gone AS (DELETE FROM rows RETURNING age) TABLE gone",
    }[database.partition(":")[0]]

    with pytest.raises(DataError, match="cannot be read"):
        open_source(f"{database}query={written}")
    assert open_source(source, columns=["age"]).n_rows == 200


@pytest.mark.thinned
@pytest.mark.parametrize(
    "change",
    [
        "UPDATE rows SET age = age + 1 WHERE patient = '00077'",
        "DELETE FROM rows WHERE patient = '00199'",
        "INSERT INTO rows (age, patient) VALUES (50, 'new')",
        "UPDATE rows SET num = 'another' WHERE patient = '00003'",
        "UPDATE rows SET oldpeak = 0 WHERE patient = '00000'",
    ],
)
def test_a_table_that_changes_between_two_passes_is_noticed(source, database, change):
    table = open_source(source, label="num", ids="patient")
    whole(table, extra=["num"])
    whole(table, extra=["num"], rows=7)

    run(database, change)

    with pytest.raises(DataError, match=r"'rows' in .* changed since it was opened"):
        whole(table, extra=["num"])
    # Before the last block is given away.
    with pytest.raises(DataError, match="changed since it was opened"):
        next(table.blocks(table.columns, ["num"]))
    assert len(whole(open_source(source, label="num", ids="patient"))[0]) > 0


def test_rows_keep_their_order_where_an_index_has_all_columns(source, database):
    table = open_source(source, label="num", ids="patient")
    before, _ = whole(table, extra=["patient"])

    run(database, "CREATE INDEX by_age ON rows (age)", "CREATE INDEX c ON rows (chol)")
    if database.startswith("postgresql"):
        run(database, "VACUUM ANALYZE rows")

    assert_array_equal(whole(table, ["age"])[0], before[:, :1])
    assert_array_equal(whole(table, ["chol"])[0], before[:, 1:2])


@pytest.mark.slow
def test_a_pass_that_is_given_up_leaves_no_lock(source, database):
    table = open_source(source, columns=["age"])
    blocks = table.blocks(["age"], rows=3)
    next(blocks)

    del blocks
    gc.collect()

    # SQLite would refuse at once, PostgreSQL would wait for the open statement.
    wait = (
        "SET lock_timeout = '5s'" if database.startswith("postgresql") else "SELECT 1"
    )
    run(database, wait)
    run(database, "ALTER TABLE rows ADD COLUMN later integer", "DROP TABLE rows")


def test_two_passes_at_once_do_not_meet(source):
    table = open_source(source, columns=NAMES)

    pairs = list(
        zip(table.blocks(NAMES, rows=9), table.blocks(NAMES, rows=9), strict=True)
    )

    for one, other in pairs:
        assert_array_equal(one.X, other.X)


READ_ALL = """
import resource, sys
from unpooled.data.sources.open_source import open_source
table = open_source(sys.argv[1])
for block in table.blocks(table.columns, rows=20_000):
    pass
assert table.n_rows == int(sys.argv[2])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""
SERIES = {
    "sqlite": "WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM n"
    " LIMIT {}) SELECT i, i + 0.5 AS b, i * 2 AS c, i * 3 AS d, i * 5 AS e FROM n",
    "postgresql": "SELECT i, i + 0.5 AS b, i * 2 AS c, i * 3 AS d, i * 5 AS e"
    " FROM generate_series(1, {}) AS n(i)",
}


@pytest.mark.slow
def test_memory_does_not_grow_with_rows(database):
    write(database, "rows", pa.table({"a": [1.0]}))  # so that SQLite's file is there
    query = SERIES[database.partition(":")[0]]

    def peak(n_rows):
        done = subprocess.run(
            [sys.executable, "-c", READ_ALL, f"{database}query={query.format(n_rows)}",
             str(n_rows)],
            env={**os.environ, "PYTHONPATH": str(Path(up.__file__).parents[1])},
            capture_output=True,
            check=True,
        )  # fmt: skip
        return int(done.stdout) * 1024

    # A million more rows of five columns are 40 MB more of float64.
    assert peak(1_500_000) - peak(500_000) < 2**24
