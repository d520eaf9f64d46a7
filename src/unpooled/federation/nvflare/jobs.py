"""A study's job: JSON that names classes installed at both ends, and nothing else.

    JOB/meta.json                                         the silos it needs
    JOB/app_server/config/config_fed_server.json          our coordinator, the study
    JOB/app_party/config/config_fed_client.json           our party: always the same

A silo receives the same files for every study, so it can refuse any other job.
"""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

SERVER_CONFIG = "config_fed_server.json"
SILO_CONFIG = "config_fed_client.json"
# The classes that a job names at each end: one of NVFlare's, and one of ours that it
# calls. Kits allow these and no others.
CONTROLLER = "nvflare.collab.runtime.controller.CollabController"
COORDINATOR_END = "unpooled.federation.nvflare.coordinator_end.CoordinatorEnd"
EXECUTOR = "nvflare.collab.runtime.executor.CollabExecutor"
SILO_END = "unpooled.federation.nvflare.silo_end.SiloEnd"
# The command by which a submitter queries a running job's progress and results.
NEWS = "unpooled.news"
# The folder in the job's own for what the submitter is to receive.
RESULTS = "unpooled"
# A job has the name of its study, which is also that of a folder.
JOB_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")
# Seconds between a silo's queries whether its job may begin; NVFlare's default is 2.
# The first is part of what a silo's guard compares, and stays as earlier versions have
# it; the second, which the server sends with each answer, is the one that counts.
_FIRST_POLL, _POLL = 0.25, 0.1


def write_job(
    folder: Path, name: str, parties: Sequence[str], content: Mapping[str, Any]
) -> None:
    """Write a job's folder.

    Parameters
    ----------
    folder : Path
        To be made.
    name : str
        Name of the job.
    parties : sequence of str
        The silos; all must take part.
    content : mapping
        For the coordinator's end: see `unpooled.study.server_job.coordinate`.
    """
    meta = {
        "name": name,
        "resource_spec": {},
        "min_clients": len(parties),
        "mandatory_clients": list(parties),
        "deploy_map": {"app_server": ["server"], "app_party": list(parties)},
    }
    server, silo = folder / "app_server" / "config", folder / "app_party" / "config"
    _write(folder / "meta.json", meta)
    _write(server / SERVER_CONFIG, _for_server(content))
    _write(silo / SILO_CONFIG, for_silo())


def has_name_of_study(job: Path) -> bool:
    """Whether the job in a folder has a name that a study can have.

    NVFlare takes any text, such as ``../../evil``.
    """
    meta = json.loads((job / "meta.json").read_text("utf-8"))
    name = meta.get("name")
    return isinstance(name, str) and JOB_NAME.fullmatch(name) is not None


def for_silo() -> dict[str, Any]:
    """Return the configuration that a silo receives, the same in every study."""
    executor = {
        "path": EXECUTOR,
        "args": {"client_obj_id": "_end"},
    }
    return {
        "executors": [{"tasks": ["*"], "executor": executor}],
        "default_task_fetch_interval": _FIRST_POLL,
        **_application(SILO_END),
    }


def _for_server(content: Mapping[str, Any]) -> dict[str, Any]:
    controller = {
        "id": "controller",
        "path": CONTROLLER,
        "args": {"server_obj_id": "_end", "sync_task_timeout": 60},
    }
    # Hexadecimal: NVFlare would replace text in braces.
    text = json.dumps(content).encode().hex()
    return {
        "workflows": [controller],
        "server": {"task_request_interval": _POLL},
        **_application(COORDINATOR_END, content=text),
    }


def _application(end: str, **arguments: str) -> dict[str, Any]:
    component = {"id": "_end", "path": end, "args": arguments}
    return {
        "format_version": 2,
        "components": [component],
        "task_data_filters": [],
        "task_result_filters": [],
    }


def _write(path: Path, content: Mapping[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1) + "\n", "utf-8")
