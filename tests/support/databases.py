"""Real databases for tests: SQLite files, and a PostgreSQL server of the tests' own.

The server listens on a socket in a folder of its own and on no port, so that it meets
no other server of the machine, and ends with the tests. With certificates it listens on
a port of this machine too, for those who have one.
"""

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from certificate_chain import Authority

ABSENT = "PostgreSQL absent"
PASSWORD = "pa:ss/w@rd?50%25#"
EMPTIED = (
    "DROP SCHEMA public CASCADE",
    "CREATE SCHEMA public",
    "GRANT USAGE ON SCHEMA public TO public",
)
# Only the one role has to show a password; the socket lies in a private folder.
ACCESS = "local all guarded scram-sha-256\nlocal all all trust\n"


# By the network, only who shows a certificate that has the role's name.
CERTIFIED = "hostssl all all localhost cert\n"


@contextmanager
def postgresql_server(authority: Authority | None = None) -> Iterator[str]:
    """Yield what stands after the user's name in an address of this server.

    With an authority, which made a certificate ``server``, it ends in the port.
    """
    programs = _programs()
    # Not pytest's folder: the path of a socket has at most 107 characters, and the
    # server's user must be able to enter it.
    folder = Path(tempfile.mkdtemp(prefix="unpooled-postgresql-"))
    user = _server_user()
    if user is not None:
        shutil.chown(folder, user)
    data = folder / "data"
    try:
        _as_user(
            user,
            [programs / "initdb", "-D", data, "-U", "owner", "-E", "UTF8"],
            ["--auth=trust", "--no-locale", "--no-sync"],
        )
        (data / "pg_hba.conf").write_text(ACCESS)
        listens, place = "''", f"@/postgres?host={folder}"
        if authority is not None:
            with socket.create_server(("localhost", 0)) as free:
                port = free.getsockname()[1]
            listens = f"localhost -p {port} -c ssl=on -c ssl_ca_file=root.crt"
            place += f"&port={port}"
            (data / "pg_hba.conf").write_text(ACCESS + CERTIFIED)
            for name in ("server.crt", "server.key", "root.crt"):
                shutil.copy(authority.folder / name, data / name)
                if user is not None:
                    shutil.chown(data / name, user)
        settings = f"-k {folder} -c listen_addresses={listens} -c fsync=off"
        log = folder / "log"
        _as_user(
            user,
            [programs / "pg_ctl", "-D", data, "-l", log, "-w", "-t", "120"],
            ["-o", settings, "start"],
        )
        try:
            yield place
        finally:
            stop = [programs / "pg_ctl", "-D", data, "-m", "immediate", "stop"]
            _as_user(user, stop)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _programs() -> Path:
    # Debian keeps the server outside PATH, in a folder for its version.
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    named = shutil.which("initdb")
    if named is not None:
        return Path(named).parent
    if not found:
        pytest.skip(ABSENT)
    return found[-1].parent


def _server_user() -> str | None:
    """Name the user to start the server as; it refuses to run as root."""
    if os.geteuid() != 0:
        return None
    try:
        return pwd.getpwnam("postgres").pw_name
    except KeyError:
        pytest.skip(ABSENT)


def _as_user(user: str | None, *parts: Sequence[str | Path]) -> None:
    command = [str(word) for part in parts for word in part]
    # Without pipes: the server would inherit them, and whoever reads them would wait.
    done = subprocess.run(
        command,
        user=user,
        group=user,
        extra_groups=None if user is None else [],
        cwd="/",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=False,
    )
    assert done.returncode == 0, f"{command} ended with {done.returncode}"


@contextmanager
def connected(address: str) -> Iterator[Any]:
    """Yield a cursor that may write; each statement is committed at once."""
    if address.startswith("sqlite"):
        import adbc_driver_sqlite.dbapi as driver

        path = address.removeprefix("sqlite:///").partition("?")[0]
        connection = driver.connect(f"file:{path}", autocommit=True)
    else:
        import adbc_driver_postgresql.dbapi as driver

        connection = driver.connect(address.rstrip("&"), autocommit=True)
    with connection, connection.cursor() as cursor:
        yield cursor


def run(address: str, *statements: str) -> None:
    """Run statements at the database of an address."""
    with connected(address) as cursor:
        for statement in statements:
            cursor.execute(statement)
            # A statement runs when its result is asked for.
            cursor.fetchall()


def write(address: str, name: str, table: pa.Table) -> None:
    """Make a table of these columns and rows."""
    with connected(address) as cursor:
        cursor.adbc_ingest(name, table, mode="replace")
