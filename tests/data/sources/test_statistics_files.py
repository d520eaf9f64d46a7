"""Workbooks, and files of SAS, SPSS and Stata, against the frame that was written."""

import builtins
from typing import Any

import numpy as np
import openpyxl
import pandas as pd
import pyreadstat
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import unpooled as up
from unpooled.data.ids import read_ids
from unpooled.data.sources import excel, statistics_files
from unpooled.errors import DataError

FRAME = pd.DataFrame(
    {
        "age": [63.0, np.nan, 41.5, 56.0],
        "sex": [1, 0, 0, 1],
        "ward": ["north", "south", "", "north"],
        "num": [0, 2, 1, 0],
        "pid": ["007", "b 1", "c", "d"],
        "seen": pd.to_datetime(["2020-01-01"] * 4),
    }
)
WRITERS = {
    "rows.sav": pyreadstat.write_sav,
    "rows.dta": pyreadstat.write_dta,
    "rows.xpt": lambda frame, path: pyreadstat.write_xport(
        frame, path, file_format_version=8
    ),
    "rows.xlsx": lambda frame, path: frame.to_excel(path, index=False),
}


@pytest.fixture(params=list(WRITERS))
def path(request, tmp_path, monkeypatch):
    # Chunks of one row: what is true of one chunk must be true of all.
    monkeypatch.setattr(statistics_files, "_CHUNK_CELLS", 2)
    monkeypatch.setattr(excel, "_CHUNK_CELLS", 2)
    WRITERS[request.param](FRAME, tmp_path / request.param)
    return tmp_path / request.param


@pytest.mark.thinned(1)
def test_numbers_label_and_ids_are_read_as_written(path):
    table = up.open_source(path, label="num", ids="pid", columns=["age", "sex"])

    assert table.n_rows == 4
    blocks = list(table.blocks(["sex", "age"], ["num", "pid"], rows=3))
    X = np.vstack([block.X for block in blocks])
    assert_array_equal(X, FRAME[["sex", "age"]].to_numpy())
    labels = np.concatenate([block.extra["num"] for block in blocks])
    assert labels.dtype == np.int64
    assert_array_equal(labels, FRAME["num"])
    assert read_ids(table) == [b"007", b"b 1", b"c", b"d"]


@pytest.mark.thinned(1)
def test_text_labels_may_be_missing(path):
    table = up.open_source(path, label="ward", columns=["age"])

    (block,) = table.blocks((), ["ward"])
    assert block.extra["ward"].tolist() == ["north", "south", None, "north"]


def test_text_and_dates_are_refused_by_column_and_row(path):
    with pytest.raises(
        DataError,
        match=r"'ward' \(text, first in data row 1\).*'seen' \(dates, first in data",
    ):
        up.open_source(path, label="num", ids="pid")


def test_all_formats_in_one_study_equal_the_frame(tmp_path):
    rows = pd.DataFrame(
        np.random.default_rng(3).standard_normal((120, 3)), columns=["a", "b", "c"]
    )
    parties = {}
    for k, name in enumerate(WRITERS):
        WRITERS[name](rows[30 * k : 30 * k + 30], tmp_path / name)
        parties[name.replace(".", "-")] = tmp_path / name

    scaler = up.StandardScaler().fit(up.simulate(parties))

    # A sum of 120 numbers, rounded to multiples of less than 2^-40 in each silo.
    assert_allclose(scaler.mean_, rows.to_numpy().mean(axis=0), atol=1e-12)


@pytest.mark.parametrize(
    ("name", "library", "extra"),
    [
        ("rows.xlsx", "openpyxl", "excel"),
        ("rows.sas7bdat", "pyreadstat", "stats"),
        ("rows.sav", "pyreadstat", "stats"),
    ],
)
def test_without_the_library_the_error_names_the_extra(
    tmp_path, monkeypatch, name, library, extra
):
    imported = builtins.__import__

    def without(module, *rest, **others):
        if module.endswith(("sources.excel", "sources.statistics_files")):
            raise ImportError(module)
        return imported(module, *rest, **others)

    monkeypatch.setattr(builtins, "__import__", without)
    (tmp_path / name).write_bytes(b"")

    with pytest.raises(DataError, match=rf"{library}.*unpooled\[{extra}\]"):
        up.open_source(tmp_path / name)


@pytest.mark.parametrize("name", ["rows.xlsx", "rows.sas7bdat", "rows.sav", "rows.dta"])
def test_a_file_of_another_kind_is_refused(tmp_path, name):
    (tmp_path / name).write_bytes(b"a,b\n1,2\n")

    with pytest.raises(DataError, match=r"cannot be read"):
        up.open_source(tmp_path / name)


def workbook(path, *rows, title="Sheet"):
    book = openpyxl.Workbook()
    sheet: Any = book.active
    sheet.title = title
    for row in rows:
        sheet.append(row)
    book.save(path)
    return book


def test_a_workbook_as_people_keep_them(tmp_path):
    path = tmp_path / "rows.xlsx"
    workbook(
        path,
        ["a", "b", None],
        [1, True, None],
        [None, None, None],
        ["NA", 0, None],
        ["#N/A", 2.5, None],
    )

    table = up.open_source(path)

    (block,) = table.blocks(table.columns)
    assert table.columns == ("a", "b")
    assert_array_equal(block.X, [[1, 1], [np.nan, 0], [np.nan, 2.5]])


def test_of_several_sheets_one_is_named(tmp_path):
    path = tmp_path / "rows.xlsx"
    book = workbook(path, ["a"], [1], title="one")
    book.create_sheet("two").append(["b"])
    book["two"].append([2])
    book.save(path)

    assert up.open_source(path, sheet="one").columns == ("a",)
    with pytest.raises(DataError, match=r"several sheets; name one of 'one', 'two'"):
        up.open_source(path)
    with pytest.raises(DataError, match=r"no sheet 'three'"):
        up.open_source(path, sheet="three")


def test_a_first_row_of_numbers_is_no_row_of_names(tmp_path):
    workbook(tmp_path / "rows.xlsx", [63.5, 1], [67.1, 2])

    with pytest.raises(DataError, match="holds numbers, not the names"):
        up.open_source(tmp_path / "rows.xlsx")
