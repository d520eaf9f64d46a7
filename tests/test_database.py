"""Tables in databases: the rows that pandas reads, and nothing that the address hides.

Every test that can runs on both kinds of database.
"""

import gc
import os
import sqlite3
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.decomposition import PCA
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import unpooled as up
from databases import EMPTIED, PASSWORD, connected, run, write
from unpooled.data import database as database_module
from unpooled.data import heart_disease
from unpooled.data.database import DatabaseTable
from unpooled.data.sources import open_source
from unpooled.errors import DataError

NAMES = ["age", "chol", "oldpeak"]
AWKWARD = [
    'quo"te', "a.b", "select", "x; DROP TABLE kept", "Größe %s ? $1 {0}", "it's--",
]  # fmt: skip


@pytest.fixture
def rows():
    """200 rows as silos have them: integers, fractions, missing cells, a text label."""
    rng = np.random.default_rng(5)
    table = {
        "age": pa.array(rng.integers(20, 90, 200)),
        "chol": pa.array([None, 0, *rng.integers(100, 400, 198).tolist()]),
        "oldpeak": pa.array([None] * 90 + (rng.random(110) * 7).tolist()),
        "num": pa.array(
            [None if i % 50 == 3 else f"class {i % 3}" for i in range(200)]
        ),
        "patient": pa.array([f"{i:05d}" for i in range(200)]),
    }
    return pa.table(table)


@pytest.fixture
def source(database, rows):
    write(database, "rows", rows)
    return f"{database}table=rows"


def whole(table, columns=None, extra=(), rows=None):
    """All blocks of one pass, joined."""
    blocks = list(table.blocks(columns or table.columns, extra, rows))
    X = np.vstack([b.X for b in blocks])
    return X, {n: np.concatenate([b.extra[n] for b in blocks]) for n in extra}


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


def test_nothing_can_be_written(source, database):
    written = {
        "sqlite": "DELETE FROM rows RETURNING age",
        "postgresql": "WITH gone AS (DELETE FROM rows RETURNING age) TABLE gone",
    }[database.partition(":")[0]]

    with pytest.raises(DataError, match="cannot be read"):
        open_source(f"{database}query={written}")
    assert open_source(source, columns=["age"]).n_rows == 200


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
    monkeypatch.delitem(sys.modules, f"unpooled.data.{kind}", raising=False)

    with pytest.raises(DataError, match=r"pip install 'unpooled\[sql\]'"):
        open_source(f"{database}table=rows")


# SQLite ------------------------------------------------------------------------------


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


# PostgreSQL --------------------------------------------------------------------------


@pytest.fixture
def server(postgresql):
    yield postgresql
    run(postgresql, *EMPTIED)


def test_postgresql_types(server):
    run(
        server,
        "CREATE TYPE mood AS ENUM ('good', 'bad')",
        "CREATE DOMAIN positive AS integer CHECK (VALUE > 0)",
        "CREATE TABLE rows (i2 smallint, n numeric(12, 3), f4 real, b boolean,"
        " p positive, day date, at timestamptz, u uuid, m mood, cash money, c char(4))",
        "INSERT INTO rows VALUES (1, 12345678.125, 0.5, true, 4, '2020-02-29',"
        " '2020-01-01 01:00+01', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', 'bad', 5, 'x')"
        ", (NULL, 'NaN', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)",
    )
    numbers = ["i2", "n", "f4", "b", "p"]

    with pytest.raises(
        DataError, match=r"'day' \(date\).*'m' \(mood\), 'cash' \(money"
    ):
        open_source(f"{server}&table=rows")
    X, _ = whole(open_source(f"{server}&table=rows", columns=numbers))

    assert_array_equal(X, [[1, 12345678.125, 0.5, 1, 4], [np.nan] * 5])
    expected = {
        "i2": [1, np.nan],
        "n": [12345678.125, np.nan],
        "day": np.array(["2020-02-29", "NaT"], "datetime64[D]"),
        "at": np.array(["2020-01-01T00:00", "NaT"], "datetime64[us]"),
        "u": np.array(["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", None], object),
        "m": np.array(["bad", None], object),
        "c": np.array(["x", None], object),
    }
    for name, values in expected.items():
        table = open_source(f"{server}&table=rows", columns=["f4"], label=name)
        assert_array_equal(whole(table, extra=[name])[1][name], values)


