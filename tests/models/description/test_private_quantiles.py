"""Quantiles with differential privacy: counts of parts of a range, with noise."""

import math

import numpy as np
import pytest
import scipy.sparse
import scipy.sparse.linalg
import sklearn.preprocessing
from numpy.testing import assert_allclose
from scipy.stats import norm
from sklearn.pipeline import make_pipeline

from chance import deviation
from federations import open_silos
from private_rows import check_sensitivity, without_noise
from unpooled import (
    PCA,
    GaussianPrivacy,
    Quantiles,
    RobustScaler,
    load,
    partition_rows,
    plan,
    quantiles,
    save,
    simulate,
)
from unpooled.errors import DataError, ReleaseRefusedError
from unpooled.models.description import private_quantiles
from unpooled.models.description.private_quantiles import local_private_parts
from unpooled.party.rules.policy import Policy
from unpooled.protocol.bounds import LATTICE
from unpooled.protocol.privacy_cost import spent
from unpooled.protocol.refusal import Refusal

pytest.importorskip("opendp")

P = 3
CENTRE, UNIT = np.array([0.0, 1e4, -3.0]), np.array([1e-3, 40.0, 2.0])
NORM = 2.0
LOOSE = GaussianPrivacy(400.0, 1e-5, NORM, CENTRE, scale=UNIT)
ONE = GaussianPrivacy(1.0, 1e-5, NORM, CENTRE, scale=UNIT)
# The finest of the parts in which values are counted.
WIDTH = 2.0 * NORM * UNIT / 4096
SHARES = [0.1, 0.25, 0.5, 0.75, 0.9]


def made(n=3000, seed=7):
    rng = np.random.default_rng(seed)
    return CENTRE + UNIT * (0.5 * rng.standard_normal((n, P)) + 0.1)


def public():
    promise = {"epsilon": 1.0, "delta": 1e-5}
    return {"centre": CENTRE, "scale": UNIT, "row_norm": NORM, **promise}


def counting_matrix():
    """Which finest parts each of the 5,460 parts consists of."""
    rows = [
        scipy.sparse.kron(scipy.sparse.eye(4**k), np.ones((1, 4 ** (6 - k))))
        for k in range(1, 7)
    ]
    return scipy.sparse.vstack(rows).tocsc()


# --- The answer ----------------------------------------------------------------------


@pytest.mark.parametrize("parts", [2, 3, "one row"])
def test_without_noise_they_are_the_pooled_quantiles(parts, monkeypatch):
    without_noise(monkeypatch)
    X = made()
    X[::5, 1] = np.nan
    tables = (
        {"a": X[:1], "b": X[1:]} if parts == "one row" else partition_rows(X, parts)
    )
    federation = simulate(tables, policy=Policy.open())
    model = Quantiles(SHARES, privacy=ONE).fit(federation)
    theirs = np.nanquantile(X, SHARES, axis=0, method="inverted_cdf")
    # The value of rank ceil(q n) and the point of rank q n lie in the same part, or
    # this lies at the end of the part before.
    assert (np.abs(model.quantiles_ - theirs) <= 1.001 * WIDTH).all()
    assert_allclose(model.errors_, np.tile(WIDTH, (5, 1)))
    out = {x.name: x.shape for x in federation.ledger if x.direction == "out"}
    assert out == {"count": (), "parts": (P, 5460)}


@pytest.mark.slow
@pytest.mark.parametrize("secure_sum", ["masked", "plain"])
def test_with_little_noise_they_are_near(secure_sum):
    X = made()
    federation = open_silos(X, secure_sum=secure_sum)
    found = quantiles(federation, SHARES, privacy=LOOSE)
    # A count has a deviation of sqrt(18 × 1.5 / (2 × 0.97 ρ)) or less, 0.3 at ε = 400,
    # the sum below a point 3 of them at most: 1 row of 3,000 has no place to go.
    pooled = np.quantile(X, [[q - 0.002, q + 0.002] for q in SHARES], axis=0)
    assert (found.to_numpy() > pooled[:, 0] - WIDTH).all()
    assert (found.to_numpy() < pooled[:, 1] + WIDTH).all()


