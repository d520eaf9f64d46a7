"""Rows of every kind that a description tells apart, and silos that have them."""

import numpy as np
import pandas as pd

import unpooled as up


def made(n=400, seed=0, kinds=("ill", "well")):
    """Rows of numbers, codes and text of which every silo has many, some missing."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": rng.integers(30, 80, n).astype(float),
            "chol": 1e5 + np.exp(rng.standard_normal(n)),
            "stage": rng.integers(0, 3, n).astype(float),
            "ward": rng.choice(["hall", "icu", "Ärzte"], n),
            "kind": rng.choice(list(kinds), n),
        }
    )
    frame.loc[rng.random(n) < 0.3, ["chol", "ward"]] = None
    return frame


def silos(frame, cuts=(90, 200, 260), **options):
    """Return a federation whose silos allow values of their own, and their tables."""
    parts = np.split(np.arange(len(frame)), cuts)
    tables = {f"s{i}": frame.iloc[own] for i, own in enumerate(parts)}
    allowed = {"allow_disclosed": True}
    options = {"label": "kind", "categorical": ["ward"], "policy": allowed, **options}
    return up.simulate(tables, **options), list(tables.values())
