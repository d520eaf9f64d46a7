"""The span of the pooled rows, for models of more columns than rows.

    round 1   silos <── mean ──  silos ── squared deviations from it ────> squares
    round 2   silos <── a random block V of N + 7 columns, N the number of rows
              silos ── S_i V, S_i their scatter about the mean ──> Σ S_i V
    basis     Z, orthonormal, of the range of Σ S_i V
    then      the model is fitted on the coordinates (x - mean) Z of every silo's rows

The scatter has at most the rank of the rows, so its product with a random block has
the span of the rows as its range, and nobody forms a p × p array. A multiple of the
identity, which regularisation adds, maps the span to itself: a regularised model has
the same solution within the span as among all columns.

References
----------
Halko, Martinsson and Tropp, Finding structure with randomness, SIAM Review 53 (2011).
"""

from dataclasses import dataclass
from typing import Any, final

import numpy as np
import scipy.linalg

from unpooled.arrays import Array, Float
from unpooled.federation.federation import Federation
from unpooled.linalg.eigen import with_positive_peaks
from unpooled.linalg.moments import squared_deviations
from unpooled.linalg.settled import Arrays, is_orthonormal, near, settled
from unpooled.models.moments import MEAN, SQUARES
from unpooled.protocol.bounds import CauchySchwarzImage
from unpooled.protocol.step import derived, public, release, summed

# Singular values of the image below this share of the largest are rounding errors.
_ROUNDING = 1e-12


@summed(
    within_silos=True,
    takes={"mean": MEAN},
    squares=release("p", meaning=SQUARES),
)
def local_spread(X: Float[Array, "n p"], *, mean: Float[Array, " p"]) -> dict[str, Any]:
    """Add squared deviations from the mean of all rows."""
    return {"squares": squared_deviations(X, mean)}


@summed(
    within_silos=True,
    takes={
        "mean": MEAN,
        "squares": public("p", SQUARES),
        "V": public(
            "p q", "a block of weights of columns, by which the next product is taken"
        ),
    },
    image=release(
        "p q",
        bound=CauchySchwarzImage("squares", "V"),
        meaning="products of each column with q public linear combinations of all "
        "columns, added",
    ),
)
def local_span(
    X: Float[Array, "n p"],
    *,
    mean: Float[Array, " p"],
    squares: Float[Array, " p"],
    V: Float[Array, "p q"],
) -> dict[str, Any]:
    """Multiply this silo's scatter about the mean of all rows by a public block."""
    Z = X - mean
    return {"image": Z.T @ (Z @ V)}


def row_space(
    federation: Federation, mean: Float[Array, " p"], N: int, first: int
) -> Float[Array, "p q"]:
    """Return an orthonormal basis of the span of the rows about the mean; two rounds.

    Parameters
    ----------
    federation : Federation
        Rows without missing cells.
    mean : (p,) array
        Mean of all rows.
    N : int
        Number of rows.
    first : int
        Number of columns of a first view; the others are a second one. Each view has a
        basis of its own, and the result is block-diagonal. p where there is one view.
    """
    p = len(mean)
    squares = federation.sum(local_spread, mean=mean)["squares"]
    bases = []
    for block in _blocks(p, N, first):
        if block.V is None:
            bases.append(np.eye(block.width))
            continue
        totals = federation.sum(local_span, mean=mean, squares=squares, V=block.V)
        image = totals["image"]
        if federation.coordinator.planned:
            image[block.rows] = np.eye(block.width, N + 7)
        bases.append(_range(image[block.rows], N - 1)[0])
    return scipy.linalg.block_diag(*bases)


@final
@dataclass(frozen=True)
class _Block:
    """The columns of a view, and the block for them where they are N or more."""

    rows: slice
    width: int
    V: Float[Array, "p l"] | None


def _blocks(p: int, N: int, first: int) -> list[_Block]:
    # Any random directions will do. With a fixed seed silos can verify that nobody
    # chose them.
    rng, blocks = np.random.default_rng(0), list[_Block]()
    for start, stop in ((0, first), (first, p)):
        width, V = stop - start, None
        if width >= N:
            V = np.zeros((p, N + 7))
            V[start:stop] = rng.standard_normal((width, N + 7))
        if width:
            blocks.append(_Block(slice(start, stop), width, V))
    return blocks


def scaled_row_space(
    federation: Federation, mean: Float[Array, " p"], N: int
) -> tuple[Float[Array, "p q"], Float[Array, " p"]]:
    """Return a basis of the span of standardised rows, and the deviations; two rounds.

    Columns in small units have the same weight as others, and keep their digits.

    Parameters
    ----------
    federation, mean, N
        See `row_space`.

    Returns
    -------
    Z : (p, q) array
        Orthonormal columns.
    scale : (p,) array
        Standard deviations of the columns with denominator N; 1 for constant columns.
    """
    squares = federation.sum(local_spread, mean=mean)["squares"]
    scale = deviations(squares, mean, N)
    rng = np.random.default_rng(0)
    V = rng.standard_normal((len(scale), N + 7)) / scale[:, None]
    image = federation.sum(local_span, mean=mean, squares=squares, V=V)["image"]
    if federation.coordinator.planned:
        image = np.eye(*image.shape)
    return _range(image / scale[:, None], N - 1)[0], scale


def _range(
    image: Float[Array, "p q"], most: int
) -> tuple[Float[Array, "p l"], Float[Array, " l"]]:
    """Return an orthonormal basis of a range, and relative singular values."""

    def rank(s: Float[Array, " l"]) -> int:
        return min(most, int((s > _ROUNDING * s[0]).sum()))

    def solve() -> dict[str, Array]:
        U, s, _ = scipy.linalg.svd(image, full_matrices=False)
        return {"values": s, "left": U[:, : rank(s)]}

    def accept(found: Arrays, own: Arrays) -> bool:
        s, U, rows = found["values"], found["left"], len(image)
        if s.shape != own["values"].shape or U.shape != (rows, rank(s)):
            return False
        top = float(own["values"][0])
        along = U.T @ image
        squares = np.diag((s[: U.shape[1]] / top) ** 2)
        return (
            near(s, own["values"], top, rows)
            and is_orthonormal(U)
            and near(U @ along, image, top, rows)
            and near((along / top) @ (along / top).T, squares, 1.0, rows)
        )

    found = settled("span of the rows", solve, accept, ranked=True)
    s, U = found["values"], with_positive_peaks(found["left"])
    return U, s[: U.shape[1]] / s[0]


@derived(
    within_silos=True,
    takes={
        "mean": MEAN,
        "basis": public("p q", "a basis of the space that all rows span"),
    },
)
def spanned(
    X: Float[Array, "n p"], *, mean: Float[Array, " p"], basis: Float[Array, "p q"]
) -> Float[Array, "n q"]:
    """Return coordinates of rows in the span of all silos' rows."""
    return (X - mean) @ basis


def coordinates(
    federation: Federation, mean: Float[Array, " p"], basis: Float[Array, "p q"]
) -> Federation:
    """Return a view of the coordinates of every silo's rows, for the same model."""
    names = [f"span{j}" for j in range(basis.shape[1])]
    view = federation.derive(spanned, names, mean=mean, basis=basis)
    return view.asked_by(federation.model)


def deviations(
    squares: Float[Array, " p"], mean: Float[Array, " p"], N: int
) -> Float[Array, " p"]:
    """Return the standard deviations of columns; 1 for constant columns."""
    rounding = (N * np.finfo(float).eps * mean) ** 2
    return np.where(squares / N > rounding, np.sqrt(squares / N), 1.0)
