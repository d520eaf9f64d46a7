"""The power method on a silo's own columns, as VFedPCA runs it, and its parameters."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from unpooled.arrays import Array, Float
from unpooled.errors import DataError
from unpooled.federation.federation import Federation
from unpooled.models.parameter_checks import check_choice, whole_number
from unpooled.protocol.step import public
from unpooled.protocol.topology import NAMES

_CHOICES = {
    "centre": ("columns", "rows", "none"),
    "weights": ("eigenvalue", "equal"),
}

# Public arrays of the steps of both models.
REPLACED = public("N l", "the merged direction, which replaces the silo's columns")
FOUND = public("N q", "the directions over people that earlier components found")

Factors = tuple[Float[Array, "N _"], Float[Array, "_ _"], float]


def own_factors(
    X: Float[Array, "N p"],
    replaced: Float[Array, "N l"],
    found: Float[Array, "N q"],
    centre: str,
) -> Factors:
    """Return (F, B, d) with A_i = F B Bᵀ Fᵀ / d, after replacement and deflation."""
    X = prepared(X, centre)
    for u in found.T:
        X = X - np.outer(u, u @ X)
    d = float(X.shape[1])
    if not replaced.shape[1]:
        if centre == "rows":
            X, d = X - X.mean(axis=1, keepdims=True), d - 1.0
        return X, np.eye(0), d
    # (14) leaves X M Mᵀ / ‖M‖², of rank one. Doing it again with any u changes nothing:
    # the new M is a multiple of the old one, so the first replacement is the last.
    M = X.T @ replaced[:, 0]
    size = M @ M
    if not size > 0.0:
        raise DataError("The vector explains nothing here.", rule="no_variance")
    loading = M - M.mean() if centre == "rows" else M
    d -= centre == "rows"
    return (X @ M / size)[:, None], loading[None, :], d


def prepared(X: Float[Array, "N p"], centre: str) -> Float[Array, "N p"]:
    """Refuse missing cells; return the columns, centred if `centre` is "columns"."""
    if np.isnan(X).any():
        raise DataError("Impute first.", rule="missing_values")
    return X - X.mean(axis=0) if centre == "columns" else X


def power_iteration(
    factors: Factors, start: Float[Array, " N"], iterations: int
) -> tuple[Float[Array, " N"], float]:
    """Return the vector after L steps of the power method, and its eigenvalue."""
    F, B, d = factors

    def times(a: Float[Array, " N"]) -> Float[Array, " N"]:
        image = F.T @ a
        if B.size:
            image = B @ (B.T @ image)
        return F @ image / d

    a = start
    for _ in range(iterations):
        image = times(a)
        norm = np.linalg.norm(image)
        if not norm > 0.0:
            # One column centred by rows, constant columns, or columns deflated to 0.
            raise DataError("The columns do not vary.", rule="no_variance")
        a = image / norm
    return a, float(a @ times(a))


def check_options(model: Any, N: int) -> None:
    """Raise DataError for parameters of VFedPCA or VFedAKPCA outside their ranges."""
    check_choices(model, _CHOICES)
    _check_topology(model)
    whole_number("n_components", model.n_components, most=N)
    whole_number("local_iterations", model.local_iterations)
    whole_number("rounds", model.rounds)


def check_choices(model: Any, choices: Mapping[str, Sequence[str]]) -> None:
    """Refuse parameters whose values are not among their choices."""
    for name, allowed in choices.items():
        check_choice(name, getattr(model, name), allowed)


def _check_topology(model: Any) -> None:
    if model.topology == "server" or isinstance(model.topology, Mapping):
        return
    if model.topology not in NAMES:
        raise DataError(
            f"topology={model.topology!r}; choose 'server' or "
            f"{' or '.join(map(repr, NAMES))}, or a mapping of each party to its "
            f"neighbours."
        )


def starting_vector(model: Any, federation: Federation, N: int) -> Float[Array, " N"]:
    """Return `init`, or a draw by `random_state`; the same for every silo.

    Where neither is given it is the same in all fits: silos answer for one (`settings`
    of the step).
    """
    if model.init is None:
        given = 0 if model.random_state is None else model.random_state
        seed = federation.seed(given)
        # Positive entries: vectors that start alike mostly agree in sign.
        return np.random.default_rng(seed).random(N)
    init = np.asarray(model.init, float)
    if init.shape != (N,) or not np.isfinite(init).all() or not init.any():
        raise DataError(
            f"init has shape {init.shape}; it is ({N},), a finite number for each "
            f"common row, not all 0."
        )
    return init
