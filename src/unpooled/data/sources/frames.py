"""DataFrames of pandas, polars and pyarrow, converted block by block."""

from collections.abc import Iterator, Sequence
from typing import Any, final

import narwhals as nw
import numpy as np
import pyarrow as pa

from unpooled.arrays import Array, Float, Shaped
from unpooled.data.columns import NO_ROLES, Roles, refuse_text
from unpooled.data.row_blocks import Block
from unpooled.data.sources.arrow import is_number, numbers_of, values_of
from unpooled.data.table import SlicedTable
from unpooled.errors import DataError

Frame = Any  # of pandas, polars or pyarrow, none of which need be installed


@final
class FrameTable(SlicedTable):
    """A DataFrame of any library that narwhals supports, kept without conversion.

    Parameters
    ----------
    frame : pandas, polars or pyarrow table
        Feature columns are numbers or booleans, nullable or not; nulls become NaN.
        Columns without any value may be of any type.
    roles : Roles, optional
        The label, the ids, and the only feature columns wanted.
    """

    def __init__(self, frame: Frame, roles: Roles = NO_ROLES) -> None:
        self._frame = eager_frame(frame)
        keys = self._frame.columns
        self.named = _has_names(keys)
        names = keys if self.named else [f"x{j}" for j in range(len(keys))]
        # Pandas allows names that are numbers, so columns are read by these keys.
        self._keys = dict(zip(names, keys, strict=True))
        self._types = dict(zip(names, self._frame.schema.values(), strict=True))
        self._numbered = {name: j for j, name in enumerate(names)}
        self._in_arrays = _in_arrays(self._frame, names)
        self.columns = roles.features(names, "The DataFrame")
        roles = roles.beside(self.columns)
        self.label, self.ids, self.also = roles.label, roles.ids, roles.also
        if not self.n_rows:
            raise DataError(
                "The DataFrame has no rows. Leave a silo without data out of the study."
            )
        kinds = {name: self._refused_kind(name) for name in self.columns}
        refuse_text({n: kind for n, kind in kinds.items() if kind}, "The DataFrame")
        self._has_missing = {
            name: bool(self._column(self._frame, name).null_count())
            for name in roles.others
        }

    @property
    def n_rows(self) -> int:
        """Number of rows of the DataFrame."""
        return len(self._frame)

    def _blocks(
        self, columns: list[str], extra: list[str], rows: int
    ) -> Iterator[Block]:
        places = self._places(columns)
        # A table that is read whole is not cut first: with few rows that takes most of
        # the time.
        all_rows = self.n_rows <= rows
        all_columns = places == list(range(len(self._keys)))
        in_arrays = self._in_arrays.issuperset(columns)
        for start in range(0, self.n_rows, rows):
            part = self._frame if all_rows else self._frame[start : start + rows]
            X = None
            if places is not None and in_arrays:
                # Through narwhals it takes six times as long where rows are few.
                own = part.to_native()
                own = own if all_columns else own.take(places, axis=1)
                X = np.asfortranarray(own.to_numpy(), np.float64)
            elif places is not None:
                X = _together(part, None if all_columns else places)
            if X is None:
                X = np.empty((len(columns), len(part))).T
                for j, name in enumerate(columns):
                    X[:, j] = _numbers(self._column(part, name))
            yield Block(start, X, {name: self._values(part, name) for name in extra})

    def _places(self, columns: list[str]) -> list[int] | None:
        """Return the positions of columns that become one array, or None."""
        types = {self._types[name] for name in columns}
        if not types or not all(map(_is_plain, types)):
            return None
        if len(types) > 1 and not self._in_arrays.issuperset(columns):
            return None
        return [self._numbered[name] for name in columns]

    def _values(self, part: nw.DataFrame[Any], name: str) -> Shaped[Array, " n"]:
        column = self._column(part, name)
        if name in self.columns:
            return _numbers(column)
        try:
            cells = _arrow(column)
        except (TypeError, ValueError) as error:
            raise DataError(
                f"Column {name!r} mixes values of several types: {error}. Convert it "
                f"to one type, for instance to text."
            ) from error
        return values_of(cells, self._has_missing[name])

    def _column(self, part: nw.DataFrame[Any], name: str) -> nw.Series[Any]:
        return part.get_column(self._keys[name])

    def _refused_kind(self, name: str) -> str | None:
        """Return the type of a feature column that is not numeric, or None."""
        column = self._column(self._frame, name)
        if column.dtype.is_numeric() or column.dtype == nw.Boolean:
            return None
        if column.null_count() == len(column):
            return None
        if column.dtype == nw.Object and is_number(_arrow_type(column)):
            return None  # for instance True, False and None in a pandas column
        if column.dtype in (nw.String, nw.Categorical, nw.Enum):
            return "text"
        return "dates" if column.dtype.is_temporal() else str(column.dtype)


