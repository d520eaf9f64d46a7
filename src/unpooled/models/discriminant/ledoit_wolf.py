"""Covariance matrices within classes, shrunk by Ledoit and Wolf's formula.

    round 1, 2 for each class   its covariance C_k: `pooled_within`
    round 3                     silos ── Σ |z|⁴ over the standardised rows z of each
                                class, and of all classes ──> fourths, fourth
    shrink                      s_k from C_k and the fourths, the same of all rows
    S_w                         Σ π_k ((1 - s_k) C_k + s_k m_k D_k²)
    S_t                         (1 - s) C + s m D²

D_k are the standard deviations of the columns within class k, and m_k the mean of the
diagonal of the standardised C_k: as scikit-learn does, every covariance is shrunk
towards the variances of its own columns.

With more columns than rows C_k = Z A_k Zᵀ for an orthonormal basis Z of the span of the
standardised rows (`unpooled.models.row_space`). Both matrices are then diagonal plus
low-rank, and no p × p array is formed: `unpooled.linalg.low_rank`.

References
----------
Ledoit and Wolf, A well-conditioned estimator for large-dimensional covariance matrices,
Journal of Multivariate Analysis 88 (2004).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from unpooled.arrays import Array, Float, Int, Shaped
from unpooled.federation.federation import Federation
from unpooled.linalg.eigen import with_positive_peaks
from unpooled.linalg.low_rank import LowRankPencil
from unpooled.linalg.settled import near, product, settled
from unpooled.models.discriminant.class_shapes import ClassShapes
from unpooled.models.discriminant.classes import (
    NAMES,
    OPENED_SIZES,
    OWN_SIZES,
    Classes,
    class_sizes,
    of_classes,
)
from unpooled.models.discriminant.within_scatter import (
    between,
    shrunk,
    singular_within,
    within_covariances,
)
from unpooled.models.moments import MEAN
from unpooled.models.row_space import coordinates, scaled_row_space
from unpooled.protocol.step import public, release, summed

# A class is constant where it has less than this share of a column's variance.
_CONSTANT = 1e-13


@summed(
    within_silos=True,
    takes={
        "classes": NAMES,
        "count": OPENED_SIZES,
        "means": public("c p", "the mean of each column over the rows of each class"),
        "scales": public(
            "c p", "the standard deviation of each column within each class"
        ),
        "mean": MEAN,
        "scale": public("p", "the standard deviation of each column over all silos"),
    },
    fourths=release(
        "c",
        meaning="fourth powers of the lengths of standardised rows, added by class",
    ),
    fourth=release(
        "", meaning="fourth powers of the lengths of standardised rows, added"
    ),
    own=OWN_SIZES,
)
def local_fourths(
    X: Float[Array, "n p"],
    y: Shaped[Array, " n"],
    *,
    classes: Int[Array, "c w"],
    count: Float[Array, " c"],
    means: Float[Array, "c p"],
    scales: Float[Array, "c p"],
    mean: Float[Array, " p"],
    scale: Float[Array, " p"],
) -> dict[str, Any]:
    """Add fourth powers of the lengths of standardised rows, by class and in all."""
    X, codes = of_classes(X, y, classes)
    within = _fourth_powers((X - means[codes]) / scales[codes])
    return {
        "fourths": np.bincount(codes, within, minlength=len(classes)),
        "fourth": _fourth_powers((X - mean) / scale).sum(),
        "own": class_sizes(codes, classes),
    }


def _fourth_powers(Z: Float[Array, "n p"]) -> Float[Array, " n"]:
    return np.einsum("ij,ij->i", Z, Z) ** 2


def shrinkage_intensity(
    p: int, mu: float, squared: float, n: Any, fourth: Any
) -> float:
    """Return the weight of the identity in a shrunk covariance matrix.

    Parameters
    ----------
    p : int
        Number of columns, which are standardised.
    mu : float
        Mean of the diagonal of the covariance matrix.
    squared : float
        Sum of the squares of its entries.
    n : float
        Number of rows.
    fourth : float
        Sum of the fourth powers of their lengths.
    """
    beta = (fourth / n - squared) / (p * n)
    delta = squared / p - mu**2
    beta = min(beta, delta)
    # A covariance that is a multiple of the identity already has nothing to shrink.
    return 0.0 if beta <= 0 or p == 1 else beta / delta


def ledoit_wolf_covariances(
    federation: Federation, classes: Classes
) -> tuple[Float[Array, "c p p"], Float[Array, "p p"], ClassShapes]:
    """Return the shrunk covariances of each class and of all rows; 2 c + 1 rounds.

    The last of the three results has the covariances before they are shrunk.
    """
    C = within_covariances(federation, classes)
    fourths = federation.sum(
        local_fourths,
        classes=classes.names,
        count=classes.count,
        means=classes.means,
        **standard_units(C, classes),
    )
    within = weighted_sum(classes.count / classes.count.sum(), C)
    shapes = ClassShapes(within, _of_all_rows(C, classes), C)
    return (*shrunk_covariances(C, classes, fourths), shapes)


def standard_units(C: Float[Array, "c p p"], classes: Classes) -> dict[str, Any]:
    """Return the means and standard deviations by which rows are standardised."""
    scales = np.array([_deviations(S) for S in C])
    scale = _deviations(_of_all_rows(C, classes))
    return {"scales": scales, "mean": classes.mean, "scale": scale}


def shrunk_covariances(
    C: Float[Array, "c p p"], classes: Classes, fourths: Mapping[str, Array]
) -> tuple[Float[Array, "c p p"], Float[Array, "p p"]]:
    """Return the shrunk covariances of each class and of all rows.

    Parameters
    ----------
    C : (c, p, p) array
        Covariances of the classes.
    classes : Classes
        Their sizes and means.
    fourths : mapping
        Totals of `local_fourths`.
    """
    by_class = [
        _shrunk_covariance(S, n, fourth)
        for S, n, fourth in zip(C, classes.count, fourths["fourths"], strict=True)
    ]
    N, St = classes.count.sum(), _of_all_rows(C, classes)
    return np.array(by_class), _shrunk_covariance(St, N, float(fourths["fourth"]))


def _shrunk_covariance(
    S: Float[Array, "p p"], n: Any, fourth: Any
) -> Float[Array, "p p"]:
    scale, p = _deviations(S), len(S)
    R = S / scale / scale[:, None]
    s = shrinkage_intensity(p, R.trace() / p, float((R**2).sum()), n, fourth)
    return shrunk(R, s) * scale * scale[:, None]


def _of_all_rows(C: Float[Array, "c p p"], classes: Classes) -> Float[Array, "p p"]:
    """Return the covariance of all rows: that within the classes and between them."""
    shares = classes.count / classes.count.sum()
    return weighted_sum(shares, C) + between(shares, classes.means, classes.mean)


def weighted_sum(
    weights: Float[Array, " c"], arrays: Sequence[Array] | Array
) -> Float[Array, "..."]:
    """Return the sum of weighted arrays, added in their order."""
    total = weights[0] * arrays[0]
    for weight, one in zip(weights[1:], arrays[1:], strict=True):
        total = total + weight * one
    return total


def _deviations(S: Float[Array, "p p"]) -> Float[Array, " p"]:
    return np.where(S.diagonal() > 0, np.sqrt(np.maximum(S.diagonal(), 0.0)), 1.0)


def wide_discriminants(
    federation: Federation, classes: Classes, priors: Float[Array, " c"], k: int
) -> tuple[Float[Array, "p k"], Float[Array, " k"], Float[Array, "c p"], ClassShapes]:
    """Return the discriminants of more columns than rows; 2 c + 3 rounds.

    Parameters
    ----------
    federation : Federation
        With a label.
    classes : Classes
        Names, sizes and means of the classes.
    priors : (c,) array
        Their probabilities.
    k : int
        Number of directions.

    Returns
    -------
    scalings : (p, k) array
        Directions with unit variance within classes.
    shares : (k,) array
        Share of each in the between-class variance, in these units.
    coef : (c, p) array
        Means of the classes times the inverse of S_w.
    shapes : ClassShapes
        Covariances before they are shrunk.
    """
    N, mean = int(classes.count.sum()), classes.mean
    Z, unit = scaled_row_space(federation, mean, N)
    view = coordinates(federation, mean, Z / unit[:, None])
    means = product((classes.means - mean) / unit, Z)
    inside = Classes(classes.names, classes.count, means)
    C = within_covariances(view, inside)
    covariances = SpanCovariances.of_classes(inside, Z, unit, C)
    fourths = federation.sum(
        local_fourths,
        classes=classes.names,
        count=classes.count,
        means=classes.means,
        mean=mean,
        **covariances.units(),
    )
    if federation.coordinator.planned:
        # A plan has no totals, and of the placeholders no pencil can be made.
        empty = np.zeros(k), np.zeros(classes.means.shape)
        return (Z[:, :k], *empty, covariances.shapes())
    pencil = covariances.pencil(priors, fourths)
    values, V = pencil.leading(k)
    # The variance of all rows over that within: what it exceeds 1 by is between.
    total = pencil.trace() - len(Z)
    shares = (values - 1.0) / (total or 1.0)
    coef = (pencil.solve((classes.means / unit).T) / unit[:, None]).T
    return covariances.scalings(V), shares, coef, covariances.shapes()


@final
@dataclass(frozen=True)
class SpanCovariances:
    """Covariances of standardised rows' coordinates in the span of these rows.

    Attributes
    ----------
    count : (c,) array
        Number of rows of each class.
    Z : (p, r) array
        Orthonormal basis of the standardised rows.
    unit : (p,) array
        Standard deviations that columns were divided by.
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
        inside: Classes,
        Z: Float[Array, "p r"],
        unit: Float[Array, " p"],
        C: Float[Array, "c r r"],
    ) -> "SpanCovariances":
        """Add the covariance of all rows to those of the classes.

        Parameters
        ----------
        inside : Classes
            With the means of the coordinates, whose overall mean is 0.
        Z, unit
            See the attributes.
        C : (c, r, r) array
            Covariances within the classes.
        """
        shares = inside.count / inside.count.sum()
        apart = between(shares, inside.means, np.zeros(Z.shape[1]))
        whole = weighted_sum(shares, C) + apart
        return cls(inside.count, Z, unit, np.concatenate([C, whole[None]]))

    def units(self) -> dict[str, Any]:
        """Return the standard deviations by which rows are divided for the fourths."""
        scales = self._scales() * self.unit
        return {"scales": scales[:-1], "scale": scales[-1]}

    def shapes(self) -> ClassShapes:
        """Return the covariances before they are shrunk, of columns in own units."""
        within = weighted_sum(self.count / self.count.sum(), self.C[:-1])
        factor = self.Z * self.unit[:, None]
        return ClassShapes(within, self.C[-1], self.C[:-1], factor)

    def pencil(
        self, priors: Float[Array, " c"], fourths: Mapping[str, Array]
    ) -> LowRankPencil:
        """Return the pencil of S_t and S_w, both shrunk."""
        counts = [*self.count, self.count.sum()]
        totals = [*fourths["fourths"], fourths["fourth"]]
        *by_class, whole = [
            _shrunk_in_span(self.Z, C, scale, n, fourth)
            for C, scale, n, fourth in zip(
                self.C, self._scales(), counts, totals, strict=True
            )
        ]
        D = weighted_sum(priors, [shrunk.diagonal for shrunk in by_class])
        W = weighted_sum(priors, [shrunk.S for shrunk in by_class])
        if not (D > 0).all():
            p, N = len(self.Z), int(self.count.sum())
            raise singular_within(p, N, len(by_class))
        return LowRankPencil(whole.diagonal, D, self.Z, whole.S, W)

    def scalings(self, V: Float[Array, "p k"]) -> Float[Array, "p k"]:
        """Return directions of the columns in their own units."""
        return with_positive_peaks(V / self.unit[:, None])

    def _scales(self) -> Float[Array, "l p"]:
        """Return deviations of the standardised columns, within classes and in all."""
        most = np.abs(self.C).max(axis=(1, 2)) * self.Z.shape[1]
        variances = settled(
            "variances in the span",
            lambda: {
                "variances": np.array(
                    [np.einsum("pr,pr->p", self.Z @ C, self.Z) for C in self.C]
                )
            },
            lambda found, own: near(
                found["variances"], own["variances"], most[:, None]
            ),
        )["variances"]
        deviations = np.sqrt(np.maximum(variances, 0.0))
        # A column that is constant in a class is divided by 1 in its own units, as
        # scikit-learn does.
        return np.where(variances > _CONSTANT, deviations, 1.0 / self.unit)


@final
@dataclass(frozen=True)
class _DiagonalPlusLowRank:
    """A covariance ``diag(diagonal) + Z S Zᵀ`` of standardised columns."""

    diagonal: Float[Array, " p"]
    S: Float[Array, "r r"]


def _shrunk_in_span(
    Z: Float[Array, "p r"],
    C: Float[Array, "r r"],
    scale: Float[Array, " p"],
    n: Any,
    fourth: Any,
) -> _DiagonalPlusLowRank:
    Y = Z / scale[:, None]
    image, p = C @ (Y.T @ Y), len(Z)
    mu = float(image.trace()) / p
    s = shrinkage_intensity(p, mu, float((image * image.T).sum()), n, fourth)
    return _DiagonalPlusLowRank(s * mu * scale**2, (1.0 - s) * C)
