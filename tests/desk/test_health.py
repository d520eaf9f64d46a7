"""What a desk says of a silo's machine: certificate, process, disk, log."""

from datetime import UTC, datetime, timedelta

import pytest

import unpooled.desk.health as health
from audit_command import Consortium
from silo_command import kit, run, source
from unpooled.party.setup.silo_file import SiloFile
from unpooled.party.setup.silo_init import rotate

# Fixtures of another module.
__all__ = ["kit", "source"]

NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("days", "said", "good"),
    [
        (360, "Valid for 360 more days, until 18 November 2027.", True),
        (30, "Valid for 30 more days", True),
        (29, "Ask for a new kit now.", False),
        (1, "Valid for 1 more day, until 24 November 2026. Ask", False),
        (-1, "Expired on 22 November 2026.", False),
    ],
)
def test_a_certificate_has_days_left(monkeypatch, tmp_path, days, said, good):
    until = NOW + timedelta(days=days)
    monkeypatch.setattr(health, "expiry_of", {tmp_path: until}.__getitem__)

    found = health.certificate_finding(tmp_path, NOW)

    assert said in found.text
    assert found.good is good


def test_a_silo_s_process_is_found_by_its_kit(tmp_path):
    kit, processes = tmp_path / "kit", tmp_path / "proc"
    for number in ("self", "7", "8"):
        (processes / number).mkdir(parents=True)
    module = b"nvflare.private.fed.app.client.client_train"
    words = [b"python", b"-m", module, b"-m", str(tmp_path / "other").encode()]
    (processes / "7" / "cmdline").write_bytes(b"\0".join(words) + b"\0")

    assert not health.process_finding(kit, processes).good
    words[-1] = str(kit.resolve()).encode()
    (processes / "8" / "cmdline").write_bytes(b"\0".join(words) + b"\0")
    assert health.process_finding(kit, processes).good
    # Another system has no such folder, and the desk says that it cannot tell.
    assert "cannot be told" in health.process_finding(kit, tmp_path).text


def test_a_full_disk_is_named(monkeypatch, tmp_path):
    silo = Consortium(tmp_path).silo("rome")
    assert health.disk_finding(silo).good

    usage = type("Usage", (), {"free": 10_000_000})
    monkeypatch.setattr(health.shutil, "disk_usage", {silo.audit.parent: usage}.get)
    found = health.disk_finding(silo)

    assert not found.good
    assert "10.0 MB free" in found.text


def test_a_log_that_is_nearly_full_is_named(tmp_path):
    silo = Consortium(tmp_path).silo("rome")
    with silo.path.open("a") as file:
        file.write("audit_pages = 1\n")

    found = health.disk_finding(SiloFile.from_file(silo.path))

    assert "of at most 4,096 bytes" in found.text
    assert not found.good


def test_a_server_that_does_not_answer_is_named(kit, source):
    run("silo", "init", "--kit", kit, "--source", source)

    found = {one.what: one for one in health.findings(kit, SiloFile.from_file(
        kit / "local" / "silo.toml"))}  # fmt: skip

    assert not found["Server"].good
    assert found["Kit"].good
    assert found["Rows and rules"].good
    assert "took part in no study" in found["Log"].text


@pytest.mark.slow
def test_a_log_under_another_key_is_not_intact(tmp_path):
    heart = Consortium(tmp_path)
    heart.fit()
    silo = heart.silo("rome")
    roster = silo.roster.read_text()
    keys = {name: heart.silo(name).key().public.hex() for name in ("rome", "paris")}
    silo.roster.write_text(roster.replace(keys["rome"], keys["paris"]))

    found = health.log_finding(silo)

    assert not found.good
    assert "is none of this silo's" in found.text or "same key" in found.text


@pytest.mark.slow
def test_a_log_is_intact_after_the_key_was_rotated(tmp_path):
    heart = Consortium(tmp_path)
    heart.fit()
    silo = heart.silo("rome")
    rotate(silo)

    assert health.log_finding(silo).good
