"""The table of what is left out: no key without a case, and enough cases that run."""

from pathlib import Path

import pytest
import sklearn
from borrowing import CASES
from left_out import LEFT_OUT, WRITTEN_FOR

FILES = sorted(path.name for path in Path(__file__).parent.glob("test_their_*.py"))
# Ours to keep: fewer than these would be less of a suite than what was promised.
FEWEST = 60
FEWEST_BY_FILE = {
    "test_their_imputer.py": 7,
    "test_their_pca.py": 60,
    "test_their_power.py": 18,
    "test_their_scaler.py": 35,
}


@pytest.fixture
def cases(request):
    """How many cases there are, by file and key of the table."""
    counted = request.config.stash[CASES]
    narrowed = any("::" in argument for argument in request.config.args)
    if narrowed or {file for file, _ in counted} != set(FILES):
        pytest.skip("only some of the conformance suite was collected")
    return counted


def test_enough_cases_run(cases):
    run = {file: cases[file, None] for file in FILES}
    assert sum(run.values()) >= FEWEST
    for file, fewest in FEWEST_BY_FILE.items():
        assert run[file] >= fewest, f"{file} runs {run[file]} cases only"


def test_every_key_leaves_a_case_out(cases):
    if sklearn.__version__.startswith(WRITTEN_FOR):
        assert set(LEFT_OUT) - {pattern for _, pattern in cases} == set()


def test_every_key_has_a_reason():
    for pattern, reason in LEFT_OUT.items():
        assert len(reason.split()) >= 4, pattern
