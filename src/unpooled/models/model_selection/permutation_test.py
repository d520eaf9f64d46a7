"""Permutation tests of an association, with permutations that stay in the silos.

    rounds 1 to 3   moments of all rows: `unpooled.models.moments`
    round 4         each silo puts its rows into B other orders, against its labels,
                    its second view or column by column
                    silos ── B association matrices, masked ──> totals that the silos
                    alone open
    round 5         each silo computes the B statistics of the totals
                    one silo ── how many reach the observed one ──> p-value

Neither the permutations nor what came of them leave the silos: the coordinator opens
three numbers, however many permutations there are. Rows change places within their
silo only. So differences between silos belong to both sides, and what is tested is the
association within silos, given these differences.

Whether silos differ is a question about all rows: a permutation deals them into groups
of the silos' sizes. How many rows of silo s come to group g is drawn from these sizes,
the same at all ends, and which ones by silo s alone, so that every way to deal all rows
has the same probability. The silos' sizes are needed for it, which they disclose:

    round 1         silos ── sizes, shown ──> how many rows go where, B times
    rounds 2 to 4   moments of all rows
    round 5         silos ── B sums of each group's rows, masked ──> totals that the
                    silos alone open; and of the silos as they are the statistic
    round 6         as round 5 above

The association matrix of two views is ``T = Uᵀ V`` of their rows u and v, and the
statistic is the sum of its squares. With whitened views it is Pillai's trace, the sum
of the squared canonical correlations; with labels as v, that of the discriminant.

References
----------
Good, Permutation, Parametric, and Bootstrap Tests of Hypotheses, 3rd edition (2005),
chapter 3. Horn, A rationale and test for the number of factors in factor analysis,
Psychometrika 30 (1965); with permuted columns Buja and Eyuboglu, Remarks on parallel
analysis, Multivariate Behavioral Research 27 (1992).
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, final

import numpy as np
import scipy.linalg

from unpooled.arrays import Array, Float, Int, Shaped
from unpooled.errors import DataError
from unpooled.federation.federation import Federation
from unpooled.linalg.eigen import leading_eigenpairs
from unpooled.models import moments
from unpooled.models.base import FederatedEstimator
from unpooled.models.discriminant.classes import (
    NAMES,
    OPENED_SIZES,
    OWN_SIZES,
    agreed_classes,
    check_label,
    class_codes,
    class_sizes,
    local_class_counts,
    local_names,
)
from unpooled.models.model_selection.scoring import last_step
from unpooled.models.moments import MEAN, complete, pooled_mean, pooled_scatter
from unpooled.models.parameter_checks import whole_number
from unpooled.models.two_views.two_views import views_of
from unpooled.protocol.step import disclosed, public, release, summed
from unpooled.results.exhibits import Column, Exhibit, ResultTable
from unpooled.results.fitted_attributes import ordinals

# Below this share of the largest eigenvalue a whitened direction would be rounding.
_SINGULAR = 1e-10
_LEVEL = 0.95
# A silo knows which of its own rows a group has; at least so many are of others.
_FEWEST = 10
# Statistics that differ by rounding alone are equal.
_TIE = 1e-9
_NUMBERS = public("b", "the number of each permutation; 0 is the rows' own order")
_ORDERS = "of the rows in each of the silo's own orders, added over all rows"
_EXCEEDING = (
    "number of permutations whose statistic reaches that of the rows as they are"
)
_REFERENCE = "the value that 95 % of the permutations stay below"
_FOUND: dict[str, Any] = {
    "statistic": release("1", meaning="the statistic of the rows as they are"),
    "exceeding": release("1", meaning=_EXCEEDING),
    "reference": release("1", meaning=_REFERENCE),
}


def _orders(X: Float[Array, "n p"], seed: int) -> np.random.Generator:
    """Return the generator of a silo's permutations, the same in a repeated fit.

    It depends on the silo's rows, so that nobody else can repeat it.
    """
    rows = np.ascontiguousarray(X)
    digest = hashlib.blake2b(rows.data, digest_size=16).digest()
    return np.random.default_rng([seed, *digest])


def _products(
    u: Float[Array, "n r"],
    v: Float[Array, "n s"],
    numbers: Float[Array, " b"],
    rng: np.random.Generator,
) -> Float[Array, "b r s"]:
    """Return ``uᵀ v`` with the rows of v in their own order, and in random ones."""
    found = np.empty((len(numbers), u.shape[1], v.shape[1]))
    for place, number in enumerate(numbers):
        found[place] = u.T @ (v[rng.permutation(len(v))] if number else v)
    return found


@summed(
    within_silos=True,
    by="party",
    takes={
        "numbers": _NUMBERS,
        "mean": MEAN,
        "first": public(
            "r p", "weights of columns in each direction of the first view"
        ),
        "second": public("s p", "the same of the second view"),
    },
    products=release(
        "b r s", meaning=f"products of both views' directions {_ORDERS}", veiled=True
    ),
)
def local_permuted_products(
    X: Float[Array, "n p"],
    *,
    numbers: Float[Array, " b"],
    mean: Float[Array, " p"],
    first: Float[Array, "r p"],
    second: Float[Array, "s p"],
    seed: int,
) -> dict[str, Any]:
    """Multiply this silo's rows of two views, the second in other orders."""
    x = complete(X) - mean
    u, v = x @ first.T, x @ second.T
    return {"products": _products(u, v, numbers, _orders(X, seed))}


