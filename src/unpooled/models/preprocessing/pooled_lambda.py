"""The pooled maximum-likelihood λ of the Yeo-Johnson transform, column by column.

    rounds 1, 2   count, mean of φ, squares about it ──> a reference: centre and spread
    batch by batch
        silos <── K candidates for each column's λ
        silos ── Σ u, Σ ψ^, Σ ψ^², Σ ψ^', Σ ψ^ ψ^' at each ──> the sign of F there
        the signs say in which of K + 1 cells λ is

The likelihood is concave, so the signs at any candidates reveal the cell of λ and
nothing else; `unpooled.linalg.yeo_johnson` says what F, u and ψ^ are.

References
----------
Marchand et al., SecureFedYJ: a safe feature Gaussianization protocol for Federated
Learning, NeurIPS 2022, sections 3 and 4. There K = 1 and λ itself is searched; here K
candidates share a round, and λ is searched in units of 1/spread.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from unpooled.arrays import Array, Bool, Float, Int, Shaped
from unpooled.errors import ConvergenceError, DataError
from unpooled.federation.federation import Federation
from unpooled.linalg.moments import observed_sums, squared_deviations
from unpooled.linalg.root_search import SignSearch, candidate
from unpooled.linalg.yeo_johnson import Column, Reference, log_size, slope_sign
from unpooled.protocol.step import Step, public, release, summed

# Candidates for each column in a batch of secure sums: 8 batches for 2^-27.
_CANDIDATES = 15
_NUMBERS = ("centre", "spread", "lo", "hi")
# A spread of φ below this many units in the last place of φ is rounding.
_ROUNDING = 16.0 * float(np.finfo(float).eps)


@summed(
    count=release("p", meaning="how many rows have a value in each column"),
    total=release(
        "p", meaning="the sum of the logarithms of 1 plus each column's absolute values"
    ),
)
def local_log_sizes(X: Float[Array, "n p"]) -> dict[str, Any]:
    """Count and add φ of the cells that are there."""
    check_finite(X)
    count, total = observed_sums(log_size(X))
    return {"count": count, "total": total}


@summed(
    takes={"mean": public("p", "the mean of each column's logarithms over all silos")},
    squares=release(
        "p", meaning="squared distances of those logarithms from their mean, added"
    ),
)
def local_log_squares(
    X: Float[Array, "n p"], *, mean: Float[Array, " p"]
) -> dict[str, Any]:
    """Add squares of φ about the federation's mean of φ."""
    return {"squares": squared_deviations(log_size(X), mean)}


@summed(
    takes={
        "centre": public("p", "where each column lies, on a logarithmic scale"),
        "spread": public("p", "how far each column is spread, on a logarithmic scale"),
        "column": public("l", "which column each comparison is about"),
        "lam": public("l", "candidate exponents of columns"),
    },
    sums=release(
        "5 l",
        meaning="five sums at each candidate for each column's λ: of logarithms, of "
        "transformed values, their squares, their slopes, and values times slopes",
    ),
)
def local_slopes(
    X: Float[Array, "n p"],
    *,
    centre: Float[Array, " p"],
    spread: Float[Array, " p"],
    column: Int[Array, " l"],
    lam: Float[Array, " l"],
) -> dict[str, Any]:
    """Add what the slope of the likelihood is made of, at each candidate."""
    sums = np.empty((5, len(column)))
    for j in np.unique(column):
        rows = Column(X[:, j], Reference(float(centre[j]), float(spread[j])))
        own = column == j
        sums[:, own] = rows.slope_sums(lam[own])
    return {"sums": sums}


@final
@dataclass(frozen=True)
class Columns:
    """What is public of the columns before λ is searched.

    Attributes
    ----------
    count : (p,) array of int
        N, the cells that are there.
    centre : (p,) array
        Of φ, coarse; negative where the column is searched mirrored.
    spread : (p,) array
        Of φ, a power of two; 0 where the column is constant.
    """

    count: Int[Array, " p"]
    centre: Float[Array, " p"]
    spread: Float[Array, " p"]

    @property
    def constant(self) -> Bool[Array, " p"]:
        """Columns that have no λ of their own."""
        return self.spread == 0.0

    @property
    def varying(self) -> Bool[Array, " p"]:
        """Columns whose λ is searched."""
        return ~self.constant

    def reference(self, j: int) -> Reference:
        """Return what column j is computed about."""
        return Reference(float(self.centre[j]), float(self.spread[j]))


def summed_columns(federation: Federation, sizes: Step, squares: Step) -> Columns:
    """Find counts and references by secure sums; two rounds.

    Parameters
    ----------
    federation : Federation
        Rows, cells missing or not.
    sizes, squares : Step
        `local_log_sizes` and `local_log_squares` under the model's name (`adopted`).
    """
    totals = federation.sum(sizes)
    count = checked_count(totals["count"], federation)
    mean = totals["total"] / count
    spread = np.sqrt(federation.sum(squares, mean=mean)["squares"] / count)
    # Some rows' φ round to the other side of the mean of equal numbers.
    constant = spread <= _ROUNDING * np.abs(mean)
    spread = np.exp2(np.rint(np.log2(np.where(constant, 1.0, spread))))
    return Columns(count, mean, np.where(constant, 0.0, spread))


