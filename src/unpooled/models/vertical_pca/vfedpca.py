"""Principal directions of the silos, merged over rounds, as published.

    each silo   A_i = X_i X_iᵀ / p_i, applied, never formed
                a ← A_i a / ‖A_i a‖, L times;  α_i = aᵀ A_i a                (5), (6)
    merge       u = Σ w_i a_i  (13), or among neighbours (Algorithm 5)
    each silo   M = X_iᵀ u,  X_i ← X_i M Mᵀ / ‖M Mᵀ‖                             (14)
    T times; more components by deflation, X_i ← (I - u uᵀ) X_i

The fit is in `merged_directions`, which `VFedAKPCA` shares. It is approximate, and more
rounds do not change that: see the notes of `VFedPCA`. `PCA` on a column partition gives
the pooled answer in as few rounds.
"""

from dataclasses import KW_ONLY, dataclass
from typing import Any, final

import numpy as np

from unpooled.arrays import Array, Float
from unpooled.federation.federation import Federation
from unpooled.models.base import check_federation
from unpooled.models.vertical_pca import neighbour_merge
from unpooled.models.vertical_pca.local_direction import (
    FOUND,
    REPLACED,
    check_options,
    own_factors,
    power_iteration,
    starting_vector,
)
from unpooled.models.vertical_pca.merged_directions import REFERENCE, MergedDirections
from unpooled.protocol.step import exchanged, kept, public, release, stays
from unpooled.results.citations import Citation

_VECTOR = "the first principal direction of the silo's own columns over the people"
_EIGENVALUE = "the variance of the silo's own columns along that direction"
_START = public("N", "the vector from which every silo starts its power iteration")
_LAST = public("N k", "the merged direction that it starts from in later rounds")


@kept(
    by="party",
    takes={"start": _START, "last": _LAST, "replaced": REPLACED, "found": FOUND},
    # Another start turns the directions of some silos and not of others, so that two
    # totals subtract to those of few silos, or of one.
    settings=("start", "iterations", "centre"),
    vector=stays("N", meaning=_VECTOR, until="fit"),
    eigenvalue=stays("", meaning=_EIGENVALUE, until="fit"),
)
def local_direction(
    X: Float[Array, "N p"],
    *,
    start: Float[Array, " N"],
    last: Float[Array, "N k"],
    replaced: Float[Array, "N l"],
    found: Float[Array, "N q"],
    iterations: int,
    centre: str,
) -> dict[str, Any]:
    """Run the power method on this silo's columns.

    Parameters
    ----------
    X : (N, p) array
        The silo's columns.
    start : (N,) array
        Where to start the first round of each component.
    last : (N, k) array
        In later rounds of a warm start, k = 1: where to start instead. Otherwise k = 0.
    replaced : (N, l) array
        No column in the first round; then the vector by which (14) replaced the data.
    found : (N, q) array
        Components found so far, unit columns, which are deflated.
    iterations : int
        L.
    centre : {"columns", "rows", "none"}
        What is subtracted.
    """
    factors = own_factors(X, replaced, found, centre)
    vector, eigenvalue = power_iteration(
        factors, last[:, 0] if last.shape[1] else start, iterations
    )
    return {"vector": vector, "eigenvalue": np.array(eigenvalue)}


@exchanged(
    by="party",
    takes={"init": _START},
    vector=release("N", meaning=_VECTOR),
    eigenvalue=release("", meaning=_EIGENVALUE),
)
def neighbour_direction(
    X: Float[Array, "N p"],
    kept: Any,
    *,
    init: Float[Array, " N"],
    component: int,
    number: int,
    rounds: int,
    warm_start: bool,
    iterations: int,
    centre: str,
) -> dict[str, Any]:
    """Run the power method from this silo's own merged direction."""
    last, replaced, found = neighbour_merge.state(
        kept, component, number, rounds, len(X)
    )
    none = np.zeros((len(X), 0))
    return local_direction(
        X,
        start=init,
        last=none if last is None or not warm_start else last[:, None],
        replaced=replaced,
        found=found,
        iterations=iterations,
        centre=centre,
    )


