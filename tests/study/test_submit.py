"""The submitter's end, with the server's end behind a session of this process.

The session stands in for NVFlare's alone: what it hands over is what
`unpooled.study.server_job` made of a real study with real silos.
"""

import contextlib
import threading
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest
from test_server_job import STEPS, study
from typer.testing import CliRunner

from server_end import ServerEnd
from unpooled.cli import app
from unpooled.coordinator.channel import LocalChannel
from unpooled.data.sources.streamed import FileTable
from unpooled.errors import (
    AggregationError,
    DataError,
    ReleaseRefusedError,
    StudyError,
)
from unpooled.federation.nvflare.submission import Submission
from unpooled.party.setup.silo_file import SiloFile
from unpooled.study import Study
from unpooled.study import submit as submitting
from unpooled.study.job_messages import News
from unpooled.study.server_job import coordinate
from unpooled.study.submitted import Submitted


class Server:
    """What NVFlare's session answers, with jobs that are threads here."""

    def __init__(self, kit, silos, folder):
        self.kit, self.silos, self.folder = kit, silos, folder
        self.present, self.state = set(silos), "RUNNING"
        self.news, self.jobs, self.stopped = News(), [], []
        self.lost = False  # a job that ends without a result
        self.silent = False  # a job that never has anything to tell
        self.away = False  # a server that died
        self.interrupts = 0  # how often Ctrl-C comes while the job is asked
        self.dead = set()  # silos that the server counts as connected for a minute

    def get_system_info(self):
        clients = [type("Client", (), {"name": name})() for name in self.present]
        return type("Info", (), {"client_info": clients})()

    def get_client_job_status(self, names):
        return [
            {"client_name": n, "status": "no_reply" if n in self.dead else "no_jobs"}
            for n in names
        ]

    def begin(self, asked):
        results = self.folder / f"results-{len(self.jobs)}"

        def channel(parties, timeout):
            return LocalChannel(
                {
                    party: SiloFile.from_file(self.silos[party] / "silo.toml")
                    .party()
                    .handle
                    for party in parties
                }
            )

        def run():
            coordinate(asked, channel, kit=self.kit, results=results, news=self.news)
            self.news.offer(results, 60.0)

        self.news = News()
        self.jobs.append(threading.Thread(target=run))
        if not (self.lost or self.silent):
            self.jobs[-1].start()
        return f"job-{len(self.jobs)}"

    def get_job_meta(self, job):
        if self.away:
            raise ConnectionError("the server does not answer")
        return {"status": "FINISHED:ABNORMAL" if self.lost else self.state}

    def do_app_command(self, job, topic, asked):
        if self.interrupts:
            self.interrupts -= 1
            raise KeyboardInterrupt
        if self.silent:
            raise RuntimeError("no app command func for topic")
        return self.news.answer(asked)

    def download_job_result(self, job, folder):
        return folder

    def abort_job(self, job):
        self.stopped.append(job)
        self.news.answer({"taken": True})
        # A thread cannot be stopped: it is as if the job had been a little faster.
        if self.jobs[-1].ident is not None:
            self.jobs[-1].join(60)


@pytest.fixture
def server(tmp_path, monkeypatch):
    end = ServerEnd(tmp_path)
    made = Server(end.kit, end.silos, tmp_path)

    @contextlib.contextmanager
    def submission(kit, patience=15.0):
        session = Submission(kit, made)
        monkeypatch.setattr(
            session, "submit", lambda name, parties, asked: made.begin(asked)
        )
        yield session

    monkeypatch.setattr(submitting, "submission", submission)
    monkeypatch.setattr(submitting, "_PAUSE", 0.01)
    monkeypatch.setattr(submitting, "_START", 1.0)
    yield made
    for job in made.jobs:
        if job.is_alive():
            job.join(60)


@pytest.fixture
def asked(tmp_path):
    path = tmp_path / "study.toml"
    path.write_text(study(head='label = "num"\ntimeout = 30'))
    return Study.from_file(path)


