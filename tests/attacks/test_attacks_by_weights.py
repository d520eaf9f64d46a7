"""Attacks on one person by a regression whose weights leave nobody else.

Each row enters an information matrix with the variance of its response, and a gradient
with its residual. An offset, or columns that separate the responses, can make all
weights but one as small as one likes: the columns as they are have no row of any
leverage, and the sums are one person's record. Each attack stands beside a control,
the same one where the silos have no limit.
"""

from contextlib import suppress
from typing import Any

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from numpy.testing import assert_allclose

import unpooled as up
from unpooled.arrays import Array
from unpooled.errors import ConvergenceError, DataError, ReleaseRefusedError
from unpooled.models.regression import newton
from unpooled.models.regression.families import WorkingRows
from unpooled.protocol.view_operations import Rows

OPEN = {"max_leverage": 1.0}
COLUMNS = ["age", "pressure"]


def tables() -> dict[str, pd.DataFrame]:
    rng = np.random.default_rng(6)

    def table() -> pd.DataFrame:
        age, pressure = rng.normal(55, 9, 60), rng.normal(90, 12, 60)
        hours = rng.normal(0.0, 8.0, 60)
        visits, seen = rng.poisson(2.0, 60).astype(float), np.arange(60) % 2.0
        made = {"age": age, "pressure": pressure, "hours": hours, "visits": visits}
        return pd.DataFrame(made | {"cost": 1.0 + visits, "seen": seen})

    return {name: table() for name in "abc"}


@pytest.fixture
def opened(monkeypatch) -> list[newton.LogLikelihood]:
    """Keep the totals that the coordinator opens."""
    found: list[newton.LogLikelihood] = []
    make = newton.LogLikelihood.__init__

    def kept(one: newton.LogLikelihood, *values: Any) -> None:
        make(one, *values)
        found.append(one)

    monkeypatch.setattr(newton.LogLikelihood, "__init__", kept)
    return found


@pytest.fixture
def from_the_mean(monkeypatch) -> None:
    """Start searches as a coordinator may, at the model's own weights."""
    search = newton.maximised

    def started(*inputs: Any, evaluate_start: Any, **options: Any) -> newton.Maximum:
        return search(*inputs, **options)

    monkeypatch.setattr(newton, "maximised", started)


def fitted(model: up.GLM, response: str, **options: Any) -> None:
    here = up.simulate(tables(), **options)
    columns = [*COLUMNS, *([model.offset] if model.offset else []), response]
    model.fit(here.select(columns), response)


def in_units(standardised: Array) -> Array:
    """Return a record from a row of standardised predictors behind a one."""
    pooled = pd.concat(tables().values())[COLUMNS]
    row = standardised[1:] / standardised[0]
    return row * pooled.std(ddof=0).to_numpy() + pooled.mean().to_numpy()


def record(which: str) -> Array:
    """Return the record of the person with the largest or least offset."""
    pooled = pd.concat(tables().values(), ignore_index=True)
    place = getattr(pooled["hours"], which)()
    return pooled.loc[place, COLUMNS].to_numpy(dtype=float)


OFFSETS = {
    "counts": (up.GLM("poisson", offset="hours"), "visits"),
    "costs": (up.GLM("gamma", offset="hours"), "cost"),
    "own intercepts": (
        up.GLM("poisson", offset="hours", site_effects=True),
        "visits",
    ),
}


@pytest.mark.thinned(1)
@pytest.mark.parametrize("follow", [False, True])
@pytest.mark.parametrize(("model", "response"), OFFSETS.values(), ids=OFFSETS.keys())
def test_an_offset_leaves_no_person_alone(model, response, follow, opened):
    with pytest.raises(ReleaseRefusedError, match="weighted_rows"):
        fitted(model, response, follow=follow)
    assert not opened


@pytest.mark.thinned(1)
@pytest.mark.usefixtures("from_the_mean")
@pytest.mark.parametrize(("model", "response"), OFFSETS.values(), ids=OFFSETS.keys())
def test_another_start_leaves_no_person_alone_either(model, response, opened):
    with pytest.raises(ReleaseRefusedError, match="weighted_rows"):
        fitted(model, response)
    assert not opened


def test_control_the_information_of_counts_is_one_persons_record(opened):
    with pytest.raises(ConvergenceError):
        fitted(*OFFSETS["counts"], policy=OPEN)
    information = opened[0].information
    assert information is not None
    assert_allclose(in_units(information[0]), record("idxmax"), rtol=0.02)


