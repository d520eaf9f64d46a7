"""Private PCA in three rounds: closer to the pooled answer, for the same (ε, δ)."""

import math

import numpy as np
import pytest
import scipy.linalg
import sklearn.decomposition
from numpy.testing import assert_allclose

from chance import spread_is
from private_rows import LOOSE, K, P, open_silos, rows
from unpooled import PCA, GaussianPrivacy, load, plan, save, simulate
from unpooled.errors import DataError, ReleaseRefusedError
from unpooled.models.pca import private
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
    return private.local_private_location(X, centre=centre, row_norm=3.0, **PROMISE)


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
    options = {"metric": metric} if made is shape_of else {}
    with_it, without = made(X, **options), made(X[1:], **options)
    step = {
        location_of: private.local_private_location,
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


def test_it_is_closer_than_one_round_of_the_same_cost():
    rng = np.random.default_rng(3)
    X = rng.standard_normal((4000, 40)) * np.r_[9.0, 4.0, 3.0, 2.0, np.full(36, 0.5)]
    X += 2.0
    found = {}
    for mechanism in ("scatter", "preconditioned"):
        privacy = GaussianPrivacy(2.0, 1e-5, 30.0, mechanism=mechanism)
        found[mechanism] = angles(PCA(4, privacy=privacy).fit(open_silos(X)), X).mean()
    assert found["preconditioned"] < 0.7 * found["scatter"]


def test_noise_alone_has_a_signal_of_about_one():
    # Variances of 1 in all directions, far below the edge of both rounds.
    X = np.random.default_rng(5).standard_normal((800, 120))
    privacy = GaussianPrivacy(1.0, 1e-5, 20.0, mechanism="preconditioned")
    model = PCA(privacy=privacy).fit(open_silos(X))
    # So few rows that the mean is mostly noise too, whose part of the edge is a bound.
    assert 0.2 < model.signal_to_noise_[0] < 1.2


def test_the_ledger_and_the_plan(rows):
    federation = open_silos(rows)
    PCA(K, privacy=LOOSER).fit(federation)
    seen = [
        (x.round, x.step, x.name, x.shape)
        for x in federation.ledger
        if x.direction == "out"
    ]
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
    assert [(x.name, x.bytes) for x in planned.releases] == [
        (x.name, x.bytes) for x in federation.ledger
    ]


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
