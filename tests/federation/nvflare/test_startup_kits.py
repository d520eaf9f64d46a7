import contextlib
import io
import json
import os
import shutil
import socket
import ssl
import subprocess
import sys
import threading

import pytest

import kit_folders
from connect_proxy import connect_proxy
from unpooled.errors import AggregationError, StudyError
from unpooled.federation.nvflare.hardening import harden
from unpooled.federation.nvflare.startup_kits import (
    address_of,
    check_connection,
    check_health,
    check_reachable,
    command_of,
    environment,
    expires_soon,
    expiry_of,
    why_refused,
)
from unpooled.federation.nvflare.submission import submission
from unpooled.posix import lock

FILE = """\
[federation]
name = "{name}"
server = "localhost"
port = {port}
coordinator = "alice@example.org"
transport = "grpc"
[silos.va]
"""


def test_a_silo_s_kit_says_where_it_dials(tmp_path):
    address = address_of(kit_folders.silo(tmp_path, "va", "relay.example.org:9002"))

    assert (address.host, address.port) == ("relay.example.org", 9002)
    assert address.participant == "va"


@pytest.mark.parametrize("kind", ["server", "coordinator"])
def test_other_kits_dial_nowhere(tmp_path, kind):
    with pytest.raises(StudyError, match=f"a {kind}'s kit"):
        address_of(getattr(kit_folders, kind)(tmp_path))


@pytest.mark.parametrize("target", ["localhost", "localhost:no", ""])
def test_a_broken_address_is_said_to_be_one(tmp_path, target):
    kit = kit_folders.silo(tmp_path, "va", target)

    with pytest.raises(StudyError, match="not as NVFlare writes it"):
        address_of(kit)


@pytest.fixture
def installed(monkeypatch):
    """As if NVFlare were there: a command line is only text."""
    monkeypatch.setattr(
        "unpooled.federation.nvflare.startup_kits.need_engine", lambda: None
    )


def test_a_kit_runs_in_this_python(tmp_path, installed):
    harden(kit := kit_folders.silo(tmp_path / "a kit"))

    command = command_of(kit)

    assert command[:3] == [sys.executable, "-u", "-m"]
    assert command[3] == "nvflare.private.fed.app.client.client_train"
    assert command[command.index("-m", 3) + 1] == str(kit.resolve())
    assert command[-4:] == [
        "secure_train=true",
        "uid=va",
        "org=a",
        "config_folder=config",
    ]


def test_a_server_keeps_its_jobs_in_its_kit(tmp_path, installed):
    harden(kit := kit_folders.server(tmp_path / "first"))
    kit = kit.rename(tmp_path / "second")

    command = command_of(kit)

    assert command[3] == "nvflare.private.fed.app.server.server_train"
    text = (kit / "local" / "resources.json").read_text()
    assert "first" not in text
    assert str(kit / "state" / "jobs") in text


def test_a_kit_that_was_not_hardened_is_not_started(tmp_path, installed):
    with pytest.raises(StudyError, match="not made by `unpooled provision`"):
        command_of(kit_folders.silo(tmp_path))


def test_the_coordinator_s_kit_is_not_started(tmp_path, installed):
    with pytest.raises(StudyError, match="is not started"):
        command_of(kit_folders.coordinator(tmp_path))


def test_another_script_is_not_guessed_at(tmp_path, installed):
    harden(kit := kit_folders.silo(tmp_path))
    (kit / "startup" / "sub_start.sh").write_text("exec python3 -c 'print(1)'\n")

    with pytest.raises(StudyError, match=r"NVFlare 2\.9"):
        command_of(kit)


