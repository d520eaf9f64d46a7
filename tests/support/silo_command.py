"""The command at a silo, and kits without the engine to set up."""

import re
import socket

import pytest
from typer.testing import CliRunner

import kit_folders
from unpooled.cli import app
from unpooled.data import heart_disease
from unpooled.federation.nvflare.hardening import harden
from unpooled.secure.keys.roster import Identity, Roster

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


def free_port():
    with socket.create_server(("localhost", 0)) as server:
        return server.getsockname()[1]
