"""Goodness of fit of a view predicted from scores of another, from covariances.

predicted  ŷ = Q t,  t = Rᵀ x        residual covariance  S_yy - E
E = Q Rᵀ S_xy + S_yx R Qᵀ - Q Rᵀ S_xx R Qᵀ
"""

from dataclasses import dataclass
from typing import final

import numpy as np

from unpooled.arrays import Array, Float
from unpooled.linalg.canonical_correlation import Covariances, score_variances


@final
@dataclass(frozen=True)
class ResponseFit:
    """Goodness of fit of each response on the rows of the fit.

    Attributes
    ----------
    r2 : (q,) array
        Coefficients of determination; NaN for a constant response.
    residual : (q,) array
        Residual variances, with the denominator of the covariances.
    """

    r2: Float[Array, " q"]
    residual: Float[Array, " q"]


def response_fit(
    S: Covariances,
    R: Float[Array, "p k"],
    Q: Float[Array, "q k"],
    basis: Float[Array, "l q"] | None = None,
) -> ResponseFit:
    """Return how well ``Q Rᵀ x`` predicts each response.

    Parameters
    ----------
    S : Covariances
        Covariances of both views.
    R : (p, k) array
        Weights of the first view's columns in the scores.
    Q : (q, k) array
        Slopes of the second view's columns on the scores.
    basis : (l, q) array, optional
        The responses are this times the columns of the second view, where these are
        coordinates in a span.
    """
    across, yy = R.T @ S.xy, S.yy.diagonal()
    if basis is not None:
        Q, across = basis @ Q, across @ basis.T
        yy = np.einsum("lq,lq->l", basis @ S.yy, basis)
    explained = 2.0 * np.einsum("qk,kq->q", Q, across)
    explained -= np.einsum("qk,qk->q", Q @ (R.T @ S.xx @ R), Q)
    r2 = np.where(yy > 0, explained / np.where(yy > 0, yy, 1.0), np.nan)
    return ResponseFit(r2, np.maximum(yy - explained, 0.0))


@final
@dataclass(frozen=True)
class Importance:
    """Variable importance and explained shares of a partial least squares regression.

    Attributes
    ----------
    vip : (p,) array
        Variable importance in projection. The mean of its squares is 1.
    x_shares, y_shares : (k,) arrays
        Share of the variance of each view that each component explains.
    """

    vip: Float[Array, " p"]
    x_shares: Float[Array, " k"]
    y_shares: Float[Array, " k"]


def importance(
    S: Covariances,
    W: Float[Array, "p k"],
    R: Float[Array, "p k"],
    P: Float[Array, "p k"],
    Q: Float[Array, "q k"],
) -> Importance:
    """Return the shares that components explain, and the importance of the columns.

    Parameters
    ----------
    S : Covariances
        Covariances of both views, in the units of the fit.
    W, R, P : (p, k) arrays
        Weights of unit length, rotations and loadings of the first view; its scores are
        uncorrelated.
    Q : (q, k) array
        Loadings of the second view.

    References
    ----------
    Wold, Sjöström and Eriksson, PLS-regression: a basic tool of chemometrics,
    Chemometrics and Intelligent Laboratory Systems 58 (2001).
    """
    t = score_variances(S.xx, R)
    explained = t * np.einsum("qk,qk->k", Q, Q)
    vip = np.sqrt(len(W) * (W**2 @ explained) / (explained.sum() or 1.0))
    x_shares = t * np.einsum("pk,pk->k", P, P) / (S.xx.trace() or 1.0)
    return Importance(vip, x_shares, explained / (S.yy.trace() or 1.0))