def test_cells_beyond_the_range_count_at_its_ends(monkeypatch):
    without_noise(monkeypatch)
    X = np.tile(CENTRE, (100, 1))
    X[:40] = CENTRE + 1e9 * UNIT
    X[40:60] = -np.inf
    model = Quantiles([0.1, 0.9], privacy=ONE).fit(open_silos(X, m=2))
    reach = NORM * UNIT
    assert_allclose(model.quantiles_[0], CENTRE - reach, atol=WIDTH.max(), rtol=1e-9)
    assert (np.abs(model.quantiles_[1] - CENTRE - reach) <= WIDTH).all()


def test_consistent_counts_are_the_least_squares_estimate():
    A = counting_matrix()
    observed = np.random.default_rng(3).normal(size=(2, 5460))
    ours = private_quantiles._consistent(observed)
    for own, seen in zip(ours, observed, strict=True):
        normal = scipy.sparse.linalg.lsqr(A, seen, atol=1e-14, btol=1e-14)[0]
        # A has singular values from 1 to sqrt(1365); lsqr stops at 1e-14 of them.
        assert_allclose(own, normal, atol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize(("n_below", "q"), [(1, 0.001), (1365, 0.3), (2048, 0.5)])
def test_the_variance_of_a_rank_is_that_of_least_squares(n_below, q):
    A = counting_matrix()
    c = (np.arange(4096) < n_below) - q
    theirs = c @ scipy.sparse.linalg.spsolve((A.T @ A).tocsc(), c)
    assert private_quantiles._variance_of_rank(n_below, q) == pytest.approx(
        theirs, rel=1e-9
    )


@pytest.mark.thinned(1)
@pytest.mark.parametrize("sd", [0.0, 20.0, 60.0])
def test_intervals_cover_the_quantiles_of_the_population(sd):
    rng, N, repeats = np.random.default_rng(5), 1500, 60
    truth = 0.5 + 0.1 * norm.ppf(SHARES)
    inside = []
    for _ in range(repeats):
        x = 0.5 + 0.1 * rng.standard_normal(N)
        counts = np.bincount(np.clip(4096 * x, 0, 4095).astype(int), minlength=4096)
        levels = [counts.reshape(4**k, -1).sum(axis=1) for k in range(1, 7)]
        parts = np.concatenate(levels) + sd * rng.standard_normal(5460)
        below = private_quantiles._below(parts[None])[0]
        for q, true in zip(SHARES, truth, strict=True):
            _, low, high = private_quantiles._quantile_and_interval(below, q, sd)
            inside.append(low <= true <= high)
    # Conservative where the noise is large, since the sums are made monotone. Quantiles
    # of one sample hang together: as if each sample had one interval.
    assert np.mean(inside) > 0.95 - deviation(repeats, 1)


# --- Sensitivity ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "row",
    [CENTRE, CENTRE + 1e9 * UNIT, np.full(P, -np.inf), np.full(P, np.nan),
     np.array([0.0, np.nan, 1e300])],
)  # fmt: skip
def test_no_row_moves_counts_by_more_than_the_declared_sensitivity(row):
    check_sensitivity(local_private_parts, made(20), row, **public())


@pytest.mark.parametrize("p", [1, 3, 300])
def test_a_row_uses_up_nearly_all_of_the_sensitivity(p):
    public = {"centre": np.zeros(p), "scale": np.ones(p), "row_norm": 1.0}
    row = local_private_parts(np.zeros((1, p)), epsilon=1.0, delta=1e-5, **public)
    length = np.linalg.norm(row["parts"])
    # The weight is a whole number, of about 190 at 300 columns.
    assert 0.99 * LATTICE < length <= LATTICE


def test_what_is_no_range_is_refused_before_a_row_is_read():
    for wrong in ({"row_norm": -1.0}, {"row_norm": math.nan}, {"scale": -UNIT}):
        with pytest.raises(Refusal, match="arguments"):
            local_private_parts(np.full((2, P), np.nan), **public() | wrong)
    # One row would add less than one to each part.
    with pytest.raises(Refusal, match="arguments"):
        private_quantiles._weight(2 * 10**7)


# --- One account for a pipeline ------------------------------------------------------


def pipeline(whole=ONE):
    return make_pipeline(
        RobustScaler(privacy=whole.part(0.3)),
        PCA(2, privacy=whole.part(0.7, row_norm=4.0, centre=0.0, scale=1.0)),
    )


