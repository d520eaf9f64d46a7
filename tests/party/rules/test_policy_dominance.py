"""The rule against derived columns that are one person's, and what it excuses."""

from typing import Any

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline

import unpooled as up
from policy_steps import TABLES, ran, refuses, squares
from unpooled.arrays import Array
from unpooled.errors import ReleaseRefusedError
from unpooled.protocol.view_operations import Derive, Select
from wire import COLUMNS, PATIENT, Rogue, silos


def cancelling(seed: int) -> Array:
    """x0 and x1 agree in everybody but one person, whom neither shows alone."""
    rng = np.random.default_rng(seed)
    t = rng.standard_normal(30) * 10
    X = np.column_stack([t, t, rng.standard_normal(30)])
    X[11, 1] += 1.0
    return X


def project(columns: Array) -> Derive:
    public = {
        "mean": np.zeros(3),
        "components": columns,
        "scale": np.ones(len(columns)),
    }
    return Derive("pca.projected", tuple(f"y{j}" for j in range(len(columns))), public)


def trusting(*transforms: str) -> dict[str, Any]:
    """Silos that list transforms themselves, so that these need no fit."""
    steps = ["policy_steps.*", "imputer.local_*", "scaler.local_*", "pca.local_*"]
    return {"allowed_steps": [*steps, *transforms]}


ONTO_ONE = np.array([[1.0, -1.0, 0.0], [0.0, 0.0, 1.0]])


@pytest.mark.parametrize("components", [ONTO_ONE, np.abs(ONTO_ONE)])
def test_a_made_up_projection_is_refused_as_not_fitted(components):
    """Whether or not it singles anybody out, and though the study fitted another."""
    here = silos({name: cancelling(i) for i, name in enumerate("abc")})
    up.PCA(2).fit(here.federation)
    rogue = Rogue(here).enter()
    ran.clear()
    chain = (Select(COLUMNS), project(components))
    rules = rogue.rules("policy_steps.squares", None, chain)
    assert rules == dict.fromkeys("abc", "transform_not_fitted")
    assert ran == []


def test_a_projection_onto_one_person_is_refused():
    """The difference of two columns is 0 for all but one: its scatter is one record.

    Silos that accept projections without a fit still judge what they do.
    """
    tables = {name: cancelling(i) for i, name in enumerate("abc")}
    here = silos(tables, policy=trusting("pca.projected"))
    rogue = Rogue(here).enter()
    ran.clear()
    onto_one = project(ONTO_ONE)
    rules = rogue.rules("policy_steps.squares", None, (Select(COLUMNS), onto_one))
    assert set(rules.values()) == {"max_row_share"}
    assert ran == []
    # Far from zero, one person's 1 is a rounding error beside the column's values.
    far = {**onto_one.public, "mean": np.array([-1e13, 0.0, 0.0])}
    far_away = Derive("pca.projected", ("y0", "y1"), far)
    rules = rogue.rules("policy_steps.squares", None, (Select(COLUMNS), far_away))
    assert set(rules.values()) == {"max_row_share"}
    honest = project(np.abs(ONTO_ONE))
    rules = rogue.rules("policy_steps.squares", None, (Select(COLUMNS), honest))
    assert set(rules.values()) == {""}


@pytest.mark.parametrize("fill", [1e3, 1e9, -1e9, 1e150])
def test_a_made_up_filling_is_refused(fill):
    """One missing cell and a statistic far away: a column that marks one person.

    A mean that the study did not fit is refused by all, so that not even who has the
    missing cell is told. A number of the user's own needs no fit, and is judged.
    """
    tables = {name: X.copy() for name, X in TABLES.items()}
    tables["b"][8, 1] = np.nan
    here = silos(tables)
    up.SimpleImputer().fit(here.federation)
    rogue = Rogue(here).enter()
    imputed = Derive("imputer.imputed", COLUMNS, {"statistics": np.array([0, fill, 0])})
    ran.clear()
    rules = rogue.rules("policy_steps.squares", None, (Select(COLUMNS), imputed))
    assert rules == dict.fromkeys("abc", "transform_not_fitted")
    assert ran == []

    filled = Derive("imputer.filled", COLUMNS, {"value": fill})
    rules = rogue.rules("policy_steps.squares", None, (Select(COLUMNS), filled))
    assert rules == {"a": "", "b": "max_row_share", "c": ""}
    assert ran == ["squares", "squares"]