@pytest.mark.slow
def test_a_run_comes_back_whole(server, asked):
    events, plans = [], []

    done = asked.run(
        kit=server.kit,
        listener=lambda *event: events.append(event),
        planned=plans.append,
    )

    assert list(done.models) == ["simpleimputer", "pca"]
    assert done.ledger.verify()
    assert [line.name for line in plans[0].releases] == [x.name for x in done.ledger]
    assert len(plans) == 1
    assert len({event[:3] for event in events}) == len(events)
    rounds = {number for _, step, number in events if "." in step}
    assert rounds == {line.round for line in done.ledger}
    assert done.folder == asked.folder
    assert (done.folder / "log.txt").exists()


@pytest.mark.slow
def test_a_plan_writes_nothing(server, asked):
    plan = asked.plan(kit=server.kit)

    assert plan.rounds > 1
    assert not asked.folder.exists()


@pytest.mark.slow
def test_a_run_does_not_overwrite_a_folder(server, asked):
    asked.run(kit=server.kit)

    with pytest.raises(StudyError, match="run"):
        asked.run(kit=server.kit)


@pytest.mark.slow
def test_a_changed_study_is_not_resumed(server, asked):
    asked.run(kit=server.kit)
    asked.path.write_text(asked.text.replace("n_components = 3", "n_components = 2"))

    with pytest.raises(StudyError, match=r"study.toml was changed since"):
        Study.from_file(asked.path).resume(kit=server.kit)


@pytest.mark.slow
def test_a_silo_that_is_not_connected_is_named_before_anything_is_asked(server, asked):
    server.present -= {"va"}

    with pytest.raises(AggregationError, match="Not connected to the server: va"):
        asked.run(kit=server.kit)

    assert not server.jobs


def test_a_source_in_the_study_is_refused(server, asked):
    text = asked.text.replace("[parties.va]", '[parties.va]\nsource = "va.csv"')
    asked.path.write_text(text)

    with pytest.raises(StudyError, match=r"\[parties.va\] source"):
        Study.from_file(asked.path).run(kit=server.kit)


def test_a_job_that_ended_without_a_result_is_an_error(server, asked):
    server.lost = True

    with pytest.raises(AggregationError, match=r"ended \(FINISHED:ABNORMAL\).*resume"):
        asked.run(kit=server.kit)

    assert not asked.folder.exists()


@pytest.mark.slow
def test_a_server_that_died_is_not_waited_for_as_a_silo_is(server, asked, monkeypatch):
    server.silent = server.away = True
    asked.path.write_text(asked.text.replace("timeout = 30", "timeout = 86400"))
    monkeypatch.setattr(submitting, "_AWAY", 0.1)

    with pytest.raises(AggregationError, match="The server has not answered for"):
        Study.from_file(asked.path).run(kit=server.kit)


@pytest.mark.slow
@pytest.mark.parametrize("state", ["SUBMITTED", "RUNNING"])
def test_a_job_that_never_begins_is_stopped(server, asked, state):
    server.silent, server.state = True, state
    asked.path.write_text(asked.text.replace("timeout = 30", "timeout = 1"))

    with pytest.raises(AggregationError, match="did not start within 1 seconds"):
        Study.from_file(asked.path).run(kit=server.kit)

    assert server.stopped == ["job-1"]


@pytest.mark.slow
def test_a_failed_study_leaves_its_ledger_and_no_job(server, asked):
    (server.silos["va"] / "policy.toml").write_text(
        "min_rows = 10\nallowed_steps = []\n"
    )

    with pytest.raises(Exception, match="allowed_steps"):
        asked.run(kit=server.kit)

    assert server.stopped == ["job-1"]


@pytest.mark.slow
def test_ctrl_c_stops_the_job_where_nobody_is_asked(server, asked):
    server.interrupts = 1

    with pytest.raises(KeyboardInterrupt):
        asked.run(kit=server.kit)

    assert server.stopped == ["job-1"]