@pytest.mark.usefixtures("from_the_mean")
def test_control_the_gradient_of_costs_is_one_persons_record(opened):
    with pytest.raises(ConvergenceError):
        fitted(*OFFSETS["costs"], policy=OPEN)
    assert_allclose(in_units(opened[0].gradient), record("idxmin"), rtol=0.1)


def of_two(**options: Any) -> up.GLM:
    """Fit counts of which two people of a silo have nearly all the exposure."""
    made = tables()
    for table in made.values():
        table["hours"] /= 8.0
    made["a"].loc[[3, 7], "hours"] = 14.0
    here = up.simulate(made, **options).select([*COLUMNS, "hours", "visits"])
    model = up.GLM("poisson", offset="hours", site_effects=True)
    return model.fit(here, "visits")


@pytest.mark.parametrize("follow", [False, True])
def test_two_people_of_a_silo_do_not_share_all_its_weight(follow):
    with pytest.raises(ReleaseRefusedError, match="weighted_rows"):
        of_two(follow=follow)


def test_control_their_silos_information_is_the_difference_of_their_records(
    monkeypatch,
):
    found, honest = list[Array](), WorkingRows.sums

    def kept(one: WorkingRows) -> dict[str, Any]:
        sums = honest(one)
        found.append(sums["information"].total)
        return sums

    monkeypatch.setattr(WorkingRows, "sums", kept)
    # Whether a search of such weights ends is up to rounding; its first round will do.
    with suppress(ConvergenceError):
        of_two(policy=OPEN)
    own = found[0]
    values, vectors = np.linalg.eigh(own)
    assert values[0] < 1e-3 * values[1]
    pooled = pd.concat(tables().values())[COLUMNS].std(ddof=0).to_numpy()
    apart = np.subtract(*tables()["a"].loc[[3, 7], COLUMNS].to_numpy()) / pooled
    cosine = abs(vectors[:, 1] @ apart) / np.linalg.norm(apart)
    assert cosine > 0.999


def separated(**options: Any) -> None:
    """Predict on which side of an edge a column is, by the column itself."""
    here = up.simulate(tables(), follow=True, **options)
    view = up.DerivedColumns({"old": "log(age)"}).fit(here).transform(here)
    bins = up.KBinsDiscretizer(2, encode="ordinal", strategy="uniform")
    parts = [(bins, ["old"])]
    chosen = up.ColumnTransformer(parts, remainder="passthrough").fit(view)
    view = chosen.transform(view)
    (old,) = [name for name in view.feature_names if name.startswith("old")]
    up.GLM("binomial", max_iter=40).fit(view.select(["age", old]), old)


@pytest.mark.slow
def test_rows_next_to_an_edge_are_not_left_alone():
    with pytest.raises(ReleaseRefusedError, match="weighted_rows"):
        separated()


def test_control_rows_next_to_an_edge_carry_the_information(opened):
    with pytest.raises(DataError, match="separated"):
        separated(policy=OPEN)
    # The two people on both sides of the edge, with the weights of their distances.
    ages = np.sort(pd.concat(tables().values())["age"].to_numpy())
    mean, sd = ages.mean(), ages.std()
    last = opened[-1].information
    assert last is not None
    middle = last[0, 1] / last[0, 0]
    spread = sd * np.sqrt(last[1, 1] / last[0, 0] - middle**2)
    # In years; how far the two are apart is a matter of where the edge was found.
    assert spread < 0.2
    assert np.abs(ages - middle * sd - mean).min() < spread


# Fits of which a first step from the mean of all responses made one row's mean, and so
# its weight, far larger than all others'.
@pytest.mark.thinned(2)
@pytest.mark.parametrize(
    ("seed", "own"), [(1013, False), (8009, True), (8013, True), (8015, True)]
)
def test_ordinary_counts_of_a_skewed_predictor_are_answered(seed, own):
    rng = np.random.default_rng(seed)
    slopes, made = rng.normal(0.0, 0.5, 3) * [1.0, 0.6, 0.6], {}
    for name in "abc":
        X = rng.standard_normal((100, 3))
        X[:, 0] = np.exp(rng.normal(0.0, 0.7, 100))
        y = rng.poisson(np.exp(np.minimum(0.2 + X @ slopes, 8.0)))
        made[name] = pd.DataFrame(X, columns=list("uvw")).assign(y=y.astype(float))
    pooled = pd.concat(made.values())
    Z = sm.add_constant(pooled[list("uvw")])
    if own:
        Z = Z.drop(columns="const").assign(
            **{
                name: np.repeat([float(name == one) for one in "abc"], 100)
                for name in "abc"
            }
        )
    oracle = sm.GLM(pooled["y"], Z, sm.families.Poisson()).fit(tol=1e-14)

    ours = up.GLM("poisson", site_effects=own).fit(up.simulate(made), "y")

    assert_allclose(ours.coef_, oracle.params[list("uvw")], rtol=1e-7, atol=1e-9)
    assert_allclose(ours.coef_se_, oracle.bse[list("uvw")], rtol=1e-7)