def test_postgresql_schemas(server):
    run(
        server,
        "DROP SCHEMA IF EXISTS clinic CASCADE",
        "CREATE SCHEMA clinic",
        'CREATE TABLE clinic."Rows" AS SELECT 1.5 AS a',
        'CREATE TABLE public."clinic.dotted" AS SELECT 2.5 AS a',
    )

    assert whole(open_source(f"{server}&table=clinic.Rows"))[0] == 1.5
    assert whole(open_source(f"{server}&table=clinic.dotted"))[0] == 2.5
    with pytest.raises(DataError, match=r"mean 'clinic\.Rows'"):
        open_source(f"{server}&table=clinic.rows")
    run(server, "DROP SCHEMA clinic CASCADE")


def test_a_server_that_ends_a_connection_is_an_error(server):
    source = f"{server}&query=SELECT generate_series(1, 3000000)::float8 AS a"
    blocks = open_source(source).blocks(["a"], rows=1000)
    next(blocks)

    run(
        server,
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE application_name = 'unpooled'",
    )

    with pytest.raises(DataError, match="cannot be read"):
        list(blocks)


def test_a_password_opens_and_never_shows(server, tmp_path):
    run(
        server,
        f"CREATE ROLE guarded LOGIN PASSWORD '{PASSWORD}'",
        "CREATE TABLE rows AS SELECT generate_series(1, 20)::float8 AS a",
        "GRANT SELECT ON rows TO guarded",
        "CREATE TABLE hidden AS SELECT 1.0 AS a",
    )
    try:
        encoded = quote(PASSWORD, safe="")
        place = server.partition("@")[2]
        given = f"postgresql://guarded:{encoded}@{place}&table="
        table = open_source(f"{given}rows")

        assert whole(table)[0].sum() == 210
        asked = f"postgresql://guarded@{place}&password={encoded}&table=rows"
        assert open_source(asked).n_rows == 20
        assert not betrays(repr(table) + repr(vars(table)), PASSWORD, encoded)
        with pytest.raises(DataError, match="permission denied") as caught:
            open_source(f"{given}hidden")
        assert not betrays(all_texts(caught.value), PASSWORD, encoded)
        wrong = given.replace(encoded, "let-me-in")
        with pytest.raises(DataError, match="authentication failed") as caught:
            open_source(f"{wrong}rows")
        assert not betrays(all_texts(caught.value), "let-me-in")
        path = tmp_path / "study.toml"
        path.write_text(
            f'[study]\nname = "s"\n[parties.a]\nsource = "{given}rows"\n'
            '[[steps]]\nmodel = "PCA"\n'
        )
        assert not betrays(repr(up.Study.from_file(path)), PASSWORD, encoded)
    finally:
        run(server, "DROP OWNED BY guarded", "DROP ROLE guarded")


def betrays(text, *secrets):
    return any(secret in text for secret in secrets)


