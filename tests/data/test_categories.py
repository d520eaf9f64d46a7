"""Categories have one code, whatever they are read from; rare ones are merged."""

import sqlite3

import numpy as np
import openpyxl
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from unpooled.data.categories import (
    MOST_CATEGORIES,
    OTHER,
    CategoricalTable,
    category_code,
    category_name,
    coded,
    merging_rare,
)
from unpooled.data.sources.open_source import open_source
from unpooled.errors import DataError

FRAME = pd.DataFrame(
    {
        "age": [61.0, 52.0, 43.0, 34.0, 25.0],
        "site": ["north", "south", None, "north", "007"],
        "stage": [1, 2, 2, 1, 1],
    }
)
NAMES = [["north", "1"], ["south", "2"], [None, "2"], ["north", "1"], ["007", "1"]]


def _sqlite(folder):
    with sqlite3.connect(folder / "rows.sqlite") as database:
        FRAME.to_sql("patients", database, index=False)
    return f"sqlite:///{folder}/rows.sqlite?table=patients"


def _excel(folder):
    book = openpyxl.Workbook()
    sheet = book.create_sheet("rows", 0)
    for row in [list(FRAME), *FRAME.astype(object).to_numpy().tolist()]:
        sheet.append(row)
    del book["Sheet"]
    book.save(folder / "rows.xlsx")
    return folder / "rows.xlsx"


def _csv(folder):
    FRAME.to_csv(folder / "rows.csv", index=False)
    return folder / "rows.csv"


def _parquet(folder):
    frame = FRAME.assign(site=FRAME.site.astype("category"))
    frame.to_parquet(folder / "rows.parquet")
    return folder / "rows.parquet"


SOURCES = {
    "pandas": lambda _: FRAME,
    "pandas categories": lambda _: FRAME.astype({"site": "category"}),
    "polars": lambda _: pl.from_pandas(FRAME),
    "arrow dictionary": lambda _: pa.table(
        {
            "age": FRAME.age,
            "site": pa.array(FRAME.site).dictionary_encode(),
            "stage": pa.array(FRAME.stage.astype(float)),
        }
    ),
    "csv": _csv,
    "parquet": _parquet,
    "excel": _excel,
    "sqlite": _sqlite,
}


@pytest.mark.parametrize("kind", SOURCES)
def test_every_source_gives_the_same_codes(kind, tmp_path):
    source = SOURCES[kind](tmp_path)

    table = open_source(source, categorical=["site", "stage"])
    blocks = list(table.blocks(["stage", "age", "site"], rows=2))

    wanted = np.array([coded(row) for row in NAMES])
    assert (table.columns, table.n_rows) == (("age", "site", "stage"), 5)
    assert [block.start for block in blocks] == [0, 2, 4]
    X = np.concatenate([block.X for block in blocks])
    assert_array_equal(X[:, [2, 0]], wanted)
    assert_array_equal(X[:, 1], FRAME.age)
    assert isinstance(table, CategoricalTable)
    assert sorted(table.dictionary.values()) == ["007", "1", "2", "north", "south"]


def test_an_array_of_numbers_has_names_too():
    table = open_source(np.array([[1.5, 0.0], [2.5, 1.0]]), categorical=["x1"])

    assert table.columns == ("x0", "x1")
    assert_array_equal(next(table.blocks(["x1"])).X[:, 0], coded(["0", "1"]))


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (1, "1"), (1.0, "1"), ("1", "1"), ("1.0", "1"), (" a b ", "a b"), (0.5, "0.5"),
        ("007", "007"), ("1.50", "1.50"), ("", None), (None, None), (np.nan, None),
        (True, "True"), (np.int64(3), "3"), (10**20, "1" + "0" * 20),
    ],
)  # fmt: skip
def test_names(value, name):
    assert category_name(value) == name


@given(st.text() | st.floats(allow_infinity=False) | st.integers(-(2**60), 2**60))
def test_a_name_is_its_own_name(value):
    name = category_name(value)
    assert name is None or category_name(name) == name


@given(st.text())
def test_codes_are_whole_numbers_that_floats_hold(name):
    code = category_code(name)
    assert 0 <= code < 2**52
    assert code.is_integer()


def _read(site, fewest):
    table = open_source(pd.DataFrame({"site": site}), categorical=["site"])
    X = next(merging_rare(table, fewest).blocks(["site"])).X[:, 0]
    return pd.Series(X).map(lambda code: names.get(code, code)).tolist()


names = {category_code(name): name for name in "abcde"}


def test_names_of_single_rows_are_read_as_other():
    assert _read(list("aaabbcde"), 2) == [*"aaabb", OTHER, OTHER, OTHER]
    assert _read([*"aaabbc", None], 2) == [*"aaabb", OTHER, OTHER]


def test_a_single_cell_of_a_rare_name_is_read_as_missing_or_as_the_usual_name():
    assert _read([*"aaac", None, None], 2)[:3] == ["a", "a", "a"]
    assert np.isnan(_read([*"aaac", None, None], 2)[3:]).all()
    assert _read(list("aaabbc"), 2) == [*"aaabb", "a"]
    assert _read([*"aaabb", None], 2) == [*"aaabb", "a"]


def test_nothing_is_merged_without_a_fewest():
    assert _read(list("aab"), 0) == ["a", "a", "b"]


def test_the_dictionary_has_no_name_of_a_single_row():
    frame = pd.DataFrame({"site": list("aabbcd")})
    table = merging_rare(open_source(frame, categorical=["site"]), 2)
    assert isinstance(table, CategoricalTable)
    assert sorted(table.dictionary.values()) == ["a", "b"]


def test_columns_and_rows_are_chosen_as_of_numbers():
    options = {"categorical": ["site", "stage"], "where": "site in ['north', 'south']"}
    table = open_source(FRAME, exclude=["stage"], **options)
    assert (table.columns, table.n_rows) == (("age", "site"), 3)
    table = open_source(FRAME, columns=["stage"], **options)
    assert (table.columns, table.n_rows) == (("stage",), 3)
    assert_array_equal(next(table.blocks(["stage"])).X[:, 0], coded([1, 2, 1]))
    assert_array_equal(table.source_rows(np.array([2])), [3])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"categorical": "site"}, r"Write \['site'\]"),
        ({"categorical": ["sites"]}, "Did you mean 'site'"),
        ({"categorical": ["site"], "label": "site"}, "cannot be a column of categ"),
        ({"categorical": ["day"]}, "holds dates"),
        ({"categorical": ["note"]}, "more than 119 bytes"),
        ({"categorical": ["many"]}, "more than 1,000 different values"),
    ],
)
def test_what_is_no_category_is_refused(options, message):
    n = MOST_CATEGORIES + 2
    frame = pd.DataFrame(
        {
            "age": np.arange(n, dtype=float),
            "site": "a",
            "day": pd.Timestamp("2020-01-31"),
            "note": "long " * 30,
            "many": [f"name {i}" for i in range(n)],
        }
    )
    used = {"age", *options["categorical"], options.get("label", "age")}
    with pytest.raises(DataError, match=message):
        open_source(frame[[name for name in frame if name in {*used, "site"}]],
                    exclude=() if "site" in used else ["site"], **options)  # fmt: skip


def test_a_table_that_is_open_keeps_its_columns():
    table = open_source(FRAME, categorical=["site", "stage"])
    assert open_source(table) is table
    with pytest.raises(DataError, match="where it is opened"):
        open_source(table, columns=["age"])
