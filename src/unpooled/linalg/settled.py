"""Decompositions settled in one place, because they differ between machines.

    coordinator   solves, goes on with its result, and records it as a hint
    silo          solves too, checks the hint against its own result and against the
                  operand, and goes on with the hint's bits

Every silo runs the study's program on the totals that were opened, and refuses a
request with other arguments, bit for bit. Totals are whole numbers, so everything that
is computed from them entry by entry is equal everywhere. The results of LAPACK, and of
products of matrices, differ in their last digits with the processor, the library and
the number of threads; a few (signs, directions of equal eigenvalues) differ freely.
These results pass through `settled`, which does nothing outside of such a run.

A hint that is accepted leaves no more freedom than rounding does: residuals within
`TOLERANCE` of the operand, before anything cancelled; columns orthonormal and values
equal to the same. Directions of eigenvalues that are zero are never taken from a hint:
`completed` makes them from the others, entry by entry. Those of equal eigenvalues are
only taken as a span, of which `untied` makes a basis.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import final

import numpy as np

from unpooled.arrays import Array, Float
from unpooled.errors import UnpooledError
from unpooled.linalg.threads import one_thread

Arrays = Mapping[str, Array]
# The arrays of each settled result, under the name of what was solved.
Hint = Mapping[str, Arrays]
Accept = Callable[[Arrays, Arrays], bool]

# Largest difference between two machines, in units of the operand; it grows with the
# number of rows, of which this many have it.
TOLERANCE, _ROWS = 1e-12, 256
# Tolerance of quantities that are solved for after a decomposition, relative to their
# largest entry.
_SOLVED = 1e-8
# Equal eigenvalues of more vectors than these are left as they come.
_MOST_TIED = 64
# A row of which less than this lies in a span counts as outside it.
_OUTSIDE = 1e-28


@final
class HintRefused(UnpooledError):  # noqa: N818 - says what happened to the hint
    """A decomposition that the coordinator sent does not fit what was opened."""

    def __init__(self, name: str, wrong: str) -> None:
        super().__init__(
            f"The coordinator's result of {name} is refused: {wrong}. Run the same "
            f"version of the library, NumPy and SciPy at all ends.",
            rule="hint",
        )


# None, the list that hints are recorded in, or the hints that were sent.
_hints: ContextVar[list[Hint] | Iterator[Hint] | None] = ContextVar(
    "hints", default=None
)


@contextmanager
def recording() -> Iterator[list[Hint]]:
    """Record the results of all decompositions within, for other machines."""
    hints: list[Hint] = []
    token = _hints.set(hints)
    try:
        yield hints
    finally:
        _hints.reset(token)


@contextmanager
def checking(hints: Iterator[Hint]) -> Iterator[None]:
    """Take the results of all decompositions within from hints, and check them.

    Parameters
    ----------
    hints : iterator of Hint
        In the order of the decompositions; it may block until the next one is sent.
    """
    token = _hints.set(iter(hints))
    try:
        yield
    finally:
        _hints.reset(token)


@contextmanager
def unsettled() -> Iterator[None]:
    """Leave decompositions within alone: a silo's steps are its own business."""
    token = _hints.set(None)
    try:
        yield
    finally:
        _hints.reset(token)


def settled(
    name: str,
    solve: Callable[[], Arrays],
    accept: Accept,
    *,
    ranked: bool = False,
) -> Arrays:
    """Return the result of a decomposition that all ends go on with.

    Parameters
    ----------
    name : str
        What is solved; a hint for something else is refused.
    solve : callable
        Returns this machine's result.
    accept : callable
        Takes the result sent and this machine's own, of equal names and shapes, and
        returns whether they differ by no more than rounding.
    ranked : bool, default False
        Whether shapes depend on a rank that was decided, which `accept` then checks.

    Returns
    -------
    mapping of str to array
        This machine's result, or the one that was sent, read-only.

    Raises
    ------
    HintRefused
        When the result sent is for something else, not finite, or not accepted.
    """
    hints, own = _hints.get(), solve()
    if hints is None:
        return own
    if isinstance(hints, list):
        hints.append({name: {key: np.array(value) for key, value in own.items()}})
        return own
    hint = next(hints, None)
    if hint is None:
        raise HintRefused(name, "it was not sent")
    if list(hint) != [name] or sorted(hint[name]) != sorted(own):
        raise HintRefused(name, "it is of something else")
    found = {key: _frozen(hint[name][key]) for key in own}
    for key, value in found.items():
        wanted = np.asarray(own[key])
        shapes = (value.ndim, wanted.ndim) if ranked else (value.shape, wanted.shape)
        if value.dtype != wanted.dtype or shapes[0] != shapes[1]:
            raise HintRefused(name, "it has another shape")
        if not np.isfinite(value).all():
            raise HintRefused(name, "it is not finite")
    if not accept(found, own):
        raise HintRefused(name, "it differs by more than rounding")
    return found


