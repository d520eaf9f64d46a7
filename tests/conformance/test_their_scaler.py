"""scikit-learn's tests of StandardScaler, run against ours."""

from adapters import StandardScaler
from borrowing import borrow

globals().update(
    borrow(
        "sklearn.preprocessing.tests.test_data",
        "sklearn.preprocessing.tests.test_common",
        adapter=StandardScaler,
    )
)
