"""The examples that need data from elsewhere say so."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.py"))


@pytest.mark.thinned(1)
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_without_its_data_says_what_to_set(path):
    around = {k: v for k, v in os.environ.items() if k != "UNPOOLED_DATA"}

    ended = subprocess.run(
        [sys.executable, path], env=around, capture_output=True, text=True, check=False
    )

    assert ended.returncode == 1
    assert "Traceback" not in ended.stderr
    assert ended.stderr.startswith("Set UNPOOLED_DATA to the folder with ")
