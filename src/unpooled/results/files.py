"""Results as files, for people who do not program and for programs that do.

results/
├── <step>/<table>.csv          every row and digit; columns named for programs
├── <step>/<picture>.svg, .png  in light colours, on white
├── methods.txt                 what was done, to paste into a paper
├── results.json                all tables, sentences, parameters and versions
└── results.xlsx                a sheet for each table, where openpyxl is installed
"""

import csv
import importlib.util
import io
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from unpooled.data.atomic_file import replacing
from unpooled.errors import DataError
from unpooled.results.exhibits import Value
from unpooled.results.formats import clean
from unpooled.results.plots.image_files import images
from unpooled.results.summary import Summary

_SHEET_LETTERS = 31  # of a sheet's name, which Excel limits
_STEP_LETTERS = 5  # that are left of a step's name at least
# First letters by which a spreadsheet takes a text for a formula.
_FORMULA = tuple("=+-@\t\r")


@final
@dataclass(frozen=True)
class StepResults:
    """The results of one step of a study.

    Attributes
    ----------
    step : str
        The step's name, which is that of its folder.
    model : str
        The model's class.
    parameters : mapping of str to Any
        The model's.
    summary : Summary
        Summary of the fitted model.
    """

    step: str
    model: str
    parameters: Mapping[str, Any]
    summary: Summary


def write_csv(folder: Path, steps: Sequence[StepResults]) -> list[Path]:
    """Write each table as CSV into the folder of its step; return the files.

    Notes
    -----
    A text that a spreadsheet would run as a formula has an apostrophe before it: names
    of columns and silos come from other organisations.
    """
    found = []
    for one in steps:
        for name, table in one.summary.tables.items():
            text = io.StringIO()
            lines = csv.writer(text, lineterminator="\n")
            lines.writerow([harmless(column.key) for column in table.columns])
            lines.writerows([harmless(cell) for cell in row] for row in table.rows)
            path = folder / one.step / f"{name}.csv"
            found.append(_write(path, text.getvalue().encode()))
    return found


def write_json(
    folder: Path, steps: Sequence[StepResults], about: Mapping[str, Any]
) -> Path:
    """Write all results as one JSON file; return it.

    Parameters
    ----------
    folder : Path
        Where ``results.json`` is written.
    steps : sequence of StepResults
        In the study's order.
    about : mapping of str to JSON value
        What else the file begins with: the study's name, versions.
    """
    content = {"format": 1, **about, "steps": [_record(one) for one in steps]}
    text = json.dumps(content, indent=1, allow_nan=False, ensure_ascii=False)
    return _write(folder / "results.json", (text + "\n").encode())


def write_pictures(folder: Path, steps: Sequence[StepResults]) -> list[Path]:
    """Draw each picture as SVG and PNG into the folder of its step."""
    found = []
    for one in steps:
        for exhibit in one.summary.exhibits:
            if (picture := exhibit.picture) is not None:
                for form, content in images(picture, ("svg", "png")):
                    path = folder / one.step / f"{picture.name}.{form}"
                    found.append(_write(path, content))
    return found


def can_write_xlsx() -> bool:
    """Whether openpyxl is installed."""
    return importlib.util.find_spec("openpyxl") is not None


def write_xlsx(folder: Path, steps: Sequence[StepResults]) -> Path:
    """Write all tables into one workbook, a sheet for each; return it.

    Raises
    ------
    DataError
        Where openpyxl is not installed.
    """
    if not can_write_xlsx():
        raise DataError(
            "Workbooks need openpyxl, which is not installed. Install it with: "
            'pip install "unpooled[excel]"'
        )
    from openpyxl import Workbook
    from openpyxl.cell import WriteOnlyCell
    from openpyxl.comments import Comment
    from openpyxl.styles import Font

    book, taken = Workbook(write_only=True), set[str]()

    def cell(sheet: Any, value: Value, kind: str = "text") -> Any:
        value = str(value) if isinstance(value, float) and math.isinf(value) else value
        text = isinstance(value, str)
        found = WriteOnlyCell(sheet, clean(value) if text else value)
        if text:
            found.data_type = "s"  # and never a formula, whatever it begins with
        elif kind == "share":
            found.number_format = "0.0%"
        return found

    for one, table in [(s, t) for s in steps for t in s.summary.tables.values()]:
        sheet = book.create_sheet(_sheet_name(one.step, table.name, taken))
        heads = [cell(sheet, column.heading) for column in table.columns]
        for head in heads:
            head.font = Font(bold=True)
        # Which class odds are of, and what an empty cell stands for.
        if about := ". ".join(filter(None, (table.caption, table.note))):
            heads[0].comment = Comment(clean(about), "unpooled", 200, 400)
        sheet.append(heads)
        kinds = [column.kind for column in table.columns]
        for row in table.rows:
            sheet.append([cell(sheet, *pair) for pair in zip(row, kinds, strict=True)])
    if not taken:
        book.create_sheet("no tables")
    stream = io.BytesIO()
    book.save(stream)
    return _write(folder / "results.xlsx", stream.getvalue())


def _record(one: StepResults) -> dict[str, Any]:
    exhibits = one.summary.exhibits
    return {
        "step": one.step,
        "model": one.model,
        "title": one.summary.title,
        "parameters": {k: _json_value(v) for k, v in one.parameters.items()},
        "exhibits": [
            {
                "heading": exhibit.heading,
                "text": exhibit.text,
                "tables": [t.name for t in exhibit.tables if t.place != "pages"],
                "picture": exhibit.picture and exhibit.picture.name,
            }
            for exhibit in exhibits
        ],
        "tables": {
            name: {
                "caption": table.caption,
                "note": table.note,
                "columns": [
                    {"key": c.key, "heading": c.heading, "kind": c.kind}
                    for c in table.columns
                ],
                "rows": [[_json_value(cell) for cell in row] for row in table.rows],
            }
            for name, table in one.summary.tables.items()
        },
        "pictures": {
            exhibit.picture.name: {
                "title": exhibit.picture.title,
                "description": exhibit.picture.description,
                "tables": list(exhibit.picture.tables),
            }
            for exhibit in exhibits
            if exhibit.picture is not None
        },
    }


def _json_value(value: Any) -> Any:
    """Return a value as JSON has it: infinity as a text, other objects by `repr`."""
    if isinstance(value, list | tuple):
        return [_json_value(one) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return (
        value if value is None or isinstance(value, str | int | float) else repr(value)
    )


def harmless(cell: Value) -> Value:
    """Return a cell that no spreadsheet runs."""
    if not isinstance(cell, str):
        return cell
    cell = clean(cell)
    if not cell.startswith(_FORMULA) or re.fullmatch(r"[+-]?[\d.,]*", cell):
        return cell
    return f"'{cell}"


def _sheet_name(step: str, table: str, taken: set[str]) -> str:
    """Return a sheet's name that Excel takes, once in the book.

    The step's name is cut first: its tables must be told apart.
    """
    table = table[: _SHEET_LETTERS - min(len(step), _STEP_LETTERS) - 1]
    name = f"{step[: _SHEET_LETTERS - len(table) - 1]}.{table}"
    name = re.sub(r"[\[\]:*?/\\]", "_", clean(name)).strip("'")
    short, n = name[:_SHEET_LETTERS], 1
    while short.lower() in taken:
        n += 1
        short = f"{name[: _SHEET_LETTERS - 1 - len(str(n))]}~{n}"
    taken.add(short.lower())
    return short


def _write(path: Path, content: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    # Not durable: results are computed again from the models at any time.
    with replacing(path, durable=False) as stream:
        stream.write(content)
    return path
