"""What more than one test file uses."""

import os
from pathlib import Path

import pytest

pytest_plugins = ["pytester", "skip_list"]


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of data sets that are too large for the repository.

    UNPOOLED_DATA names it; otherwise it is ../shared/data beside the checkout, and the
    test skips where there is none.
    """
    if named := os.environ.get("UNPOOLED_DATA"):
        # Whoever names a folder means it: a slip must not turn into a row of skips.
        assert Path(named).is_dir(), f"UNPOOLED_DATA names {named}, not a folder"
        return Path(named)
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    if not beside.is_dir():
        pytest.skip("shared data absent")
    return beside
