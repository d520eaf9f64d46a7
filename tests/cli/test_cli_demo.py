"""The command's demo: it fits the window, and agrees with pooled data."""

import os
import re
from pathlib import Path

import numpy as np
import pytest

import unpooled as up
from command_line import call, one_red_line, too_wide
from unpooled.data import heart_disease


@pytest.fixture(scope="module")
def demos(tmp_path_factory):
    """What the demo shows, by the width of the window."""
    shown, home = {}, Path.cwd()
    try:
        for width in (80, 120):
            os.chdir(tmp_path_factory.mktemp(f"demo{width}"))
            result = call("demo", "--out", "out", width=width)
            assert result.exit_code == 0, result.output
            shown[width] = result.output, Path("out/report.html").read_text()
    finally:
        os.chdir(home)
    return shown


@pytest.mark.slow
@pytest.mark.parametrize("width", [80, 120])
def test_the_demo_fits_the_window(demos, width):
    assert too_wide(demos[width][0], width) == []


@pytest.mark.slow
def test_the_demo_tells_everything_in_order(demos):
    output, report = demos[120]

    parts = [
        "Who takes part",
        "Each silo's rules",
        "Fitting",
        "round 8 of 8: pca.local_scatter, 4 silos",
        "Results",
        "Agreement with scikit-learn on pooled rows",
        "What left each silo",
        "The report",
    ]
    places = [output.index(part) for part in parts]
    assert places == sorted(places)
    words = ["cleveland", "hungary", "switzerland", "only a demo has", "thalach"]
    for word in [*words, "Loadings", "Fewest silos in a study", "out/report.html"]:
        assert word in output
    assert "</html>" in report


@pytest.mark.slow
def test_the_demo_agrees_with_pooled_data(demos):
    for output, _ in demos.values():
        part = output.split("Agreement")[1].split("What left")[0]
        found = re.findall(r"^(\S+).* (\d\.\de[+-]\d+)", part, re.M)

        assert [name for name, _ in found] == [
            "components_", "explained_variance_", "transform",
        ]  # fmt: skip
        # The secure sum keeps twelve digits; scores are of the order of ten.
        assert all(float(difference) < 1e-9 for _, difference in found)


@pytest.mark.slow
def test_the_demo_writes_its_study(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    result = call("demo", "--study", "heart")

    assert result.exit_code == 0
    assert "unpooled plan heart/study.toml" in result.output
    assert call("plan", "heart/study.toml").exit_code == 0
    assert "exists" in one_red_line(call("demo", "--study", "heart"))
    assert call("run", "heart/study.toml").exit_code == 0
    fitted = up.load("heart/runs/heart/pipeline.unpooled")
    federation = up.simulate(heart_disease.load(), label="num")
    alone = up.SimpleImputer().fit(federation)
    assert np.array_equal(fitted[0].statistics_, alone.statistics_)


def test_a_demo_that_cannot_write_is_one_red_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("file").touch()

    assert "file" in one_red_line(call("demo", "--out", "file"))