@summed(
    within_silos=True,
    by="party",
    takes={
        "numbers": _NUMBERS,
        "mean": MEAN,
        "first": public("r p", "weights of columns in each direction"),
        "classes": NAMES,
        "count": OPENED_SIZES,
    },
    products=release(
        "b r c", meaning=f"sums of directions by class {_ORDERS}", veiled=True
    ),
    own=OWN_SIZES,
)
def local_permuted_classes(
    X: Float[Array, "n p"],
    y: Shaped[Array, " n"],
    *,
    numbers: Float[Array, " b"],
    mean: Float[Array, " p"],
    first: Float[Array, "r p"],
    classes: Int[Array, "c w"],
    count: Float[Array, " c"],
    seed: int,
) -> dict[str, Any]:
    """Add this silo's rows class by class, the labels in other orders."""
    u = (complete(X) - mean) @ first.T
    codes = class_codes(y, classes)
    v = (codes[:, None] == np.arange(len(classes))) / np.sqrt(count)
    return {
        "products": _products(u, v, numbers, _orders(X, seed)),
        "own": class_sizes(codes, classes),
    }


@summed(
    by="party",
    takes={
        "numbers": _NUMBERS,
        "mean": MEAN,
        "spread": public("p", "the root of each column's sum of squares"),
        "pairs": public("2 l", "the pairs of columns"),
    },
    correlations=release(
        "b l",
        meaning=f"correlations of every two columns {_ORDERS}, by column",
        veiled=True,
    ),
)
def local_permuted_columns(
    X: Float[Array, "n p"],
    *,
    numbers: Float[Array, " b"],
    mean: Float[Array, " p"],
    spread: Float[Array, " p"],
    pairs: Int[Array, "2 l"],
    seed: int,
) -> dict[str, Any]:
    """Multiply this silo's columns, each of them in orders of its own."""
    z, rng = (complete(X) - mean) / spread, _orders(X, seed)
    found = np.empty((len(numbers), pairs.shape[1]))
    for place, number in enumerate(numbers):
        mixed = rng.permuted(z, axis=0) if number else z
        found[place] = (mixed.T @ mixed)[pairs[0], pairs[1]]
    return {"correlations": found}


@disclosed(by="party", size=release("", meaning="how many rows the silo has"))
def own_size(X: Float[Array, "n p"]) -> dict[str, Any]:
    """Disclose the silo's number of rows."""
    return {"size": np.array(float(len(X)))}


