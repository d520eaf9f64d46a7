"""Facilities of POSIX systems, in one file: locks, modes, sockets in folders, forks.

On Windows, simulations, study files, reports and the coordinator's end run without
these; silos and servers are for POSIX systems, because there a key's file can be made
unreadable for others.
"""

import contextlib
import os
import signal
import socket
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import IO

try:
    import fcntl
except ImportError:
    fcntl = None

# Signals: that a copy of this process ended, and what ends one at once; and the exit
# status of a process that was killed.
COPY_ENDED, _KILL = getattr(signal, "SIGCHLD", 17), getattr(signal, "SIGKILL", 9)
KILLED = -_KILL


def processors() -> int:
    """Return the number of processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def lock(file: int | IO[bytes], kind: int | None = None) -> bool:
    """Lock an open file until it is closed; return False where another has the lock.

    The system releases the lock when the process ends, however it ends. Windows has no
    such locks, and there nothing is prevented.

    Parameters
    ----------
    file : int or file
        Open for writing, unless the lock is shared.
    kind : int, optional
        As of ``flock``; by default one that is not shared.

    Raises
    ------
    OSError
        When the file system has no locks, as some network drives.
    """
    if fcntl is None:
        return True
    try:
        fcntl.flock(file, (kind or fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):  # as the system, or a drive, says it
        return False
    return True


def is_locked(path: Path) -> bool | None:
    """Return whether a process has the lock of a file; None where that is unknown."""
    if fcntl is None:
        return None
    try:
        with path.open("rb") as stream:
            # Shared, for which network drives do not ask that the file may be written.
            return not lock(stream, fcntl.LOCK_SH)
    except FileNotFoundError:
        return False
    except OSError:
        return None


def keep_private(file: IO[bytes]) -> None:
    """Let only the owner of an open file read it; before anything is in it."""
    if os.name == "posix":
        os.fchmod(file.fileno(), 0o600)


def others_may_read(path: Path) -> bool:
    """Return whether the mode of a file lets others read it; False on Windows."""
    return os.name == "posix" and bool(path.stat().st_mode & 0o077)


def anyone_may_write(path: Path) -> bool:
    """Return whether the mode of a file lets every user write it; False on Windows."""
    return os.name == "posix" and bool(path.stat().st_mode & 0o002)


def bound_socket(path: Path) -> socket.socket:
    """Return a socket at a path of the file system that only its owner may use.

    Raises
    ------
    OSError
        When it cannot be made, also where the system has no such sockets.
    """
    if not hasattr(socket, "AF_UNIX"):
        raise OSError(0, "this system has no sockets in folders")
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        made.bind(str(path))
    except OSError:
        made.close()
        raise
    finally:
        os.umask(before)
    return made


def forked() -> int:
    """Copy this process; return 0 in the copy, and the copy's number here.

    The copy leads a session and a process group of its own. It has the thread alone
    that called this, so others must not hold locks that it takes.
    """
    with warnings.catch_warnings():
        # Python warns about the threads of libraries, such as allocators, which handle
        # a fork themselves.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        os.setsid()
    return pid


def kill_copy(pid: int) -> None:
    """Kill a process that `forked` made, with all that it started."""
    # Just begun, it has no group of its own yet.
    for kill in (os.killpg, os.kill):
        with contextlib.suppress(ProcessLookupError):
            kill(pid, _KILL)


def ended_copies() -> Iterator[tuple[int, int]]:
    """Yield number and exit status, negative for a signal, of copies that ended."""
    with contextlib.suppress(ChildProcessError):  # none is left
        while (found := os.waitpid(-1, os.WNOHANG)) != (0, 0):
            yield found[0], os.waitstatus_to_exitcode(found[1])
