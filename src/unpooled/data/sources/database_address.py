"""Addresses of tables in databases, parsed so that errors cannot show passwords.

    sqlite:///clinic.db?table=patients
    postgresql://user@host/db?sslmode=require&table=patients
    postgresql://user@host/db?query=SELECT age, chol FROM patients ORDER BY id

An address may contain a password, and addresses appear in errors, logs and reports. So
an address is parsed once, here. An address that cannot be parsed is never repeated,
because any part of it may be the password.
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
SHORTEST_SECRET = 4  # replacing a shorter one would change words, and so disclose it


@final
@dataclass(frozen=True)
class DatabaseAddress:
    """The parsed address of a table or query.

    Attributes
    ----------
    kind : str
        ``"sqlite"`` or ``"postgresql"``.
    target : str
        The SQLite file, or the URI for PostgreSQL's client, perhaps with a password.
    shown : str
        The database, as errors may name it.
    table, query : str or None
        What is read; one of the two is None.
    secrets : tuple of str
        Texts that errors of the driver must not repeat.
    """

    kind: str
    target: str = field(repr=False)
    shown: str
    table: str | None
    query: str | None = field(repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)

    @property
    def source(self) -> str:
        """The source's name at the start of an error."""
        what = "The query" if self.table is None else f"The table {self.table!r}"
        return f"{what} in {self.shown}"

    def without_secrets(self, text: str) -> str:
        """Return a driver's message with passwords replaced by asterisks."""
        for secret in self.secrets:
            if len(secret) >= SHORTEST_SECRET:
                text = text.replace(secret, "***")
        return text


def is_database(source: str) -> bool:
    """Whether a source is an address of a supported database."""
    return source.partition("://")[0].lower() in (*SQLITE, *POSTGRESQL)


def anchored(source: str, folder: Path) -> str:
    """Return a source with its relative path, of a file or database, under a folder.

    Parameters
    ----------
    source : str
        A path or an address, as written in a file.
    folder : Path
        The folder of that file.
    """
    scheme, divider, rest = source.partition("://")
    if not divider:
        return str(folder.absolute() / Path(source).expanduser())
    if scheme.lower() not in SQLITE or not rest.startswith("/"):
        return source
    path, mark, parameters = rest[1:].partition("?")
    whole = (folder / Path(unquote(path)).expanduser()).absolute()
    return f"{scheme}:///{quote(str(whole))}{mark}{parameters}"


def where_paths_start(source: str, file: Path) -> str:
    """Return a sentence on relative paths, where a source of a file is not there.

    Parameters
    ----------
    source : str
        A source of the file, as `anchored` returns it.
    file : Path
        The study file, or the silo's.
    """
    if "://" in source and source.partition("://")[0].lower() not in SQLITE:
        return ""
    if "://" not in source and Path(source).exists():
        return ""
    folder = file.parent.absolute()
    return f" Relative paths start at {folder}, the folder of {file.name}."


def read_address(source: str) -> DatabaseAddress:
    """Parse an address.

    Raises
    ------
    DataError
        When it is not of the forms above; the message does not repeat it.
    """
    scheme, _, rest = source.partition("://")
    body, _, parameters = rest.partition("?")
    options, table, query = _split_query(parameters)
    if scheme.lower() in SQLITE:
        return _sqlite(body, options, table, query)
    return _postgresql(body, options, table, query)


def _split_query(text: str) -> tuple[list[tuple[str, str]], str | None, str | None]:
    """Split the text after the question mark: options, table, query."""
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
            # SQL may contain & and =, so the query is the rest.
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
        place = "" if file.is_absolute() else f" in the working directory {Path.cwd()}"
        raise DataError(
            f"There is no SQLite file {file}{place}. Check the path: after sqlite:// "
            f"and one more slash it is relative, after two it starts at the root."
        )
    return DatabaseAddress("sqlite", str(file.absolute()), str(file), table, query)


def _postgresql(
    body: str, options: list[tuple[str, str]], table: str | None, query: str | None
) -> DatabaseAddress:
    # The last @, since a password may contain one that is not written as %40.
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
    # A server that does not answer must result in an error.
    for key, value in (
        ("connect_timeout", "30"),
        ("fallback_application_name", "unpooled"),
    ):
        if key not in given:
            options = [*options, (key, value)]
    # Encoded again, because libpq would repeat what it cannot decode.
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
