"""Where people lie along discriminant directions, shown where the silos allow it.

silos ── coordinates and classes of some of their rows, drawn at random ──> a picture

A disclosure about people, which every silo's policy must allow twice over: values of
its own (`allow_disclosed`), with an axis over people (`allow_row_level`).
"""

from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from unpooled.arrays import Array, Float, Int, Shaped
from unpooled.federation.federation import Federation
from unpooled.models.discriminant.classes import class_codes
from unpooled.protocol.step import Step, disclosed, public, release

# More would not be told apart in a picture.
MOST = 500
_NOBODY = -1


@disclosed(
    by="party",
    takes={
        "classes": public("c w", "the names of the classes"),
        "scalings": public("p k", "the discriminant directions (weights of columns)"),
        "people": "size N",
    },
    scores=release("N k", meaning="where some of the silo's people lie"),
    codes=release("N", meaning="the class of each; -1 beyond the silo's last"),
)
def shown_people(
    X: Float[Array, "n p"],
    y: Shaped[Array, " n"],
    *,
    classes: Int[Array, "c w"],
    scalings: Float[Array, "p k"],
    people: int,
    seed: int,
) -> dict[str, Any]:
    """Show coordinates and classes of at most `people` rows, drawn at random."""
    chosen = np.random.default_rng(seed).permutation(len(X))[:people]
    scores, codes = np.zeros((people, scalings.shape[1])), np.full(people, _NOBODY)
    scores[: len(chosen)] = X[chosen] @ scalings
    codes[: len(chosen)] = class_codes(y, classes)[chosen]
    return {"scores": scores, "codes": codes.astype(float)}


def people_of(
    federation: Federation,
    shown: Step,
    classes: Int[Array, "c w"],
    scalings: Float[Array, "p k"],
    random_state: Any,
) -> tuple[Float[Array, "n k"], Int[Array, " n"]]:
    """Return coordinates and classes, by position, of people of all silos.

    Parameters
    ----------
    federation : Federation
        Whose silos allow it.
    shown : Step
        `shown_people` under the model's name (`adopted`).
    classes : (c, w) array
        Names as words.
    scalings : (p, k) array
        The directions.
    random_state : int, RandomState or None
        Seed of the draw; None takes the federation's.
    """
    if random_state is None:
        random_state = federation.random_state
    seed = check_random_state(random_state).randint(2**31)
    public = {"classes": classes, "scalings": scalings, "people": MOST}
    told = federation.collect(shown, seed=seed, **public).values()
    codes = np.concatenate([own["codes"] for own in told]).astype(np.int64)
    there = codes != _NOBODY
    return np.concatenate([own["scores"] for own in told])[there], codes[there]
