"""Tests of canonical correlations against zero: Wilks' lambda, Bartlett's test."""

from dataclasses import dataclass
from typing import final

import numpy as np
import scipy.stats

from unpooled.arrays import Array, Float
from unpooled.results.exhibits import Column, Exhibit, Table
from unpooled.results.summary import Summary, Tabular

HYPOTHESIS = (
    "Bartlett’s test is of the hypothesis that this correlation and all smaller ones "
    "are 0; its p-value assumes normality."
)


@final
@dataclass(frozen=True, repr=False)
class CanonicalTest(Tabular):
    """Bartlett's test that a canonical correlation and all smaller ones are zero.

    It prints as a table; ``to_frame()`` returns it as a pandas data frame.

    Attributes
    ----------
    correlations : (k,) array
        All canonical correlations, in descending order.
    wilks : (k,) array
        Wilks' lambda, the product of ``1 - r²`` over the correlation and all smaller
        ones.
    statistic : (k,) array
        Bartlett's, ``-(N - 1 - (p + q + 1) / 2) log(wilks)``.
    dof : (k,) int array
        Its degrees of freedom, (p - j)(q - j) for the pair j = 0, 1, ...
    p_value : (k,) array
        Under the chi-squared distribution, which holds asymptotically for normal rows.
    """

    correlations: Float[Array, " k"]
    wilks: Float[Array, " k"]
    statistic: Float[Array, " k"]
    dof: Array
    p_value: Float[Array, " k"]

    def summary(self) -> Summary:
        """Return the test as a table."""
        heads = (Column("Pair"), *columns_of_test())
        names = [f"{j + 1}" for j in range(len(self.wilks))]
        table = Table("significance", heads, list(zip(names, *self.cells, strict=True)))
        exhibit = Exhibit("Canonical correlations", HYPOTHESIS, [table])
        return Summary("Tests of canonical correlations", [exhibit])

    @property
    def cells(self) -> tuple[Array, ...]:
        """The values of the columns of `columns_of_test`."""
        return (self.correlations, self.wilks, self.statistic, self.dof, self.p_value)


def columns_of_test() -> tuple[Column, ...]:
    """Return the columns of a table of the test."""
    return (
        Column("Correlation", "number", bar=True),
        Column("Wilks’ lambda", "number"),
        Column("Bartlett’s statistic", "number"),
        Column("Degrees of freedom", "df"),
        Column("p-value", "p-value"),
    )


def bartlett(r: Float[Array, " l"], N: int, p: int, q: int) -> CanonicalTest:
    """Test all min(p, q) canonical correlations of N rows, in descending order.

    References
    ----------
    Bartlett, The statistical significance of canonical correlations, Biometrika 32
    (1941).
    """
    # A correlation of 1 has Wilks' lambda 0 and an infinite statistic.
    with np.errstate(divide="ignore"):
        logs = np.log1p(-(np.minimum(r, 1.0) ** 2))
    log_wilks = np.cumsum(logs[::-1])[::-1]
    j = np.arange(len(r))
    statistic = -(N - 1 - (p + q + 1) / 2) * log_wilks
    dof = (p - j) * (q - j)
    p_value = scipy.stats.chi2.sf(statistic, dof)
    return CanonicalTest(r, np.exp(log_wilks), statistic, dof, p_value)
