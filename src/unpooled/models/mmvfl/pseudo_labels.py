"""Sharing labels over columns, and learning each silo's weights for them (MMVFL).

    once      silos ── class names, mixed in cells ──────────────────────────> names
    each      silos <── Z, veiled ──  each finds its weights W_k for its own
    iteration   pseudo-labels Z_k, draws Z_k towards Z (the labels' owner
                towards Y too), and sends Z_k / m under masks ───────────────> Z, veiled
              silos <── Z, veiled ──  silos ── their part of the objective ──> a number

Z is opened by the silos alone and is noise to the coordinator, for Z tends to the
labels, and argmax Z would tell them. The silos do learn the labels; to share them is
what the method is for.

References
----------
Multi-Participant Multi-Class Vertical Federated Learning, Algorithm 1 and equations (4)
to (14). Its constraint Zᵀ Z = I, which a one-hot Y does not meet (section 4.4 says it
does), plays no part in its updates.
"""

import math
import time
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from unpooled.arrays import Array, Float, Int, Shaped
from unpooled.errors import DataError
from unpooled.federation.federation import Federation
from unpooled.linalg.row_sparse import row_norms, row_sparse_weights
from unpooled.models.discriminant import classes as names_of_classes
from unpooled.models.discriminant.classes import class_codes
from unpooled.models.moments import complete
from unpooled.protocol.bounds import Ceiling
from unpooled.protocol.step import Step, public, release, stays, summed

# Of the parameters, what silos are told.
SETTINGS = ("beta", "zeta", "eta", "max_staleness")
# A silo is slow when its last update took this many times the mean of all.
_SLOW = 2.0


@summed(
    by="party",
    takes={"salts": public("c", "random numbers that choose the cells of class names")},
    cells=release(
        "c 16", meaning="class names and sizes, mixed in cells; of the labels' owner"
    ),
)
def local_names(
    y: Shaped[Array, " N"] | None, *, salts: Int[Array, " c"]
) -> dict[str, Any]:
    """Put the class names into cells; zeros from silos without labels."""
    if y is None:
        return {"cells": np.zeros((len(salts), 16))}
    return names_of_classes.local_names(y, salts=salts)


@summed(
    by="party",
    takes={
        "classes": public("c w", "the names of the classes"),
        "consensus": public(
            "N c", "the mean of all pseudo-labels, which only the silos can open"
        ),
    },
    consensus=release(
        "N c",
        bound=Ceiling("radius"),
        meaning="the mean of all silos’ pseudo-labels, for the silos alone",
    ),
    weights=stays("p c", meaning="how each own column counts towards each class"),
    target=stays("N c", until="fit", meaning="the silo’s own pseudo-labels"),
    pace=stays("2", until="fit", meaning="rounds rested, seconds of the last update"),
)
def local_labels(
    X: Float[Array, "N p"],
    y: Shaped[Array, " N"] | None,
    kept: Any,
    *,
    classes: Int[Array, "c w"],
    consensus: Float[Array, "N c"],
    settings: Mapping[str, float],
    radius: float,
) -> dict[str, Any]:
    """Update W_k by (7) and (8), Z_k by (11) or (12); rest if slow and allowed to."""
    if settings["first"]:
        complete(X)
        target, start, rested, seconds = consensus, None, 0.0, 0.0
    else:
        target, start = kept["target"], kept["weights"]
        rested, seconds = kept["pace"]
    slow = seconds > _SLOW * settings["pace"] > 0.0
    if slow and rested < settings["max_staleness"]:
        weights, rested = start, rested + 1.0
    else:
        begun = time.perf_counter()
        weights = row_sparse_weights(X, target, settings["beta"], start=start)
        target = _drawn(X @ weights, consensus, _one_hot(y, classes), settings)
        rested, seconds = 0.0, time.perf_counter() - begun
    return {
        "consensus": target * settings["share"],
        "weights": weights,
        "target": target,
        "pace": np.array([rested, seconds]),
    }


