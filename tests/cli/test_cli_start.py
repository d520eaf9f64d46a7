"""`unpooled silo start` and `unpooled serve`, up to real processes."""

import errno
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
from cryptography.hazmat.primitives.serialization import Encoding

import kit_folders
from silo_command import FILE, free_port, kit, run, source
from unpooled.federation.nvflare.hardening import harden
from unpooled.federation.nvflare.startup_kits import held
from unpooled.party.setup.silo_file import SiloFile

# Fixtures of another module.
__all__ = ["kit", "source"]


@pytest.fixture
def started(monkeypatch):
    """What the command would become, in place of becoming it."""
    monkeypatch.setattr(
        "unpooled.federation.nvflare.startup_kits.need_engine", lambda: None
    )
    monkeypatch.setattr(
        "unpooled.federation.nvflare.startup_kits.check_connection", lambda kit: None
    )
    monkeypatch.setattr(
        "unpooled.federation.nvflare.startup_kits.expires_soon", lambda kit: ""
    )
    calls = []

    def become(*call):
        calls.append(call)
        raise SystemExit(0)

    monkeypatch.setattr("os.execve", become)
    return calls


def test_start_becomes_the_silo_s_process(kit, source, started):
    run("silo", "init", "--kit", kit, "--source", source)

    run("silo", "start", "--kit", kit)

    ((program, command, _),) = started
    assert program == sys.executable
    assert "nvflare.private.fed.app.client.client_train" in command


@pytest.mark.parametrize("lost", ["policy.toml", "roster.toml", "identity.key"])
def test_start_refuses_a_silo_that_could_not_answer(kit, source, started, lost):
    run("silo", "init", "--kit", kit, "--source", source)
    (kit / "local" / lost).unlink()

    assert lost in run("silo", "start", "--kit", kit, code=1)
    assert started == []


def test_start_refuses_a_kit_that_lets_jobs_do_more(kit, source, started):
    run("silo", "init", "--kit", kit, "--source", source)
    kit_folders.write(kit / "local" / "resources.json", {"class_allow_list": ["*"]})

    assert "more than a study needs" in run("silo", "start", "--kit", kit, code=1)
    assert started == []


def test_start_check_and_serve_refuse_a_kit_that_every_user_may_change(
    tmp_path, kit, source, started
):
    run("silo", "init", "--kit", kit, "--source", source)
    (kit / "local" / "policy.toml").chmod(0o666)
    harden(server := kit_folders.server(tmp_path / "server"))
    server.chmod(0o777)

    for command in (
        ("silo", "start", "--kit", kit),
        ("silo", "check", "--kit", kit),
        ("serve", server),
    ):
        assert "Every user of this machine may write" in run(*command, code=1)
    assert started == []


def test_start_refuses_another_silo_s_kit(kit, source, started):
    run("silo", "init", "--kit", kit, "--source", source, "--name", "hungary")

    assert "made for va" in run("silo", "start", "--kit", kit, code=1)
    assert started == []


def test_serve_becomes_the_server(tmp_path, started):
    harden(kit := kit_folders.server(tmp_path / "server"))

    run("serve", kit)

    assert "nvflare.private.fed.app.server.server_train" in started[0][1]


def test_serve_tells_that_the_certificate_expires(tmp_path, started, monkeypatch):
    harden(kit := kit_folders.server(tmp_path / "server"))
    monkeypatch.setattr(
        "unpooled.federation.nvflare.startup_kits.expires_soon",
        lambda kit: "The certificate of this kit expires in 3 days.",
    )

    assert "expires in 3 days" in run("serve", kit)
    assert len(started) == 1


def test_serve_refuses_a_silo_s_kit(kit, started):
    assert "not the server's" in run("serve", kit, code=1)
    assert started == []


@pytest.mark.slow
@pytest.mark.federation
def test_server_and_silos_run_from_the_command(tmp_path, source):
    pytest.importorskip("nvflare", reason="nvflare absent")
    from unpooled.federation.nvflare.submission import submission

    file, kits = tmp_path / "federation.toml", tmp_path / "kits"
    file.write_text(FILE.format(port=free_port(), admin_port=free_port()))
    run("provision", file, "--out", kits)
    va = kits / "silos" / "va"
    run("silo", "init", "--kit", va, "--source", source)
    processes = []
    try:
        for arguments in (("serve", kits / "server"), ("silo", "start", "--kit", va)):
            with (tmp_path / f"{arguments[0]}.log").open("wb") as log:
                processes.append(_process(arguments, log))
        _wait_for(lambda: "answers as it should" in run("silo", "check", "--kit", va))

        def present():
            with submission(kits / "coordinator") as session:
                return "va" in session.present()

        _wait_for(present)
        for strange in (_expired(kits, tmp_path), _of_a_stranger(kits, tmp_path)):
            told = run("silo", "check", "--kit", strange, code=1)
            assert "not as this federation's server" in told
    finally:
        for process in processes:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    assert (kits / "server" / "state" / "jobs").is_dir()


