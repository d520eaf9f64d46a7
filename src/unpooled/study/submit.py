"""The submitter's end of a study over a consortium: submit, follow, fetch."""

import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, final

from unpooled.errors import AggregationError, StudyError
from unpooled.federation.nvflare.submission import Submission, is_over, submission
from unpooled.federation.planning.plan import Plan
from unpooled.study.definition import Listener, Study
from unpooled.study.job_results import error_of, plan_from, read_results
from unpooled.study.model_updates import carried
from unpooled.study.run import Planned, Run, result_of
from unpooled.study.run_folder import RunFolder, check_free
from unpooled.study.run_state import digest_of

_PAUSE = 0.5  # seconds between two questions to the server
# Seconds that a job has at least to start a process at every end; NVFlare itself gives
# up on a silo after 60.
_START = 70.0

Stop = Callable[[], bool]


def plan_over(study: Study, kit: Path) -> Plan:
    """Plan a study with the silos of a consortium; see `Study.plan`."""
    plans: list[Plan] = []
    with tempfile.TemporaryDirectory() as work:
        _carry_out("plan", study, kit, Path(work), _Shown(None, plans.append), None)
    return plans[-1]


def run_over(
    study: Study,
    kit: Path,
    folder: str | Path | None,
    listener: Listener | None,
    planned: Planned | None,
    stop: Stop | None,
    what: str = "run",
) -> Run:
    """Run a study over a consortium; see `Study.run`."""
    path = study.folder if folder is None else Path(folder).expanduser()
    if what == "run" or not (path / "state.json").exists():
        check_free(path)
    elif RunFolder.open(path).state.digest != digest_of(study.text):
        raise StudyError(
            f"{study.path.name} was changed since the run in {path} began. Restore it "
            f"from {path / 'study.toml'}, or run it under another name."
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".fetching-", dir=path.parent) as work:
        _carry_out(what, study, kit, Path(work), _Shown(listener, planned), stop, path)
    return result_of(study, RunFolder.open(path))


def resume_over(
    study: Study,
    kit: Path,
    folder: str | Path | None,
    listener: Listener | None,
    planned: Planned | None,
    stop: Stop | None,
) -> Run:
    """Go on with a study in a new job; see `Study.resume`."""
    return run_over(study, kit, folder, listener, planned, stop, "resume")


@final
class _Shown:
    """Hands the news of a job to whoever listens, each once and in order."""

    def __init__(self, listener: Listener | None, planned: Planned | None) -> None:
        self._listener, self._planned = listener, planned
        self.events = 0

    def show(self, news: dict[str, Any]) -> None:
        """Take a plan and events, some of which may be known."""
        if news.get("plan") is not None and self._planned is not None:
            self._planned(plan_from(news["plan"]))
            self._planned = None
        for party, step, number in news.get("events", [])[
            self.events - news.get("first", 0) :
        ]:
            self.events += 1
            if self._listener is not None:
                self._listener(str(party), str(step), int(number))


def _carry_out(
    what: str,
    study: Study,
    kit: Path,
    work: Path,
    shown: _Shown,
    stop: Stop | None,
    folder: Path | None = None,
) -> None:
    _check(study)
    asked = {"version": 1, "do": what, "file": study.path.name, "text": study.text}
    if models := carried(study, again=what == "resume"):
        asked["models"] = models
    with submission(kit) as session:
        _check_present(study, session)
        job = session.submit(study.name, tuple(study.silos), asked)
        status, found = _follow(session, job, study, shown, stop, work)
        found = found or session.fetch(job, work)
        if found is None:
            raise _lost(study, status)
        outcome, place = read_results(found)
        if outcome["error"] is not None:
            # A silo that was lost would keep the job alive.
            session.stop(job)
    if folder is not None and place is not None:
        # Also of a study that failed: its ledger tells what left.
        shutil.copytree(place.path, folder, dirs_exist_ok=True)
    shown.show(outcome)
    if outcome["error"] is not None:
        raise error_of(outcome["error"])


def _follow(
    session: Submission,
    job: str,
    study: Study,
    shown: _Shown,
    stop: Stop | None,
    work: Path,
) -> tuple[str, Path | None]:
    """Show how a job goes, until it has results or is over without."""
    began, told, patience = time.monotonic(), False, max(study.timeout, _START)
    while True:
        try:
            status = session.status(job, study.timeout)
            if is_over(status):
                return status, None
            runs = status == "RUNNING"
            news = session.ask(job, {"since": shown.events}) if runs else {}
            told = told or bool(news)
            shown.show(news)
            if "size" in news:
                found = session.take(job, int(news["size"]), work)
                if found is not None:
                    return status, found
            # A job that gathers its silos runs already, but has nothing to tell.
            if not told and time.monotonic() - began > patience:
                session.stop(job)
                raise AggregationError(
                    f"The job of study {study.name} did not start within "
                    f"{patience:.0f} seconds: {_absent(study, session)}."
                )
            time.sleep(_PAUSE)
        except KeyboardInterrupt:
            if stop is None or stop():
                session.stop(job)
                raise


def _check(study: Study) -> None:
    for party, silo in study.silos.items():
        if silo.source is not None:
            raise StudyError(
                f"{study.path.name}, [parties.{party}] source: over a consortium the "
                f"silo's own file says where its rows are. Leave the key out."
            )


def _check_present(study: Study, session: Submission) -> None:
    if absent := sorted(set(study.silos) - session.present()):
        raise AggregationError(
            f"Not connected to the server: {', '.join(absent)}. A total is over the "
            f"whole roster, so the study waits for every silo (unpooled silo start)."
        )


def _lost(study: Study, status: str) -> AggregationError:
    return AggregationError(
        f"The job of study {study.name} ended ({status}) before it had a result: the "
        f"server or a silo lost or refused it, and its own log says why. When all are "
        f"back, continue the study (resume)."
    )


def _absent(study: Study, session: Submission) -> str:
    try:
        absent = sorted(set(study.silos) - session.present())
    except Exception:
        return "the server does not answer"
    if absent:
        return f"not connected are {', '.join(absent)}"
    return "a silo may be lost, which the server notices after a minute"
