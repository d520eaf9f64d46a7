"""StandardScaler with privacy, and what a pipeline of private steps costs together."""

import math

import mpmath
import numpy as np
import pytest
import sklearn.preprocessing
from numpy.testing import assert_allclose
from sklearn.pipeline import make_pipeline

from chance import RARE, deviation
from federations import open_silos
from private_audit import DELTA, EPSILON, lower_epsilon, wrong_guesses
from private_rows import check_sensitivity, without_noise
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
from unpooled.models.preprocessing import private_moments as moments
from unpooled.models.private_rows import in_units
from unpooled.party.rules.policy import Policy
from unpooled.protocol.bounds import LATTICE
from unpooled.protocol.privacy_cost import spent
from unpooled.protocol.refusal import Refusal
from unpooled.secure.noise import epsilon_of, rho_of
from wire import silos

pytest.importorskip("opendp")

P = 5
CENTRE, UNIT = np.array([0.0, 1e4, -3.0, 2.0, 1e-3]), np.logspace(-3, 4, P)
# Deviations are half a unit, and no row is as long as twice the norm of the units.
NORM = 2.0 * math.sqrt(P)
LOOSE = GaussianPrivacy(400.0, 1e-5, NORM, CENTRE, scale=UNIT)
ONE = GaussianPrivacy(1.0, 1e-5, NORM, CENTRE, scale=UNIT)
PROMISE = {"epsilon": 1.0, "delta": 1e-5}


def made(n=3000, seed=7):
    rng = np.random.default_rng(seed)
    return CENTRE + UNIT * (0.5 * rng.standard_normal((n, P)) + 0.1)


@pytest.fixture(scope="module")
def rows():
    return made()


def public(row_norm=NORM, unit=UNIT):
    return {"centre": CENTRE, "scale": unit, "row_norm": row_norm, **PROMISE}


# --- The answer ----------------------------------------------------------------------


@pytest.mark.parametrize("secure_sum", ["masked", "plain"])
def test_with_little_noise_it_is_the_pooled_answer(rows, secure_sum):
    ours = StandardScaler(privacy=LOOSE).fit(open_silos(rows, secure_sum=secure_sum))
    theirs = sklearn.preprocessing.StandardScaler().fit(rows)
    # At ε = 400 the noise of a mean square is 0.0004 of a unit's square, in N = 3,000.
    assert_allclose(ours.mean_ / UNIT, theirs.mean_ / UNIT, atol=2e-3)
    assert_allclose(ours.scale_, theirs.scale_, rtol=2e-2)
    assert ours.n_samples_seen_ == pytest.approx(len(rows), abs=20)
    new = made(4, seed=1)
    view = np.asarray(ours.transform(new))
    assert_allclose(view, theirs.transform(new), atol=0.1)
    assert_allclose(ours.inverse_transform(view), new)


@pytest.mark.parametrize("parts", [2, 3, "one row"])
def test_totals_are_exact_but_for_the_noise(rows, parts, monkeypatch):
    without_noise(monkeypatch)
    tables = (
        {"a": rows[:1], "b": rows[1:]}
        if parts == "one row"
        else partition_rows(rows, parts)
    )
    ours = StandardScaler(privacy=ONE).fit(simulate(tables, policy=Policy.open()))
    theirs = sklearn.preprocessing.StandardScaler().fit(rows)
    # Each entry is rounded to a step of the lattice, which adds its square over 12 to
    # a variance, and to a mean 6 of its deviations over sqrt(N).
    step = NORM / LATTICE
    assert ours.n_samples_seen_ == len(rows)
    assert_allclose(
        ours.mean_ / UNIT, theirs.mean_ / UNIT, atol=6 * step / math.sqrt(12 * 3000)
    )
    assert_allclose(ours.var_, theirs.var_, rtol=1e-3)


def test_means_alone(rows, monkeypatch):
    without_noise(monkeypatch)
    federation = open_silos(rows)
    scaler = StandardScaler(with_std=False, privacy=ONE).fit(federation)
    assert {x.name for x in federation.ledger if x.direction == "out"} == {
        "count",
        "total",
    }
    assert scaler.scale_ is None
    assert not hasattr(scaler, "var_se_")
    assert_allclose(scaler.mean_ / UNIT, rows.mean(axis=0) / UNIT, atol=1e-4)


def test_a_constant_column_is_not_made_larger_than_the_rest():
    X = made()
    X[:, 2] = CENTRE[2]
    scaler = StandardScaler(privacy=ONE).fit(open_silos(X))
    # Its variance is at least the deviation of its noise: about N^-1/2 here.
    assert scaler.scale_[2] > 0.01 * UNIT[2]
    assert np.isfinite(scaler.transform(X)).all()


def test_a_row_with_a_missing_or_infinite_value_counts_as_the_centre(rows, monkeypatch):
    without_noise(monkeypatch)
    holes, centred = rows.copy(), rows.copy()
    holes[3, 1], holes[4, 0], holes[5, 2] = np.nan, np.inf, 1e200
    centred[3:6] = CENTRE
    seen, wanted = (
        StandardScaler(privacy=ONE).fit(open_silos(X)) for X in (holes, centred)
    )
    np.testing.assert_array_equal(seen.mean_, wanted.mean_)
    np.testing.assert_array_equal(seen.var_, wanted.var_)
    assert seen.n_samples_seen_ == len(rows)