@final
@dataclass(eq=False, repr=False)
class VFedPCA(MergedDirections):
    """VFedPCA, the published approximation of PCA on a column partition.

    Parameters
    ----------
    n_components : int, default 1
        How many components; each after the first by deflation.
    local_iterations : int, default 10
        L, steps of the power method in each silo and round.
    rounds : int, default 10
        T, merges for each component.
    warm_start : bool, default True
        Start from the last u in round 2 and later, rather than from `init` again.
    weight_scaling : bool, default False
        Rescale the weights by (15), Algorithm 4: those of the half with the larger
        eigenvalues grow, the others shrink.
    topology : {"server", "complete", "ring", "star"} or mapping, default "server"
        Who merges: the coordinator ("server"), or every silo with its neighbours in a
        graph (Algorithm 5); see `Federation.exchange`.
    centre : {"columns", "rows", "none"}, default "columns"
        "columns" is PCA proper; "rows" subtracts from each row its mean over the silo's
        columns within A_i, with denominator p_i - 1, as the authors' code does; "none"
        is the paper's text (sections 3.1 and 3.2).
    align_signs : bool, default False
        Flip the sign of each silo's vector so that its product with the vector of the
        largest eigenvalue is not negative; False is the paper as printed.
    weights : {"eigenvalue", "equal"}, default "eigenvalue"
        (13), or the same for all: VFedAvgPCA of section 4.3.5, as its authors' code
        has it (the caption of its Figure 10 says "without weight scaling").
    init : (N,) array, optional
        Where every silo starts each component; drawn from `random_state` when None.
    random_state : int, optional
        Seed of that draw; None: the same start in every fit. A silo answers for one
        start, since the totals for several tell its own directions.

    Attributes
    ----------
    u_ : (N, k) array
        The merged directions over the people, unit columns; in each the entry of
        largest magnitude is positive.
    scores_ : (N, k) array
        The joined columns times the components, centred with ``centre="columns"``.
    components_ : (k, p) array
        Loadings, unit rows, by the parties' columns in their order. Each silo keeps its
        own part; reading this attribute asks the silos to disclose them.
    explained_variance_ : (k,) array
        Variance of the joined columns along u, with denominator N - 1.
    history_ : list of dict
        One for each round, component after component: "u", (N,), as merged, not
        normalised; "weights", (m,) in the order of the parties' names, or None where
        nobody knows them; "component". Without a server (m, N) and (m, m), a row for
        each party in their order, with weight 0 for parties that are no neighbours.
    n_samples_ : int
        N.
    kept_ : str
        Study and view under which the silos keep their part of the components.

    Raises
    ------
    DataError
        Missing values, columns that do not vary, or arguments that are not these.

    Notes
    -----
    Released, as totals: N + 1 numbers in every round, the weighted vectors and the
    weights, so that no silo's own vector is seen; at the end each component's sum of
    squares, and the scores. With `weight_scaling` the silos disclose their eigenvalues,
    and with `align_signs` their vectors as well, which each must allow. Never released:
    loadings, unless asked for, or a row. u has an entry for each person.

    Without a server every silo sends its vector and eigenvalue to its neighbours in
    every round, in clear, which all must allow (`allow_disclosed`). The coordinator
    opens nothing: `u_`, which is the first party's, `scores_`, `history_` and the other
    attributes are disclosed when they are first read. Signs are as merged. Each silo
    continues with its own u; unless the graph is complete these differ, and stay
    different.

    The fixed point is not the pooled answer. Equation (14) makes every silo's data rank
    one in the first round, and no later round changes them: u is the same from the
    second round on, up to single signs under a warm start. The distance to the pooled
    direction depends on how alike the silos' own directions are; more rounds do not
    reduce it. Aligning signs reduces it most: with warm start, by round 10, from .025
    to .011 on musk in ten parts.

    See Also
    --------
    PCA : the pooled answer on the same silos, exact.

    References
    ----------
    Cheung, Jiang, Yu, Lou, Vertical Federated Principal Component Analysis and Its
    Kernel Extension on Feature-wise Distributed Data, sections 3.2 and 3.5 to 3.9,
    Algorithms 2 to 5. Section 3.2 prints A_i = x_iᵀ x_i / f_i, with a row for each
    column: directions of different silos could not be added, so A_i is read as S of
    section 3.1 is. Algorithm 2 draws a start for each silo; here they share one. It
    merges one direction; deflation is an addition.
    """

    _local, _neighbour = local_direction, neighbour_direction

    n_components: int = 1
    _: KW_ONLY
    local_iterations: int = 10
    rounds: int = 10
    warm_start: bool = True
    weight_scaling: bool = False
    topology: Any = "server"
    centre: str = "columns"
    align_signs: bool = False
    weights: str = "eigenvalue"
    init: Any = None
    random_state: Any = None

    def _citation(self) -> Citation:
        return Citation(
            "Principal components were approximated by VFedPCA, which merges the "
            "leading directions of the silos’ own columns.",
            (REFERENCE,),
            exact=False,
        )

    def _check_parameters(self, N: int) -> None:
        check_options(self, N)

    def _first_vector(self, federation: Federation) -> Float[Array, " N"]:
        return starting_vector(self, federation, federation.n_rows or 0)

    def _local_arguments(
        self, start: Float[Array, " N"], last: Float[Array, "N k"]
    ) -> dict[str, Any]:
        return {"start": start, "last": last, **self._power_method()}

    def _neighbour_arguments(self, first: Float[Array, " N"]) -> dict[str, Any]:
        return {"init": first, "warm_start": self.warm_start, **self._power_method()}

    def _power_method(self) -> dict[str, Any]:
        return {"iterations": self.local_iterations, "centre": self.centre}

    def transform(self, X: Any) -> Float[Array, "N k"]:
        """Return the scores of the aligned rows of a federation.

        Parameters
        ----------
        X : Federation
            The same silos with the same columns, with these rows or new ones.
        """
        return self._scores_of(self._check_view(check_federation(self, X)))
