"""Conditions on rows: what they mean, what they refuse, and where they are applied."""

import sqlite3
from typing import Any

import numpy as np
import pandas as pd
import polars
import pytest
from hypothesis import given
from hypothesis import strategies as st

import unpooled as up
from unpooled.data.row_filter import Condition
from unpooled.data.sources.open_source import open_source
from unpooled.errors import DataError

NAN = float("nan")
CELLS = {
    "age": np.array([17.0, 18.0, 64.0, NAN, 80.0]),
    "site": np.array(["north", "south", None, "north", "east"], object),
    "on trial": np.array([1.0, 0.0, 0.0, 1.0, NAN]),
    "seen": np.array(
        ["2020-01-01", "2021-06-30", "NaT", "2022-01-01", "2019-01-01"], "datetime64[D]"
    ),
}
KEPT = {
    "age >= 18": [1, 2, 4],
    "age > 18": [2, 4],
    "age = 18": [1],
    "age == 18.0": [1],
    "age != 18": [0, 2, 4],
    "age<1.8e1": [0],
    "age <= +18 or age >= 80": [0, 1, 4],
    "not age >= 18": [0],
    "not (age >= 18 and site == 'north')": [0, 1, 4],
    "age >= 18 and not site in ['north']": [1, 4],
    "site in ['north', \"east\"]": [0, 3, 4],
    "site not in ('north', 'east')": [1],
    "site != 'north'": [1, 4],
    "`on trial` == 1": [0, 3],
    "age > 60 or site == 'north' and `on trial` == 1": [0, 2, 3, 4],
    "(age > 60 or site == 'north') and `on trial` == 1": [0, 3],
    "seen >= '2020-01-01'": [0, 1, 3],
    "not not age > 60": [2, 4],
    "age in [17, 80]": [0, 4],
    "site < 'o'": [0, 3, 4],
}


@pytest.mark.parametrize("text", KEPT)
def test_rows_that_fulfil_a_condition(text):
    assert np.flatnonzero(Condition.of(text).fulfilled(CELLS)).tolist() == KEPT[text]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "it ends at the beginning"),
        ("age", "it ends after 'age', where a comparison"),
        ("age >> 18", "'> 18' stands after 'age >', where a number, or a text"),
        ("age >=", "it ends after 'age >='"),
        (
            "18 <= age",
            "'18 <= age' stands at the beginning, where the name of a column",
        ),
        ("age >= 18 age", "'age' stands after 'age >= 18', where and, or"),
        ("age >= 18 and", "the name of a column"),
        ("(age >= 18", "a closing bracket"),
        ("site in 'north'", "a list"),
        ("site in []", "a number, or a text in quotes"),
        ("site in ['a' 'b']", "a comma"),
        ("site in ['a')", "a comma or the end"),
        ("age not >= 3", "a comparison"),
        ("on trial == 1", "'trial == 1' stands after 'on'"),
        ("site == north", "a text in quotes"),
        ("age >= 18; import os", "something that a condition can have"),
        ("__import__('os').system('ls') == 0", "a comparison"),
        ("age >= 18x", "a number, or a text in quotes|a condition can have"),
    ],
)
def test_what_is_no_condition_is_refused_with_its_place(text, says):
    with pytest.raises(DataError, match=r"is not understood: .*") as refused:
        Condition.of(text)
    assert any(part in str(refused.value) for part in says.split("|"))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("age >= 'x'", "'age' holds numbers, .* without quotes"),
        ("site == 3", "'site' holds text, .* in quotes"),
        ("seen > 3", "'seen' holds dates"),
        ("seen > 'soon'", "holds dates, and 'soon' is none"),
    ],
)
def test_values_must_be_of_the_columns_type(text, says):
    with pytest.raises(DataError, match=says):
        Condition.of(text).fulfilled(CELLS)


TEXTS = {
    "german": np.array(["04.10.2023", None, "31.01.2022"], object),
    "iso": np.array(["2023-10-04", None, "2022-01-31 08:15"], object),
    "some": np.array(["2023-10-04", None, "1.2.2024"], object),
    "dose": np.array(["100", "9", "unknown"], object),
    "icd": np.array(["I21.0", "I50.1", None], object),
}


@pytest.mark.parametrize(
    "text",
    [
        "german >= '2023-01-01'",
        "german >= '01.01.2023'",
        "not german < '1/2/2023'",
        "some > '2023-01-01'",
        "iso > '2023-1-1'",
        "iso > '2023'",
        "dose > '50'",
        "dose >= 50",
        "dose < '-1,5'",
    ],
)
def test_texts_are_not_ordered_as_dates_or_numbers_that_they_are_not(text):
    # In the order of the alphabet "04.10.2023" is before "2023-01-01", and "100"
    # before "50": other rows than anybody means.
    with pytest.raises(DataError, match=r"holds text, .*dates .*2020-12-31"):
        Condition.of(text).fulfilled(TEXTS)


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("iso >= '2023-01-01'", [0]),
        ("iso < '2023-01-01 12:00'", [2]),
        ("icd >= 'I20' and icd < 'I26'", [0]),
        ("german == '04.10.2023'", [0]),
        ("dose in ['100', '9']", [0, 1]),
    ],
)
def test_texts_that_have_the_order_that_is_meant(text, kept):
    assert np.flatnonzero(Condition.of(text).fulfilled(TEXTS)).tolist() == kept


@given(st.text(alphabet="ab <>=!()[]'\"`,.0123andortif", max_size=40))
def test_any_text_is_a_condition_or_refused(text):
    try:
        condition = Condition.of(text)
    except DataError:
        return
    cells = {name: np.full(3, NAN) for name in condition.columns}
    assert not condition.fulfilled(cells).any()


