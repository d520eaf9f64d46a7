"""People at three silos, in other orders and with other ids."""

import numpy as np
import pandas as pd
import pytest

from unpooled import Policy, simulate

OPEN = Policy.open()
COLUMNS = {"clinic": ["a", "b"], "laboratory": ["c"], "pharmacy": ["d", "e"]}


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(rng.standard_normal((60, 5)), columns=list("abcde"))
    frame["id"] = [f"Person {i}" for i in range(60)]
    return frame


def silos_of(people):
    """Each silo's own columns of some of the people, in its own order."""
    return {
        name: people.sample(45, random_state=i)[["id", *columns]]
        for i, (name, columns) in enumerate(COLUMNS.items())
    }


def match(tables, **options):
    options = {"ids": "id", "policy": OPEN, **options}
    return simulate(tables, partition="columns", **options)


def common_ids(tables):
    return set.intersection(*(set(table["id"]) for table in tables.values()))
