"""Kernel directions of the silos, merged once, as published.

    each silo   K_i(x, y) of its own columns, double-centred; top eigenpair (α_i, a_i)
    merge       u = Σ w_i a_i                                                    (13)
    project     "features": Z_i = X_iᵀ u, the input itself      (AKPCA, Algorithm 1)
                "kernel":   Z_i = K_i u, as kernel PCA does
    more rounds X_i ← X_i M Mᵀ / ‖M Mᵀ‖ with M = X_iᵀ u, then again;
    more components by deflation, K_i ← (I - u uᵀ) K_i (I - u uᵀ)

The fit is in `merged_directions`, which `VFedPCA` shares. It is approximate: merging
directions is not adding kernels. `KernelPCA` on a column partition gives the pooled
answer.
"""

from dataclasses import KW_ONLY, dataclass
from typing import Any, final

import numpy as np
import scipy.linalg

from unpooled.arrays import Array, Float
from unpooled.errors import DataError
from unpooled.federation.federation import Federation
from unpooled.linalg.eigen import with_positive_peaks
from unpooled.linalg.kernels import centred_kernel
from unpooled.models.base import check_federation
from unpooled.models.vertical_pca import local_direction, neighbour_merge
from unpooled.models.vertical_pca.merged_directions import REFERENCE, MergedDirections
from unpooled.models.vertical_pca.projection import DIRECTIONS
from unpooled.protocol.step import exchanged, kept, release, stays, summed
from unpooled.results.citations import Citation

_CHOICES = {
    "kernel": ("rbf", "sigmoid", "linear"),
    "project": ("features", "kernel"),
}
_EIGENVALUE = (
    "the largest eigenvalue of the silo's own kernel matrix (how much the people "
    "differ along its first component)"
)
_VECTOR = "the first kernel direction of the silo's own columns"


@kept(
    by="party",
    takes={"replaced": local_direction.REPLACED, "found": local_direction.FOUND},
    vector=stays("N", meaning=_VECTOR, until="fit"),
    eigenvalue=stays("", meaning=_EIGENVALUE, until="fit"),
)
def local_kernel_direction(
    X: Float[Array, "N p"],
    *,
    replaced: Float[Array, "N l"],
    found: Float[Array, "N q"],
    kernel: str,
    gamma: float | None,
    coef0: float,
    centre: str,
) -> dict[str, Any]:
    """Return the top eigenpair of this silo's own centred kernel matrix.

    `replaced` has no column in the first round, then the vector by which (14) replaced
    the data; `found` has the components so far, which are deflated.
    """
    X = local_direction.prepared(X, centre)
    if replaced.shape[1]:
        F, B, _ = local_direction.own_factors(X, replaced, found[:, :0], "none")
        X = F @ B
    K = centred_kernel(X, kernel, gamma, coef0)
    for u in found.T:
        image = K @ u
        # P K P with P = I - u uᵀ, without forming P.
        K = K - np.outer(u, image) - np.outer(image, u) + (u @ image) * np.outer(u, u)
    last = len(K) - 1
    values, vectors = scipy.linalg.eigh(K, subset_by_index=[last, last])
    if not values[0] > 0.0:
        raise DataError("The kernel matrix is zero.", rule="no_variance")
    return {
        "vector": with_positive_peaks(vectors)[:, 0],
        "eigenvalue": np.array(values[0]),
    }


@exchanged(
    by="party",
    vector=release("N", meaning=_VECTOR),
    eigenvalue=release("", meaning=_EIGENVALUE),
)
def neighbour_kernel_direction(
    X: Float[Array, "N p"],
    kept: Any,
    *,
    component: int,
    number: int,
    rounds: int,
    kernel: str,
    gamma: float | None,
    coef0: float,
    centre: str,
) -> dict[str, Any]:
    """Return the top eigenpair, deflated and replaced by this silo's own merges."""
    _, replaced, found = neighbour_merge.state(kept, component, number, rounds, len(X))
    return local_kernel_direction(
        X,
        replaced=replaced,
        found=found,
        kernel=kernel,
        gamma=gamma,
        coef0=coef0,
        centre=centre,
    )


@summed(
    by="party",
    takes={"U": DIRECTIONS},
    scores=release("N k", meaning="each person's coordinates along the directions"),
)
def local_kernel_scores(
    X: Float[Array, "N p"],
    *,
    U: Float[Array, "N k"],
    kernel: str,
    gamma: float | None,
    coef0: float,
    centre: str,
) -> dict[str, Any]:
    """Apply this silo's own centred kernel matrix to the directions."""
    K = centred_kernel(local_direction.prepared(X, centre), kernel, gamma, coef0)
    return {"scores": K @ U}


