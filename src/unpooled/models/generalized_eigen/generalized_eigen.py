"""Generalised eigenproblems of a user's own declared matrices.

    each silo    a user's step forms A_i and B_i from the silo's rows, and keeps them
    "exact"      silos ── A_i, B_i ──> Σ A_i, Σ B_i ──> A v = λ B v
    "dgep-..."   silos ── M_i = B_i^(-1/2) A_i B_i^(-1/2) ──> Σ M_i ──> M w = λ w

Principal components, discriminants, canonical correlations and partial least squares
are of this form, and have estimators of their own. The one-shot algorithms are
approximate: `GeneralizedEigen.diagnose` compares their solution with the exact one.
"""

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from typing import Any, ClassVar, final

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from unpooled.arrays import Array, Float
from unpooled.errors import DataError, ReleaseRefusedError
from unpooled.federation.federation import Federation
from unpooled.linalg.dgep import (
    DGEP,
    power_eigenvectors,
    starting_block,
)
from unpooled.linalg.eigen import symmetric_eigenpairs
from unpooled.linalg.generalized_eigen import inverse_root, leading_pencil_pairs
from unpooled.linalg.partial_least_squares import leading_singular_pairs
from unpooled.models.base import FederatedEstimator
from unpooled.models.generalized_eigen.diagnosis import Diagnosis, diagnosed
from unpooled.models.generalized_eigen.generalized_eigen_results import (
    generalized_eigen_exhibits,
)
from unpooled.models.parameter_checks import check_choice
from unpooled.protocol.step import (
    Step,
    derived,
    disclosed,
    find_step,
    public,
    release,
    summed,
)
from unpooled.results.citations import Citation

SOLVERS = ("exact", "dgep-eigh", "dgep-power")


@summed(
    within_silos=True,
    A=release("p p", symmetric=True, meaning="matrix A of the problem (A v = λ B v)"),
    B=release("p p", symmetric=True, meaning="matrix B of the problem (A v = λ B v)"),
)
def local_pair(kept: Any) -> dict[str, Any]:
    """Release the matrices that the user's step kept."""
    return {name: symmetric(kept[name]) for name in ("A", "B")}


@summed(
    within_silos=True,
    M=release(
        "p p",
        symmetric=True,
        meaning="the silo's A multiplied from both sides by the inverse root of its B",
    ),
)
def local_whitened(kept: Any, *, ridge: float, pseudo: bool) -> dict[str, Any]:
    """Release ``B_i^(-1/2) A_i B_i^(-1/2)``."""
    root = inverse_root(symmetric(kept["B"]), ridge, pseudo=pseudo)
    return {"M": root @ symmetric(kept["A"]) @ root}


@disclosed(
    radii=release(
        "2",
        meaning="the largest eigenvalues of the silo's A and B (the most by which each "
        "stretches a direction)",
    )
)
def local_radii(kept: Any) -> dict[str, Any]:
    """Disclose the spectral radii that are in the paper's bound."""
    return {"radii": np.array([np.linalg.norm(kept[name], 2) for name in ("A", "B")])}


@derived(
    within_silos=True,
    takes={"vectors": public("p k", "the eigenvectors (weights of all columns)")},
)
def projected(
    X: Float[Array, "n p"], *, vectors: Float[Array, "p k"]
) -> Float[Array, "n k"]:
    """Return coordinates of rows along the eigenvectors."""
    return X @ vectors


@final
@dataclass(frozen=True)
class OneShotSolver:
    """Options of the one-shot solvers, which find leading eigenvectors of Σ M_i.

    Attributes
    ----------
    solver : {"dgep-eigh", "dgep-power"}
        Algorithm 1, by an eigendecomposition, or Algorithm 2, by the power method.
    max_iter : int
        Number of steps of the power method.
    init : (p, k) array or None
        Where it starts; drawn at random when None.
    seed : callable
        Returns the seed of that draw.
    """

    solver: str
    max_iter: int
    init: Any
    seed: Callable[[], Any]

    @classmethod
    def of(cls, model: Any, federation: Federation) -> "OneShotSolver":
        """Return the options that a model has as parameters of these names."""
        draw = partial(federation.seed, model.random_state)
        return cls(model.solver, model.max_iter, model.init, draw)

    def eigenvectors(self, M: Float[Array, "p p"], k: int) -> Float[Array, "p k"]:
        """Return the leading eigenvectors of M."""
        if self.solver == "dgep-eigh":
            return symmetric_eigenpairs(M, k)[1]
        return self._by_power_method(lambda W: M @ W, len(M), k)

    def left_singular_vectors(
        self, F: Float[Array, "p l"], k: int
    ) -> Float[Array, "p k"]:
        """Return the leading eigenvectors of ``F Fᵀ``, which is never formed."""
        if self.solver == "dgep-eigh":
            return leading_singular_pairs(F, k)[0]
        return self._by_power_method(lambda W: F @ (F.T @ W), len(F), k)

    def _by_power_method(
        self,
        apply: Callable[[Float[Array, "p k"]], Float[Array, "p k"]],
        p: int,
        k: int,
    ) -> Float[Array, "p k"]:
        start = starting_block(self.init, p, k, self.seed)
        return power_eigenvectors(apply, start, self.max_iter)


