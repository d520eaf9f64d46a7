"""The submitter's session with the server of a consortium.

It does what a coordinator's kit may: list the connected silos, submit a job, query its
state, stop it, and fetch its results.
"""

import base64
import contextlib
import io
import json
import logging
import shutil
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, final

from unpooled.errors import AggregationError, StudyError
from unpooled.federation.nvflare.consortium import need_engine
from unpooled.federation.nvflare.jobs import NEWS, RESULTS, write_job
from unpooled.federation.nvflare.startup_kits import (
    check_reachable,
    expires_soon,
    why_refused,
)

# How the name of every final state of a job begins in NVFlare.
_ENDED = "FINISHED"
# How it writes that a silo did not reply to a question.
_SILENT = "no_reply"
_ATTEMPTS = 2
_PATIENCE = 15.0  # seconds that the server has for a reply
# Seconds for further attempts where a busy server did not answer NVFlare's challenge,
# for which it gives the server five and tries once.
_BUSY = 60.0
_UNANSWERED = "failed to challenge server: timeout"
# Bytes of a run's results: models, tables and pictures.
_MOST_UNPACKED = 2**34
# Part of NVFlare's exception where a certificate is good, and another participant's.
_NOT_ADMITTED = "client_registration"


@final
class Submission:
    """A session with a server, under the certificate of a coordinator's kit.

    Parameters
    ----------
    kit : Path
        The coordinator's startup kit.
    session : Any
        NVFlare's session.
    """

    def __init__(self, kit: Path, session: Any) -> None:
        self.kit, self._session = kit, session
        self._last_reply = time.monotonic()

    def present(self) -> set[str]:
        """Return the names of the silos that are connected, and reply when asked.

        For a minute the server counts a silo as connected that died. It passes this
        question on to each of them, which has two seconds for a reply.
        """
        try:
            info = self._session.get_system_info()
        except Exception as wrong:
            raise AggregationError(
                f"The server does not say which silos are connected: {wrong}.",
                rule="absent",
            ) from wrong
        connected = {str(client.name) for client in info.client_info}
        if not connected:
            return set()
        for _ in range(_ATTEMPTS):
            # A busy server may keep this session waiting for longer than it waits. That
            # says nothing of a silo: one that died is found when its job begins.
            with contextlib.suppress(Exception):
                replies = self._session.get_client_job_status(sorted(connected)) or []
                silent = {r["client_name"] for r in replies if r["status"] == _SILENT}
                return connected - silent
        return connected

    def delete(self, job: str) -> None:
        """Have the server delete a job that has ended, and its results."""
        self._session.delete_job(job)

    def submit(
        self, name: str, parties: Sequence[str], content: Mapping[str, Any]
    ) -> str:
        """Submit a job without code; return its identifier."""
        with tempfile.TemporaryDirectory() as work:
            folder = Path(work) / name
            write_job(folder, name, parties, content)
            try:
                return str(self._session.submit_job(str(folder)))
            except Exception as wrong:
                raise AggregationError(
                    f"The server did not take the job: {wrong}.", rule="absent"
                ) from wrong

    def status(self, job: str, patience: float) -> str:
        """Return NVFlare's name for the state of a job; empty without a reply.

        Raises
        ------
        AggregationError
            When the server has not replied for `patience` seconds.
        """
        try:
            status = str(self._session.get_job_meta(job).get("status", ""))
        except Exception as wrong:
            if time.monotonic() - self._last_reply > patience:
                raise AggregationError(
                    f"The server has not answered for {patience:.0f} seconds. When it "
                    f"is back, continue the study (resume).",
                    rule="absent",
                ) from wrong
            return ""
        self._last_reply = time.monotonic()
        return status

    def ask(self, job: str, query: Mapping[str, Any]) -> dict[str, Any]:
        """Return a running job's reply to a query; empty where it does not reply."""
        try:
            return dict(self._session.do_app_command(job, NEWS, dict(query)))
        except Exception:
            # Before the job has started and after its end nothing replies.
            return {}

    def take(self, job: str, size: int, folder: Path) -> Path | None:
        """Receive the results that a job holds; None where it ended meanwhile."""
        packed = io.BytesIO()
        while packed.tell() < size:
            part = self.ask(job, {"part": packed.tell()}).get("part")
            if not part:
                return None
            packed.write(base64.b64decode(str(part)))
        try:
            with zipfile.ZipFile(packed) as archive:
                # Beyond what it declares no member is read.
                if sum(one.file_size for one in archive.infolist()) > _MOST_UNPACKED:
                    raise ValueError("they are far too large")
                archive.extractall(folder)
        except OSError as wrong:
            raise AggregationError(
                f"The results of job {job} cannot be written to {folder.parent}: "
                f"{wrong.strerror or wrong}. The server has them: when that is "
                f"mended, continue the study (resume)."
            ) from wrong
        except (ValueError, zipfile.BadZipFile) as wrong:
            raise AggregationError(
                f"The results of job {job} cannot be read: {wrong}."
            ) from wrong
        self.ask(job, {"taken": True})
        return folder / "outcome.json"

    def jobs(self, most: int = 20) -> list[dict[str, str]]:
        """Return the last jobs at the server: "job", "name", "status" and "time"."""
        try:
            found = self._session.list_jobs(limit=most, reverse=True)
        except Exception as wrong:
            raise AggregationError(
                f"The server does not list its jobs: {wrong}."
            ) from wrong
        keys = {
            "job": "job_id",
            "name": "job_name",
            "status": "status",
            "time": "submit_time",
        }
        return [
            {name: str(job.get(key, "")) for name, key in keys.items()} for job in found
        ]

    def stop(self, job: str) -> None:
        """Stop a job, unless it has ended."""
        with contextlib.suppress(Exception):
            self._session.abort_job(job)

    def fetch(self, job: str, folder: Path) -> Path | None:
        """Download what a job wrote for its submitter; None where it wrote nothing."""
        try:
            place = Path(str(self._session.download_job_result(job, str(folder))))
        except Exception as wrong:
            raise AggregationError(
                f"The results of job {job} cannot be fetched from the server: {wrong}."
            ) from wrong
        return next(iter(sorted(place.rglob(f"{RESULTS}/outcome.json"))), None)


