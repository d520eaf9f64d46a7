"""Intervals of components with noise: coverage, and what noise leaves unseen."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose

from chance import deviation
from unpooled import PCA, GaussianPrivacy, load, partition_rows, plan, save, simulate
from unpooled.models.pca.private_certainty import (
    NoiseOfMoments,
    private_errors,
    smallest_gap,
    smallest_variance,
)
from unpooled.party.rules.policy import Policy

pytest.importorskip("opendp")

VARIANCES = np.r_[8.0, 4.0, 2.0, np.full(7, 0.2)]


def symmetric(rng, p, tau):
    """Noise as silos add it: √2 tau on the diagonal, tau off it."""
    G = np.triu(tau * rng.standard_normal((p, p)), 1)
    return G + G.T + np.diag(math.sqrt(2) * tau * rng.standard_normal(p))


def inside(variances, N, noise, mean, repeats, seed, k=3):
    """Return which intervals have the population's variances and loadings."""
    rng, p = np.random.default_rng(seed), len(variances)
    axes = np.linalg.qr(rng.standard_normal((p, p)))[0]
    kept, shown = [], []
    for _ in range(repeats):
        X = (rng.standard_normal((N, p)) * np.sqrt(variances)) @ axes.T + mean
        S = X.T @ X + symmetric(rng, p, noise.products)
        n = N + noise.count * rng.standard_normal()
        shift = (X.sum(axis=0) + noise.sums * rng.standard_normal(p)) / n
        C = (S - n * np.outer(shift, shift)) / (n - 1)
        values, V = np.linalg.eigh(C)
        values, V = values[::-1], V[:, ::-1]
        found = private_errors(values, V, k, round(n), shift, noise)
        assert np.isfinite(found["components_se_"]).all()
        off = values[:k] - found["explained_variance_bias_"] - variances[:k]
        kept.append(np.abs(off) < 1.96 * found["explained_variance_se_"])
        true = axes[:, :k] * np.sign((axes[:, :k] * V[:, :k]).sum(axis=0))
        off = np.abs(V[:, :k] - true * np.cos(found["angle_se_"]))
        shown.append(off < 1.96 * found["components_se_"].T)
    return np.mean(kept, axis=0), np.mean(shown, axis=(0, 1))


# Seeded, so that the shares are what they are: a deviation of 400 is 1.1 %.
@pytest.mark.parametrize(
    ("p", "N", "noise", "mean"),
    [
        (10, 1000, NoiseOfMoments(3.0, 10.0, 20.0), 0.0),
        # Noise is twice as large as sampling, and the centre is far from the mean.
        (10, 1000, NoiseOfMoments(10.0, 30.0, 100.0), 1.0),
        # Noise in many directions, a tenth of the largest variance at its edge.
        pytest.param(
            *(60, 2000, NoiseOfMoments(5.0, 20.0, 100.0), 0.0), marks=pytest.mark.slow
        ),
    ],
)
def test_intervals_cover_the_population(p, N, noise, mean):
    variances = np.r_[VARIANCES, np.full(p - 10, 0.2)]
    of_variances, of_loadings = inside(variances, N, noise, mean, 400, seed=p)
    # Four deviations of a share of 95 %.
    assert (np.abs(of_variances - 0.95) < 0.044).all()
    assert (np.abs(of_loadings - 0.95) < 0.03).all()


def test_noise_in_many_directions_adds_to_a_variance():
    noise = NoiseOfMoments(0.0, 0.0, 100.0)
    variances = np.r_[VARIANCES, np.full(90, 0.2)]
    rng, edge = np.random.default_rng(0), 2 * 10.0 * 100.0 / 2000
    found = [
        private_errors(values[::-1], V[:, ::-1], 2, 2000, np.zeros(100), noise)
        | {"seen": values[::-1][:2]}
        for _ in range(200)
        for values, V in [
            np.linalg.eigh(np.diag(variances) + symmetric(rng, 100, 100.0) / 2000)
        ]
    ]
    added = np.mean([one["seen"] for one in found], axis=0) - variances[:2]
    told = np.mean([one["explained_variance_bias_"] for one in found], axis=0)
    # Of a component of variance λ far from the rest: a quarter of the edge's square.
    assert_allclose(told, edge**2 / 4 / variances[:2], rtol=0.1)
    # The mean of 200, with a deviation of √2 τ / N / sqrt(200) = 0.005.
    assert_allclose(added, told, atol=4 * 0.005)


def test_components_near_the_noise_have_no_errors():
    noise = NoiseOfMoments(0.0, 0.0, 100.0)
    edge = 2 * math.sqrt(10) * 100 / 1000
    values = np.r_[3.0 * edge, 1.2 * edge, np.linspace(edge, -edge, 8)]
    found = private_errors(values, np.eye(10), 2, 1000, np.zeros(10), noise)
    assert np.isfinite(found["components_se_"][0]).all()
    assert np.isnan(found["components_se_"][1]).all()
    assert np.isnan(found["explained_variance_se_"][1])


def test_neighbours_within_the_noise_share_a_subspace():
    noise = NoiseOfMoments(0.0, 0.0, 100.0)
    # 1.0 apart, by 2 * 2.45 * 0.1 = 0.49 and more; then 0.4 apart, which is within.
    values = np.r_[5.0, 2.4, 2.0 - 0.01, np.zeros(7)]
    found = private_errors(values, np.eye(10), 3, 1000, np.zeros(10), noise)
    assert found["subspaces_"].tolist() == [[0, 0], [1, 2], [1, 2]]
    assert np.isnan(found["components_se_"][1:]).all()


