"""Silos of one process, as frames and as numbers, and a model fitted on them."""

import numpy as np
import pandas as pd
import pytest

from unpooled import (
    partition_rows,
)

NAMES = ["age", "pulse", "weight", "height", "glucose"]


@pytest.fixture(scope="module")
def silos():
    """Return three silos' frames with missing cells, a label and ids."""
    rng = np.random.default_rng(1)
    made = {}
    for i, name in enumerate(["north", "east", "west"]):
        X = rng.standard_normal((40 + i, 5)) @ rng.standard_normal((5, 5)) + 3.0
        X[rng.random(X.shape) < 0.1] = np.nan
        frame = pd.DataFrame(X, columns=NAMES)
        made[name] = frame.assign(
            ward=rng.choice(["a", "b"], len(X)),
            patient=[f"{name}{j}" for j in range(len(X))],
        )
    return made


@pytest.fixture
def numbers():
    return partition_rows(np.random.default_rng(2).standard_normal((60, 4)), 3)
