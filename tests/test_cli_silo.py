"""The commands that set up a federation: provision, serve and silo."""

import os
import re
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
from typer.testing import CliRunner

import kit_folders
from unpooled.cli import app
from unpooled.cli.commands import say
from unpooled.data import heart_disease
from unpooled.federation.hardening import harden
from unpooled.party.silo import Silo
from unpooled.secure.roster import Identity, Roster

FILE = """\
[federation]
name = "heart"
server = "localhost"
port = {port}
admin_port = {admin_port}
coordinator = "alice@example.org"
[silos.hungary]
[silos.va]
"""


def run(*arguments, code=0, **options):
    """Run the command in this process; return what it wrote."""
    done = CliRunner(env={"COLUMNS": "100"}).invoke(
        app, list(map(str, arguments)), **options
    )
    if done.exit_code not in (0, 1, 2) or done.exit_code != code:
        raise AssertionError(done.output) from done.exception
    return " ".join(re.sub(r"[╭╮╰╯│─]", " ", done.output).split())


@pytest.fixture
def kit(tmp_path):
    """A silo's kit, without NVFlare, whose server does not run."""
    with socket.create_server(("localhost", 0)) as closed:
        port = closed.getsockname()[1]
    kit = kit_folders.silo(tmp_path / "va", "va", f"localhost:{port}")
    harden(kit)
    return kit


@pytest.fixture
def source():
    return heart_disease.paths()["va"]


def public(folder, name):
    path = folder / f"{name}.public"
    path.write_text(Roster({name: Identity().public}).to_toml())
    return path


def test_init_sets_a_silo_up_and_shows_its_public_line(kit, source):
    told = run(
        "silo", "init", "--kit", kit, "--source", source, "--label", "num",
        "--missing", "chol=0", "--approve-each-study",
    )  # fmt: skip

    silo = Silo.from_file(kit / "local" / "silo.toml")
    assert silo.name == "va"
    assert silo.approval == "each-study"
    assert silo.missing == {"chol": [0.0]}
    assert f'"va" = "{silo.key().public.hex()}"' in told
    assert silo.key().private_bytes().hex() not in told


def test_init_asks_what_it_was_not_told(kit, source, monkeypatch):
    monkeypatch.setattr("unpooled.cli.silo.sys", Terminal)

    run("silo", "init", "--kit", kit, input=f"{source}\nnum\n\nage, chol\n")

    silo = Silo.from_file(kit / "local" / "silo.toml")
    assert (silo.label, silo.ids, silo.columns) == ("num", None, ("age", "chol"))


class Terminal:
    class stdin:  # noqa: N801
        isatty = staticmethod(lambda: True)


def test_init_without_a_person_needs_a_source(kit):
    assert "--source is missing" in run("silo", "init", "--kit", kit, code=2)


@pytest.mark.parametrize("entry", ["chol", "chol=", "=0", "chol=zero"])
def test_codes_that_are_none_are_wrong_use(kit, source, entry):
    arguments = ("silo", "init", "--kit", kit, "--source", source, "--missing", entry)

    assert "give column=value" in run(*arguments, code=2)


def test_init_twice_is_refused(kit, source):
    arguments = ("silo", "init", "--kit", kit, "--source", source)
    run(*arguments)

    assert "set up already" in run(*arguments, code=1)


def test_init_names_a_wrong_column(kit, source):
    arguments = ("silo", "init", "--kit", kit, "--source", source, "--label", "nun")

    assert "Did you mean 'num'" in run(*arguments, code=1)
    assert not (kit / "local" / "silo.toml").exists()


def test_init_needs_a_kit_or_a_name(tmp_path, source):
    arguments = ("silo", "init", "--kit", tmp_path, "--source", source)

    assert "is not a kit" in run(*arguments, code=1)
    run(*arguments, "--name", "va")
    assert Silo.from_file(tmp_path / "local" / "silo.toml").name == "va"


def test_pin_tells_the_digest_to_compare(kit, source, tmp_path):
    run("silo", "init", "--kit", kit, "--source", source)
    lines = [public(tmp_path, name) for name in ("hungary", "cleveland")]

    told = run("silo", "pin", *lines, "--kit", kit)

    roster = Silo.from_file(kit / "local" / "silo.toml").pinned()
    assert list(roster) == ["cleveland", "hungary", "va"]
    assert roster.digest() in told


def test_the_server_pins_silos_too(tmp_path):
    harden(kit := kit_folders.server(tmp_path / "server"))

    run("silo", "pin", public(tmp_path, "va"), "--kit", kit)

    assert list(Roster.from_file(kit / "local" / "roster.toml")) == ["va"]


