"""Quantiles of all columns over all silos, in NumPy's linear convention.

    comparison="summed"
      rounds 1 and 2   silos ── counts, sums and squares of φ ──> to the parties alone
      5 rounds         silos ── counts below candidates ────────> to the parties alone
      last round       silos ── the quantiles that follow ──────> opened
    comparison="mpc"
      11 rounds        counts, and by comparisons centre and spread of φ
      8 batches        by comparisons: which parts of a bracket have enough values, and
                       in which of these a quantile lies
    privacy=GaussianPrivacy(...)
      one round        silos ── counts of parts of a public range, with noise ──> opened

    different columns of the same people
      each keeps       its columns' quantiles, by the search of "summed" in its own rows
      if wanted        each silo ── these quantiles ──> shown

φ(x) = sgn(x) log(1 + |x|). `unpooled.models.description.column_quantiles` has the
search by totals, `quantile_comparisons` that by comparisons, and `private_quantiles`
the counts with noise.
"""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from types import MappingProxyType
from typing import Any, final

import numpy as np
from sklearn.utils.validation import check_is_fitted

from unpooled.arrays import Array, Float
from unpooled.errors import DataError
from unpooled.federation.federation import Federation
from unpooled.ledger.notebook_tables import pandas_if_installed
from unpooled.models.base import FederatedEstimator, disclosed_columns
from unpooled.models.description import (
    column_quantiles,
    private_quantiles,
    quantile_comparisons,
)
from unpooled.models.description.quantiles_results import quantiles_exhibits
from unpooled.models.moments import check_finite
from unpooled.models.parameter_checks import check_choice, whole_number
from unpooled.models.preprocessing import pooled_lambda, signs_in_secret
from unpooled.protocol.bounds import Counts
from unpooled.protocol.step import disclosed, kept, release, stays, summed
from unpooled.results.citations import Citation, interpolated

# Why a model on a column partition shows no quantiles that its silos keep.
OWN_CELLS = (
    "The quantiles of a silo's own columns are cells of its people, often of one: no "
    "silo shows them."
)
HYNDMAN_FAN = (
    "Hyndman RJ, Fan Y. Sample quantiles in statistical packages. The American "
    "Statistician 1996; 50: 361-365."
)
COMPARISONS = ("summed", "mpc")
# Steps of other modules that comparisons in secret take.
OF_COMPARISONS = (pooled_lambda.local_count, signs_in_secret, quantile_comparisons)
_EVERYBODY = (slice(None),)
_SEARCHED = {
    "count": column_quantiles.LOG_COUNT,
    "total": column_quantiles.LOG_TOTAL,
    "squares": column_quantiles.LOG_SQUARES,
    "below": column_quantiles.BELOW,
    "probabilities": column_quantiles.PROBABILITIES,
    "units": column_quantiles.UNITS,
    "least": column_quantiles.LEAST,
}


@final
@dataclass(frozen=True, eq=False)
class _Arguments:
    """Public arguments of a round of the search: `_SEARCHED`, and `inward`."""

    count: Float[Array, "1 p"]
    total: Float[Array, " p"]
    squares: Float[Array, " p"]
    probabilities: Float[Array, " r"]
    units: Float[Array, " p"]
    least: Any
    inward: bool
    below: Float[Array, "t l k"]

    def search(self) -> column_quantiles.QuantileSearch:
        """Return the search that follows from the totals."""
        return column_quantiles.search_of(
            self.count,
            self.count[0],
            self.total,
            self.squares,
            probabilities=self.probabilities,
            units=self.units,
            least=self.least,
            inward=self.inward,
        )


@summed(
    count=release("1 p", meaning="how many values each column has", veiled=True),
    total=release(
        "p", meaning="the sum of each column's signed logarithms", veiled=True
    ),
)
def local_log_sums(X: Float[Array, "n p"]) -> dict[str, Any]:
    """Count this silo's values, and add their φ."""
    check_finite(X)
    count, total = column_quantiles.log_sums(X)
    return {"count": count[None], "total": total}


@summed(
    takes={"count": column_quantiles.LOG_COUNT, "total": column_quantiles.LOG_TOTAL},
    squares=release(
        "p",
        meaning="the squared deviations of those logarithms from their mean, added",
        veiled=True,
    ),
)
def local_log_squares(
    X: Float[Array, "n p"], *, count: Float[Array, "1 p"], total: Float[Array, " p"]
) -> dict[str, Any]:
    """Add squared deviations of φ from its mean over all silos."""
    return {"squares": column_quantiles.log_squares(X, count[0], total)}


