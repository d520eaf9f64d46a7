"""A study's job: JSON that names what is installed at both ends, and nothing else.

    JOB/meta.json                                         whom it needs
    JOB/app_server/config/config_fed_server.json          our coordinator, the study
    JOB/app_party/config/config_fed_client.json           our party: always the same

What a silo gets is the same for every study, so it can tell any other job at a glance.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

SERVER_CONFIG = "config_fed_server.json"
SILO_CONFIG = "config_fed_client.json"
# Where NVFlare makes the class of each end.
_ENDS = "unpooled.federation.nvflare.channel"
# Seconds between two questions of a silo whether its job may begin; NVFlare has 2.
_POLL = 0.25


def write_job(
    folder: Path, name: str, parties: Sequence[str], content: Mapping[str, Any]
) -> None:
    """Write a job's folder: JSON that names our classes, and what is asked."""
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


def for_silo() -> dict[str, Any]:
    """Return what a silo gets of a job, in every study."""
    executor = {
        "path": "nvflare.collab.runtime.executor.CollabExecutor",
        "args": {"client_obj_id": "_end"},
    }
    return {
        "executors": [{"tasks": ["*"], "executor": executor}],
        "default_task_fetch_interval": _POLL,
        **_application("SiloEnd"),
    }


def _for_server(content: Mapping[str, Any]) -> dict[str, Any]:
    controller = {
        "id": "controller",
        "path": "nvflare.collab.runtime.controller.CollabController",
        "args": {"server_obj_id": "_end", "sync_task_timeout": 60},
    }
    # Hexadecimal: NVFlare would fill in what stands in braces.
    text = json.dumps(content).encode().hex()
    return {
        "workflows": [controller],
        "server": {"task_request_interval": _POLL},
        **_application("CoordinatorEnd", content=text),
    }


def _application(kind: str, **arguments: str) -> dict[str, Any]:
    component = {"id": "_end", "path": f"{_ENDS}.{kind}", "args": arguments}
    return {
        "format_version": 2,
        "components": [component],
        "task_data_filters": [],
        "task_result_filters": [],
    }


def _write(path: Path, content: Mapping[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1) + "\n", "utf-8")
