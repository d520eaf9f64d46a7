"""Samples of slow tests: some of each file, the same of one seed, all in the end."""

import pytest

from tiers import left_out

pytest_plugins = ["pytester"]
TESTS = """
import pytest

@pytest.mark.slow
@pytest.mark.parametrize("n", range(10))
def test_grid(n):
    pass

@pytest.mark.parametrize("n", range(10))
def test_usual(n):
    pass

@pytest.mark.slow
def test_alone():
    pass
"""


@pytest.fixture
def items(pytester: pytest.Pytester) -> list[pytest.Item]:
    pytester.makeini("[pytest]\nmarkers = slow")
    found = pytester.getitems(TESTS)
    assert len(found) == 21
    return found


def sample(items: list[pytest.Item], share: int, seed: str) -> set[str]:
    others = left_out(items, share, seed)
    return {one.name for one in items if one not in others}


def test_a_sample_has_all_that_are_not_slow_and_some_of_the_rest(items):
    found = sample(items, 4, "a")

    usual = {f"test_usual[{n}]" for n in range(10)}
    assert usual <= found
    # Of 11 slow tests.
    assert len(found - usual) == 3


def test_a_seed_gives_one_sample_and_others_the_rest(items):
    assert sample(items, 4, "a") == sample(items, 4, "a")
    seen = set[str]().union(*(sample(items, 4, str(seed)) for seed in range(40)))
    # These seeds are always the same.
    assert seen == {one.name for one in items}


def test_all_cases_are_in_a_sample_of_one_in_one(items):
    assert left_out(items, 1, "") == set()
