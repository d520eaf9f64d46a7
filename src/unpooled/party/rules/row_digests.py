"""Keyed digests of a table's rows, of which nobody without the key can say anything.

    row ── secret sum of its cells and label ── AES ── 64 bits

The sum is a universal hash under secret weights, and the cipher a pseudorandom function
under a secret key, so a digest is the value of a pseudorandom function of the whole
row. Whoever reads digests sees which rows are equal to each other, and nothing else.

References
----------
Wegman and Carter, New hash functions and their use in authentication and set equality,
Journal of Computer and System Sciences 22 (1981).
"""

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import ECB

from unpooled.arrays import Array, Float, Shaped, UInt64
from unpooled.data.categories import category_code, category_name
from unpooled.data.table import Table

# Odd numbers that spread the bits of a float64, whose low ones are mostly zero.
_SPREAD = (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53)


def row_digests(
    table: Table, columns: Sequence[str], label: str, key: bytes
) -> UInt64[Array, " n"]:
    """Return a 64-bit digest of each row's cells and label.

    Parameters
    ----------
    table : Table
        The rows.
    columns : sequence of str
        The cells that count; their order is no matter.
    label : str
        The column of the label, which counts too; empty where the table has none. A
        label of numbers gives the same digests as a feature of these numbers.

    Notes
    -----
    In a version of the table that had another label, what was a feature and is the
    label now counts as a feature, and the other way round.
    key : bytes
        At most 64.
    """
    secret = hashlib.blake2b(b"rows", digest_size=16, key=key).digest()
    # Each row is one block of 16 bytes, so no mode is wanted: the cipher is the
    # pseudorandom function itself.
    cipher = Cipher(AES(secret), ECB()).encryptor()
    parts = [np.zeros(0, np.uint64)]
    own, read = table.label or "", [name for name in columns if name != table.label]
    turned = own in columns
    extra = [name for name in {own, label} if name and (name == label or turned)]
    for block in table.blocks(tuple(read), extra):
        X, names = block.X, read
        if turned:
            X = np.column_stack([X, as_feature(block.extra[own])])
            names = [*read, own]
        rows = np.zeros((len(X), 2), "<u8")
        rows[:, 0] = _sums(X, names, key)
        if label:
            cells = label_cells(block.extra[label], key)
            rows[:, 0] += _spread(cells) * np.uint64(_hash(key, label) | 1)
        parts.append(np.frombuffer(cipher.update(rows.tobytes()), "<u8")[::2])
    return np.concatenate(parts)


def as_feature(values: Shaped[Array, " n"]) -> Float[Array, " n"]:
    """Return the cells of a label as a column of numbers or of categories has them."""
    found = {value: _cell(value) for value in set(values.tolist())}
    return np.array([found[value] for value in values.tolist()], float)


def _cell(value: Any) -> float:
    name = category_name(value) if isinstance(value, str) else None
    if name is not None:
        return category_code(name)
    return float(value) if isinstance(value, int | float) else np.nan


def former_digests(
    table: Table, columns: Sequence[str], key: bytes
) -> UInt64[Array, " n"]:
    """Return the digests that the notes of earlier versions of the library have."""
    parts = [np.zeros(0, np.uint64)]
    parts += [_sums(block.X, columns, key) for block in table.blocks(tuple(columns))]
    return np.concatenate(parts)


def label_cells(values: Shaped[Array, " n"], key: bytes) -> UInt64[Array, " n"]:
    """Return a number for each label: the bits of a number, the digest of a text.

    A missing label, None or NaN, is one value; 1, 1.0 and True are one, as the same
    class may be read from several kinds of files.
    """
    labels = [None if v is None or v != v else v for v in values.tolist()]
    numbers = {label: _number(label, key) for label in set(labels)}
    return np.array([numbers[label] for label in labels], np.uint64)


def class_counts(values: Shaped[Array, " n"], key: bytes) -> dict[str, int]:
    """Return how many rows have each label, by its digest; missing ones not."""
    cells, counts = np.unique(label_cells(values, key), return_counts=True)
    none = _number(None, key)
    return {
        f"{_hash(key, f'class {cell}'):016x}": n
        for cell, n in zip(cells.tolist(), counts.tolist(), strict=True)
        if cell != none
    }


def _number(label: object, key: bytes) -> int:
    if label is None or isinstance(label, int | float):
        return int(_bits(np.array([np.nan if label is None else label], float))[0])
    return _hash(key, f"label {label}")


def _sums(
    X: Float[Array, "n p"], columns: Sequence[str], key: bytes
) -> UInt64[Array, " n"]:
    weights = np.array([_hash(key, column) | 1 for column in columns], np.uint64)
    sums = np.zeros(len(X), np.uint64)
    # As many rows at once as stay in the processor's cache.
    step = max(1, 2**16 // max(1, X.shape[1]))
    for start in range(0, len(X), step):
        cells = _spread(_bits(X[start : start + step]))
        cells *= weights
        sums[start : start + step] = cells.sum(axis=1, dtype=np.uint64)
    return sums


def _bits(X: Float[Array, "..."]) -> UInt64[Array, "..."]:
    # One form for zero and one for cells that are missing.
    return np.where(np.isnan(X), np.nan, X + 0.0).view(np.uint64)


def _spread(cells: UInt64[Array, "..."]) -> UInt64[Array, "..."]:
    """Return the cells with their bits mixed, in place."""
    for spread in _SPREAD:
        cells ^= cells >> np.uint64(33)
        cells *= np.uint64(spread)
    cells ^= cells >> np.uint64(33)
    return cells


def _hash(key: bytes, text: str) -> int:
    hashed = hashlib.blake2b(text.encode(), digest_size=8, key=key).digest()
    return int.from_bytes(hashed, "little")