def all_texts(error):
    """An error and all that it came from, as its traceback and its parts show it."""
    texts = []
    while error is not None:
        texts += [str(error), repr(error), repr(error.args)]
        error = error.__cause__ or error.__context__
    return "\n".join(texts)


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://me:hunter2zz@localhost:port/db?table=t",
        "postgresql://me:hunter2zz/x@localhost:1/db?table=t",
        "postgresql://me:hunter2zz?x@localhost/db?table=t",
        "postgresql://me:1?hunter2zz@localhost/db?table=t",
        "postgresql://me:hunter2zz@x@localhost:1/db?table=t",
        "postgresql://me:hunter2zz%zz@localhost:1/db?table=t",
        "postgresql://me:hunter2zz#x@localhost:1/db?table=t",
        "postgresql://me:hunter2zz@localhost:1/db?table=t&query=SELECT 1",
        "postgresql://me:hunter2zz@localhost:1/db",
        "postgresql://me:hunter2zz@localhost:1/db?table=",
        "postgresql://me:hunter2zz@localhost:1/db?password=hunter2zz&table=t",
        "postgresql://localhost:1/db?sslpassword=hunter2zz&nonsense=1&table=t",
        "postgresql://localhost:hunter2zz",
        "postgres://me:hunter2zz@localhost:1/db?table=t",
        "sqlite://me:hunter2zz@host/db?table=t",
        "mysql://me:hunter2zz@localhost/db?table=t",
    ],
)
def test_a_password_is_in_no_error_however_the_address_is_broken(address):
    with pytest.raises(DataError) as caught:
        open_source(address)

    assert not betrays(all_texts(caught.value), "hunter2zz")


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("sqlite://rows.db?table=t", "three slashes"),
        ("sqlite:///?table=t", "names a file"),
        ("sqlite:///:memory:?table=t", "names a file"),
        ("sqlite:///rows.db", "one table, or one query"),
        ("sqlite:///rows.db?table=t&query=SELECT 1", "one table, or one query"),
        ("sqlite:///rows.db?query= ; ", "one table, or one query"),
        ("sqlite:///rows.db?mode=rwc&table=t", "nothing else"),
        ("sqlite:///rows.db?t", "not key=value"),
        ("postgresql://h[/db?table=t", "cannot be understood"),
    ],
)
def test_addresses_that_are_not_of_the_forms(address, message):
    with pytest.raises(DataError, match=message):
        open_source(address)


# Studies -----------------------------------------------------------------------------


def test_three_kinds_of_silos_equal_pooled_rows(server, tmp_path):
    hospitals = heart_disease.load()
    names = ["age", "trestbps", "chol", "thalach", "oldpeak"]
    frames = {name: table.select([*names, "num"]) for name, table in hospitals.items()}
    frames["cleveland"].to_pandas().to_csv(tmp_path / "cleveland.csv", index=False)
    write(f"sqlite:///{tmp_path}/hungary.db", "patients", frames["hungary"])
    write(server, "va", frames["va"])
    silos = {
        "cleveland": tmp_path / "cleveland.csv",
        "hungary": f"sqlite:///{tmp_path}/hungary.db?table=patients",
        "va": f"{server}&table=va",
    }

    federation = up.simulate(silos, label="num")
    ours = make_pipeline(up.SimpleImputer(), up.StandardScaler(), up.PCA(3))
    ours.fit(federation)

    pooled = np.vstack(
        [frames[n].select(names).to_pandas().to_numpy(float) for n in silos]
    )
    twin = make_pipeline(SimpleImputer(), StandardScaler(), PCA(3)).fit(pooled)
    # The tolerance of tests/test_pca.py for masked sums of standardised columns.
    assert_allclose(ours[0].statistics_, twin[0].statistics_, rtol=1e-9)
    assert_allclose(ours[2].explained_variance_, twin[2].explained_variance_, rtol=1e-8)
    cosines = np.abs(np.sum(ours[2].components_ * twin[2].components_, axis=1))
    assert_allclose(cosines, 1.0, atol=1e-8)
    # Where rows come from changes nothing: the very same totals as from memory.
    memory = up.simulate({n: frames[n] for n in silos}, label="num")
    same = make_pipeline(up.SimpleImputer(), up.StandardScaler(), up.PCA(3)).fit(memory)
    assert_array_equal(same[2].components_, ours[2].components_)


# Memory ------------------------------------------------------------------------------

READ_ALL = """
import resource, sys
from unpooled.data.sources import open_source
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
