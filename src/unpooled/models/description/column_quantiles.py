"""Quantiles of columns from veiled totals: what silos search, and what is opened.

    silos ── counts, sums and squares of φ, to the parties alone ──> first brackets
    level by level
      silos ── counts below candidates, to the parties alone ──> narrower brackets
    silos ── quantiles, as the brackets have them ──> opened

φ(x) = sgn(x) log(1 + |x|). No maximum or minimum is asked for: by Markov's inequality
the value of a rank lies near the mean of φ, in terms of its standard deviation and of
how many values lie at or beyond it. One outlier moves the mean of a logarithm little.

The totals are opened in the silos, whose programs all find the same brackets. What the
coordinator learns are the quantiles that come of it, and how wide their brackets are.
Each has at least `least` values, and is the narrower one of those that two ways of
cutting lead to (`unpooled.linalg.rank_search`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from unpooled.arrays import Array, Bool, Float, Int
from unpooled.linalg.moments import observed_sums, squared_deviations
from unpooled.linalg.rank_search import Brackets, counts_below, first_brackets, lerp
from unpooled.linalg.yeo_johnson import log_size
from unpooled.protocol.step import public

# Candidates in a bracket, and levels: brackets shrink to 2^-15 of the first ones, which
# are up to four times as wide as those that Markov's inequality gives, and which
# outliers make wider by a factor of 8 at most unless they are many.
COARSE = 7, 5
# Or to a single floating-point number.
FINE = 63, 11

PROBABILITIES = public("r", "the probabilities of the quantiles")
UNITS = public("p", "the multiples that each column's values are of; 0 for any")
LEAST = public("", "how many values each final bracket has at least", least="min_rows")
LOG_COUNT = public("g p", "how many values each column has")
LOG_TOTAL = public("p", "the sum of each column's signed logarithms")
LOG_SQUARES = public(
    "p", "the squared deviations of those logarithms from their mean, added"
)
BELOW = public("t l k", "how many values lie below the candidates of each level")
BELOW_MEANING = (
    "how many values lie below each candidate for a quantile; only the silos' programs "
    "open it"
)


@final
@dataclass(frozen=True)
class QuantileSearch:
    """The search for quantiles of columns, within groups of rows.

    Everything follows from totals, so that all silos have the same search. Searched are
    the values of two ranks for each of the g × p × r quantiles, between which the
    quantile lies: l = 2 g p r.

    Attributes
    ----------
    count : (g, p) array
        How many values each column has in each group.
    probabilities : (r,) array
        Probabilities of the quantiles.
    rank : (l,) array
        Ranks, from 1.
    share : (g, p, r) array
        How far each quantile lies from the lower to the upper value.
    valid : (g, p, r) array of bool
        Whether at least `least` values lie at or beyond both of them, on each side.
    unit : (l,) array
        The multiples that values are of; 0 for any.
    least : int
        How many values a final bracket has at least; with 1 a value itself is found.
    first : Brackets
        To begin with.
    """

    count: Float[Array, "g p"]
    probabilities: Float[Array, " r"]
    rank: Float[Array, " l"]
    share: Float[Array, "g p r"]
    valid: Bool[Array, "g p r"]
    unit: Float[Array, " l"]
    least: int
    first: Brackets

    @classmethod
    def of(
        cls,
        count: Float[Array, "g p"],
        n_values: Float[Array, " p"],
        centre: Float[Array, " p"],
        spread: Float[Array, " p"],
        *,
        probabilities: Float[Array, " r"],
        units: Float[Array, " p"],
        least: int,
        inward: bool = False,
    ) -> "QuantileSearch":
        """Return the search that follows from counts and from the moments of φ.

        Parameters
        ----------
        count : (g, p) array
            How many values each column has in each group.
        n_values, centre, spread : (p,) arrays
            How many it has in all, and where the φ of these lie: their root mean square
            distance from the centre is at most the spread.
        inward : bool, default False
            Whether a quantile with fewer than `least` values at or beyond it moves
            inward, to the nearest that has as many.
        """
        size = np.broadcast_to(count[:, :, None], (*count.shape, len(probabilities)))
        # As NumPy's linear quantiles: (N - 1) q counts from the smallest value.
        place = np.maximum(size - 1.0, 0.0) * probabilities
        if inward:
            inner = np.maximum(size - least, least - 1.0)
            place = np.clip(place, least - 1.0, inner)
        lower = np.floor(place)
        upper = np.minimum(np.ceil(place), np.maximum(size - 1.0, 0.0))
        valid = (lower + 1.0 >= least) & (size - upper >= least) & (size > 0)
        rank = np.stack([lower, upper], axis=-1) + 1.0

        def flat(of_column: Array) -> Array:
            spread_out = np.broadcast_to(of_column[:, None, None], rank.shape[1:])
            return np.tile(spread_out.ravel(), len(count))

        first = first_brackets(
            flat(centre),
            flat(spread),
            rank.ravel(),
            np.repeat(size.ravel(), 2),
            flat(n_values),
            exact=least <= 1,
        )
        share, unit = place - lower, flat(units)
        return cls(count, probabilities, rank.ravel(), share, valid, unit, least, first)

    @property
    def exact(self) -> bool:
        """Whether the search goes on to the values themselves."""
        return self.least <= 1

    def cuts(self, ways: Sequence[Brackets]) -> Float[Array, "l k"]:
        """Return the candidates of the next level, those of each way side by side."""
        K = levels(self.least)[0]
        return np.hstack([brackets.cuts(K, exact=self.exact) for brackets in ways])

    def reached(self, below: Float[Array, "t l k"]) -> Brackets:
        """Return the brackets that the counts of all levels lead to."""
        found, K, ways = self.first, levels(self.least)[0], self._ways()
        for counts in below:
            at = self.cuts(ways)
            found = ways[0].widened(
                at[:, :K], counts[:, :K], self.rank, self.least, found
            )
            ways = self._further(ways, at, counts)
        if self.exact:
            return found
        return found.replaced(ways[1], ways[1].hi - ways[1].lo < found.hi - found.lo)

    def _ways(self) -> list[Brackets]:
        """Return the first bracket of each way: see `unpooled.linalg.rank_search`."""
        return [self.first] if self.exact else [self.first, self.first]

    def _further(
        self,
        ways: Sequence[Brackets],
        at: Float[Array, "l k"],
        below: Float[Array, "l k"],
    ) -> list[Brackets]:
        """Return the brackets of the next level, by the counts below candidates."""
        K = levels(self.least)[0]
        found = [ways[0].narrowed(at[:, :K], below[:, :K], self.rank)]
        for brackets in ways[1:]:
            own, counts = at[:, K:], below[:, K:]
            found.append(brackets.regrouped(own, counts, self.rank, self.least))
        return found

    def own(
        self,
        X: Float[Array, "n p"],
        groups: Sequence[Any],
        below: Float[Array, "t l k"],
        level: int,
    ) -> Float[Array, "t l k"]:
        """Return a silo's counts below the candidates of this level and those before.

        Totals of all levels come with each round, so that a silo remembers none.

        Parameters
        ----------
        X : (n, p) array
            Rows of the silo.
        groups : sequence of mask or slice
            The rows of each group.
        below : (t, l, k) array
            The totals of the levels before.
        level : int
            From 0.
        """
        own = np.zeros(below.shape)
        ways, (g, p) = self._ways(), self.count.shape
        column = [[X[rows, j] for j in range(p)] for rows in groups]
        for depth in range(level + 1):
            at = self.cuts(ways)
            by_group = at.reshape(g, p, -1, at.shape[1])
            for i in range(g):
                for j in range(p):
                    counts = counts_below(column[i][j], by_group[i, j])
                    own[depth].reshape(by_group.shape)[i, j] = counts
            if depth < level:
                ways = self._further(ways, at, below[depth])
        return own

    def quantiles(
        self, brackets: Brackets, depth: int
    ) -> tuple[Float[Array, "g p r"], Float[Array, "g p r"]]:
        """Return the quantiles after `depth` levels, and the errors that they can have.

        Where too few values lie at or beyond one, both are -1.
        """
        first = log_size(self.first.hi) - log_size(self.first.lo)
        width = log_size(brackets.hi) - log_size(brackets.lo)
        finest = width <= 1.5 * first / float(COARSE[0] + 1) ** depth
        values, errors = brackets.values(self.rank, self.unit, finest, exact=self.exact)
        low, high = np.moveaxis(values.reshape(*self.share.shape, 2), -1, 0)
        error = errors.reshape(*self.share.shape, 2).max(axis=-1)
        quantile = lerp(low, np.maximum(low, high), self.share)
        return np.where(self.valid, quantile, -1.0), np.where(self.valid, error, -1.0)


def levels(least: int) -> tuple[int, int]:
    """Return how many candidates a bracket has at each level, and how many levels."""
    return FINE if least <= 1 else COARSE


def no_counts(g: int, p: int, r: int, least: int) -> Float[Array, "t l k"]:
    """Return zeros in the place of counts below candidates, for the first level."""
    K, T = levels(least)
    return np.zeros((T, 2 * g * p * r, K if least <= 1 else 2 * K))


def log_sums(
    X: Float[Array, "n p"],
) -> tuple[Float[Array, " p"], Float[Array, " p"]]:
    """Return how many cells have a value, and the sum of φ of these, by column."""
    count, total = observed_sums(log_size(X))
    return count.astype(float), total


def log_squares(
    X: Float[Array, "n p"], n_values: Float[Array, " p"], total: Float[Array, " p"]
) -> Float[Array, " p"]:
    """Return sums of squared deviations of φ from its mean."""
    return squared_deviations(log_size(X), total / np.maximum(n_values, 1.0))


def search_of(
    count: Float[Array, "g p"],
    n_values: Float[Array, " p"],
    total: Float[Array, " p"],
    squares: Float[Array, " p"],
    *,
    probabilities: Float[Array, " r"],
    units: Float[Array, " p"],
    least: int,
    inward: bool = False,
) -> QuantileSearch:
    """Return the search that follows from totals of all silos."""
    N = np.maximum(n_values, 1.0)
    mean, deviation = total / N, np.sqrt(np.maximum(squares, 0.0) / N)
    # To few digits, so that a sum's last digit, which depends on how rows lie in silos,
    # changes no candidate. The mean moves by a sixteenth of the spread at most, for
    # which a hundredth more of it makes up.
    varies = deviation > 0
    eighths = np.ceil(8.0 * np.log2(np.where(varies, deviation, 1.0)))
    spread = np.where(varies, 1.01 * np.exp2(eighths / 8.0), 0.0)
    step = np.where(varies, np.exp2(np.ceil(eighths / 8.0)) / 16.0, 1.0)
    centre = np.where(varies, np.rint(mean / step) * step, mean)
    return QuantileSearch.of(
        count,
        n_values,
        centre,
        spread,
        probabilities=probabilities,
        units=units,
        least=least,
        inward=inward,
    )


def shown(
    values: Float[Array, "..."] | Int[Array, "..."],
    errors: Float[Array, "..."] | Int[Array, "..."],
) -> Float[Array, "..."]:
    """Return opened numbers with NaN where they were withheld."""
    return np.where(errors < 0, np.nan, values)
