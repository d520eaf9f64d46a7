import importlib
import json

import pytest

import kit_folders
from unpooled.errors import StudyError
from unpooled.federation.nvflare.hardening import (
    LAUNCHERS,
    ROLE,
    SERVER_CLASSES,
    SILO_CLASSES,
    check_hardened,
    check_private,
    harden,
    kind_of,
    place_storage,
)


def local(kit, name):
    return json.loads((kit / "local" / name).read_text())


@pytest.mark.parametrize("kind", ["silo", "server", "coordinator"])
def test_a_kit_says_whose_it_is(tmp_path, kind):
    assert kind_of(getattr(kit_folders, kind)(tmp_path)) == kind


def test_another_folder_is_no_kit(tmp_path):
    with pytest.raises(StudyError, match="is not a kit"):
        kind_of(tmp_path)


@pytest.mark.parametrize(
    ("kind", "classes"), [("silo", SILO_CLASSES), ("server", SERVER_CLASSES)]
)
def test_jobs_may_name_our_classes_only(tmp_path, kind, classes):
    kit = getattr(kit_folders, kind)(tmp_path)

    harden(kit)

    resources = local(kit, "resources.json")
    assert resources["class_list_enforcement_mode"] == "enforce"
    assert resources["class_allow_list"] == list(classes)
    assert resources["allow_log_streaming"] is False
    ids = [component["id"] for component in resources["components"]]
    assert not {"site_log_streamer", "log_receiver"} & set(ids)
    assert len(ids) == 1


def test_a_silos_jobs_get_the_process_that_stands_by(tmp_path):
    kit = kit_folders.silo(tmp_path)

    harden(kit)

    (launcher,) = local(kit, "resources.json")["components"]
    assert launcher == {"id": "process_launcher", "path": LAUNCHERS["silo"]}
    module, _, name = LAUNCHERS["silo"].rpartition(".")
    assert hasattr(importlib.import_module(module), name)


@pytest.mark.parametrize("kind", ["silo", "server"])
def test_one_role_has_rights_and_none_brings_code(tmp_path, kind):
    kit = getattr(kit_folders, kind)(tmp_path)

    harden(kit)

    permissions = local(kit, "authorization.json")["permissions"]
    assert list(permissions) == [ROLE]
    rights = permissions[ROLE]
    assert rights["submit_job"] == "any"
    assert rights["manage_job"] == "n:submitter"
    for right in ("byoc", "operate", "shell_commands", "clone_job"):
        assert rights[right] == "none"


def test_a_silo_shows_its_errors_to_nobody(tmp_path):
    harden(kit := kit_folders.silo(tmp_path))

    rights = local(kit, "authorization.json")["permissions"][ROLE]
    assert "view" not in rights
    assert rights["download_job"] == "none"


@pytest.mark.parametrize("kind", ["silo", "server"])
def test_what_nvflare_would_fall_back_to_is_gone(tmp_path, kind):
    kit = getattr(kit_folders, kind)(tmp_path)

    harden(kit)

    assert list((kit / "local").glob("*.default")) == []


def test_the_engine_logs_no_line_per_call(tmp_path):
    harden(kit := kit_folders.silo(tmp_path))

    loggers = local(kit, "log_config.json")["loggers"]
    assert loggers["nvflare.collab"] == {"level": "WARNING"}
    assert loggers["root"] == {"level": "INFO"}


@pytest.mark.parametrize("kind", ["silo", "server", "coordinator"])
def test_hardening_twice_changes_nothing(tmp_path, kind):
    def content():
        return {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}

    kit = getattr(kit_folders, kind)(tmp_path)
    harden(kit)
    once = content()

    harden(kit)

    assert content() == once
    assert kit.stat().st_mode & 0o077 == 0


def test_a_server_keeps_its_jobs_in_its_own_kit_wherever_that_is(tmp_path):
    harden(kit := kit_folders.server(tmp_path / "here"))
    kit = kit.rename(tmp_path / "there")

    place_storage(kit)

    resources = local(kit, "resources.json")
    manager = {c["id"]: c for c in resources["components"]}["job_manager"]
    storage = resources["snapshot_persistor"]["args"]["storage"]
    assert manager["args"] == {"uri_root": str(kit / "state" / "jobs"), "other": 1}
    assert storage["args"]["root_dir"] == str(kit / "state" / "snapshots")


@pytest.mark.parametrize(
    "change",
    [
        {"class_allow_list": [*SILO_CLASSES, "os.system"]},
        {"class_allow_list": ["*"]},
        {"class_allow_list": "all"},
        {"class_list_enforcement_mode": "audit"},
        {"allow_log_streaming": True},
        {"app_validator": None},
        {"app_validator": {"path": "os.system"}},
    ],
)
def test_a_kit_that_allows_more_is_seen(tmp_path, change):
    harden(kit := kit_folders.silo(tmp_path))
    check_hardened(kit)
    kit_folders.write(
        kit / "local" / "resources.json", local(kit, "resources.json") | change
    )

    with pytest.raises(StudyError, match="more than a study needs"):
        check_hardened(kit)


@pytest.mark.parametrize("text", ["", "[]", "{"])
def test_a_kit_with_a_broken_file_is_refused(tmp_path, text):
    kit = kit_folders.silo(tmp_path)
    (kit / "local" / "resources.json.default").write_text(text)

    with pytest.raises(StudyError, match="Provision the kit again"):
        harden(kit)


@pytest.mark.parametrize(
    "place", [".", "local", "state", "local/policy.toml", "state/audit.sqlite"]
)
@pytest.mark.parametrize("kind", ["silo", "server"])
def test_a_kit_that_every_user_may_change_is_named(tmp_path, kind, place):
    kit = _private(getattr(kit_folders, kind)(tmp_path))
    check_private(kit)
    (kit / place).chmod(0o777)

    with pytest.raises(StudyError, match=r"Every user .* may write") as wrong:
        check_private(kit)

    assert str(kit / place) in str(wrong.value)


def test_a_link_to_what_every_user_may_change_is_named(tmp_path):
    kit = _private(kit_folders.silo(tmp_path / "kit"))
    elsewhere = tmp_path / "audit.sqlite"
    elsewhere.touch(0o600)
    (kit / "state" / "link.sqlite").symlink_to(elsewhere)
    (kit / "state" / "lost.sqlite").symlink_to(tmp_path / "nowhere")
    check_private(kit)
    elsewhere.chmod(0o666)

    with pytest.raises(StudyError, match=r"may write .*link\.sqlite"):
        check_private(kit)


@pytest.mark.parametrize("kind", ["silo", "coordinator"])
def test_a_tls_key_that_others_may_read_is_named(tmp_path, kind):
    kit = _private(getattr(kit_folders, kind)(tmp_path))
    (kit / "startup" / "client.key").chmod(0o640)

    with pytest.raises(StudyError, match=r"Other users .* may read .*client\.key"):
        check_private(kit)


def _private(kit):
    (kit / "state").mkdir()
    for place in ("startup/client.key", "local/policy.toml", "state/audit.sqlite"):
        (kit / place).touch()
    for path in (kit, *kit.rglob("*")):
        path.chmod(0o700 if path.is_dir() else 0o600)
    return kit
