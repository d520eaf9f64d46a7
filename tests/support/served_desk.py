"""A desk as a person starts it: the command in a process of its own, and its link."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import unpooled


@contextmanager
def served(*arguments: object) -> Iterator[tuple[subprocess.Popen, list[str]]]:
    """Run ``unpooled ...`` until it says that the link works once.

    Yields
    ------
    tuple of process and list of str
        What it wrote, line by line.
    """
    environment = os.environ | {
        "COLUMNS": "200",
        "PYTHONUNBUFFERED": "1",
        "PYTHONPATH": str(Path(unpooled.__file__).parents[1]),
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "unpooled", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
    assert process.stdout is not None
    said: list[str] = []
    try:
        for line in process.stdout:
            said.append(line.strip())
            if "works once" in line:
                break
        yield process, said
    finally:
        # Ctrl-C, by which a person ends it.
        process.send_signal(signal.SIGINT)
        _, wrong = process.communicate(timeout=30)
    assert process.returncode == 0
    assert wrong == ""


def link_of(said: list[str]) -> str:
    """Return the one-time link that a desk said."""
    (link,) = [line for line in said if line.startswith("http://127.0.0.1:")]
    return link


def socket_in(folder: Path) -> Path:
    """Return a short path for a socket: the system allows 107 letters."""
    return folder / "desk.sock"
