"""What holds of every model that transforms each column by itself."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

from unpooled import Policy, SimpleImputer, StandardScaler, partition_rows, simulate
from unpooled.errors import AggregationError, DataError, ReleaseRefusedError

MODELS = [SimpleImputer, StandardScaler]


@pytest.fixture(scope="module")
def rows():
    return np.random.default_rng(3).standard_normal((90, 5))


@pytest.mark.parametrize("model", MODELS)
def test_infinite_cells_are_refused(model, rows):
    X = rows.copy()
    X[5, 0] = np.inf
    ours = AggregationError, DataError, ReleaseRefusedError
    with pytest.raises(ours, match=r"silo1 .* infin"):
        model().fit(simulate(partition_rows(X, 3), policy=Policy.open()))


@pytest.mark.parametrize("model", MODELS)
def test_names_pass_through(model, rows):
    names = list("vwxyz")
    frames = {
        name: pd.DataFrame(part, columns=names)
        for name, part in partition_rows(rows, 3).items()
    }
    fitted = model().fit(simulate(frames))
    assert_array_equal(fitted.feature_names_in_, names)
    assert_array_equal(fitted.get_feature_names_out(), names)
    assert_array_equal(fitted.to_sklearn().get_feature_names_out(), names)
