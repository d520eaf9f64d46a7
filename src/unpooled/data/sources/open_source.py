"""Open a silo's data: arrays, DataFrames, files, tables in databases.

Everything is checked on opening, inside the silo, so errors here may name paths and
columns. Each kind of source is imported when it is opened, which keeps pyarrow, Dask
and database drivers unloaded where they are not used.
"""

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unpooled.arrays import Array
from unpooled.data.categories import CategoricalTable
from unpooled.data.columns import Roles, listing
from unpooled.data.filtered_table import FilteredTable
from unpooled.data.missing_codes import MissingCodes, missing_codes
from unpooled.data.plausible import check_plausible
from unpooled.data.recoding import RecodedTable
from unpooled.data.row_filter import DROP, Condition
from unpooled.data.sources.database_address import is_database, read_address
from unpooled.data.sources.file_format import FileFormat
from unpooled.data.table import ArrayTable, Table
from unpooled.errors import DataError

if TYPE_CHECKING:
    from unpooled.data.sources.streamed import Reader

Source = Any  # a Table, array, list of rows, DataFrame, path or address
DELIMITERS = {".csv": ",", ".tsv": "\t", ".txt": "\t"}
STATISTICS = {
    ".sas7bdat": "SAS",
    ".xpt": "SAS",
    ".sav": "SPSS",
    ".zsav": "SPSS",
    ".dta": "Stata",
}
ALLOWED = (
    "Allowed are a 2-D array, a list of rows, a pandas, polars or pyarrow table, "
    "paths that end in .csv, .tsv, .txt (also with .gz after it), .parquet, .arrow, "
    ".feather, .npy or .npz (sparse), .xlsx, .sas7bdat, .xpt, .sav, .zsav or .dta, and "
    "sqlite:// and postgresql:// addresses of a table or a query."
)


