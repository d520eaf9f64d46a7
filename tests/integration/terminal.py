"""The command as people use it: in a terminal, where keys are pressed."""

import contextlib
import os
import pty
import subprocess
import sys
import threading

from integration.consortium import surroundings, wait_for

# A session of its own, with the terminal as the one whose keys send signals.
BEGIN = (
    "import fcntl, os, sys, termios; os.setsid();"
    "fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.executable, sys.argv[1:])"
)


class Terminal:
    """A command in a terminal of 80 columns."""

    def __init__(self, *words) -> None:
        self.mine, its = pty.openpty()
        command = [sys.executable, "-m", "unpooled", *map(str, words)]
        self.process = subprocess.Popen(
            [sys.executable, "-c", BEGIN, *command],
            stdin=its,
            stdout=its,
            stderr=its,
            env=surroundings() | {"COLUMNS": "80", "TERM": "xterm"},
        )
        os.close(its)
        self.shown = ""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        # Reading fails when the last who has the terminal open is gone.
        with contextlib.suppress(OSError):
            while data := os.read(self.mine, 4096):
                self.shown += data.decode("utf-8", "replace")

    def sees(self, text: str, patience: float = 120.0) -> None:
        wait_for(lambda: text in self.shown, patience, pause=0.05)

    def types(self, keys: str) -> None:
        os.write(self.mine, keys.encode())

    def ends(self, patience: float = 120.0) -> int:
        try:
            return self.process.wait(patience)
        finally:
            self.process.kill()
            self._reader.join(10)
            os.close(self.mine)


def unpooled(*words, patience: float = 180.0) -> subprocess.CompletedProcess[str]:
    """Run the command without a terminal."""
    return subprocess.run(
        [sys.executable, "-m", "unpooled", *map(str, words)],
        capture_output=True,
        text=True,
        env=surroundings() | {"COLUMNS": "200"},
        timeout=patience,
        check=False,
    )
