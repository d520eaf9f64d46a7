"""The report of a study, made from the folder of its run alone."""

import os
import re
import shutil
from pathlib import Path

import pytest

from small_study import COLUMNS, killed, text_of, writer


@pytest.fixture(autouse=True)
def quick_disk(monkeypatch):
    """A process that dies loses nothing that it has written; only a machine would."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


@pytest.fixture
def write(tmp_path):
    """Write a study file of this text, and read it."""
    return writer(tmp_path)


@pytest.fixture
def reported(write):
    return write(text_of(COLUMNS, report="true"))


def test_a_report_is_made_from_the_folder_alone(reported, tmp_path):
    from unpooled.study.reporting import report_of

    run = reported.run()
    assert run.report is not None
    before = run.report.read_text()
    shutil.rmtree(reported.path.parent / "data")
    moved = shutil.move(run.folder, tmp_path / "moved")
    (Path(moved) / "report.html").unlink()

    path = report_of(moved)

    def steady(text):
        return re.sub(r"\d{4}-\d\d-\d\d[^<]*", "", text)

    assert steady(path.read_text()) == steady(before)


def test_a_run_on_the_way_has_a_report_too(reported):
    from unpooled.study.reporting import report_of

    assert killed(reported, 20)

    assert "small" in report_of(reported.folder).read_text()


def test_endless_limits_come_back_for_the_report(write):
    from unpooled.study.folder import RunFolder
    from unpooled.study.reporting import facts_of_run

    policy = 'max_feature_ratio = inf\nallowed_steps = ["*"]'
    run = write(text_of(COLUMNS, ["SimpleImputer"], policy=policy)).run()

    facts = facts_of_run(RunFolder.open(run.folder))

    assert facts.policies is not None
    assert facts.policies["west"]["max_feature_ratio"] == float("inf")
    assert facts.policies["west"]["allowed_steps"] == ["*"]
    assert facts.models[0][0] == "simpleimputer"
    assert facts.feature_names == tuple("abcd")
