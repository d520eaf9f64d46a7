"""The report of a study, made from the folder of its run alone."""

import re
import shutil
from pathlib import Path

import pytest

from small_study import COLUMNS, killed, quick_disk, reported, text_of, write

# Fixtures of another module.
__all__ = ["quick_disk", "reported", "write"]


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_run_on_the_way_has_a_report_too(reported):
    from unpooled.study.reporting import report_of

    assert killed(reported, 20)

    assert "small" in report_of(reported.folder).read_text()


@pytest.mark.slow
def test_endless_limits_come_back_for_the_report(write):
    from unpooled.study.reporting import facts_of_run
    from unpooled.study.run_folder import RunFolder

    policy = 'max_feature_ratio = inf\nallowed_steps = ["*"]'
    run = write(text_of(COLUMNS, ["SimpleImputer"], policy=policy)).run()

    facts = facts_of_run(RunFolder.open(run.folder))

    assert facts.policies is not None
    assert facts.policies["west"]["max_feature_ratio"] == float("inf")
    assert facts.policies["west"]["allowed_steps"] == ["*"]
    assert facts.models[0][0] == "simpleimputer"
    assert facts.feature_names == tuple("abcd")
