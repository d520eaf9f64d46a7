"""`unpooled studies`: list, stop and prune, at a server that is none."""

import contextlib
from datetime import UTC, datetime

import pytest

import kit_folders
from silo_command import run
from unpooled.errors import AggregationError
from unpooled.study.submitted import Submitted


class Session:
    """Three jobs, of which one runs."""

    def __init__(self) -> None:
        self.stopped, self.deleted = [], []

    def jobs(self, most):
        now = datetime.now(UTC).isoformat()
        return [
            job("1", "heart", "RUNNING", now),
            job("2", "heart", "FINISHED:COMPLETED", now),
            job("3", "lung", "FINISHED:ABORTED", "2026-01-02T03:04:05.678901+00:00"),
        ]

    def stop(self, job):
        self.stopped.append(job)

    def delete(self, job):
        self.deleted.append(job)


def job(number, name, status, time):
    return {"job": number, "name": name, "status": status, "time": time}


@pytest.fixture
def session(monkeypatch):
    session = Session()
    monkeypatch.setattr(
        "unpooled.federation.nvflare.submission.submission",
        lambda kit: contextlib.nullcontext(session),
    )
    return session


@pytest.fixture
def kit(tmp_path):
    kit = kit_folders.coordinator(tmp_path / "coordinator")
    Submitted("heart", "0" * 64, "1", "running", True, "runs/heart").write(kit)
    return kit


def test_list_shows_studies_and_jobs(session, kit):
    told = run("studies", "list", "--kit", kit)

    assert "heart running" in told
    assert "runs/heart" in told
    assert "3 lung FINISHED:ABORTED 2026-01-02 03:04" in told
    assert "05.678901" not in told


def test_list_shows_studies_where_no_server_answers(kit, monkeypatch):
    def refuses(kit):
        raise AggregationError("The server does not answer.")

    monkeypatch.setattr("unpooled.federation.nvflare.submission.submission", refuses)

    told = run("studies", "list", "--kit", kit)

    assert "heart running" in told
    assert "The server does not answer." in told


def test_stop_stops_what_runs_and_says_where_nothing_does(session, kit):
    assert "Stopped 1 job of the study heart" in run(
        "studies", "stop", "heart", "--kit", kit
    )
    assert session.stopped == ["1"]
    assert "No job of a study lung runs" in run("studies", "stop", "lung", "--kit", kit)
    assert session.stopped == ["1"]


def test_prune_deletes_what_ended_long_ago(session, kit):
    assert "Deleted 1 job" in run("studies", "prune", "--kit", kit)
    assert session.deleted == ["3"]