@summed(
    by="party",
    takes={
        "classes": public("c w", "the names of the classes"),
        "consensus": public(
            "N c", "the mean of all pseudo-labels, which only the silos can open"
        ),
    },
    objective=release("", meaning="how well all fit, with what their weights cost"),
    seconds=release("", meaning="the seconds that all silos’ last updates took"),
)
def local_objective(
    X: Float[Array, "N p"],
    y: Shaped[Array, " N"] | None,
    kept: Any,
    *,
    classes: Int[Array, "c w"],
    consensus: Float[Array, "N c"],
    settings: Mapping[str, float],
) -> dict[str, Any]:
    """Return the silo's terms of (4)."""
    W, Z = kept["weights"], kept["target"]
    value = np.square(X @ W - Z).sum() + settings["beta"] * row_norms(W).sum()
    value += settings["zeta"] * np.square(Z - consensus).sum()
    if y is not None:
        value += settings["eta"] * np.square(Z - _one_hot(y, classes)).sum()
    return {"objective": np.array(value), "seconds": np.array(kept["pace"][1])}


def shared_labels(
    federation: Federation,
    steps: tuple[Step, Step],
    classes: Int[Array, "c w"],
    settings: Mapping[str, float],
    random_state: int | None,
) -> Iterator[float]:
    """Run iterations for as long as asked, yielding the objective after each.

    Parameters
    ----------
    federation : Federation
        Columns, with the label at one silo.
    steps : tuple of Step
        `local_labels` and `local_objective` under the model's name (`adopted`).
    classes : (c, w) array
        Names of the classes as words.
    settings : mapping
        "beta", "zeta", "eta" and "max_staleness".
    random_state : int or None
        Seed of the first pseudo-labels.
    """
    labels, objective = steps
    N, c = federation.n_rows or 0, len(classes)
    consensus: Any = _orthonormal(N, c, random_state)
    # Every Z_k is a mean of things, or a ridge fit of one, of at most this norm.
    radius = math.sqrt(max(N, c))
    share = 1.0 / len(federation.parties)
    now = {**settings, "share": share, "pace": 0.0, "first": 1.0}
    while True:
        given = {"classes": classes, "settings": dict(now)}
        consensus = federation.sum(
            labels, to="parties", consensus=consensus, radius=radius, **given
        )["consensus"]
        told = federation.sum(objective, consensus=consensus, **given)
        yield float(told["objective"])
        now |= {"pace": float(told["seconds"]) * share, "first": 0.0}


def _one_hot(
    y: Shaped[Array, " N"] | None, classes: Int[Array, "c w"]
) -> Float[Array, "N c"] | None:
    return None if y is None else np.eye(len(classes))[class_codes(y, classes)]


def _drawn(
    fit: Float[Array, "N c"],
    consensus: Float[Array, "N c"],
    labels: Float[Array, "N c"] | None,
    settings: Mapping[str, float],
) -> Float[Array, "N c"]:
    """Return Z_k between its fit, the consensus and the labels: (11) and (12)."""
    zeta, eta = settings["zeta"], settings["eta"]
    if labels is None:
        return (fit + zeta * consensus) / (1.0 + zeta)
    return (fit + zeta * consensus + eta * labels) / (1.0 + zeta + eta)


def _orthonormal(N: int, c: int, random_state: int | None) -> Float[Array, "N c"]:
    """Return Z of the start, random with orthonormal columns (Algorithm 1, line 1)."""
    rng = np.random.default_rng(0 if random_state is None else random_state)
    return np.linalg.qr(rng.standard_normal((max(N, c), c)))[0][:N]


def check_parameters(model: Any) -> None:
    """Refuse parameters of `MMVFL` that cannot be, before anything leaves."""
    for name, least in {"beta": 0.0, "zeta": 0.0, "eta": 0.0}.items():
        value = getattr(model, name)
        if not isinstance(value, int | float) or not least < value < math.inf:
            raise DataError(f"{name}={value!r}; choose a number above 0.")
    for name, least in {"max_iter": 1, "max_staleness": 0}.items():
        value = getattr(model, name)
        if not isinstance(value, int | np.integer) or value < least:
            raise DataError(f"{name}={value!r}; choose a whole number from {least}.")
    if not isinstance(model.tol, int | float) or not 0.0 <= model.tol < 1.0:
        raise DataError(f"tol={model.tol!r}; choose a share from 0 to below 1.")