# --- Sources -------------------------------------------------------------------------

FRAME = pd.DataFrame(
    {
        "a": np.arange(40.0),
        "b": np.where(np.arange(40) % 7 == 3, np.nan, np.arange(40.0) ** 2),
        "site": np.array(["north", "south", "east", None] * 10, object),
        "kind": np.array(["ill", "well", None, "ill"] * 10, object),
    }
)
WANTED: dict[str, Any] = {
    "where": "b >= 25 and site in ['north', 'east']",
    "unlabelled": "drop",
}
EXPECTED = FRAME[
    (FRAME.b >= 25) & FRAME.site.isin(["north", "east"]) & FRAME.kind.notna()
]


def written(kind, folder):
    path = folder / f"rows.{kind}"
    if kind == "pandas":
        return FRAME
    if kind == "polars":
        return polars.from_pandas(FRAME)
    if kind == "dask":
        dask = pytest.importorskip("dask.dataframe")
        return dask.from_pandas(FRAME, npartitions=4)
    if kind == "sqlite":
        pytest.importorskip("adbc_driver_sqlite")
        with sqlite3.connect(path) as connection:
            FRAME.to_sql("rows", connection, index=False)
        connection.close()
        return f"sqlite:///{path}?table=rows"
    if kind in ("csv", "tsv", "csv.gz"):
        FRAME.to_csv(path, index=False, sep="\t" if kind == "tsv" else ",")
    elif kind == "parquet":
        FRAME.to_parquet(path)
    else:
        FRAME.to_feather(path)
    return path


KINDS = "csv", "tsv", "csv.gz", "parquet", "feather", "sqlite", "pandas", "polars"


@pytest.mark.thinned(1)
@pytest.mark.parametrize("kind", [*KINDS, "dask"])
@pytest.mark.parametrize("rows", [None, 1, 7])
def test_every_source_is_filtered_in_every_pass(kind, rows, tmp_path):
    table = open_source(
        written(kind, tmp_path), label="kind", columns=["a", "b"], **WANTED
    )

    assert table.n_rows == len(EXPECTED)
    for _ in range(2):
        blocks = list(table.blocks(["b", "a"], ["kind"], rows))
        X = np.concatenate([block.X for block in blocks])
        np.testing.assert_array_equal(X, EXPECTED[["b", "a"]].to_numpy())
        labels = np.concatenate([block.extra["kind"] for block in blocks])
        assert labels.tolist() == EXPECTED.kind.tolist()
        starts = np.cumsum([0, *(len(block.X) for block in blocks)])[:-1]
        assert [block.start for block in blocks] == starts.tolist()
    places = table.source_rows(np.arange(table.n_rows))
    assert places.tolist() == EXPECTED.index.tolist()
    assert table.columns == ("a", "b")


@pytest.mark.parametrize("kind", ["csv", "parquet", "xlsx", "pandas"])
def test_a_column_that_is_left_out_may_choose_rows(kind, tmp_path):
    if kind == "xlsx":
        pytest.importorskip("openpyxl")
        FRAME.to_excel(path := tmp_path / "rows.xlsx", index=False)
    else:
        path = written(kind, tmp_path)

    table = open_source(path, label="kind", exclude=["site"], **WANTED)

    assert table.columns == ("a", "b")
    assert table.n_rows == len(EXPECTED)


def test_arrays_and_codes_for_missing_cells():
    X = np.array([[1.0, 5.0], [2.0, 999.0], [3.0, 7.0]])
    table = open_source(X, missing={"x1": [999]}, where="x1 > 5")
    (block,) = table.blocks(["x0"])
    assert block.X.tolist() == [[3.0]]


def test_sparse_rows_stay_sparse():
    import scipy.sparse

    X = scipy.sparse.random_array((50, 4), density=0.3, rng=0, format="csr")
    table = open_source(X, where="x0 > 0.2")
    kept = X.toarray()[X.toarray()[:, 0] > 0.2]
    (block,) = table.sparse_blocks(["x0", "x1", "x2", "x3"])
    assert hasattr(block.X, "indptr")
    np.testing.assert_array_equal(block.X.toarray(), kept)


def test_a_model_is_that_of_the_rows_that_are_left(tmp_path):
    path = written("csv", tmp_path)
    others = {s: FRAME[["a", "b"]].dropna() + k for k, s in enumerate("xy", 1)}
    filtered = open_source(path, columns=["a", "b"], where="site == 'north' and b > 0")
    left = FRAME[(FRAME.site == "north") & (FRAME.b > 0)][["a", "b"]]
    rules = {"min_rows": 2, "max_feature_ratio": 1.0}

    ours = up.PCA().fit(up.simulate({"w": filtered, **others}, policy=rules))

    pooled = up.PCA().fit(up.simulate({"w": left, **others}, policy=rules))
    assert ours.n_samples_ == pooled.n_samples_
    np.testing.assert_allclose(ours.components_, pooled.components_, rtol=1e-12)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"where": "a > 100"}, "No row of the source is left"),
        ({"where": "c > 1"}, "has no column 'c'"),
        ({"where": "a >"}, "is not understood"),
        ({"unlabelled": "drop"}, "the table has no label"),
        ({"unlabelled": "keep"}, 'choose "drop"'),
    ],
)
@pytest.mark.parametrize("kind", ["csv", "pandas"])
def test_mistakes_are_said(kind, options, says, tmp_path):
    with pytest.raises(DataError, match=says):
        open_source(written(kind, tmp_path), columns=["a", "b"], **options)
