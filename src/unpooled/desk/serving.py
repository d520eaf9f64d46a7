"""Serving a desk on this machine, until Ctrl-C."""

import os
import socket
import stat
from collections.abc import Callable
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from unpooled.desk.door import App, Door
from unpooled.errors import StudyError
from unpooled.posix import bound_socket

_LOOPBACK = "127.0.0.1"


def need_framework() -> None:
    """Raise a `StudyError` where the packages for pages are not installed."""
    if find_spec("starlette") is None or find_spec("uvicorn") is None:
        raise StudyError(
            "The desk needs Starlette and uvicorn, which are not installed. Install "
            'them with: pip install "unpooled[desk]"'
        )


def serve(
    app: App, say: Callable[[str], None], port: int = 0, path: Path | None = None
) -> None:
    """Serve a desk, and say its link.

    Parameters
    ----------
    app : ASGI application
        The pages.
    say : callable
        Writes a line for the person who starts the desk.
    port : int, default 0
        Port of this machine; 0 takes a free one.
    path : Path, optional
        A socket of the file system in place of a port, for its owner alone.
    """
    import uvicorn

    door_socket = _listening(port) if path is None else _listening_at(path)
    try:
        # Before the link is said: it works at once.
        door_socket.listen()
        found = None if path is not None else door_socket.getsockname()[1]
        door = Door(app, found)
        if path is None:
            say(f"http://{_LOOPBACK}:{found}{door.path}")
        else:
            say(f"Listening at {path}, for its owner alone. Forward a port to it,")
            say(f"for example by ssh, and open http://localhost:PORT{door.path}")
        say("The link works once, in one browser. Ctrl-C ends the desk.")
        # No access log: the link's token is in a path.
        config = uvicorn.Config(
            door,
            access_log=False,
            log_level="warning",
            server_header=False,
            proxy_headers=False,
            lifespan="off",
            ws="none",
        )
        with suppress(KeyboardInterrupt):
            uvicorn.Server(config).run(sockets=[door_socket])
    finally:
        door_socket.close()
        if path is not None:
            path.unlink(missing_ok=True)


def _listening(port: int) -> socket.socket:
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    if os.name == "posix":
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((_LOOPBACK, port))
    except OSError as wrong:
        made.close()
        raise StudyError(
            f"Port {port} of this machine cannot be used: {wrong.strerror}. Give "
            f"another --port, or none for a free one."
        ) from wrong
    return made


def _listening_at(path: Path) -> socket.socket:
    with suppress(FileNotFoundError):
        # The socket of a desk that was killed; never another kind of file.
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise StudyError(f"{path} is there, and is not a socket.")
        path.unlink()
    try:
        return bound_socket(path)
    except OSError as wrong:
        raise StudyError(f"Cannot listen at {path}: {wrong.strerror}.") from wrong
