"""The submitter's end of a study over a consortium: submit, follow, fetch.

The server's end is `unpooled.study.server_job`.
"""

import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, final

from unpooled.errors import AggregationError, StudyError, UnpooledError
from unpooled.federation.nvflare.submission import Submission, is_over, submission
from unpooled.federation.planning.plan import Plan
from unpooled.study.job_messages import error_of, plan_of, read_results
from unpooled.study.model_updates import carried
from unpooled.study.run import Listener, Planned, Run, result_of
from unpooled.study.run_folder import RunFolder, check_free, digest_of
from unpooled.study.study_file import StudyFile
from unpooled.study.submitted import Submitted, check_unused

_PAUSE = 0.2  # seconds between two requests to the server
_GRACE = 0.5  # seconds after which a silo that did not answer is asked once more
# Seconds that a job has at least to start a process at every end; NVFlare itself gives
# up on a silo after 60.
_START = 70.0
# Seconds for which a server may be silent: it answers without waiting for silos, whose
# time is the study's own `timeout`, of up to a day.
_AWAY = 120.0

# Rules that a study waits for: people who approve it, silos and rows that come back.
_PASSING = ("approval", "absent", "source_unavailable")
# Seconds between two attempts of a study that waits: at first, and at most.
_FIRST_WAIT, _LONGEST_WAIT = 10.0, 300.0

Stop = Callable[[], bool]
# Called with the reason for which a study waits, and the seconds that it still will.
Waiting = Callable[[str, float], None]


def plan_over(study: StudyFile, kit: Path) -> Plan:
    """Plan a study with the silos of a consortium; see `Study.plan`."""
    _check_simulated_only(study)
    plans: list[Plan] = []
    _carry_out("plan", study, kit, _NewsReader(planned=plans.append))
    return plans[-1]


def run_over(
    study: StudyFile,
    kit: Path,
    folder: str | Path | None = None,
    *,
    resume: bool = False,
    listener: Listener | None = None,
    planned: Planned | None = None,
    stop: Stop | None = None,
    wait: float = 0.0,
    waiting: Waiting | None = None,
) -> Run:
    """Run or resume a study over a consortium; see `Study.run` and `Study.resume`."""
    _check_simulated_only(study)
    kit = kit.expanduser().resolve()
    path = study.folder if folder is None else Path(folder).expanduser()
    if not resume:
        check_unused(kit, study.name)
    if not resume or not (path / "state.json").exists():
        check_free(path)
    elif RunFolder.open(path).state.digest != digest_of(study.text):
        raise StudyError(
            f"{study.path.name} was changed since the run in {path} began. Restore it "
            f"from {path / 'study.toml'}, or run it under another name."
        )
    news = _NewsReader(listener, planned)
    until, pause = time.monotonic() + wait, _FIRST_WAIT
    action = "resume" if resume else "run"
    while True:
        try:
            _carry_out(action, study, kit, news, folder=path, stop=stop)
            return result_of(study, RunFolder.open(path))
        except UnpooledError as reason:
            left = until - time.monotonic()
            if reason.rule not in _PASSING or left <= 0.0:
                raise
            if waiting is not None:
                waiting(str(reason), left)
            time.sleep(min(pause, left))
        # People take longer than machines, and each question is a job.
        pause = min(pause * 1.5, _LONGEST_WAIT)
        # What the server has of an earlier job is continued, and otherwise begun.
        action = "resume" if news.of_job else action
        news = _NewsReader(listener, planned)


def _check_simulated_only(study: StudyFile) -> None:
    if study.distinct:
        raise StudyError(
            f"{study.path.name}, [study] distinct: no silo sends a digest of its rows. "
            f"Leave the key out, and compare by phone the digests of rows that "
            f"`unpooled silo check` shows."
        )


@final
class _NewsReader:
    """Passes the plan and the events of a job on, each once and in order."""

    def __init__(
        self, listener: Listener | None = None, planned: Planned | None = None
    ) -> None:
        self._listener, self._planned = listener, planned
        self.n_events = 0
        # Whether a job was submitted whose news these are.
        self.of_job = False

    def read(self, news: dict[str, Any]) -> None:
        """Pass on what is new; answers of the server may overlap."""
        if news.get("plan") is not None and self._planned is not None:
            self._planned(plan_of(news["plan"]))
            self._planned = None
        known = self.n_events - news.get("first", 0)
        for party, step, number in news.get("events", [])[known:]:
            self.n_events += 1
            if self._listener is not None:
                self._listener(str(party), str(step), int(number))


