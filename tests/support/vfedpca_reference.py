"""VFedPCA and VFedAKPCA from the page of conventions, in NumPy on data in one place.

Written against the equations, with every matrix formed: nothing is shared with the
library, nor optimised.
"""

import math

import numpy as np


def centred(X, centre):
    """Subtract column means, for `centre` "columns" only."""
    return X - X.mean(axis=0) if centre == "columns" else X


def gram(X, centre):
    """A_i: X X^T / p, or of rows less their means with denominator p - 1."""
    if centre == "rows":
        X = X - X.mean(axis=1, keepdims=True)
        return X @ X.T / (X.shape[1] - 1)
    return X @ X.T / X.shape[1]


def power(A, a, iterations):
    """Local power iteration: the vector, and its Rayleigh quotient."""
    for _ in range(iterations):
        a = A @ a
        a = a / np.linalg.norm(a)
    return a, a @ A @ a


def weights_of(alphas, weights, scaling):
    """Equations (13) and (15)."""
    m = len(alphas)
    w = np.full(m, 1 / m) if weights == "equal" else np.array(alphas) / sum(alphas)
    if scaling:
        eta = w.mean()
        order = sorted(range(m), key=lambda i: (-alphas[i], i))
        for rank, i in enumerate(order):
            w[i] *= 1 + eta if rank < math.ceil(m / 2) else 1 - eta
    return w


def merged(vectors, alphas, weights="eigenvalue", scaling=False, align=False):
    """The merge of vectors, and the weights."""
    if align:
        leader = vectors[int(np.argmax(alphas))]
        vectors = [a if a @ leader >= 0 else -a for a in vectors]
    w = weights_of(alphas, weights, scaling)
    return sum(wi * a for wi, a in zip(w, vectors, strict=True)), w


def replaced(X, u):
    """Equation (14)."""
    M = X.T @ u
    P = np.outer(M, M)
    return X @ P / np.linalg.norm(P)


def neighbours(topology, m):
    """Whom each party hears, itself included, in party order."""
    if topology == "complete":
        return [list(range(m))] * m
    if topology == "ring":
        return [sorted({(i - 1) % m, i, (i + 1) % m}) for i in range(m)]
    return [list(range(m))] + [[0, i] for i in range(1, m)]


def vfedpca(
    parts, k, init, *, local=10, rounds=10, warm=True, scaling=False, topology="server",
    centre="columns", align=False, weights="eigenvalue",
):  # fmt: skip
    """Return what every round merged: (u, weights) with a server, m of each without."""
    deflated = [centred(X, centre) for X in parts]
    m, history = len(parts), []
    heard = [list(range(m))] if topology == "server" else neighbours(topology, m)
    own = [0] * m if topology == "server" else list(range(m))
    for _ in range(k):
        data = list(deflated)
        starts = [init] * m
        for _ in range(rounds):
            local_pairs = [
                power(gram(X, centre), a, local)
                for X, a in zip(data, starts, strict=True)
            ]
            found = [
                merged(
                    [local_pairs[j][0] for j in those],
                    [local_pairs[j][1] for j in those],
                    weights, scaling, align,
                )
                for those in heard
            ]  # fmt: skip
            history.append(found)
            data = [replaced(X, found[own[i]][0]) for i, X in enumerate(data)]
            if warm:
                starts = [found[own[i]][0] for i in range(m)]
        last = [u / np.linalg.norm(u) for u, _ in history[-1]]
        deflated = [
            X - np.outer(last[own[i]], last[own[i]] @ X) for i, X in enumerate(deflated)
        ]
    return history


def kernel_matrix(X, kernel, gamma, coef0):
    """One kernel matrix, entry by entry."""
    n = len(X)
    K = np.empty((n, n))
    for i in range(n):
        for j in range(n):
            if kernel == "rbf":
                K[i, j] = np.exp(-gamma * np.sum((X[i] - X[j]) ** 2))
            else:
                K[i, j] = np.tanh(gamma * X[i] @ X[j] + coef0)
    return K


def vfedakpca(parts, k, *, kernel, gamma, coef0=1.0, align=False, weights="eigenvalue"):
    """Return the merged vectors, one merge for each component, unit columns."""
    n = len(parts[0])
    H = np.eye(n) - 1 / n
    matrices = [H @ kernel_matrix(X, kernel, gamma, coef0) @ H for X in parts]
    columns = []
    for _ in range(k):
        vectors, alphas = [], []
        for K in matrices:
            values, axes = np.linalg.eigh(K)
            a = axes[:, -1]
            vectors.append(a * np.sign(a[np.abs(a).argmax()]))
            alphas.append(values[-1])
        u, _ = merged(vectors, alphas, weights, False, align)
        u = u / np.linalg.norm(u)
        columns.append(u)
        P = np.eye(n) - np.outer(u, u)
        matrices = [P @ K @ P for K in matrices]
    return np.array(columns).T