@pytest.mark.slow
def test_ctrl_c_goes_on_where_the_answer_is_no(server, asked):
    server.interrupts, answers = 2, []

    done = asked.run(kit=server.kit, stop=lambda: answers.append("no") or False)

    assert answers == ["no", "no"]
    assert done.models
    assert not server.stopped


@pytest.mark.slow
def test_ctrl_c_stops_the_job_where_the_answer_is_yes(server, asked):
    server.interrupts = 1

    with pytest.raises(KeyboardInterrupt):
        asked.run(kit=server.kit, stop=lambda: True)
    done = asked.resume(kit=server.kit)

    assert server.stopped == ["job-1"]
    assert done.models
    assert STEPS in asked.text


@pytest.mark.slow
def test_a_silo_that_died_a_moment_ago_is_named_at_once(server, asked):
    server.dead = {"va"}

    with pytest.raises(AggregationError, match="Not connected to the server: va") as it:
        asked.run(kit=server.kit)

    assert it.value.rule == "absent"
    assert not server.jobs


@pytest.mark.slow
def test_a_used_name_is_refused_at_once_and_nothing_is_written(server, asked, tmp_path):
    asked.run(kit=server.kit)
    jobs = len(server.jobs)

    with pytest.raises(
        StudyError, match=r"has a run of a study case-PCA already \(done"
    ):
        asked.run(tmp_path / "new" / "other", kit=server.kit)
    assert not (tmp_path / "new").exists()
    assert len(server.jobs) == jobs

    # Another coordinator's kit does not know the name: the server does.
    (server.kit / "studies" / "case-PCA.json").unlink()
    with pytest.raises(StudyError, match="has a run of a study case-PCA already"):
        asked.run(tmp_path / "new" / "other", kit=server.kit)
    assert not (tmp_path / "new" / "other").exists()


@pytest.mark.slow
def test_a_run_waits_for_a_silo_and_for_approval(server, asked, monkeypatch):
    local = server.silos["va"] / "silo.toml"
    local.write_text(local.read_text().replace('"none"', '"each-study"'))
    server.present -= {"hungary"}
    reasons = []

    def pause(seconds):
        if len(reasons) == 1:
            server.present |= {"hungary"}
        if len(reasons) == 2:
            silo = SiloFile.from_file(local)
            log = silo.party().audit_log
            log.decided("case-PCA", approved=True, steps=["*"], by="anne")

    def waits(reason, left):
        reasons.append(reason)

    monkeypatch.setattr(submitting.time, "sleep", pause)
    done = asked.run(kit=server.kit, wait=3600.0, waiting=waits)

    assert done.ledger.verify()
    assert [word in said for word, said in zip(
        ("hungary", "approval"), reasons, strict=True
    )] == [True, True]  # fmt: skip


@pytest.mark.slow
def test_a_run_waits_for_rows_that_are_away(server, asked, monkeypatch):
    blocks, reasons = FileTable.blocks, []

    def while_away(*given, **options):
        if reasons:
            return blocks(*given, **options)
        raise DataError("the drive does not answer", rule="source_unavailable")

    monkeypatch.setattr(FileTable, "blocks", while_away)
    monkeypatch.setattr(submitting, "_FIRST_WAIT", 0.0)
    done = asked.run(
        kit=server.kit, wait=3600.0, waiting=lambda reason, _: reasons.append(reason)
    )

    assert done.ledger.verify()
    assert len(reasons) == 1
    assert "source_unavailable" in reasons[0]


@pytest.mark.slow
def test_a_study_that_was_denied_is_not_waited_for(server, asked):
    local = server.silos["va"] / "silo.toml"
    local.write_text(local.read_text().replace('"none"', '"each-study"'))
    plan = asked.plan(kit=server.kit)
    assert plan.undecided == {"va": "waiting"}
    log = SiloFile.from_file(local).party().audit_log
    log.decided("case-PCA", approved=False, by="anne")
    assert asked.plan(kit=server.kit).undecided == {"va": "denied"}

    with pytest.raises(ReleaseRefusedError, match=r"va refused .*denied"):
        asked.run(kit=server.kit, wait=3600.0)


