"""Kernel directions of each silo, merged once: VFedAKPCA as published.

    each silo   K_i(x, y) of its own columns, double-centred; top eigenpair (α_i, a_i)
    merge       u = Σ w_i a_i                                                    (13)
    project     "features": Z_i = X_iᵀ u, the input itself      (AKPCA, Algorithm 1)
                "kernel":   Z_i = K_i u, as kernel PCA does
    more rounds X_i ← X_i M Mᵀ / ‖M Mᵀ‖ with M = X_iᵀ u, then again;
    more components by deflation, K_i ← (I - u uᵀ) K_i (I - u uᵀ)

It is approximate: merging directions is not adding kernels. `KernelPCA` on a column
partition gives the pooled answer.

References
----------
Cheung, Jiang, Yu, Lou, Vertical Federated Principal Component Analysis and Its Kernel
Extension on Feature-wise Distributed Data, section 3.3 and Algorithm 1. The minus sign
in its (12), the sigmoid kernel, is a slip.
"""

from collections.abc import Callable
from typing import Any, final

import numpy as np

from unpooled.arrays import Array, Float
from unpooled.errors import DataError
from unpooled.federation.federation import Federation
from unpooled.models.base import FederatedEstimator, check_federation
from unpooled.models.vertical_pca import local_kernel_direction as kernel_directions
from unpooled.models.vertical_pca import merge as merging
from unpooled.models.vertical_pca import neighbour_merge as neighbours
from unpooled.models.vertical_pca import projection as projecting
from unpooled.models.vertical_pca.local_direction import check_options
from unpooled.models.vertical_pca.merged_directions import MergedDirections
from unpooled.protocol.step import adopted
from unpooled.protocol.topology import Graph

_KERNELS = ("rbf", "sigmoid", "linear")
_PROJECTIONS = ("features", "kernel")


_MERGING = merging.Steps(*adopted(__name__, *merging.STEPS))
_PROJECTING = projecting.Steps(*adopted(__name__, *projecting.STEPS))
_NEIGHBOURS = neighbours.Steps(*adopted(__name__, *neighbours.STEPS))
# Silos look steps up under these names.
local_kernel_direction, neighbour_kernel_direction, local_kernel_scores = adopted(
    __name__, *kernel_directions.STEPS
)
local_weighted, local_unweighted, local_eigenvalue, local_scaled, local_pair = _MERGING
local_squares, local_loadings, local_scores, shown_loadings = _PROJECTING
neighbour_merge, neighbour_squares = _NEIGHBOURS[:2]
neighbour_loadings, neighbour_history = _NEIGHBOURS[2:]


