"""deploy/consortium.sh does what its page says, with a real PostgreSQL."""

import contextlib
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import unpooled as up
from databases import ABSENT
from integration.comparing import assert_equal_models
from integration.consortium import (
    HEART,
    free_ports,
    processes_of,
    study_text,
    surroundings,
    wait_for,
)
from integration.rows import SILOS, write_rows
from unpooled.ledger import Ledger
from unpooled.models.files import load

SCRIPT = Path(__file__).parents[2] / "deploy" / "consortium.sh"


@pytest.fixture
def script(tmp_path):
    """Call the script on a consortium of its own, which is down in the end."""
    if not (shutil.which("initdb") or list(Path("/usr/lib/postgresql").glob("*"))):
        pytest.skip(ABSENT)
    folder = tmp_path / "consortium"
    environment = {
        **surroundings(),
        "FOLDER": str(folder),
        "PYTHON": sys.executable,
        "PORT": str(two_free_ports()),
    }
    environment.pop("POSTGRES", None)

    def call(word):
        done = subprocess.run(
            ["bash", str(SCRIPT), word],
            capture_output=True,
            text=True,
            env=environment,
            timeout=240,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    try:
        yield folder, call
    finally:
        call("down")
        if (folder / "postgresql").exists():
            shutil.rmtree((folder / "postgresql").read_text().strip())


def two_free_ports() -> int:
    """Return a port that is free, as the next one is."""
    while True:
        (port,) = free_ports(1)
        with contextlib.suppress(OSError, OverflowError), socket.socket() as next_one:
            next_one.bind(("localhost", port + 1))
            return port


def test_three_kinds_of_sources(script, tmp_path):
    folder, call = script

    call("up")
    said = call("run")

    assert "Verified:" in said
    sources = [
        (folder / "kits" / "silos" / silo / "local" / "silo.toml").read_text()
        for silo in SILOS
    ]
    for source, kind in zip(sources, (".csv", ".parquet", "postgresql:"), strict=True):
        assert kind in source
    run = folder / "runs" / "heart"
    assert Ledger.from_json((run / "ledger.jsonl").read_text()).verify()
    alone = study_text("heart", HEART) + "[outputs]\nreport = false\n[policy]\n"
    for silo in SILOS:
        source = f'source = "{write_rows(silo, tmp_path)}"'
        alone = alone.replace(f"[parties.{silo}]", f"[parties.{silo}]\n{source}")
    here = up.Study.from_text(tmp_path / "alone.toml", alone).run()
    ours = load(run / "pipeline.unpooled")
    for mine, its in zip(ours, here.pipeline, strict=True):
        assert_equal_models(mine, its)

    call("down")
    for kit in ("server", *(f"silos/{silo}" for silo in SILOS)):
        path = folder / "kits" / kit
        wait_for(lambda path=path: not processes_of(path))
    # What is there starts again as it is.
    assert "Started" in call("up")
