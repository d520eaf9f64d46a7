"""Private PCA in three rounds: closer to the pooled answer, for the same (ε, δ)."""

import math

import numpy as np
import pytest
import scipy.linalg
import sklearn.decomposition
from numpy.testing import assert_allclose

from chance import spread_is
from federations import open_silos
from line_fields import fields
from private_rows import LOOSE, K, P, rows
from unpooled import PCA, GaussianPrivacy, load, plan, save, simulate
from unpooled.errors import DataError, ReleaseRefusedError
from unpooled.models.pca import private
from unpooled.models.pca.private_certainty import NoiseOfMoments
from unpooled.models.pca.private_location import local_private_location
from unpooled.models.private_rows import multiplied
from unpooled.party.rules.policy import Policy
from unpooled.party.steps import add_noise as noising
from unpooled.protocol.bounds import LATTICE
from unpooled.protocol.privacy_cost import cost
from unpooled.protocol.refusal import Refusal
from unpooled.secure.noise import epsilon_of, rho_of
from wire import silos

# Fixtures of another module.
__all__ = ["rows"]

pytest.importorskip("opendp")

LOOSER = GaussianPrivacy(**LOOSE.as_dict() | {"mechanism": "preconditioned"})
PROMISE = {"epsilon": 1.0, "delta": 1e-5, "share": 0.5}


def shape_of(X, *, metric=None, row_norm=3.0, reach=12.0):
    p = X.shape[1]
    metric = 2.0**20 * np.eye(p) if metric is None else metric
    public = {"centre": np.zeros(p), "metric": metric, "reach": reach}
    return private.local_private_shape(X, **public, row_norm=row_norm, **PROMISE)


def location_of(X):
    centre = np.zeros(X.shape[1])
    return local_private_location(X, centre=centre, row_norm=3.0, **PROMISE)


def angles(model, rows):
    exact = sklearn.decomposition.PCA(model.n_components_).fit(rows)
    return np.degrees(
        scipy.linalg.subspace_angles(model.components_.T, exact.components_.T)
    )


