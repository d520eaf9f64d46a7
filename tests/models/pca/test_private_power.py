"""Private PCA of many columns: sensitivity, cost, and the answer."""

import math

import numpy as np
import pytest
import scipy.linalg
from numpy.testing import assert_allclose

from chance import spread_is
from line_fields import fields
from unpooled import (
    PCA,
    GaussianPrivacy,
    StandardScaler,
    load,
    partition_rows,
    plan,
    save,
    simulate,
)
from unpooled.errors import DataError, ReleaseRefusedError
from unpooled.models.pca.private_power import LOCATION, local_private_products
from unpooled.party.rules.policy import Policy
from unpooled.party.steps import add_noise as noising
from unpooled.protocol.bounds import LATTICE
from unpooled.protocol.refusal import Refusal
from unpooled.secure.noise import rho_of
from wire import silos

pytest.importorskip("opendp")

P, K = 40, 3
PROMISE = {"epsilon": 1.0, "delta": 1e-5, "share": 0.5}


def made(n=3000, seed=0):
    rng = np.random.default_rng(seed)
    axes = np.linalg.qr(np.random.default_rng(9).standard_normal((P, P)))[0]
    sizes = np.r_[6.0, 4.0, 3.0, np.full(P - K, 0.3)]
    return (rng.standard_normal((n, P)) * sizes) @ axes.T + 1.0, axes[:, :K]


def power(epsilon=4.0, rounds=3, **options):
    return GaussianPrivacy(
        epsilon, 1e-5, 25.0, 1.0, mechanism="power", rounds=rounds, **options
    )


def block(p, width, seed=0):
    rng = np.random.default_rng(seed)
    return np.rint(2.0**20 * np.linalg.qr(rng.standard_normal((p, width)))[0])


def products(X, Q, row_norm=3.0, score_norm=1.5):
    public = {"centre": np.zeros(X.shape[1]), "block": Q, "row_norm": row_norm}
    return local_private_products(X, **public, score_norm=score_norm, **PROMISE)[
        "products"
    ]


def angles(model, axes):
    found = scipy.linalg.subspace_angles(model.components_.T, axes)
    return np.degrees(found)


# --- Sensitivity and cost ------------------------------------------------------------


@pytest.mark.parametrize("width", [1, 2, 5])
def test_no_row_moves_products_by_more_than_the_declared_sensitivity(width):
    rng, Q = np.random.default_rng(width), block(5, width)
    others = rng.standard_normal((20, 5)) * rng.choice([0.1, 1.0, 50.0], (20, 1))
    along = Q[:, 0] / np.linalg.norm(Q[:, 0])
    declared = local_private_products.declared["products"].noise
    assert declared is not None
    assert declared.share == 1.0
    most = 0.0
    # Along a direction, where both bounds are reached; any; far; missing; the centre.
    for row in (3.0 * along, rng.standard_normal(5), 1e9 * along, np.full(5, np.nan),
                np.zeros(5)):  # fmt: skip
        moved = products(np.vstack([others, row]), Q) - products(others, Q)
        assert (moved == np.rint(moved)).all()
        assert np.linalg.norm(moved) <= declared.sensitivity
        most = max(most, float(np.linalg.norm(moved)))
    assert most > 0.999 * declared.sensitivity


@pytest.mark.parametrize("n", [1, 2, 7, 63])
def test_one_row_more_changes_the_products_by_that_rows_alone(n):
    X, Q = np.random.default_rng(n).standard_normal((64, 37)), block(37, 6)
    # BLAS takes other paths for other numbers of rows; whole numbers add up exactly.
    parts = products(X[:n], Q) + products(X[n:], Q)
    np.testing.assert_array_equal(parts, products(X, Q))


@pytest.mark.parametrize(
    "changed",
    [
        {"block": np.full((4, 2), 0.5)},
        {"block": np.full((4, 2), 2.0**40)},
        {"block": np.full((4, 2), np.nan)},
        {"row_norm": 0.0},
        {"row_norm": math.inf},
        {"score_norm": 0.0},
        {"score_norm": -1.0},
        {"score_norm": 1},
    ],
)
def test_made_up_arguments_are_refused_before_a_row_is_read(changed):
    X = np.full((3, 4), np.nan)
    public = {"Q": block(4, 2), "row_norm": 3.0, "score_norm": 1.0}
    public |= {"Q" if name == "block" else name: v for name, v in changed.items()}
    with pytest.raises(Refusal, match="arguments"):
        products(X, **public)


@pytest.mark.slow
def test_the_rounds_cost_epsilon_and_delta_together():
    X, _ = made(600)
    here = silos({n: X[i::3] for i, n in enumerate("abc")}, policy=Policy.open())
    PCA(K, privacy=power(1.0, rounds=5)).fit(here.federation)
    for party in here.parties.values():
        spent = party._studies._audit_log.spent()
        assert spent == pytest.approx(rho_of(1.0, 1e-5), rel=1e-12)
    assert {x.round for x in here.federation.ledger} == set(range(1, 7))


def test_each_round_has_the_noise_that_its_share_pays_for(monkeypatch):
    drawn = []

    def drawing(sigma, size):
        drawn.append((sigma, size))
        return np.zeros(size, np.int64)

    monkeypatch.setattr(noising, "discrete_gaussian", drawing)
    X, _ = made(600)
    PCA(K, privacy=power(1.0, rounds=2)).fit(
        simulate(partition_rows(X, 3), policy=Policy.open())
    )
    share = (1 - LOCATION) / 2
    sigma = LATTICE**2 / math.sqrt(2 * rho_of(1.0, 1e-5) * share * 2)
    # Two rounds at each of three silos, of which two are honest.
    of_products = [one for one in drawn if one[1] == P * (K + 5)]
    assert len(of_products) == 6
    assert_allclose([one[0] for one in of_products], sigma, rtol=1e-9)


