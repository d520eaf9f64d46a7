"""The record in a coordinator's kit of the studies that were run with it.

    KIT/studies/<name>.json    text's digest, last job, how it ended, folder of the run

The server has the runs themselves. This is for questions that need no job: which
studies there are, and whether a name is used.
"""

import dataclasses
import json
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import final

from unpooled.data.atomic_file import replacing
from unpooled.errors import StudyError
from unpooled.ledger.json_text import from_json

_FOLDER = "studies"


@final
@dataclass(frozen=True)
class Submitted:
    """A study that was run with a kit.

    Attributes
    ----------
    study, digest : str
        Its name, and the SHA-256 of its text.
    job : str
        The server's name of the last job.
    state : str
        "running", "failed", "stopped" or "done".
    begun : bool
        Whether the server has a run of it, which can be resumed.
    folder : str
        The run's folder on this machine.
    time : str
        Time of the last change, ISO 8601, UTC.
    reason : str
        Why it failed.
    """

    study: str
    digest: str
    job: str
    state: str
    begun: bool
    folder: str
    time: str = ""
    reason: str = ""

    def write(self, kit: Path) -> None:
        """Write the record into the kit; a kit that cannot be written has none."""
        now = datetime.now(UTC).isoformat(timespec="seconds")
        record = dataclasses.asdict(dataclasses.replace(self, time=now))
        folder = kit / _FOLDER
        try:
            folder.mkdir(exist_ok=True, mode=0o700)
            with replacing(folder / f"{self.study}.json") as stream:
                stream.write(json.dumps(record, indent=1).encode())
        except OSError:
            # The study runs all the same: the server knows what it has.
            return


def submitted(kit: Path) -> list[Submitted]:
    """Return the studies of a kit, the latest change last."""
    found = [_read(path) for path in (kit / _FOLDER).glob("[!.]*.json")]
    return sorted(found, key=lambda one: (one.time, one.study))


def check_unused(kit: Path, study: str) -> None:
    """Refuse to run a study of which the server has a run already."""
    path = kit / _FOLDER / f"{study}.json"
    if path.exists() and _read(path).begun:
        raise StudyError(
            f"The server has a run of a study {study} already ({_read(path).state}). "
            f"Continue that one (resume), or give this study another name. If the "
            f"server lost it, remove {path}."
        )


def _read(path: Path) -> Submitted:
    try:
        return Submitted(**from_json(path.read_text("utf-8")))
    except (OSError, ValueError, TypeError) as wrong:
        raise StudyError(
            f"{path} is not the record of a study: {wrong}. Remove it."
        ) from wrong
