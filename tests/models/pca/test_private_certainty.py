"""Intervals of components with noise: coverage, and what noise leaves unseen."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose

from chance import deviation
from unpooled import PCA, GaussianPrivacy, load, partition_rows, plan, save, simulate
from unpooled.models.pca.private_certainty import (
    MeanSquare,
    NoiseOfMoments,
    largest_of_block,
    largest_of_products,
    lost_by_clipping,
    private_errors,
    smallest_gap,
    smallest_variance,
    variance_bounds,
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
@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
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


# --- Of rows that were multiplied before noise was added ------------------------------


def of_totals(S, T, n, stretch):
    """Return variances and components, as a fit finds them from noisy totals."""
    shift = T / n
    C = stretch @ ((S - n * np.outer(shift, shift)) / (n - 1)) @ stretch
    values, V = np.linalg.eigh(C)
    return values[::-1], V[:, ::-1]


def test_noise_of_multiplied_rows_is_that_of_derivatives():
    """By every entry of the noise, with a metric whose axes are not the components."""
    rng, p, k, N = np.random.default_rng(2), 5, 3, 10**9
    axes = np.linalg.qr(rng.standard_normal((p, p)))[0]
    C = (axes * [6.0, 3.0, 1.5, 0.5, 0.2]) @ axes.T
    other = np.linalg.qr(axes + 0.3 * rng.standard_normal((p, p)))[0]
    M = (other * [0.3, 0.5, 0.8, 1.0, 1.0]) @ other.T
    stretch, shift = np.linalg.inv(M), rng.standard_normal(p)
    S = (N - 1) * M @ C @ M + N * np.outer(shift, shift)
    noise = NoiseOfMoments(3e5, 4e5, 5e5)
    values, V = of_totals(S, N * shift, N, stretch)

    def moved(dS, dT, dn):
        ends = []
        for sign in (1.0, -1.0):
            ends.append(
                of_totals(S + sign * dS, N * shift + sign * dT, N + sign * dn, stretch)
            )
        (up, V_up), (down, V_down) = ends
        signs = [np.sign((one * V).sum(axis=0)) for one in (V_up, V_down)]
        return (up - down) / 2, (V_up * signs[0] - V_down * signs[1]) / 2

    found = [moved(0.0, 0.0, noise.count)]
    for i in range(p):
        e = np.eye(p)[i]
        found.append(moved(0.0, noise.sums * e, 0.0))
        for j in range(i, p):
            E = np.outer(e, np.eye(p)[j])
            E = E + E.T if i != j else math.sqrt(2.0) * E
            found.append(moved(noise.products * E, 0.0, 0.0))
    of_values = np.sum([one[0] ** 2 for one in found], axis=0)[:k]
    of_axes = np.sum([one[1] ** 2 for one in found], axis=0)[:, :k].T
    with_it, without = (
        private_errors(values, V, k, N, shift, one, stretch, np.ones(k, bool))
        for one in (noise, NoiseOfMoments(0.0, 0.0, 0.0))
    )
    # Rows add 1e-9 of the squares; second orders are 1e-3 of the first.
    for name, wanted in (
        ("explained_variance_se_", of_values),
        ("components_se_", of_axes),
    ):
        assert_allclose(with_it[name] ** 2 - without[name] ** 2, wanted, rtol=5e-3)
    assert_allclose(with_it["angle_se_"] ** 2, of_axes.sum(axis=1), rtol=5e-3)


@pytest.mark.slow
def test_intervals_cover_the_population_with_a_metric():
    """Noise is about as large as sampling, and differs by direction."""
    rng, N, k, p = np.random.default_rng(7), 1000, 3, len(VARIANCES)
    axes = np.linalg.qr(rng.standard_normal((p, p)))[0]
    # A metric as the first of two rounds finds it: near the axes, and not equal.
    near = np.linalg.qr(axes + 0.1 * rng.standard_normal((p, p)))[0]
    M = (near / np.sqrt(np.maximum(VARIANCES, 0.5) / 0.5)) @ near.T
    stretch, noise = np.linalg.inv(M), NoiseOfMoments(10.0, 20.0, 20.0)
    kept, shown = [], []
    for _ in range(400):
        X = (rng.standard_normal((N, p)) * np.sqrt(VARIANCES)) @ axes.T + 0.2
        Y = X @ M
        S = Y.T @ Y + symmetric(rng, p, noise.products)
        T = Y.sum(axis=0) + noise.sums * rng.standard_normal(p)
        n = round(N + noise.count * rng.standard_normal())
        values, V = of_totals(S, T, n, stretch)
        seen = np.ones(k, bool)
        found = private_errors(values, V, k, n, T / n, noise, stretch, seen)
        off = values[:k] - found["explained_variance_bias_"] - VARIANCES[:k]
        kept.append(np.abs(off) < 1.96 * found["explained_variance_se_"])
        true = axes[:, :k] * np.sign((axes[:, :k] * V[:, :k]).sum(axis=0))
        off = np.abs(V[:, :k] - true * np.cos(found["angle_se_"]))
        assert np.isfinite(found["components_se_"]).all()
        shown.append(off < 1.96 * found["components_se_"].T)
    # Four deviations of a share of 95 % of 400, as above.
    assert (np.abs(np.mean(kept, axis=0) - 0.95) < 0.044).all()
    assert (np.abs(np.mean(shown, axis=(0, 1)) - 0.95) < 0.03).all()


def test_without_a_metric_noise_is_the_same_in_all_directions():
    rng, p = np.random.default_rng(4), 8
    V = np.linalg.qr(rng.standard_normal((p, p)))[0]
    values, noise = (
        np.r_[8.0, 4.0, 2.0, np.full(5, 0.2)],
        NoiseOfMoments(5.0, 20.0, 90.0),
    )
    shift = 0.3 * rng.standard_normal(p)
    plain = private_errors(values, V, 3, 2000, shift, noise)
    other = private_errors(values, V, 3, 2000, shift, noise, np.eye(p))
    for name in ("explained_variance_se_", "explained_variance_bias_", "angle_se_"):
        assert_allclose(other[name], plain[name], rtol=1e-12)
    # Without a mean the entries are uncorrelated, as the plain form takes them.
    plain, other = (
        private_errors(values, V, 3, 2000, np.zeros(p), noise, *more)
        for more in ((), (np.eye(p),))
    )
    assert_allclose(other["components_se_"], plain["components_se_"], rtol=1e-12)


@pytest.mark.thinned(1)
@pytest.mark.parametrize(("f", "times"), [(1, 4.0), (3, 2.25), (12, 1.5)])
def test_lost_by_clipping_is_what_normal_rows_lose(f, times):
    rng, n = np.random.default_rng(f), 400_000
    squares = (rng.standard_normal((n, f)) ** 2).sum(axis=1)
    beyond = np.maximum(squares - times * f, 0.0)
    found = lost_by_clipping(np.eye(f), math.sqrt(times * f))
    # Five deviations of the mean of n.
    assert abs(beyond.mean() - found * f) < 5 * beyond.std() / math.sqrt(n)


# --- In a fit ------------------------------------------------------------------------


def fitted(seed=0, follow=False, mechanism="scatter"):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((1500, 6)) * np.sqrt([4.0, 2.0, 0.3, 0.3, 0.3, 0.3])
    federation = simulate(partition_rows(X, 3), policy=Policy.open(), follow=follow)
    # Rows are clipped to four times their length, and hardly any is, with little noise.
    epsilon = {"scatter": 4.0, "preconditioned": 400.0}[mechanism]
    privacy = GaussianPrivacy(epsilon, 1e-5, 9.0, mechanism=mechanism)
    return PCA(2, privacy=privacy).fit(federation), federation


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ["scatter", "preconditioned"])
def test_a_fit_covers_the_population(mechanism):
    variances, loadings = [], []
    for seed in range(60):
        model, _ = fitted(seed, mechanism=mechanism)
        own = model.explained_variance_ - model.explained_variance_bias_
        off = np.abs(own - [4.0, 2.0])
        variances.append(off < 1.96 * model.explained_variance_se_)
        # The loadings of other columns are 0; those of their own are bent by 1 - cos.
        others = model.components_[:, 2:]
        loadings.append(np.abs(others) < 1.96 * model.components_se_[:, 2:])
    for one in (variances, loadings):
        # The intervals of a fit share its rows and noise: 60 of each are independent.
        assert abs(np.mean(one) - 0.95) < deviation(60 * 2, 2)


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_preconditioned_fit_has_errors_where_it_clips_no_rows():
    model, federation = fitted(follow=True, mechanism="preconditioned")
    assert np.isfinite(model.explained_variance_se_).all()
    # Little noise: about the standard errors of normal rows.
    assert_allclose(
        model.explained_variance_se_ / model.explained_variance_,
        np.sqrt(2 / 1500),
        rtol=0.1,
    )
    headings = [one.heading for one in model.summary().exhibits]
    assert "How certain the components are" in headings
    # With much noise half of the rows are clipped, and variances are too small.
    for mechanism in ("preconditioned", "power"):
        privacy = GaussianPrivacy(1.0, 1e-5, 9.0, mechanism=mechanism)
        model = PCA(2, privacy=privacy).fit(federation)
        assert not hasattr(model, "explained_variance_se_")
        assert model.summary().exhibits


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


# --- Bounds where rows are clipped ---------------------------------------------------


def clipped(Y, norm):
    return Y * np.minimum(1.0, norm / np.linalg.norm(Y, axis=1))[:, None]


def bounded(metric, noise, seed, *, slack=True, repeats=200):
    """Return how often all bounds hold, and the share that lower ones have of truth.

    Of skewed rows with outliers, clipped to less than their mean square length.
    """
    rng, p, N, k, width = np.random.default_rng(seed), 12, 400, 3, 5
    X = rng.exponential(size=(N, p)) ** 1.5 * np.r_[4.0, 3.0, 2.0, np.full(p - 3, 0.5)]
    hold, tight = [], []
    for _ in range(repeats):
        total = X.sum(axis=0) + noise.sums * rng.standard_normal(p)
        n = N + noise.count * rng.standard_normal()
        energy = (X**2).sum() + 10.0 * noise.products * rng.standard_normal()
        shift = total / n
        D = X - shift
        truth = np.linalg.eigvalsh(D.T @ D / N)[::-1][:k]
        of_first = NoiseOfMoments(noise.count, noise.sums, 10.0 * noise.products)
        rows = MeanSquare.of(round(n), energy, total, shift, of_first)
        W = np.linalg.qr(np.linalg.eigh(D.T @ D)[1][:, ::-1][:, :width]
                         + 0.1 * rng.standard_normal((p, width)))[0]  # fmt: skip
        norm = 0.8 * math.sqrt((D**2).sum() / N)
        if metric:
            M = np.diag(np.r_[0.4, 0.6, np.ones(p - 2)])
            Y, stretch = clipped(D @ M, 0.7 * norm), np.linalg.inv(M)
            S = Y.T @ Y + symmetric(rng, p, noise.products)
            seen = W.T @ stretch @ S @ stretch @ W / n
            most = largest_of_products(stretch @ W, noise.products / n)
        else:
            Y = clipped(D, norm)
            Z = clipped(Y @ W, 0.7 * norm)
            block = Y.T @ Z + noise.products * rng.standard_normal((p, width))
            seen, most = W.T @ block / n, largest_of_block(width, noise.products / n)
        low, high = variance_bounds(seen, most if slack else 0.0, k, rows).T
        hold.append(((low <= truth) & (truth <= high)).all())
        tight.append(low / truth)
    return np.mean(hold), np.mean(tight, axis=0)


@pytest.mark.slow
@pytest.mark.parametrize("metric", [False, True])
@pytest.mark.parametrize("products", [1.0, 100.0, 1000.0])
def test_bounds_hold_whatever_the_rows_are(metric, products):
    noise = NoiseOfMoments(2.0, 0.1 * products, products)
    held, tight = bounded(metric, noise, seed=0)
    # 0.95 by the theory, which leaves room; seeded.
    assert held >= 0.95
    if products == 1.0:
        assert (tight > 0.2).all()


@pytest.mark.thinned(1)
@pytest.mark.parametrize("metric", [False, True])
def test_bounds_without_the_noise_s_largest_would_not_hold(metric):
    """The control, for rows that are hardly clipped: noise adds to what is largest."""
    rng, p, width = np.random.default_rng(3), 12, 5
    W = np.linalg.qr(rng.standard_normal((p, width)))[0]
    beyond, without = [], []
    for _ in range(400):
        if metric:
            E = W.T @ symmetric(rng, p, 1.0) @ W
            most = largest_of_products(W, 1.0)
        else:
            E = W.T @ rng.standard_normal((p, width))
            most = largest_of_block(width, 1.0)
        largest = np.linalg.eigvalsh(0.5 * (E + E.T))[-1]
        beyond.append(largest > most)
        without.append(largest > 0.5 * most)
    assert np.mean(beyond) <= 0.025
    assert np.mean(without) > 0.1


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ["power", "preconditioned"])
def test_a_fit_that_clips_rows_has_bounds(mechanism, tmp_path):
    rng = np.random.default_rng(2)
    X = rng.standard_normal((3000, 10)) * np.sqrt(VARIANCES)
    # Of normal rows of this length one of 1e12 is beyond the norm.
    privacy = GaussianPrivacy(1.0, 1e-5, 25.0, mechanism=mechanism)
    parts = partition_rows(X, 3, random_state=0)
    federation = simulate(parts, policy=Policy.open(), follow=True)
    model = PCA(3, privacy=privacy).fit(federation)
    low, high = model.explained_variance_bounds_.T
    D = X - model.mean_
    truth = np.linalg.eigvalsh(D.T @ D / len(X))[::-1][:3]
    # By clipping alone the lower ones are a fifth below, ten deviations of the noise
    # and more; the upper ones are the whole mean square length less these.
    assert (low < truth).all()
    assert (truth < high).all()
    assert low[0] > 0.05 * truth[0]
    assert "explained_variance_se_" not in vars(model)
    shown = model.summary().to_frame("signal_to_noise")
    assert shown["low"].tolist() == low.tolist()
    save(model, tmp_path / "model")
    assert_allclose(load(tmp_path / "model").explained_variance_bounds_.T, [low, high])
    planned = plan(PCA(3, privacy=privacy), federation, n_rows=3000)
    assert "stands out from the noise where it has more than" in str(planned)
