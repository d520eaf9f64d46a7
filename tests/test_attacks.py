"""Published attacks against the silos' doors, each beside a control that succeeds.

The adversary is the coordinator: it sees all that passes and says what it likes
(`Rogue`). A control is the same attack where one defence is off; without it a test
could pass because the attack was done badly. An attack that still works is marked
xfail, and its reason says why.

References
----------
Huth et al., Accessibility of covariance information creates vulnerability in Federated
Learning frameworks, Bioinformatics 39(9), 2023.

Denning, Denning and Schwartz, The Tracker: A Threat to Statistical Database Security,
ACM Transactions on Database Systems 4(1), 1979.

Kariyappa et al., Cocktail Party Attack: Breaking Aggregation-Based Privacy in Federated
Learning Using Independent Component Analysis, ICML 2023.

Bonawitz et al., Practical Secure Aggregation for Privacy-Preserving Machine Learning,
CCS 2017.
"""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import unpooled as up
from unpooled.arrays import Array
from unpooled.party.policy import Policy
from unpooled.party.view import Derive, Operation, Select
from wire import COLUMNS, Rogue, Silos, rows, silos

TABLES = {name: rows(seed=i) for i, name in enumerate("abc")}
PERSON = 11


def scatter(rogue: Rogue, chain: tuple[Operation, ...], p: int = 3) -> Array:
    """Raw products of columns, by the library's own steps: about a mean of zero."""
    squares = rogue.totals("pca.local_squares", {"mean": np.zeros(p)}, chain)["squares"]
    return rogue.totals("pca.local_scatter", {"squares": squares}, chain)["scatter"]


# --- covariances with columns that the coordinator made -------------------------------


def marked_tables() -> dict[str, Array]:
    """x1 is x0 again, but for one person in b: a corrected reading, say."""
    tables = {name: X.copy() for name, X in TABLES.items()}
    for X in tables.values():
        X[:, 1] = X[:, 0]
    tables["b"][PERSON, 1] += 1.0
    return tables


def person_and_columns() -> tuple[Operation, ...]:
    """One column that is 1 on one person's row and 0 elsewhere, and all others."""
    onto = np.vstack([[-1.0, 1.0, 0.0], np.eye(3)])
    public = {"mean": np.zeros(3), "components": onto, "scale": np.ones(4)}
    names = tuple(f"y{j}" for j in range(4))
    return Select(COLUMNS), Derive("pca.projected", names, public)


def test_a_made_up_column_does_not_rebuild_a_record():
    """Huth et al. 2023: the covariances of a person's indicator are the record."""
    here = silos(marked_tables())
    chain, mean = person_and_columns(), {"mean": np.zeros(4)}
    unfitted = Rogue(here).enter().rules("pca.local_squares", mean, chain)
    assert set(unfitted.values()) == {"transform_not_fitted"}

    # After a fit of that kind the transform may be applied, with any numbers.
    up.PCA(2).fit(here.federation)
    fitted = Rogue(here).enter().rules("pca.local_squares", mean, chain)
    assert fitted["b"] == "max_row_share"


@pytest.mark.parametrize("fit", [False, True])
def test_control_a_made_up_column_rebuilds_a_record(fit):
    policy = {"max_row_share": 1.0} if fit else Policy.open()
    here = silos(marked_tables(), policy=policy)
    if fit:
        up.PCA(2).fit(here.federation)

    S = scatter(Rogue(here).enter(), person_and_columns(), 4)

    assert_allclose(S[0, 1:], marked_tables()["b"][PERSON], rtol=1e-9)


def tables_with_a_hole() -> dict[str, Array]:
    """One missing cell, in b."""
    tables = {name: X.copy() for name, X in TABLES.items()}
    tables["b"][PERSON, 1] = np.nan
    return tables


def filled(value: float) -> tuple[Operation, ...]:
    public = {"statistics": np.array([0.0, value, 0.0])}
    return Select(COLUMNS), Derive("imputer.imputed", COLUMNS, public)


def record_from_fills(here: Silos, low: float, high: float) -> Array:
    """Products with a filled column are linear in the filling; the slope is a row."""
    up.SimpleImputer().fit(here.federation)
    rogue = Rogue(here).enter()
    rise = scatter(rogue, filled(high))[1] - scatter(rogue, filled(low))[1]
    return rise[[0, 2]] / (high - low)


def test_a_made_up_filling_does_not_rebuild_a_record():
    here = silos(tables_with_a_hole())
    mean = {"mean": np.zeros(3)}
    unfitted = Rogue(here).enter().rules("pca.local_squares", mean, filled(1e4))
    assert set(unfitted.values()) == {"transform_not_fitted"}
    up.SimpleImputer().fit(here.federation)
    fitted = Rogue(here).enter().rules("pca.local_squares", mean, filled(1e4))
    assert fitted["b"] == "max_row_share"


def test_control_a_made_up_filling_rebuilds_a_record():
    here = silos(tables_with_a_hole(), policy={"max_row_share": 1.0})
    record = record_from_fills(here, 0.0, 1e4)
    assert_allclose(record, TABLES["b"][PERSON, [0, 2]], rtol=1e-9)


@pytest.mark.xfail(
    raises=AssertionError,
    reason="max_row_share judges one request: two fillings, neither far from the data, "
    "give by their difference the record of the only person whose cell is missing",
)
def test_two_modest_fillings_do_not_subtract_to_a_record():
    here = silos(tables_with_a_hole())
    try:
        record = record_from_fills(here, 5.0, 6.0)
    except KeyError:
        return  # refused: nothing came back
    assert not np.allclose(record, TABLES["b"][PERSON, [0, 2]], rtol=1e-9)
