"""The commands of the page about a first study, as printed, with a real PostgreSQL."""

import contextlib
import os
import re
import shutil
import socket
import subprocess
import sys
import tomllib
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
from unpooled.federation.nvflare.submission import submission
from unpooled.ledger import Ledger
from unpooled.models.files.model_file import load

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "between-organisations.md").read_text("utf-8")


def printed(language: str) -> list[str]:
    """Return the page's blocks in a language."""
    return re.findall(rf"^```{language}\b.*\n((?:.*\n)*?)```$", PAGE, re.MULTILINE)


INSTALL, UP, RUN, DOWN = printed("sh")[0].splitlines()
STUDY = [
    "unpooled plan heart.toml --kit kits/coordinator",
    "unpooled run heart.toml --kit kits/coordinator",
]


@pytest.fixture
def shell(tmp_path):
    """Type lines into a shell, with a consortium of its own that is down in the end."""
    if not (shutil.which("initdb") or list(Path("/usr/lib/postgresql").glob("*"))):
        pytest.skip(ABSENT)
    folder = tmp_path / "consortium"
    programs = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {
        **surroundings(),
        "FOLDER": str(folder),
        "PATH": programs,
        "PYTHON": sys.executable,
        "PORT": str(two_free_ports()),
    }
    environment.pop("POSTGRES", None)

    def call(line, where=ROOT):
        done = subprocess.run(
            ["bash", "-c", line],
            cwd=where,
            capture_output=True,
            text=True,
            env=environment,
            timeout=240,
            check=False,
        )
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
        return done.stdout

    try:
        yield folder, call
    finally:
        call(DOWN)
        if (folder / "postgresql").exists():
            shutil.rmtree((folder / "postgresql").read_text().strip())


def two_free_ports() -> int:
    """Return a port that is free, as the next one is."""
    while True:
        (port,) = free_ports(1)
        with contextlib.suppress(OSError, OverflowError), socket.socket() as next_one:
            next_one.bind(("localhost", port + 1))
            return port


def all_present(folder):
    with submission(folder / "kits" / "coordinator") as session:
        return session.present() >= set(SILOS)


def test_the_page_names_extras_that_there_are():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (named,) = re.findall(r'^pip install "\.\[(.+)\]"$', INSTALL)
    assert set(named.split(",")) <= set(extras["optional-dependencies"])


def test_the_commands_of_the_page(shell, tmp_path):
    folder, call = shell

    call(UP)
    (text,) = (block for block in printed("toml") if "[study]" in block)
    (folder / "heart.toml").write_text(text)
    wait_for(lambda: all_present(folder))
    plan, run = STUDY
    assert "local_scatter" in call(plan, folder)
    assert "round 8 of 8" in call(run, folder)
    # The script's own study is the same one, which is done.
    assert "Verified:" in call(RUN)

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

    call(DOWN)
    for kit in ("server", *(f"silos/{silo}" for silo in SILOS)):
        path = folder / "kits" / kit
        wait_for(lambda path=path: not processes_of(path))
    # What is there starts again as it is.
    assert "Started" in call(UP)
