"""scikit-learn's tests of PowerTransformer, run against ours."""

from adapters import PowerTransformer
from borrowing import borrow

globals().update(
    borrow(
        "sklearn.preprocessing.tests.test_data",
        "sklearn.preprocessing.tests.test_common",
        adapter=PowerTransformer,
    )
)
