"""A desk as a process: where it listens, and how it answers raw requests."""

import http.client
import socket
import stat
import tempfile
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from audit_command import command
from desk_silo import kit_of, took_part
from served_desk import link_of, served, socket_in


@pytest.fixture(scope="module")
def after(tmp_path_factory):
    heart = took_part(tmp_path_factory.mktemp("served"))
    kit_of(heart)
    return heart


def ask(connection: http.client.HTTPConnection, path: str, **headers: str):
    """Send a path as it is, which a browser would tidy."""
    connection.putrequest("GET", path, skip_host="host" in headers)
    for name, value in headers.items():
        connection.putheader(name, value)
    connection.endheaders()
    answer = connection.getresponse()
    return answer, answer.read()


@pytest.mark.slow
def test_a_desk_listens_on_this_machine_alone_and_keeps_its_door_shut(after):
    key = after.silo("rome").identity.read_text().strip().encode()
    kit = after.folder / "rome"
    with served("silo", "desk", "--kit", kit) as (_, said):
        link = urlsplit(link_of(said))
        assert link.hostname == "127.0.0.1"
        port = link.port or 0
        address = f"127.0.0.1:{port}"
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

        # Another address of this machine is not the desk's.
        with pytest.raises(OSError, match="refused"):
            socket.create_connection(("127.0.0.2", port), timeout=5).close()
        answer, _ = ask(connection, "/")
        assert answer.status == 403
        for host in ("evil.example", f"evil.example:{port}"):
            answer, _ = ask(connection, "/", host=host)
            assert answer.status == 400
        answer, _ = ask(connection, f"{link.path}?{link.query}", host=address)
        assert answer.status == 303
        cookie = str(answer.getheader("set-cookie")).partition(";")[0]
        answer, page = ask(connection, "/", cookie=cookie)
        assert answer.status == 200
        assert b"Could anybody have learned one person?" in page
        assert answer.getheader("server") is None
        for path in (
            "/../../local/identity.key",
            "/studies/../../../local/identity.key",
            "/studies/..%2f..%2f..%2flocal%2fidentity.key",
            "//etc/passwd",
            "/studies/%00",
            "/static/../../local/identity.key",
        ):
            answer, page = ask(connection, path, cookie=cookie)
            assert answer.status == 404, path
            assert key not in page
        connection.close()


@pytest.mark.slow
def test_a_desk_on_a_socket_is_for_its_owner_alone(after):
    # Of pytest's folders the path would be too long for a socket.
    with tempfile.TemporaryDirectory() as short:
        path = socket_in(Path(short))
        arguments = ("silo", "desk", "--kit", after.folder / "rome", "--socket", path)
        with served(*arguments) as (_, said):
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
            assert any("open http://localhost:PORT/open?token=" in one for one in said)
            with socket.socket(socket.AF_UNIX) as connection:
                connection.connect(str(path))
                connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost:4000\r\n\r\n")
                assert connection.recv(100).startswith(b"HTTP/1.1 403")
        assert not path.exists()


@pytest.mark.slow
def test_a_taken_port_and_a_file_in_the_way_are_named(after, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = command(after, "desk", "--port", port, code=1)
    assert f"Port {port} of this machine cannot be used" in said

    (tmp_path / "rows.csv").write_text("kept")
    said = command(after, "desk", "--socket", tmp_path / "rows.csv", code=1)

    assert "is not a socket" in said
    assert (tmp_path / "rows.csv").read_text() == "kept"


@pytest.mark.slow
def test_a_desk_without_its_packages_says_which(after, monkeypatch):
    monkeypatch.setattr("unpooled.desk.serving.find_spec", lambda _: None)

    assert 'pip install "unpooled[desk]"' in command(after, "desk", code=1)