def eager_frame(frame: Frame) -> nw.DataFrame[Any]:
    """Return a DataFrame with narwhals' interface; raise when it is none."""
    try:
        return nw.from_native(frame, eager_only=True)
    except nw.exceptions.DuplicateError as error:
        raise DataError(
            f"The DataFrame has more than one column of the same name "
            f"({' '.join(str(error).split())}). Rename or drop the repeated columns."
        ) from error
    except TypeError as error:
        raise DataError(
            f"A source of type {type(frame).__module__}.{type(frame).__name__} cannot "
            f"be read. Pass a 2-D array, a list of rows, a path, or a pandas, polars "
            f"or pyarrow table (a lazy frame after .collect(), a series after "
            f".to_frame(), record batches after pyarrow.Table.from_batches)."
        ) from error


def _in_arrays(frame: nw.DataFrame[Any], names: Sequence[str]) -> set[str]:
    """Return the columns that pandas keeps in arrays of NumPy; none of others."""
    if not frame.implementation.is_pandas():
        return set()
    kinds = zip(names, frame.to_native().dtypes, strict=True)
    return {name for name, kind in kinds if isinstance(kind, np.dtype)}


def _has_names(keys: Sequence[Any]) -> bool:
    """Whether columns have names: strings, not numbers, as in scikit-learn."""
    named = [isinstance(key, str) for key in keys]
    if any(named) and not all(named):
        raise DataError(
            "The DataFrame's column names are partly text and partly not. Make them "
            "all text: frame.columns = frame.columns.astype(str)."
        )
    return all(named)


def _is_plain(dtype: Any) -> bool:
    return dtype.is_numeric() and not dtype.is_decimal()


def _together(
    part: nw.DataFrame[Any], places: Sequence[int] | None
) -> Float[Array, "n p"] | None:
    """Return columns of one type as an array, or None where they become objects."""
    own = part.to_native()
    if isinstance(own, pa.Table):
        # As narwhals does it, without a table of the chosen columns.
        chosen = range(own.num_columns) if places is None else places
        X = np.column_stack([own.column(j).to_numpy() for j in chosen])
    else:
        # For a wide DataFrame, conversion by column takes ten times as long.
        X = (part if places is None else part[:, places]).to_numpy()
    # Columns are contiguous, as in the DataFrame itself.
    return np.asfortranarray(X, np.float64) if X.dtype.kind in "fiu" else None


def _numbers(column: nw.Series[Any]) -> Float[Array, " n"]:
    dtype = column.dtype
    if _is_plain(dtype):
        return column.to_numpy().astype(np.float64, copy=False)
    if dtype == nw.Boolean:
        return column.cast(nw.Float64).to_numpy()
    return numbers_of(_arrow(column))


def _arrow(column: nw.Series[Any]) -> pa.ChunkedArray:
    cells = column.to_arrow()
    return cells if isinstance(cells, pa.ChunkedArray) else pa.chunked_array([cells])


def _arrow_type(column: nw.Series[Any]) -> pa.DataType:
    try:
        return column.to_arrow().type
    except (TypeError, ValueError):  # values of several types: not numbers
        return pa.string()
