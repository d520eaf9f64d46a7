"""Deletion of old jobs' folders in kits: NVFlare leaves one for each job.

    KIT/<job>/              each end: the job's configuration and log
    KIT/state/jobs/<job>/   server: the job as it was submitted, and its results

The runs of studies, which a coordinator can resume, are elsewhere (KIT/studies), as are
a silo's audit log and models (KIT/state). Nothing of these is deleted here.
"""

import re
import shutil
import time
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import final

# The age at which the folder of a job is deleted, in days.
KEPT_DAYS = 30.0
_DAY = 86400.0
# NVFlare names jobs by random identifiers.
_JOB = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@final
@dataclass(frozen=True)
class Pruned:
    """Folders that were deleted, by number and bytes, and those that could not be.

    Attributes
    ----------
    folders, bytes : int
        Number and bytes of what was deleted.
    stuck : str
        Why the last folder could not be deleted; empty where all were.
    """

    folders: int
    bytes: int
    stuck: str = ""


def prune(kit: Path, days: float) -> Pruned:
    """Delete the folders of jobs in which nothing was written for so many days.

    Parameters
    ----------
    kit : Path
        The kit of a server or silo, which may be running: a job that runs writes.
    days : float
        The age of what is deleted.
    """
    oldest, folders, freed, stuck = time.time() - days * _DAY, 0, 0, ""
    for folder in _job_folders(kit):
        files = [path for path in folder.rglob("*") if path.is_file()]
        # A file may be gone by now.
        with suppress(FileNotFoundError):
            written = max(path.stat().st_mtime for path in (folder, *files))
            size = sum(path.stat().st_size for path in files)
            if written >= oldest:
                continue
            try:
                shutil.rmtree(folder)
            except FileNotFoundError:
                raise
            except OSError as wrong:
                stuck = f"{folder}: {wrong.strerror or wrong}"
            else:
                folders, freed = folders + 1, freed + size
    return Pruned(folders, freed, stuck)


def kept_days(kit: Path) -> float:
    """Return the age that the kit's owner chose, `keep_jobs_days` in silo.toml."""
    try:
        own = tomllib.loads((kit / "local" / "silo.toml").read_text("utf-8-sig"))
        return float(own["silo"]["keep_jobs_days"])
    except (OSError, ValueError, KeyError, TypeError):
        # A server has no such file. A mistake in a silo's is shown when it starts.
        return KEPT_DAYS


def _job_folders(kit: Path) -> Iterator[Path]:
    for parent in (kit, kit / "state" / "jobs"):
        if parent.is_dir():
            for path in parent.iterdir():
                if _JOB.fullmatch(path.name) and path.is_dir():
                    if not path.is_symlink():
                        yield path
