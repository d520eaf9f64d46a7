"""From sums of rows to a kernel's components, at whichever end the sums are opened.

sums, (N, l) ── kernel values, or Fourier features ── the k leading axes ──> scores
"""

from dataclasses import dataclass
from typing import final

import numpy as np

from unpooled.arrays import Array, Float, Int
from unpooled.linalg.kernels import (
    KERNELS,
    Kernel,
    KernelMap,
    exact_map,
    feature_map,
    fourier_features,
    fourier_weights,
    inverse_root,
)

APPROXIMATIONS = (None, "nystroem", "fourier")


@final
@dataclass(frozen=True)
class Method:
    """A kernel of two rows, or an approximation of it, as a function of their sums.

    Attributes
    ----------
    kernel, gamma, degree, coef0 : str, float
        As of `Kernel`.
    approximation : {None, "nystroem", "fourier"}
        None for the exact kernel.
    seed, n_features : int
        Seed and number of rows of the weights of Fourier features.
    """

    kernel: str
    gamma: float
    degree: float
    coef0: float
    approximation: str | None
    seed: int
    n_features: int

    @property
    def by_distance(self) -> bool:
        """Whether the sums are half squared distances."""
        return self.kernel == "rbf" and self.approximation != "fourier"

    @property
    def centred(self) -> bool:
        """Whether silos centre their columns about their own means."""
        exactly_linear = self.kernel == "linear" and self.approximation is None
        return self.by_distance or exactly_linear

    def values(self, sums: Float[Array, "N l"]) -> Float[Array, "N l"]:
        """Return kernel values, or Fourier features."""
        if self.approximation != "fourier":
            return Kernel(self.kernel, self.gamma, self.degree, self.coef0).of(sums)
        drawn = fourier_weights(self.seed, self.n_features, sums.shape[1], self.gamma)
        return fourier_features(sums, drawn[1])

    def map_of(
        self, sums: Float[Array, "N l"], chosen: Int[Array, " q"], k: int
    ) -> KernelMap:
        """Return the k leading axes; `chosen` are the landmarks' positions."""
        values = self.values(sums)
        if self.approximation is None:
            return exact_map(values, k)
        nystroem = self.approximation == "nystroem"
        root = inverse_root(values[chosen]) if nystroem else None
        return feature_map(values, root, k)

    def as_numbers(self) -> Float[Array, " 7"]:
        """Return the fields as numbers, by which silos distinguish methods."""
        return np.array(
            [
                KERNELS.index(self.kernel),
                APPROXIMATIONS.index(self.approximation),
                self.gamma,
                self.degree,
                self.coef0,
                self.seed,
                self.n_features,
            ],
            dtype=float,
        )
