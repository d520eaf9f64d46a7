"""Tables in files, read from the disk in every pass while the file is unchanged."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import final

from unpooled.data.columns import NO_ROLES, Roles
from unpooled.data.row_blocks import Block
from unpooled.data.sources.streamed import Reader, StreamedTable


@final
class FileTable(StreamedTable):
    """A table in a file, whose rows are read from the disk in every pass.

    Parameters
    ----------
    path : Path
        The file.
    reader : Reader
        Reads the format of the file.
    roles : Roles, optional
        The label, the ids, and the only feature columns wanted.
    """

    def __init__(self, path: Path, reader: Reader, roles: Roles = NO_ROLES) -> None:
        self._path, self._reader = path, reader
        self._source = f"The file {path}"
        self._remedy = (
            "Check that it is complete, that its content fits its ending, that text is "
            "UTF-8 (or name its encoding), and that this user may read it"
        )
        self._version = self._version_now()
        super().__init__(self._source, self._remedy, reader, roles)

    def blocks(
        self, columns: Sequence[str], extra: Sequence[str] = (), rows: int | None = None
    ) -> Iterator[Block]:
        """Read the file from the first row to the last; see `Table.blocks`."""
        blocks = super().blocks(columns, extra, rows)
        if self._version_now() != self._version:
            raise self._changed()
        return blocks

    def _version_now(self) -> tuple[int, int]:
        try:
            state = self._path.stat()
        except OSError as error:
            raise self._unreadable(error) from error
        return state.st_size, state.st_mtime_ns
