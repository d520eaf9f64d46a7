"""Published attacks against the silos' doors, each beside a control that succeeds.

The adversary is the coordinator: it sees all that passes and says what it likes
(`Rogue`). A control is the same attack where one defence is off; without it a test
could pass because the attack was done badly. An attack that still works is marked
xfail, and its reason says why. Other files have other kinds of attacks.

References
----------
Huth et al., Accessibility of covariance information creates vulnerability in Federated
Learning frameworks, Bioinformatics 39(9), 2023.
"""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import unpooled as up
from attacks import (
    PERSON,
    first_row,
    marked,
    person_and_columns,
    record_from_fills,
    scatter,
    tables_of,
    with_a_hole,
)
from unpooled.arrays import Array
from unpooled.errors import ReleaseRefusedError
from unpooled.models import moments
from unpooled.party.rules.policy import Policy
from unpooled.protocol.view_operations import Derive, Operation, Select
from wire import COLUMNS, PATIENT, Rogue, rows, silos

TABLES = tables_of("abc")
MARKED, HOLED = marked(TABLES), with_a_hole(TABLES)

# --- covariances with columns that the coordinator made -------------------------------


def test_a_made_up_column_does_not_rebuild_a_record():
    """Huth et al. 2023: the covariances of a person's indicator are the record."""
    # Where one person may carry a direction: `max_leverage` would refuse the fit.
    here = silos(MARKED, follow=True, policy={"max_leverage": 1.0})
    chain, mean = person_and_columns(), {"mean": np.zeros(4)}
    rules = Rogue(here).enter().rules("pca.local_squares", mean, chain)
    assert set(rules.values()) == {"not_followed"}

    # A fit of that kind is no leave to send other numbers.
    model = up.PCA(1).fit(here.federation)
    model.components_ = np.eye(1, 3)
    with pytest.raises(ReleaseRefusedError, match="transform_not_fitted"):
        up.StandardScaler().fit(model.transform(here.federation))


def test_control_a_made_up_column_rebuilds_a_record():
    here = silos(MARKED, policy=Policy.open())

    S = scatter(Rogue(here).enter(), person_and_columns(), 4)

    assert_allclose(S[0, 1:], MARKED["b"][PERSON], rtol=1e-9)


def test_a_made_up_filling_does_not_rebuild_a_record():
    here = silos(HOLED, follow=True)
    model = up.SimpleImputer().fit(here.federation)
    model.statistics_ = np.full(3, 1e4)
    with pytest.raises(ReleaseRefusedError, match="transform_not_fitted"):
        up.PCA(1).fit(model.transform(here.federation))


def test_control_a_made_up_filling_rebuilds_a_record():
    here = silos(HOLED, policy=Policy.open())
    record = record_from_fills(Rogue(here).enter(), 0.0, 1e4)
    assert_allclose(record, TABLES["b"][PERSON, [0, 2]], rtol=1e-9)


def test_two_modest_fillings_do_not_subtract_to_a_record():
    here = silos(HOLED)
    try:
        record = record_from_fills(Rogue(here).enter(), 5.0, 6.0)
    except KeyError:
        return  # refused: nothing came back
    assert not np.allclose(record, TABLES["b"][PERSON, [0, 2]], rtol=1e-9)


def test_control_two_modest_fillings_subtract_to_a_record():
    here = silos(HOLED, policy={"allowed_steps": ["*"], "min_rows": 0})
    record = record_from_fills(Rogue(here).enter(), 5.0, 6.0)
    assert_allclose(record, TABLES["b"][PERSON, [0, 2]], rtol=1e-9)


@pytest.mark.slow
def test_two_fitted_fillings_do_not_subtract_to_a_record():
    """Means of two sets of rows, both as a fit gave them, fill the same cell."""
    federation = silos(HOLED).federation
    train, _ = federation.train_test_split(test_size=0.4, random_state=0)
    one, other = up.SimpleImputer().fit(federation), up.SimpleImputer().fit(train)
    mean = np.zeros(3)
    totals = [
        fitted.transform(federation)
        .asked_by("pca")
        .sum(moments.local_squares, mean=mean)
        for fitted in (one, other)
    ]
    assert one.statistics_[1] != other.statistics_[1]
    # The silo fills the cell as the first time.
    assert np.array_equal(totals[0]["squares"], totals[1]["squares"])


def constant(value: float) -> tuple[Operation, ...]:
    return Select(COLUMNS), Derive("imputer.filled", COLUMNS, {"value": value})


def test_two_constants_do_not_subtract_to_a_record():
    rogue = Rogue(silos(HOLED)).enter()
    scatter(rogue, constant(5.0))
    mean = {"mean": np.zeros(3)}
    rules = rogue.rules("pca.local_squares", mean, constant(6.0))
    assert rules == {"a": "", "b": "another_filling", "c": ""}
    # Nor in a study of another name.
    later = Rogue(rogue.silos, study="later").enter()
    rules = later.rules("pca.local_squares", mean, constant(6.0))
    assert rules["b"] == "another_filling"


