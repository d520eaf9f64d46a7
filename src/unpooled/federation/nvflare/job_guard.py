"""The guard at a silo's gate: only the job of a study comes in, and the log says so.

    server ── job's files ──> silo: JobGuard ──> the silo's job starts
                                  └─ refused: the rule's name ──> server
                                              an entry ──> the silo's log

NVFlare asks it when a job arrives, before anything of it runs. Behind it NVFlare's own
list of classes and its right to bring code stand as they did; but those say no in the
engine's words and write nothing into the silo's log.
"""

import json
import logging
from pathlib import Path
from typing import Any, final

from nvflare.apis.app_validation import AppValidator

from unpooled.federation.nvflare.jobs import SILO_CONFIG, for_silo

log = logging.getLogger("unpooled.party")

_RULE = "foreign_job"
# What NVFlare itself puts into every folder of a signed job.
_SIGNATURES = {".__nvfl_sig.json", ".__nvfl_submitter.crt"}


@final
class JobGuard(AppValidator):
    """What NVFlare makes in a silo's process, and asks about each job's files."""

    def __init__(self) -> None:
        # NVFlare has made the kit the working folder.
        self._kit = Path.cwd()
        self._journals: dict[Path, Any] = {}

    def validate(self, app_folder: str) -> tuple[str, dict[str, Any]]:
        """Return why a job may not come in, which is empty for that of a study."""
        try:
            wrong = what_is_foreign(Path(app_folder))
        except Exception:
            log.exception("A job cannot be read")
            wrong = "a job that cannot be read"
        if wrong:
            log.warning("Refused %s", wrong)
            self._write_down(wrong)
        return (_RULE, {}) if wrong else ("", {})

    def _write_down(self, wrong: str) -> None:
        try:
            # Only now: a silo that waits for studies need not hold all that in memory.
            from unpooled.party.memory.audit_log import AuditLog
            from unpooled.party.setup.silo_file import SiloFile

            silo = SiloFile.from_file(self._kit / "local" / "silo.toml")
            if silo.audit not in self._journals:
                silo.audit.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                journal = AuditLog(silo.audit, max_pages=silo.audit_pages)
                self._journals[silo.audit] = journal
            self._journals[silo.audit].refused("", wrong, _RULE)
        except Exception:
            # It is refused in any case; NVFlare would send the reason to the server.
            log.exception("The refusal of a job cannot be written into the audit log")


def what_is_foreign(app: Path) -> str:
    """Return what in a job's folder is not of a study; empty where it is one."""
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
