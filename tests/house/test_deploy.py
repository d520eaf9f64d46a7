"""What deploy/ has is what this version of the library needs, as far as can be read.

tests/integration/test_deploy.py runs the script.
"""

import configparser
import os
import re
import shutil
import socket
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from typer.testing import CliRunner

import unpooled
from unpooled.cli import app

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"


def command_in(text):
    """Return the words after `unpooled`, as the command's help knows them."""
    (words,) = re.findall(r"unpooled[\", ]+(silo[\", ]+start)", text)
    return re.findall(r"[a-z]+", words)


def script(folder, word="", **surroundings):
    """Run the script for a folder, and return how that went."""
    return subprocess.run(
        ["bash", str(DEPLOY / "consortium.sh"), word],
        env=os.environ
        | {"FOLDER": str(folder), "PYTHON": sys.executable}
        | surroundings,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_script_is_a_script(tmp_path):
    path = DEPLOY / "consortium.sh"

    assert path.stat().st_mode & 0o100
    subprocess.run(["bash", "-n", str(path)], check=True)
    told = script(tmp_path / "new")
    assert told.returncode == 2
    assert "up" in told.stdout
    assert "PORT" in told.stdout
    assert not (tmp_path / "new").exists()


@pytest.mark.slow
def test_the_script_starts_nothing_where_it_cannot_go_on(tmp_path):
    with socket.create_server(("localhost", 0)) as taken:
        port = taken.getsockname()[1]
        busy = script(tmp_path / "new", "up", PORT=str(port))
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    python.chmod(0o700)
    bare = script(tmp_path / "new", "up", PYTHON=str(python))
    idle = script(tmp_path / "new", "run")

    assert [one.returncode == 0 for one in (busy, bare, idle)] == [False] * 3
    assert f"Port {port}" in busy.stderr
    assert "lacks" in bare.stderr
    assert "nvflare" in bare.stderr
    assert "Nothing is up" in idle.stderr
    assert not (tmp_path / "new").exists()
    assert script(tmp_path / "new", "down").returncode == 0


def test_the_unit_is_one(tmp_path):
    unit = DEPLOY / "unpooled-silo.service"
    # A key that stands twice adds to a list.
    parsed = configparser.ConfigParser(strict=False)
    parsed.optionxform = str  # type: ignore[assignment,method-assign]
    parsed.read_string(unit.read_text())
    service = parsed["Service"]

    assert command_in(service["ExecStart"]) == ["silo", "start"]
    # The log must outlive a restart, and nothing else is written.
    assert service["ReadWritePaths"] in service["ExecStart"]
    assert service["ProtectSystem"] == "strict"
    assert parsed["Install"]["WantedBy"] == "multi-user.target"
    if shutil.which("systemd-analyze"):
        # The command is not installed here; everything else is checked.
        there = unit.read_text().replace("/opt/unpooled/bin/unpooled", "/bin/true")
        (tmp_path / unit.name).write_text(there)
        done = subprocess.run(
            ["systemd-analyze", "verify", str(tmp_path / unit.name)],
            capture_output=True,
            text=True,
        )
        assert unit.stem not in done.stderr, done.stderr


@pytest.mark.parametrize("unit", ["silo", "server"])
def test_a_unit_exposes_little(unit):
    if not shutil.which("systemd-analyze"):
        pytest.skip("systemd-analyze absent")
    path = DEPLOY / f"unpooled-{unit}.service"
    # Of 10, by systemd's own weights; it fails above the threshold, in tenths.
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--threshold=20", path],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout


def test_the_unit_of_the_server_is_one():
    parsed = configparser.ConfigParser(strict=False)
    parsed.optionxform = str  # type: ignore[assignment,method-assign]
    parsed.read_string((DEPLOY / "unpooled-server.service").read_text())
    words = parsed["Service"]["ExecStart"].split()
    assert words[1] == "serve"
    assert words[2] == parsed["Service"]["ReadWritePaths"]
    silo = (DEPLOY / "unpooled-silo.service").read_text().splitlines()
    server = (DEPLOY / "unpooled-server.service").read_text().splitlines()
    # What restricts the one restricts the other.
    rules = [line for line in silo if "=" in line and line[0] not in "#[E D"]
    assert {line for line in rules if "Description" not in line} <= set(server)


CONTAINERFILE = (DEPLOY / "Containerfile").read_text()


def test_an_image_for_each_end_starts_it():
    base, *stages = re.split(r"^FROM ", CONTAINERFILE, flags=re.MULTILINE)
    names = [re.match(r"\S+ AS (\w+)\n", stage)[1] for stage in stages]  # type: ignore[index]
    commands = dict(zip(names, stages, strict=True))

    assert names == ["installed", "kit", "server", "silo"]
    # By digest, and of a version of Python that the library knows.
    assert re.search(r"^ARG BASE=\S+@sha256:[0-9a-f]{64}$", base, re.MULTILINE)
    (python,) = re.findall(r"^ARG BASE=\S+python:(\d\.\d+)-", base, re.MULTILINE)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert f"Python :: {python}" in " ".join(project["classifiers"])
    assert command_in(commands["silo"]) == ["silo", "start"]
    assert 'CMD ["unpooled", "serve", "/kit"]' in commands["server"]
    assert 'CMD ["unpooled", "health", "/kit"]' in commands["kit"]
    # Kubernetes takes no user's name for the promise that it is not root.
    (user,) = re.findall(r"^USER (\d+):\1$", commands["kit"], re.MULTILINE)
    assert int(user) > 0


def test_the_images_packages_are_locked_as_the_project_needs_them():
    lines = (DEPLOY / "requirements.lock").read_text().splitlines()
    (head,) = [line for line in lines if "uv pip compile" in line]
    pins = [re.match(r"([a-z0-9-]+)==(\S+) \\", line) for line in lines]
    locked = {pin[1]: pin[2] for pin in pins if pin}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = list(project["dependencies"])
    for extra in re.findall(r"--extra (\w+)", head):
        needed += project["optional-dependencies"][extra]

    assert "--generate-hashes" in head
    for line in needed:
        wanted = Requirement(line)
        assert wanted.specifier.contains(locked[canonicalize_name(wanted.name)]), line


def test_the_chart_deploys_what_the_images_are():
    chart = DEPLOY / "chart"
    end = (chart / "templates" / "end.yaml").read_text()
    (version,) = re.findall(
        r"^appVersion: (\S+)$", (chart / "Chart.yaml").read_text(), re.MULTILINE
    )

    assert version == unpooled.__version__
    assert "[unpooled, silo, start, --kit, /kit]" in end
    assert "[unpooled, serve, /kit]" in end
    assert "[unpooled, health, /kit]" in end
    (user,) = re.findall(r"^USER (\d+):", CONTAINERFILE, re.MULTILINE)
    assert f"\nuser: {user}\n" in (chart / "values.yaml").read_text()


def mounted(folder, files):
    """Write files as Kubernetes mounts a secret: read-only, and behind two links."""
    (folder / "..1").mkdir(parents=True)
    (folder / "..data").symlink_to("..1")
    for name, text in files.items():
        (folder / "..1" / name).write_text(text)
        (folder / "..1" / name).chmod(0o440)
        (folder / name).symlink_to(f"..data/{name}")


def test_the_chart_places_a_kit_at_each_start(tmp_path):
    end = (DEPLOY / "chart" / "templates" / "end.yaml").read_text()
    (script,) = re.findall(r"^( +umask 077\n(?: {14}.*\n)+)", end, re.MULTILINE)
    script = re.sub(r"{{.*?}}", "", script)
    for place in ("kit", "secrets"):
        script = script.replace(f"/{place}", f"{tmp_path}/{place}")
    kit = tmp_path / "kit"
    for place, files in {
        "startup": {"client.key": "old"},
        "local": {"roster.toml": "two", "resources.json": "{}"},
        "identity": {"identity.key": "key"},
    }.items():
        mounted(tmp_path / "secrets" / place, files)

    for _ in range(2):
        subprocess.run(["sh", "-euc", script], check=True)

    found = {str(p.relative_to(kit)): p for p in kit.rglob("*") if p.is_file()}
    local = {
        f"local/{name}" for name in ("roster.toml", "resources.json", "identity.key")
    }
    assert set(found) == {"startup/client.key", *local}
    # Its own user reads and writes them, and nobody else does.
    assert {path.stat().st_mode & 0o777 for path in found.values()} == {0o600}
    # A renewed certificate arrives, and a key that was unpinned does not come back.
    found["local/roster.toml"].write_text("one")
    shutil.rmtree(tmp_path / "secrets" / "startup")
    mounted(tmp_path / "secrets" / "startup", {"client.key": "new"})
    subprocess.run(["sh", "-euc", script], check=True)
    assert found["startup/client.key"].read_text() == "new"
    assert found["local/roster.toml"].read_text() == "one"


@pytest.mark.parametrize("name", ["check-chart", "check-images"])
def test_a_script_that_checks_is_one(name):
    path = ROOT / "scripts" / name
    assert path.stat().st_mode & 0o100
    subprocess.run(["bash", "-n", str(path)], check=True)


def test_what_they_start_is_a_command():
    assert CliRunner().invoke(app, ["silo", "start", "--help"]).exit_code == 0


def test_the_container_copies_what_it_installs_and_nothing_else():
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", CONTAINERFILE, re.MULTILINE)
    names = {name for line in copied for name in line.split()}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

    needed = {"pyproject.toml", project["readme"], *project["license-files"], "src"}

    assert names == needed | {"deploy/requirements.lock"}
    # NVFlare has no handler of its own, and the kernel spares process 1.
    assert "--init" in CONTAINERFILE
    assert all((ROOT / name).exists() for name in names)