def test_control_two_constants_subtract_to_a_record():
    rogue = Rogue(silos(HOLED, policy={"min_rows": 0})).enter()
    record = scatter(rogue, constant(6.0))[1] - scatter(rogue, constant(5.0))[1]
    assert_allclose(record[[0, 2]], TABLES["b"][PERSON, [0, 2]], rtol=1e-9)


# --- one row that a total is made of --------------------------------------------------


@pytest.mark.thinned(1)
@pytest.mark.parametrize("complement", [False, True])
def test_one_row_cannot_be_picked(complement):
    rogue = Rogue(silos(TABLES)).enter()
    whole = rogue.totals("scaler.local_counts")["count"]
    part = rogue.totals("scaler.local_counts", None, first_row(complement))["count"]
    # The smallest share is a block of each silo.
    assert set(part) == {60.0 if complement else 30.0}
    assert set(whole - part) == {30.0 if complement else 60.0}


@pytest.mark.parametrize("complement", [False, True])
def test_control_one_row_of_each_silo_is_picked(complement):
    # As many blocks as rows.
    tables = {name: X[:20] for name, X in TABLES.items()}
    rogue = Rogue(silos(tables, policy={"min_rows": 0, "min_own_cells": 0})).enter()
    picked = rogue.observed("scaler", first_row(complement))["total"]
    if complement:
        picked = rogue.observed("scaler")["total"] - picked
    a, b, c = tables.values()
    of_one_each = a[:, None, None] + b[:, None] + c
    assert np.abs(of_one_each - picked).max(axis=-1).min() < 1e-9


def weighing_rows() -> tuple[Operation, ...]:
    """A scale of 1 for one person, and so large for all others that nothing is left."""
    scale = np.full((30, 1), 1e200)
    scale[PERSON] = 1.0
    public = {"mean": np.zeros(3), "scale": scale}
    return Select(COLUMNS), Derive("scaler.standardised", COLUMNS, public)


def test_rows_cannot_be_weighed():
    """An array over people where the transform takes one over columns."""
    here = silos(TABLES)
    up.StandardScaler().fit(here.federation)
    rules = Rogue(here).enter().rules("scaler.local_counts", None, weighing_rows())
    assert set(rules.values()) == {"arguments"}


def test_control_weighed_rows_sum_to_a_record():
    """What the transform would give if nothing held it to its declaration."""
    weighing = weighing_rows()[1]
    assert isinstance(weighing, Derive)
    mean, scale = weighing.public["mean"], weighing.public["scale"]
    total = ((TABLES["b"] - mean) / scale).sum(axis=0)
    assert_allclose(total, TABLES["b"][PERSON], rtol=1e-12)


def rare_category() -> dict[str, Array]:
    """x0 is 1 for one patient of b and 0 for all others, in every silo."""
    tables = {name: X.copy() for name, X in TABLES.items()}
    for name, X in tables.items():
        X[:, 0] = 0.0
        X[PERSON, 0] = float(name == "b")
    return tables


def test_a_rare_category_does_not_show_its_patient():
    tables = rare_category()
    try:
        S = scatter(Rogue(silos(tables)).enter(), (Select(COLUMNS),))
    except KeyError:
        return  # refused: nothing came back
    assert not np.allclose(S[0], tables["b"][PERSON], rtol=1e-9)


# --- more columns than rows -----------------------------------------------------------

WIDE = {name: rows(10, 40, seed=i) for i, name in enumerate("abc")}
ALL_40 = (Select(tuple(f"x{j}" for j in range(40))),)


def test_a_wide_covariance_is_refused():
    """Gram = Xᵀ X determines X up to a rotation of the rows."""
    rogue = Rogue(silos(WIDE)).enter()
    squares = rogue.totals("pca.local_squares", {"mean": np.zeros(40)}, ALL_40)
    rules = rogue.rules("pca.local_scatter", squares, ALL_40)
    assert set(rules.values()) == {"max_feature_ratio"}


def test_control_a_wide_covariance_is_the_rows_up_to_a_rotation():
    here = silos(WIDE, policy={**PATIENT, "max_feature_ratio": np.inf})
    S = scatter(Rogue(here).enter(), ALL_40, 40)
    X = np.vstack(list(WIDE.values()))

    values, vectors = np.linalg.eigh(S)

    # 30 rows in 40 columns: the rank gives their number away, the vectors their span.
    kept = values > 1e-9 * values[-1]
    assert kept.sum() == len(X)
    V = vectors[:, kept]
    assert_allclose(X @ V @ V.T, X, rtol=1e-9)
    rotation = X @ V / np.sqrt(values[kept])
    assert_allclose(rotation @ rotation.T, np.eye(len(X)), atol=1e-9)