@final
@dataclass(eq=False, repr=False)
class GeneralizedEigen(
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, FederatedEstimator
):
    """Leading eigenvectors of ``Σ A_i v = λ Σ B_i v``, A_i and B_i from a user's step.

    Parameters
    ----------
    n_components : int, default 1
        k, at most p.
    pair : Step or str
        A step declared with `kept` that returns "A" and "B", both (p, p) and symmetric,
        B positive definite; or its name, "module.step", which can be saved.
    public : mapping, optional
        The step's keyword-only arguments.
    solver : {"exact", "dgep-eigh", "dgep-power"}, default "exact"
        "exact" adds A_i and B_i. The others are the published one-shot algorithms,
        which add M_i and are approximate.
    ridge : float or None, default None
        One-shot only: added to the diagonal of each B_i. None: pseudo-inverse roots.
    max_iter : int, default 10
        "dgep-power" only: number of steps of the power method.
    init : (p, k) array, optional
        "dgep-power" only: where it starts; drawn at random when omitted.
    random_state : int, optional
        Seed of that draw.

    Attributes
    ----------
    eigenvectors_ : (p, k) array
        In each column the entry of largest magnitude is positive. "exact": vectors v,
        B-orthonormal. One-shot: orthonormal vectors w in the silos' whitened
        coordinates, as published; no pooled B is known to map them back.
    eigenvalues_ : (k,) array
        In descending order; of Σ M_i for one-shot solvers.
    n_features_in_ : int
        p, the number of columns.
    feature_names_in_ : (p,) array of str
        Names of the columns, where the silos' tables have names.

    Raises
    ------
    DataError
        A step that is not declared with `kept` or keeps other arrays, a singular B.

    Notes
    -----
    Released, as totals only: "exact" Σ A_i and Σ B_i, one-shot Σ M_i, in one round.
    Never released: a row, or any silo's own matrix. The user's step runs in a round
    before it, in which nothing leaves.

    References
    ----------
    Lv et al., One-Shot Distributed Generalized Eigenvalue Problem (DGEP), 2022,
    sections 2 and 3, Algorithms 1 and 2.
    """

    eigenvectors_: Float[Array, "p k"] = field(init=False)
    eigenvalues_: Float[Array, " k"] = field(init=False)

    _estimates: ClassVar[Mapping[str, int | None]] = {
        "eigenvectors_": 1,
        "eigenvalues_": None,
    }
    _exhibits = generalized_eigen_exhibits

    n_components: int = 1
    _: KW_ONLY
    pair: Step | str | None = None
    public: Mapping[str, Any] | None = None
    solver: str = "exact"
    ridge: float | None = None
    max_iter: int = 10
    init: Any = None
    random_state: int | None = None

    def _citation(self) -> Citation:
        return Citation(
            f"The generalised eigenproblem of the silos’ matrices was solved with the "
            f"solver {self.solver}.",
            (DGEP,),
            exact=self.solver == "exact",
        )

    def _fit(self, federation: Federation, y: Any) -> None:
        p, k = federation.n_features, self.n_components
        check_choice("solver", self.solver, SOLVERS)
        if not (isinstance(k, int | np.integer) and 1 <= k <= p):
            raise DataError(f"n_components={k!r}; choose a whole number from 1 to {p}.")
        federation.keep(_pair_of(self.pair), **(self.public or {}))
        if self.solver == "exact":
            totals = federation.sum(local_pair)
            self.eigenvalues_, self.eigenvectors_ = leading_pencil_pairs(
                totals["A"], totals["B"], int(k)
            )
            return
        M = federation.sum(local_whitened, **roots(self.ridge))["M"]
        solver = OneShotSolver.of(self, federation)
        self.eigenvectors_ = solver.eigenvectors(M, int(k))
        W = self.eigenvectors_
        self.eigenvalues_ = np.einsum("pk,pk->k", W, M @ W)

    def diagnose(self, federation: Federation) -> Diagnosis:
        """Compare a one-shot answer with the exact one; releases Σ A_i and Σ B_i.

        The paper's bound is left out where a silo's policy does not allow it to
        disclose the spectral radii of its own matrices.

        Parameters
        ----------
        federation : Federation
            The one of the fit.

        Raises
        ------
        DataError
            When the answer was exact.
        """
        check_is_fitted(self)
        if self.solver == "exact":
            raise DataError("An exact answer has no error to diagnose.")
        pair, public = _pair_of(self.pair), self.public or {}
        with federation.calling(self, "diagnose"):
            federation.keep(pair, **public)
            M = federation.sum(local_whitened, **roots(self.ridge))["M"]
            return diagnosis_of(federation, pair, public, self.eigenvectors_, M)

    @property
    def _n_features_out(self) -> int:
        return self.eigenvectors_.shape[1]

    def transform(self, X: Any) -> Any:
        """Project an array, or every silo's rows, lazily.

        Parameters
        ----------
        X : (n, p) array-like or Federation
            A federation gives a view; nothing leaves a silo.
        """
        check_is_fitted(self)
        names = list(self.get_feature_names_out())
        return self._applied(X, projected, {"vectors": self.eigenvectors_}, names)