@summed(
    takes=_SEARCHED,
    searches=True,
    below=release(
        "t l k", meaning=column_quantiles.BELOW_MEANING, bound=Counts(), veiled=True
    ),
)
def local_below(
    X: Float[Array, "n p"], *, at: _Arguments, level: int
) -> dict[str, Any]:
    """Count this silo's values below the candidates of a level, and those before."""
    return {"below": at.search().own(X, _EVERYBODY, at.below, level)}


@summed(
    takes=_SEARCHED,
    value=release("p r", meaning="the quantiles of each column over all silos"),
    error=release("p r", meaning="how wide the bracket of each quantile is"),
)
def found_quantiles(party: str, *, at: _Arguments, leader: str) -> dict[str, Any]:
    """Return the quantiles that follow from totals of all silos.

    All silos find the same ones, and one of them sends them.
    """
    search = at.search()
    value, error = search.quantiles(search.reached(at.below), len(at.below))
    sends = float(party == leader)
    return {"value": sends * value[0], "error": sends * error[0]}


@kept(
    by="party",
    takes={
        "probabilities": column_quantiles.PROBABILITIES,
        "least": column_quantiles.LEAST,
    },
    # As on rows, where each of them is a search of its own.
    settings=(),
    quantile=stays("p r", meaning="the quantiles of each of the silo's columns"),
    bracket=stays("p r", meaning="how wide the bracket of each quantile is"),
)
def own_quantiles(
    X: Float[Array, "N p"],
    *,
    probabilities: Float[Array, " r"],
    least: int,
    unit: float,
) -> dict[str, Any]:
    """Search the quantiles of the silo's own columns; nothing leaves.

    The search is that of all silos' rows, in brackets of as many values: what a silo
    shows by itself is no closer to a cell.
    """
    check_finite(X)
    count, total = column_quantiles.log_sums(X)
    search = column_quantiles.search_of(
        count[None],
        count,
        total,
        column_quantiles.log_squares(X, count, total),
        probabilities=probabilities,
        units=np.full(X.shape[1], unit),
        least=least,
    )
    below = column_quantiles.no_counts(1, X.shape[1], len(probabilities), least)
    for level in range(len(below)):
        below = search.own(X, _EVERYBODY, below, level)
    value, error = search.quantiles(search.reached(below), len(below))
    return {
        "quantile": column_quantiles.shown(value, error)[0],
        "bracket": column_quantiles.shown(error, error)[0],
    }


@disclosed(
    by="party",
    takes={"probabilities": column_quantiles.PROBABILITIES},
    value=release("p r", meaning="the quantiles of each of the silo's own columns"),
    error=release("p r", meaning="how wide the bracket of each quantile is"),
)
def shown_quantiles(kept: Any, *, probabilities: Float[Array, " r"]) -> dict[str, Any]:
    """Disclose the quantiles of the silo's own columns."""
    withheld = np.isnan(kept["bracket"])
    return {
        "value": np.where(withheld, -1.0, kept["quantile"]),
        "error": np.where(withheld, -1.0, kept["bracket"]),
    }


# All that a model of another file lists to find quantiles.
STEPS = (
    local_log_sums,
    local_log_squares,
    local_below,
    found_quantiles,
    *OF_COMPARISONS,
)