def open_source(
    source: Source,
    *,
    label: str | None = None,
    ids: str | None = None,
    columns: Sequence[str] | None = None,
    exclude: Sequence[str] | None = None,
    missing: Any = None,
    block_mb: float | int | None = None,
    separator: str | None = None,
    decimal: str | None = None,
    encoding: str | None = None,
    sheet: str | None = None,
    rename: Mapping[str, str] | None = None,
    where: str | None = None,
    unlabelled: str | None = None,
    plausible: Mapping[str, Any] | None = None,
    categorical: Sequence[str] | None = None,
) -> Table:
    """Open a silo's data as a table that is read in blocks of rows.

    Parameters
    ----------
    source : Table, array, list of rows, DataFrame, path or address
        Arrays may be NumPy or SciPy sparse; DataFrames of pandas, polars or pyarrow;
        Dask collections, also by ``dask://scheduler:8786/name``;
        paths of CSV, TSV (also .txt), Parquet, Arrow IPC and .npy files, which are
        read block by block, and of SciPy's sparse .npz files; Excel workbooks (.xlsx),
        and files of SAS (.sas7bdat, .xpt), SPSS (.sav) and Stata (.dta). In text files
        blank cells, ``NA``, ``NaN``, ``null`` and ``?`` are missing. Addresses of
        databases are ``sqlite:///path.db?table=name`` and
        ``postgresql://user@host/db?table=name``, or ``?query=SELECT ...``; they are
        read block by block too.
    label : str, optional
        A column of any type that is read with the features, and never used as one.
    ids : str, optional
        Likewise, a column that identifies rows.
    columns : sequence of str, optional
        The only feature columns to keep. Other columns are ignored and may be of any
        type.
    exclude : sequence of str, optional
        In place of `columns`: the columns that are not features, which may be of any
        type too.
    missing : mapping of str to a sequence of numbers and texts, optional
        For each feature column, the values that stand for missing cells, such as
        ``{"chol": [0, "n/d"]}``. Texts in columns of numbers are of text files, Excel
        workbooks and files of SAS, SPSS and Stata; in columns of categories, of any
        source. With `columns` or `exclude` it may name columns that they leave out.
    block_mb : float, optional
        Maximum size of a block of rows as float64, in megabytes, at least 16 rows; 64
        by default. A pass over a file or a database needs a few times as much memory,
        whatever the number of rows.
    separator : str, optional
        For CSV and TSV files: the character between cells, such as ``";"``.
    decimal : {".", ","}, optional
        For CSV and TSV files: ``","`` for numbers with a decimal comma.
    encoding : str, optional
        For CSV and TSV files, UTF-8 by default; for files of SAS, SPSS and Stata, by
        default what the file says: a name such as ``"cp1252"`` or ``"utf-16"``.
    sheet : str, optional
        For an Excel workbook with several sheets.
    rename : mapping of str to str, optional
        For files that name their columns: by the name in the file, the name that the
        study has for it, such as ``{"ILL": "ill"}``. All other arguments have the
        study's names.
    where : str, optional
        A condition on the rows to keep, such as ``"age >= 18 and site in ['a', 'b']"``;
        its columns need not be features. Rows with a missing cell in a comparison are
        left out.
    unlabelled : {"drop"}, optional
        Leave out the rows without a label.
    plausible : mapping of str to (low, high), optional
        For feature columns the range of plausible values, such as
        ``{"Height": [100, 230]}``: a cell outside is an error, which catches other
        units and codes for missing cells that nobody named.
    categorical : sequence of str, optional
        Feature columns whose cells are names of categories: text of any kind of source,
        or numbers, which are then names too (1 and 1.0 are the name "1"). They stand
        behind the other columns. Encoders and methods for categories read them, and no
        others do.

    Returns
    -------
    Table
        A source that is a table is returned as it is, unless `columns`, `exclude`,
        `missing`, `where`, `unlabelled` or `block_mb` is given.

    Raises
    ------
    DataError
        When the source cannot be read, or the arguments do not fit it.
    """
    for role, name in (("label", label), ("ids", ids)):
        if name is not None and not isinstance(name, str):
            raise DataError(f"{role}={name!r}; give the name of one column.")
    form = FileFormat(separator, decimal, encoding, sheet, rename)
    if unlabelled not in (None, DROP):
        raise DataError(f'unlabelled={unlabelled!r}; choose "{DROP}", or leave it out.')
    condition = None if where is None else Condition.of(where)
    codes = MissingCodes()
    if isinstance(source, Table):
        form.check_used("a table that is open already")
        table = _as_given(source, label, ids)
        given = (columns, exclude, missing, block_mb, where, unlabelled, plausible)
        if categorical or (table.categorical and any(given)):
            raise DataError(
                "Name columns of categories, and choose among the columns and rows of "
                "such a table, where it is opened: open_source(source, categorical=[])."
            )
        codes = missing_codes(missing or {}, ())
        _check_no_texts(codes.texts, "A table that is open already")
        if columns is not None or exclude or missing or block_mb is not None:
            table = RecodedTable(
                table, columns=columns, exclude=exclude or (), missing=codes.numbers
            )
    else:
        roles = _roles(label, ids, columns, exclude, categorical, condition)
        codes = missing_codes(missing or {}, roles.categorical)
        if columns is not None or exclude:
            # Declarations about a column may stand while a study leaves it out.
            roles = replace(roles, declared=(*(missing or ()), *(plausible or ())))
        categorical = roles.categorical
        table = _open(source, roles, form, codes.texts)
        unread = roles.unread(table.columns)
        plausible = {n: v for n, v in (plausible or {}).items() if n not in unread}
        numbers = {n: v for n, v in codes.numbers.items() if n not in unread}
        if numbers:
            # The columns of a condition, or of categories, are no features.
            table = RecodedTable(table, columns=table.columns, missing=numbers)
    if condition is not None or unlabelled is not None:
        table = FilteredTable(table, condition, labelled=unlabelled is not None)
    if plausible:
        check_plausible(table, plausible)
    if categorical:
        table = CategoricalTable(table, categorical, codes.names)
    if block_mb is not None:
        if not block_mb > 0:
            raise DataError(f"block_mb={block_mb!r}; give a number of megabytes.")
        table.block_bytes = int(block_mb * 2**20)
    return table


