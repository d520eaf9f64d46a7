"""How far one-shot vectors are from those of the matrices that all silos add up to.

    each silo    keeps A_i and B_i; adds them; shows its radii, where its policy allows
    coordinator  compares the vectors w of Σ M_i with the v of Σ A_i v = λ Σ B_i v

References
----------
Lv et al., One-Shot Distributed Generalized Eigenvalue Problem (DGEP), 2022, section 3.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from unpooled.arrays import Array, Float
from unpooled.errors import ReleaseRefusedError
from unpooled.federation.federation import Federation
from unpooled.linalg.dgep import Diagnosis, diagnosed
from unpooled.protocol.step import Step


@final
@dataclass(frozen=True)
class Pair:
    """Steps that keep A_i and B_i, add them, and show their radii."""

    keep: Step
    total: Step
    radii: Step


def diagnosis_of(
    federation: Federation,
    steps: Pair,
    public: Mapping[str, Any],
    W: Float[Array, "p k"],
    M: Float[Array, "p p"],
) -> Diagnosis:
    """Compare one-shot vectors of M with those of Σ A_i, Σ B_i, within a fit.

    Where a silo shows no values of its own the paper's bound is left out.
    """
    federation.keep(steps.keep, **public)
    totals = federation.sum(steps.total)
    try:
        shown = federation.collect(steps.radii)
    except ReleaseRefusedError:
        shown = None
    radii = np.array([r["radii"] for r in shown.values()]) if shown else None
    return diagnosed(W, M, totals["A"], totals["B"], radii, len(federation.parties))