def _expired(kits, folder):
    """A kit whose certificate is the authority's, but of the year before."""
    kit = shutil.copytree(kits / "silos" / "va", folder / "expired")
    _certify(kit, kits / "authority" / "rootCA.key", timedelta(days=-1))
    return kit


def _of_a_stranger(kits, folder):
    """A kit whose certificate only looks like the authority's."""
    kit = shutil.copytree(kits / "silos" / "va", folder / "strange")
    _certify(kit, kit / "startup" / "client.key", timedelta(days=300))
    return kit


def _certify(kit, authority, left):
    """Give a kit another certificate of the same names."""
    from cryptography import x509
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    path = kit / "startup" / "client.crt"
    old = x509.load_pem_x509_certificate(path.read_bytes())
    end = datetime.now(UTC) + left
    issuer = load_pem_private_key(authority.read_bytes(), None)
    new = x509.CertificateBuilder(
        old.issuer, old.subject, old.public_key(), x509.random_serial_number(),
        end - timedelta(days=360), end,
    ).sign(cast(Any, issuer), SHA256())  # fmt: skip
    path.write_bytes(new.public_bytes(Encoding.PEM))


def _process(arguments, log):
    script = "from unpooled.cli import main; main()"
    return subprocess.Popen(
        [sys.executable, "-c", script, *map(str, arguments)],
        stdout=log,
        stderr=subprocess.STDOUT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
        start_new_session=True,
    )


def _wait_for(holds, patience=120.0):
    until = time.monotonic() + patience
    while True:
        try:
            if holds():
                return
        except Exception:
            if time.monotonic() > until:
                raise
        assert time.monotonic() < until
        time.sleep(0.5)


@pytest.mark.parametrize(
    ("rule", "code", "says"),
    [
        ("absent", 0, "does not answer. Trying until it does."),
        ("failed_in_silo", 1, "not as this federation's server"),
    ],
)
def test_start_tells_why_it_does_not_connect(
    kit, source, started, monkeypatch, rule, code, says
):
    """A server may come later; a foreign certificate would stay silent for ever."""
    from unpooled.errors import StudyError

    run("silo", "init", "--kit", kit, "--source", source)

    def fail(kit):
        text = "does not answer." if code == 0 else "not as this federation's server"
        raise StudyError(text, rule=rule)

    at = "unpooled.federation.nvflare.startup_kits.check_connection"
    monkeypatch.setattr(at, fail)
    assert says in run("silo", "start", "--kit", kit, code=code)
    assert len(started) == 1 - code


HOLDER = """
import sys
from pathlib import Path
from unpooled.federation.nvflare.startup_kits import held
with held(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.mark.slow
def test_a_kit_runs_once(kit, source, started, monkeypatch):
    run("silo", "init", "--kit", kit, "--source", source)
    # At once: a large table is not read first.
    monkeypatch.setattr(SiloFile, "table", None)
    other = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(kit)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        said = run("silo", "start", "--kit", kit, code=1)
        assert f"is running already: process {other.pid} on {socket.gethostname()}" in (
            " ".join(said.split())
        )
        assert started == []
    finally:
        other.communicate()
    # The lock is gone with the process, whatever is written in the file.
    monkeypatch.undo()
    with held(kit):
        assert (kit / ".running").read_text().startswith(f"{os.getpid()} on ")


def test_a_kit_on_a_drive_without_locks_does_not_run(kit, source, started, monkeypatch):
    """Two processes would have one identity, and nobody would say so."""
    import fcntl

    def refuse(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    run("silo", "init", "--kit", kit, "--source", source)
    monkeypatch.setattr(fcntl, "flock", refuse)

    said = run("silo", "start", "--kit", kit, code=1)

    assert "its drive has no locks: No locks available" in " ".join(said.split())
    assert started == []


def test_a_server_whose_port_is_taken_does_not_start(tmp_path, started):
    kit = kit_folders.server(tmp_path / "server")
    harden(kit)
    with socket.create_server(("", 0)) as taken:
        port = taken.getsockname()[1]
        service = {"target": f"localhost:{port}", "scheme": "tcp"}
        kit_folders.write(
            kit / "startup" / "fed_server.json",
            {"servers": [{"service": service, "admin_port": free_port()}]},
        )
        said = run("serve", kit, code=1)
    assert f"cannot listen on port {port}" in said
    assert started == []
    run("serve", kit)
    assert len(started) == 1


def test_check_without_a_silo_says_what_sets_one_up(kit):
    for name in ("check", "start", "log"):
        said = run("silo", name, "--kit", kit, code=1)
        assert "unpooled silo init --kit KIT" in said
