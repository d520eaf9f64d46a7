"""The pooled maximum-likelihood λ of the Yeo-Johnson transform, column by column.

    reference        the coarse centre and spread of each column's φ
    batch by batch   silos <── K candidates for each column's λ
                     the likelihood's slope F at each candidate, or its sign alone
                     the signs say in which of K + 1 cells λ lies

The likelihood is concave, so the signs at any candidates reveal the cell of λ and
nothing else; `unpooled.linalg.yeo_johnson` defines φ and F. There are two ways to
obtain signs: from totals that are opened (`signs_by_totals`) and by secure comparisons
(`signs_in_secret`). The reference is estimated in the same way, or declared by the
user (`reference_locations`).

References
----------
Marchand et al., SecureFedYJ: a safe feature Gaussianization protocol for Federated
Learning, NeurIPS 2022, sections 3 and 4. There K = 1 and λ itself is searched; here K
candidates share a round, and λ is searched in units of 1/spread.
"""

import abc
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from unpooled.arrays import Array, Bool, Float, Int, Shaped
from unpooled.errors import ConvergenceError, DataError
from unpooled.federation.federation import Federation
from unpooled.linalg.root_search import SignSearch
from unpooled.linalg.yeo_johnson import Reference
from unpooled.models.moments import check_finite
from unpooled.protocol.step import release, summed

_NUMBERS = ("centre", "spread", "lo", "hi")


@summed(
    count=release(
        "p", meaning="how many rows have a value in each column", counts="cells"
    )
)
def local_count(X: Float[Array, "n p"]) -> dict[str, Any]:
    """Return the number of observed cells of each column."""
    check_finite(X)
    return {"count": (~np.isnan(X)).sum(axis=0).astype(float)}


def pooled_count(federation: Federation) -> Int[Array, " p"]:
    """Return the number of observed cells, at least one in each column; one round."""
    count = np.rint(federation.sum(local_count)["count"]).astype(np.int64)
    if not count.all():
        names = [federation.feature_names[j] for j in np.flatnonzero(count == 0)]
        raise DataError(f"No silo has a single value in {', '.join(names)}.")
    return count


@final
@dataclass(frozen=True)
class Columns:
    """Public figures of the columns that are known before λ is searched.

    Attributes
    ----------
    count : (p,) array of int
        N, the number of observed cells.
    centre : (p,) array
        Coarse location of φ; negative where the column is searched mirrored.
    spread : (p,) array
        Coarse standard deviation of φ, a power of two; 0 where the column is constant.
    """

    count: Int[Array, " p"]
    centre: Float[Array, " p"]
    spread: Float[Array, " p"]

    @property
    def constant(self) -> Bool[Array, " p"]:
        """Mask of the columns that have no λ of their own."""
        return self.spread == 0.0

    @property
    def varying(self) -> Bool[Array, " p"]:
        """Mask of the columns whose λ is searched."""
        return ~self.constant

    def reference(self, j: int) -> Reference:
        """Return the location and scale relative to which column j is computed."""
        return Reference(float(self.centre[j]), float(self.spread[j]))


class Comparison(abc.ABC):
    """A way to obtain the signs of the likelihood's slope, and references to begin."""

    @abc.abstractmethod
    def references(self, federation: Federation) -> Columns:
        """Return counts and references estimated from the silos' rows."""

    @abc.abstractmethod
    def fits(
        self, federation: Federation, columns: Columns, factor: float
    ) -> Bool[Array, " p"]:
        """Return the mask of columns that lie where declared references say.

        Parameters
        ----------
        federation : Federation
            Rows, cells missing or not.
        columns : Columns
            With declared references.
        factor : float
            The factor by which the root mean square distance of φ from the centre may
            differ from the spread.
        """

    @abc.abstractmethod
    def search(self, n_columns: int, tol: float) -> SignSearch:
        """Return a search with as many candidates in a batch as suit the comparison."""

    @abc.abstractmethod
    def slopes(
        self,
        federation: Federation,
        columns: Columns,
        column: Int[Array, " l"],
        place: Float[Array, " l"],
    ) -> Shaped[Array, " l"]:
        """Return the likelihood's slope at candidates of λ, or if it rises; one batch.

        Parameters
        ----------
        federation : Federation
            Rows, cells missing or not.
        columns : Columns
            Counts and references.
        column : (l,) array of int
            The column of each candidate.
        place : (l,) array
            Candidates of λ times spread, as places of a `SignSearch`.
        """