def test_draws_of_a_total_have_the_spread_that_is_declared():
    declared, rho = local_private_products.declared["products"], 0.01
    drawn = noising.noised(np.zeros((60, 8)), declared, rho, 2)
    assert spread_is(np.ravel(drawn), LATTICE**2 / math.sqrt(2 * rho * 2))


@pytest.mark.slow
def test_a_budget_that_ends_between_two_rounds():
    X, _ = made(600)
    rules = {"privacy_budget": 0.9, "privacy_delta": 1e-5}
    federation = simulate(partition_rows(X, 3), policy=rules)
    with pytest.raises(ReleaseRefusedError, match="privacy_budget"):
        PCA(K, privacy=power(1.0)).fit(federation)


# --- The answer ----------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("secure_sum", ["masked", "plain"])
def test_with_little_noise_it_finds_the_components(secure_sum):
    X, axes = made()
    federation = simulate(
        partition_rows(X, 3), policy=Policy.open(), secure_sum=secure_sum
    )
    model = PCA(K, privacy=power(400.0), random_state=0).fit(federation)
    pooled = np.linalg.eigh(np.cov(X.T))[1][:, ::-1][:, :K]
    # Half the rows are shortened, which weighs rows otherwise than the pooled fit.
    assert angles(model, pooled).max() < 1.0
    assert angles(model, axes).max() < 2.0
    assert_allclose(model.mean_, X.mean(axis=0), atol=0.1)
    assert model.components_.shape == (K, P)
    assert_allclose(model.components_ @ model.components_.T, np.eye(K), atol=1e-12)
    assert (np.diff(model.explained_variance_) <= 0).all()


@pytest.mark.slow
def test_it_is_closer_than_one_round_of_products_of_all_columns():
    rng, p = np.random.default_rng(3), 150
    X = rng.standard_normal((3000, p)) * np.r_[9.0, 6.0, 4.0, np.full(p - 3, 0.3)]
    federation = simulate(partition_rows(X, 3), policy=Policy.open())
    found = {}
    for mechanism in ("scatter", "power"):
        privacy = GaussianPrivacy(2.0, 1e-5, 30.0, mechanism=mechanism)
        model = PCA(3, privacy=privacy, random_state=0).fit(federation)
        found[mechanism] = angles(model, np.eye(p)[:, :3]).mean()
    # About 5 and 19 degrees.
    assert found["power"] < 0.7 * found["scatter"]


@pytest.mark.slow
def test_a_mean_that_is_mostly_noise_stays_where_it_was():
    # The noise of the mean of 200 columns is 2.4 long, the mean itself 0.16, and the
    # number of rows is known to 8 %. What the noise exceeds its expected square by
    # remains: less than 1.4 in all but one fit of 10^9 (chi-squared, 200 degrees).
    X = np.random.default_rng(5).standard_normal((8000, 200))
    model = PCA(2, privacy=GaussianPrivacy(0.5, 1e-5, 30.0, mechanism="power")).fit(
        simulate(partition_rows(X, 2), policy=Policy.open())
    )
    assert np.linalg.norm(model.mean_) < 1.6


@pytest.mark.slow
def test_the_ledger_and_the_plan_and_followed_silos(tmp_path):
    X, axes = made()
    parts = partition_rows(X, 3)
    federation = simulate(parts, policy=Policy.open(), follow=True)
    model = PCA(K, privacy=power(40.0), random_state=0).fit(federation)
    assert angles(model, axes).max() < 3.0
    seen = fields(
        federation.ledger, "round name shape", direction="out", visibility="summed"
    )
    first = [(1, "count", ()), (1, "total", (P,)), (1, "energy", ())]
    assert seen == first + [(i, "products", (P, K + 5)) for i in (2, 3, 4)]
    alone = simulate(parts, policy=Policy.open())
    planned = plan(PCA(K, privacy=power(40.0), random_state=0), alone)
    PCA(K, privacy=power(40.0), random_state=0).fit(alone)
    assert fields(planned.releases, "name bytes") == fields(alone.ledger, "name bytes")
    assert planned.privacy is not None
    assert planned.privacy.epsilon == pytest.approx(40.0)
    loaded = load(save(model, tmp_path / "model.unpooled"))
    assert loaded.privacy == power(40.0)
    assert loaded.privacy_ == model.privacy_
    assert "noisy power method" in " ".join(model._citation().references)
    assert model.summary().exhibits


@pytest.mark.slow
def test_after_a_private_scaler():
    X, _ = made()
    whole = GaussianPrivacy(9.0, 1e-5, 3.0 * math.sqrt(P), 1.0)
    scaled = StandardScaler(privacy=whole.part(0.4)).fit(
        federation := simulate(partition_rows(X, 3), policy=Policy.open())
    )
    rest = whole.part(0.6, row_norm=12.0, centre=0.0, mechanism="power")
    model = PCA(K, privacy=rest).fit(scaled.transform(federation))
    assert model.privacy_["total_epsilon"] == pytest.approx(9.0)


@pytest.mark.parametrize("wanted", [None, 0.9])
def test_it_takes_a_number_of_components(wanted):
    X, _ = made(60)
    federation = simulate(partition_rows(X, 3), policy=Policy.open())
    with pytest.raises(DataError, match="number"):
        PCA(wanted, privacy=power()).fit(federation)
    assert not len(federation.ledger)


@pytest.mark.parametrize("rounds", [0, -1, 101, 2.0, True, None])
def test_rounds_are_a_whole_number(rounds):
    with pytest.raises(DataError, match="rounds"):
        power(rounds=rounds)
