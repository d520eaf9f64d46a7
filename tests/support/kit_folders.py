"""Kits as NVFlare lays them out, without NVFlare: for tests of what we do to them."""

import json
from pathlib import Path

SCRIPT = """#!/usr/bin/env bash
start_python() {{
  exec python3 -u -m nvflare.private.fed.app.{module} -m "$WORKSPACE" -s {file} {rest}
}}
"""


def write(path: Path, content: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))


def silo(kit: Path, name: str = "va", target: str = "localhost:8002") -> Path:
    service = {"target": target, "scheme": "tcp"}
    write(
        kit / "startup" / "fed_client.json",
        {"servers": [{"service": service}], "client": {"fqsn": name}},
    )
    rest = f"--set secure_train=true uid={name} org=a config_folder=config"
    module, file = "client.client_train", "fed_client.json"
    script = SCRIPT.format(module=module, file=file, rest=rest)
    (kit / "startup" / "sub_start.sh").write_text(script)
    return _local(kit, [{"id": "process_launcher"}, {"id": "site_log_streamer"}])


def server(kit: Path) -> Path:
    write(kit / "startup" / "fed_server.json", {})
    # As NVFlare writes it, with two blanks where a server has no uid.
    rest = "--set secure_train=true  org=a config_folder=config"
    module, file = "server.server_train", "fed_server.json"
    script = SCRIPT.format(module=module, file=file, rest=rest)
    (kit / "startup" / "sub_start.sh").write_text(script)
    manager = {"id": "job_manager", "args": {"uri_root": "/tmp/jobs", "other": 1}}
    storage = {"path": "x", "args": {"root_dir": "/tmp/snapshots"}}
    return _local(
        kit,
        [manager, {"id": "log_receiver"}],
        snapshot_persistor={"args": {"storage": storage}},
    )


def coordinator(kit: Path, port: int = 8003) -> Path:
    admin = {"username": "a@b.org", "host": "localhost", "port": port, "scheme": "tcp"}
    write(kit / "startup" / "fed_admin.json", {"admin": admin})
    (kit / "local").mkdir()
    return kit


def _local(kit: Path, components: list[object], **more: object) -> Path:
    resources = {"class_allow_list": ["os.system"], "components": components, **more}
    write(kit / "local" / "resources.json.default", resources)
    write(
        kit / "local" / "authorization.json.default",
        {"permissions": {"project_admin": "any", "lead": {"byoc": "any"}}},
    )
    logging = {"loggers": {"root": {"level": "INFO"}}}
    write(kit / "local" / "log_config.json.default", logging)
    return kit
