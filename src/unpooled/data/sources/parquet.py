"""Parquet files, read a few pages at a time."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import final

import pyarrow as pa
import pyarrow.parquet as pq

from unpooled.data.sources.arrow import is_number
from unpooled.data.sources.streamed import Batches, Reader, Survey

BATCH_ROWS = 8192
# Without a buffer, pyarrow reads a column's whole chunk of a row group at once, and a
# row group may be the whole file.
READ_BYTES = 2**16


@final
class ParquetReader(Reader):
    """Reads the columns asked for, batch by batch; rows are counted in the footer."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def names(self) -> list[str]:
        """All columns in the order of the file."""
        with self._open() as file:
            return file.schema_arrow.names

    def survey(
        self, features: Sequence[str], label: str | None, ids: str | None
    ) -> Survey:
        """Read types and the number of rows from the footer."""
        others = [name for name in (label, ids) if name is not None]
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
        """Read these columns as batches."""
        with self._open() as file:
            for batch in file.iter_batches(BATCH_ROWS, columns=list(types)):
                yield pa.Table.from_batches([batch])

    def _n_values(self, name: str, kind: pa.DataType) -> int:
        """Cells that are not missing, counted in one pass over the column."""
        batches = self.batches({name: kind})
        return sum(len(batch) - batch[name].null_count for batch in batches)

    def _open(self) -> pq.ParquetFile:
        return pq.ParquetFile(self._path, buffer_size=READ_BYTES, pre_buffer=False)