def summed_signs(federation: Federation, columns: Columns, slopes: Step) -> Any:
    """Return what tells, for columns and places, where the slope is positive.

    Parameters
    ----------
    federation, columns : Federation, Columns
        As of `summed_columns`.
    slopes : Step
        `local_slopes` under the model's name; one round for each batch.
    """

    def positive(column: Int[Array, " l"], place: Float[Array, " l"]) -> Any:
        sums = federation.sum(
            slopes,
            centre=columns.centre,
            spread=columns.spread,
            column=column,
            lam=candidate(place) / columns.spread[column],
        )["sums"]
        return slope_sign(sums / columns.count[column]) > 0

    return positive


def summed_search(d: int, tol: float) -> SignSearch:
    """Return a search for secure sums."""
    return SignSearch(d, tol, _CANDIDATES)


@final
@dataclass
class Progress:
    """A search under way, which another fit may go on with.

    Attributes
    ----------
    columns : Columns
        Found first.
    search : SignSearch
        Of the columns that vary, narrowed by every batch that was finished.
    batches : int
        How many were.
    """

    columns: Columns
    search: SignSearch
    batches: int = 0

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> "Progress":
        """Read what `as_record` gave; a `ValueError` or the like if it did not."""
        count, *rest = (record[name] for name in ("count", *_NUMBERS))
        centre, spread, lo, hi = (np.array(list(map(float.fromhex, x))) for x in rest)
        search = SignSearch(len(lo), float(record["tol"]), int(record["n_candidates"]))
        search.lo, search.hi = lo, hi
        alike = len(centre) == len(spread) == len(count)
        if not alike or not len(hi) == len(lo) == np.count_nonzero(spread):
            raise ValueError("its columns do not fit together")
        columns = Columns(np.array(count, dtype=np.int64), centre, spread)
        return cls(columns, search, int(record["batches"]))

    def as_record(self) -> dict[str, Any]:
        """Return the progress as JSON values, exact to the bit."""
        columns, search = self.columns, self.search
        values = columns.centre, columns.spread, search.lo, search.hi
        # Hexadecimal, because open cells are infinite, which JSON lacks.
        exact = ([float(x).hex() for x in array] for array in values)
        return {
            "count": columns.count.tolist(),
            **dict(zip(_NUMBERS, exact, strict=True)),
            "tol": search.tol,
            "n_candidates": search.n_candidates,
            "batches": self.batches,
        }

    def run(
        self,
        federation: Federation,
        positive: Any,
        keep: Callable[[dict[str, Any]], None] | None = None,
    ) -> None:
        """Search every column's λ by batches of signs.

        Parameters
        ----------
        federation : Federation
            Names columns, and says whether rounds are only planned.
        positive : callable
            Takes columns and places, both (l,), and says where the slope is positive.
        keep : callable, optional
            Takes the record of what is reached, before the first batch and after each.
        """
        keep = keep or (lambda record: None)
        keep(self.as_record())
        varying = np.flatnonzero(~self.columns.constant)
        while len(self.search.active):
            function, place = self.search.places()
            above = positive(varying[function], place)
            # A plan learns no signs; it is made for columns whose λ is moderate.
            planned = federation.coordinator.planned
            self.search.narrow(function, place, place < 0 if planned else above)
            self.batches += 1
            keep(self.as_record())
        if (beyond := varying[self.search.beyond]).size:
            names = [federation.feature_names[j] for j in beyond]
            raise ConvergenceError(
                f"No λ makes {', '.join(names)} look normal: the likelihood still "
                f"rises at the largest λ tried. Leave such columns out."
            )

    def prove(self, federation: Federation, counts: Step, positive: Any) -> None:
        """Ask again what a later fit shall show: counts, and the ends of the cells.

        Silos take a λ as proven by the rounds of one fit, and what came before is of
        the fit that was stopped.
        """
        count = checked_count(federation.sum(counts)["count"], federation)
        if not np.array_equal(count, self.columns.count):
            raise DataError("Rows changed since the fit was stopped: fit anew.")
        varying = np.flatnonzero(self.columns.varying)
        ends = np.stack([self.search.lo, self.search.hi], axis=1)
        function, side = np.nonzero(np.isfinite(ends))
        if len(function):
            place = ends[function, side]
            above = positive(varying[function], place)
            self.search.narrow(function, place, above)

    def lambdas(self) -> Float[Array, " p"]:
        """Return λ of every column; 1 for constant ones."""
        lambdas = np.ones(len(self.columns.count))
        varying = np.flatnonzero(~self.columns.constant).tolist()
        for j, root in zip(varying, self.search.roots(), strict=True):
            lam = float(root) / float(self.columns.spread[j])
            lambdas[j] = self.columns.reference(j).mirrored(lam)
        return lambdas


def checked_count(
    count: Shaped[Array, " p"], federation: Federation
) -> Int[Array, " p"]:
    """Return the counts of cells as whole numbers, at least one in each column."""
    whole = np.rint(count).astype(np.int64)
    if not whole.all():
        names = [federation.feature_names[j] for j in np.flatnonzero(whole == 0)]
        raise DataError(f"No silo has a single value in {', '.join(names)}.")
    return whole


def check_finite(X: Float[Array, "n p"]) -> None:
    """Refuse infinite cells; missing ones are fine."""
    if np.isinf(X).any():
        raise DataError(
            "Input X contains infinity; missing values may be NaN.",
            rule="infinite_values",
        )
