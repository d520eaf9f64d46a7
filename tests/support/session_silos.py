"""Three silos, in one piece and in blocks, and steps that tell when they ran."""

from typing import Any

import numpy as np
import pytest

from unpooled.arrays import Array
from unpooled.protocol.step import derived, kept, stays, summed
from wire import Silos, rows, silos

TABLES = {name: rows(seed=i) for i, name in enumerate("abc")}
POOLED = np.concatenate(list(TABLES.values()))
ran: list[Any] = []


@pytest.fixture
def here() -> Silos:
    return silos(TABLES)


@summed(takes={"mean": "p", "axes": "k p"}, out="k", square="k k")
def projects(X: Array, *, mean: Array, axes: Array, power: int) -> dict[str, Array]:
    out = ((X - mean) @ axes.T) ** power
    return {"out": out.sum(axis=0), "square": out.T @ out}


@summed(total="p", count="")
def block_sizes(X: Array) -> dict[str, Array]:
    ran.append(len(X))
    return {"total": X.sum(axis=0), "count": np.array(float(len(X)))}


@kept(mean=stays("p", until="study"))
def keeps_for_the_study(X: Array) -> dict[str, Array]:
    return {"mean": X.mean(axis=0)}


@kept(mean=stays("p", until="fit"))
def keeps_for_the_fit(X: Array) -> dict[str, Array]:
    return {"mean": X.mean(axis=0) + 1.0}


@kept(square=stays("p p", symmetric=True))
def keeps_a_triangle(X: Array) -> dict[str, Array]:
    square = X.T @ X
    square[np.tril_indices(len(square), -1)] = -1.0
    return {"square": square}


@summed(mean="p")
def uses_kept(kept: Any) -> dict[str, Array]:
    return {"mean": kept["mean"]}


@summed(square="p p")
def uses_triangle(kept: Any) -> dict[str, Array]:
    return {"square": kept["square"]}


@derived(takes={"mean": "p"}, fitted_by=("scaler.local_counts",))
def shifted(X: Array, *, mean: Array) -> Array:
    return X - mean


@derived(takes={"mean": "p", "scale": "p"}, fitted_by=("scaler.local_counts",))
def scaled(X: Array, *, mean: Array, scale: Array) -> Array:
    return (X - mean) / scale
