"""What silos do with weights that they keep: score rows, and tell which columns count.

silos ── X_k W_k, under masks ──────────────────────────> each row's scores, added
silos ── which columns have the largest rows of W_k ────> names, disclosed
"""

import math
from typing import Any

import numpy as np

from unpooled.arrays import Array, Float, Int, Shaped
from unpooled.linalg.row_sparse import row_norms
from unpooled.models.discriminant.classes import class_codes
from unpooled.models.moments import complete
from unpooled.protocol.step import disclosed, public, release, summed


@summed(
    by="party",
    takes={"classes": public("c w", "the names of the classes")},
    scores=release("N c", meaning="each row’s score for each class, over all silos"),
)
def local_scores(
    X: Float[Array, "N p"], kept: Any, *, classes: Int[Array, "c w"]
) -> dict[str, Any]:
    """Return the silo's part of the rows' scores, X_k W_k."""
    complete(X)
    return {"scores": X @ kept["weights"]}


@summed(
    by="party",
    takes={
        "classes": public("c w", "the names of the classes"),
        "scores": public(
            "N c", "each person's scores for each class, which only the silos can open"
        ),
    },
    hits=release("", meaning="how many rows are put into their class"),
    judged=release("", meaning="how many rows have a class to compare with"),
)
def local_hits(
    y: Shaped[Array, " N"] | None,
    *,
    classes: Int[Array, "c w"],
    scores: Float[Array, "N c"],
) -> dict[str, Any]:
    """Count the rows that are right, where the silo has labels."""
    if y is None:
        return {"hits": np.array(0.0), "judged": np.array(0.0)}
    right = scores.argmax(axis=1) == class_codes(y, classes)
    return {"hits": np.array(float(right.sum())), "judged": np.array(float(len(y)))}


@disclosed(
    by="party",
    takes={"classes": public("c w", "the names of the classes")},
    scores=release("N c", meaning="each row’s score for each class, by this silo"),
)
def own_scores(
    X: Float[Array, "N p"], kept: Any, *, classes: Int[Array, "c w"]
) -> dict[str, Any]:
    """Disclose X_k W_k."""
    return local_scores(X, kept, classes=classes)


@disclosed(
    takes={"classes": public("c w", "the names of the classes")},
    weights=release("p c", meaning="how each of the silo’s columns counts"),
)
def shown_weights(kept: Any, *, classes: Int[Array, "c w"]) -> dict[str, Any]:
    """Disclose W_k."""
    return {"weights": kept["weights"]}


@disclosed(chosen=release("p", meaning="which of the silo’s columns count most"))
def chosen_columns(kept: Any, *, percent: float) -> dict[str, Any]:
    """Mark the silo's `percent` per cent of columns that count most, at least one."""
    importance = row_norms(kept["weights"])
    number = max(math.ceil(round(percent * len(importance) / 100.0, 9)), 1)
    chosen = np.zeros(len(importance))
    # Stable, so that of equals the first is taken.
    chosen[np.argsort(-importance, kind="stable")[:number]] = 1.0
    return {"chosen": chosen}
