"""Columns on which Yeo-Johnson fits break, real and made up."""

from typing import Any

import numpy as np
import sklearn.datasets

REAL = ("breast_cancer", "wine", "diabetes", "iris", "digits")
# One of each kind, for searches that take long.
HARDEST = (
    "1e6 ± 10",
    "heavy tails",
    "lognormal at 1e100",
    "outlier below",
    "two values, one rare",
    "tiny",
    "three of -10, one 0.0001 off",
    "missing",
)


def real(name: str) -> Any:
    """Return the features of a data set that are not constant."""
    X = np.asarray(getattr(sklearn.datasets, f"load_{name}")().data, float)
    return X[:, np.ptp(X, axis=0) > 0]


def made_up() -> dict[str, Any]:
    """Return hard columns by name."""
    rng = np.random.default_rng(0)
    bell, heavy = rng.standard_normal(400), rng.standard_cauchy(2000)
    return {
        "1e6 ± 10": 1e6 + 10 * bell,
        "-1e6 ± 10": -1e6 + 10 * bell,
        "years": np.round(2000 + 5 * rng.gamma(4, 1, 400)),
        "ten years": np.array(
            [2003.0, 1950, 1997, 2000, 2009, 2009, 1980, 1999, 2007, 1991]
        ),
        "heavy tails": heavy,
        "heavy tails at 1e6": 1e6 * heavy,
        "lognormal": rng.lognormal(0, 3, 400),
        "lognormal at 1e100": 1e100 * rng.lognormal(0, 1, 300),
        "outlier": np.append(bell, 1e12),
        "outlier below": np.append(bell, -1e12),
        "outliers on both sides": np.append(bell, [1e12, -1e12]),
        "outlier of the other sign": np.append(1e6 + bell, -5.0),
        "two values": np.repeat([3.0, 4.0], 200),
        "two values, one rare": np.append(np.full(5000, 5.0), 6.0),
        "rare events": (rng.random(400) < 0.01).astype(float),
        "two rows": np.array([1.0, 2.0]),
        "all negative": -(1e4 + rng.gamma(2, 1, 400)),
        "tiny, positive": 1e-12 * rng.gamma(2, 1, 400),
        "tiny": 1e-12 * bell,
        # Xu and Cormode, arXiv 2510.04995, Table 1: optima whose ψ overflows in double,
        # quadruple and octuple precision.
        **{
            f"three of {tens:+.0f}, one {gap:g} off": np.array([tens] * 3 + [near])
            for tens in (10.0, -10.0)
            for gap in (1e-1, 1e-3, 1e-4)
            for near in [tens - np.sign(tens) * gap]
        },
        "lognormal at e^45, a tenth zero": np.append(
            np.exp(45 + bell[40:]), np.zeros(40)
        ),
        "lognormal at -e^45, a tenth zero": -np.append(
            np.exp(45 + bell[40:]), np.zeros(40)
        ),
        "lognormal at e^45, both signs": np.append(
            np.exp(45 + bell[40:]), -rng.lognormal(0, 1, 40)
        ),
        "from 1 to e^150": np.expm1(32.0 * rng.exponential(size=60)),
        "from 1 to e^700": np.expm1(rng.uniform(0, 700, 60)),
        "missing": np.where(rng.random(400) < 0.3, np.nan, np.exp(bell)),
    }