def test_modules_never_come_from_where_a_kit_is_started(tmp_path):
    (tmp_path / "json.py").write_text("print('planted')")

    done = subprocess.run(
        [sys.executable, "-c", "import json"],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout == ""


@pytest.fixture(scope="module")
def kits(tmp_path_factory):
    """Two federations of the same names, the first with a server that listens."""
    pytest.importorskip("nvflare", reason="nvflare absent")
    from unpooled.federation.nvflare.provisioning import provision

    with socket.create_server(("localhost", 0)) as listener:
        made = []
        for name in ("heart", "lung"):
            file = tmp_path_factory.mktemp("kits") / "federation.toml"
            file.write_text(FILE.format(name=name, port=listener.getsockname()[1]))
            made.append(provision(file, file.parent / "out"))
        thread = threading.Thread(
            target=_serve, args=(listener, made[0] / "server" / "startup"), daemon=True
        )
        thread.start()
        yield made
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


def _serve(listener, startup):
    """Answer as NVFlare's server does up to TLS: nobody without our certificate."""
    context = ssl.create_default_context(
        ssl.Purpose.CLIENT_AUTH, cafile=str(startup / "rootCA.pem")
    )
    context.load_cert_chain(startup / "server.crt", startup / "server.key")
    context.verify_mode = ssl.CERT_REQUIRED
    while True:
        try:
            plain, _ = listener.accept()
        except OSError:
            return
        with (
            plain,
            contextlib.suppress(OSError),
            context.wrap_socket(plain, server_side=True) as secure,
        ):
            secure.recv(1)


@pytest.mark.slow
def test_the_federation_s_server_is_reached(kits):
    address = check_connection(kits[0] / "silos" / "va")

    assert (address.host, address.participant) == ("localhost", "va")


@pytest.mark.slow
def test_the_server_is_reached_through_a_proxy(kits, monkeypatch):
    silo = kits[0] / "silos" / "va"
    port = address_of(silo).port
    with connect_proxy({"localhost": "127.0.0.1"}) as proxy:
        monkeypatch.setenv("https_proxy", f"http://me:p%40ss@127.0.0.1:{proxy.port}")
        check_connection(silo)

        assert proxy.asked == [f"CONNECT localhost:{port} HTTP/1.1"]
        # base64 of me:p@ss
        assert "Proxy-Authorization: Basic bWU6cEBzcw==" in proxy.headers

        # What no_proxy has is reached directly.
        monkeypatch.setenv("no_proxy", "example.org, localhost")
        check_connection(silo)
        assert len(proxy.asked) == 1


@pytest.mark.slow
def test_a_proxy_that_refuses_is_named(kits, monkeypatch):
    with connect_proxy({}) as proxy:
        monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{proxy.port}")
        says = f"the proxy 127.0.0.1, port {proxy.port}, answered 403 Forbidden"
        with pytest.raises(StudyError, match=says):
            check_connection(kits[0] / "silos" / "va")


@pytest.mark.slow
@pytest.mark.parametrize("address", ["https://u:hidden@proxy:1", "u:hidden@proxy:1"])
def test_an_address_that_is_no_proxy_s_is_not_repeated(kits, monkeypatch, address):
    monkeypatch.setenv("https_proxy", address)

    with pytest.raises(StudyError, match="not of the form http://host:port") as said:
        check_connection(kits[0] / "silos" / "va")

    assert "hidden" not in str(said.value)


@pytest.mark.slow
def test_a_proxy_that_is_not_used_is_mentioned(kits, tmp_path, monkeypatch):
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")
    with socket.create_server(("localhost", 0)) as closed:
        port = closed.getsockname()[1]
    kit = kit_folders.silo(tmp_path / "va", "va", f"localhost:{port}")
    for name in ("rootCA.pem", "client.crt", "client.key"):
        own = kits[0] / "silos" / "va" / "startup" / name
        (kit / "startup" / name).write_bytes(own.read_bytes())

    with pytest.raises(StudyError, match='provisioned with transport = "grpc"'):
        check_connection(kit)


@pytest.mark.slow
def test_health_is_that_the_process_runs_and_the_server_answers(kits, tmp_path):
    silo, server = kits[0] / "silos" / "va", kits[0] / "server"
    for kit in (silo, server):
        with pytest.raises(StudyError, match="No process runs the kit"):
            check_health(kit)
    with contextlib.ExitStack() as running:
        for kit in (silo, server):
            stream = running.enter_context((kit / ".running").open("ab"))
            assert lock(stream)
        assert "localhost, port" in check_health(silo)
        # Its second port is closed here.
        port = address_of(silo).port + 1
        with pytest.raises(StudyError, match=f"The server's port {port} does not"):
            check_health(server)


@pytest.mark.slow
def test_another_federation_s_silo_notices(kits):
    with pytest.raises(StudyError, match="not as this federation's server"):
        check_connection(kits[1] / "silos" / "va")


@pytest.mark.slow
def test_a_certificate_that_the_server_does_not_know_is_noticed(kits, tmp_path):
    kit = tmp_path / "va"
    for name in ("client.crt", "client.key"):
        (kit / "startup").mkdir(parents=True, exist_ok=True)
        other = kits[1] / "silos" / "va" / "startup" / name
        (kit / "startup" / name).write_bytes(other.read_bytes())
    for name in ("fed_client.json", "rootCA.pem"):
        own = kits[0] / "silos" / "va" / "startup" / name
        (kit / "startup" / name).write_bytes(own.read_bytes())

    with pytest.raises(StudyError, match="not as this federation's server"):
        check_connection(kit)


def test_a_server_that_does_not_run_is_noticed(kits, tmp_path):
    with socket.create_server(("localhost", 0)) as closed:
        port = closed.getsockname()[1]
    kit = tmp_path / "va"
    kit_folders.silo(kit, "va", f"localhost:{port}")
    for name in ("rootCA.pem", "client.crt", "client.key"):
        own = kits[0] / "silos" / "va" / "startup" / name
        (kit / "startup" / name).write_bytes(own.read_bytes())

    with pytest.raises(StudyError, match="does not answer"):
        check_connection(kit)


def test_a_certificate_says_until_when_it_is_good(kits):
    from datetime import UTC, datetime

    left = expiry_of(kits[0] / "silos" / "va") - datetime.now(UTC)

    assert 300 < left.days < 400


def test_the_environment_keeps_what_there_is(monkeypatch):
    monkeypatch.setenv("MALLOC_ARENA_MAX", "2")

    assert environment()["MALLOC_ARENA_MAX"] == "2"
    assert environment().items() >= {"PATH": os.environ["PATH"]}.items()


@pytest.mark.parametrize(
    ("days", "says"),
    [(31, ""), (29.6, "expires in 30 days"), (2.2, "in 2 days"), (-1, "has expired")],
)
@pytest.mark.parametrize("kind", ["silo", "server"])
def test_the_end_of_a_certificate_is_told_30_days_ahead(tmp_path, kind, days, says):
    kit = getattr(kit_folders, kind)(tmp_path)
    name = "client.crt" if kind == "silo" else "server.crt"
    (kit / "startup" / name).write_bytes(certificate(days))

    assert (says in expires_soon(kit)) if says else expires_soon(kit) == ""


def test_a_coordinator_is_told_that_its_certificate_has_expired(tmp_path, monkeypatch):
    pytest.importorskip("nvflare", reason="nvflare absent")

    def refuses(*arguments, **options):
        raise RuntimeError("cannot connect")

    monkeypatch.setattr("nvflare.fuel.flare_api.flare_api.new_secure_session", refuses)
    engine = "unpooled.federation.nvflare.submission"
    monkeypatch.setattr(f"{engine}.check_reachable", lambda kit: None)
    monkeypatch.setattr(f"{engine}.why_refused", lambda kit: "")
    kit = kit_folders.coordinator(tmp_path)
    said = r"does not answer: cannot connect\. .* reached from this network\?"
    with pytest.raises(AggregationError, match=f"{said}$"), submission(kit):
        pass
    (kit / "startup" / "client.crt").write_bytes(certificate(-1))
    with (
        pytest.raises(AggregationError, match=f"{said} The certificate .* has expired"),
        submission(kit),
    ):
        pass


@pytest.fixture
def coordinator(kits, tmp_path):
    """The first federation's coordinator, who dials the port on which one listens."""
    kit = shutil.copytree(kits[0] / "coordinator", tmp_path / "coordinator")
    dial(kit, address_of(kits[0] / "silos" / "va").port)
    return kit


def dial(kit, port):
    file = kit / "startup" / "fed_admin.json"
    content = json.loads(file.read_text())
    content["admin"]["port"] = port
    file.write_text(json.dumps(content))


def never(*arguments, **options):
    raise AssertionError("NVFlare would try for its whole patience")


def test_a_coordinator_is_told_at_once_that_no_server_runs(coordinator, monkeypatch):
    monkeypatch.setattr("nvflare.fuel.flare_api.flare_api.new_secure_session", never)
    with socket.create_server(("localhost", 0)) as closed:
        dial(coordinator, closed.getsockname()[1])

    says = "does not answer: Connection refused. Does the server run"
    with pytest.raises(StudyError, match=says) as refused, submission(coordinator):
        pass

    assert refused.value.rule == "absent"  # it may be waited for


def test_a_coordinator_s_key_that_cannot_be_read_is_named(coordinator, monkeypatch):
    monkeypatch.setattr("nvflare.fuel.flare_api.flare_api.new_secure_session", never)
    check_reachable(coordinator)
    # A folder is no more a key for root than for others.
    (key := coordinator / "startup" / "client.key").unlink()
    key.mkdir()

    with (
        pytest.raises(StudyError, match=r"startup cannot be read: .+directory"),
        submission(coordinator),
    ):
        pass


@pytest.mark.parametrize(
    ("wrong", "attempts"),
    [
        ("failed to challenge server: timeout: ", 3),
        ("failed to challenge server: unauthenticated: ", 1),
    ],
)
def test_a_busy_server_is_asked_again(coordinator, monkeypatch, wrong, attempts):
    errors = pytest.importorskip("nvflare.apis.fl_exception", reason="nvflare absent")
    made = []

    def busy(*arguments, **options):
        made.append(arguments)
        if len(made) < 3:
            raise errors.FLCommunicationError(wrong)
        return io.BytesIO()  # which can be closed, and nothing else is asked of it

    monkeypatch.setattr("nvflare.fuel.flare_api.flare_api.new_secure_session", busy)
    monkeypatch.setattr(
        "unpooled.federation.nvflare.submission.check_reachable", lambda kit: None
    )

    answered = contextlib.nullcontext()
    if attempts == 1:
        answered = pytest.raises(AggregationError, match="does not answer")
    with answered, submission(coordinator):
        pass

    assert len(made) == attempts


@pytest.mark.slow
@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ("", "does not answer: error"),
        ("other's", "not as this federation's server: .* not expired"),
        ("client_registration", "does not admit alice@example.org with the certific"),
    ],
)
def test_a_coordinator_is_told_why_a_server_refuses(
    coordinator, kits, monkeypatch, wrong, says, capfd
):
    def refuses(*arguments, **options):
        print("NVFlare's own words", file=sys.stderr)
        raise RuntimeError(f"error:{wrong}")

    monkeypatch.setattr("nvflare.fuel.flare_api.flare_api.new_secure_session", refuses)
    if wrong == "other's":
        for name in ("client.crt", "client.key"):
            other = kits[1] / "coordinator" / "startup" / name
            shutil.copyfile(other, coordinator / "startup" / name)
        assert "not as this federation's server" in why_refused(coordinator)
    else:
        assert why_refused(coordinator) == ""

    with (
        pytest.raises((StudyError, AggregationError), match=says) as refused,
        submission(coordinator),
    ):
        pass

    # What waiting does not change is not waited for.
    assert (getattr(refused.value, "rule", "") == "absent") is (not wrong)
    assert capfd.readouterr() == ("", "")


def test_health_of_a_coordinator_s_kit_is_no_question(tmp_path):
    with pytest.raises(StudyError, match="which no process runs"):
        check_health(kit_folders.coordinator(tmp_path))


def certificate(days):
    """Return a certificate that expires in so many days."""
    from datetime import UTC, datetime, timedelta

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import Encoding

    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "va")])
    made = x509.CertificateBuilder().subject_name(name).issuer_name(name)
    made = made.public_key(key.public_key()).serial_number(1)
    made = made.not_valid_before(now - timedelta(days=400))
    made = made.not_valid_after(now + timedelta(days=days))
    return made.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM)
