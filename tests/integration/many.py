"""A coordinator that runs many studies in one job; a job takes longer than a study.

Allowed in the server of the tests alone. Everything below it, and everything in the
silos, is what runs one study.
"""

import importlib
import json
import tempfile
import time
from pathlib import Path

from nvflare.collab import collab

from unpooled.federation.nvflare.channel import NVFlareChannel
from unpooled.federation.nvflare.jobs import (
    COORDINATOR_END,
    NEWS,
    RESULTS,
    write_job,
)
from unpooled.federation.nvflare.submission import is_over, submission
from unpooled.study.job_messages import read_results


class ManyStudies:
    """Runs the studies one after the other, whatever becomes of each."""

    def __init__(self, content: str = "") -> None:
        self.studies = json.loads(bytes.fromhex(content))

    @collab.main
    def run(self):
        remote = importlib.import_module("unpooled.study.server_job")
        workspace, context = collab.workspace, collab.fl_ctx
        news = remote.News()
        context.get_engine().register_app_command(
            NEWS, lambda topic, asked, context: news.answer(asked)
        )
        results = Path(workspace.get_run_dir(context.get_job_id())) / RESULTS
        for name, text in self.studies.items():
            remote.coordinate(
                {"do": "run", "file": f"{name}.toml", "text": text},
                NVFlareChannel,
                kit=Path(workspace.get_root_dir()),
                results=results / name,
                news=remote.News(),
            )
        news.offer(results, 60.0)
        return "done"


def run_many(kit, parties, studies, folder: Path):
    """Run studies' texts in one job; return (outcome, run's folder) by name."""
    with tempfile.TemporaryDirectory() as work, submission(kit) as session:
        write_job(Path(work) / "many", "many", parties, studies)
        config = (
            Path(work) / "many" / "app_server" / "config" / "config_fed_server.json"
        )
        text = config.read_text()
        own = f"{ManyStudies.__module__}.{ManyStudies.__name__}"
        config.write_text(text.replace(COORDINATOR_END, own))
        job = session._session.submit_job(str(Path(work) / "many"))
        until = time.monotonic() + 60 + 30 * len(studies)
        while True:
            news = session.ask(job, {"since": 0})
            if "size" in news:
                session.take(job, int(news["size"]), folder)
                break
            status = session.status(job, 60.0)
            assert not is_over(status), f"the job of many studies ended: {status}"
            assert time.monotonic() < until, f"many studies take too long: {status}"
            time.sleep(0.5)
    return {name: read_results(folder / name / "outcome.json") for name in studies}