@pytest.mark.slow
def test_intervals_cover_the_population():
    # Noise and sampling are of about the same size: N = 400 rows, ε = 3.
    privacy = GaussianPrivacy(3.0, 1e-5, 1.6 * math.sqrt(P), CENTRE, scale=UNIT)
    means, variances = [], []
    for seed in range(120):
        scaler = StandardScaler(privacy=privacy).fit(open_silos(made(400, seed), m=2))
        means.append(
            np.abs(scaler.mean_ - CENTRE - 0.1 * UNIT) < 1.96 * scaler.mean_se_
        )
        variances.append(np.abs(scaler.var_ - 0.25 * UNIT**2) < 1.96 * scaler.var_se_)
    # 600 intervals each; experiments/private_certainty.py has those of components.
    for inside in (means, variances):
        assert abs(np.mean(inside) - 0.95) < deviation(np.size(inside), 2)


# --- Sensitivity ---------------------------------------------------------------------


WORST = [
    # Along a column, along all of them, far beyond the norm, and at the centre.
    CENTRE + NORM * UNIT * np.eye(P)[0],
    CENTRE + NORM / math.sqrt(P) * UNIT,
    CENTRE - 1e6 * UNIT,
    CENTRE,
    np.array([np.nan, 1.0, 1.0, 1.0, np.inf]),
]


@pytest.mark.parametrize("row", WORST)
@pytest.mark.parametrize(
    "step", [moments.local_private_moments, moments.local_private_means]
)
def test_no_row_moves_totals_by_more_than_the_declared_sensitivity(step, row):
    check_sensitivity(step, made(20), row, **public())


def test_the_worst_row_uses_up_the_sensitivity():
    step = moments.local_private_moments
    # Along one column: sums and squares are as long as the lattice has it, almost.
    row = step(WORST[0][None], **public())
    assert np.linalg.norm(row["total"]) == pytest.approx(LATTICE, rel=1e-3)
    assert np.linalg.norm(row["squares"]) == pytest.approx(LATTICE**2, rel=1e-3)


@pytest.mark.parametrize("unit", [0.0, -1.0, np.nan, np.inf, 1e-160, 1e160])
def test_made_up_units_are_refused_before_a_row_is_read(unit):
    units = UNIT.copy()
    units[1] = unit
    with pytest.raises(Refusal, match="arguments"):
        in_units(np.full((2, P), np.nan), CENTRE, units)


# --- One account for a pipeline ------------------------------------------------------


def pipeline(whole=ONE, first=0.3):
    return make_pipeline(
        StandardScaler(privacy=whole.part(first)),
        PCA(2, privacy=whole.part(1 - first, row_norm=4.0, centre=0.0, scale=1.0)),
    )


def test_a_pipeline_costs_the_sum(rows):
    here = silos({n: rows[i::3] for i, n in enumerate("abc")}, policy=Policy.open())
    fitted = pipeline().fit(here.federation)
    scaler, pca = fitted[0], fitted[1]
    total = scaler.privacy_["rho"] + pca.privacy_["rho"]
    assert total == pytest.approx(rho_of(1.0, 1e-5), rel=1e-9)
    assert pca.privacy_["total_rho"] == pytest.approx(total)
    assert pca.privacy_["total_epsilon"] == pytest.approx(1.0, rel=1e-9)
    for party in here.parties.values():
        assert party._studies._audit_log.spent() == pytest.approx(total)
    # In closed form: Balle and Wang, at the root of the sum of squares of both μ.
    with mpmath.workdps(40):
        mu = mpmath.sqrt(2 * mpmath.mpf(total))
        tail = mpmath.exp(1) * mpmath.ncdf(-mu / 2 - 1 / mu)
        assert mpmath.ncdf(mu / 2 - 1 / mu) - tail == pytest.approx(1e-5, rel=1e-6)
    # Adding up ε would have given more.
    assert scaler.privacy_["epsilon"] + pca.privacy_["epsilon"] > 1.2


def test_plan_ledger_and_model_agree_on_the_total(rows):
    federation = open_silos(rows)
    planned = plan(pipeline(), federation)
    fitted = pipeline().fit(federation)
    found = spent(federation.ledger)
    assert found is not None
    assert planned.privacy == found
    assert found.epsilon == pytest.approx(fitted[1].privacy_["total_epsilon"])
    assert found.steps == ("scaler.local_private_moments", "pca.local_private")
    assert not found.exact
    assert "together private with ε = 1 at δ = 1e-05" in planned.opened
    assert str(found) in str(planned)
    # Silos signed what they were charged.
    altered = federation.ledger.to_json().replace('"rho": ', '"rho": 1')
    with pytest.raises(Exception, match="altered"):
        type(federation.ledger).from_json(altered).verify()
    assert federation.ledger.verify()


