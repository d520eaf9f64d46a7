"""A silo's check of arriving jobs: only the job of a study may start.

    server ── job's files ──> silo: JobGuard ──> the silo's job starts
                                  └─ refused: the rule's name ──> server
                                              an entry ──> the silo's audit log

NVFlare calls it when a job arrives, before anything of the job runs. NVFlare's own list
of allowed classes and its right to bring code still apply; but they refuse with
NVFlare's messages and write nothing into the silo's audit log.
"""

import json
import logging
from pathlib import Path
from typing import Any, final

from nvflare.apis.app_validation import AppValidator

from unpooled.federation.nvflare.jobs import SILO_CONFIG, for_silo
from unpooled.federation.nvflare.startup_kits import look_after

log = logging.getLogger("unpooled.party")

_RULE = "foreign_job"
# Files that NVFlare itself adds to every folder of a signed job.
_SIGNATURES = {".__nvfl_sig.json", ".__nvfl_submitter.crt"}


@final
class JobGuard(AppValidator):
    """Made by NVFlare in a silo's process; checks the files of each job."""

    def __init__(self) -> None:
        # NVFlare has made the kit the working folder.
        self._kit = Path.cwd()
        self._audit_logs: dict[Path, Any] = {}

    def validate(self, app_folder: str) -> tuple[str, dict[str, Any]]:
        """Return the rule by which a job is refused; empty for the job of a study."""
        # The only code of ours that a waiting silo runs, at each job.
        look_after(self._kit, log)
        try:
            reason = foreign_part(Path(app_folder))
        except Exception:
            log.exception("A job cannot be read")
            reason = "a job that cannot be read"
        if reason:
            log.warning("Refused %s", reason)
            self._log_refusal(reason)
        return (_RULE, {}) if reason else ("", {})

    def _log_refusal(self, reason: str) -> None:
        try:
            # Imported only for a refusal: a silo's process that waits for studies stays
            # small without the party's code.
            from unpooled.party.memory.audit_log import AuditLog
            from unpooled.party.setup.silo_file import SiloFile

            silo = SiloFile.of_kit(self._kit)
            if silo.audit not in self._audit_logs:
                silo.audit.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                audit_log = AuditLog(silo.audit, max_pages=silo.audit_pages)
                self._audit_logs[silo.audit] = audit_log
            self._audit_logs[silo.audit].refused("", reason, _RULE)
        except Exception:
            # The job is refused in any case. NVFlare would send this error to the
            # server.
            log.exception("The refusal of a job cannot be written into the audit log")


def foreign_part(app: Path) -> str:
    """Return how a job differs from a study's job, in words; empty if it does not."""
    config = app / "config" / SILO_CONFIG
    for path in app.rglob("*"):
        known = path == config or path.name in _SIGNATURES
        if path.is_symlink() or (path.is_file() and not known):
            return "a job with files of its own"
        if path.is_dir() and path != config.parent:
            return "a job with files of its own"
    if json.loads(config.read_text("utf-8")) != for_silo():
        return "a job of other classes"
    return ""