def test_check_shows_rows_columns_rules_and_roster(kit, source):
    run("silo", "init", "--kit", kit, "--source", source, "--label", "num",
        "--missing", "chol=0")  # fmt: skip
    policy = kit / "local" / "policy.toml"
    policy.write_text('min_parties = 2\nallowed_columns = ["age"]\n')

    told = run("silo", "check", "--kit", kit, "--offline")

    assert "200 rows in" in told
    assert "age yes" in told
    assert "chol 56 no" in told
    assert "Label num: 0 51 times" in told
    assert "min_parties 2 3" in told
    assert "The roster has 1 silo; the policy asks for 2" in told


def test_check_never_shows_keys_or_passwords(kit, source):
    run("silo", "init", "--kit", kit, "--source", source)
    file = kit / "local" / "silo.toml"
    silo = Silo.from_file(file)
    address = "postgresql://me:hunter2@localhost:1/db?table=t"

    shown = run("silo", "check", "--kit", kit, "--offline")
    text = file.read_text().replace(silo.source, address)
    file.write_text(text)
    refused = run("silo", "check", "--kit", kit, "--offline", code=1)

    assert silo.key().private_bytes().hex() not in shown
    assert "hunter2" not in refused


def test_check_says_that_the_server_does_not_answer(kit, source, tmp_path):
    pytest.importorskip("nvflare", reason="nvflare absent")
    file = tmp_path / "federation.toml"
    file.write_text(FILE.format(port=_free_port(), admin_port=_free_port()))
    run("provision", file, "--out", tmp_path / "kits")
    kit = tmp_path / "kits" / "silos" / "va"
    run("silo", "init", "--kit", kit, "--source", source)

    assert "does not answer" in run("silo", "check", "--kit", kit, code=1)


@pytest.mark.parametrize("command", ["check", "start"])
def test_a_silo_that_is_not_set_up_says_so(kit, command):
    assert "There is no file" in run("silo", command, "--kit", kit, code=1)


@pytest.fixture
def started(monkeypatch):
    """What the command would become, in place of becoming it."""
    monkeypatch.setattr("unpooled.federation.kits.need_engine", lambda: None)
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


def test_start_refuses_another_silo_s_kit(kit, source, started):
    run("silo", "init", "--kit", kit, "--source", source, "--name", "hungary")

    assert "made for va" in run("silo", "start", "--kit", kit, code=1)
    assert started == []


def test_serve_becomes_the_server(tmp_path, started):
    harden(kit := kit_folders.server(tmp_path / "server"))

    run("serve", kit)

    assert "nvflare.private.fed.app.server.server_train" in started[0][1]


def test_serve_refuses_a_silo_s_kit(kit, started):
    assert "not the server's" in run("serve", kit, code=1)
    assert started == []


@pytest.mark.parametrize(
    "arguments",
    [
        ("--request", "va", "--sign", "{file}"),
        ("--package", "{file}"),
        ("--fingerprint", "AB"),
        ("--sign", "/nowhere.zip"),
    ],
)
def test_options_of_provision_that_do_not_go_together(tmp_path, arguments):
    file = tmp_path / "federation.toml"
    file.write_text(FILE.format(port=1, admin_port=2))

    run("provision", file, *[a.format(file=file) for a in arguments], code=2)


def test_without_nvflare_it_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setattr("unpooled.federation.consortium.find_spec", lambda _: None)
    file = tmp_path / "federation.toml"
    file.write_text(FILE.format(port=1, admin_port=2))

    told = run("provision", file, "--out", tmp_path / "kits", code=1)

    assert 'pip install "unpooled[nvflare]"' in told
    assert not (tmp_path / "kits").exists()


def test_a_fingerprint_is_shown_as_it_is(capsys):
    say("--fingerprint AB:AB:12:B2:CD")

    assert capsys.readouterr().out == "--fingerprint AB:AB:12:B2:CD\n"


@pytest.mark.slow
def test_keys_made_at_home_by_command(tmp_path, monkeypatch):
    pytest.importorskip("nvflare", reason="nvflare absent")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    file, silo = tmp_path / "federation.toml", tmp_path / "silo"
    file.write_text(FILE.format(port=8002, admin_port=8003))

    run("provision", file, "--request", "va", "--out", silo)
    asked = silo / "requests" / "va" / "va.request.zip"
    told = run("provision", file, "--sign", asked, "--authority", tmp_path / "ca")
    fingerprint = told.split("--fingerprint ")[1]
    signed = asked.with_name("va.signed.zip")
    run("provision", file, "--package", signed, "--fingerprint", fingerprint,
        "--out", silo)  # fmt: skip

    assert (silo / "silos" / "va" / "startup" / "client.key").exists()


@pytest.mark.slow
@pytest.mark.federation
def test_server_and_silos_run_from_the_command(tmp_path, source):
    pytest.importorskip("nvflare", reason="nvflare absent")
    from unpooled.federation.submission import submission

    file, kits = tmp_path / "federation.toml", tmp_path / "kits"
    file.write_text(FILE.format(port=_free_port(), admin_port=_free_port()))
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
            with submission(kits / "coordinator", 5.0) as session:
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


def _free_port():
    with socket.create_server(("localhost", 0)) as server:
        return server.getsockname()[1]


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