def near(
    found: Array, own: Array, unit: float | Array | None = None, rows: int = 0
) -> bool:
    """Whether two results differ by no more than rounding.

    Parameters
    ----------
    found, own : arrays of one shape
        The result sent and this machine's.
    unit : float or array, optional
        Size of what they were computed from; by default of the largest own entry.
    rows : int, default 0
        Number of terms that were added for an entry, where it is large.
    """
    if unit is None:
        unit = float(np.abs(own).max(initial=0.0))
    allowed = TOLERANCE * max(1.0, rows / _ROWS) * np.asarray(unit)
    return bool((np.abs(found - own) <= allowed).all())


def by_nearness(found: Arrays, own: Arrays) -> bool:
    """Accept arrays each of which is near this machine's, in units of its largest."""
    return all(near(found[key], own[key], rows=len(own[key].T)) for key in own)


def by_closeness(found: Arrays, own: Arrays) -> bool:
    """Accept arrays that solvers made of settled ones: ill-conditioned, a few digits.

    What they are used for is about all rows alike, so that a change of the last digits
    tells no more of one row than of any other.
    """
    return all(
        bool(
            (
                np.abs(found[key] - own[key])
                <= _SOLVED * np.abs(own[key]).max(initial=0.0)
            ).all()
        )
        for key in own
    )


def is_orthonormal(V: Float[Array, "p k"]) -> bool:
    """Whether columns are orthonormal, up to rounding."""
    return near(V.T @ V, np.eye(V.shape[1]), 1.0, len(V))


def eigenpairs_of(A: Float[Array, "p p"]) -> Accept:
    """Return the check of "values" and "vectors" as leading eigenpairs of A.

    There may be fewer vectors than values.
    """

    def accept(found: Arrays, own: Arrays) -> bool:
        values, V = found["values"], found["vectors"]
        r = V.shape[1]
        if values.shape != own["values"].shape or len(V) != len(A) or r > len(values):
            return False
        top = float(np.abs(own["values"]).max(initial=0.0))
        return (
            near(values, own["values"], top, len(A))
            and is_orthonormal(V)
            and near(A @ V, V * values[:r], top or 1.0, len(A))
        )

    return accept


def singular_pairs_of(S: Float[Array, "p q"], unit: float) -> Accept:
    """Return the check of "values", "left" and "right" as singular triplets of S.

    There may be fewer vectors than values.

    Parameters
    ----------
    S : (p, q) array
        The operand.
    unit : float
        Largest entry of what S was computed from, by differences perhaps.
    """

    def accept(found: Arrays, own: Arrays) -> bool:
        values, U, V = found["values"], found["left"], found["right"]
        rows = max(S.shape)
        # A norm of the operand, in place of its largest entry.
        scale = unit * np.sqrt(rows)
        return (
            near(values, own["values"], scale, rows)
            and is_orthonormal(U)
            and is_orthonormal(V)
            and near(S @ V, U * values[: U.shape[1]], scale, rows)
            and near(S.T @ U, V * values[: V.shape[1]], scale, rows)
        )

    return accept


def pencil_pairs_of(A: Float[Array, "p p"], B: Float[Array, "p p"]) -> Accept:
    """Return the check of "values" and "vectors" for ``A V = B V Λ``, ``VᵀBV = I``.

    Columns of zeros, beyond the dimension of the problem, are accepted where this
    machine has them too.
    """

    def accept(found: Arrays, own: Arrays) -> bool:
        values, V = found["values"], found["vectors"]
        k = V.shape[1]
        filled = own["vectors"].any(axis=0)
        if (V.any(axis=0) != filled).any():
            return False
        a, b = (float(np.abs(M).max(initial=0.0)) * len(M) for M in (A, B))
        # With an ill-conditioned B the vectors are long, and their products less
        # accurate.
        lengths = np.abs(own["vectors"]).max(axis=0, initial=0.0)
        longest = lengths.max(initial=0.0)
        size = a + b * float(np.abs(own["values"]).max(initial=0.0))
        return (
            near(values, own["values"], size * longest**2)
            and near(V.T @ B @ V, np.diag(filled), b * np.outer(lengths, lengths))
            and near(A @ V, B @ V * values[:k], size * lengths)
        )

    return accept