@final
@dataclass(eq=False, repr=False)
class Quantiles(FederatedEstimator):
    """Quantiles of every column over all silos.

    Parameters
    ----------
    probabilities : sequence of float, default (0.25, 0.5, 0.75)
        Probabilities of the quantiles, from 0 to 1.
    comparison : {"summed", "mpc"}, default "summed"
        How silos search. "summed" adds counts below candidates, and the totals are
        opened in the silos alone, whose programs find the same brackets. "mpc" opens no
        count to anybody: silos compare in secret, which needs three silos or more and
        the extra `mpc`, and takes seconds.
    min_rows : int, default 10
        How many values at least lie in the final bracket of a quantile, and at or
        beyond it on either side. No silo takes fewer than its own `min_rows`, unless
        its policy allows order statistics. With 1 the search ends at the values
        themselves, and quantiles are those of NumPy.
    decimals : int or mapping of str to int, optional
        How many decimals values have, of all columns or by column. The search then ends
        at a single value, where at least `min_rows` cells have it.
    allow_coordinator_party : bool, default False
        With "mpc" and two silos, let the coordinator be the third party.
    privacy : GaussianPrivacy, optional
        Differential privacy: noise in counts that hides any one row, in place of a
        search and of `min_rows`. Values are counted in 4,096 parts of a public range,
        ``centre ± row_norm * scale``; those beyond it count at its ends.

    Attributes
    ----------
    quantiles_ : (r, p) array
        NaN where fewer than `min_rows` values lie at or beyond a quantile. On a column
        partition each silo keeps those of its own columns; reading them, or `errors_`,
        asks all silos to show them, which every silo must allow.
    errors_ : (r, p) array
        The most that a quantile can differ from that of the pooled rows, for the bounds
        of its bracket: 0 where it is a value. With `privacy` the width of a part of the
        range, to which the noise comes.
    intervals_ : (2, r, p) array
        Only with `privacy`: lower and upper ends of the quantiles' intervals at 95 %,
        of sampling and of the noise together, by ranks. An interval that would go
        beyond the public range ends there.
    privacy_ : dict
        Only with `privacy`: its parameters and cost, as of `StandardScaler`.
    probabilities_ : (r,) array
        Probabilities of the quantiles.
    columns_ : list of str
        Names of the columns.
    n_features_in_ : int
        p, the number of columns.
    feature_names_in_ : (p,) array of str
        Their names, where the silos' tables have names.

    Raises
    ------
    DataError
        For `probabilities` outside of [0, 1], and `decimals` or `min_rows` that are not
        whole numbers. On a column partition: for `decimals` by column, and `privacy`.
    ReleaseRefusedError
        On a column partition where silos do not let their own values be seen
        (`allow_disclosed`) and these are asked for.

    Notes
    -----
    Released: the quantiles, and how wide their brackets are. With
    ``comparison="summed"`` also totals that silos' programs open and nobody else: for
    each column the number of values, the sum of φ(x) = sgn(x) log(1 + abs(x)) and of
    its squared deviations, and counts below 35 candidates for each of the two values
    that a quantile lies between. With ``comparison="mpc"`` instead: for each column the
    number of values, and signs that reveal centre and spread of φ coarsely, which parts
    of a bracket have `min_rows` values or none, and the bracket of the quantile. Never
    released: a row, a minimum or maximum, or any silo's own count. With `privacy`
    instead: N, and how many values of each column lie in 5,460 parts of its public
    range, at six widths, all with noise.

    On a column partition nothing is released by the fit. Each silo searches its own
    columns with the same brackets, of at least `min_rows` values. Released, where they
    are read or a study asks for them (`disclose`): the quantiles, silo by silo, and how
    wide their brackets are.

    Where to search is found without a largest value: of N values whose φ has mean m and
    standard deviation s, one of rank k lies within s sqrt(N / k) of m (Markov's
    inequality; k counts from the nearer end). One outlier moves these little, because φ
    is a logarithm. Brackets shrink to 2^-10 of that or less (2^-13 from totals), unless
    fewer than `min_rows` values would be left, and end at multiples of powers of two on
    the scale of φ, whatever is searched: brackets of several searches would else differ
    by single values. Within its bracket a quantile is
    interpolated; in one that could not be narrower it is the number with the fewest
    digits, since values of which so many lie so close are mostly equal.

    Missing cells are left out.

    See Also
    --------
    numpy.nanquantile : its twin on pooled rows, method "linear".

    References
    ----------
    Marchand et al., SecureFedYJ, NeurIPS 2022: a search by signs, there of λ and here
    of ranks.

    Hyndman and Fan, Sample quantiles in statistical packages, The American Statistician
    50 (1996): definition 7.
    """

    _partitions = ("rows", "columns")
    _missing = True
    _kept_by_silos = ("quantiles_", "errors_")
    _ways = MappingProxyType({"comparison": COMPARISONS})
    _steps = (*OF_COMPARISONS, private_quantiles)
    _computed = ("intervals_",)
    quantiles_: Float[Array, "r p"] = field(init=False)
    errors_: Float[Array, "r p"] = field(init=False)
    probabilities_: Float[Array, " r"] = field(init=False)
    columns_: list[str] = field(init=False)
    _exhibits = quantiles_exhibits

    probabilities: Any = (0.25, 0.5, 0.75)
    _: KW_ONLY
    comparison: str = "summed"
    min_rows: int = 10
    decimals: Any = None
    allow_coordinator_party: bool = False
    privacy: Any = None

    def _citation(self) -> Citation:
        if self.privacy is not None:
            return private_quantiles.CITATION
        how = {
            "mpc": "by secure multi-party computation",
            "summed": "from counts over all silos",
        }[self.comparison]
        return Citation(
            f"Quantiles of all rows (linear convention) were found by a search {how}.",
            (HYNDMAN_FAN,),
            apart_from=interpolated("quantiles", self),
        )

    def _fit(self, federation: Federation, y: Any) -> None:
        probabilities = probabilities_of(self.probabilities)
        if federation.partition == "columns":
            self._fit_own(federation, probabilities)
        elif self.privacy is None:
            found = column_values(self, federation, probabilities)
            self.quantiles_, self.errors_ = found
        else:
            private = private_quantiles.private_quantiles(
                self, federation, probabilities
            )
            self.quantiles_, self.intervals_ = private.values, private.intervals
            self.errors_ = np.tile(private.widths, (len(probabilities), 1))
            self.privacy_ = private.privacy
        self.probabilities_ = probabilities
        self.columns_ = list(federation.feature_names)

    def _fit_own(
        self, federation: Federation, probabilities: Float[Array, " r"]
    ) -> None:
        """Have each silo of a column partition find its own columns' quantiles."""
        if self.privacy is not None or isinstance(self.decimals, Mapping):
            raise DataError(
                "On a column partition each silo finds the quantiles of its own "
                "columns. Leave privacy out, and give decimals as one number."
            )
        check_choice("comparison", self.comparison, COMPARISONS)
        units = units_of(self.decimals, federation.feature_names)
        federation.keep(
            own_quantiles,
            probabilities=probabilities,
            least=check_least(self.min_rows),
            unit=float(units[0]),
        )

    def _gather(self, federation: Federation) -> None:
        asked = {"kept_of": self.kept_, "probabilities": self.probabilities_}
        shown = disclosed_columns(federation, shown_quantiles, **asked)
        value, error = shown["value"].T, shown["error"].T
        self.quantiles_ = column_quantiles.shown(value, error)
        self.errors_ = column_quantiles.shown(error, error)

    def to_frame(self) -> Any:
        """Return a pandas data frame of quantiles, probabilities by columns.

        On a column partition it asks the silos for them, as reading `quantiles_` does.
        """
        pd = pandas_if_installed()

        check_is_fitted(self)
        index = pd.Index(self.probabilities_, name="probability")
        return pd.DataFrame(self.quantiles_, index, self.columns_)


