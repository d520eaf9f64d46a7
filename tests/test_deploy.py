"""What deploy/ has is what this version of the library needs, as far as can be read.

tests/integration/test_deploy.py runs the script.
"""

import configparser
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

from typer.testing import CliRunner

from unpooled.cli import app

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "deploy"


def command_in(text):
    """Return the words after `unpooled`, as the command's help knows them."""
    (words,) = re.findall(r"unpooled[\", ]+(silo[\", ]+start)", text)
    return re.findall(r"[a-z]+", words)


def test_the_script_is_a_script():
    script = DEPLOY / "consortium.sh"

    assert script.stat().st_mode & 0o100
    subprocess.run(["bash", "-n", str(script)], check=True)
    told = subprocess.run(["bash", str(script)], capture_output=True, text=True)
    assert told.returncode == 2
    assert "up" in told.stdout
    assert "PORT" in told.stdout


def test_the_unit_is_one(tmp_path):
    unit = DEPLOY / "unpooled-silo.service"
    parsed = configparser.ConfigParser(strict=True)
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


def test_the_container_installs_extras_that_exist():
    text = (DEPLOY / "Containerfile").read_text()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (extras,) = re.findall(r'"/source\[([a-z,]+)\]"', text)

    assert set(extras.split(",")) <= set(project["optional-dependencies"])
    (python,) = re.findall(r"^FROM python:(\S+)-slim$", text, re.MULTILINE)
    assert f"Python :: {python}" in " ".join(project["classifiers"])
    assert command_in(text) == ["silo", "start"]
    assert re.search(r"^USER (?!root)\w+$", text, re.MULTILINE)


def test_what_they_start_is_a_command():
    assert CliRunner().invoke(app, ["silo", "start", "--help"]).exit_code == 0
