"""What the library wrote at 7de5e95 is still what it reads; fixtures/7de5e95 has it."""

import json
from pathlib import Path

import pytest

from step_declarations import declaration
from unpooled.protocol.step import find_step

OLD = Path(__file__).parents[1] / "fixtures" / "7de5e95"
STEPS = json.loads((OLD / "steps.json").read_text())


# --- Steps ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", STEPS)
def test_every_step_has_its_name_and_declaration(name):
    assert declaration(find_step(name)) == STEPS[name]
