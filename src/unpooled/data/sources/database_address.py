"""Addresses of tables in databases: what they name, and what of them may be shown.

    sqlite:///clinic.db?table=patients
    postgresql://user@host/db?sslmode=require&table=patients
    postgresql://user@host/db?query=SELECT age, chol FROM patients ORDER BY id

A password may stand in an address, and addresses stand in errors, logs and reports. So
an address is taken apart once, here, and what cannot be taken apart is never repeated:
where it is broken, any part of it may be the password.
"""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import final
from urllib.parse import quote, unquote

from unpooled.errors import DataError

SQLITE, POSTGRESQL = ("sqlite",), ("postgresql", "postgres")
FORMS = (
    "Write sqlite:///path.db?table=name, postgresql://user@host/database?table=name, "
    "or ?query=SELECT ... in place of the table."
)
# host, host:port or [IPv6]:port; libpq takes several, split by commas.
HOST = re.compile(r"(\[[0-9A-Fa-f:.%]+\]|[^\[\]:,]*)(:[0-9]*)?")
SHORTEST_SECRET = 4  # blotting out a shorter one would spoil words, and so betray it


@final
@dataclass(frozen=True)
class DatabaseAddress:
    """Where a table is.

    Attributes
    ----------
    kind : str
        ``"sqlite"`` or ``"postgresql"``.
    target : str
        The SQLite file, or what PostgreSQL's client is given. It may hold a password.
    shown : str
        The database as errors may name it.
    table, query : str or None
        What is read: one of the two.
    secrets : tuple of str
        What errors of the driver must not repeat.
    """

    kind: str
    target: str = field(repr=False)
    shown: str
    table: str | None
    query: str | None = field(repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)

    @property
    def source(self) -> str:
        """What to call the rows at the start of an error."""
        what = "The query" if self.table is None else f"The table {self.table!r}"
        return f"{what} in {self.shown}"

    def without_secrets(self, text: str) -> str:
        """Blot out passwords in what a driver says."""
        for secret in self.secrets:
            if len(secret) >= SHORTEST_SECRET:
                text = text.replace(secret, "***")
        return text


def is_database(source: str) -> bool:
    """Whether a source is the address of a database of a kind that can be read."""
    return source.partition("://")[0].lower() in (*SQLITE, *POSTGRESQL)


def anchored(source: str, folder: Path) -> str:
    """Let a relative path in a source start at a folder: of a file, of an SQLite file.

    Parameters
    ----------
    source : str
        A path or an address, as it stands in a file.
    folder : Path
        Where that file lies.
    """
    scheme, divider, rest = source.partition("://")
    if not divider:
        return str(folder / Path(source).expanduser())
    if scheme.lower() not in SQLITE or not rest.startswith("/"):
        return source
    path, mark, asked = rest[1:].partition("?")
    whole = (folder / Path(unquote(path)).expanduser()).absolute()
    return f"{scheme}:///{quote(str(whole))}{mark}{asked}"


def read_address(source: str) -> DatabaseAddress:
    """Take an address apart.

    Raises
    ------
    DataError
        When it is not of the forms above; nothing of it is repeated.
    """
    scheme, _, rest = source.partition("://")
    body, _, asked = rest.partition("?")
    options, table, query = _asked(asked)
    if scheme.lower() in SQLITE:
        return _sqlite(body, options, table, query)
    return _postgresql(body, options, table, query)


def _asked(text: str) -> tuple[list[tuple[str, str]], str | None, str | None]:
    """Split what follows the question mark: options, the table, the query."""
    options: list[tuple[str, str]] = []
    table = query = None
    while text and query is None:
        key, equals, rest = text.partition("=")
        if not equals or not re.fullmatch(r"[a-z_]+", key):
            raise DataError(
                f"What follows the ? in the address of a database is not key=value. "
                f"{FORMS}"
            )
        if key == "query":
            # SQL has & and = of its own, so the query is all that follows.
            query = unquote(rest).strip().rstrip(";").rstrip()
            break
        value, _, text = rest.partition("&")
        if key == "table":
            table = unquote(value)
        else:
            options.append((key, value))
    if bool(table) == bool(query):
        raise DataError(
            f"The address of a database names one table, or one query. {FORMS}"
        )
    return options, table or None, query or None


def _sqlite(
    body: str, options: list[tuple[str, str]], table: str | None, query: str | None
) -> DatabaseAddress:
    path = unquote(body.removeprefix("/"))
    if not body.startswith("/") or path in ("", ":memory:"):
        raise DataError(
            f"The address of an SQLite database names a file after three slashes, or "
            f"four where the path starts at the root. {FORMS}"
        )
    if options:
        raise DataError(
            f"The address of an SQLite database takes a table or a query and nothing "
            f"else. {FORMS}"
        )
    file = Path(path).expanduser()
    if not file.is_file():
        raise DataError(
            f"There is no SQLite file {file} (looked for {file.absolute()}). Check the "
            f"path: after sqlite:// and one more slash, a relative one starts at the "
            f"working directory."
        )
    return DatabaseAddress("sqlite", str(file.absolute()), str(file), table, query)


def _postgresql(
    body: str, options: list[tuple[str, str]], table: str | None, query: str | None
) -> DatabaseAddress:
    # The last @, for a password may have one that should have been written as %40.
    login, at, place = body.rpartition("@")
    user, colon, password = login.partition(":")
    hosts = place.partition("/")[0]
    if not all(HOST.fullmatch(host) for host in hosts.split(",")):
        raise DataError(
            "The address of the PostgreSQL database cannot be understood (it is not "
            "repeated here, for it may hold a password). Write "
            "postgresql://user@host:port/database?table=name; in a password, : / ? # "
            "and @ are written as %3A %2F %3F %23 and %40. Better, keep it in "
            "~/.pgpass."
        )
    secrets = [password, unquote(password)]
    for key, value in options:
        if "password" in key:
            secrets += [value, unquote(value)]
    given = {key for key, _ in options}
    # A server that does not answer must end in an error, not in silence.
    for key, value in (
        ("connect_timeout", "30"),
        ("fallback_application_name", "unpooled"),
    ):
        if key not in given:
            options = [*options, (key, value)]
    # Encoded anew: what libpq cannot decode, it would repeat.
    login = quote(unquote(user), safe="")
    whole = login + (f":{quote(unquote(password), safe='')}" if colon else "")
    parts = "&".join(f"{key}={quote(unquote(v), safe='')}" for key, v in options)
    return DatabaseAddress(
        "postgresql",
        f"postgresql://{whole}{at}{place}?{parts}",
        f"postgresql://{login}{at}{place}",
        table,
        query,
        tuple(sorted(filter(None, set(secrets)), key=len, reverse=True)),
    )