def diagnosis_of(
    federation: Federation,
    pair: Step,
    public: Mapping[str, Any],
    W: Float[Array, "p k"],
    M: Float[Array, "p p"],
) -> Diagnosis:
    """Compare one-shot vectors with those of ``Σ A_i v = λ Σ B_i v``; three rounds.

    The spectral radii of A_i and B_i are disclosed where every silo allows it.
    Elsewhere the result is without the paper's bound, which is made of them.

    Parameters
    ----------
    federation : Federation
        Within a session of a fit.
    pair : Step
        Keeps A_i and B_i in each silo.
    public : mapping
        Its public arguments.
    W : (p, k) array
        One-shot vectors.
    M : (p, p) array
        Σ M_i, whose vectors they are.

    References
    ----------
    Lv et al., One-Shot Distributed Generalized Eigenvalue Problem (DGEP), 2022, section
    3.
    """
    federation.keep(pair, **public)
    totals = federation.sum(local_pair)
    try:
        by_party = federation.collect(local_radii)
    except ReleaseRefusedError:
        by_party = {}
    radii = np.array([own["radii"] for own in by_party.values()]) if by_party else None
    return diagnosed(W, M, totals["A"], totals["B"], radii, len(federation.parties))


def roots(ridge: float | None) -> dict[str, Any]:
    """Return the public arguments that define the inverse roots of the B_i."""
    if ridge is not None and not (np.isfinite(ridge) and ridge > 0):
        raise DataError(f"ridge={ridge!r}; choose a positive number, or None.")
    return {"ridge": float(ridge or 0.0), "pseudo": ridge is None}


def symmetric(M: Float[Array, "p p"]) -> Float[Array, "p p"]:
    """Return a matrix if it is symmetric; raise DataError otherwise."""
    if np.abs(M - M.T).max(initial=0.0) > 1e-9 * np.abs(M).max(initial=0.0):
        raise DataError("A or B is not symmetric.", rule="declaration")
    return M


def _pair_of(pair: Step | str | None) -> Step:
    if pair is None:
        raise DataError("GeneralizedEigen needs pair=, a step that keeps A and B.")
    # By name, because a clone of the estimator has a copy of the step.
    step = find_step(pair if isinstance(pair, str) else pair.name)
    shapes = {name: d.letters for name, d in step.declared.items()}
    if step.verb != "kept" or shapes != dict.fromkeys("AB", ("p", "p")):
        raise DataError(
            f'{step.name} must be declared with kept(A="p p", B="p p"); it is '
            f"{step.verb}, with {shapes}."
        )
    return step