@summed(
    by="party",
    takes={
        "deals": public("b k k", "how many rows of each silo come to each group"),
        "sizes": public("k", "how many rows each silo and each group has"),
        "mean": MEAN,
        "first": public("r p", "weights of columns in each direction"),
    },
    products=release(
        "b r k",
        meaning="sums of directions by group, into which the silo deals its rows at "
        "random, added over all rows",
        veiled=True,
    ),
    observed=release(
        "",
        meaning="squared sums of the directions of each silo, divided by its number of "
        "rows",
        veiled=True,
    ),
)
def local_dealt_rows(
    X: Float[Array, "n p"],
    party: str,
    *,
    deals: Int[Array, "b k k"],
    sizes: Float[Array, " k"],
    mean: Float[Array, " p"],
    first: Float[Array, "r p"],
    silos: Sequence[str],
    seed: int,
) -> dict[str, Any]:
    """Add this silo's rows group by group, dealt at random."""
    if _shows_few(deals, sizes):
        raise DataError("A group would have few rows of others.", rule="min_rows")
    u, rng = (complete(X) - mean) @ first.T, _orders(X, seed)
    place, groups = list(silos).index(party), np.arange(len(sizes))
    products = np.empty((len(deals), u.shape[1], len(sizes)))
    for b, own in enumerate(deals[:, place]):
        dealt = rng.permutation(np.repeat(groups, own))
        products[b] = u.T @ ((dealt[:, None] == groups) / np.sqrt(sizes))
    return {
        "products": products,
        "observed": np.asarray(np.sum(u.sum(axis=0) ** 2) / sizes[place]),
    }


@summed(
    takes={
        "products": public(
            "b r k",
            "products of directions with groups that rows were dealt to at random, "
            "which the silos alone open",
        ),
        "observed": public("", "the statistic of the silos, which they alone open"),
    },
    **_FOUND,
)
def found_differences(
    party: str,
    *,
    products: Float[Array, "b r k"],
    observed: Float[Array, ""],
    leader: str,
) -> dict[str, Any]:
    """Compare the statistics of the groups with that of the silos; one sends it."""
    others = (products**2).sum(axis=(1, 2))
    values = np.append(float(observed), others)[:, None]
    return _compared(values, party == leader)


@summed(
    takes={
        "products": public(
            "b r s",
            "products of two views under each permutation, which the silos alone open",
        )
    },
    **_FOUND,
)
def found_association(
    party: str, *, products: Float[Array, "b r s"], leader: str
) -> dict[str, Any]:
    """Compare the statistics of the totals; one silo sends what all silos find."""
    return _compared((products**2).sum(axis=(1, 2))[:, None], party == leader)


@summed(
    takes={
        "correlations": public(
            "b l", "correlations under each permutation, which the silos alone open"
        ),
        "mean": MEAN,
    },
    statistic=release(
        "p", meaning="the eigenvalues (variances of the components) of the correlations"
    ),
    exceeding=release("p", meaning=_EXCEEDING),
    reference=release("p", meaning=_REFERENCE),
)
def found_eigenvalues(
    party: str,
    *,
    correlations: Float[Array, "b l"],
    mean: Float[Array, " p"],
    leader: str,
) -> dict[str, Any]:
    """Compare the eigenvalues of the totals; one silo sends what all silos find."""
    p = len(mean)
    values = np.empty((len(correlations), p))
    for place, triangle in enumerate(correlations):
        R = np.zeros((p, p))
        R[np.triu_indices(p)] = triangle
        values[place] = scipy.linalg.eigvalsh(R, lower=False)[::-1]
    return _compared(values, party == leader)


def _compared(values: Float[Array, "b k"], leads: bool) -> dict[str, Any]:
    """Compare the first statistics with the others; zeros except at the first silo."""
    observed, others = values[0], values[1:]
    reached = others >= observed * (1 - _TIE)
    found = {
        "statistic": observed,
        "exceeding": reached.sum(axis=0).astype(float),
        "reference": np.quantile(others, _LEVEL, axis=0),
    }
    return {name: leads * value for name, value in found.items()}


