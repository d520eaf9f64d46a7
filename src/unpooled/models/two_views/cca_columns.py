"""Canonical correlations between parties with other columns of the same people.

    each silo keeps  Q_i = X_i C_i^(-1/2) / sqrt(N - 1),  C_i = (1 - c) S_i + c I
    "gram"    silos ── Q_i Q_iᵀ ──> Σ Q_i Q_iᵀ = H diag(λ) Hᵀ, the k largest λ
    "krylov"  silos <── V ── silos ── Q_i (Q_iᵀ V) ──> Σ, again and again, for the same
    silos <── H ──  each keeps its weights W_i = C_i^(-1/2) Q_iᵀ H

This is the MAXVAR form of generalised CCA, for any number of parties. With two and
without regularisation λ = 1 + ρ, ρ the canonical correlations. What the coordinator
sees are totals, but of entries about people: a summed Gram matrix is all rows up to a
rotation, and with two parties a total less one's own is the other's.

Of three or more, ``criterion="sumcor"`` with regularisation is the sum of covariances,
multiset CCA: `unpooled.models.two_views.maxvar`. Without, it has the same weights as
MAXVAR.

Two parties with regularisation, or more people than a Gram matrix is for, are paired as
`unpooled.models.two_views.pls_columns` does it: the pairs of X_1 C_1^(-1/2) and X_2
C_2^(-1/2) of largest covariance are those of canonical ridge analysis, as on a row
partition. MAXVAR would give others with a ridge, and takes more rounds without.

References
----------
Kettenring, Canonical analysis of several sets of variables, Biometrika 58 (1971).
Carroll, Generalization of canonical correlation analysis to three or more sets of
variables, 1968.
"""

from typing import Any

import numpy as np
import scipy.linalg
from sklearn.utils import check_random_state

from unpooled.arrays import Array, Float
from unpooled.errors import DataError
from unpooled.federation.federation import Federation
from unpooled.linalg.eigen import with_positive_peaks
from unpooled.linalg.krylov import block_width, leading_ritz_pairs
from unpooled.models.two_views import maxvar as multiset
from unpooled.models.two_views import pls_columns
from unpooled.models.two_views.pls_columns import Search, pair_parties, start_of
from unpooled.models.two_views.whitened import unwhitened, whitened
from unpooled.protocol.bounds import CauchySchwarz, Trace
from unpooled.protocol.step import (
    LIBRARY,
    adopted,
    kept,
    public,
    release,
    stays,
    summed,
)

# Up to here a Gram matrix is cheaper than the rounds of a Krylov iteration.
_MOST_GRAM_ROWS = 1000
# Of a Krylov iteration: rounds, and the sine of the angle to the wanted subspace.
_MOST_ROUNDS, _TOL = 100, 1e-10
# What the solvers are called where the two parties see each other's images.
_AS_PAIRS = {"exact": "auto", "gram": "direct", "krylov": "krylov"}


@kept(
    by="party",
    basis=stays("N p", until="fit", meaning="the silo's columns, whitened"),
    mean=stays("p", meaning="the mean of each of the silo's columns"),
)
def own_basis(X: Float[Array, "N p"], *, regularisation: float) -> dict[str, Any]:
    """Whiten the silo's own columns; nothing leaves."""
    mean, basis = whitened(X, regularisation)
    return {"basis": basis, "mean": mean}


@summed(
    by="party",
    takes={
        "squares": public(
            "N", "a bound on the squared length of each person's whitened row"
        )
    },
    gram=release(
        "N N",
        symmetric=True,
        bound=CauchySchwarz("squares"),
        meaning="products of every two people's whitened rows, added over silos",
    ),
)
def local_gram(kept: Any, *, squares: Float[Array, " N"]) -> dict[str, Any]:
    """Release the products of the silo's whitened rows."""
    return {"gram": kept["basis"] @ kept["basis"].T}


@summed(
    by="party",
    squares=release("", meaning="squares of all whitened rows, added over silos"),
)
def own_squares(kept: Any) -> dict[str, Any]:
    """Add the squares of the silo's whitened rows."""
    return {"squares": np.array(np.sum(kept["basis"] ** 2))}


