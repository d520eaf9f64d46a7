"""Heart disease at four hospitals: the example data, with its real missing cells.

From the UCI Machine Learning Repository, CC BY 4.0; README.md beside this file has the
attribution and the meaning of the columns.
"""

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow

FEATURES = (
    "age",
    "sex",
    "cp",
    "trestbps",
    "chol",
    "fbs",
    "restecg",
    "thalach",
    "exang",
    "oldpeak",
    "slope",
    "ca",
    "thal",
)
LABEL = "num"
_FILES = {
    "cleveland": "heart_cleveland.csv",
    "hungary": "heart_hungarian.csv",
    "switzerland": "heart_switzerland.csv",
    "va": "heart_va.csv",
}
# The published name of each column of the raw files, and below the text of its codes.
_RAW = {
    "age": "age",
    "sex": "sex",
    "chest_pain": "cp",
    "blood_pressure": "trestbps",
    "cholesterol": "chol",
    "heart_rate": "thalach",
    "exercise_angina": "exang",
    "st_depression": "oldpeak",
}
_NAMES: Mapping[str, Mapping[float, str]] = {
    "sex": {0: "female", 1: "male"},
    "cp": {1: "typical", 2: "atypical", 3: "no angina", 4: "silent"},
    "exang": {0: "no", 1: "yes"},
}
_PASCAL = 0.133322  # kPa of a millimetre of mercury


def paths() -> dict[str, Path]:
    """Return the CSV file of each hospital as published, where a `chol` of 0 is a 0."""
    folder = Path(__file__).parent
    return {hospital: folder / name for hospital, name in _FILES.items()}


def load() -> "dict[str, pyarrow.Table]":
    """Read the patients of four hospitals: cleveland, hungary, switzerland and va.

    Returns
    -------
    dict
        Table of each hospital, with the 13 `FEATURES` as float64 and the label ``num``
        as int64. Missing cells are null, among them every `chol` of 0, which stands for
        "not measured".
    """
    import numpy as np
    import pyarrow as pa
    from pyarrow.csv import ConvertOptions, read_csv

    types = {**dict.fromkeys(FEATURES, pa.float64()), LABEL: pa.int64()}
    options = ConvertOptions(column_types=types)
    tables = {}
    for hospital, path in paths().items():
        table = read_csv(path, convert_options=options)
        chol = table["chol"].to_numpy()  # nulls are NaN here, and below NaN is null
        measured = pa.array(np.where(chol == 0, np.nan, chol), from_pandas=True)
        tables[hospital] = table.set_column(FEATURES.index("chol"), "chol", measured)
    return tables


def write_raw(folder: Path) -> dict[str, Path]:
    """Write the patients as four hospitals might export them, each in its own way.

    Codes are text, and the diagnosis is "yes" or "no". Budapest's file has semicolons
    and decimal commas, in Switzerland's a cholesterol of 0 was not measured, and the
    VA's has the blood pressure in kPa in place of mmHg.

    Parameters
    ----------
    folder : Path
        Made where it does not exist.

    Returns
    -------
    dict
        Path of each hospital's file.
    """
    folder.mkdir(parents=True, exist_ok=True)
    written = {}
    for hospital, path in paths().items():
        comma = hospital == "hungary"
        written[hospital] = folder / f"{hospital}.csv"
        with (
            path.open(encoding="utf-8", newline="") as published,
            written[hospital].open("w", encoding="utf-8", newline="") as raw,
        ):
            writer = csv.writer(raw, delimiter=";" if comma else ",")
            writer.writerow([*_RAW, "disease"])
            for row in csv.DictReader(published):
                cells = [_raw_cell(row[code], code, hospital) for code in _RAW.values()]
                cells.append("no" if float(row[LABEL]) == 0 else "yes")
                writer.writerow(c.replace(".", ",") if comma else c for c in cells)
    return written


def _raw_cell(cell: str, column: str, hospital: str) -> str:
    """Return a published cell as a hospital's file has it."""
    if not cell:
        return ""
    value = float(cell)
    if column in _NAMES:
        return _NAMES[column][value]
    if column == "chol" and value == 0 and hospital != "switzerland":
        return ""
    if column == "trestbps":
        # For one patient a 0 was published, which is no blood pressure.
        if value == 0:
            return ""
        if hospital == "va":
            return f"{value * _PASCAL:.2f}"
    return f"{value:g}"
