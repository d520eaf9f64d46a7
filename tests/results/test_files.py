"""Results as files: every digit, nothing that runs, one folder for each step."""

import csv
import io
import json
from functools import partial
from xml.etree import ElementTree

import numpy as np
import openpyxl
import pandas as pd
import pytest

import unpooled as up
from unpooled.errors import DataError
from unpooled.results import files
from unpooled.results.exhibits import Column, Exhibit, Picture, ResultTable
from unpooled.results.files import StepResults
from unpooled.results.plots import charts
from unpooled.results.plots.image_files import images
from unpooled.results.summary import Summary

HOSTILE = ["=cmd|'/c calc'!A0", "@SUM(1)", "+1+1", "-1", "a\x1b[2Jb", 'a,b\n"c"']
VALUES = [1 / 3, 1e-300, float("inf"), float("nan"), None, -0.1]


@pytest.fixture
def steps():
    table = ResultTable(
        "odd_names",
        (Column("Name"), Column("Value, in cm", "number"), Column("Share", "share")),
        [(name, x, 0.25) for name, x in zip(HOSTILE, VALUES, strict=True)],
    )
    shares = np.array([0.5, 0.25])
    picture = Picture(
        "scree", "Shares", "Two bars.", partial(charts.scree, shares), ("odd_names",)
    )
    summary = Summary("Title", [Exhibit("Heading", "Text.", [table], picture)])
    return [StepResults("first", "PCA", {"n": 2, "rng": np.ones(1)}, summary)]


def test_csv_has_every_digit_and_no_formula(steps, tmp_path):
    [path] = files.write_csv(tmp_path, steps)

    assert path == tmp_path / "first" / "odd_names.csv"
    head, *rows = csv.reader(io.StringIO(path.read_text("utf-8")))
    assert head == ["name", "value_in_cm", "share"]
    assert [row[0] for row in rows] == [
        "'=cmd|'/c calc'!A0", "'@SUM(1)", "'+1+1", "-1", "a\ufffd[2Jb", "a,b \"c\"",
    ]  # fmt: skip
    # What is missing, NaN included, is empty.
    assert [float(row[1]) if row[1] else None for row in rows] == [
        1 / 3, 1e-300, float("inf"), None, None, -0.1,
    ]  # fmt: skip
    assert pd.read_csv(path)["value_in_cm"][0] == 1 / 3


def test_json_is_json_with_every_digit(steps, tmp_path):
    path = files.write_json(tmp_path, steps, {"study": "heart"})

    def no_constant(name):
        raise AssertionError(name)

    found = json.loads(path.read_text("utf-8"), parse_constant=no_constant)
    [step] = found["steps"]
    assert (found["study"], step["step"], step["model"]) == ("heart", "first", "PCA")
    assert step["parameters"] == {"n": 2, "rng": "array([1.])"}
    rows = step["tables"]["odd_names"]["rows"]
    assert [row[1] for row in rows] == [1 / 3, 1e-300, "inf", None, None, -0.1]
    assert step["pictures"]["scree"]["tables"] == ["odd_names"]


def test_a_workbook_has_numbers_as_numbers_and_names_as_text(steps, tmp_path):
    path = files.write_xlsx(tmp_path, steps)

    [sheet] = openpyxl.load_workbook(path).worksheets
    assert sheet.title == "first.odd_names"
    cells = list(sheet.iter_rows(min_row=2))
    assert [row[0].data_type for row in cells] == ["s"] * 6
    assert cells[0][0].value == HOSTILE[0]
    assert cells[0][1].value == 1 / 3
    assert cells[0][2].number_format == "0.0%"


def test_sheets_of_one_name_are_told_apart(tmp_path):
    tables = [
        ResultTable(f"{'long_' * 8}{j}", (Column("A"),), [("x",)]) for j in range(3)
    ]
    step = StepResults("s", "M", {}, Summary("T", [Exhibit("H", "", tables)]))

    book = openpyxl.load_workbook(files.write_xlsx(tmp_path, [step]))

    assert len(set(book.sheetnames)) == 3
    assert max(map(len, book.sheetnames)) <= 31


def test_sheets_keep_the_names_of_their_tables_and_say_what_they_are(tmp_path):
    """ "lineardiscriminantanalysis.clas" was one of them, and its "~2" another."""
    names = ["classes", "class_means", "standardised_coefficients", "s" * 40]
    tables = [
        ResultTable(
            name, (Column("A"),), [("x",)], caption=f"{name} of ja", note="– is none"
        )
        for name in names
    ]
    summary = Summary("T", [Exhibit("H", "", tables)])
    step = StepResults("lineardiscriminantanalysis", "M", {}, summary)

    book = openpyxl.load_workbook(files.write_xlsx(tmp_path, [step]))

    assert book.sheetnames == [
        "lineardiscriminantanaly.classes",
        "lineardiscriminanta.class_means",
        "linea.standardised_coefficients",
        f"linea.{'s' * 25}",
    ]
    about = book.worksheets[0]["A1"].comment
    assert about.text == "classes of ja. – is none"


def test_without_openpyxl_the_remedy_is_named(steps, tmp_path, monkeypatch):
    monkeypatch.setattr(files, "can_write_xlsx", lambda: False)

    with pytest.raises(DataError, match=r"unpooled\[excel\]"):
        files.write_xlsx(tmp_path, steps)


@pytest.mark.slow
def test_pictures_stand_alone_on_white(steps, tmp_path):
    drawn, painted = files.write_pictures(tmp_path, steps)

    text = drawn.read_text("utf-8")
    assert ElementTree.fromstring(text).tag.endswith("svg")
    assert "var(--" not in text
    assert "currentColor" not in text
    assert {"#ffffff", "#1f6287"} <= {text[i : i + 7] for i in range(len(text))}
    content = painted.read_bytes()
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    picture = steps[0].summary.exhibits[0].picture
    # Without dates: the same numbers are the same file.
    # In the other order: what was drawn before leaves no trace.
    again = dict(images(picture, ("png", "svg")))
    assert again == {"png": content, "svg": drawn.read_bytes()}


def test_files_have_the_rows_that_pages_leave_out():
    X = np.random.default_rng(0).standard_normal((900, 64))
    parts = up.partition_rows(X, 3)
    federation = up.simulate(parts, policy={"max_feature_ratio": 1.0})
    pca = up.PCA(8).fit(federation)

    frame = pca.summary().to_frame("loadings")

    assert frame["column"].tolist() == [f"x{j}" for j in range(64)]
    np.testing.assert_array_equal(frame.drop(columns="column"), pca.components_.T)
