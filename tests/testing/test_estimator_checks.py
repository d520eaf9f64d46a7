"""`check_estimator` finds what is wrong with an estimator, and says what to change."""

from typing import Any

import numpy as np
import pytest
from sklearn.preprocessing import StandardScaler as Twin

import unpooled as up
from unpooled.arrays import Array, Float
from unpooled.models.base import FederatedEstimator
from unpooled.models.moments import pooled_mean
from unpooled.protocol.step import release, summed
from unpooled.testing import check_estimator


@summed(
    count=release("", meaning="how many rows there are"),
    total=release("p", meaning="the sum of each column"),
)
def local_sums(X: Float[Array, "n p"]) -> dict[str, Any]:
    """Count and add the rows."""
    return {"count": np.array(float(len(X))), "total": X.sum(axis=0)}


@summed(largest=release("p", meaning="the largest value of each column"))
def local_largest(X: Float[Array, "n p"]) -> dict[str, Any]:
    """Return maxima, which do not add."""
    return {"largest": X.max(axis=0)}


class Means(FederatedEstimator):
    """The mean of each column.

    Parameters
    ----------
    factor : float, default 1.0
        By which the means are multiplied.

    Notes
    -----
    Released, as totals only: N and the p column sums. Never released: a row.
    """

    def __init__(self, factor: float = 1.0) -> None:
        self.factor = factor

    def _fit(self, federation: Any, y: Any) -> None:
        totals = federation.sum(local_sums)
        self.mean_ = self.factor * totals["total"] / totals["count"]


class Borrowed(Means):
    """Means by the library's own rounds. Released: as `Means`. Never released: rows.

    factor
    """

    def _fit(self, federation: Any, y: Any) -> None:
        _, self.mean_ = pooled_mean(federation)


class Largest(Means):
    """Maxima, wrongly. Released: maxima. Never released: rows.

    factor
    """

    def _fit(self, federation: Any, y: Any) -> None:
        self.largest_ = federation.sum(local_largest)["largest"]


class Forgetful(Means):
    """Adds to what an earlier fit found. Released: sums. Never released: rows.

    factor
    """

    calls = 0

    def _fit(self, federation: Any, y: Any) -> None:
        Forgetful.calls += 1
        self.mean_ = federation.sum(local_sums)["total"] * Forgetful.calls


class Undocumented(Means):
    """Nothing is said."""


class Changing(Means):
    """Changes a parameter. Released: sums. Never released: rows.

    factor
    """

    def __init__(self, factor: float = 1.0) -> None:
        self.factor = factor * 2


@pytest.mark.slow
@pytest.mark.parametrize("estimator", [Means(), Borrowed()], ids=repr)
def test_an_estimator_of_a_users_own_passes(estimator):
    passed = check_estimator(estimator, pooled=lambda X, y: {"mean_": X.mean(axis=0)})
    assert len(passed) > 10


@pytest.mark.thinned(1)
@pytest.mark.parametrize(
    ("estimator", "words"),
    [
        (Largest(), "largest_ differs"),
        (Forgetful(), "mean_ differs"),
        (Undocumented(), "does not document its parameter factor"),
        (Changing(), "factor is changed by the constructor"),
    ],
    ids=repr,
)
def test_a_fault_is_named(estimator, words):
    with pytest.raises(AssertionError, match=words):
        check_estimator(estimator)


def test_another_answer_than_the_pooled_one_is_named():
    with pytest.raises(AssertionError, match="on the pooled rows it is"):
        check_estimator(Means(2.0), pooled=lambda X, y: {"mean_": X.mean(axis=0)})
    with pytest.raises(AssertionError, match="no attribute in common"):
        check_estimator(up.PCA(2), pooled=up_like())


def up_like() -> Any:
    """A twin without any attribute of PCA's."""

    class Other(Twin):
        def fit(self, X: Any, y: Any = None) -> Any:
            return self

    return Other()


def test_a_step_of_the_fit_that_is_not_additive_is_named():
    checks = check_estimator(Largest(), generate_only=True)
    (check,) = [one for one in checks if one.__name__ == "check_steps"]
    with pytest.raises(AssertionError, match="local_largest is declared additive over"):
        check()


def test_checks_are_generated_excused_and_called_one_by_one():
    checks = check_estimator(
        Undocumented(),
        generate_only=True,
        expected_failed_checks={"check_docstring": "it is an example"},
    )
    names = [check.__name__ for check in checks]
    assert "check_pooled_answer" in names
    assert "Undocumented-check_ledger" in map(repr, checks)
    checks[names.index("check_docstring")]()
    with pytest.raises(ValueError, match="no checks named"):
        check_estimator(Means(), expected_failed_checks={"check_all": "?"})
