"""Linear discriminants of more columns than rows, shrunk by Ledoit and Wolf's formula.

    Z        an orthonormal basis of what standardised rows span:
             `unpooled.models.row_space`
    silos    ── covariances C_k of each class's coordinates; fourth powers of rows ──> Σ
    S_w      Σ π_k ((1 - s_k) Z C_k Zᵀ + s_k m_k D_k²)    D_k deviations in class k
    S_t      (1 - s) Z C Zᵀ + s D²                        of all rows
    solve    (S_t - S_w) v = λ S_w v

Each covariance is shrunk towards the variances of its own columns, as scikit-learn has
it, so both matrices are diagonal but for the span of the rows, and nobody forms p × p
numbers: `unpooled.linalg.low_rank`.

References
----------
Ledoit and Wolf, A well-conditioned estimator for large-dimensional covariance matrices,
Journal of Multivariate Analysis 88 (2004).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from unpooled.arrays import Array, Float
from unpooled.errors import DataError
from unpooled.federation.federation import Federation
from unpooled.linalg.eigen import with_positive_peaks
from unpooled.linalg.low_rank import LowRankPencil
from unpooled.models.discriminant.classes import Classes
from unpooled.models.discriminant.linear_classifier import ILL_POSED
from unpooled.models.discriminant.within_scatter import (
    Within,
    between,
    ledoit_wolf_share,
    pooled_within,
)
from unpooled.models.row_space import coordinates, scaled_row_space

# A class is constant where it has less than this share of a column's variance.
_CONSTANT = 1e-13


@final
@dataclass(frozen=True)
class InSpan:
    """Covariances of standardised rows' coordinates in their span, and what follows.

    Attributes
    ----------
    count : (c,) array
        Rows of each class.
    Z : (p, r) array
        Orthonormal basis of the standardised rows.
    unit : (p,) array
        Deviations that columns were divided by.
    C : (c + 1, r, r) array
        Covariances of the coordinates within each class, and of all rows.
    """

    count: Float[Array, " c"]
    Z: Float[Array, "p r"]
    unit: Float[Array, " p"]
    C: Float[Array, "l r r"]

    @classmethod
    def of_classes(
        cls,
        count: Float[Array, " c"],
        inside: Float[Array, "c r"],
        Z: Float[Array, "p r"],
        unit: Float[Array, " p"],
        C: Float[Array, "c r r"],
    ) -> "InSpan":
        """Add the covariance of all rows, by the means of the classes `inside`."""
        shares = count / count.sum()
        apart = between(shares, inside, np.zeros(Z.shape[1]))
        whole = np.tensordot(shares, C, 1) + apart
        return cls(count, Z, unit, np.concatenate([C, whole[None]]))

    def units(self) -> dict[str, Any]:
        """Return what rows are divided by for their fourth powers."""
        scales = self._scales() * self.unit
        return {"scales": scales[:-1], "scale": scales[-1]}

    def pencil(
        self, priors: Float[Array, " c"], told: Mapping[str, Array]
    ) -> LowRankPencil:
        """Return the pencil of all rows' covariance and that within, both shrunk."""
        rows = [*self.count, self.count.sum()]
        sizes = zip(rows, [*told["fourths"], told["fourth"]], strict=True)
        each = zip(self.C, self._scales(), sizes, strict=True)
        *by_class, whole = [_shrunk(self.Z, *one) for one in each]
        D = np.tensordot(priors, [one.diagonal for one in by_class], 1)
        W = np.tensordot(priors, [one.S for one in by_class], 1)
        if not (D > 0).all():
            p, N = len(self.Z), int(self.count.sum())
            raise DataError(ILL_POSED.format(p=p, N=N, c=len(by_class)))
        return LowRankPencil(whole.diagonal, D, self.Z, whole.S, W)

    def scalings(self, V: Float[Array, "p k"]) -> Float[Array, "p k"]:
        """Return directions among the columns as they are."""
        return with_positive_peaks(V / self.unit[:, None])

    def _scales(self) -> Float[Array, "l p"]:
        return np.array([_deviations(self.Z, one, self.unit) for one in self.C])


@final
@dataclass(frozen=True)
class _Shrunk:
    """A covariance ``diag(diagonal) + Z S Zᵀ``, in standardised columns."""

    diagonal: Float[Array, " p"]
    S: Float[Array, "r r"]


def fit_ledoit_wolf(
    model: Any,
    federation: Federation,
    within: Within,
    found: Classes,
    k: int,
) -> None:
    """Set directions, ratios and decision functions of a discriminant analysis.

    Parameters
    ----------
    model : LinearDiscriminantAnalysis
        With priors_ and n_samples_ set.
    federation : Federation
        With a label.
    within : Within
        Steps under the model's name.
    found : Classes
        Their names, sizes and means.
    k : int
        Number of directions.
    """
    N = model.n_samples_
    mean = found.count @ found.means / N
    Z, unit = scaled_row_space(federation, mean, N)
    view = coordinates(federation, mean, Z / unit[:, None])
    inside = (found.means - mean) / unit @ Z
    C = np.array(
        [
            pooled_within(view, within, found.names, inside, one) / n
            for one, n in zip(np.eye(len(inside)), found.count, strict=True)
        ]
    )
    inner = InSpan.of_classes(found.count, inside, Z, unit, C)
    about: dict[str, Any] = {"classes": found.names, "means": found.means, "mean": mean}
    told = federation.sum(within.fourths, **about, **inner.units())
    if federation.coordinator.planned:
        model.scalings_ = Z[:, :k]
        return
    pencil = inner.pencil(model.priors_, told)
    values, V = pencil.leading(k)
    model.scalings_ = inner.scalings(V)
    # Of all rows' variance over that within; the one between is what it has more.
    total = pencil.trace() - len(Z)
    model.explained_variance_ratio_ = (values - 1.0) / (total or 1.0)
    model._decide((pencil.solve((found.means / unit).T) / unit[:, None]).T)


def _deviations(
    Z: Float[Array, "p r"], C: Float[Array, "r r"], unit: Float[Array, " p"]
) -> Float[Array, " p"]:
    variance = np.einsum("pr,pr->p", Z @ C, Z)
    # Where there is none, scikit-learn divides columns by 1, in their own units.
    firm = variance > _CONSTANT
    return np.where(firm, np.sqrt(np.maximum(variance, 0.0)), 1.0 / unit)


def _shrunk(
    Z: Float[Array, "p r"],
    C: Float[Array, "r r"],
    scale: Float[Array, " p"],
    size: tuple[Any, Any],
) -> _Shrunk:
    Y = Z / scale[:, None]
    image, p = C @ (Y.T @ Y), len(Z)
    mu = float(image.trace()) / p
    share = ledoit_wolf_share(p, mu, float((image * image.T).sum()), *size)
    return _Shrunk(share * mu * scale**2, (1.0 - share) * C)