def test_dominance_is_seen_behind_later_transforms_and_selections():
    tables = {name: X.copy() for name, X in TABLES.items()}
    tables["b"][8, 1] = np.nan
    listed = trusting("imputer.imputed", "scaler.standardised")
    # Without min_rows another filling than the fitted one would be refused as such.
    here = silos(tables, policy={**PATIENT, **listed, "min_rows": 0})
    scaler, imputer = up.StandardScaler(), up.SimpleImputer()
    make_pipeline(imputer, scaler).fit(here.federation)
    imputer.statistics_ = np.array([0.0, 1e6, 0.0])
    view = scaler.transform(imputer.transform(here.federation))
    for asked in (view, view.select(["x1"]), view.select(["x1", "x0"])):
        with pytest.raises(ReleaseRefusedError, match="max_row_share"):
            asked.sum(squares)
    # The person is in one of the folds, and the other may be asked.
    rules = []
    for _, fold in view.folds(2, random_state=4):
        try:
            fold.sum(squares)
        except ReleaseRefusedError as refused:
            rules.append(refused.rule)
    assert rules == ["max_row_share"]
    view.select(["x0", "x2"]).sum(squares)


def test_a_fitted_transform_does_not_vouch_for_those_around_it():
    """The scaler was fitted; the number that fills cells behind it is the user's."""
    tables = {name: X.copy() for name, X in TABLES.items()}
    tables["b"][8, 1] = np.nan
    here = silos(tables)
    scaled = up.StandardScaler().fit(here.federation).transform(here.federation)
    far = up.SimpleImputer(strategy="constant", fill_value=1e6).fit(scaled)
    view = far.transform(scaled)
    for asked in (view, view.select(["x1"]), view.select(["x1", "x0"])):
        refuses(here, "max_row_share", lambda v=asked: v.sum(squares), party="b")
    view.select(["x0", "x2"]).sum(squares)


def test_the_share_is_the_silos_choice():
    tables = {name: X.copy() for name, X in TABLES.items()}
    tables["b"][8, 1] = np.nan
    for share, allowed in ((0.5, False), (0.9999, True), (1.0, True)):
        here = silos(tables, policy={"max_row_share": share})
        imputer = up.SimpleImputer(strategy="constant", fill_value=30.0)
        view = imputer.fit(here.federation).transform(here.federation)
        if allowed:
            view.sum(squares)
        else:
            refuses(here, "max_row_share", lambda v=view: v.sum(squares), party="b")


def test_natural_heavy_tails_are_not_refused():
    """One very rich man, and a rare yes: the data's own dominance is not made up."""
    tables = {name: X.copy() for name, X in TABLES.items()}
    for name, X in tables.items():
        X[5, 0] = 1e6 * (1 + ord(name))
        X[:, 1] = 0.0
        X[9, 1] = 1.0
    here = silos(tables)
    fitted = make_pipeline(up.SimpleImputer(), up.StandardScaler(), up.PCA(3)).fit(
        here.federation
    )
    assert fitted[-1].n_samples_ == 90


@pytest.mark.parametrize("listed", [True, False])
def test_a_dominant_row_of_the_data_excuses_itself_only(listed):
    """In a filling of the user's own, and in one that needs no fit at these silos."""
    tables = {name: X.copy() for name, X in TABLES.items()}
    for X in tables.values():
        X[:, 2] = 0.0
        X[9, 2] = 1.0  # a rare yes, of another person than the missing cell's
        X[8, 1] = np.nan
    here = silos(tables, policy=trusting("imputer.imputed") if listed else None)
    if listed:
        imputer = up.SimpleImputer().fit(here.federation)
        imputer.statistics_ = np.array([0.0, 200.0, 0.0])
    else:
        imputer = up.SimpleImputer(strategy="constant", fill_value=200.0)
        imputer.fit(here.federation)
    view = imputer.transform(here.federation)
    view.select(["x0", "x2"]).sum(squares)
    with pytest.raises(ReleaseRefusedError, match="max_row_share"):
        view.sum(squares)
