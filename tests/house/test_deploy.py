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
from typer.testing import CliRunner

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
        return
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


def test_the_container_installs_extras_that_exist():
    text = (DEPLOY / "Containerfile").read_text()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (extras,) = re.findall(r'"/source\[([a-z,]+)\]"', text)

    assert set(extras.split(",")) <= set(project["optional-dependencies"])
    (python,) = re.findall(r"^ARG BASE=python:(\S+)-slim$", text, re.MULTILINE)
    assert f"Python :: {python}" in " ".join(project["classifiers"])
    assert command_in(text) == ["silo", "start"]
    assert re.search(r"^USER (?!root)\w+$", text, re.MULTILINE)


def test_what_they_start_is_a_command():
    assert CliRunner().invoke(app, ["silo", "start", "--help"]).exit_code == 0


def test_the_container_copies_what_it_installs_and_nothing_else():
    text = (DEPLOY / "Containerfile").read_text()
    copied = re.findall(r"^COPY (.+) \S+$", text, re.MULTILINE)
    names = {name for line in copied for name in line.split()}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

    needed = {"pyproject.toml", project["readme"], *project["license-files"], "src"}

    assert names == needed
    # NVFlare has no handler of its own, and the kernel spares process 1.
    assert "--init" in text
    assert all((ROOT / name).exists() for name in names)