@final
@dataclass(eq=False, repr=False)
class PermutationTest(FederatedEstimator):
    """A permutation test of the association that a model describes.

    `permutation_test` runs it.

    Parameters
    ----------
    estimator : estimator
        Whose association is tested; see `permutation_test`.
    n_permutations : int, default 199
        B.
    random_state : int, optional
        Seed of the silos' permutations, which depend on their rows too.

    Attributes
    ----------
    statistic_ : (k,) array
        Statistic of the rows as they are: k = 1, or the p eigenvalues of the
        correlations.
    p_value_ : (k,) array
        ``(1 + exceeding_) / (1 + B)``: the probability of such a statistic, or a larger
        one, where there is no association within silos; of a `Heterogeneity`, where
        silos do not differ.
    exceeding_ : (k,) int array
        Permutations whose statistic reaches `statistic_`.
    reference_ : (k,) array
        95 % quantile of the permutations' statistics.
    n_components_ : int
        Only of a PCA: how many of the first eigenvalues are above `reference_`, Horn's
        parallel analysis.
    n_samples_ : int
        N, the sample size over all silos.
    """

    is_model = False
    _steps = (
        *(moments.local_total, moments.local_squares, moments.local_scatter),
        *(local_names, local_class_counts),
    )
    statistic_: Float[Array, " k"] = field(init=False)
    p_value_: Float[Array, " k"] = field(init=False)
    exceeding_: Int[Array, " k"] = field(init=False)
    reference_: Float[Array, " k"] = field(init=False)
    n_components_: int = field(init=False)
    n_samples_: int = field(init=False)

    estimator: Any = None
    _: KW_ONLY
    n_permutations: Any = 199
    random_state: int | None = None

    def _fit(self, federation: Federation, y: Any) -> None:
        B = self.n_permutations
        check_permutations("n_permutations", B)
        kind = _tested(self.estimator)
        seed = federation.seed(self.random_state)
        asked = {"numbers": np.arange(B + 1.0), "seed": int(seed)}
        leader = federation.parties[0]
        if kind == "silos":
            groups = dealt_groups(federation, B, int(seed))
            found = compared_silos(federation, groups, *self._moments(federation))
        elif kind == "columns":
            mean, S = self._moments(federation)
            spread = np.sqrt(S.diagonal())
            if not (spread > 0.0).all():
                raise DataError("A constant column has no correlations; leave it out.")
            pairs = np.array(np.triu_indices(len(mean)))
            sent = {"mean": mean, "spread": spread, "pairs": pairs}
            totals = federation.sum(
                local_permuted_columns, to="parties", **asked, **sent
            )
            found = federation.sum(
                found_eigenvalues,
                correlations=totals["correlations"],
                mean=mean,
                leader=leader,
            )
        else:
            products = (
                self._by_class(federation, y, asked)
                if kind == "classes"
                else self._of_views(federation, y, asked, whitened=kind == "views")
            )
            found = federation.sum(found_association, products=products, leader=leader)
        for name, values in judged(found, B).items():
            setattr(self, f"{name}_", values)
        if kind == "columns":
            above = self.statistic_ > self.reference_
            self.n_components_ = len(above) if above.all() else int(np.argmin(above))

    def _moments(
        self, federation: Federation
    ) -> tuple[Float[Array, " p"], Float[Array, "p p"]]:
        """Return the mean and the scatter of all rows; three rounds."""
        self.n_samples_, mean = pooled_mean(federation)
        return mean, pooled_scatter(federation, mean)

    def _by_class(self, federation: Federation, y: Any, asked: Any) -> Any:
        check_label(federation, y)
        names, count = agreed_classes(
            federation, local_names, self.estimator.classes, self._n_planned()
        )
        mean, S = self._moments(federation)
        totals = federation.sum(
            local_permuted_classes,
            to="parties",
            **asked,
            mean=mean,
            first=_whitening(S, range(len(S))),
            classes=names,
            count=count,
        )
        return totals["products"]

    def _of_views(
        self, federation: Federation, y: Any, asked: Any, *, whitened: bool
    ) -> Any:
        x_names, y_names = views_of(federation, y)
        both = federation.select([*x_names, *y_names])
        mean, S = self._moments(both)
        sides = range(len(x_names)), range(len(x_names), len(mean))
        if whitened:
            first, second = (_whitening(S, own) for own in sides)
        else:
            spread = np.sqrt(S.diagonal() if self.estimator.scale else np.ones(len(S)))
            weights = np.diag(1.0 / np.where(spread > 0.0, spread, 1.0))
            first, second = (weights[own] for own in sides)
        totals = both.sum(
            local_permuted_products,
            to="parties",
            **asked,
            mean=mean,
            first=first,
            second=second,
        )
        return totals["products"]

    def _exhibits(self, columns: Sequence[str]) -> list[Exhibit]:
        kind = _tested(self.estimator)
        names = {Column("Test"): [_STATISTICS[kind]]}
        if len(self.statistic_) > 1:
            names = {Column("Eigenvalue"): ordinals(len(self.statistic_))}
        cells = permutation_cells(
            self.statistic_, self.reference_, self.exceeding_, self.p_value_
        )
        table = ResultTable.of("permutations", names | cells)
        text = (
            f"The statistic is compared with those of {self.n_permutations} other "
            f"orders of the rows, into which each silo put its own rows. Differences "
            f"between silos are in all of them: what is tested is association within "
            f"silos."
        )
        if kind == "silos":
            text = (
                f"The statistic is compared with those of {self.n_permutations} other "
                f"groups of the silos’ sizes, into which each silo dealt its own rows "
                f"at random. The test holds for rows of any distribution."
            )
        if kind == "columns":
            text += (
                f" By parallel analysis {self.n_components_} of the components stand "
                f"out from those of unassociated columns."
            )
        return [Exhibit("Permutation test", text, [table])]


