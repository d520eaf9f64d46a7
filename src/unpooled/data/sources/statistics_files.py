"""Files of SAS, SPSS and Stata, read through pyreadstat (ReadStat).

Values that the file declares missing are missing; codes stay codes, and their value
labels ("1 = female") are not applied, so that silos with other labels agree.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, final

import pyreadstat

from unpooled.data.sources.cells import CellReader

_CHUNK_CELLS = 2**20
_FUNCTIONS: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        ".sas7bdat": pyreadstat.read_sas7bdat,
        ".xpt": pyreadstat.read_xport,
        ".sav": pyreadstat.read_sav,
        ".zsav": pyreadstat.read_sav,
        ".dta": pyreadstat.read_dta,
    }
)


@final
class StatisticsReader(CellReader):
    """Reads the rows of a SAS, SPSS or Stata file.

    Parameters
    ----------
    path : Path
        The file; its ending says whose it is.
    encoding : str or None
        The encoding of its text; None for the one that the file declares.
    """

    def __init__(self, path: Path, encoding: str | None = None) -> None:
        self._path, self._encoding = path, encoding
        self._function = _FUNCTIONS[path.suffix.lower()]

    def names(self) -> list[str]:
        """Return the column names from the file's head."""
        return list(self._read(metadataonly=True)[1].column_names)

    def value_labels(self) -> dict[str, dict[str, str]]:
        """Return the file's labels of codes, by column and code."""
        found = self._read(metadataonly=True)[1].variable_value_labels
        return {
            name: {_code(code): str(label) for code, label in labels.items()}
            for name, labels in found.items()
        }

    def chunks(self, columns: Sequence[str]) -> Iterator[dict[str, list[Any]]]:
        """Yield the cells of these columns, some rows at a time."""
        most = max(1, _CHUNK_CELLS // len(columns))
        start, full = 0, True
        # Until a chunk is not full: transport files do not say how many rows they have.
        while full:
            cells, _ = self._read(
                usecols=list(columns),
                row_offset=start,
                row_limit=most,
                output_format="dict",
            )
            n_rows = len(next(iter(cells.values()), ()))
            if n_rows:
                yield {name: list(cells[name]) for name in columns}
            start, full = start + n_rows, n_rows == most

    def _read(self, **options: Any) -> Any:
        if self._encoding is not None:
            options["encoding"] = self._encoding
        try:
            return self._function(str(self._path), **options)
        except pyreadstat.ReadstatError as error:
            raise OSError(str(error)) from error


def _code(code: Any) -> str:
    """Return a code as it is read: SPSS keeps whole numbers as 1.0."""
    whole = isinstance(code, float) and code.is_integer()
    return str(int(code) if whole else code)
