"""The table of every estimate and its uncertainty, held against the library."""

import re
from pathlib import Path

import pytest

from public_names import described
from unpooled.models.files.catalogue import estimators

PAGE = Path(__file__).resolve().parents[2] / "docs" / "uncertainty.md"
TABLE = PAGE.read_text("utf-8").split("## Every estimate")[1].split("\n## ")[0]
ROWS = [
    [cell.strip() for cell in line.strip("| \n").split(" | ")]
    for line in TABLE.splitlines()
    if line.startswith("| ")
]
MODELS = " ".join(row[0] for row in ROWS)


@pytest.mark.parametrize("name", sorted(estimators()))
def test_every_estimator_is_in_the_table(name):
    assert re.search(rf"`{name}`", MODELS)


def test_every_standard_error_is_in_the_table():
    errors = {
        attribute
        for model in estimators().values()
        for attribute in described(model, "Attributes")
        if "_se_" in attribute
    }
    assert errors <= set(re.findall(r"`(\w+)`", TABLE))