def judged(found: Mapping[str, Any], B: int) -> dict[str, Array]:
    """Return the results of B permutations for statistics, with p-values.

    Parameters
    ----------
    found : mapping of str to (k,) array
        "statistic", "reference" and "exceeding", as a silo sends them.
    B : int
        Number of permutations; the rows' own order is one more.
    """
    exceeding = np.rint(found["exceeding"]).astype(np.int64)
    return {
        "statistic": found["statistic"],
        "reference": found["reference"],
        "exceeding": exceeding,
        "p_value": (1.0 + exceeding) / (1.0 + B),
    }


def permutation_cells(
    statistic: Any, reference: Any, exceeding: Any, p_value: Any
) -> dict[Column, Any]:
    """Return the columns of a table of permutation tests, behind their names."""
    return {
        Column("Value", "number"): statistic,
        Column("95 % of permutations below", "number", "reference"): reference,
        Column("Permutations that reach it", "count", "exceeding"): exceeding,
        Column("p-value", "p-value"): p_value,
    }


def check_permutations(name: str, B: Any) -> None:
    """Refuse a number of permutations that no test can be made of."""
    whole_number(name, B, 19, why=", the fewest by which a p-value can be 0.05")


# The steps of a test of differences between silos, for a model that has the moments.
OF_SILOS = (own_size, local_dealt_rows, found_differences)


@final
@dataclass(frozen=True, eq=False)
class DealtGroups:
    """Groups of the silos' sizes, B times: how many rows of each silo come to each.

    Attributes
    ----------
    deals : (b, k, k) array of int
        How many rows silo i gives to group j.
    sizes : (k,) array of int
        How many rows each silo has, and each group.
    seed : int
        Seed of the silos' draws of rows.
    """

    deals: Int[Array, "b k k"]
    sizes: Int[Array, " k"]
    seed: int


