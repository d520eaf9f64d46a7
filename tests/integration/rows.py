"""What the silos of these tests have, in a consortium as in one process."""

from functools import cache, partial
from pathlib import Path

import pyarrow as pa
import pyarrow.compute
import pyarrow.csv
import pyarrow.parquet

from unpooled.data.heart_disease import load

SILOS = ("cleveland", "hungary", "va")


def write_rows(silo: str, folder: Path, older: int = 0) -> Path:
    """Write a silo's patients, with cells missing; silos have different kinds of files.

    The columns of heart disease; "num" is the label. Patients who are `older` by some
    years are others to the silo's account.
    """
    if silo not in SILOS:
        return folder / "none.csv"  # a spare silo, which gets rows from a test
    table = load()[silo]
    age = pa.compute.add(table["age"], older)
    table = table.set_column(table.column_names.index("age"), "age", age)
    if SILOS.index(silo) % 2:
        path = folder / f"{silo}-rows.parquet"
        pyarrow.parquet.write_table(table, path)
    else:
        path = folder / f"{silo}-rows.csv"
        pyarrow.csv.write_csv(table, path)
    return path


def write_columns(silo: str, folder: Path, first_person: int = 0) -> Path:
    """Write a silo's columns of the same 100 people, in the same order, all complete.

    Cleveland has four of Cleveland's columns, Hungary five, VA four, which all have
    "num", the label, too.
    """
    path = folder / f"{silo}-columns.parquet"
    table, names = _people(first_person)
    first, last = {"cleveland": (0, 4), "hungary": (4, 9), "va": (9, 13)}[silo]
    pyarrow.parquet.write_table(table.select([*names[first:last], "num"]), path)
    return path


@cache
def _people(first: int) -> tuple[pa.Table, list[str]]:
    whole = load()["cleveland"].to_pandas().dropna()
    frame = whole[first : first + 100].astype(float)
    names = [str(name) for name in frame.columns if name != "num"]
    return pa.Table.from_pandas(frame, preserve_index=False), names


WRITERS = {
    "rows": write_rows,
    "other rows": partial(write_rows, older=1),
    "columns": write_columns,
    "other columns": partial(write_columns, first_person=100),
}
