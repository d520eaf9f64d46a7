"""Canonical correlations of two parties, from bases of the spans of their columns.

    each takes  Z_i = X_i B_i, orthonormal, of the span of its columns about their
                means, turned by a rotation that only it knows
    round 1     silos ── Z_i ──> Z_1 + Z_2, opened by the silos alone; each subtracts
                its own and has the other's
    each finds  Z_iᵀ Z_j = U diag(ρ) Vᵀ, and keeps the weights B_i U of its columns
    round 2     silos ── ρ, squared error bounds ──> Σ, for the coordinator

ρ are the cosines of the principal angles between the spans, and so the canonical
correlations, all of them and exactly. N p numbers are sent at once, where p is the
columns of the wider party. An iteration would need more rounds and nearly as many
numbers: beyond the first few, canonical correlations have no gaps that it could use.

A party learns the span of the other's columns, that is these columns up to a linear map
that it does not know. The rotation is drawn from a digest of the silo's own rows.

References
----------
Björck and Golub, Numerical methods for computing angles between linear subspaces, Math.
Comp. 27 (1973).
"""

from typing import Any

import numpy as np
import scipy.linalg

from unpooled.arrays import Array, Float
from unpooled.errors import ConvergenceError
from unpooled.federation.federation import Federation
from unpooled.linalg.krylov import block_width
from unpooled.linalg.score_pairs import errors, score_pairs
from unpooled.linalg.secret_draws import secret_rotation
from unpooled.linalg.tall_basis import tall_basis
from unpooled.linalg.threads import one_thread
from unpooled.models.moments import complete
from unpooled.protocol.bounds import Ceiling
from unpooled.protocol.step import public, release, stays, summed

# Rounds that blocks of few directions take at most, usually: so many blocks are more
# numbers than all columns at once.
_USUAL_ROUNDS = 40
# A plan's note where the coordinator would open totals about people.
ALTERNATIVE = (
    "CCA chose the products of every two people, which the coordinator opens. With "
    'solver="spans" the two silos alone open totals about people, and each learns the '
    "span of the other's columns."
)


@summed(
    by="party",
    # A silo with more columns than the other is alone in the last coordinates.
    between_two=True,
    takes={"width": "size l"},
    image=release(
        "N l",
        bound=Ceiling("ceiling"),
        meaning="each person's coordinates in the spaces that the silos' columns span, "
        "added over silos and opened by them alone",
    ),
    coordinates=stays(
        "N l", until="fit", meaning="people's coordinates in the span of own columns"
    ),
    back=stays(
        "p l", until="fit", meaning="the weights of own columns in each coordinate"
    ),
    mean=stays("p", meaning="the mean of each of the silo's columns"),
)
def local_coordinates(
    X: Float[Array, "N p"], *, width: int, ceiling: float
) -> dict[str, Any]:
    """Release coordinates of people in a basis of the silo's columns."""
    mean = complete(X).mean(axis=0)
    # As LAPACK reads it, which overwrites it.
    rows = np.subtract(X, mean, order="F")
    # In units of their lengths: columns in small units would be lost. What is left of a
    # constant column is rounding, and has no length.
    lengths = np.linalg.norm(rows, axis=0)
    constant = lengths <= len(X) ** 1.5 * np.finfo(float).eps * np.abs(mean)
    units = np.where(constant, 1.0, lengths)
    with one_thread():
        rows /= units
        basis, T, R = tall_basis(rows)
        U, s, Vt = scipy.linalg.svd(R)
        firm = s > max(X.shape) * np.finfo(float).eps * s.max(initial=0.0)
        turn = secret_rotation(X, int(np.count_nonzero(firm)))
        coordinates = np.zeros((len(X), width))
        coordinates[:, : len(turn)] = basis @ (T @ U[:, firm] @ turn)
        back = np.zeros((X.shape[1], width))
        back[:, : len(turn)] = Vt[firm].T / s[firm] @ turn / units[:, None]
    return {
        "image": coordinates,
        "coordinates": coordinates,
        "back": back,
        "mean": mean,
    }


@summed(
    by="party",
    takes={
        "image": public("N l", "people's coordinates, which only the silos can open"),
        "k": "size k",
        "every": "size c",
    },
    squares=release("k", meaning="squared error bounds of the weights of each pair"),
    correlations=release("c", meaning="the canonical correlations"),
    weights=stays("p k", meaning="the weights of the silo's columns"),
)
def local_angles(
    kept: Any, *, image: Float[Array, "N l"], k: int, every: int
) -> dict[str, Any]:
    """Pair both silos' coordinates; release correlations, and keep the weights."""
    own = kept["coordinates"]
    pairs = score_pairs(own, image - own, k, deflated=(False, False))
    _, sines = errors(own, np.eye(own.shape[1]), pairs, deflated=False)
    # In units in which scores have a variance of 1.
    scale = np.sqrt(len(own) - 1.0)
    return {
        "squares": sines**2,
        # Both silos compute the same correlations, so each releases half.
        "correlations": pairs.covariances[:every] / 2.0,
        "weights": kept["back"] @ pairs.weights * scale,
    }


def are_narrow(federation: Federation, k: int) -> bool:
    """Return whether all columns are sent at once, and note the choice in a plan.

    Parameters
    ----------
    federation : Federation
        A column partition of two parties.
    k : int
        Number of pairs.
    """
    widest = max(len(names) for names in federation.columns_of.values())
    narrow = widest <= _USUAL_ROUNDS * block_width(widest, k)
    federation.coordinator.notes.append(
        f"CCA chose {'to send' if narrow else 'not to send'} coordinates along all "
        f"{widest:,} columns at once; blocks would take about {_USUAL_ROUNDS // 2} to "
        f"{_USUAL_ROUNDS} rounds."
    )
    return narrow


def paired_spans(federation: Federation, k: int, *, tol: float) -> Float[Array, " c"]:
    """Have two parties keep their weights; return all canonical correlations.

    Parameters
    ----------
    federation : Federation
        A column partition of two parties.
    k : int
        Number of pairs of weights.
    tol : float
        Largest sine of the angle between weights and their limits.

    Raises
    ------
    ConvergenceError
        When the first k pairs are not determined, because correlations are equal.
    """
    widths = [len(names) for names in federation.columns_of.values()]
    image = federation.sum(
        local_coordinates, to="parties", width=max(widths), ceiling=2.0
    )
    found = federation.sum(local_angles, k=k, every=min(widths), **image)
    worst = float(np.sqrt(found["squares"].max()))
    if worst > tol and not federation.coordinator.planned:
        raise ConvergenceError(
            f"The weights may be off by {worst:.1e} (the sine of an angle): "
            f"neighbouring correlations are equal, so that their pairs are not "
            f"determined. Try other n_components than {k}."
        )
    return np.clip(found["correlations"], 0.0, 1.0)
