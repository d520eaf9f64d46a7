"""`check_step` passes steps that keep their promises, and names the promise broken."""

import numpy as np
import pytest

from unpooled.errors import DataError
from unpooled.models import moments
from unpooled.protocol.step import derived, release, stays, summed
from unpooled.testing import check_step

X = np.random.default_rng(0).standard_normal((20, 3)) + 5.0
MEAN = X.mean(axis=0)


def test_steps_of_the_library_pass():
    check_step(moments.local_total, X)
    check_step(moments.local_squares, X, mean=MEAN)
    holes = np.where(X > 6.0, np.nan, X)
    check_step(moments.local_counts, holes)


def test_arguments_are_those_declared():
    with pytest.raises(DataError, match="takes the public arguments"):
        check_step(moments.local_squares, X)
    with pytest.raises(ValueError, match="at least six rows"):
        check_step(moments.local_total, X[:5])


def broken(function, **declared):
    declared = declared or {"largest": release("p", meaning="the largest value")}
    return summed(**declared)(function)


def maxima(X):
    """Return a maximum where a sum is promised."""
    return {"largest": X.max(axis=0)}


def too_much(X):
    """Return an array that is not declared."""
    return {"largest": X.sum(axis=0), "rows": X}


def too_little(X):
    """Return nothing."""
    return {}


def another_shape(X):
    """Return one number for each row."""
    return {"largest": X.sum(axis=1)}


def drawn(X):
    """Draw another number each time."""
    return {"largest": X.sum(axis=0) + np.random.default_rng().standard_normal()}


def in_place(X):
    """Centre the silo's own rows."""
    X -= 1.0
    return {"largest": X.sum(axis=0)}


def undocumented(X):
    return {"largest": X.sum(axis=0)}


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (maxima, "declared additive over rows, but 'largest'"),
        (too_much, r"returns \['rows'\], which is not declared"),
        (too_little, r"declares \['largest'\] but does not return it"),
        (another_shape, r"with axes 'p', which is \(3,\) here, and returns \(20,\)"),
        (drawn, "two results for the same rows"),
        (in_place, "changes its arguments in place"),
        (undocumented, "has no docstring"),
    ],
)
def test_a_broken_promise_is_named(function, words):
    with pytest.raises(AssertionError, match=words):
        check_step(broken(function), X.copy())


def test_a_release_says_what_it_means():
    step = broken(maxima, largest="p")
    with pytest.raises(AssertionError, match="does not say what 'largest' means"):
        check_step(step, X)


def test_maxima_of_a_silos_rows_together_are_as_declared():
    step = summed(by="party", largest=release("p", meaning="the largest value"))(maxima)
    check_step(step, X)


def test_a_kept_array_is_checked_too():
    step = broken(maxima, largest=stays("p", meaning="the largest value"))
    with pytest.raises(AssertionError, match="additive"):
        check_step(step, X)


def test_a_derived_step_transforms_each_row_by_itself():
    def centred(X):
        """Centre on the block at hand."""
        return X - X.mean(axis=0)

    def doubled(X):
        """Double."""
        return 2.0 * X

    check_step(derived(fitted_by=())(doubled), X)
    with pytest.raises(AssertionError, match="another image beside other rows"):
        check_step(derived(fitted_by=())(centred), X)