@one_thread()
def orthonormal_basis(Z: Float[Array, "p k"]) -> Float[Array, "p k"]:
    """Return Q of the QR factors of Z."""

    def accept(found: Arrays, own: Arrays) -> bool:
        Q = found["Q"]
        R, size = Q.T @ Z, float(np.abs(Z).max(initial=0.0))
        diagonal, ours = R.diagonal(), (own["Q"] * Z).sum(axis=0)
        return (
            is_orthonormal(Q)
            and near(np.tril(R, -1), np.zeros_like(R), size, len(Z))
            and near(Q @ R, Z, size, len(Z))
            and near(diagonal, ours, size, len(Z))
        )

    def solve() -> Arrays:
        return {"Q": np.linalg.qr(Z)[0]}

    return settled("orthonormal basis", solve, accept)["Q"]


def completed(V: Float[Array, "p r"], k: int) -> Float[Array, "p k"]:
    """Return k orthonormal columns, of which V are the first.

    The others are made of unit vectors of the entries that V has least of, in a fixed
    order of additions: from equal bits of V every machine makes the same.
    """
    p, r = V.shape
    W = np.zeros((p, k))
    W[:, :r] = V
    share = np.add.reduce(W * W, axis=1)
    for j in range(r, k):
        entry = int(share.argmin())
        v = np.zeros(p)
        v[entry] = 1.0
        if share[entry] > _OUTSIDE:
            known = np.ascontiguousarray(W[:, :j])
            for _ in range(2):
                along = np.add.reduce(known * v[:, None], axis=0)
                v -= np.add.reduce(known * along, axis=1)
            v /= np.sqrt(np.add.reduce(v * v))
        W[:, j] = v
        share += v * v
        share[entry] = np.inf
    return W


def untied(values: Float[Array, " l"], V: Float[Array, "p k"]) -> Float[Array, "p k"]:
    """Return eigenvectors, those of equal eigenvalues as a fixed basis of their span.

    Any rotation of them has the same residuals, so a hint could choose one. A basis
    that begins with the projection of the nearest unit vector follows from the span.

    Parameters
    ----------
    values : (l,) array
        In descending order, at least k.
    V : (p, k) array
        Orthonormal columns.
    """
    k = V.shape[1]
    apart = -np.diff(values[:k]) > TOLERANCE * np.abs(values[:k][:-1])
    groups = np.split(np.arange(k), np.flatnonzero(apart) + 1)
    if all(not 1 < len(group) <= _MOST_TIED for group in groups):
        return V
    W = np.array(V)
    for group in groups:
        if 1 < len(group) <= _MOST_TIED:
            W[:, group] = _basis_by_entries(np.ascontiguousarray(V[:, group]))
    return W


def _basis_by_entries(rest: Float[Array, "p g"]) -> Float[Array, "p g"]:
    """Return a basis of the span of orthonormal columns, in a fixed order of sums."""
    basis = np.zeros_like(rest)
    for j in range(rest.shape[1]):
        entry = int(np.add.reduce(rest * rest, axis=1).argmax())
        along = rest[entry] / np.sqrt(np.add.reduce(rest[entry] * rest[entry]))
        v = np.add.reduce(rest * along, axis=1)
        basis[:, j] = v
        rest = rest - v[:, None] * along
    return basis


def with_positive_peaks(V: Float[Array, "p k"]) -> Float[Array, "p k"]:
    """Flip columns so that in each the entry of largest magnitude is positive."""
    peaks = np.take_along_axis(V, np.abs(V).argmax(axis=0)[None], axis=0)
    return np.ascontiguousarray(V * np.where(peaks < 0, -1.0, 1.0))


def product(A: Float[Array, "p r"], B: Float[Array, "r q"]) -> Float[Array, "p q"]:
    """Return ``A @ B``, added in a fixed order: for few columns of A.

    BLAS adds in an order that depends on the machine.
    """
    total = np.zeros((A.shape[0], B.shape[1]))
    for column, row in zip(A.T, B, strict=True):
        total += column[:, None] * row
    return total


def column_lengths(U: Float[Array, "p k"]) -> Float[Array, " k"]:
    """Return the Euclidean length of each column, added in a fixed order."""
    return np.sqrt(np.add.reduce(U * U, axis=0))


def _frozen(value: Array) -> Array:
    copy = np.array(value)
    copy.setflags(write=False)
    return copy