def dealt_groups(federation: Federation, B: int, seed: int) -> DealtGroups:
    """Return B groupings of all rows, by the sizes that silos disclose; one round.

    Raises
    ------
    DataError
        Where a group would have few rows beside those of one silo.
    ReleaseRefusedError
        Where a silo's policy does not let it disclose its size.
    """
    silos = list(federation.parties)
    if len(silos) < 2:
        raise DataError("Differences are those of at least two silos.")
    shown = federation.collect(own_size)
    sizes = np.array([round(float(shown[silo]["size"])) for silo in silos])
    if federation.coordinator.planned:
        sizes = np.full(len(silos), 100)
    deals = _dealt(sizes, B, np.random.default_rng(seed))
    if _shows_few(deals, sizes):
        raise DataError(
            f"A silo has too few rows to deal groups of its size: of one of them a "
            f"silo that knows its own rows would learn the sum of fewer than "
            f"{_FEWEST} others. `heterogeneity` has tests that need none."
        )
    return DealtGroups(deals, sizes, seed)


def compared_silos(
    federation: Federation,
    groups: DealtGroups,
    mean: Float[Array, " p"],
    S: Float[Array, "p p"],
) -> dict[str, Any]:
    """Return Pillai's trace of the silos among those of groups; two rounds.

    Parameters
    ----------
    mean, S : (p,) and (p, p) arrays
        Mean and scatter of all rows.

    Returns
    -------
    dict of str to (1,) array
        "statistic", "exceeding" and "reference", as `PermutationTest` has them.
    """
    silos = list(federation.parties)
    totals = federation.sum(
        local_dealt_rows,
        to="parties",
        deals=groups.deals,
        sizes=groups.sizes.astype(float),
        mean=mean,
        first=_whitening(S, range(len(S))),
        silos=silos,
        seed=groups.seed,
    )
    return federation.sum(found_differences, leader=silos[0], **totals)


# The statistics that are compared, by the kind of permutation.
_STATISTICS = {
    "classes": "Pillai’s trace of the classes",
    "views": "Sum of squared canonical correlations (Pillai’s trace)",
    "plain views": "Sum of squared associations of the two views’ columns",
    "columns": "Eigenvalues of the correlations",
    "silos": "Pillai’s trace of the silos",
}


def _tested(estimator: Any) -> str:
    """Return which association an estimator describes."""
    kind = type(last_step(estimator)).__name__
    given = estimator.get_params(deep=False) if hasattr(estimator, "get_params") else {}
    ridge = any(given.get(name) not in (None, 0) for name in _PENALTIES)
    others = given.get("solver", "exact").startswith(("dgep", "dcca"))
    kinds = {
        "LinearDiscriminantAnalysis": "classes",
        "CCA": "views",
        **dict.fromkeys(("PLSSVD", "PLSCanonical", "PLSRegression"), "plain views"),
        "PCA": "columns",
        "Heterogeneity": "silos",
    }
    if kind not in kinds or ridge or others or last_step(estimator) is not estimator:
        raise DataError(
            f"A permutation test is of a {', '.join(kinds)} on rows, exact and without "
            f"regularisation, shrinkage or privacy; not of {estimator!r}."
        )
    return kinds[kind]


_PENALTIES = ("regularisation", "shrinkage", "privacy", "rank")


def _dealt(
    sizes: Int[Array, " k"], B: int, rng: np.random.Generator
) -> Int[Array, "b k k"]:
    """Return how many rows of each silo come to each group, B times.

    The counts are those of a permutation of all rows: every silo draws its rows' groups
    from the places that the silos before it left.
    """
    deals = np.empty((B, len(sizes), len(sizes)), np.int64)
    for own in deals:
        left = sizes.copy()
        for silo, size in enumerate(sizes):
            own[silo] = rng.multivariate_hypergeometric(left, size)
            left -= own[silo]
    return deals


