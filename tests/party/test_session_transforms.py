"""A fit as a party sees it: transforms, and what they give."""

import numpy as np
import pytest

from session_silos import TABLES, here
from unpooled.protocol.view_operations import Derive, Select
from wire import COLUMNS, Rogue, silos

# Fixtures of another module.
__all__ = ["here"]


def test_a_step_that_is_no_transform_is_not_applied(here):
    rogue = Rogue(here).enter()
    for name in ("pca.local_total", "scaler.local_counts", "os.system"):
        chain = (Select(COLUMNS), Derive(name, COLUMNS, {}))
        rules = rogue.rules("pca.local_total", operations=chain)
        assert set(rules.values()) == {"allowed_steps"}


# One mean or weight per row, instead of per column, would let the coordinator choose
# whose rows count: `axes` are checked in the silo.
PER_ROW = np.arange(30.0)[:, None] + np.zeros(3)


@pytest.mark.thinned(1)
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
