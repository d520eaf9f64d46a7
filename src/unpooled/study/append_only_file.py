"""Files that grow by whole lines, and survive a process that dies in the middle."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from unpooled.data.atomic_file import replacing
from unpooled.errors import StudyError


def append(path: Path, text: str) -> None:
    """Write text at the end of a file and force it to disk."""
    if not text:
        return
    try:
        with path.open("ab") as stream:
            stream.write(text.encode())
            stream.flush()
            os.fsync(stream.fileno())
    except OSError as wrong:
        raise StudyError(f"Cannot write {path}: {wrong}.") from wrong


def whole_lines(path: Path) -> str:
    """Return the JSON lines of a file; a last line written in part is cut off.

    The file is mended too, so that what is appended starts on a line of its own. No
    file is no lines.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return ""
    except OSError as wrong:
        raise StudyError(f"Cannot read {path}: {wrong}.") from wrong
    whole, _, last = content.rpartition(b"\n")
    if last:
        whole += b"\n" * bool(whole)
        # All of it but the line's end may have been written: then it is a line.
        whole += last + b"\n" if _is_json(last) else b""
        with replacing(path) as stream:
            stream.write(whole)
    try:
        return (whole if last else content).decode("ascii")
    except UnicodeDecodeError as wrong:
        raise StudyError(f"{path} is not made of JSON lines: {wrong}.") from wrong


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Hold a file for this process alone; the system lets go when the process dies."""
    try:
        import fcntl
    except ImportError:
        # Windows has no such locks; there the user must not start a run twice.
        yield
        return
    with path.open("ab") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as held:
            raise StudyError(
                f"Another process is running a study in {path.parent}."
            ) from held
        yield


def _is_json(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False