def _shows_few(deals: Int[Array, "b k k"], sizes: Shaped[Array, " k"]) -> bool:
    """Whether a group has fewer than `_FEWEST` rows beside those of one silo."""
    return bool((sizes - deals).min() < _FEWEST)


def _whitening(S: Float[Array, "p p"], own: range) -> Float[Array, "r p"]:
    """Return weights of columns in directions whose scatter is the identity."""
    p, r = len(S), len(own)
    part = S[own.start : own.stop, own.start : own.stop]
    spread = np.sqrt(part.diagonal())
    if (spread > 0.0).all():
        # In units of the columns' deviations, so that scales cost no digits.
        values, V = leading_eigenpairs(part / spread / spread[:, None], r)
        if values[-1] > _SINGULAR * values[0]:
            weights = np.zeros((r, p))
            weights[:, own.start : own.stop] = (V / np.sqrt(values)).T / spread
            return weights
    raise DataError(
        "A column is constant, or a combination of others; leave columns out."
    )


def permutation_test(
    estimator: Any,
    X: Any,
    y: Any = None,
    *,
    n_permutations: Any = 199,
    random_state: int | None = None,
) -> PermutationTest:
    """Test an association by other orders of the rows, which stay in the silos.

    Parameters
    ----------
    estimator : estimator
        Unfitted or fitted, and not changed; which association it describes:
        `LinearDiscriminantAnalysis`, between classes and columns (Pillai's trace);
        `CCA`, between two views (the sum of all squared canonical correlations);
        `PLSSVD`, `PLSCanonical` or `PLSRegression`, between the columns of two views
        (the sum of their squared correlations, with ``scale=False`` of their squared
        cross-products); `PCA`, among all columns (the eigenvalues of their
        correlations: parallel analysis); `Heterogeneity`, between silos and columns
        (Pillai's trace).
    X : Federation
        A federation by rows, or a view of one.
    y : str or sequence of str, optional
        As for ``estimator.fit``.
    n_permutations : int, default 199
        B, at least 19. The smallest p-value is ``1 / (B + 1)``.
    random_state : int, optional
        Seed of the permutations, which depend on each silo's rows too; None: as of
        ``X.seed``.

    Returns
    -------
    PermutationTest
        With `statistic_`, `p_value_`, `reference_`, and of a PCA `n_components_`.
        ``summary()`` prints it.

    Raises
    ------
    DataError
        For another estimator, or one with regularisation, shrinkage or privacy; where
        columns are collinear.
    ReleaseRefusedError
        Where a silo's policy refuses.

    Notes
    -----
    Released are N, the column sums, the sums of squares and the cross-product matrix
    about the means, of a discriminant also the names and sizes of the classes: what a
    fit releases, which counts once. Beyond that one silo sends, for all, the statistic,
    its 95 % quantile and how many permutations reach it: three numbers, of a PCA 3 p.
    The totals of the permutations are opened by the silos alone. Silos send about
    32 bytes for each permutation and pair of directions.

    Rows change places within their silo, never between silos. The test holds where
    rows are exchangeable within silos, and silos may differ.

    Whether silos differ is tested by dealing all rows into groups of the silos' sizes:
    how many rows of each silo come to each group follows from the sizes and the seed,
    and each silo deals its own. The test is exact, whatever the rows' distribution.
    Each silo shows its number of rows, which its policy must allow
    (``allow_disclosed``).

    References
    ----------
    Good, Permutation, Parametric, and Bootstrap Tests of Hypotheses, 3rd edition
    (2005), chapter 3.

    Horn, A rationale and test for the number of factors in factor analysis,
    Psychometrika 30 (1965), and Buja and Eyuboglu, Remarks on parallel analysis,
    Multivariate Behavioral Research 27 (1992): of `PCA`, with permuted columns.

    Examples
    --------
    >>> test = up.permutation_test(up.LinearDiscriminantAnalysis(), federation)
    >>> print(test.summary())
    """
    return PermutationTest(
        estimator, n_permutations=n_permutations, random_state=random_state
    ).fit(X, y)