# --- Sensitivity and cost ------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("made", [location_of, shape_of])
def test_one_row_moves_totals_by_no_more_than_the_declared_sensitivity(made, seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((20, 5)) * rng.choice([0.1, 1.0, 50.0], (20, 1))
    metric = np.rint(2.0**20 * rng.standard_normal((5, 5)))
    # The row that is there or not: any; far along what the metric stretches most, and
    # what it nearly annuls; no number; one cell.
    far = np.linalg.svd(metric)[2]
    X[0] = [X[0], 1e9 * far[0], 1e9 * far[-1], np.full(5, np.nan), 1e3 * np.eye(5)[0]][
        seed
    ]
    options = {"metric": metric} if made is shape_of else {}
    with_it, without = made(X, **options), made(X[1:], **options)
    step = {
        location_of: local_private_location,
        shape_of: private.local_private_shape,
    }[made]
    spent = 0.0
    for name, declared in step.declared.items():
        assert declared.noise is not None
        moved = np.linalg.norm(with_it[name] - without[name])
        assert moved <= declared.noise.sensitivity
        spent += declared.noise.share
    assert spent == pytest.approx(1.0)


@pytest.mark.parametrize("n", [1, 2, 7, 63])
def test_one_row_more_changes_no_other_row_to_the_last_bit(n):
    rng = np.random.default_rng(n)
    X = rng.standard_normal((64, 37))
    metric = np.rint(2.0**20 * rng.standard_normal((37, 37)))
    public = (np.zeros(37), 12.0, metric, 3.0)
    # BLAS takes other paths for other numbers of rows.
    _, every = multiplied(X, *public)
    np.testing.assert_array_equal(multiplied(X[:n], *public)[1], every[:n])
    assert np.einsum("ij,ij->i", every, every).max() <= LATTICE**2


def test_the_rounds_cost_epsilon_and_delta_together(rows):
    here = silos({n: rows[i::3] for i, n in enumerate("abc")}, policy=Policy.open())
    privacy = GaussianPrivacy(1.0, 1e-5, 30.0, mechanism="preconditioned")
    PCA(K, privacy=privacy).fit(here.federation)
    for party in here.parties.values():
        spent = party._studies._audit_log.spent()
        assert spent == pytest.approx(rho_of(1.0, 1e-5), rel=1e-12)
        # The account in closed form: Bun and Steinke, proposition 1.3, an upper bound.
        assert epsilon_of(spent, 1e-5) <= spent + 2 * math.sqrt(spent * math.log(1e5))
        assert epsilon_of(spent, 1e-5) <= 1.0 + 1e-9


def test_a_budget_that_ends_between_two_rounds(rows):
    rules = {"privacy_budget": 0.9, "privacy_delta": 1e-5}
    federation = simulate({n: rows[i::3] for i, n in enumerate("abc")}, policy=rules)
    privacy = GaussianPrivacy(1.0, 1e-5, 30.0, mechanism="preconditioned")
    with pytest.raises(ReleaseRefusedError, match="privacy_budget"):
        PCA(K, privacy=privacy).fit(federation)


@pytest.mark.parametrize("share", [0.0, -0.1, 1.5, math.nan, 1, "1", None])
def test_made_up_shares_are_refused_in_the_silo(share):
    public = {"epsilon": 1.0, "delta": 1e-5, "share": share}
    with pytest.raises(Refusal, match="arguments"):
        cost(private.local_private_shape, public)


@pytest.mark.parametrize(
    "changed",
    [
        {"metric": np.full((4, 4), 0.5)},
        {"metric": np.full((4, 4), 2.0**40)},
        {"metric": np.full((4, 4), np.nan)},
        {"metric": np.full((4, 4), np.inf)},
        {"row_norm": 0.0},
        {"reach": math.inf},
    ],
)
def test_a_made_up_metric_is_refused_in_the_silo(changed):
    with pytest.raises(Refusal, match="arguments"):
        shape_of(np.ones((3, 4)), **changed)


def test_each_round_has_the_noise_that_its_share_pays_for(monkeypatch):
    drawn = []

    def drawing(sigma, size):
        drawn.append((sigma, size))
        return np.zeros(size, np.int64)

    monkeypatch.setattr(noising, "discrete_gaussian", drawing)
    X = np.random.default_rng(0).standard_normal((600, P))
    privacy = GaussianPrivacy(1.0, 1e-5, 9.0, mechanism="preconditioned")
    PCA(K, privacy=privacy).fit(open_silos(X, m=3))
    # Squares of sensitivities over twice what each release costs; two honest silos.
    rho, found = rho_of(1.0, 1e-5), {}
    for sigma, size in drawn:
        found.setdefault((sigma, size), 0)
        found[sigma, size] += 1

    def wide(sensitivity, of_round, share, size):
        return sensitivity / math.sqrt(2 * rho * of_round * share * 2), size

    corners = [wide(LATTICE**2, f, 0.97, P) for f in (0.2, 0.76)]
    sums = [wide(LATTICE, f, 0.03, P) for f in (0.2, 0.76)]
    pairs = [
        wide(LATTICE**2 / math.sqrt(2), f, 0.97, P * (P + 1) // 2) for f in (0.2, 0.76)
    ]
    first = [
        wide(LATTICE, 0.04, 0.1, 1),
        wide(LATTICE, 0.04, 0.8, P),
        wide(LATTICE**2, 0.04, 0.1, 1),
    ]
    wanted = sorted(first + corners + sums + pairs)
    assert_allclose(sorted(found), wanted, rtol=1e-9)
    # Every one of the three silos draws.
    assert set(found.values()) == {3}


# --- The answer ----------------------------------------------------------------------


@pytest.mark.parametrize("secure_sum", ["masked", "plain"])
def test_with_little_noise_it_is_the_pooled_answer(rows, secure_sum):
    ours = PCA(K, privacy=LOOSER).fit(open_silos(rows, secure_sum=secure_sum))
    theirs = sklearn.decomposition.PCA(K).fit(rows)
    # Rows within four times their mean square length are not clipped.
    assert angles(ours, rows).max() < 1.0
    assert_allclose(ours.mean_, theirs.mean_, atol=0.05)
    assert_allclose(ours.explained_variance_, theirs.explained_variance_, rtol=0.02)
    assert ours.n_samples_ == pytest.approx(len(rows), abs=30)


@pytest.mark.slow
def test_it_is_closer_than_one_round_of_the_same_cost():
    rng = np.random.default_rng(3)
    X = rng.standard_normal((4000, 40)) * np.r_[9.0, 4.0, 3.0, 2.0, np.full(36, 0.5)]
    X += 2.0
    found = {}
    for mechanism in ("scatter", "preconditioned"):
        privacy = GaussianPrivacy(2.0, 1e-5, 30.0, mechanism=mechanism)
        found[mechanism] = angles(PCA(4, privacy=privacy).fit(open_silos(X)), X).mean()
    assert found["preconditioned"] < 0.7 * found["scatter"]


@pytest.mark.slow
def test_noise_alone_has_a_signal_of_about_one():
    # Variances of 1 in all directions, far below the edge of both rounds.
    X = np.random.default_rng(5).standard_normal((800, 120))
    privacy = GaussianPrivacy(1.0, 1e-5, 20.0, mechanism="preconditioned")
    model = PCA(privacy=privacy).fit(open_silos(X))
    # So few rows that the mean is mostly noise too, whose part of the edge is a bound;
    # columns that show little else are shrunk.
    assert 0.05 < model.signal_to_noise_[0] < 1.2


@pytest.mark.slow
def test_columns_without_variance_add_no_noise():
    rng = np.random.default_rng(6)
    X = np.zeros((6000, 60))
    X[:, ::3] = rng.standard_normal((6000, 20)) * np.geomspace(3.0, 0.6, 20)
    privacy = GaussianPrivacy(1.0, 1e-5, 12.0, mechanism="preconditioned")
    model = PCA(4, privacy=privacy).fit(open_silos(X))
    found = model.components_**2
    # Of the noise two thirds would be in these columns.
    assert found[:, np.arange(60) % 3 != 0].sum() < 0.2 * (4 - found.max(axis=1).sum())


@pytest.mark.slow
def test_variances_add_up_to_the_mean_square_length_though_rows_are_clipped():
    rng = np.random.default_rng(3)
    X = rng.standard_normal((4000, 40)) * np.r_[9.0, 4.0, 3.0, 2.0, np.full(36, 0.5)]
    privacy = GaussianPrivacy(2.0, 1e-5, 40.0, mechanism="preconditioned")
    model = PCA(privacy=privacy).fit(open_silos(X))
    total = X.var(axis=0).sum()
    # Many rows were shortened: to their root mean square length, as the first round
    # has it. Its noise is 0.134 of it, the deviation of 120 fits, and a normal one is
    # beyond 6.2 deviations once in 10⁹ cases.
    assert 0.17 * total < model.privacy_["radius"] ** 2 < 1.83 * total
    assert model.eigenvalues_.sum() == pytest.approx(model.privacy_["radius"] ** 2)


# --- What is made of both matrices ----------------------------------------------------


def noise_of(p, deviation, rng):
    """Symmetric noise with twice the variance on the diagonal."""
    G = deviation * rng.standard_normal((p, p))
    return np.triu(G, 1) + np.triu(G, 1).T + math.sqrt(2) * np.diag(np.diag(G))


def passed(C, deviation, short=False):
    edge = 2.0 * math.sqrt(len(C)) * deviation
    noise = NoiseOfMoments(0.0, 0.0, deviation)
    return private._Pass(C, edge, 0.0, 1.0, short, noise, np.zeros(len(C)))


def test_shortening_leaves_what_is_not_seen_and_keeps_the_mean_square():
    variance, edge = np.r_[50.0, 13.0, 5.0, 0.9, 0.2, -0.5], 1.0
    for k in (1, 3, 6):
        deviation, square = private._shortening(variance, edge, k)
        seen = np.sqrt(variance[:3] ** 2 - 1.0)
        assert_allclose(deviation[3:], 1.0)
        assert np.all(np.diff(deviation) <= 0.0)
        floor = seen[0] / deviation[0] ** 2
        assert_allclose(deviation[:3], np.sqrt(np.maximum(seen / floor, 1.0)))
        left = variance.sum() - seen.sum() + (seen / deviation[:3] ** 2).sum()
        assert square == pytest.approx(left)
    # More wanted that are not seen: shorter rows, and more noise along what is.
    wide = np.r_[50.0, 13.0, 5.0, np.full(40, 0.9)]
    few, many = (private._shortening(wide, edge, k) for k in (1, 30))
    assert many[1] < few[1]
    assert many[0][0] > few[0][0]
    # A variance far above noise is not divided by more than the lattice bears.
    assert private._shortening(np.r_[1e9, np.zeros(5)], 1e-3, 6)[0][0] <= 64.0 + 1e-9


def test_without_a_variance_above_noise_nothing_is_divided():
    deviation, square = private._shortening(np.r_[0.4, 0.1, -0.3], 1.0, 2)
    assert_allclose(deviation, 1.0)
    assert square == pytest.approx(0.2)


@pytest.mark.slow
def test_both_matrices_are_weighted_by_their_noise():
    rng, p = np.random.default_rng(4), 6
    Q = np.linalg.qr(rng.standard_normal((p, p)))[0]
    C = (Q * np.r_[9.0, 4.0, 1.0, 0.3, 0.2, 0.1]) @ Q.T
    variance, axes = np.linalg.eigh(C)
    variance, axes = variance[::-1].copy(), axes[:, ::-1]
    deviation = np.r_[3.0, 2.0, 1.0, 1.0, 1.0, 1.0]
    M, undone = (axes / deviation) @ axes.T, (axes * deviation) @ axes.T
    found, spread = [], None
    for _ in range(1500):
        # The axes stay those of C, so that the average is linear in the noise.
        second = passed(M @ C @ M + noise_of(p, 0.02, rng), 0.02)
        made, spread = private._both(
            passed(C, 0.05),
            second,
            variance,
            axes,
            undone @ second.C @ undone,
            deviation,
        )
        found.append(axes.T @ made @ axes)
    assert spread is not None
    assert_allclose(np.mean(found, axis=0), np.diag(variance), atol=0.02)
    of_second = (0.02 * np.outer(deviation, deviation)) ** 2
    weights = 1.0 / (1.0 / of_second + 1.0 / 0.05**2)
    # The first has no noise here: what is left is the second's part of it.
    part = (weights / of_second) ** 2 * of_second * (1.0 + np.eye(p))
    # 1,500 draws: a variance has a relative deviation of 0.037. The sums by which one
    # is scaled to the other have noise as well.
    assert_allclose(np.var(found, axis=0)[:, 2:], part[:, 2:], rtol=0.2)
    assert_allclose(spread.variances, weights, rtol=0.05)


def test_noise_of_rows_and_along_directions():
    rng, p = np.random.default_rng(8), 5
    axes = np.linalg.qr(rng.standard_normal((p, p)))[0]
    d = np.r_[3.0, 2.0, 1.5, 1.0, 1.0]
    variances = 0.3 * np.outer(d, d) ** 2
    spread = private._Spread(axes, variances)
    # All entries by brute force, from pairs of directions; the diagonal has twice the
    # variance.
    total = np.zeros((p, p))
    for a in range(p):
        for b in range(a, p):
            E = np.zeros((p, p))
            E[a, b] = E[b, a] = 1.0
            size = variances[a, b] * (2.0 if a == b else 1.0)
            total += size * (axes @ E @ axes.T) ** 2
    assert_allclose(spread.of_rows(), total.sum(axis=1))
    assert spread.smallest == pytest.approx(0.3)
    # Along an axis, what noise of the smallest variance becomes by M⁻¹.
    assert_allclose(spread.along(axes), d**2)


def test_columns_that_do_not_differ_are_left_alone():
    p = 8
    C = 0.5 * np.ones((p, p)) + np.eye(p)
    same = private._Spread(np.eye(p), np.full((p, p), 0.04))
    assert_allclose(private._shrunk(C, same), C)
    # One that shows nothing is taken out, and the others nearly stay.
    C[0, :] = C[:, 0] = 0.0
    made = private._shrunk(C, private._Spread(np.eye(p), np.full((p, p), 1e-4)))
    assert_allclose(made[0], 0.0, atol=1e-12)
    assert_allclose(made[1:, 1:], C[1:, 1:], rtol=1e-2)
    # Nothing but noise.
    assert_allclose(private._shrunk(0.0 * C, same), 0.0)


def test_the_ledger_and_the_plan(rows):
    federation = open_silos(rows)
    PCA(K, privacy=LOOSER).fit(federation)
    seen = fields(federation.ledger, "round step name shape", direction="out")
    assert seen == [
        (1, "pca.local_private_location", "count", ()),
        (1, "pca.local_private_location", "total", (P,)),
        (1, "pca.local_private_location", "energy", ()),
        (2, "pca.local_private_shape", "total", (P,)),
        (2, "pca.local_private_shape", "scatter", (P, P)),
        (3, "pca.local_private_shape", "total", (P,)),
        (3, "pca.local_private_shape", "scatter", (P, P)),
    ]
    planned = plan(PCA(K, privacy=LOOSER), federation)
    assert fields(planned.releases, "name bytes") == fields(
        federation.ledger, "name bytes"
    )


def test_followed_by_every_silo(rows):
    parts = {n: rows[i::3] for i, n in enumerate("abc")}
    federation = simulate(parts, policy=Policy.open(), follow=True)
    assert angles(PCA(K, privacy=LOOSER).fit(federation), rows).max() < 1.0


def test_saves_and_loads(rows, tmp_path):
    model = PCA(K, privacy=LOOSER).fit(open_silos(rows))
    loaded = load(save(model, tmp_path / "model.unpooled"))
    assert loaded.privacy == LOOSER
    assert loaded.privacy_ == model.privacy_
    assert set(model.privacy_) >= {"radius", "inner_radius", "noise_edge"}
    assert "Privately learning" in " ".join(model._citation().references)


def test_a_row_with_a_missing_or_infinite_value_counts_as_the_centre():
    X = np.random.default_rng(2).standard_normal((30, 4))
    holes, centred = X.copy(), X.copy()
    holes[3, 1], holes[4, 0], holes[5, 2] = np.nan, np.inf, 1e200
    centred[3:6] = 0.0
    for made in (location_of, shape_of):
        seen, wanted = made(holes), made(centred)
        for name in wanted:
            np.testing.assert_array_equal(seen[name], wanted[name])


def test_an_unknown_mechanism():
    with pytest.raises(DataError, match="mechanism='else'"):
        GaussianPrivacy(1.0, 1e-5, 1.0, mechanism="else")


def test_draws_of_a_total_have_the_spread_that_is_declared():
    # Rows of zeros, so that what is released is the noise; its share of two silos.
    declared = private.local_private_shape.declared["scatter"]
    rho = 0.2 * rho_of(1.0, 1e-5)
    drawn = noising.noised(np.zeros((60, 60)), declared, rho, 2)
    corners = np.cumsum([0, *range(60, 1, -1)])
    sigma = LATTICE**2 / math.sqrt(2 * rho * 0.97 * 2)
    assert spread_is(np.delete(drawn, corners), sigma / math.sqrt(2))
