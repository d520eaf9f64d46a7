"""Addresses of databases: wrong ones are refused, and no password ever shows."""

from urllib.parse import quote

import pytest

import unpooled as up
from database_rows import whole
from databases import EMPTIED, PASSWORD, run
from unpooled.data.sources.open_source import open_source
from unpooled.errors import DataError


@pytest.fixture
def server(postgresql):
    yield postgresql
    run(postgresql, *EMPTIED)


@pytest.mark.slow
def test_a_password_opens_and_never_shows(server, tmp_path):
    run(
        server,
        f"CREATE ROLE guarded LOGIN PASSWORD '{PASSWORD}'",
        "CREATE TABLE rows AS SELECT generate_series(1, 20)::float8 AS a",
        "GRANT SELECT ON rows TO guarded",
        "CREATE TABLE hidden AS SELECT 1.0 AS a",
    )
    try:
        encoded = quote(PASSWORD, safe="")
        place = server.partition("@")[2]
        given = f"postgresql://guarded:{encoded}@{place}&table="
        table = open_source(f"{given}rows")

        assert whole(table)[0].sum() == 210
        asked = f"postgresql://guarded@{place}&password={encoded}&table=rows"
        assert open_source(asked).n_rows == 20
        assert not betrays(repr(table) + repr(vars(table)), PASSWORD, encoded)
        with pytest.raises(DataError, match="permission denied") as caught:
            open_source(f"{given}hidden")
        assert not betrays(all_texts(caught.value), PASSWORD, encoded)
        wrong = given.replace(encoded, "let-me-in")
        with pytest.raises(DataError, match="authentication failed") as caught:
            open_source(f"{wrong}rows")
        assert not betrays(all_texts(caught.value), "let-me-in")
        path = tmp_path / "study.toml"
        path.write_text(
            f'[study]\nname = "s"\n[parties.a]\nsource = "{given}rows"\n'
            '[[steps]]\nmodel = "PCA"\n'
        )
        assert not betrays(repr(up.Study.from_file(path)), PASSWORD, encoded)
    finally:
        run(server, "DROP OWNED BY guarded", "DROP ROLE guarded")


def betrays(text, *secrets):
    return any(secret in text for secret in secrets)


def all_texts(error):
    """An error and all that it came from, as its traceback and its parts show it."""
    texts = []
    while error is not None:
        texts += [str(error), repr(error), repr(error.args)]
        error = error.__cause__ or error.__context__
    return "\n".join(texts)


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://me:hunter2zz@localhost:port/db?table=t",
        "postgresql://me:hunter2zz/x@localhost:1/db?table=t",
        "postgresql://me:hunter2zz?x@localhost/db?table=t",
        "postgresql://me:1?hunter2zz@localhost/db?table=t",
        "postgresql://me:hunter2zz@x@localhost:1/db?table=t",
        "postgresql://me:hunter2zz%zz@localhost:1/db?table=t",
        "postgresql://me:hunter2zz#x@localhost:1/db?table=t",
        "postgresql://me:hunter2zz@localhost:1/db?table=t&query=SELECT 1",
        "postgresql://me:hunter2zz@localhost:1/db",
        "postgresql://me:hunter2zz@localhost:1/db?table=",
        "postgresql://me:hunter2zz@localhost:1/db?password=hunter2zz&table=t",
        "postgresql://localhost:1/db?sslpassword=hunter2zz&nonsense=1&table=t",
        "postgresql://localhost:hunter2zz",
        "postgres://me:hunter2zz@localhost:1/db?table=t",
        "sqlite://me:hunter2zz@host/db?table=t",
        "mysql://me:hunter2zz@localhost/db?table=t",
    ],
)
def test_a_password_is_in_no_error_however_the_address_is_broken(address):
    with pytest.raises(DataError) as caught:
        open_source(address)

    assert not betrays(all_texts(caught.value), "hunter2zz")


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("sqlite://rows.db?table=t", "three slashes"),
        ("sqlite:///?table=t", "names a file"),
        ("sqlite:///:memory:?table=t", "names a file"),
        ("sqlite:///rows.db", "one table, or one query"),
        ("sqlite:///rows.db?table=t&query=SELECT 1", "one table, or one query"),
        ("sqlite:///rows.db?query= ; ", "one table, or one query"),
        ("sqlite:///rows.db?mode=rwc&table=t", "nothing else"),
        ("sqlite:///rows.db?t", "not key=value"),
        ("postgresql://h[/db?table=t", "cannot be understood"),
    ],
)
def test_addresses_that_are_not_of_the_forms(address, message):
    with pytest.raises(DataError, match=message):
        open_source(address)
