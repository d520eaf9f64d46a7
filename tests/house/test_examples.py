"""The examples that need data from elsewhere say so."""

import runpy
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.py"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_without_its_data_says_what_to_set(path, monkeypatch):
    monkeypatch.delenv("UNPOOLED_DATA", raising=False)

    # A text that ends the interpreter is all that it writes, and its status is 1.
    with pytest.raises(SystemExit, match=r"^Set UNPOOLED_DATA to the folder with "):
        runpy.run_path(str(path), run_name="__main__")