def is_over(status: str) -> bool:
    """Whether a job in this state has ended."""
    return status.startswith(_ENDED)


@contextlib.contextmanager
def submission(kit: Path) -> Iterator[Submission]:
    """Hold a session with a consortium's server.

    Parameters
    ----------
    kit : Path
        The coordinator's startup kit.
    """
    kit = kit.expanduser().resolve()
    ahead = _AHEAD.pop(kit, None)
    session = _connected(kit) if ahead is None else ahead.result()
    try:
        yield Submission(kit, session)
    finally:
        _close(kit, session)


# Connections that are being made, by kit.
_AHEAD: dict[Path, "Future[Any]"] = {}


@contextlib.contextmanager
def connecting(kit: Path | None) -> Iterator[Callable[[], object]]:
    """Connect to a kit's server meanwhile, for the first `submission` within.

    Most of the second that NVFlare takes is spent waiting.

    Parameters
    ----------
    kit : Path or None
        The coordinator's startup kit; with None nothing is done.

    Yields
    ------
    callable
        Waits until the attempt is over. Before, what is printed may be lost.
    """
    if kit is None:
        yield lambda: None
        return
    kit = kit.expanduser().resolve()
    with ThreadPoolExecutor(1) as threads:
        _AHEAD[kit] = attempt = threads.submit(_connected, kit)
        try:
            yield attempt.exception
        finally:
            unused = _AHEAD.pop(kit, None)
            if unused is not None and unused.exception() is None:
                _close(kit, unused.result())


def _connected(kit: Path) -> Any:
    """Return NVFlare's session with the server of a kit."""
    need_engine()
    from nvflare.fuel.hci.client import api

    from unpooled.federation.nvflare.connected_cell import connected_cells

    user = _user(kit)
    check_reachable(kit)
    # NVFlare also prints to the terminal what its exceptions say, with tracebacks.
    logging.getLogger("nvflare").setLevel(logging.CRITICAL)
    unseen = io.StringIO()
    try:
        with (
            contextlib.redirect_stdout(unseen),
            contextlib.redirect_stderr(unseen),
            connected_cells(api),
        ):
            return _session(user, kit)
    except Exception as wrong:
        reason = why_refused(kit)
        if not reason and _NOT_ADMITTED in str(wrong):
            reason = (
                f"The server answers, and does not admit {user} with the certificate "
                f"in {kit / 'startup'}. Get the kit again from whoever provisioned the "
                f"federation."
            )
        problem = reason or (
            f"The server of the kit {kit} does not answer: {wrong}. Is it running, and "
            f"can it be reached from this network?"
        )
        with contextlib.suppress(StudyError):  # there is no certificate
            problem = f"{problem} {expires_soon(kit)}".strip()
        if reason:  # which no waiting changes
            raise StudyError(problem) from wrong
        raise AggregationError(problem, rule="absent") from wrong


def _session(user: str, kit: Path) -> Any:
    """Return NVFlare's session, of which a busy server may miss the first attempts."""
    from nvflare.apis.fl_exception import FLCommunicationError
    from nvflare.fuel.flare_api.flare_api import new_secure_session

    end = time.monotonic() + _BUSY
    while True:
        try:
            return new_secure_session(user, str(kit), timeout=_PATIENCE)
        except FLCommunicationError as wrong:
            if _UNANSWERED not in str(wrong) or time.monotonic() > end:
                raise


def _close(kit: Path, session: Any) -> None:
    with contextlib.suppress(Exception):
        session.close()
    shutil.rmtree(kit / "transfer", ignore_errors=True)


def _user(kit: Path) -> str:
    path = kit / "startup" / "fed_admin.json"
    try:
        return str(json.loads(path.read_text("utf-8"))["admin"]["username"])
    except (OSError, ValueError, KeyError, TypeError) as wrong:
        raise StudyError(
            f"{kit} is not a coordinator's kit: it has no readable "
            f"startup/fed_admin.json. Provisioning writes it to OUT/coordinator."
        ) from wrong
