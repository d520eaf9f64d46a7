"""How rows may lie in silos."""

from collections.abc import Callable
from typing import Any

import numpy as np


def cut(*shares: float) -> Callable[[Any], list[Any]]:
    """Return what cuts rows, in their order, after these shares of them."""
    return lambda y: np.split(
        np.arange(len(y)), [max(int(share * len(y)), 1) for share in shares]
    )


def dirichlet(y: Any) -> list[Any]:
    """Share every class out by a Dirichlet(0.1) draw: silos of very different kinds."""
    from unpooled.data.partition import partition_rows

    rows = np.arange(len(y))[:, None]
    pieces = partition_rows(rows, 4, y=y, alpha=0.1, random_state=0)
    return [piece[:, 0] for piece in pieces.values()]


# How rows may lie in silos: (n,) classes -> the rows of each silo.
SPLITS: dict[str, Callable[[Any], list[Any]]] = {
    "balanced": cut(1 / 3, 2 / 3),
    "skewed": cut(0.03, 0.06),
    "one-row": cut(0.0, 0.5),
    "six": cut(1 / 6, 2 / 6, 3 / 6, 4 / 6, 5 / 6),
    "dirichlet": dirichlet,
    "sorted": lambda y: np.array_split(np.argsort(y, kind="stable"), 3),
}
