"""How PCA finds its answer: the solver that its parameters and the federation call for.

privacy ── "private"      bits, rank ── "compressed"      svd_solver ── any other
"""

from collections.abc import Callable, Mapping
from typing import Any

from unpooled.errors import DataError
from unpooled.federation.base import Federation
from unpooled.models import compression, pca_rows, private
from unpooled.models.spectrum import Spectrum, Wanted, chosen_solver, wanted_components
from unpooled.secure.noise import GaussianPrivacy

# By partition and `svd_solver`.
SOLVERS: Mapping[tuple[str, str], Callable[..., Spectrum]] = {
    ("rows", "covariance_eigh"): pca_rows.covariance_eigh,
    ("rows", "krylov"): pca_rows.block_krylov,
}


def checked(model: Any, federation: Federation) -> Wanted:
    """Refuse parameters that cannot be, before anything leaves."""
    known = [solver for where, solver in SOLVERS if where == federation.partition]
    if model.svd_solver not in ("auto", *known):
        choices = ", ".join(f'"{name}"' for name in known)
        raise DataError(
            f'svd_solver={model.svd_solver!r}; choose "auto" or {choices} on '
            f"{federation.partition}."
        )
    if model.privacy is not None:
        GaussianPrivacy.of(model.privacy)
    compression.check_compression(model)
    if not (0 < model.tol < 1 and model.max_iter >= 1):
        raise DataError(
            f"tol={model.tol!r} and max_iter={model.max_iter!r}: tol is a sine between "
            f"0 and 1, and max_iter at least 1."
        )
    return wanted_components(model.n_components, federation.n_features)


def solved(model: Any, federation: Federation) -> Spectrum:
    """Return what the model's solver finds."""
    wanted = checked(model, federation)
    if model.privacy is not None:
        return private.private(model, federation, wanted)
    if model.bits != 64 or model.rank is not None:
        return compression.compressed(model, federation, wanted)
    solver = chosen_solver(model.svd_solver, wanted, federation)
    return SOLVERS[federation.partition, solver](model, federation, wanted)