def value_labels(
    source: str, encoding: str | None = None, rename: Mapping[str, str] | None = None
) -> dict[str, dict[str, str]]:
    """Return the labels of codes in a file of SPSS, SAS or Stata.

    Parameters
    ----------
    source : str
        Any path or address; other sources say nothing.
    encoding, rename
        As of `open_source`.

    Returns
    -------
    dict of str to dict of str to str
        By column, under the study's names, the label of each code. Nothing applies
        them: silos may have other labels for a code.
    """
    path = Path(source).expanduser()
    if "://" in source or path.suffix.lower() not in STATISTICS:
        return {}
    from unpooled.data.sources.statistics_files import StatisticsReader

    found = StatisticsReader(path, encoding).value_labels()
    return {(rename or {}).get(name, name): labels for name, labels in found.items()}


def _roles(
    label: str | None,
    ids: str | None,
    columns: Sequence[str] | None,
    exclude: Sequence[str] | None,
    categorical: Sequence[str] | None,
    condition: Condition | None,
) -> Roles:
    if isinstance(categorical, str):
        raise DataError(
            f"categorical={categorical!r} is one string; a list of names is needed. "
            f"Write [{categorical!r}]."
        )
    named = list(dict.fromkeys(categorical or ()))
    if taken := [name for name in named if name in (label, ids)]:
        raise DataError(
            f"{taken[0]!r} cannot be a column of categories and the label or the ids "
            f"at once. A label may hold text as it is."
        )
    # Many silos may share the list or `exclude`; only the names that are features here
    # count.
    left_out = set(exclude or ()) if columns is None else set(named) - set(columns)
    named = [name for name in named if name not in left_out]
    if columns is not None and not isinstance(columns, str):
        columns = [name for name in columns if name not in named]
    also = () if condition is None else condition.columns
    also = tuple(dict.fromkeys([*also, *named]))
    return Roles(label, ids, columns, exclude or (), also, tuple(named))


def _open(
    source: Source, roles: Roles, form: FileFormat, texts: Mapping[str, Collection[str]]
) -> Table:
    if isinstance(source, str | os.PathLike) and "://" not in os.fspath(source):
        return _open_path(Path(source).expanduser(), roles, form, texts)
    form.check_used("a source that is not a file")
    _check_no_texts(texts, "A source that is not a file")
    if isinstance(source, str | os.PathLike):
        return _open_address(os.fspath(source), roles)
    if isinstance(source, list | tuple):
        return ArrayTable(_rows(source), roles)
    if isinstance(source, np.ndarray) or hasattr(source, "tocsr"):
        return ArrayTable(source, roles)
    if hasattr(source, "__dask_graph__"):
        from unpooled.data.sources.dask import ClusterTable

        return ClusterTable(source, roles)
    from unpooled.data.sources.frames import FrameTable

    return FrameTable(source, roles)


def _as_given(table: Table, label: str | None, ids: str | None) -> Table:
    for role, name, column in (("label", label, table.label), ("ids", ids, table.ids)):
        if name is not None and name != column:
            raise DataError(
                f"{role}={name!r}, but the table was opened with {role}={column!r}. "
                f"Name the column when the table is opened."
            )
    return table


def _check_no_texts(texts: Mapping[str, Collection[str]], source: str) -> None:
    if texts:
        raise DataError(
            f"{source} has no texts in columns of numbers, and missing names some for "
            f"{listing(list(texts))}. Give numbers, or replace the texts in the "
            f"source; texts are for text files, Excel workbooks, files of SAS, SPSS "
            f"and Stata, and columns of categories."
        )


def _open_address(address: str, roles: Roles) -> Table:
    if is_database(address):
        return _open_database(address, roles)
    if _scheme(address) in ("dask", "dask+tls"):
        from unpooled.data.sources.dask import open_cluster

        return open_cluster(address, roles)
    raise DataError(
        f"{_scheme(address)}:// sources cannot be read: files must be local, and of "
        f"databases SQLite and PostgreSQL are known. Export the table to Parquet "
        f"or CSV. {ALLOWED}"
    )


