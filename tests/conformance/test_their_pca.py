"""scikit-learn's tests of PCA, run against ours."""

import pytest
from adapters import PCA
from borrowing import borrow

# scikit-learn inverts a singular covariance in one of them, and SciPy says so.
pytestmark = pytest.mark.filterwarnings("ignore:An ill-conditioned matrix detected")

globals().update(borrow("sklearn.decomposition.tests.test_pca", adapter=PCA))