@pytest.mark.slow
def test_what_left_without_noise_is_named(rows):
    federation = open_silos(rows)
    pipeline().fit(federation)
    StandardScaler().fit(federation)
    found = spent(federation.ledger)
    assert found is not None
    assert found.exact == tuple(
        f"scaler.local_{name}" for name in ("counts", "observed", "squares")
    )
    assert "does not cover what leaves without noise: scaler.local_counts" in str(found)
    assert spent(simulate(partition_rows(rows, 3)).ledger) is None


@pytest.mark.slow
def test_a_budget_counts_the_steps_together(rows):
    # Each step by itself has room, both have not: the plan says so before anything is
    # spent, and a study that runs all the same is stopped at its second step.
    rules = {"privacy_budget": 0.9, "privacy_delta": 1e-5, "min_rows": 1}
    federation = simulate(partition_rows(rows, 3), policy=rules)
    assert max(step.privacy.epsilon for step in pipeline().named_steps.values()) < 0.9
    refused = {(step, rule) for _, step, rule in plan(pipeline(), federation).refusals}
    assert refused == {
        ("scaler.local_private_moments", "privacy_budget"),
        ("pca.local_private", "privacy_budget"),
    }
    with pytest.raises(ReleaseRefusedError, match="privacy_budget"):
        pipeline().fit(federation)
    assert {x.step for x in federation.ledger} == {"scaler.local_private_moments"}
    rules["privacy_budget"] = 1.0
    federation = simulate(partition_rows(rows, 3), policy=rules)
    assert not plan(pipeline(), federation).refusals
    pipeline().fit(federation)


@pytest.mark.slow
def test_silos_that_demand_privacy_answer_the_pipeline(rows):
    rules = {"require_privacy": True, "min_rows": 1}
    federation = simulate(partition_rows(rows, 3), policy=rules, follow=True)
    more = GaussianPrivacy(**ONE.as_dict() | {"epsilon": 9.0})
    fitted = pipeline(more).fit(federation)
    assert fitted[1].components_.shape == (2, P)
    with pytest.raises(ReleaseRefusedError, match="require_privacy"):
        StandardScaler().fit(federation)


def test_an_exact_scaler_before_a_private_fit_is_refused(rows):
    federation = open_silos(rows)
    view = StandardScaler().fit(federation).transform(federation)
    for model in (PCA(2, privacy=LOOSE.part(1, scale=1.0, centre=0.0)),
                  StandardScaler(privacy=ONE)):  # fmt: skip
        with pytest.raises(DataError, match="would disclose numbers without noise"):
            model.fit(view)


def test_one_row_more_changes_no_other_standardised_row():
    X = made(64)
    public = {"mean": CENTRE, "scale": UNIT, "rho": 0.1}
    every = moments.privately_standardised(X, **public)
    for n in (1, 2, 7, 63):
        some = moments.privately_standardised(X[:n], **public)
        np.testing.assert_array_equal(some, every[:n])


def test_saves_loads_and_has_a_twin(rows, tmp_path):
    scaler = StandardScaler(privacy=ONE).fit(open_silos(rows))
    loaded = load(save(scaler, tmp_path / "model.unpooled"))
    assert loaded.privacy == ONE
    assert loaded.privacy_ == scaler.privacy_
    np.testing.assert_array_equal(loaded.mean_se_, scaler.mean_se_)
    twin = scaler.to_sklearn()
    assert_allclose(twin.transform(rows[:3]), scaler.transform(rows[:3]))
    titles = [one.heading for one in scaler.summary().exhibits]
    assert "Noise and sampling error" in titles


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"privacy": 1.0}, "must be None or GaussianPrivacy"),
        ({"privacy": GaussianPrivacy(1.0, 1e-5, 1.0, [0.0, 1.0])}, "centre of 2 numb"),
        ({"privacy": GaussianPrivacy(1.0, 1e-5, 1.0, scale=[2.0])}, "scale of 1 numb"),
        (
            {"privacy": GaussianPrivacy(1.0, 1e-5, 1.0, mechanism="preconditioned")},
            "is one of PCA",
        ),
        ({"privacy": ONE, "with_mean": False, "with_std": False}, "finds nothing"),
    ],
)
def test_refuses_before_anything_leaves(rows, options, message):
    federation = open_silos(rows)
    with pytest.raises(DataError, match=message):
        StandardScaler(**options).fit(federation)
    with pytest.raises(DataError, match="put a StandardScaler with privacy before"):
        PCA(2, privacy=ONE).fit(federation)
    assert not len(federation.ledger)


# --- An attack game ------------------------------------------------------------------


def wrong_in_scaling(quieter=1.0):
    step = moments.local_private_moments
    return wrong_guesses(step, public(), made(30), WORST[0][None], quieter)


@pytest.mark.slow
def test_an_attacker_wins_no_more_than_was_promised():
    assert lower_epsilon(wrong_in_scaling()) <= EPSILON


@pytest.mark.slow
def test_the_same_attacker_sees_a_quarter_of_the_noise():
    assert lower_epsilon(wrong_in_scaling(quieter=4.0)) > EPSILON


def test_chance_is_rare():
    assert RARE <= 1e-9
    assert epsilon_of(rho_of(EPSILON, DELTA), DELTA) <= EPSILON
