"""Attacks on a silo's own columns by totals over different columns of the same people.

    Σ over the columns {age, x, z} - Σ over the columns {pulse, x, z}

is about the columns age and pulse alone, and so about one silo. The same holds of one
column in two units, such as as it is and standardised.
"""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.preprocessing import RobustScaler

import unpooled as up
from unpooled.arrays import Array
from unpooled.errors import ReleaseRefusedError

N = 201
SEEN = {"allow_row_level": True}


def tables() -> dict[str, pd.DataFrame]:
    rng = np.random.default_rng(0)
    own = {"age": rng.normal(50, 9, N), "pulse": rng.normal(70, 5, N)}
    return {
        "a": pd.DataFrame(own),
        "b": pd.DataFrame({"x": rng.normal(0, 2, N)}),
        "c": pd.DataFrame({"z": rng.normal(0, 3, N)}),
    }


def simulated(**options: Any) -> up.Federation:
    return up.simulate(tables(), partition="columns", follow=True, **options)


def opened(view: up.Federation) -> dict[str, Array]:
    """Return what the coordinator opens of a PCA, whether it ends or not."""
    seen, honest = dict[str, Array](), view.coordinator.run_step

    def run_step(call: Any) -> dict[str, Array]:
        totals = honest(call)
        seen.update(totals)
        return totals

    view.coordinator.run_step = run_step
    try:
        up.PCA(1, svd_solver="gram").fit(view)
    except ReleaseRefusedError:
        if "squares" not in seen:
            raise
    view.coordinator.run_step = honest
    return seen


def differences(here: up.Federation) -> tuple[float, float]:
    """Return by how much squares of selections differ: by two columns, and by one."""
    views = here, up.RobustScaler().fit(here).transform(here)
    names = [("age", "x", "z"), ("pulse", "x", "z"), ("age", "pulse", "x", "z")]
    ages, pulses, _ = (float(opened(views[0].select(n))["squares"]) for n in names)
    scaled, _, both = (float(opened(views[1].select(n))["squares"]) for n in names)
    return ages - pulses, both - scaled


def test_no_number_of_a_silos_columns_is_opened_where_none_of_its_people_is():
    with pytest.raises(ReleaseRefusedError, match="allow_row_level"):
        differences(simulated())


def test_control_two_selections_differ_by_one_silos_own_squares():
    found, scaled = differences(simulated(policy=SEEN))
    own = tables()["a"]
    age, pulse = (N * np.var(own[name]) for name in own)
    assert_allclose(found, age - pulse, rtol=1e-9)
    # Two cells' difference is the root of the ratio.
    between = RobustScaler().fit(own).scale_[1]
    assert_allclose(scaled, pulse / between**2, rtol=1e-9)


@pytest.mark.slow
def test_limit_two_units_give_who_sees_people_every_column():
    here = simulated(policy=SEEN)
    scaled = up.StandardScaler().fit(here).transform(here)
    G, H = (opened(view)["gram"] for view in (here, scaled))
    # G = A A' and H = A D A' with the centred columns A: with G = U U', the columns of
    # U R are those of A, for the eigenvectors R of U^-1 H U^-T.
    values, vectors = np.linalg.eigh(G)
    U = (vectors * np.sqrt(np.maximum(values, 0.0)))[:, -4:]
    inverse = np.linalg.pinv(U)
    A = U @ np.linalg.eigh(inverse @ H @ inverse.T)[1]
    for own in pd.concat(tables().values(), axis=1).to_numpy().T:
        signs = np.sign(A.T @ (own - own.mean()))
        found = (A * signs).T - (own - own.mean())
        # Rounding of a Gram matrix, 1e-16 of its largest entry, divided by gaps.
        assert np.abs(found).max(axis=1).min() < 1e-6
