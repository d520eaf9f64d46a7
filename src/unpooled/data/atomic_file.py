"""Files that are written completely or not at all, even if the process is killed."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


@contextmanager
def replacing(path: Path, *, durable: bool = True) -> Iterator[IO[bytes]]:
    """Open a temporary file for writing, which replaces `path` when it is complete.

    Parameters
    ----------
    path : Path
        The file to replace or create.
    durable : bool, default True
        Wait until the content is on the disk, so that it survives a power failure.
    """
    hidden = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with hidden.open("xb") as stream:
            yield stream
            if durable:
                stream.flush()
                os.fsync(stream.fileno())
        hidden.replace(path)
    finally:
        hidden.unlink(missing_ok=True)
