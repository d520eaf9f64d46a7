"""``unpooled studies``: list, stop and prune, for the coordinator of a consortium."""

import time
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from unpooled.cli.registration import StudyName, command, duration, folder_option, group
from unpooled.cli.terminal import console, printable, say
from unpooled.results.formats import counted, minute

app = group("studies", "The studies of a coordinator's kit, and their jobs.")

Kit = Annotated[
    Path, folder_option("--kit", metavar="DIR", help="The coordinator's kit.")
]
Older = Annotated[
    str, typer.Option("--older", metavar="AGE", help="Such as 7d; by default 30d.")
]


@command(app, "list")
def show(kit: Kit = Path()) -> None:
    """List the studies that were run with the kit, and the jobs at the server."""
    from unpooled.cli.table_style import part, table
    from unpooled.errors import UnpooledError
    from unpooled.federation.nvflare.submission import submission
    from unpooled.study.submitted import submitted

    grid = table("study", "state", "last change (UTC)", "folder of the run")
    reasons = []
    for one in submitted(kit):
        folder = printable(one.folder)
        grid.add_row(printable(one.study), one.state, minute(one.time), folder)
        if one.reason:
            reasons.append(printable(f"{one.study}: {one.reason}"))
    window = console()
    part(window, "Studies of this kit", "", grid, *reasons)
    try:
        with submission(kit) as session:
            jobs = session.jobs(_MOST)
    except UnpooledError as reason:
        say(f"\n{reason}")
        return
    grid = table("job", "study", "state", "submitted (UTC)")
    for job in jobs:
        job["time"] = minute(job["time"])
        grid.add_row(*(printable(str(job.get(key, ""))) for key in _SHOWN))
    part(window, "Jobs at the server", "", grid)
    window.print()


@command(app)
def stop(study: StudyName, kit: Kit = Path()) -> None:
    """Stop the jobs of a study; `unpooled resume` continues it."""
    from unpooled.federation.nvflare.submission import is_over, submission

    with submission(kit) as session:
        running = [
            str(job["job"])
            for job in session.jobs(_MOST)
            if job["name"] == study and not is_over(str(job["status"]))
        ]
        for job in running:
            session.stop(job)
    if not running:
        say(f"No job of a study {study} runs at the server.")
        return
    say(f"Stopped {counted(len(running), 'job')} of the study {study}.")


@command(app)
def prune(kit: Kit = Path(), older: Older = "30d") -> None:
    """Have the server delete jobs of this kit that ended so long ago.

    The runs of studies stay, here and at the server.
    """
    from unpooled.federation.nvflare.submission import is_over, submission

    age = duration("--older", older)
    with submission(kit) as session:
        old = [
            str(job["job"])
            for job in session.jobs(_MOST)
            if is_over(str(job["status"])) and _age(job) > age
        ]
        for job in old:
            session.delete(job)
    say(f"Deleted {counted(len(old), 'job')} at the server.")


_SHOWN = ("job", "name", "status", "time")
# How many of the server's latest jobs are listed at most.
_MOST = 1000


def _age(job: dict[str, Any]) -> float:
    """Return the seconds since a job was submitted; 0 where that is not known."""
    try:
        return time.time() - datetime.fromisoformat(str(job["time"])).timestamp()
    except (KeyError, ValueError):
        return 0.0
