"""Linear discriminants of more columns than rows: in the span of the pooled rows.

    Z        an orthonormal basis of what the rows span: `unpooled.models.row_space`
    S_w      of the coordinates (x - mean) Z:  Zᵀ S_w Z
    solve    (1 - s) Zᵀ S_b Z v = λ ((1 - s) Zᵀ S_w Z + s (tr S_w / p) I) v

The shrinkage adds a multiple of the identity, which maps the span to itself, so these
are the directions of all columns, and nobody forms p × p numbers.
"""

from typing import Any

from unpooled.federation.federation import Federation
from unpooled.linalg.eigen import with_positive_peaks
from unpooled.linalg.generalized_eigen import leading_pencil_pairs
from unpooled.models.discriminant.classes import Classes
from unpooled.models.discriminant.within_scatter import Within, covariances, in_span
from unpooled.models.row_space import coordinates, row_space


def fit_in_span(
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
        With a shrinkage above 0, and priors_ and n_samples_ set.
    federation : Federation
        With a label.
    within : Within
        Steps under the model's name.
    found : Classes
        Their names, sizes and means.
    k : int
        Number of directions.
    """
    (p, s), N = (federation.n_features, float(model.shrinkage)), model.n_samples_
    mean = found.count @ found.means / N
    Z = row_space(federation, mean, N, p)
    view = coordinates(federation, mean, Z)
    inside = Classes(found.names, found.count, (found.means - mean) @ Z)
    Sw, St = covariances(view, within, inside, model.priors_, model.priors, None)
    Sb = St - Sw
    ratios, V = leading_pencil_pairs(*in_span(Sb, Sw, s, p), len(Sw))
    model.scalings_ = with_positive_peaks(Z @ V[:, :k])
    outside = (p - len(Sw)) * Sb.trace() / Sw.trace()
    total = ratios.sum() + outside
    model.explained_variance_ratio_ = ratios[:k] / (total or 1.0)
    # Across the span the covariance is a multiple of the identity.
    own = found.means @ Z
    across = (found.means - own @ Z.T) * (p / s / Sw.trace())
    model._decide(own @ V @ V.T @ Z.T + across)