@final
class VFedAKPCA(MergedDirections, FederatedEstimator):
    """The published approximation of kernel PCA over silos with columns of one people.

    Parameters
    ----------
    n_components : int, default 1
        How many components; each after the first by deflation.
    kernel : {"rbf", "sigmoid", "linear"}, default "rbf"
        ``exp(-gamma ‖x - y‖²)``, ``tanh(gamma x·y + coef0)`` or ``x·y``, of a silo's
        own columns.
    gamma : float, optional
        1 / (2 σ²) of the paper; None: 1 over the silo's number of columns.
    coef0 : float, default 1.0
        c of the sigmoid kernel.
    project : {"features", "kernel"}, default "features"
        What `scores_` are: the joined columns times ``Z_i = X_iᵀ u``, the paper's
        AKPCA, or ``Σ_i K_i u``, its KPCA.
    rounds : int, default 1
        Merges for each component; the paper's Algorithm 1 merges once. Before each
        further one, the silos replace their data as in `VFedPCA`.
    weight_scaling : bool, default False
        As of `VFedPCA`.
    weights : {"eigenvalue", "equal"}, default "eigenvalue"
        "equal" is the paper's VFedAvgAKPCA.
    align_signs : bool, default False
        As of `VFedPCA`.
    topology : {"server", "complete", "ring", "star"} or mapping, default "server"
        As of `VFedPCA`; without a server `project` is "features".
    centre : {"none", "columns"}, default "none"
        Whether each silo centres its columns first. The kernel matrix is double-centred
        in any case.
    local_iterations : int, default 10
        As of `VFedPCA`, like the next three, so that the two can be exchanged; the
        local eigenpair is computed to round-off, so none of them changes anything.
    warm_start : bool, default True
        See above.
    init : (N,) array, optional
        See above.
    random_state : int, optional
        See above.

    Attributes
    ----------
    u_ : (N, k) array
        The merged directions over the people, unit columns; in each the entry of
        largest magnitude is positive.
    scores_ : (N, k) array
        See `project`.
    components_ : (k, p) array
        ``Z_i`` of the silos, joined and of unit length, by the parties' columns in
        their order. Each silo keeps its own; asking for them has them disclosed.
    explained_variance_ : (k,) array
        Variance of the joined columns along u, with denominator N - 1.
    history_ : list of dict
        As of `VFedPCA`.
    n_samples_ : int
        N.

    Notes
    -----
    Released, as totals: N + 1 numbers in every round, the weighted vectors and the
    weights; at the end each component's sum of squares, and the scores.
    `weight_scaling` has the silos disclose their eigenvalues, and `align_signs` their
    vectors as well; without a server neighbours see both, as of `VFedPCA`. Never
    released: a kernel entry, loadings unless asked for, a row.

    Each silo makes the entry of largest magnitude of its vector positive. Where these
    belong to different people the vectors may cancel, which `align_signs` prevents.
    """

    _merging = _MERGING
    _projecting = _PROJECTING
    _neighbours = _NEIGHBOURS

    def __init__(
        self,
        n_components: int = 1,
        *,
        kernel: str = "rbf",
        gamma: float | None = None,
        coef0: float = 1.0,
        project: str = "features",
        rounds: int = 1,
        weight_scaling: bool = False,
        weights: str = "eigenvalue",
        align_signs: bool = False,
        topology: Any = "server",
        centre: str = "none",
        local_iterations: int = 10,
        warm_start: bool = True,
        init: Any = None,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.kernel = kernel
        self.gamma = gamma
        self.coef0 = coef0
        self.project = project
        self.local_iterations = local_iterations
        self.rounds = rounds
        self.warm_start = warm_start
        self.weight_scaling = weight_scaling
        self.topology = topology
        self.centre = centre
        self.align_signs = align_signs
        self.weights = weights
        self.init = init
        self.random_state = random_state

    def _fit(self, federation: Federation, y: Any) -> None:
        N = federation.n_rows or 0
        check_options(self, N)
        _check_kernel(self)
        self.n_samples_ = N
        if self.topology != "server":
            neighbours.fit(self, federation, _NEIGHBOURS, self._teller(federation))
            return
        self.history_, U = [], np.zeros((N, 0))
        for component in range(self.n_components):
            u = self._component(federation, component, U)
            U = np.column_stack([U, u / np.linalg.norm(u)])
        projection = self._project(federation, U)
        if self.project == "features":
            self.scores_ = projection.scores(federation)
        else:
            total = federation.sum(local_kernel_scores, U=self.u_, **self._how())
            self.scores_ = total["scores"]

    def _component(
        self, federation: Federation, component: int, found: Float[Array, "N q"]
    ) -> Float[Array, " N"]:
        u, replaced = np.zeros(len(found)), np.zeros((len(found), 0))
        for number in range(self.rounds):
            federation.keep(
                local_kernel_direction, replaced=replaced, found=found, **self._how()
            )
            u = self._merge(federation, component)
            if number == 0:
                replaced = u[:, None]
        return u

    def _teller(self, federation: Federation) -> Callable[[Graph, int, int], None]:
        def tell(graph: Graph, component: int, number: int) -> None:
            where = {"component": component, "number": number, "rounds": self.rounds}
            how = {**where, **self._how()}
            federation.exchange(neighbour_kernel_direction, graph, **how)

        return tell

    def _how(self) -> dict[str, Any]:
        return {
            "kernel": self.kernel,
            "gamma": self.gamma,
            "coef0": self.coef0,
            "centre": self.centre,
        }

    def transform(self, X: Any) -> Float[Array, "N k"]:
        """Return scores of a federation's aligned rows, old or new; "features" only."""
        federation = self._check_view(check_federation(self, X))
        if self.project != "features":
            raise DataError(
                'project="kernel" gives scores of the rows that were fitted only: the '
                'merged direction says nothing of others. Use project="features", or '
                "KernelPCA."
            )
        return self._scores_of(federation)


def _check_kernel(model: VFedAKPCA) -> None:
    for name, allowed in (("kernel", _KERNELS), ("project", _PROJECTIONS)):
        if getattr(model, name) not in allowed:
            raise DataError(
                f"{name}={getattr(model, name)!r}; choose "
                f"{' or '.join(map(repr, allowed))}."
            )
    if model.project == "kernel" and model.topology != "server":
        raise DataError(
            'project="kernel" applies one direction to all kernels, and without a '
            'server each silo has its own: use project="features".'
        )
    if model.centre == "rows":
        raise DataError('centre="rows" is for VFedPCA; choose "none" or "columns".')
    if model.gamma is not None and not 0.0 < model.gamma < np.inf:
        raise DataError(f"gamma={model.gamma!r}; choose a number above 0, or None.")
