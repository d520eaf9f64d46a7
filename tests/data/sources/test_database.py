"""Tables in databases: the rows that pandas reads, whatever their columns are called.

Every test runs on both kinds of database.
"""

import sqlite3
import sys
from urllib.parse import quote

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from numpy.testing import assert_array_equal

from database_rows import NAMES, rows, source, whole
from databases import connected, run, write
from unpooled.data.sources import database as database_module
from unpooled.data.sources.database import DatabaseTable
from unpooled.data.sources.open_source import open_source
from unpooled.errors import DataError

# Fixtures of another module.
__all__ = ["rows", "source"]

AWKWARD = [
    'quo"te', "a.b", "select", "x; DROP TABLE kept", "Größe %s ? $1 {0}", "it's--",
]  # fmt: skip


def test_rows_are_those_that_pandas_and_pyarrow_read(source, database, rows):
    table = open_source(source, label="num", ids="patient")

    X, extra = whole(table, extra=["num", "patient"])

    assert isinstance(table, DatabaseTable)
    assert table.columns == tuple(NAMES)
    assert table.n_rows == 200
    with connected(database) as cursor:
        cursor.execute('SELECT "age", "chol", "oldpeak", "num" FROM "rows"')
        arrow = cursor.fetch_arrow_table()
    frame = arrow.to_pandas()
    assert_array_equal(X, frame[NAMES].to_numpy(float))
    assert extra["num"].tolist() == arrow["num"].to_pylist()
    assert extra["patient"].tolist() == rows["patient"].to_pylist()
    if database.startswith("sqlite"):
        path = database.removeprefix("sqlite:///").rstrip("?")
        connection = sqlite3.connect(path)
        read = pd.read_sql("SELECT * FROM rows", connection)
        connection.close()
        assert_array_equal(X, read[NAMES].to_numpy(float))


def test_blocks_do_not_depend_on_batches(source, monkeypatch):
    monkeypatch.setattr(database_module, "BATCH_BYTES", 8 * 64)
    table = open_source(source, label="num", ids="patient")

    for length in (1, 63, 64, 199, 200, 201):
        X, _ = whole(table, rows=length, extra=["num"])
        assert_array_equal(X, whole(table)[0])


def test_columns_come_in_the_order_asked(source):
    table = open_source(source, columns=["chol", "age"])

    X, extra = whole(table, ["chol", "age"], extra=["age"])

    assert table.columns == ("age", "chol")
    assert_array_equal(X[:, ::-1], whole(table)[0])
    assert_array_equal(extra["age"], X[:, 1])
    # No feature is asked for, so rows are counted by another column.
    assert sum(len(b.X) for b in table.blocks([])) == 200


def test_only_the_columns_asked_for_are_read(source, database):
    # Whoever reads the column that cannot be computed gets an error.
    broken = {
        "sqlite": "abs(-9223372036854775807 - 1)",
        "postgresql": "1 / (age - age)",
    }[database.partition(":")[0]]
    run(database, f"CREATE VIEW seen AS SELECT age, chol, {broken} AS broken FROM rows")

    table = open_source(f"{database}table=seen", columns=["age", "chol"])

    assert whole(table)[0].shape == (200, 2)
    with pytest.raises(DataError, match=r"overflow|division by zero"):
        whole(open_source(f"{database}table=seen"))


def test_codes_mean_missing_cells(source):
    X, _ = whole(open_source(source, columns=["chol"], missing={"chol": [0]}))

    assert_array_equal(np.flatnonzero(np.isnan(X[:, 0])), [0, 1])


def test_numbers_of_every_size_survive(database):
    cells = [2**53 + 1, -(2**62), None, 0]
    reals = [1e308, -5e-324, float("inf"), None]
    write(database, "rows", pa.table({"i": cells, "r": reals, "f": [True, False] * 2}))

    X, _ = whole(open_source(f"{database}table=rows"))

    expected = [
        [np.nan if c is None else float(c) for c in row] for row in (cells, reals)
    ]
    assert_array_equal(X[:, :2].T, expected)
    assert_array_equal(X[:, 2], [1, 0, 1, 0])


def test_columns_that_are_not_numbers_are_refused_by_name(source, database):
    with pytest.raises(DataError, match=r"not numbers: 'num' \(text.*'patient' \(text"):
        open_source(source)
    run(database, "CREATE VIEW seen AS SELECT age, CAST(NULL AS text) AS t FROM rows")

    # Without any value it is no text: other silos may have numbers.
    X, _ = whole(open_source(f"{database}table=seen"))

    assert np.isnan(X[:, 1]).all()


@pytest.mark.thinned
@pytest.mark.parametrize("name", AWKWARD)
def test_any_name_is_only_a_name(database, name):
    names = [name, f"{name} 2", "other"]
    write(database, "kept", pa.table({"a": [1.0]}))
    write(database, name, pa.table({n: [1.0, 2.0, None] for n in names}))

    table = open_source(f"{database}table={quote(name)}", ids=f"{name} 2")
    X, extra = whole(table, extra=[f"{name} 2"])

    assert table.columns == (name, "other")
    assert_array_equal(X[:, 0], [1, 2, np.nan])
    assert_array_equal(extra[f"{name} 2"], [1, 2, np.nan])
    assert open_source(f"{database}table=kept").n_rows == 1
    with pytest.raises(DataError, match="no column"):
        open_source(f"{database}table={quote(name)}", columns=["1 = 1"])


def test_a_query_is_a_source(source, database):
    query = (
        "SELECT age + 1 AS older, num FROM rows WHERE chol > 0 AND num LIKE 'cl%' "
        "AND age & 1 = 1 ORDER BY patient DESC -- the last first"
    )

    table = open_source(f"{database}query={query}", label="num")
    encoded = open_source(f"{database}query={quote(query)}", label="num")

    X, extra = whole(table, extra=["num"])
    chosen = open_source(source, label="num", ids="patient")
    all_X, others = whole(chosen, extra=["num"])
    kept = (all_X[:, 1] > 0) & (all_X[:, 0] % 2 == 1)
    kept &= np.array([value is not None for value in others["num"]])
    assert_array_equal(X[:, 0], all_X[kept, 0][::-1] + 1)
    assert extra["num"].tolist() == others["num"][kept][::-1].tolist()
    assert_array_equal(whole(encoded)[0], X)


def test_tables_that_are_not_there_are_told_with_the_nearest(source, database):
    with pytest.raises(DataError, match=r"'row' in .*no such table.*mean 'rows'\?"):
        open_source(f"{database}table=row")
    with pytest.raises(DataError, match="cannot be read"):
        open_source(f"{database}query=SELECT nothing FROM rows")


def test_an_empty_table_is_refused(source, database):
    with pytest.raises(DataError, match="has no rows"):
        open_source(f"{database}query=SELECT age FROM rows WHERE age < 0")


def test_a_missing_driver_is_told(database, monkeypatch):
    kind = database.partition(":")[0]
    write(database, "rows", pa.table({"a": [1.0]}))
    monkeypatch.setitem(sys.modules, f"adbc_driver_{kind}.dbapi", None)
    monkeypatch.delitem(sys.modules, f"unpooled.data.sources.{kind}", raising=False)

    with pytest.raises(DataError, match=r"pip install 'unpooled\[sql\]'"):
        open_source(f"{database}table=rows")