def _carry_out(
    action: str,
    study: StudyFile,
    kit: Path,
    news: _NewsReader,
    *,
    folder: Path | None = None,
    stop: Stop | None = None,
) -> None:
    """Submit a job, follow it to its end, and copy the run's folder to `folder`."""
    _check_no_sources(study)
    content = {
        "version": 1,
        "do": action,
        "file": study.path.name,
        "text": study.text,
    }
    if models := carried(study, again=action == "resume"):
        content["models"] = models
    with submission(kit) as session:
        _check_connected(study, session)
        job = session.submit(study.name, tuple(study.parties), content)
        news.of_job = True
        record = Submitted(
            study=study.name,
            digest=digest_of(study.text),
            job=job,
            state="running",
            begun=action == "resume",
            folder=str(folder),
        )
        if folder is not None:
            record.write(kit)
            folder.parent.mkdir(parents=True, exist_ok=True)
        try:
            with _fetching(folder) as work:
                status, results = _follow(
                    session, job, study, news, stop=stop, work=work
                )
                results = results or session.fetch(job, Path(work))
                if results is None:
                    raise _lost(study, status)
                outcome, place = read_results(results)
                if outcome["error"] is not None:
                    # The job would go on waiting for a silo that was lost.
                    session.stop(job)
                record = replace(record, begun=place is not None)
                if folder is not None and place is not None:
                    # Also after a failure: the ledger shows what left.
                    shutil.copytree(place.path, folder, dirs_exist_ok=True)
            news.read(outcome)
            if outcome["error"] is not None:
                raise error_of(outcome["error"])
            record = replace(record, state="done")
        except UnpooledError as reason:
            record = replace(record, state="failed", reason=str(reason))
            raise
        except KeyboardInterrupt:
            # How far the job came is not known: a resume begins it where need be.
            record = replace(record, state="stopped")
            raise
        finally:
            if folder is not None:
                record.write(kit)


def _fetching(folder: Path | None) -> "tempfile.TemporaryDirectory[str]":
    """Return a folder for results on their way, on the disk of the run's folder."""
    if folder is None:
        return tempfile.TemporaryDirectory()
    return tempfile.TemporaryDirectory(prefix=".fetching-", dir=folder.parent)


def _follow(
    session: Submission,
    job: str,
    study: StudyFile,
    news: _NewsReader,
    *,
    stop: Stop | None,
    work: str,
) -> tuple[str, Path | None]:
    """Return the final status of a job and its results, or None if it has none."""
    began, started, patience = time.monotonic(), False, max(study.timeout, _START)
    while True:
        try:
            status = session.status(job, min(study.timeout, _AWAY))
            if is_over(status):
                return status, None
            runs = status == "RUNNING"
            answer = session.ask(job, {"since": news.n_events}) if runs else {}
            started = started or bool(answer)
            news.read(answer)
            if "size" in answer:
                results = session.take(job, int(answer["size"]), Path(work))
                if results is not None:
                    return status, results
            # NVFlare's status is RUNNING while it still gathers the silos.
            if not started and time.monotonic() - began > patience:
                session.stop(job)
                raise AggregationError(
                    f"The job of study {study.name} did not start within "
                    f"{patience:.0f} seconds: {_why_not_started(study, session)}.",
                    rule="absent",
                )
            time.sleep(_PAUSE)
        except KeyboardInterrupt:
            if stop is None or stop():
                session.stop(job)
                raise


def _check_no_sources(study: StudyFile) -> None:
    for name, party in study.parties.items():
        if party.source is not None:
            raise StudyError(
                f"{study.path.name}, [parties.{name}] source: over a consortium the "
                f"silo's own file names its source. Remove the key."
            )
        for key in party.rows:
            raise StudyError(
                f"{study.path.name}, [parties.{name}] {key}: over a consortium the "
                f"silo's own file chooses its rows. Remove the key."
            )


def _check_connected(study: StudyFile, session: Submission) -> None:
    absent = set(study.parties) - session.present()
    if absent:
        # A silo may be slow once.
        time.sleep(_GRACE)
        absent &= set(study.parties) - session.present()
    if not absent:
        return
    raise AggregationError(
        f"Not connected to the server: {', '.join(sorted(absent))}. A total is over "
        f"the whole roster, so the study needs every silo (unpooled silo start).",
        rule="absent",
    )


def _lost(study: StudyFile, status: str) -> AggregationError:
    return AggregationError(
        f"The job of study {study.name} ended ({status}) without a result: the server "
        f"or a silo lost or refused it; the reason is in its own log. When all are "
        f"connected again, continue the study (resume).",
        rule="absent",
    )


def _why_not_started(study: StudyFile, session: Submission) -> str:
    try:
        absent = sorted(set(study.parties) - session.present())
    except Exception:
        return "the server does not answer"
    if absent:
        return f"{', '.join(absent)} not connected"
    return "a silo may be lost, which the server notices after a minute"
