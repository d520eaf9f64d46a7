"""Tables in PostgreSQL: types, schemas, lost connections, a study of three kinds."""

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
from database_rows import whole
from databases import EMPTIED, run, write
from unpooled.data import heart_disease
from unpooled.data.sources.open_source import open_source
from unpooled.errors import DataError


@pytest.fixture
def server(postgresql):
    yield postgresql
    run(postgresql, *EMPTIED)


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("where", "kept"),
    [
        ("age >= 18", lambda f: f[f.age >= 18]),
        ("not age >= 18 or ward == 'north'",
         lambda f: f[(f.age.notna() & ~(f.age >= 18)) | (f.ward == "north")]),
        ("ward in ['south', 'east'] and n <= 2.5",
         lambda f: f[f.ward.isin(["south", "east"]) & (f.n <= 2.5)]),
        ("seen >= '2021-01-01'", lambda f: f[f.seen >= "2021-01-01"]),
    ],
)  # fmt: skip
def test_postgresql_rows_that_fulfil_a_condition(server, where, kept):
    """The same rows that pandas keeps, of NULL cells, text, numeric and date columns.

    The condition's columns need not be features, and every pass leaves out the others.
    """
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "age": rng.integers(10, 30, 50).astype(float),
            "n": rng.integers(0, 10, 50) / 2,
            "ward": rng.choice(["north", "south", "east"], 50).astype(object),
            "seen": pd.to_datetime("2020-06-01")
            + pd.to_timedelta(range(0, 500, 10), "D"),
        }
    )
    frame.loc[::7, "age"] = np.nan
    frame.loc[::11, "ward"] = None
    frame = frame.sort_values("n", kind="stable", ignore_index=True)
    write(server, "visits", pa.Table.from_pandas(frame.assign(id=range(50))))

    source = f"{server}&query=SELECT *, n * 2 AS twice FROM visits ORDER BY id"
    table = open_source(source, columns=["n", "twice"], label="ward", where=where)

    expected = kept(frame)
    assert 0 < len(expected) < 50
    for _ in range(2):
        X, extra = whole(table, extra=["ward"])
        assert_array_equal(X, np.column_stack([expected.n, 2 * expected.n]))
        found = [None if one is None else str(one) for one in extra["ward"]]
        assert found == [None if pd.isna(one) else one for one in expected.ward]
    assert table.n_rows == len(expected)


@pytest.mark.slow
def test_postgresql_refuses_a_condition_on_no_column(server):
    run(server, "CREATE TABLE rows AS SELECT 1.5 AS a")

    with pytest.raises(DataError, match="'b'"):
        open_source(f"{server}&table=rows", where="b > 1")
    with pytest.raises(DataError, match="No row of the source"):
        open_source(f"{server}&table=rows", where="a > 2")


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_server_that_ends_a_connection_is_an_error(server):
    source = f"{server}&query=SELECT generate_series(1, 3000000)::float8 AS a"
    blocks = open_source(source).blocks(["a"], rows=1000)
    next(blocks)

    run(
        server,
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE application_name = 'unpooled'",
    )

    with pytest.raises(DataError, match="cannot be read") as ended:
        list(blocks)
    assert ended.value.rule == "source_unavailable"


@pytest.mark.slow
def test_only_a_server_that_is_away_is_no_answer_about_rows(server):
    """Of a cell that cannot be computed the driver has the same kind of error."""
    run(
        server,
        "CREATE TABLE rows AS SELECT 1.0 AS a, 0 AS b",
        "CREATE VIEW seen AS SELECT a, b, 1 / (b + 1) AS c FROM rows",
        "CREATE ROLE reader LOGIN",
        "GRANT SELECT ON seen TO reader",
    )
    table = open_source(f"{server.replace('owner', 'reader')}&table=seen")
    rules = []
    for change in (
        "UPDATE rows SET b = -1",
        "ALTER ROLE reader NOLOGIN",
        "ALTER ROLE reader LOGIN",
    ):
        run(server, change)
        with pytest.raises(DataError, match="cannot be read") as ended:
            whole(table)
        rules.append(ended.value.rule)
    run(server, "DROP OWNED BY reader", "DROP ROLE reader")

    assert rules == ["failed_in_silo", "source_unavailable", "failed_in_silo"]


@pytest.mark.slow
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