@final
@dataclass(eq=False, repr=False)
class VFedAKPCA(MergedDirections):
    """The published approximation of kernel PCA over silos with columns of one people.

    Parameters
    ----------
    n_components : int, default 1
        How many components; each after the first by deflation.
    kernel : {"rbf", "sigmoid", "linear"}, default "rbf"
        ``exp(-gamma ‖x - y‖²)``, ``tanh(gamma x·y + coef0)`` or ``x·y``, of a silo's
        own columns.
    gamma : float, optional
        1 / (2 σ²) of (11) and (12); None: 1 divided by the silo's number of columns.
    coef0 : float, default 1.0
        c of the sigmoid kernel.
    project : {"features", "kernel"}, default "features"
        How `scores_` are computed: the joined columns times ``Z_i = X_iᵀ u``, the
        paper's AKPCA, or ``Σ_i K_i u``, its KPCA.
    rounds : int, default 1
        Merges for each component; the paper does not say how many, and its authors'
        code merges once. Before each further one, the silos replace their data as in
        `VFedPCA`.
    weight_scaling : bool, default False
        As of `VFedPCA`.
    weights : {"eigenvalue", "equal"}, default "eigenvalue"
        As of `VFedPCA`; "equal" is VFedAvgAKPCA.
    align_signs : bool, default False
        As of `VFedPCA`.
    topology : {"server", "complete", "ring", "star"} or mapping, default "server"
        As of `VFedPCA`; without a server `project` is "features".
    centre : {"none", "columns"}, default "none"
        Whether each silo centres its columns first. The kernel matrix is double-centred
        either way.
    local_iterations : int, default 10
        Accepted for compatibility with `VFedPCA` and ignored, like the next three: the
        local eigenpair is computed to round-off.
    warm_start : bool, default True
        Ignored.
    init : (N,) array, optional
        Ignored.
    random_state : int, optional
        Ignored.

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
    kept_ : str
        Study and view under which the silos keep their part of the components.

    Raises
    ------
    DataError
        For missing values, kernel matrices that are zero, and arguments that are not
        these or do not go together: without a server `project` is "features".

    Notes
    -----
    Released, as totals: N + 1 numbers in every round, the weighted vectors and the
    weights; at the end each component's sum of squares, and the scores. With
    `weight_scaling` the silos disclose their eigenvalues, and with `align_signs` their
    vectors as well; without a server neighbours see both, as in `VFedPCA`. Never
    released: an entry of a kernel matrix, loadings unless asked for, or a row.

    Each silo makes the entry of largest magnitude of its vector positive. Where these
    belong to different people the vectors may cancel, which `align_signs` prevents.

    References
    ----------
    Cheung, Jiang, Yu, Lou, Vertical Federated Principal Component Analysis and Its
    Kernel Extension on Feature-wise Distributed Data, sections 3.3 to 3.5 and Algorithm
    1. The minus sign in its (12), the sigmoid kernel, is a slip. It centres no kernel
    matrix; its authors' code double-centres each, and so it is here.
    """

    _local, _neighbour = local_kernel_direction, neighbour_kernel_direction

    n_components: int = 1
    _: KW_ONLY
    kernel: str = "rbf"
    gamma: float | None = None
    coef0: float = 1.0
    project: str = "features"
    rounds: int = 1
    weight_scaling: bool = False
    weights: str = "eigenvalue"
    align_signs: bool = False
    topology: Any = "server"
    centre: str = "none"
    local_iterations: int = 10
    warm_start: bool = True
    init: Any = None
    random_state: Any = None

    def _citation(self) -> Citation:
        return Citation(
            f"Kernel principal components with the kernel {self.kernel} were "
            f"approximated by VFedAKPCA, which merges the leading directions of the "
            f"silos’ own kernel matrices.",
            (REFERENCE,),
            exact=False,
        )

    def _check_parameters(self, N: int) -> None:
        local_direction.check_options(self, N)
        _check_kernel(self)

    def _first_vector(self, federation: Federation) -> Float[Array, " N"]:
        # The local eigenpair is computed to round-off, from no starting vector.
        return np.zeros(federation.n_rows or 0)

    def _local_arguments(
        self, start: Float[Array, " N"], last: Float[Array, "N k"]
    ) -> dict[str, Any]:
        return self._kernel()

    def _neighbour_arguments(self, first: Float[Array, " N"]) -> dict[str, Any]:
        return self._kernel()

    def _scores(self, federation: Federation) -> Float[Array, "N k"]:
        if self.project == "features":
            return super()._scores(federation)
        total = federation.sum(local_kernel_scores, U=self.u_, **self._kernel())
        return total["scores"]

    def _kernel(self) -> dict[str, Any]:
        return {
            "kernel": self.kernel,
            "gamma": self.gamma,
            "coef0": self.coef0,
            "centre": self.centre,
        }

    def transform(self, X: Any) -> Float[Array, "N k"]:
        """Return scores of a federation's aligned rows, old or new; "features" only.

        Raises
        ------
        DataError
            When `project` is "kernel".
        """
        federation = self._check_view(check_federation(self, X))
        if self.project != "features":
            raise DataError(
                'project="kernel" gives scores of the rows that were fitted only: the '
                'merged direction says nothing of others. Use project="features", or '
                "KernelPCA."
            )
        return self._scores_of(federation)


def _check_kernel(model: VFedAKPCA) -> None:
    local_direction.check_choices(model, _CHOICES)
    if model.project == "kernel" and model.topology != "server":
        raise DataError(
            'project="kernel" applies one direction to all kernels, and without a '
            'server each silo has its own: use project="features".'
        )
    if model.centre == "rows":
        raise DataError('centre="rows" is for VFedPCA; choose "none" or "columns".')
    if model.gamma is not None and not 0.0 < model.gamma < np.inf:
        raise DataError(f"gamma={model.gamma!r}; choose a number above 0, or None.")
