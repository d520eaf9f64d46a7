"""Parquet files, read a few pages at a time."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import final

import pyarrow as pa
import pyarrow.parquet as pq

from unpooled.data.columns import Roles
from unpooled.data.sources.arrow import is_number
from unpooled.data.sources.streamed import Batches, Reader, Survey

BATCH_ROWS = 8192
# Without a buffer, pyarrow reads the chunk of a column in a row group at once, and a
# row group may be the whole file.
READ_BYTES = 2**16


@final
class ParquetReader(Reader):
    """Reads columns batch by batch; the number of rows is in the footer."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def names(self) -> list[str]:
        """Return the column names in the order of the file."""
        with self._open() as file:
            return file.schema_arrow.names

    def survey(self, features: Sequence[str], roles: Roles) -> Survey:
        """Return types and the number of rows from the footer."""
        others = roles.others
        with self._open() as file:
            schema = file.schema_arrow
            n_rows = file.metadata.num_rows
        types = {name: schema.field(name).type for name in (*features, *others)}
        text = {
            name: str(types[name])
            for name in features
            if not is_number(types[name]) and self._n_values(name, types[name])
        }
        has_missing = {
            name: self._n_values(name, types[name]) < n_rows for name in others
        }
        return Survey(n_rows, types, has_missing, text)

    def batches(self, types: Mapping[str, pa.DataType]) -> Batches:
        """Yield batches of these columns."""
        with self._open() as file:
            for batch in file.iter_batches(BATCH_ROWS, columns=list(types)):
                yield pa.Table.from_batches([batch])

    def _n_values(self, name: str, kind: pa.DataType) -> int:
        """Return the number of cells that are not missing, from one pass."""
        batches = self.batches({name: kind})
        return sum(len(batch) - batch[name].null_count for batch in batches)

    def _open(self) -> pq.ParquetFile:
        return pq.ParquetFile(self._path, buffer_size=READ_BYTES, pre_buffer=False)
