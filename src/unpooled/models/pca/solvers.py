"""How PCA finds its answer: the solver that its parameters and the federation call for.

privacy ── "private"      bits, rank ── "compressed"      svd_solver ── any other
"""

from collections.abc import Callable, Mapping
from typing import Any

from unpooled.federation.federation import Federation
from unpooled.models.pca import columns as pca_columns
from unpooled.models.pca import compression, private
from unpooled.models.pca import gossip as gossiping
from unpooled.models.pca import rows as pca_rows
from unpooled.models.pca.parameters import checked_parameters
from unpooled.models.pca.spectrum import Spectrum, Wanted, chosen_solver

# By partition and `svd_solver`.
SOLVERS: Mapping[tuple[str, str], Callable[..., Spectrum]] = {
    ("rows", "covariance_eigh"): pca_rows.covariance_eigh,
    ("rows", "krylov"): pca_rows.block_krylov,
    ("columns", "gram"): pca_columns.gram,
    ("columns", "krylov"): pca_columns.block_krylov,
    ("columns", "gossip"): gossiping.gossip,
}


def checked(model: Any, federation: Federation) -> Wanted:
    """Refuse parameters that cannot be, before anything leaves."""
    return checked_parameters(model, federation, list(SOLVERS))


def solved(model: Any, federation: Federation) -> Spectrum:
    """Return what the model's solver finds."""
    wanted = checked(model, federation)
    if model.privacy is not None:
        return private.private(model, federation, wanted)
    if model.bits != 64 or model.rank is not None:
        return compression.compressed(model, federation, wanted)
    by_columns = federation.partition == "columns"
    choose = pca_columns.chosen if by_columns else chosen_solver
    solver = choose(model.svd_solver, wanted, federation)
    return SOLVERS[federation.partition, solver](model, federation, wanted)