@pytest.mark.slow
def test_a_pipeline_has_one_account_that_silos_follow():
    rules = {"privacy_budget": 1.0, "privacy_delta": 1e-5, "require_privacy": True}
    federation = simulate(partition_rows(made(), 3), policy=rules, follow=True)
    planned = plan(pipeline(), federation)
    assert not planned.refusals
    assert "RobustScaler with noise: with 1,000,000 rows" in str(planned)
    fitted = pipeline().fit(federation)
    assert fitted[1].privacy_["total_epsilon"] == pytest.approx(1.0, rel=1e-9)
    found = spent(federation.ledger)
    assert found is not None
    assert found == planned.privacy
    assert found.steps == ("robust_scaler.local_private_parts", "pca.local_private")
    assert not found.exact
    assert federation.ledger.verify()
    with pytest.raises(ReleaseRefusedError, match="privacy_budget"):
        Quantiles(privacy=ONE).fit(federation)


@pytest.mark.slow
def test_the_scaler_is_near_scikit_learns():
    X, new = made(), made(5, seed=1)
    ours = RobustScaler(privacy=LOOSE, unit_variance=True).fit(open_silos(X))
    theirs = sklearn.preprocessing.RobustScaler(unit_variance=True).fit(X)
    # Quartiles are known to a part of 1 / 1,024 units, ranges are 0.67 of a unit.
    assert_allclose(ours.transform(new), theirs.transform(new), atol=0.02)
    assert_allclose(ours.to_sklearn().transform(new), ours.transform(new))
    low, high = ours.center_interval_
    assert (low < theirs.center_).all()
    assert (theirs.center_ < high).all()


def test_a_column_of_one_value_is_not_divided_by_noise(monkeypatch):
    without_noise(monkeypatch)
    X = made()
    X[:, 2] = CENTRE[2]
    scaler = RobustScaler(privacy=ONE).fit(open_silos(X))
    assert scaler.scale_[2] == pytest.approx(WIDTH[2])


@pytest.mark.slow
def test_an_exact_scaler_before_private_quantiles_is_refused():
    federation = open_silos(made())
    view = RobustScaler().fit(federation).transform(federation)
    with pytest.raises(DataError, match="would disclose numbers without noise"):
        Quantiles(privacy=ONE.part(1, centre=0.0, scale=1.0)).fit(view)


@pytest.mark.slow
def test_a_column_that_noise_hides_is_named():
    X = made(60)
    X[:, 1] = np.nan
    faint = GaussianPrivacy(5.0, 1e-5, NORM, CENTRE, scale=UNIT)

    def fit_again_and_again():
        for _ in range(40):
            # The total of a column without values is below 0 in every second fit.
            Quantiles(privacy=faint).fit(open_silos(X))

    with pytest.raises(DataError, match="The noise is as large as the number"):
        fit_again_and_again()


@pytest.mark.slow
def test_saves_loads_and_shows_its_intervals(tmp_path):
    model = Quantiles(SHARES, privacy=ONE).fit(open_silos(made()))
    loaded = load(save(model, tmp_path / "model.unpooled"))
    assert loaded.privacy == ONE
    np.testing.assert_array_equal(loaded.intervals_, model.intervals_)
    low, high = model.intervals_
    assert (low <= model.quantiles_).all()
    assert (model.quantiles_ <= high).all()
    for fitted in (model, RobustScaler(privacy=ONE).fit(open_silos(made()))):
        titles = [one.heading for one in fitted.summary().exhibits]
        assert "Noise and sampling error" in titles


@pytest.mark.parametrize("kind", [Quantiles, RobustScaler])
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"privacy": 1.0}, "must be None or GaussianPrivacy"),
        ({"privacy": GaussianPrivacy(1.0, 1e-5, 1.0, [0.0, 1.0])}, "centre of 2 numb"),
        ({"privacy": GaussianPrivacy(1.0, 1e-5, 1.0, mechanism="power")}, "one of PCA"),
        ({"privacy": ONE, "comparison": "mpc"}, "leave comparison and decimals"),
        ({"privacy": ONE, "decimals": 1}, "leave comparison and decimals"),
    ],
)
def test_refuses_before_anything_leaves(kind, options, message):
    federation = open_silos(made(100))
    with pytest.raises(DataError, match=message):
        kind(**options).fit(federation)
    assert not len(federation.ledger)
