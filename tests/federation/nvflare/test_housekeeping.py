"""Old jobs' folders are deleted, and nothing else in a kit ever is."""

import errno
import os
import time
from uuid import uuid4

import pytest
from typer.testing import CliRunner

import kit_folders
from unpooled.cli import app
from unpooled.federation.nvflare.housekeeping import KEPT_DAYS, kept_days, prune

DAY = 86400.0


def job(parent, age, running=False):
    folder = parent / str(uuid4())
    (folder / "app_va" / "config").mkdir(parents=True)
    for name in ("log.txt", "app_va/config/config_fed_client.json"):
        (folder / name).write_text("x" * 100)
    then = time.time() - age * DAY
    for path in (*folder.rglob("*"), folder):
        os.utime(path, (then, then))
    if running:
        os.utime(folder / "log.txt")
    return folder


@pytest.fixture
def kit(tmp_path):
    made = kit_folders.server(tmp_path / "kit")
    for name in ("studies/heart", "state/jobs", "state/models/heart", "transfer"):
        (made / name).mkdir(parents=True)
    for name in ("studies/heart/state.json", "state/audit.sqlite", "log.txt"):
        (made / name).write_text("kept")
        os.utime(made / name, (0, 0))
    return made


def test_what_is_old_goes_and_what_is_no_job_stays(kit):
    old = [job(kit, 31), job(kit / "state" / "jobs", 40)]
    young = [job(kit, 29), job(kit / "state" / "jobs", 1), job(kit, 90, running=True)]
    elsewhere = job(kit / "studies", 90)
    (kit / str(uuid4())).symlink_to(elsewhere)
    before = {path for path in kit.rglob("*") if path not in old}

    done = prune(kit, KEPT_DAYS)

    assert (done.folders, done.bytes) == (2, 400)
    assert not any(path.exists() for path in old)
    assert all(path.exists() for path in (*young, elsewhere))
    gone = {path for path in before if not path.exists()}
    assert all(any(parent in path.parents for parent in old) for path in gone)


def test_a_silo_chooses_the_age(tmp_path):
    kit = kit_folders.silo(tmp_path / "kit")
    assert kept_days(kit) == KEPT_DAYS
    own = kit / "local" / "silo.toml"
    own.write_text("[silo]\nkeep_jobs_days = 7\n")
    assert kept_days(kit) == 7.0
    own.write_text("not TOML [")
    assert kept_days(kit) == KEPT_DAYS


def test_the_command(kit):
    old, young = job(kit, 10), job(kit, 5)
    said = CliRunner(env={"COLUMNS": "200"}).invoke(
        app, ["prune", str(kit), "--older", "7d"]
    )
    assert said.exit_code == 0, said.output
    assert "Deleted the folders of 1 job older than 7 days: 200 bytes" in said.output
    assert not old.exists()
    assert young.exists()
    wrong = CliRunner().invoke(app, ["prune", str(kit), "--older", "week"])
    assert wrong.exit_code == 2


@pytest.mark.slow
def test_the_disk_is_bounded_by_the_age(kit):
    """Sixty studies, one a day: never more folders than days."""
    for _ in range(60):
        for folder in kit.iterdir():
            if len(folder.name) == 36:
                for path in (*folder.rglob("*"), folder):
                    then = path.stat().st_mtime - DAY
                    os.utime(path, (then, then))
        job(kit, 0)
        prune(kit, KEPT_DAYS)
    assert sum(len(folder.name) == 36 for folder in kit.iterdir()) <= KEPT_DAYS + 1


def test_what_cannot_be_deleted_is_said(kit, monkeypatch):
    folder = job(kit, 40)

    def refuses(path):
        raise PermissionError(errno.EROFS, "Read-only file system", str(path))

    monkeypatch.setattr("shutil.rmtree", refuses)
    done = CliRunner().invoke(app, ["prune", str(kit)])

    assert done.exit_code == 1
    assert "of 0 jobs" in done.stdout
    says = f"Not all could be deleted. {folder}: Read-only file system."
    assert says in " ".join(done.stderr.split())