@final
@dataclass
class Progress:
    """A search of every column's λ, which a later fit may go on with.

    Attributes
    ----------
    columns : Columns
        Counts and references.
    search : SignSearch
        The search for the columns that vary, narrowed by every finished batch.
    batches : int
        Number of finished batches.
    before : mapping or None
        The record before the last batch of this fit.
    """

    columns: Columns
    search: SignSearch
    batches: int = 0
    before: Mapping[str, Any] | None = None

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> "Progress":
        """Return the search that `as_record` wrote; raise ValueError or the like."""
        count, *rest = (record[name] for name in ("count", *_NUMBERS))
        centre, spread, lo, hi = (np.array(list(map(float.fromhex, x))) for x in rest)
        # An earlier version knew signs alone.
        known, slow = record.get("known"), record.get("slow", [])
        search = SignSearch(
            len(lo),
            float(record["tol"]),
            int(record["n_candidates"]),
            by_values=known is not None,
        )
        search.lo, search.hi = lo, hi
        if known is not None:
            search.slow = np.array(slow, bool)
            search.known = [
                {float.fromhex(v): float.fromhex(f) for v, f in points}
                for points in known
            ]
            if not len(search.slow) == len(search.known) == len(lo):
                raise ValueError("its values do not fit the columns")
        alike = len(centre) == len(spread) == len(count)
        if not alike or not len(hi) == len(lo) == np.count_nonzero(spread):
            raise ValueError("its columns do not fit together")
        columns = Columns(np.array(count, dtype=np.int64), centre, spread)
        return cls(columns, search, int(record["batches"]))

    def as_record(self) -> dict[str, Any]:
        """Return the search as JSON values, exact to the bit."""
        columns, search = self.columns, self.search
        values = columns.centre, columns.spread, search.lo, search.hi
        # Hexadecimal, because open cells are infinite, which JSON lacks.
        exact = ([float(x).hex() for x in array] for array in values)
        record = {
            "count": columns.count.tolist(),
            **dict(zip(_NUMBERS, exact, strict=True)),
            "tol": search.tol,
            "n_candidates": search.n_candidates,
            "batches": self.batches,
        }
        if search.by_values:
            record["slow"] = search.slow.tolist()
            record["known"] = [
                [[v.hex(), f.hex()] for v, f in points.items()]
                for points in search.known
            ]
        return record

    def run(
        self,
        federation: Federation,
        comparison: Comparison,
        keep: Callable[[dict[str, Any]], None] | None = None,
    ) -> None:
        """Narrow the cells of λ, batch by batch, to the tolerance.

        Parameters
        ----------
        federation : Federation
            Rows, cells missing or not.
        comparison : Comparison
            The way to obtain signs.
        keep : callable, optional
            Called with `as_record` before the first batch and after each.

        Raises
        ------
        ConvergenceError
            When the likelihood of a column rises to the largest λ tried.
        """
        reached = self.as_record()
        if keep is not None:
            keep(reached)
        varying = np.flatnonzero(self.columns.varying)
        while len(self.search.active):
            function, place = self.search.places()
            slopes = comparison.slopes(
                federation, self.columns, varying[function], place
            )
            if federation.coordinator.planned:
                # A plan has no slopes; it assumes columns whose λ is moderate.
                slopes = 1.0 - np.exp(place)
            self.search.narrow(function, place, slopes)
            self.batches += 1
            self.before, reached = reached, self.as_record()
            if keep is not None:
                keep(reached)
        if (beyond := varying[self.search.beyond]).size:
            names = [federation.feature_names[j] for j in beyond]
            raise ConvergenceError(
                f"No λ makes {', '.join(names)} look normal: the likelihood still "
                f"rises at the largest λ tried. Leave such columns out."
            )

    def check_rows(self, federation: Federation) -> None:
        """Refuse to continue over other numbers of rows; silos judge them, too."""
        if not np.array_equal(pooled_count(federation), self.columns.count):
            raise DataError("Rows changed since the fit was stopped: fit anew.")

    def lambdas(self) -> Float[Array, " p"]:
        """Return λ of every column; 1 for constant ones."""
        lambdas = np.ones(len(self.columns.count))
        varying = np.flatnonzero(self.columns.varying).tolist()
        for j, root in zip(varying, self.search.roots(), strict=True):
            lam = float(root) / float(self.columns.spread[j])
            lambdas[j] = self.columns.reference(j).mirrored(lam)
        return lambdas