@pytest.mark.slow
def test_ordinary_offsets_and_predictors_are_answered():
    rng = np.random.default_rng(7)
    made = tables()
    for table in made.values():
        table["hours"] = np.log(rng.uniform(0.1, 10.0, 60))
    here = up.simulate(made, follow=True, policy={"max_released_share": 2.0})
    view = here.select([*COLUMNS, "hours", "visits"])
    for cov_type in ("nonrobust", "HC1"):
        up.GLM("poisson", offset="hours", cov_type=cov_type).fit(view, "visits")
    up.GLM("gamma").fit(here.select([*COLUMNS, "cost"]), "cost")
    up.GLM("binomial", site_effects=True).fit(here.select([*COLUMNS, "seen"]), "seen")


# --- parts of the rows ----------------------------------------------------------------

OBSERVED = ["age", "pressure", "chol"]


def exposures(shortest: float, longest: float) -> dict[str, pd.DataFrame]:
    """Return tables in which few people were observed for years, others for less."""
    rng, made = np.random.default_rng(1), {}
    for name, n in {"a": 400, "b": 380, "c": 420}.items():
        few = rng.random(n) < 0.03
        years = np.where(few, rng.uniform(5, 10, n), rng.uniform(shortest, longest, n))
        made[name] = pd.DataFrame(
            {
                "age": rng.integers(30, 80, n).astype(float),
                "pressure": rng.normal(130, 15, n).round(),
                "chol": rng.normal(220, 30, n).round(),
                "years": np.log(years),
                "visits": rng.poisson(0.5 * years).astype(float),
            }
        )
    return made


def replicates(made: dict[str, pd.DataFrame], **options: Any) -> list[Array]:
    """Return the information of the rows that each block's fit leaves out, by its rows.

    These fits begin where the last round of the fit of all rows was, so that their
    first information matrices are of the same weights as that fit's last.
    """
    here, found = up.simulate(made, **options), list[tuple[int, Array]]()
    one_step, steps = here.coordinator.run_step, here.coordinator.run_steps

    def take(call: Any, totals: Any) -> None:
        if "coef" in call.public:
            fold = [one.fold for one in call.operations if isinstance(one, Rows)]
            mean, scale = (call.public[name][:3] for name in ("mean", "scale"))
            units = np.eye(4)
            units[1:, 0], units[1:, 1:] = mean, np.diag(scale)
            matrix = units @ totals["information"] @ units.T
            found.append((fold[0] if fold else -1, matrix))

    def run_step(call: Any) -> Any:
        totals = one_step(call)
        take(call, totals)
        return totals

    def run_steps(calls: Any) -> Any:
        totals = steps(calls)
        for call, own in zip(calls, totals, strict=True):
            take(call, own)
        return totals

    here.coordinator.run_step, here.coordinator.run_steps = run_step, run_steps
    up.jackknife(up.GLM("poisson", offset="years"), here, "visits", n_blocks=20)
    *_, whole = (matrix for fold, matrix in found if fold < 0)
    first = dict(reversed([one for one in found if one[0] >= 0]))
    return [whole - matrix for matrix in first.values()]


@pytest.mark.slow
@pytest.mark.parametrize("follow", [False, True])
def test_a_fold_leaves_out_no_person_who_has_all_its_weight(follow):
    with pytest.raises(ReleaseRefusedError, match="weighted_rows"):
        replicates(exposures(0.0005, 0.002), follow=follow)


def test_control_a_fold_less_all_rows_is_the_record_of_who_was_seen_for_years():
    made = exposures(0.0005, 0.002)
    found = replicates(made, policy=OPEN)
    records = pd.concat(made.values())[OBSERVED].to_numpy()
    guessed = [matrix[0, 1:] / matrix[0, 0] for matrix in found]
    # What is in no other person's record: all three cells to their last digit.
    sure = [np.abs(records - one).max(axis=1).min() < 0.5 for one in guessed]
    assert sum(sure) >= 2


@pytest.mark.slow
def test_ordinary_exposures_are_left_out_block_by_block():
    assert len(replicates(exposures(0.1, 10.0), follow=True)) == 20
