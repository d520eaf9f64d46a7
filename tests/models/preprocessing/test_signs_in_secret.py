"""λ from signs alone, on exact integers: right for every column, in few rounds."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from exact_rounds import exactly
from hard_columns import HARDEST, REAL, made_up, real
from optima import is_optimal
from tiers import mostly_slow
from unpooled import PowerTransformer

# What is promised, in units of max(1/σ, |λ|).
TOL = 1e-7


def fitted(X, cuts=(1, 2)):
    parts = np.split(X, [c for c in cuts if c < len(X)])
    federation, rounds = exactly(parts)
    model = PowerTransformer(comparison="mpc").fit(federation)
    return model, rounds.rounds


def spread(X):
    return np.nanstd(np.sign(X) * np.log1p(np.abs(X)), axis=0)


@pytest.mark.thinned(4)
@pytest.mark.parametrize("name", mostly_slow(made_up(), *HARDEST))
def test_hard_columns(name):
    x = made_up()[name]

    model, rounds = fitted(x[:, None])

    assert is_optimal(x, float(model.lambdas_[0]), TOL)
    assert rounds <= 90
    # The reference is coarse and near: within a spread, and a factor of about 2.
    phi = np.sign(x) * np.log1p(np.abs(x))
    assert abs(np.nanmean(phi) - model.centre_[0]) <= spread(x)
    assert 0.5 <= model.spread_[0] / spread(x) <= 3.0


@pytest.mark.slow
@pytest.mark.parametrize("name", mostly_slow(REAL, "iris", "wine"))
def test_real_features(name):
    X = real(name)

    model, rounds = fitted(X, (len(X) // 3, len(X) // 2))

    for j, lam in enumerate(model.lambdas_):
        assert is_optimal(X[:, j], float(lam), TOL), f"feature {j}"
    if X.shape[1] <= 30:
        assert rounds <= 200


@pytest.mark.slow
def test_any_split_gives_the_same():
    X = np.column_stack([made_up()[name][:400] for name in ("outlier", "years")])
    rng, fits = np.random.default_rng(1), []
    for cuts in ((1, 2), (1, 399), (130, 260), (50, 60, 70, 300)):
        fits.append(fitted(X[rng.permutation(len(X))], cuts)[0].lambdas_)
    for other in fits[1:]:
        off = np.abs(other - fits[0]) * spread(X)
        assert (off <= 2.0**-26 * np.maximum(1, np.abs(other) * spread(X))).all()


# ψ overflows there at the reference and, the other way, about it.
@pytest.mark.slow
@example(centre=1.0, exponent=-12, seed=510, kind="normal")
@example(centre=0.0, exponent=5, seed=0, kind="exponential")
@settings(max_examples=10)
@given(
    st.floats(-600, 600),
    st.integers(-35, 5),
    st.integers(0, 2**16),
    st.sampled_from(["normal", "uniform", "exponential", "binary"]),
)
def test_a_reference_is_found_wherever_rows_lie(centre, exponent, seed, kind):
    rng = np.random.default_rng(seed)
    noise = {
        "normal": rng.standard_normal(60),
        "uniform": rng.uniform(-1, 1, 60),
        "exponential": rng.exponential(size=60),
        "binary": np.append(rng.random(58) < 0.1, [True, False]).astype(float),
    }[kind]
    width = max(2.0**exponent, 2.0**-38 * max(1.0, abs(centre)))
    phi = np.clip(centre + noise * width, -700, 700)
    x = np.sign(phi) * np.expm1(np.abs(phi))
    if not spread(x) > 2.0**-42 * max(1.0, abs(centre)):
        return
    phi = np.sign(x) * np.log1p(np.abs(x))

    model = PowerTransformer(comparison="mpc", tol=0.5).fit(exactly([x[:, None]])[0])

    assert abs(phi.mean() - model.centre_[0]) <= 6 * spread(x)
    assert 0.5 <= model.spread_[0] / spread(x) <= 12


@pytest.mark.thinned(1)
@pytest.mark.parametrize("constant", [0.0, 7.3, -1e8, 1e-8])
def test_constants_are_seen(constant):
    X = np.column_stack([np.full(50, constant), np.arange(50.0)])
    with pytest.warns(UserWarning, match=r"\(λ = 1\): x0\."):
        model, _ = fitted(X)
    assert model.lambdas_[0] == 1.0
