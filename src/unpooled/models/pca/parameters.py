"""Refusing parameters of PCA that cannot be, before anything leaves."""

from collections.abc import Sequence
from typing import Any

from unpooled.errors import DataError
from unpooled.federation.federation import Federation
from unpooled.models.pca.compression import check_compression
from unpooled.models.pca.spectrum import Wanted, wanted_components
from unpooled.secure.noise import GaussianPrivacy


def checked_parameters(
    model: Any, federation: Federation, solvers: Sequence[tuple[str, str]]
) -> Wanted:
    """Refuse parameters that cannot be, before anything leaves."""
    known = [solver for where, solver in solvers if where == federation.partition]
    if model.svd_solver not in ("auto", *known):
        choices = ", ".join(f'"{name}"' for name in known)
        raise DataError(
            f'svd_solver={model.svd_solver!r}; choose "auto" or {choices} on '
            f"{federation.partition}."
        )
    if model.privacy is not None:
        GaussianPrivacy.of(model.privacy)
    check_compression(model)
    unused = (model.bits, model.rank, model.privacy) != (64, None, None)
    if federation.partition == "columns" and unused:
        raise DataError("bits, rank and privacy are about a row partition's scatter.")
    if model.scores not in ("coordinator", "parties", None):
        raise DataError(
            f'scores={model.scores!r}; choose "coordinator", "parties" or None.'
        )
    if not (0 < model.tol < 1 and model.max_iter >= 1):
        raise DataError(
            f"tol={model.tol!r} and max_iter={model.max_iter!r}: tol is a sine between "
            f"0 and 1, and max_iter at least 1."
        )
    return wanted_components(model.n_components, federation.n_features)
