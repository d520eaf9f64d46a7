"""Files that are there in whole or not at all, whenever a process ends."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


@contextmanager
def replacing(path: Path, *, durable: bool = True) -> Iterator[IO[bytes]]:
    """Write a file under another name until it is complete.

    `durable` waits until it is on the disk, so that it is there after a power failure.
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
