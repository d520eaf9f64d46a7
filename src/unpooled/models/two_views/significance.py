"""Tests of canonical correlations against zero: Wilks' lambda, Bartlett's test."""

from dataclasses import dataclass
from typing import Any, final

import numpy as np
import scipy

from unpooled.arrays import Array, Float
from unpooled.results.exhibits import Column, Exhibit, ResultTable
from unpooled.results.fitted_attributes import ordinals
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
        table = ResultTable.of("significance", self.cells)
        exhibit = Exhibit("Canonical correlations", HYPOTHESIS, [table])
        return Summary("Tests of canonical correlations", [exhibit])

    @property
    def cells(self) -> dict[Column, Any]:
        """The columns of a table of the test, with their values."""
        return {
            Column("Pair"): ordinals(len(self.wilks)),
            Column("Correlation", "number", bar=True): self.correlations,
            Column("Wilks’ lambda", "number"): self.wilks,
            Column("Bartlett’s statistic", "number"): self.statistic,
            Column("Degrees of freedom", "df"): self.dof,
            Column("p-value", "p-value"): self.p_value,
        }


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