@summed(
    by="party",
    takes={
        "V": public(
            "N l", "a block of weights of people, by which the next product is taken"
        )
    },
    image=release(
        "N l",
        bound=Trace("squares"),
        meaning="products of people's whitened rows with public mixtures of people, "
        "added over silos",
    ),
)
def local_mixture(
    kept: Any, *, V: Float[Array, "N l"], squares: float
) -> dict[str, Any]:
    """Apply the products of the silo's whitened rows to an orthonormal block."""
    basis = kept["basis"]
    return {"image": basis @ (basis.T @ V)}


@kept(
    by="party",
    takes={
        "H": public(
            "N k", "the variables that all views share, one number for each person"
        )
    },
    weights=stays("p k", meaning="the weights of the silo's columns"),
)
def own_weights(
    X: Float[Array, "N p"], kept: Any, *, H: Float[Array, "N k"], regularisation: float
) -> dict[str, Any]:
    """Keep the weights that give the silo's scores; nothing leaves."""
    # C^(-1) Xᵀ H / sqrt(N - 1)
    return {"weights": unwhitened(X, kept["basis"].T @ H, regularisation)}


@kept(
    by="party",
    takes={"block": "size q"},
    rows=stays("N p", until="fit", meaning="the silo's rows, whitened"),
    mean=stays("p", meaning="the mean of each of the silo's columns"),
    spread=stays("p", until="fit", meaning="ones: whitened columns have no units"),
    basis=stays("p q", until="fit", meaning="directions among the silo's columns"),
)
def own_ridge(
    X: Float[Array, "N p"], *, block: int, regularisation: float, seed: int
) -> dict[str, Any]:
    """Whiten the silo's own columns, and choose directions; nothing leaves."""
    own = own_basis(X, regularisation=regularisation)
    found = start_of(own["basis"], block, seed)
    return {"mean": own["mean"], "spread": np.ones(X.shape[1]), **found}


@kept(
    by="party",
    takes={"k": "size k"},
    weights=stays("p k", meaning="the weights of the silo's columns"),
)
def own_ridge_weights(
    X: Float[Array, "N p"], kept: Any, *, regularisation: float, k: int
) -> dict[str, Any]:
    """Keep the weights in units of the silo's columns, C^(-1/2) w; nothing leaves."""
    return {"weights": unwhitened(X, kept["weights"][:, :k], regularisation)}


# `unpooled.models.two_views.cca` has them too, where silos look them up.
_HOME = f"{LIBRARY}cca"
STEPS = adopted(_HOME, local_gram, own_squares, local_mixture, own_basis, own_weights)
PAIRED = adopted(
    _HOME,
    own_ridge,
    pls_columns.local_image,
    pls_columns.local_pairs,
    own_ridge_weights,
)
JOINED = adopted(
    _HOME,
    multiset.own_start,
    multiset.local_shared,
    multiset.local_products,
    multiset.local_residuals,
    multiset.own_joint_weights,
)
_GRAM, _SQUARES, _IMAGE, _BASIS, _WEIGHTS = STEPS


def fit_columns(model: Any, federation: Federation) -> None:
    """Fit a `CCA` whose parties are the views; sets its attributes."""
    N, c = int(federation.n_rows or 0), float(model.regularisation)
    widths = [len(own) for own in federation.columns_of.values()]
    k = _component_count(model.n_components, widths, N, c)
    model.n_samples_ = N
    if len(widths) == 2:
        model.x_columns_, model.y_columns_ = map(list, federation.columns_of.values())
        if c > 0.0 or (model.solver == "exact" and N > _MOST_GRAM_ROWS):
            solver = _AS_PAIRS[model.solver]
            solver = pls_columns.chosen_solver("CCA", federation, solver, k)
            if c > 0.0 or solver == "direct":
                return _fit_pairs(model, federation, k, min(widths), solver)
    elif c > 0.0 and model.criterion == "sumcor":
        return _fit_joint(model, federation, k)
    federation.keep(_BASIS, regularisation=c)
    gram = model.solver == "gram" or (model.solver == "exact" and N <= _MOST_GRAM_ROWS)
    # How long rows are that c = 1 does not whiten nobody knows, so nothing bounds G.
    if gram and c < 1.0:
        # Of each party, whitened rows are at most 1 / (1 - c) long, squared.
        squares = np.full(N, len(widths) / (1.0 - c))
        G = federation.sum(_GRAM, squares=squares)["gram"]
        values, vectors = scipy.linalg.eigh(G)
        values, H = values[::-1], vectors[:, : -k - 1 : -1]
        if len(widths) == 2 and c == 0.0:
            every = np.clip(values[: min(widths)] - 1.0, 0.0, 1.0)
            model.all_correlations_ = every
    else:
        values, H = _leading(model, federation, k, c)
    H = with_positive_peaks(H)
    federation.keep(_WEIGHTS, H=H, regularisation=c)
    # A view's covariance with itself, which "sumcor" leaves out, is 1 without a ridge.
    model.eigenvalues_ = values[:k] - (1.0 if model.criterion == "sumcor" else 0.0)
    if len(widths) == 2:
        model.canonical_correlations_ = values[:k] - 1.0


