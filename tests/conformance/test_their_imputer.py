"""scikit-learn's tests of SimpleImputer, run against ours."""

from adapters import SimpleImputer
from borrowing import borrow

globals().update(
    borrow(
        "sklearn.impute.tests.test_impute",
        "sklearn.impute.tests.test_common",
        adapter=SimpleImputer,
    )
)