def quantiles(
    federation: Federation,
    probabilities: Any = (0.25, 0.5, 0.75),
    *,
    comparison: str = "summed",
    min_rows: int = 10,
    decimals: Any = None,
    allow_coordinator_party: bool = False,
    privacy: Any = None,
) -> Any:
    """Return quantiles of every column over all silos.

    Parameters
    ----------
    federation : Federation
        Missing cells are left out. On a column partition each silo is asked to show
        the quantiles of its own columns.
    probabilities : sequence of float, default (0.25, 0.5, 0.75)
        Probabilities of the quantiles; this and what follows are as of `Quantiles`,
        which this fits, and which says what is released.
    comparison : {"summed", "mpc"}, default "summed"
        How silos search.
    min_rows : int, default 10
        How many values lie in the bracket of a quantile at least.
    decimals : int or mapping of str to int, optional
        How many decimals values have.
    allow_coordinator_party : bool, default False
        With "mpc" and two silos, let the coordinator be the third party.
    privacy : GaussianPrivacy, optional
        Differential privacy, in place of a search.

    Returns
    -------
    DataFrame
        Probabilities by columns. A missing number stands where fewer than `min_rows`
        values lie at or beyond a quantile.

    Raises
    ------
    DataError, ReleaseRefusedError
        As of `Quantiles`.
    """
    # Before silos are asked for what could not be shown.
    pandas_if_installed()
    model = Quantiles(
        probabilities,
        comparison=comparison,
        min_rows=min_rows,
        decimals=decimals,
        allow_coordinator_party=allow_coordinator_party,
        privacy=privacy,
    )
    return model.fit(federation).to_frame()


