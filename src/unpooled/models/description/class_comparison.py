"""Tests and standardised differences of classes, from the numbers that a table shows.

Nothing is asked of the silos: withheld numbers (NaN) have no test.

References
----------
Yang and Dalton, A unified approach to measuring the effect size between two groups
using SAS, SAS Global Forum 2012: standardised differences of categories.
"""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

import numpy as np
import scipy

from unpooled.arrays import Array, Float
from unpooled.linalg.group_tests import one_way


@final
@dataclass(frozen=True, eq=False)
class ClassTable:
    """The numbers of a table by class, NaN where withheld.

    Attributes
    ----------
    size : (c,) array
        How many rows each class has.
    n, n_missing : (c, p) arrays
        How many values and missing cells each column has in each class.
    mean, std : (c, p) arrays
        Means and standard deviations (denominator n - 1) of numbers.
    category_counts : (c, s, v) array
        Counts of the categories of each categorical column.
    """

    size: Float[Array, " c"]
    n: Float[Array, "c p"]
    n_missing: Float[Array, "c p"]
    mean: Float[Array, "c p"]
    std: Float[Array, "c p"]
    category_counts: Float[Array, "c s v"]

    def compared(
        self, places: Mapping[int, int]
    ) -> tuple[Float[Array, " p"], list[str], Float[Array, "l p"]]:
        """Return p-values, names of tests, and differences of the l pairs of classes.

        Only classes with rows are compared.

        Parameters
        ----------
        places : mapping of int to int
            The categorical columns, with their places in `category_counts`.
        """
        p, there = self.n.shape[1], np.flatnonzero(self.size > 0)
        pairs = list(itertools.combinations(range(len(self.size)), 2))
        p_value, tests = np.full(p, np.nan), [""] * p
        smd = np.full((len(pairs), p), np.nan)
        chosen = [i for i, pair in enumerate(pairs) if self.size[list(pair)].all()]
        for j in range(p):
            if np.isnan(self.n_missing[:, j]).any() or len(there) < 2:
                continue
            if j in places:
                counts = self.category_counts[:, places[j]]
                if np.isnan(counts).any() or not counts[there].any(axis=1).all():
                    continue
                counts = counts[:, counts.any(axis=0)]
                shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1.0)
                smd[chosen, j] = [_distance(*shares[list(pairs[i])]) for i in chosen]
                tests[j], p_value[j] = _test_of_counts(counts[there])
            elif not np.isnan(self.std[there, j]).any():
                mean, std = self.mean[:, j], self.std[:, j]
                with np.errstate(divide="ignore", invalid="ignore"):
                    smd[chosen, j] = [
                        (mean[k] - mean[i]) / np.sqrt((std[i] ** 2 + std[k] ** 2) / 2.0)
                        for i, k in (pairs[i] for i in chosen)
                    ]
                tests[j], p_value[j] = _test_of_means(
                    self.n[there, j], mean[there], std[there]
                )
        return p_value, tests, smd


def _test_of_means(
    n: Float[Array, " c"], mean: Float[Array, " c"], std: Float[Array, " c"]
) -> tuple[str, float]:
    """Return the name and p-value of the test of means; "" where nothing varies."""
    if not (std > 0).any():
        return "", np.nan
    if len(n) == 2:
        test = scipy.stats.ttest_ind_from_stats(
            mean[0], std[0], n[0], mean[1], std[1], n[1], equal_var=False
        )
        return "Welch’s t-test", float(test.pvalue)
    N = n.sum()
    between = (n * (mean - n @ mean / N) ** 2).sum()
    total = between + ((n - 1.0) * std**2).sum()
    test = one_way(np.array([between]), np.array([total]), len(n), round(float(N)))
    return "one-way analysis of variance", float(test.p_value[0])


def _test_of_counts(counts: Float[Array, "c v"]) -> tuple[str, float]:
    """Return the name and p-value of the test of counts; "" of a single category."""
    if (counts := counts[:, counts.any(axis=0)]).shape[1] < 2:
        return "", np.nan
    test = scipy.stats.chi2_contingency(counts, correction=False)
    return "chi-squared", float(test.pvalue)


def _distance(first: Float[Array, " v"], second: Float[Array, " v"]) -> float:
    """Return Yang and Dalton's standardised difference of shares of categories."""
    a, b = first[1:], second[1:]
    spread = (np.diag(a) - np.outer(a, a) + np.diag(b) - np.outer(b, b)) / 2.0
    try:
        return float(np.sqrt((b - a) @ np.linalg.solve(spread, b - a)))
    except np.linalg.LinAlgError:
        return float("nan")
