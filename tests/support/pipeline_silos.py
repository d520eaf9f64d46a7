"""Silos with missing cells and a label, and a pipeline for them."""

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline

from unpooled import PCA, SimpleImputer, StandardScaler, simulate

NAMES = ["age", "pulse", "weight", "height"]


@pytest.fixture(scope="module")
def frames():
    rng = np.random.default_rng(4)
    made = {}
    for name in ("north", "east", "west"):
        X = rng.standard_normal((40, 4)) @ rng.standard_normal((4, 4)) + 5
        X[rng.random(X.shape) < 0.1] = np.nan
        made[name] = pd.DataFrame(X, columns=NAMES).assign(sick=rng.integers(0, 2, 40))
    return made


@pytest.fixture
def federation(frames):
    return simulate(frames, label="sick")


@pytest.fixture
def rows(frames):
    return pd.concat(frames.values())[NAMES]


def model():
    return make_pipeline(SimpleImputer(), StandardScaler(), PCA(2))