def test_few_directions_stand_for_all():
    rng, p = np.random.default_rng(3), 80
    noise = NoiseOfMoments(5.0, 20.0, 100.0)
    C = np.diag(np.r_[VARIANCES, np.full(p - 10, 0.2)]) + symmetric(rng, p, 0.05)
    values, V = np.linalg.eigh(C)
    values, V, shift = values[::-1], V[:, ::-1], 0.1 * rng.standard_normal(p)
    every = private_errors(values, V, 2, 2000, shift, noise)
    few = private_errors(values, V[:, :20], 2, 2000, shift, noise)
    for name in ("explained_variance_se_", "explained_variance_bias_", "angle_se_"):
        assert_allclose(few[name], every[name], rtol=0.05)
    assert_allclose(
        np.sqrt((few["components_se_"] ** 2).sum(axis=1)),
        np.sqrt((every["components_se_"] ** 2).sum(axis=1)),
        rtol=0.05,
    )


def share_seen(rng, p, noise, N, variance, repeats):
    """Return how often a component shows above 95 % of what noise alone shows."""
    alone, above = [], []
    for _ in range(repeats):
        E = symmetric(rng, p, noise.products / N)
        alone.append(np.linalg.eigvalsh(E)[-1])
        E = symmetric(rng, p, noise.products / N)
        E[0, 0] += variance
        above.append(np.linalg.eigvalsh(E)[-1])
    return np.mean(np.array(above) > np.quantile(alone, 0.95))


@pytest.mark.parametrize("p", [20, pytest.param(100, marks=pytest.mark.slow)])
def test_a_component_of_that_variance_is_seen_four_times_of_five(p):
    noise, rng = NoiseOfMoments(0.0, 0.0, 50.0), np.random.default_rng(p)
    variance = smallest_variance(p, 1000, noise)
    # The limits are those of large p; seeded, with a deviation of 2 % of 400.
    assert 0.7 < share_seen(rng, p, noise, 1000, variance, 400) < 0.92
    assert share_seen(rng, p, noise, 1000, 0.6 * variance, 400) < 0.55


@pytest.mark.parametrize("variance", [0.0, 3.0])
def test_components_of_that_distance_are_told_apart_four_times_of_five(variance):
    noise, N, rng = NoiseOfMoments(0.0, 0.0, 50.0), 1000, np.random.default_rng(1)
    width = math.sqrt((50.0 / N) ** 2 + variance**2 / N)
    gap = smallest_gap(N, noise, variance)

    def distances(of):
        a, b, c = rng.standard_normal((3, 20_000)) * width
        E = np.moveaxis(np.array([[math.sqrt(2) * a, b], [b, math.sqrt(2) * c]]), 2, 0)
        E[:, 0, 0] += of
        return np.ptp(np.linalg.eigvalsh(E), axis=1)

    seen = np.mean(distances(gap) > np.quantile(distances(0.0), 0.95))
    # Shares of 20,000, with a deviation of 0.3 %, and of the quantile as much again.
    assert seen == pytest.approx(0.8, abs=0.02)


# --- In a fit ------------------------------------------------------------------------


def fitted(seed=0, follow=False):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((1500, 6)) * np.sqrt([4.0, 2.0, 0.3, 0.3, 0.3, 0.3])
    federation = simulate(partition_rows(X, 3), policy=Policy.open(), follow=follow)
    privacy = GaussianPrivacy(4.0, 1e-5, 9.0)
    return PCA(2, privacy=privacy).fit(federation), federation


@pytest.mark.slow
def test_a_fit_covers_the_population():
    variances, loadings = [], []
    for seed in range(60):
        model, _ = fitted(seed)
        own = model.explained_variance_ - model.explained_variance_bias_
        off = np.abs(own - [4.0, 2.0])
        variances.append(off < 1.96 * model.explained_variance_se_)
        # The loadings of other columns are 0; those of their own are bent by 1 - cos.
        others = model.components_[:, 2:]
        loadings.append(np.abs(others) < 1.96 * model.components_se_[:, 2:])
    for one in (variances, loadings):
        # The intervals of a fit share its rows and noise: 60 of each are independent.
        assert abs(np.mean(one) - 0.95) < deviation(60 * 2, 2)


def test_a_followed_fit_is_saved_with_its_errors(tmp_path):
    model, federation = fitted(follow=True)
    loaded = load(save(model, tmp_path / "model.unpooled"))
    for name in ("explained_variance_se_", "explained_variance_bias_", "subspaces_"):
        np.testing.assert_array_equal(getattr(loaded, name), getattr(model, name))
    headings = [one.heading for one in model.summary().exhibits]
    assert "How certain the components are" in headings
    exact = model.set_params(privacy=None).fit(federation)
    assert not hasattr(exact, "explained_variance_bias_")
    assert not hasattr(exact, "components_se_")


def test_the_plan_says_what_could_be_seen():
    _, federation = fitted()
    privacy = GaussianPrivacy(4.0, 1e-5, 9.0)
    first = math.nan
    for n, factor in ((1000, 1.0), (10_000, 10.0)):
        planned = plan(PCA(2, privacy=privacy), federation, n_rows=n)
        (note,) = (text for text in planned.notes if text.startswith("PCA with noise"))
        assert f"with {n:,} rows, 6 columns, 3 silos and ε = 4" in note
        seen = float(note.split("variance is above ")[1].split(",")[0])
        first = seen if n == 1000 else first
        assert seen == pytest.approx(first / factor, rel=1e-3)
