"""What a report says of a fit in which neighbours told each other."""

import re

import numpy as np
import pytest

import unpooled as up


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 8)) @ rng.standard_normal((8, 8))
    silos = up.partition_columns(X, 4)
    federation = up.simulate(silos, partition="columns", policy=up.Policy.open())
    model = up.PCA(1, svd_solver="gossip", topology="ring", random_state=0)
    path = tmp_path_factory.mktemp("report") / "report.html"
    up.report(model.fit(federation), federation, path)
    page = re.sub(r"<style.*?</style>", "", path.read_text("utf-8"), flags=re.S)
    # Nothing was asked of the silos for the report.
    assert "explained_variance_" not in vars(model)
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page))


def section(text, first, after):
    """What stands between two headings; both are in the list of contents too."""
    return text.split(first)[2].split(after)[0]


@pytest.mark.slow
def test_neighbours_are_named(text):
    assert "Sent as it is to silo2 and silo4" in text
    assert "from silo1 and silo3 to silo2 and silo4" in text


@pytest.mark.slow
def test_what_neighbours_saw_is_a_warning(text):
    first = section(text, " Warnings ", " Data protection ")
    assert "Neighbouring silos saw, silo by silo and not only as a total" in first
    assert (
        "as many as the silo has columns determine its rows, up to a rotation" in first
    )


def test_every_silo_took_part_in_every_round(text):
    """Lines of a round are of some silos each, and of all together."""
    assert "was not completed" not in text


def test_rounds_that_come_again_are_told_once(text):
    told = section(text, "What left each silo", "What came into each silo")
    assert 3 <= len(re.findall(r"Rounds? \d+", told)) <= 12
