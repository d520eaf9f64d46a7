"""A fit as a party sees it: transforms that were fitted, and what they give."""

from typing import Any

import numpy as np
import pytest

import unpooled as up
from session_silos import TABLES, here
from unpooled.errors import ReleaseRefusedError
from unpooled.protocol.view_operations import Derive, Select
from wire import COLUMNS, Rogue, silos

# Fixtures of another module.
__all__ = ["here"]


def test_a_transform_is_applied_only_after_its_fit(here):
    """Those that declare no `follows`; test_transform_checks.py has the others."""
    rogue = Rogue(here).enter()
    mean, scale = np.zeros(3), np.ones(3)
    scaled = Derive("session_silos.scaled", COLUMNS, {"mean": mean, "scale": scale})
    filled = Derive("session_silos.shifted", COLUMNS, {"mean": mean})

    def rules(*operations: Any) -> set[str]:
        chain = (Select(COLUMNS), *operations)
        return set(rogue.rules("pca.local_total", operations=chain).values())

    assert rules(scaled) == {"transform_not_fitted"}
    rogue.observed("scaler")
    assert rules(scaled) == {""}
    # The order is the pipeline's: nothing was fitted behind another transform.
    assert rules(scaled, filled) == {"transform_not_fitted"}
    assert rules(filled, scaled) == {"transform_not_fitted"}
    # A step that is no transform, and one that is not there.
    for name in ("pca.local_total", "scaler.local_counts", "os.system"):
        refused = rules(Derive(name, COLUMNS, {"mean": mean, "scale": scale}))
        assert refused <= {"transform_not_fitted", "allowed_steps", "arguments"}
        assert refused


def test_another_studys_fit_does_not_count(here):
    first = Rogue(here, study="one").enter()
    first.observed("imputer")
    filled = Derive("imputer.imputed", COLUMNS, {"statistics": np.zeros(3)})
    chain = (Select(COLUMNS), filled)
    second = Rogue(here, study="two").enter()
    rules = second.rules("pca.local_total", operations=chain)
    assert set(rules.values()) == {"transform_not_fitted"}


def test_a_listed_transform_needs_no_fit():
    other = up.SimpleImputer().fit(silos(TABLES).federation)
    listed = ["imputer.imputed", "pca.*"]
    here = silos(TABLES, policy={"allowed_steps": listed})
    view = other.transform(here.federation)
    assert up.PCA(2).fit(view).n_samples_ == 90
    for listed in (None, ["imputer.*", "pca.*"]):
        here = silos(TABLES, policy={"allowed_steps": listed})
        with pytest.raises(ReleaseRefusedError, match="transform_not_fitted"):
            up.PCA(2).fit(other.transform(here.federation))


# One mean or weight per row, instead of per column, would let the coordinator choose
# whose rows count: `axes` are checked in the silo.
PER_ROW = np.arange(30.0)[:, None] + np.zeros(3)


@pytest.mark.parametrize(
    "public",
    [
        {"mean": np.zeros(3), "scale": np.where(PER_ROW == 7, 1.0, 1e12)},
        {"mean": PER_ROW, "scale": np.ones(3)},
        {"mean": np.zeros(3), "scale": np.ones((30, 1))},
        {"mean": np.zeros((1, 3)), "scale": np.ones(3)},
        {"mean": 0.0, "scale": 1.0},
        {"mean": np.zeros(3)},
        {"mean": np.zeros(3), "scale": np.ones(3), "out": np.zeros(3)},
        {"mean": np.zeros(3), "scale": np.full(3, np.inf)},
        {"mean": np.full(3, -np.inf), "scale": np.ones(3)},
        {},
    ],
)
def test_a_transform_takes_the_axes_that_it_declares(here, public):
    rogue = Rogue(here).enter()
    rogue.observed("scaler")
    chain = (Select(COLUMNS), Derive("scaler.standardised", COLUMNS, public))
    rules = rogue.rules("scaler.local_counts", operations=chain)
    assert set(rules.values()) == {"arguments"}


# A silo that takes transforms without a fit still judges what they do.
LISTED = {"allowed_steps": ["*"]}


def test_transforms_that_divide_by_zero_pick_no_rows_out():
    """(x - c) / 0 is NaN where x is c and infinite elsewhere: a question about c."""
    c, here = TABLES["a"][4], silos(TABLES, policy=LISTED)
    rogue = Rogue(here).enter()
    rogue.observed("scaler")
    chain = (
        Select(COLUMNS),
        Derive("scaler.standardised", COLUMNS, {"mean": c, "scale": np.zeros(3)}),
    )
    for step in ("imputer.local_counts", "scaler.local_counts"):
        rules = rogue.rules(step, operations=chain)
        assert set(rules.values()) == {"infinite_values"}


def test_a_transform_that_overflows_is_refused():
    rogue = Rogue(silos(TABLES, policy=LISTED)).enter()
    public = {
        "mean": np.zeros(3),
        "components": np.full((1, 3), 1e308),
        "scale": np.ones(1),
    }
    chain = (Select(COLUMNS), Derive("pca.projected", ("y",), public))
    rules = rogue.rules("imputer.local_counts", operations=chain)
    assert set(rules.values()) == {"infinite_values"}


def test_a_transform_gives_the_columns_that_it_names():
    rogue = Rogue(silos(TABLES, policy=LISTED)).enter()
    rogue.observed("imputer")
    for columns in (("x0",), (), (*COLUMNS, "x3")):
        chain = (
            Select(COLUMNS),
            Derive("imputer.imputed", columns, {"statistics": np.zeros(3)}),
        )
        rules = rogue.rules("imputer.local_counts", operations=chain)
        assert set(rules.values()) == {"failed_in_silo"}
