"""The coordinator's end of a job: the one class of ours that it names in a server.

    job's content ─> CoordinatorEnd.run ─> server_job.coordinate ─> job's results
                                             └─ NVFlareChannel ─> silos

A server allows this class and NVFlare's own controller, and no others.
"""

import importlib
import json
import logging
from pathlib import Path
from typing import Any, final

from nvflare.collab import collab

from unpooled.federation.nvflare.channel import NVFlareChannel
from unpooled.federation.nvflare.engine_messages import (
    caller,
    load_in_background,
    quieten_engine,
)
from unpooled.federation.nvflare.jobs import NEWS, RESULTS, has_name_of_study
from unpooled.federation.nvflare.startup_kits import look_after

log = logging.getLogger("unpooled.engine")

# By name, since they stand above the federation and take seconds to load: meanwhile
# NVFlare gathers the silos.
STUDY = "unpooled.study.server_job"
LOADED = (STUDY, "unpooled.models.files.catalogue", "unpooled.report.html")
# Seconds for the submitter to take the results, if there still is one.
_PATIENCE = 30.0


@final
class CoordinatorEnd:
    """Made by NVFlare in the server: runs one study to its end.

    Parameters
    ----------
    content : str
        The submitter's request, as hexadecimal JSON; see `jobs.write_job`.
    """

    def __init__(self, content: str = "") -> None:
        self._content = content
        self._channel: NVFlareChannel | None = None
        load_in_background(*LOADED)

    @collab.main
    def run(self) -> str:
        """Run the study; its outcome, or its error, is in the job's results."""
        quieten_engine()
        workspace, context = collab.workspace, collab.fl_ctx
        job = Path(workspace.get_run_dir(context.get_job_id()))
        if not has_name_of_study(job):
            # No submitter of ours waits for its results.
            raise ValueError("the job does not have the name of a study")
        kit = Path(collab.workspace.get_root_dir())
        look_after(kit, log)
        remote = importlib.import_module(STUDY)
        news = remote.News()
        context.get_engine().register_app_command(
            NEWS, lambda topic, asked, context: news.answer(asked)
        )
        results = job / RESULTS
        remote.coordinate(
            json.loads(bytes.fromhex(self._content)),
            self._open,
            kit=kit,
            results=results,
            news=news,
        )
        news.offer(results, _PATIENCE)
        return "done"

    @collab.publish
    def carry(self, where: Any, message: Any) -> None:
        """Pass a message to the coordinator's own computing process, if it has one.

        Parameters
        ----------
        where : (str, str)
            Study and session.
        message : bytes
            Sealed by a silo's process.
        """
        try:
            study, session = where
            if self._channel is not None and self._channel.deliver is not None:
                self._channel.deliver(caller(), (study, session), message)
        except BaseException:
            # NVFlare would send the traceback on.
            log.exception("A message between computing processes was refused")

    def _open(self, parties: tuple[str, ...], timeout: float) -> NVFlareChannel:
        self._channel = NVFlareChannel(parties, timeout)
        return self._channel
