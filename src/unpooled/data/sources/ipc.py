"""Arrow IPC files (or Feather) and streams, read one record batch at a time."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import final

import pyarrow as pa

from unpooled.data.columns import Roles
from unpooled.data.sources.arrow import is_number
from unpooled.data.sources.streamed import Batches, Reader, Survey

_MAGIC = b"ARROW1"


@final
class IpcReader(Reader):
    """Reads columns in the memory of one record batch of the file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with path.open("rb") as file:
            self._is_stream = file.read(len(_MAGIC)) != _MAGIC

    def names(self) -> list[str]:
        """Return the column names in the order of the file."""
        return self._schema().names

    def survey(self, features: Sequence[str], roles: Roles) -> Survey:
        """Return types from the schema, and counts from one pass."""
        others = roles.others
        schema = self._schema()
        types = {name: schema.field(name).type for name in (*features, *others)}
        doubtful = [name for name in features if not is_number(types[name])]
        looked_at = [*doubtful, *others] or [features[0]]
        n_rows, there = 0, dict.fromkeys(looked_at, 0)
        for batch in self.batches({name: types[name] for name in looked_at}):
            n_rows += len(batch)
            for name in looked_at:
                there[name] += len(batch) - batch[name].null_count
        text = {name: str(types[name]) for name in doubtful if there[name]}
        return Survey(n_rows, types, {n: there[n] < n_rows for n in others}, text)

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

    def _schema(self) -> pa.Schema:
        with self._opened(None) as reader:
            return reader.schema

    @contextmanager
    def _opened(self, options: pa.ipc.IpcReadOptions | None) -> Iterator[pa.Table]:
        # Not a memory map, whose pages would count as memory while it is open.
        opening = pa.ipc.open_stream if self._is_stream else pa.ipc.open_file
        with pa.OSFile(str(self._path)) as file, opening(file, options=options) as read:
            yield read
