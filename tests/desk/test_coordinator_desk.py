"""The coordinator's desk: silos, jobs and runs, and nothing that changes anything."""

from contextlib import contextmanager

import pytest
from starlette.testclient import TestClient

import kit_folders
import unpooled.desk.coordinator_desk as coordinator_desk
from desk_silo import PORT, opened, read, words
from small_study import text_of, write_data
from unpooled.desk.coordinator_desk import AtServer, CoordinatorDesk, ask_server
from unpooled.desk.door import Door
from unpooled.desk.history import key_of
from unpooled.errors import AggregationError, StudyError
from unpooled.federation.nvflare.submission import Submission
from unpooled.study import Study

RUN = f"/runs/{key_of('small')}"
SERVER = AtServer(
    silos=["north", "south"],
    jobs=[
        {"name": "small", "status": "RUNNING", "time": "2026-11-23T01:00:00",
         "progress": "round 3 of 8"},
        {"name": "<script>", "status": "FINISHED:ABORTED", "time": "", "progress": ""},
    ],
)  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A coordinator's kit, and a run of a simulated study."""
    folder = tmp_path_factory.mktemp("coordinator")
    write_data(folder)
    (folder / "study.toml").write_text(text_of('columns = ["a", "b", "c", "d"]'))
    Study.from_file(folder / "study.toml").run()
    kit_folders.coordinator(folder / "kit")
    return folder


@pytest.fixture
def browser(folder) -> TestClient:
    desk = CoordinatorDesk(folder / "kit", folder / "runs", lambda _: SERVER)
    return opened(Door(desk.app(), PORT))


@pytest.mark.slow
def test_silos_jobs_and_runs_are_shown(browser):
    page = browser.get("/")
    said = words(page)

    assert "north · connected" in said
    # The run named it, and the server does not have it.
    assert "west · not connected" in said
    assert "small · running · round 3 of 8" in said
    assert "small · complete" in said
    assert "study small, with north, south and west, simulated" in said
    assert "<script" not in page.text


@pytest.mark.slow
def test_a_certificate_that_expires_is_named(browser, monkeypatch):
    warning = "The certificate of this kit expires in 3 days."
    assert "certificate" not in words(browser.get("/"))

    monkeypatch.setattr(coordinator_desk, "expires_soon", lambda kit: warning)

    assert warning in words(browser.get("/"))


@pytest.mark.slow
def test_a_run_has_its_results_report_and_files(browser, folder):
    page = browser.get(RUN)
    said = words(page)

    assert "Finished: simpleimputer, standardscaler and pca." in said
    assert "Explained variance" in said
    report = browser.get(f"{RUN}/report")
    assert "Report of a federated study" in report.text
    links = [x for x in read(page).links if "/files/" in x]
    ledger = next(x for x in links if f">{'ledger.jsonl'}<" in _link(page.text, x))
    assert (
        browser.get(ledger).content
        == (folder / "runs" / "small" / "ledger.jsonl").read_bytes()
    )


def _link(page: str, address: str) -> str:
    return page.split(f'href="{address}"')[1][:80]


@pytest.mark.slow
@pytest.mark.parametrize(
    "path",
    [f"{RUN}/files/999", f"{RUN}/files/..%2f..%2fkit", "/runs/small", "/runs/../kit",
     f"{RUN}/%2e%2e%2f%2e%2e", "/runs/%2e%2e"],
)  # fmt: skip
def test_no_path_leads_out_of_the_list(browser, path):
    assert browser.get(path).status_code == 404


@pytest.mark.slow
def test_nothing_can_be_changed(browser):
    for path in ("/", RUN, f"{RUN}/report"):
        page = browser.get(path)
        assert "<form" not in page.text
        assert browser.post(path, data={"a": "b"}).status_code in (400, 403)


@pytest.mark.slow
def test_a_run_that_still_writes_is_read_and_left_as_it_is(browser, folder):
    """A half-written line is the writer's: to cut it off would lose what follows."""
    ledger = folder / "runs" / "small" / "ledger.jsonl"
    before = ledger.read_bytes()
    try:
        ledger.write_bytes(before + b'{"bytes": 12')
        assert browser.get(RUN).status_code == 200
        assert ledger.read_bytes() == before + b'{"bytes": 12'
    finally:
        ledger.write_bytes(before)


@pytest.mark.slow
def test_an_altered_run_is_named(browser, folder):
    ledger = folder / "runs" / "small" / "ledger.jsonl"
    before = ledger.read_bytes()
    try:
        ledger.write_bytes(before.replace(b'"bytes":', b'"bytes":1', 1))
        assert browser.get(RUN).status_code == 404
        assert "small ·" in words(browser.get("/"))
    finally:
        ledger.write_bytes(before)


@pytest.mark.slow
def test_a_server_that_does_not_answer_is_named(folder, monkeypatch):
    @contextmanager
    def silent(kit):
        raise AggregationError("The server does not answer.")
        yield

    monkeypatch.setattr(coordinator_desk, "submission", silent)
    desk = CoordinatorDesk(folder / "kit", folder / "runs")

    said = words(opened(Door(desk.app(), PORT)).get("/"))

    assert "The server does not answer." in said
    assert "west · not known now" in said


class Session:
    """NVFlare's session, as far as the desk asks it."""

    def __init__(self, news):
        self.news = news

    def get_client_job_status(self, names):
        return [{"client_name": name, "status": "no_jobs"} for name in names]

    def get_system_info(self):
        silo = type("Client", (), {"name": "rome"})
        return type("Info", (), {"client_info": [silo]})

    def list_jobs(self, **_):
        return [
            {"job_id": "1", "job_name": "heart", "status": "RUNNING"},
            {"job_id": "0", "job_name": "old", "status": "FINISHED:COMPLETED"},
        ]

    def do_app_command(self, job, command, query):
        assert (job, query) == ("1", {"since": 0})
        return self.news


@pytest.mark.parametrize(
    ("news", "progress"),
    [
        ({}, "begins, or waits for silos"),
        ({"events": [["rome", "join", 0]]}, "begins, or waits for silos"),
        ({"events": [["rome", "join", 0], ["rome", "pca.local_total", 4]]}, "round 4"),
    ],
)
def test_the_progress_of_a_job_is_asked_for(folder, monkeypatch, news, progress):
    @contextmanager
    def connected(kit):
        yield Submission(kit, Session(news))

    monkeypatch.setattr(coordinator_desk, "submission", connected)

    said = ask_server(folder / "kit")

    assert said.silos == ["rome"]
    assert [(job["name"], job["progress"]) for job in said.jobs] == [
        ("heart", progress),
        ("old", ""),
    ]


def test_a_silo_s_kit_is_no_coordinator_s(tmp_path):
    with pytest.raises(StudyError, match="unpooled silo desk"):
        CoordinatorDesk(kit_folders.silo(tmp_path / "va"), tmp_path)
