"""Linear decisions become classes as scikit-learn's do, also at a tie."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression as Twin

from unpooled.models.linear_classifier import classified, positions


@pytest.mark.parametrize(
    "coef", [[[1.0, -1.0]], [[1.0, -1.0], [-1.0, 1.0], [0.0, 0.0]]]
)
def test_ties_go_where_scikit_learn_puts_them(coef):
    twin = Twin()
    twin.coef_, twin.intercept_ = np.array(coef), np.zeros(len(coef))
    twin.classes_ = np.arange(max(len(coef), 2))
    # The first row has a score of 0 for every class.
    X = np.array([[2.0, 2.0], [3.0, 2.0], [2.0, 3.0]])

    assert positions(X @ twin.coef_.T).tolist() == twin.predict(X).tolist()


def test_rows_with_missing_cells_have_no_class():
    X = np.array([[np.nan, 1.0], [2.0, 1.0]])
    found = classified(X, coef=np.array([[1.0, 0.0]]), intercept=np.zeros(1))
    np.testing.assert_array_equal(found, [[np.nan], [1.0]])