def _fit_pairs(
    model: Any, federation: Federation, k: int, most: int, solver: str
) -> None:
    c = float(model.regularisation)
    # All correlations, for their test, where they cost nothing more.
    every = most if c == 0.0 and solver == "direct" else k
    search = Search(solver, _TOL, _MOST_ROUNDS, model.random_state)
    how, start = {"deflated": (), "certain": k}, {"regularisation": c}
    pairs = pls_columns.ColumnSteps(*PAIRED[:3])
    told, _ = pair_parties("CCA", federation, pairs, start, search, every, **how)
    federation.keep(PAIRED[3], regularisation=c, k=k)
    r = np.clip(told["correlations"], -1.0, 1.0)
    model.canonical_correlations_ = r[:k].copy()
    if c == 0.0:
        model.eigenvalues_ = r[:k] + (model.criterion == "maxvar")
        if solver == "direct":
            model.all_correlations_ = r


def _fit_joint(model: Any, federation: Federation, k: int) -> None:
    if model.solver == "gram":
        raise DataError(
            'solver="gram": with a regularisation "sumcor" leaves out of the sum what '
            "each silo has in common with itself, which a Gram matrix of all silos "
            'does not tell. Choose solver="krylov".'
        )
    multiset.fit_multiset(model, federation, multiset.ColumnSteps(*JOINED), k)


def _leading(
    model: Any, federation: Federation, k: int, c: float
) -> tuple[Float[Array, " k"], Float[Array, "N k"]]:
    N, seed = int(federation.n_rows or 0), model.random_state
    rng = check_random_state(federation.random_state if seed is None else seed)
    start = rng.standard_normal((N, block_width(N, k)))
    # Along any direction whitened rows of a party have squares of at most 1 / (1 - c).
    squares = len(federation.parties) / (1.0 - c) if c < 1.0 else 0.0
    squares = squares or float(federation.sum(_SQUARES)["squares"])
    if federation.coordinator.planned:
        # Nobody knows the number of rounds before; there are at most so many.
        for _ in range(_MOST_ROUNDS):
            federation.sum(_IMAGE, V=start, squares=squares)
        return np.ones(k), np.eye(N, k)
    pairs = leading_ritz_pairs(
        lambda V: federation.sum(_IMAGE, V=V, squares=squares)["image"],
        start,
        k,
        tol=_TOL,
        max_iter=_MOST_ROUNDS,
    )
    return pairs.values, pairs.vectors


def _component_count(k: Any, widths: list[int], N: int, c: float) -> int:
    most = min(min(widths), N - 1)
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or not 1 <= k <= most:
        raise DataError(
            f"n_components={k!r}; choose a whole number from 1 to {most}, the fewest "
            f"columns of a party, or N - 1."
        )
    # So many dimensions of N - 1 have a part in common, whatever the columns are.
    shared = sum(widths) - (len(widths) - 1) * (N - 1)
    if c == 0.0 and (shared >= 0 or max(widths) >= N - 1):
        raise DataError(
            f"Parties with {widths} columns, but {N} rows: correlations of 1 can be "
            f"had from anything, and which are found is arbitrary. Choose a "
            f"regularisation, 0.1 for instance, or leave columns out with select."
        )
    return int(k)
