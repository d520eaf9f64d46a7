"""Excel workbooks (.xlsx), read row by row through openpyxl."""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, final
from zipfile import BadZipFile

import openpyxl
from openpyxl.utils.exceptions import InvalidFileException

from unpooled.data.sources.cells import CellReader
from unpooled.data.sources.delimited import are_values

_CHUNK_CELLS = 2**17


@final
class ExcelReader(CellReader):
    """Reads a sheet whose first row names the columns.

    A formula is read as the value that was stored with it. Rows without any value are
    no rows, as in text files.

    Parameters
    ----------
    path : Path
        The workbook.
    sheet : str or None
        Name of the sheet; None where the workbook has one only.
    """

    def __init__(self, path: Path, sheet: str | None = None) -> None:
        self._path, self._sheet = path, sheet

    def names(self) -> list[str]:
        """Return the names in the first row."""
        with self._rows() as rows:
            first = next(rows, ())
        names = ["" if cell is None else str(cell) for cell in first]
        # A column that somebody formatted, and left empty, is none.
        while names and not names[-1].strip():
            names.pop()
        if not names:
            raise OSError("its first row, which names the columns, is empty")
        if are_values(names):
            raise OSError("its first row holds numbers, not the names of columns")
        return names

    def chunks(self, columns: Sequence[str]) -> Iterator[dict[str, list[Any]]]:
        """Yield the cells of these columns, some rows at a time."""
        names = self.names()
        places = [names.index(name) for name in columns]
        most = max(1, _CHUNK_CELLS // max(1, len(places)))
        held: list[list[Any]] = []
        with self._rows() as rows:
            next(rows, None)
            for row in rows:
                if all(cell is None for cell in row[: len(names)]):
                    continue
                held.append([row[j] if j < len(row) else None for j in places])
                if len(held) == most:
                    yield _by_column(columns, held)
                    held = []
        if held:
            yield _by_column(columns, held)

    @contextmanager
    def _rows(self) -> Iterator[Iterator[tuple[Any, ...]]]:
        try:
            with warnings.catch_warnings():
                # About validation and styles, which do not change a cell.
                warnings.simplefilter("ignore", UserWarning)
                book = openpyxl.load_workbook(
                    self._path, read_only=True, data_only=True, keep_links=False
                )
        except (InvalidFileException, BadZipFile, KeyError, ValueError) as error:
            raise OSError(f"it is not an Excel workbook ({error})") from error
        try:
            sheet = book[self._chosen(book.sheetnames)]
            yield iter(sheet.iter_rows(values_only=True))
        finally:
            book.close()

    def _chosen(self, sheets: list[str]) -> str:
        if self._sheet in sheets:
            return self._sheet
        if self._sheet is None and len(sheets) == 1:
            return sheets[0]
        which = "several sheets" if self._sheet is None else f"no sheet {self._sheet!r}"
        names = ", ".join(map(repr, sheets))
        raise OSError(f"it has {which}; name one of {names} (sheet)")


def _by_column(columns: Sequence[str], rows: list[list[Any]]) -> dict[str, list[Any]]:
    return {name: [row[j] for row in rows] for j, name in enumerate(columns)}
