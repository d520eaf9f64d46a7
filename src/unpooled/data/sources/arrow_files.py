"""Files with a schema of Arrow types: Parquet, and Arrow IPC files (or Feather)."""

import abc
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
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
_MAGIC = b"ARROW1"


class _ArrowReader(Reader):
    """Reads a file that has the types of its columns."""

    @abc.abstractmethod
    def schema(self) -> pa.Schema:
        """Return names and types of the columns."""

    @abc.abstractmethod
    def n_rows(self) -> int:
        """Return the number of rows."""

    def names(self) -> list[str]:
        """Return the column names in the order of the file."""
        return self.schema().names

    def survey(self, features: Sequence[str], roles: Roles) -> Survey:
        """Return types from the schema, and counts from one pass."""
        schema, others = self.schema(), roles.others
        types = {name: schema.field(name).type for name in (*features, *others)}
        doubtful = [name for name in features if not is_number(types[name])]
        there = dict.fromkeys([*doubtful, *others], 0)
        if there:
            for batch in self.batches({name: types[name] for name in there}):
                for name in there:
                    there[name] += len(batch) - batch[name].null_count
        text = {name: str(types[name]) for name in doubtful if there[name]}
        n_rows = self.n_rows()
        return Survey(n_rows, types, {n: there[n] < n_rows for n in others}, text)


@final
class ParquetReader(_ArrowReader):
    """Reads columns a few pages at a time; the number of rows is in the footer."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def schema(self) -> pa.Schema:
        """Return names and types of the columns."""
        with self._open() as file:
            return file.schema_arrow

    def n_rows(self) -> int:
        """Return the number of rows."""
        with self._open() as file:
            return file.metadata.num_rows

    def batches(self, types: Mapping[str, pa.DataType]) -> Batches:
        """Yield batches of these columns."""
        with self._open() as file:
            for batch in file.iter_batches(BATCH_ROWS, columns=list(types)):
                yield pa.Table.from_batches([batch])

    def _open(self) -> pq.ParquetFile:
        return pq.ParquetFile(self._path, buffer_size=READ_BYTES, pre_buffer=False)


@final
class IpcReader(_ArrowReader):
    """Reads columns in the memory of one record batch of the file, or of a stream."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with path.open("rb") as file:
            self._is_stream = file.read(len(_MAGIC)) != _MAGIC

    def schema(self) -> pa.Schema:
        """Return names and types of the columns."""
        with self._opened(None) as reader:
            return reader.schema

    def n_rows(self) -> int:
        """Return the number of rows, counted in one column."""
        first = self.schema().field(0)
        return sum(map(len, self.batches({first.name: first.type})))

    def batches(self, types: Mapping[str, pa.DataType]) -> Batches:
        """Yield batches of these columns."""
        names = self.names()
        chosen = sorted(names.index(name) for name in types)
        options = pa.ipc.IpcReadOptions(included_fields=chosen)
        with self._opened(options) as reader:
            if self._is_stream:
                for batch in reader:
                    yield pa.Table.from_batches([batch])
            else:
                for i in range(reader.num_record_batches):
                    yield pa.Table.from_batches([reader.get_batch(i)])

    @contextmanager
    def _opened(self, options: pa.ipc.IpcReadOptions | None) -> Iterator[pa.Table]:
        # Not a memory map, whose pages would count as memory while it is open.
        opening = pa.ipc.open_stream if self._is_stream else pa.ipc.open_file
        with pa.OSFile(str(self._path)) as file, opening(file, options=options) as read:
            yield read