def _open_path(
    path: Path, roles: Roles, form: FileFormat, texts: Mapping[str, Collection[str]]
) -> Table:
    if not path.exists():
        place = "" if path.is_absolute() else f" in the working directory {Path.cwd()}"
        raise DataError(f"There is no file {path}{place}. Check the path.")
    if path.is_dir():
        raise DataError(
            f"{path} is a directory; a source is one file. Join the files, or name one "
            f"of them."
        )
    if path.suffix.lower() in (".npy", ".npz"):
        from unpooled.data.sources.npy import MappedRows, sparse_file

        form.check_used(f"the file {path}")
        _check_no_texts(texts, f"The file {path}")
        dense = path.suffix.lower() == ".npy"
        return ArrayTable(MappedRows(path) if dense else sparse_file(path), roles)
    reader = _reader(path, form)
    if path.suffix.lower() in (".parquet", ".arrow", ".feather"):
        _check_no_texts(texts, f"The file {path}")
    reader.missing = texts
    from unpooled.data.sources.streamed import FileTable

    if form.rename:
        from unpooled.data.sources.renamed import RenamedReader

        reader = RenamedReader(reader, f"The file {path}", form.rename, texts)
    return FileTable(path, reader, roles)


def _open_database(source: str, roles: Roles) -> Table:
    address = read_address(source)
    try:
        from unpooled.data.sources.database import DatabaseTable

        if address.kind == "sqlite":
            from unpooled.data.sources.sqlite import SQLiteReader

            reader = SQLiteReader(address)
        else:
            from unpooled.data.sources.postgresql import PostgreSQLReader

            reader = PostgreSQLReader(address)
    except ImportError as error:
        raise DataError(
            f"Databases are read through ADBC, and its driver for {address.kind} is "
            f"not installed. Install it with: pip install 'unpooled[sql]'."
        ) from error
    return DatabaseTable(address, reader, roles)


def _scheme(address: str) -> str:
    # The rest of a URI may hold a password, which errors must not repeat.
    return address.split("://")[0]


def _reader(path: Path, form: FileFormat) -> "Reader":
    endings = [ending.lower() for ending in path.suffixes]
    if endings[-1:] == [".gz"]:
        endings.pop()
    elif endings[-1:] == [".xlsx"]:
        form.check_used(f"the file {path}", "sheet", "rename")
        return _excel(path, form)
    elif endings[-1:] and endings[-1] in STATISTICS:
        form.check_used(f"the file {path}", "encoding", "rename")
        return _statistics(path, form)
    elif endings[-1:] == [".parquet"]:
        form.check_used(f"the file {path}", "rename")
        from unpooled.data.sources.arrow_files import ParquetReader

        return ParquetReader(path)
    elif endings[-1:] in ([".arrow"], [".feather"]):
        form.check_used(f"the file {path}", "rename")
        from unpooled.data.sources.arrow_files import IpcReader

        return IpcReader(path)
    delimiter = DELIMITERS.get(endings[-1] if endings else "")
    if delimiter is None:
        raise DataError(f"The ending of {path} is not known. {ALLOWED}")
    form.check_used(f"the file {path}", "separator", "decimal", "encoding", "rename")
    from unpooled.data.sources.delimited import DelimitedReader

    return DelimitedReader(
        path,
        form.separator or delimiter,
        form.decimal or ".",
        form.encoding or "utf-8",
    )


def _excel(path: Path, form: FileFormat) -> "Reader":
    try:
        from unpooled.data.sources.excel import ExcelReader
    except ImportError as error:
        raise DataError(
            f"{path} is an Excel workbook, which is read through openpyxl, and that is "
            f"not installed. Install it with: pip install 'unpooled[excel]'."
        ) from error
    return ExcelReader(path, form.sheet)


def _statistics(path: Path, form: FileFormat) -> "Reader":
    try:
        from unpooled.data.sources.statistics_files import StatisticsReader
    except ImportError as error:
        raise DataError(
            f"{path} is a file of {STATISTICS[path.suffix.lower()]}, which is read "
            f"through pyreadstat, and that is not installed. Install it with: "
            f"pip install 'unpooled[stats]'."
        ) from error
    return StatisticsReader(path, form.encoding)


def _rows(source: Sequence[Any]) -> Array:
    """Return a list of rows as an array; None is a missing cell, text is refused."""
    try:
        cells = np.array(source)
        if cells.dtype == object and cells.ndim == 2:
            if not all(c is None or isinstance(c, Real) for c in cells.flat):
                raise TypeError("a cell is not a number")
            cells = cells.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(
            f"The list is not a table of numbers: {error}. Give rows of equal length "
            f"with numbers, or None where one is missing."
        ) from error
    return cells
