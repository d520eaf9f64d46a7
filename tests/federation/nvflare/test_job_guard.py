"""What a silo's guard lets in: the job of a study, and nothing beside it."""

import json
import os

import pytest

from unpooled.federation.nvflare.jobs import (
    SERVER_CONFIG,
    SILO_CONFIG,
    for_silo,
    has_name_of_study,
    write_job,
)
from unpooled.party.memory.audit_log import AuditLog

pytest.importorskip("nvflare", reason="nvflare absent")

from unpooled.federation.nvflare.job_guard import JobGuard, foreign_part

NAMES = ("a", "b", "c")


@pytest.fixture
def app(tmp_path):
    """What arrives in a silo, signed as NVFlare signs."""
    write_job(tmp_path / "job", "heart", NAMES, {"text": "{braces}"})
    app = tmp_path / "job" / "app_party"
    for folder in (app, app / "config"):
        (folder / ".__nvfl_sig.json").write_text("{}")
        (folder / ".__nvfl_submitter.crt").write_text("certificate")
    return app


@pytest.fixture
def guard(tmp_path, monkeypatch):
    kit = tmp_path / "kit"
    (kit / "local").mkdir(parents=True)
    own = '[silo]\nname = "a"\nsource = "rows.csv"\n'
    (kit / "local" / "silo.toml").write_text(own)
    monkeypatch.chdir(kit)
    return JobGuard()


def refusals(guard):
    path = guard._kit / "state" / "audit.sqlite"
    if not path.exists():
        return []
    return [(e.kind, e.study, e.record["asked"]) for e in AuditLog(path).entries()]


def test_the_job_of_a_study_comes_in(app, guard):
    assert guard.validate(str(app)) == ("", {})
    assert refusals(guard) == []


def test_a_silo_gets_the_same_of_every_study(tmp_path):
    write_job(tmp_path / "x", "x", NAMES, {"text": "one"})
    write_job(tmp_path / "y", "y", NAMES[:2], {"text": "another", "do": "plan"})

    ours, theirs = (
        (tmp_path / job / "app_party" / "config" / SILO_CONFIG).read_bytes()
        for job in "xy"
    )

    assert ours == theirs


def test_what_is_asked_is_no_template(tmp_path):
    write_job(tmp_path / "x", "x", NAMES, {"text": "{password}"})

    config = tmp_path / "x" / "app_server" / "config" / SERVER_CONFIG

    (component,) = json.loads(config.read_text())["components"]
    text = bytes.fromhex(component["args"]["content"])
    assert json.loads(text) == {"text": "{password}"}


def custom(app):
    (app / "custom").mkdir()


def module(app):
    (app / "config" / "helpful.py").write_text("import os")


def link(app):
    (app / "config" / "etc").symlink_to("/etc")


def hidden(app):
    (app / ".hidden").write_text("")


def deeper(app):
    (app / "config" / "config").mkdir()
    (app / "config" / "config" / SILO_CONFIG).write_text(json.dumps(for_silo()))


@pytest.mark.parametrize("change", [custom, module, link, hidden, deeper])
def test_files_of_its_own(app, guard, change):
    change(app)

    assert guard.validate(str(app)) == ("foreign_job", {})

    assert refusals(guard) == [("refused", "", "a job with files of its own")]


@pytest.mark.parametrize(
    "change",
    [
        {"components": []},
        {"executors": []},
        {"task_result_filters": [{"tasks": ["*"], "filters": []}]},
        {"default_task_fetch_interval": 100},
        {"more": 1},
    ],
)
def test_another_configuration(app, guard, change):
    content = for_silo() | change
    (app / "config" / SILO_CONFIG).write_text(json.dumps(content))

    assert guard.validate(str(app)) == ("foreign_job", {})

    assert refusals(guard) == [("refused", "", "a job of other classes")]


def test_a_class_of_another_name(app):
    content = for_silo()
    content["components"][0]["path"] = "unpooled.party.setup.silo_file.Silo"
    (app / "config" / SILO_CONFIG).write_text(json.dumps(content))

    assert foreign_part(app) == "a job of other classes"


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000])
def test_what_cannot_be_read(app, guard, text):
    (app / "config" / SILO_CONFIG).write_text(text)

    assert guard.validate(str(app)) == ("foreign_job", {})

    assert refusals(guard) == [("refused", "", "a job that cannot be read")]


@pytest.mark.skipif(os.name != "posix", reason="rights of files")
def test_a_refusal_that_cannot_be_written_is_one_too(app, guard):
    (guard._kit / "local" / "silo.toml").unlink()
    module(app)

    assert guard.validate(str(app)) == ("foreign_job", {})


@pytest.mark.parametrize(
    ("name", "good"),
    [("heart", True), ("dies-1_b", True), ("../../evil", False), ("", False),
     ("a b", False), ("x" * 101, False), ("-x", False), (None, False)],
)  # fmt: skip
def test_a_job_has_the_name_of_a_study(app, name, good):
    meta = app.parent / "meta.json"
    meta.write_text(json.dumps(json.loads(meta.read_text()) | {"name": name}))

    assert has_name_of_study(app.parent) is good
