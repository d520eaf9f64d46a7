"""Heart disease at four hospitals: the example data, with its real missing cells.

From the UCI Machine Learning Repository, CC BY 4.0; README.md beside this file has the
attribution and the meaning of the columns.
"""

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
    from pyarrow import csv

    types = {**dict.fromkeys(FEATURES, pa.float64()), LABEL: pa.int64()}
    options = csv.ConvertOptions(column_types=types)
    tables = {}
    for hospital, path in paths().items():
        table = csv.read_csv(path, convert_options=options)
        chol = table["chol"].to_numpy()  # nulls are NaN here, and below NaN is null
        measured = pa.array(np.where(chol == 0, np.nan, chol), from_pandas=True)
        tables[hospital] = table.set_column(FEATURES.index("chol"), "chol", measured)
    return tables
