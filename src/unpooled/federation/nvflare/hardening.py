"""Restricting NVFlare's startup kits to what a study needs.

NVFlare's kits allow what a general engine must: some ninety classes for jobs to name,
code that travels with a job, streamed logs, shells in silos for administrators. A study
needs one class at each end, so everything else is removed:

- ``local/resources.json``: jobs may name our class and NVFlare's own that calls it, a
  silo checks each job's files before anything of them runs (`JobGuard`), and no log is
  streamed out of a silo;
- ``local/authorization.json``: the coordinator may submit, watch, stop and download
  jobs of its own; no job brings code; nobody else has any right;
- ``local/log_config.json``: NVFlare's two lines per call are not logged;
- ``startup``: a job is refused unless its submitter signed it.

NVFlare checks the classes at the silo, by the silo's own file: a coordinator who
changes the coordinator's kit gains nothing.
"""

import json
from pathlib import Path
from typing import Any

from unpooled.errors import StudyError
from unpooled.federation.nvflare.jobs import (
    CONTROLLER,
    COORDINATOR_END,
    EXECUTOR,
    SILO_END,
)
from unpooled.posix import anyone_may_write, others_may_read

SERVER_CLASSES = (CONTROLLER, COORDINATOR_END)
SILO_CLASSES = (EXECUTOR, SILO_END)
# The class that NVFlare calls in a silo to check the files of a job.
GUARD = "unpooled.federation.nvflare.job_guard.JobGuard"
# The classes by which kits start the processes of jobs.
LAUNCHERS = {
    "server": "unpooled.federation.nvflare.standby.ServerLauncher",
    "silo": "unpooled.federation.nvflare.standby.SiloLauncher",
}
# The role that NVFlare writes into the coordinator's certificate. Its strongest role,
# "project_admin", could do everything in every silo.
ROLE = "lead"
_OWN_JOBS = "n:submitter"
_SERVER_RIGHTS = {
    "submit_job": "any",
    "manage_job": _OWN_JOBS,
    "app_command": _OWN_JOBS,
    "download_job": _OWN_JOBS,
    "view": "any",
    "clone_job": "none",
    "operate": "none",
    "shell_commands": "none",
    "byoc": "none",
    "server-predeployed-flwr": "none",
}
# "view" would hand a silo's error messages to the coordinator; "check_status" says
# whether the silo's process runs, and no more.
_SILO_RIGHTS = {
    "submit_job": "any",
    "manage_job": _OWN_JOBS,
    "check_status": "any",
    "download_job": "none",
    "clone_job": "none",
    "operate": "none",
    "shell_commands": "none",
    "byoc": "none",
    "server-predeployed-flwr": "none",
}
# These would send a silo's log files to the server, and receive them there.
_STREAMERS = ("site_log_streamer", "log_receiver")


def kind_of(kit: Path) -> str:
    """Return the kind of a kit: "server", "silo" or "coordinator"."""
    for kind, name in (
        ("server", "fed_server.json"),
        ("silo", "fed_client.json"),
        ("coordinator", "fed_admin.json"),
    ):
        if (kit / "startup" / name).is_file():
            return kind
    raise StudyError(
        f"{kit} is not a kit: its folder startup is missing or has none of the files "
        f"that provisioning writes. Give the folder that you got from whoever "
        f"provisioned the federation."
    )


def harden(kit: Path) -> None:
    """Restrict a kit as NVFlare made it; a second time changes nothing.

    Parameters
    ----------
    kit : Path
        Its folder; afterwards only its owner can read it, since it has private keys.
    """
    kind = kind_of(kit)
    for folder in (kit, kit / "startup", kit / "local"):
        folder.chmod(0o700)
    if kind == "coordinator":
        return
    local = kit / "local"
    classes = SERVER_CLASSES if kind == "server" else SILO_CLASSES
    resources = _resources(_default(local, "resources.json"), classes, kit)
    for component in resources["components"]:
        if component.get("id") == "process_launcher":
            component["path"] = LAUNCHERS[kind]
    if kind == "silo":
        resources["app_validator"] = {"path": GUARD}
    _write(local / "resources.json", resources)
    rights = _SERVER_RIGHTS if kind == "server" else _SILO_RIGHTS
    policy = {"format_version": "1.0", "permissions": {ROLE: rights}}
    _write(local / "authorization.json", policy)
    logging = _default(local, "log_config.json")
    logging.setdefault("loggers", {})["nvflare.collab"] = {"level": "WARNING"}
    _write(local / "log_config.json", logging)
    for default in local.glob("*.default"):
        # NVFlare would use them if ours were lost.
        default.unlink()
    if kind == "silo":
        (kit / "state").mkdir(exist_ok=True, mode=0o700)


