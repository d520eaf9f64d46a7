"""Values that mean a missing cell: numbers and texts, as pandas reads the files."""

import ast
import tomllib
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

from unpooled.data.missing_codes import missing_codes
from unpooled.data.sources.open_source import open_source as open_any
from unpooled.errors import DataError

CELLS = """crea;hb;smoker;dialysis;kept
1,5;n/d;yes;true;-
-;13,2; unknown ;FALSE;a
0; n/d ;no;n/d;-
;-9;9;;b
2e-1;12;yes;true;a
1,1;14;no;false;b
"""
MISSING = {
    "crea": ["-", 0],
    "hb": ["n/d", -9],
    "smoker": ["unknown", 9],
    "dialysis": ["n/d"],
}
CATEGORIES = ["smoker", "kept"]


def open_source(source, **options: Any) -> Any:
    return open_any(source, **options)


@pytest.fixture
def path(tmp_path):
    (tmp_path / "rows.csv").write_text(CELLS)
    return tmp_path / "rows.csv"


@pytest.fixture
def oracle(path):
    return pd.read_csv(
        path,
        sep=";",
        decimal=",",
        na_values={"crea": ["-", "0"], "hb": [" n/d ", "n/d", "-9"], "dialysis": "n/d"},
    )


def numbers(table):
    """The cells of the numbers, and of categories their names."""
    block = next(table.blocks(table.columns))
    names = [*map(table.dictionary.get, block.X[:, -2])]
    return block.X[:, :-2], names


@pytest.mark.parametrize("kind", ["csv", "txt", "xlsx"])
def test_texts_and_numbers_become_missing_as_pandas_reads_them(
    path, oracle, kind, monkeypatch
):
    form = {"separator": ";", "decimal": ","}
    if kind == "txt":
        path = path.rename(path.with_suffix(".txt"))
    elif kind == "xlsx":
        pytest.importorskip("openpyxl")
        path, form = path.with_suffix(".xlsx"), {}
        cells = pd.read_csv(path.with_suffix(".csv"), sep=";", decimal=",", dtype=str)
        cells = cells.map(_as_excel_has_it)
        cells.to_excel(path, index=False)
    table = open_source(path, categorical=CATEGORIES, missing=MISSING, **form)

    found, names = numbers(table)

    assert table.columns == ("crea", "hb", "dialysis", *CATEGORIES)
    wanted = oracle[["crea", "hb", "dialysis"]].astype(float)
    assert_array_equal(found, wanted.to_numpy())
    assert names == ["yes", None, "no", None, "yes", "no"]
    # "-" is missing in the columns that name it, and in no other.
    assert sorted(set(table.dictionary.values())) == ["-", "a", "b", "no", "yes"]


def _as_excel_has_it(cell):
    try:
        return float(cell.replace(",", "."))
    except (AttributeError, ValueError):
        lower = cell.lower() if isinstance(cell, str) else ""
        return {"true": True, "false": False}.get(lower, cell)


def test_many_small_pieces_of_a_file_have_the_same_types(path, monkeypatch):
    from unpooled.data.sources import delimited

    rows = "1,5;x\n" * 50 + "n/d;x\n" + ";\n" + "2,5;n/d\n"
    path.write_text("a;b\n" + rows)
    monkeypatch.setattr(delimited, "READ_BYTES", 64)
    monkeypatch.setattr(delimited, "GATHERED_BYTES", 1)
    form = {"separator": ";", "decimal": ",", "categorical": ["b"]}
    table = open_source(path, missing={"a": ["n/d"]}, **form)

    block = next(table.blocks(["a"]))

    assert_array_equal(block.X[:, 0], [1.5] * 50 + [np.nan, np.nan, 2.5])


def test_names_of_categories_are_missing_in_data_frames_too():
    frame = pd.DataFrame({"a": range(6), "b": ["x", "?!", "y", "x", "y", "?!"]})

    table = open_source(frame, categorical=["b"], missing={"b": ["?!"], "a": [0]})

    block = next(table.blocks(["a", "b"]))
    assert np.isnan(block.X).sum(axis=0).tolist() == [1, 2]


def test_few_missing_names_are_read_as_other_missing_cells_of_the_silo_are():
    # One blank cell and one "?!": two together, as many as a name must have.
    names = ["x", "?!", None, "x", "y", "y"]
    frame = pd.DataFrame({"a": range(6), "b": names})
    named = open_source(frame, categorical=["b"], missing={"b": ["?!"]})
    blank = open_source(frame.replace("?!", None), categorical=["b"])

    for fewest in (0, 2, 3):
        cells = next(named.merging_rare(fewest).blocks(["b"])).X
        assert_array_equal(cells, next(blank.merging_rare(fewest).blocks(["b"])).X)


def test_the_error_about_text_says_how_to_name_it(path):
    with pytest.raises(DataError) as caught:
        open_source(
            path,
            separator=";",
            decimal=",",
            categorical=CATEGORIES,
            missing={"crea": ["-"], "dialysis": ["n/d"]},
        )
    # As Python has it, and as a study's or a silo's file.
    _, _, forms = str(caught.value).partition("named by missing: in Python ")
    python, _, toml = forms.rstrip(".").partition(", in a file ")
    wanted = {"hb": ["n/d"]}
    assert ast.literal_eval(python) == wanted
    assert tomllib.loads(f"missing = {toml}") == {"missing": wanted}


@pytest.mark.parametrize(
    ("missing", "message"),
    [
        (["n/d"], r"name the columns.*\{'chol': \[0, 'n/d'\]\}"),
        ("n/d", "name the columns"),
        ({"crea": "n/d"}, "must be a list of numbers or texts"),
        ({"crea": ["n/d", "0"]}, "the number 0 in quotes.* without quotes"),
        ({"crea": ["-9,5"]}, "the number -9,5 in quotes"),
        ({"crea": [None]}, "must be a list of numbers or texts"),
        (
            {"Crea": ["n/d"]},
            "Among the columns that are studied, the file .*'crea' for 'Crea'",
        ),
        ({"Crea": [0]}, "Did you mean 'crea' for 'Crea'"),
    ],
    ids=str,
)
def test_what_names_no_values_of_a_column_is_refused(path, missing, message):
    path.write_text("crea;hb\n1,5;3\n")
    with pytest.raises(DataError, match=message):
        open_source(path, separator=";", decimal=",", missing=missing)


@pytest.mark.parametrize("kind", ["frame", "parquet", "npy"])
def test_sources_with_types_have_no_texts_among_numbers(kind, tmp_path):
    frame = pd.DataFrame({"x0": [1.0, 2.0]})
    source = frame
    if kind == "parquet":
        frame.to_parquet(source := tmp_path / "rows.parquet")
    elif kind == "npy":
        np.save(source := tmp_path / "rows.npy", frame.to_numpy())
    with pytest.raises(DataError, match=r"no texts in columns of numbers.*'x0'"):
        open_source(source, missing={"x0": ["n/d"]})


def test_a_number_is_the_name_that_it_is_written_as():
    assert missing_codes({"a": [9.0, "unknown "]}, ["a"]).names == {
        "a": {"9", "unknown"}
    }
