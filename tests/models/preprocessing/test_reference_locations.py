"""References that are declared: as good as those that are found, or refused."""

import functools

import numpy as np
import pytest

from exact_rounds import exactly
from hard_columns import made_up, real
from optima import is_optimal
from unpooled import PowerTransformer, load, partition_rows, plan, save, simulate
from unpooled.errors import DataError
from unpooled.linalg.yeo_johnson import log_size

FEATURES = [0, 3, 20]
# Cells are narrow in units of the declared scale, which may be 3 times the true one.
TOL = 1e-7
MODES = ["summed", "mpc"]


@pytest.fixture(scope="module")
def rows():
    return real("breast_cancer")[:, FEATURES]


def declared(X, scale=1.0, shift=0.0):
    """Return the columns' own centres and scales, somewhat off."""
    names = [f"x{j}" for j in range(X.shape[1])]
    phi = log_size(X)
    centre, spread = np.nanmean(phi, axis=0), np.nanstd(phi, axis=0)
    middle = np.sinh(centre + shift * spread) + np.cosh(centre + shift * spread) - 1.0
    return {
        name: (float(c), float(s * scale * (1 + abs(c))))
        for name, c, s in zip(names, middle, spread, strict=True)
    }


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("scale", "shift"),
    [
        (1, 0),
        (2, 0),
        (1, -1),
        pytest.param(0.5, 0, marks=pytest.mark.slow),
        pytest.param(1, 1, marks=pytest.mark.slow),
    ],
)
def test_what_is_declared_need_only_be_near(rows, mode, scale, shift):
    federation, rounds = exactly(np.array_split(rows, 3))

    model = PowerTransformer(comparison=mode, reference=declared(rows, scale, shift))
    model.fit(federation)

    for j, lam in enumerate(model.lambdas_):
        assert is_optimal(rows[:, j], float(lam), TOL), f"feature {j}"
    if mode == "mpc":
        # One batch says that it fits, where three would find it.
        assert rounds.rounds == 2 + 3 + 5 * model.n_iter_


@pytest.mark.thinned(1)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["years", "all negative", "missing"])
def test_hard_columns_about_a_declared_reference(mode, name):
    x = made_up()[name]
    pair = float(np.nanmean(x)), float(np.nanstd(x))
    model = PowerTransformer(comparison=mode, reference={"x0": pair})
    model.fit(exactly(np.array_split(x[:, None], 3))[0])
    assert is_optimal(x, float(model.lambdas_[0]), TOL)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("scale", "shift"), [(9, 0), (0.1, 0), (1, 9), (1, -9)])
def test_what_does_not_fit_is_refused_by_name(rows, mode, scale, shift):
    wrong = declared(rows) | {"x1": declared(rows, scale, shift)["x1"]}
    model = PowerTransformer(comparison=mode, reference=wrong)
    with pytest.raises(DataError, match=r"reference of x1 does not fit"):
        model.fit(exactly(np.array_split(rows, 3))[0])


def test_it_is_saved_with_the_model(rows, tmp_path):
    model = PowerTransformer(comparison="summed", reference=declared(rows))
    model.fit(exactly(np.array_split(rows, 3))[0])
    again = load(save(model, tmp_path / "power.unpooled"))
    assert {k: tuple(v) for k, v in again.reference.items()} == model.reference


@pytest.mark.thinned(1)
@pytest.mark.parametrize("mode", MODES)
def test_a_plan_and_the_ledger_declare_it(rows, mode):
    federation = simulate(partition_rows(rows, 3))
    model = PowerTransformer(comparison=mode, reference=declared(rows))

    planned = plan(model, federation)

    assert "are declared (reference), not found" in str(planned)
    public = {(x.step, x.name) for x in planned.releases if x.visibility == "public"}
    step = "power.compared_slopes" if mode == "mpc" else "power.local_slopes"
    assert {(step, "centre"), (step, "spread")} <= public
    released = {x.name for x in planned.releases if x.direction == "out"}
    found = {"apart", "beyond"} if mode == "mpc" else set()
    assert not found & released


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ([1.0, 2.0], "give a centre and a scale for each column"),
        ({"x0": 1.0}, r"reference\['x0'\] = 1.0; it takes"),
        ({"x0": (0.0, -1.0)}, "the second above 0"),
        ({"x0": (float("nan"), 1.0)}, "two finite numbers"),
        ({"x0": (0.0, 1.0)}, "reference lacks x1, x2"),
    ],
)
def test_refusal_limit(rows, reference, message):
    fit = functools.partial(PowerTransformer, reference=reference)
    with pytest.raises(DataError, match=message):
        fit().fit(exactly(np.array_split(rows, 3))[0])