def check_hardened(kit: Path) -> None:
    """Raise a `StudyError` if a server or silo would run more than studies."""
    kind = kind_of(kit)
    classes = SERVER_CLASSES if kind == "server" else SILO_CLASSES
    path = kit / "local" / "resources.json"
    resources = read_kit_file(path)
    allowed = resources.get("class_allow_list")
    guard = {"path": GUARD} if kind == "silo" else None
    if (
        resources.get("class_list_enforcement_mode") != "enforce"
        or resources.get("app_validator") != guard
        or resources.get("allow_log_streaming") is not False
        or not isinstance(allowed, list)
        or not set(map(str, allowed)) <= set(classes)
    ):
        raise StudyError(
            f"{path} lets jobs do more than a study needs. Jobs may name "
            f"{' and '.join(classes)} only, the list must be enforced, silos check a "
            f"job's files ({GUARD}), and no log is streamed. Restore the file from the "
            f"kit as you got it; if an earlier version made that, provision anew."
        )


def check_private(kit: Path) -> None:
    """Raise a `StudyError` where other users of the machine could change a kit.

    Whoever can write its rules, roster or log decides what the silo answers; whoever
    reads its TLS key connects in its name. The identity key is checked where it is
    read.
    """
    folders = [kit / name for name in ("startup", "local", "state")]
    inside = (path for folder in folders for path in (folder, *folder.glob("*")))
    for path in filter(Path.exists, (kit, *inside)):
        if anyone_may_write(path):
            raise StudyError(
                f"Every user of this machine may write {path}. Take that away (chmod "
                f"o-w), and see that the files in {kit} are as you left them."
            )
    for path in (kit / "startup").glob("*.key"):
        if path.is_file() and others_may_read(path):
            raise StudyError(
                f"Other users of this machine may read {path}. Make it "
                f"private (chmod 600); if others were able to copy it, ask for a "
                f"new kit."
            )


def place_storage(kit: Path) -> None:
    """Set a server to keep jobs in its own kit, wherever the kit was copied.

    NVFlare's default is one folder of the machine, shared by all servers and lost when
    the machine restarts; it takes absolute paths only.
    """
    path = kit / "local" / "resources.json"
    resources = read_kit_file(path)
    if _store_in(resources, kit.resolve() / "state"):
        _write(path, resources)


def _resources(
    resources: dict[str, Any], classes: tuple[str, ...], kit: Path
) -> dict[str, Any]:
    resources["class_list_enforcement_mode"] = "enforce"
    resources["class_allow_list"] = list(classes)
    resources["allow_log_streaming"] = False
    # A lost silo is noticed after one minute, not after ten.
    for server in resources.get("servers", []):
        server["heart_beat_timeout"] = 60
    resources["components"] = [
        component
        for component in resources.get("components", [])
        if component.get("id") not in _STREAMERS
    ]
    _store_in(resources, kit.resolve() / "state")
    return resources


def _store_in(resources: dict[str, Any], folder: Path) -> bool:
    """Put the server's two stores under a folder; return whether that is a change."""
    before = json.dumps(resources)
    if "snapshot_persistor" in resources:
        storage = resources["snapshot_persistor"]["args"]["storage"]["args"]
        storage["root_dir"] = str(folder / "snapshots")
    for component in resources.get("components", []):
        if component.get("id") == "job_manager":
            component["args"]["uri_root"] = str(folder / "jobs")
    return json.dumps(resources) != before


def _default(local: Path, name: str) -> dict[str, Any]:
    default = local / f"{name}.default"
    return read_kit_file(default if default.exists() else local / name)


def read_kit_file(path: Path) -> dict[str, Any]:
    """Return the JSON of a kit's file; anything else is a `StudyError`."""
    try:
        content = json.loads(path.read_text("utf-8"))
        if not isinstance(content, dict):
            raise ValueError("it is no table")
    except OSError as wrong:
        raise StudyError(f"Cannot read {path}: {wrong.strerror or wrong}.") from wrong
    except ValueError as wrong:
        raise StudyError(
            f"{path} is not a file of a kit ({wrong}). Provision the kit again."
        ) from wrong
    return content


def _write(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n", "utf-8")
    path.chmod(0o600)
