"""Silos with columns about three kinds of trees, and the paper's algorithm on them."""

import numpy as np
import pandas as pd

import unpooled as up

ZETA = ETA = 1000.0
SIZES = {"a": 5, "b": 3, "c": 1, "d": 40}


def three_kinds():
    """Three classes that every silo's columns tell something of; d has p > N."""
    rng = np.random.default_rng(5)
    y = np.repeat(["ash", "elm", "oak"], [14, 12, 10])
    centres = {k: rng.standard_normal((3, p)) for k, p in SIZES.items()}
    codes = np.unique(y, return_inverse=True)[1]
    X = {
        k: centres[k][codes] + 0.8 * rng.standard_normal((len(y), p))
        for k, p in SIZES.items()
    }
    return X, y


def tables(X, y, owner="a"):
    frames = {
        k: pd.DataFrame(A, columns=[f"{k}{j}" for j in range(A.shape[1])])
        for k, A in X.items()
    }
    frames[owner]["tree"] = y
    return frames


def silos(X, y, owner="a", **how):
    how = {"policy": up.Policy.open(), "label": "tree"} | how
    return up.simulate(tables(X, y, owner), partition="columns", **how)


def published(X, y, beta, rounds, owner="a"):
    """Algorithm 1 as printed: p x p systems, explicit inverses, one silo at a time."""
    codes = np.unique(y, return_inverse=True)[1]
    Y = np.eye(3)[codes]
    Z0 = np.linalg.qr(np.random.default_rng(0).standard_normal(Y.shape))[0]
    Z, Zk, W, values = Z0, dict.fromkeys(X, Z0), {}, []

    def ridge(A, T, d):
        return np.linalg.inv(A.T @ A + beta * np.diag(d)) @ A.T @ T

    def cost(A, T, V):
        return ((A @ V - T) ** 2).sum() + beta * np.linalg.norm(V, axis=1).sum()

    for _ in range(rounds):
        for k, A in X.items():
            V = W.get(k)
            V = ridge(A, Zk[k], np.ones(A.shape[1])) if V is None else V
            value = cost(A, Zk[k], V)
            for _ in range(100):
                V = ridge(A, Zk[k], 1 / (2 * (np.linalg.norm(V, axis=1) + 1e-8)))
                before, value = value, cost(A, Zk[k], V)
                if before - value <= 1e-6 * before:
                    break
            W[k] = V
            if k == owner:
                Zk[k] = (A @ V + ZETA * Z + ETA * Y) / (1 + ZETA + ETA)
            else:
                Zk[k] = (A @ V + ZETA * Z) / (1 + ZETA)
        Z = np.mean(list(Zk.values()), axis=0)
        value = sum(cost(A, Zk[k], W[k]) for k, A in X.items())
        value += ZETA * sum(((T - Z) ** 2).sum() for T in Zk.values())
        values.append(value + ETA * ((Zk[owner] - Y) ** 2).sum())
    return W, values, Z
