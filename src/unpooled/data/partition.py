"""Partition one data set over simulated silos: rows, evenly or by class, or columns.

Pieces have the type of the data set: array, SciPy sparse array or DataFrame.
"""

from itertools import pairwise
from numbers import Integral, Real
from typing import Any

import numpy as np

from unpooled.arrays import Array, Int
from unpooled.data.columns import check_known
from unpooled.errors import DataError

Splittable = Any  # a NumPy or SciPy sparse array, or a DataFrame
Classes = Any  # one class per row, or a column's name
RandomState = int | np.random.Generator | np.random.RandomState | None
Index = slice | Array


def partition_rows(
    X: Splittable,
    n_parties: int,
    y: Classes = None,
    alpha: int | float | None = None,
    random_state: RandomState = None,
) -> dict[str, Any]:
    """Partition rows over parties named silo1, silo2, ...; each row is in one.

    Parameters
    ----------
    X : array, sparse array or DataFrame
        Has at least one row for every party.
    n_parties : int
        Number of parties.
    y : (n,) array or str, optional
        Class of every row, or the column of X that holds it; used only with `alpha`.
    alpha : float, optional
        When omitted, pieces are contiguous and of even size (views of arrays), or even
        pieces of shuffled rows if `random_state` is given. Otherwise each class is
        divided by a Dirichlet(alpha) draw: 0.1 gives parties very different class
        proportions, 100 nearly equal ones. Every party has at least one row.
    random_state : int, Generator, RandomState or None
        Source of randomness.

    Returns
    -------
    dict
        Rows by party, of the type of X.

    Raises
    ------
    DataError
        Where X has no two axes or too few rows, `alpha` is not positive, or y does not
        give a class of every row.

    References
    ----------
    Yurochkin et al., Bayesian nonparametric federated learning of neural networks, ICML
    2019: the division by `alpha`.
    """
    X = _splittable(X)
    n = X.shape[0]
    _check_parties(n_parties, n, "rows")
    if alpha is not None:
        classes = _classes(X, y, n)
        pieces = _dirichlet(classes, n_parties, alpha, _generator(random_state))
    elif random_state is not None:
        order = _generator(random_state).permutation(n)
        pieces = np.array_split(order, n_parties)
    else:
        pieces = _contiguous(n, n_parties)
    return {f"silo{i}": _native(X[piece]) for i, piece in enumerate(pieces, 1)}


def partition_columns(X: Splittable, n_parties: int) -> dict[str, Any]:
    """Partition columns into contiguous groups, for parties named silo1, silo2, ...

    Parameters
    ----------
    X : array, sparse array or DataFrame
        Has at least one column for every party.
    n_parties : int
        Number of parties; the sizes of their groups differ by at most one.

    Returns
    -------
    dict
        Columns by party, of the type of X, with all rows in the same order.

    Raises
    ------
    DataError
        Where X has no two axes, or too few columns.
    """
    X = _splittable(X)
    p = X.shape[1]
    _check_parties(n_parties, p, "columns")
    pieces = _contiguous(p, n_parties)
    return {f"silo{i}": _native(X[:, piece]) for i, piece in enumerate(pieces, 1)}


def _splittable(X: Splittable) -> Splittable:
    """Return X as an array, a CSR array or a narwhals DataFrame, which have slices."""
    if isinstance(X, list | tuple):
        X = np.asarray(X)
    if not _is_matrix(X):
        from unpooled.data.sources.frames import eager_frame

        return eager_frame(X)
    if X.ndim != 2:
        raise DataError(f"X has {X.ndim} axes; two are needed, rows and columns.")
    # Among sparse formats, only CSR slices along both axes and keeps its format.
    return X if isinstance(X, np.ndarray) else X.tocsr()


def _is_matrix(X: Splittable) -> bool:
    return isinstance(X, np.ndarray) or hasattr(X, "tocsr")


def _native(piece: Splittable) -> Splittable:
    return piece if _is_matrix(piece) else piece.to_native()


def _check_parties(n_parties: int, available: int, what: str) -> None:
    if isinstance(n_parties, bool) or not isinstance(n_parties, Integral):
        raise DataError(f"n_parties={n_parties!r}; give an integer.")
    if not 1 <= n_parties <= available:
        raise DataError(
            f"n_parties={n_parties}, but X has {available} {what} and every party gets "
            f"at least one. Choose from 1 to {available}."
        )


def _contiguous(size: int, n_parties: int) -> list[Index]:
    """Return slices of 0..size with lengths that differ by at most 1, longer first."""
    shortest, longer = divmod(size, n_parties)
    ends = [(i * shortest + min(i, longer)) for i in range(n_parties + 1)]
    return [slice(a, b) for a, b in pairwise(ends)]


def _classes(X: Splittable, y: Classes, n: int) -> Int[Array, " n"]:
    """Return the class of every row as a number from 0."""
    if y is None:
        raise DataError(
            f"alpha divides classes, but y is {y}. Give y: one class per row, or the "
            f"name of a column of X."
        )
    if isinstance(y, str):
        if not hasattr(X, "columns"):
            raise DataError(
                f"y={y!r} names a column, but X is an array without names. Give y as "
                f"an array with one class per row."
            )
        check_known([y], X.columns, "The DataFrame")
        y = X.get_column(y).to_numpy()
    values = np.asarray(y)
    if values.shape != (n,):
        raise DataError(
            f"y has shape {values.shape}; X has {n} rows, so ({n},) is needed."
        )
    # Text and None cannot be sorted together: missing classes become one class.
    values = values.astype(str) if values.dtype == object else values
    return np.unique(values, return_inverse=True)[1]


def _dirichlet(
    classes: Int[Array, " n"],
    n_parties: int,
    alpha: int | float,
    rng: np.random.Generator,
) -> list[Int[Array, " n_piece"]]:
    if not isinstance(alpha, Real) or not 0 < float(alpha) < np.inf:
        raise DataError(f"alpha={alpha!r}; give a positive number, or None for even.")
    party = np.empty(classes.size, int)
    for c in range(classes.max() + 1):
        rows = rng.permutation(np.flatnonzero(classes == c))
        shares = rng.dirichlet(np.full(n_parties, float(alpha)))
        ends = np.rint(np.cumsum(shares)[:-1] * rows.size).astype(int)
        for i, piece in enumerate(np.split(rows, ends)):
            party[piece] = i
    # A small alpha may leave a party without rows: the largest party gives it one.
    for i in range(n_parties):
        sizes = np.bincount(party, minlength=n_parties)
        if not sizes[i]:
            party[rng.choice(np.flatnonzero(party == sizes.argmax()))] = i
    return [np.flatnonzero(party == i) for i in range(n_parties)]


def _generator(random_state: RandomState) -> np.random.Generator:
    """Return a generator for any random state that scikit-learn accepts."""
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**31, size=4))
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError) as error:
        raise DataError(
            f"random_state={random_state!r}; give an integer of at least 0, a NumPy "
            f"Generator or RandomState, or None."
        ) from error