def column_values(
    model: Any,
    federation: Federation,
    probabilities: Float[Array, " r"],
    *,
    units: Float[Array, " p"] | None = None,
    inward: bool = False,
) -> tuple[Float[Array, "r p"], Float[Array, "r p"]]:
    """Return quantiles and their errors, for a model that lists `STEPS`.

    Parameters
    ----------
    model : estimator
        With the parameters `min_rows` and `decimals`, and `comparison` and
        `allow_coordinator_party` unless it always searches by totals.
    federation : Federation
        Its columns are searched.
    probabilities : (r,) array
        Probabilities of the quantiles.
    units : (p,) array, optional
        The multiples that values are of; those of the model's `decimals` when omitted.
    inward : bool, default False
        As of `Search.of`.

    Raises
    ------
    DataError
        For a `comparison` that there is not.
    """
    comparison = getattr(model, "comparison", "summed")
    least = check_least(model.min_rows)
    if units is None:
        units = units_of(model.decimals, federation.feature_names)
    check_choice("comparison", comparison, COMPARISONS)
    if comparison == "mpc":
        federation.coordinator.begin_computing(model.allow_coordinator_party)
        value, error = quantile_comparisons.compared_quantiles(
            federation, probabilities, units=units, least=least, inward=inward
        )
    else:
        value, error = _summed(federation, probabilities, units, least, inward)
    return column_quantiles.shown(value, error).T, column_quantiles.shown(
        error, error
    ).T


def inward_values(
    model: Any, federation: Federation, probabilities: Float[Array, " r"]
) -> Float[Array, "r p"]:
    """Return quantiles; those near an end move inward until `min_rows` lie beyond them.

    `model` is as for `column_values`.

    Raises
    ------
    DataError
        For a column with fewer than two times `min_rows` values.
    """
    found, _ = column_values(model, federation, probabilities, inward=True)
    names = federation.feature_names
    if few := np.flatnonzero(np.isnan(found).any(axis=0)).tolist():
        raise DataError(
            f"Fewer than {2 * model.min_rows} values are in "
            f"{', '.join(names[j] for j in few)}. Leave such columns out with select."
        )
    return found


def _summed(
    federation: Federation,
    probabilities: Float[Array, " r"],
    units: Float[Array, " p"],
    least: int,
    inward: bool,
) -> tuple[Float[Array, "p r"], Float[Array, "p r"]]:
    sums = federation.sum(local_log_sums, to="parties")
    squares = federation.sum(local_log_squares, to="parties", **sums)["squares"]
    asked: Mapping[str, Any] = {
        **sums,
        "squares": squares,
        "probabilities": probabilities,
        "units": units,
        "least": least,
        "inward": inward,
    }
    p, r = federation.n_features, len(probabilities)
    below: Any = column_quantiles.no_counts(1, p, r, least)
    for level in range(len(below)):
        arguments = {**asked, "below": below, "level": level}
        below = federation.sum(local_below, to="parties", **arguments)["below"]
    leader = federation.parties[0]
    found = federation.sum(found_quantiles, leader=leader, below=below, **asked)
    return found["value"], found["error"]


def probabilities_of(probabilities: Any) -> Float[Array, " r"]:
    """Return probabilities as an array; refuse what is none."""
    try:
        found = np.atleast_1d(np.asarray(probabilities, dtype=float))
    except (TypeError, ValueError):
        found = np.array([np.nan])
    if found.ndim != 1 or not len(found) or not ((found >= 0) & (found <= 1)).all():
        raise DataError(
            f"probabilities={probabilities!r}; give numbers from 0 to 1, such as "
            f"[0.25, 0.5, 0.75]."
        )
    return found


def check_least(min_rows: Any) -> int:
    """Return how many values a bracket has at least; refuse what is no number."""
    why = ", where quantiles are single values, up"
    return whole_number("min_rows", min_rows, why=why)


def units_of(decimals: Any, columns: Sequence[str]) -> Float[Array, " p"]:
    """Return the multiples that columns' values are of; refuse what are no decimals."""
    given: Any = dict.fromkeys(columns, decimals) if _whole(decimals) else decimals
    if given is None:
        return np.zeros(len(columns))
    if not isinstance(given, Mapping) or not all(map(_whole, given.values())):
        raise DataError(
            f"decimals={decimals!r}; give a whole number, or one for each column by "
            f'name, such as {{"age": 0}}.'
        )
    if unknown := sorted(set(given) - set(columns)):
        raise DataError(f"decimals names {unknown}, which are no columns.")
    return np.array([10.0 ** -given[c] if c in given else 0.0 for c in columns])


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