def test_a_run_does_not_wait_longer_than_it_may(server, asked, monkeypatch):
    server.present -= {"va"}
    clock = [0.0]
    monkeypatch.setattr(submitting.time, "monotonic", lambda: clock[0])

    def pause(seconds):
        clock[0] += seconds

    monkeypatch.setattr(submitting.time, "sleep", pause)
    with pytest.raises(AggregationError, match="Not connected"):
        asked.run(kit=server.kit, wait=100.0)
    assert 100.0 <= clock[0] < 105.0


class Jobs:
    """A session whose server has jobs of three ages and states."""

    def __init__(self):
        now = datetime.now(UTC)
        self.jobs = [
            self.job("old", "heart", "FINISHED:COMPLETED", now - timedelta(days=40)),
            self.job("young", "heart", "FINISHED:ABORTED", now - timedelta(days=2)),
            self.job("runs", "heart", "RUNNING", now - timedelta(days=50)),
            self.job("other", "lung", "RUNNING", now),
        ]
        self.stopped, self.deleted = [], []

    def job(self, name, study, status, time):
        text = time.isoformat()
        return {"job_id": name, "job_name": study, "status": status,
                "submit_time": text}  # fmt: skip

    def list_jobs(self, limit, reverse):
        return self.jobs

    def abort_job(self, job):
        self.stopped.append(job)

    def delete_job(self, job):
        self.deleted.append(job)


@pytest.mark.slow
def test_the_coordinator_lists_stops_and_prunes_studies(tmp_path, monkeypatch):
    jobs = Jobs()

    @contextlib.contextmanager
    def submission(kit, patience=15.0):
        yield Submission(kit, jobs)

    at = "unpooled.federation.nvflare.submission.submission"
    monkeypatch.setattr(at, submission)
    Submitted(study="heart", digest="", job="runs", state="failed", begun=True,
              folder="runs/heart", reason="va refused it").write(tmp_path)  # fmt: skip

    def said(*words):
        done = CliRunner(env={"COLUMNS": "120"}).invoke(
            app, ["studies", *words, "--kit", str(tmp_path)]
        )
        assert done.exit_code == 0, done.output
        return done.output

    listed = said("list")
    assert "heart: va refused it" in listed
    assert all(job["job_id"] in listed for job in jobs.jobs)
    assert "Stopped 1 job of the study heart" in said("stop", "heart")
    assert jobs.stopped == ["runs"]
    assert "Deleted 1 job at" in said("prune")
    assert "Deleted 2 jobs at" in said("prune", "--older", "1d")
    assert jobs.deleted == ["old", "old", "young"]


@pytest.mark.parametrize("times", [1, 2, 9])
def test_a_server_that_is_busy_is_not_a_silo_that_is_absent(tmp_path, times):
    """Over NVFlare on a loaded machine, once in some hundred runs."""
    server = Server(tmp_path, dict.fromkeys("abc"), tmp_path)
    server.dead = {"b"}
    reply, asked = server.get_client_job_status, []

    def busy(names):
        asked.append(names)
        if len(asked) <= times:
            raise RuntimeError("cannot connect to server: ERROR_SERVER_CONNECTION")
        return reply(names)

    server.get_client_job_status = busy
    present = Submission(tmp_path, server).present()
    assert present == ({"a", "c"} if times == 1 else {"a", "b", "c"})


@pytest.mark.parametrize("call", ["present", "submit"])
def test_a_server_that_was_lost_is_an_error_of_ours(tmp_path, call):
    def lost(*arguments):
        raise RuntimeError("cannot connect to server: ERROR_SERVER_CONNECTION")

    calls = dict.fromkeys(("get_system_info", "submit_job"), lost)
    session = Submission(tmp_path, SimpleNamespace(**calls))
    arguments = ("heart", ("a", "b", "c"), {}) if call == "submit" else ()
    with pytest.raises(AggregationError, match="server d"):
        getattr(session, call)(*arguments)
