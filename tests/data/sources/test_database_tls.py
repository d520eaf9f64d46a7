"""PostgreSQL over the network, by TLS with certificates on both sides."""

import numpy as np
import pyarrow as pa
import pytest
from numpy.testing import assert_array_equal

from certificate_chain import Authority
from database_rows import whole
from databases import postgresql_server, run, write
from unpooled.data.sources.open_source import open_source
from unpooled.errors import DataError

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def certified(tmp_path_factory):
    """A server that lets nobody in by the network without a certificate."""
    authority = Authority(tmp_path_factory.mktemp("certificates"))
    authority.certify("server", "localhost")
    authority.certify("reader")
    with postgresql_server(authority) as place:
        owner = f"postgresql://owner{place}"
        write(owner, "rows", pa.table({"age": np.array([1.0, 2.0, 4.0])}))
        run(owner, "CREATE ROLE reader LOGIN", "GRANT SELECT ON rows TO reader")
        yield authority, place.partition("&port=")[2]


def options(authority, root=None, name="reader"):
    folder = authority.folder
    return (
        f"sslmode=verify-full&sslrootcert={root or authority.root}"
        f"&sslcert={folder / name}.crt&sslkey={folder / name}.key"
    )


def test_rows_come_through_tls(certified):
    authority, port = certified
    address = f"postgresql://reader@localhost:{port}/postgres?{options(authority)}"

    assert_array_equal(whole(open_source(f"{address}&table=rows"))[0][:, 0], [1, 2, 4])
    # The connection says itself that it is encrypted.
    shown = (
        "SELECT (version = 'TLSv1.3')::int AS tls, (client_dn = '/CN=reader')::int "
        "AS known FROM pg_stat_ssl WHERE pid = pg_backend_pid()"
    )
    assert_array_equal(whole(open_source(f"{address}&query={shown}"))[0], [[1, 1]])


def test_a_service_file_has_the_address(certified, tmp_path, monkeypatch):
    authority, port = certified
    parts = f"host=localhost&port={port}&dbname=postgres&user=reader"
    lines = f"{parts}&{options(authority)}".replace("&", "\n")
    (tmp_path / "services").write_text(f"[clinic]\n{lines}\n")
    monkeypatch.setenv("PGSERVICEFILE", str(tmp_path / "services"))

    table = open_source("postgresql:///?service=clinic&table=rows")

    assert_array_equal(whole(table)[0][:, 0], [1, 2, 4])


def test_without_a_certificate_or_for_another_name_nobody_gets_in(certified):
    authority, port = certified
    place = f"localhost:{port}/postgres"
    bare = f"sslmode=verify-full&sslrootcert={authority.root}"

    with pytest.raises(DataError, match="valid client certificate"):
        open_source(f"postgresql://reader@{place}?{bare}&table=rows")
    with pytest.raises(DataError, match="certificate authentication failed"):
        open_source(f"postgresql://owner@{place}?{options(authority)}&table=rows")
    with pytest.raises(DataError, match="no encryption"):
        open_source(f"postgresql://reader@{place}?sslmode=disable&table=rows")


def test_a_server_of_another_authority_is_not_talked_to(certified, tmp_path):
    authority, port = certified
    other = Authority(tmp_path)
    address = f"postgresql://reader@localhost:{port}/postgres"

    with pytest.raises(DataError, match="SSL error"):
        open_source(f"{address}?{options(authority, other.root)}&table=rows")
