"""Kernel matrices of one silo's own columns."""

import numpy as np
import scipy.spatial.distance

from unpooled.arrays import Array, Float


def centred_kernel(
    X: Float[Array, "N p"], kernel: str, gamma: float | None, coef0: float
) -> Float[Array, "N N"]:
    """Return the double-centred kernel matrix of one silo's columns.

    `gamma` None is 1 / p, p the silo's own number of columns.
    """
    width = 1.0 / X.shape[1] if gamma is None else gamma
    if kernel == "rbf":
        squares = scipy.spatial.distance.pdist(X, "sqeuclidean")
        K = np.exp(-width * scipy.spatial.distance.squareform(squares))
    else:
        K = X @ X.T
        if kernel == "sigmoid":
            K = np.tanh(width * K + coef0)
    means = K.mean(axis=0)
    K -= means
    K -= means[:, None]
    K += means.mean()
    return K
