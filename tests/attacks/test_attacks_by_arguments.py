"""Attacks by the arguments of honest steps, each beside a control that succeeds.

The adversary is the coordinator. Every step below is the library's own, and what it
releases is a total; only what it is asked with was never meant.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import unpooled as up
from unpooled.arrays import Array
from unpooled.errors import AggregationError, ReleaseRefusedError
from unpooled.models.discriminant.classes import agreed_classes, names_of
from unpooled.models.mmvfl import mmvfl
from unpooled.models.pca import krylov, pca_columns
from unpooled.models.vertical_pca import projection
from unpooled.party.memory.kept_arrays import Origins
from unpooled.protocol.request import Request
from unpooled.protocol.wire_format import WireFormat
from unpooled.secure.sums.masking import MaskedSum
from wire import COLUMNS, Rogue, rows, silos

# --- parties that are asked with different arguments ----------------------------------

TABLES = {name: rows(seed=i) for i, name in enumerate("abc")}
MEAN, SQUARES = np.full(3, 5.0), np.full(3, 1e3)


def told_by_one(victim: str) -> Array:
    """Have all others multiply by zeros, and open the "total" of an image."""
    rogue = Rogue(silos(TABLES)).enter()
    how = {"mean": MEAN, "squares": SQUARES, "V": np.eye(3)[:, :2], "N": 90}
    real = rogue.request("pca.local_image", how)
    blank = replace(real, public=how | {"V": np.zeros((3, 2))})
    replies = {}
    for party in rogue.names:
        asked = real if party == victim else blank
        replies[party] = rogue.say(party, *asked.as_message())
    assert {reply.header["kind"] for reply in replies.values()} == {"released"}
    declared = krylov.local_image.declared["image"]
    words = [replies[party].arrays["image"] for party in rogue.names]
    on_the_wire = WireFormat(declared, (3, 2), real.public)
    code = on_the_wire.code(3)
    return on_the_wire.restored(code.decode(MaskedSum().added(words, code)))


def image_of(X: Array) -> Array:
    return ((X - MEAN).T @ (X - MEAN))[:, :2]


@pytest.mark.slow
def test_no_silo_answers_alone_where_others_are_asked_for_nothing():
    # Masks do not cancel: six random words of 64 bits, of which some may be too large
    # to be a total at all.
    try:
        seen = told_by_one("b")
    except AggregationError:
        return
    assert np.abs(seen - image_of(TABLES["b"])).max() > 1.0


def test_control_without_arguments_in_the_masks_one_silo_answers_alone(monkeypatch):
    monkeypatch.setattr(Request, "_arguments", "")
    assert_allclose(told_by_one("b"), image_of(TABLES["b"]), atol=1e-6)


# --- arrays kept by different arguments -----------------------------------------------


def within_one(victim: str) -> Array:
    """Have all others keep zeros, and open the "total" of what all keep."""
    tables = {
        name: pd.DataFrame(X, columns=list(COLUMNS)).assign(ill=np.arange(30) % 2)
        for name, X in TABLES.items()
    }
    here = silos(tables, label="ill")
    rogue = Rogue(here).enter()
    how = {"classes": names_of([0, 1]), "count": np.full(2, 45.0)}
    how |= {"means": np.full((2, 3), 5.0), "weights": np.ones(2)}
    real = rogue.request("discriminant.local_within_squares", how)
    blank = replace(real, public=how | {"weights": np.zeros(2)})
    for party in rogue.names:
        asked = real if party == victim else blank
        assert rogue.say(party, *asked.as_message()).header["kind"] == "released"
    wanted = {"squares": SQUARES}
    return rogue.totals("discriminant.local_within_scatter", wanted)["scatter"]


def test_no_silo_answers_alone_where_others_keep_nothing():
    try:
        seen = within_one("b")
    except AggregationError:
        return
    X = TABLES["b"] - 5.0
    assert np.abs(seen - X.T @ X).max() > 1.0


def test_control_without_origins_in_the_masks_one_silo_answers_alone(monkeypatch):
    monkeypatch.setattr(Origins, "bound", lambda self, context: context)
    X = TABLES["b"] - 5.0
    assert_allclose(within_one("b"), X.T @ X, atol=1e-6)


# --- people weighed as the coordinator likes, on a column partition -------------------

N = 30
WISHED = {"allow_row_level": True, "allow_disclosed": True, "min_rows_per_class": 1}
WISHED |= {"max_released_share": 10.0}


def federate(**rules: Any) -> up.Federation:
    X = np.random.default_rng(3).standard_normal((N, 5))
    frame = pd.DataFrame(X, columns=list("abcde"))
    frame["ill"] = np.arange(N) % 3 == 0
    parts = {"x": frame[["a", "b", "ill"]], "y": frame[["c"]], "z": frame[["d", "e"]]}
    rules = {"min_rows_per_class": 1} | rules
    return up.simulate(parts, partition="columns", label="ill", policy=rules)


def length_of(federation: up.Federation, person: int) -> float:
    one = np.eye(N)[:, [person]]
    with federation.fitting():
        as_vfedpca = federation.asked_by("vfedpca")
        total = as_vfedpca.sum(projection.local_squares, U=one, centred=False)
    return float(total["squares"][0])


def ill(federation: up.Federation, person: int) -> bool:
    """Compare the hits of two guesses that differ in one person."""
    with federation.fitting():
        names, _ = agreed_classes(federation, mmvfl.local_names, None, 2)
        hits = []
        for guess in (0, 1):
            scores = np.eye(2)[np.zeros(N, int)]
            scores[person] = np.eye(2)[guess]
            told = federation.sum(mmvfl.local_hits, classes=names, scores=scores)
            hits.append(float(told["hits"]))
    return hits[1] > hits[0]


def row_of(federation: up.Federation, person: int) -> Array:
    """Keep "loadings" along one person, and have them shown."""
    one = np.eye(N)[:, [person]]
    pca = federation.asked_by("pca")
    with federation.fitting():
        pca.sum(pca_columns.own_means)
        pca.keep(pca_columns.own_loadings, U=one, length=np.ones(1))
        told = pca.collect(pca_columns.shown_loadings, variance=np.ones(1))
    own = [told[party] for party in federation.parties]
    return np.concatenate([part["components"][0] + part["mean"] for part in own])


@pytest.mark.thinned(1)
@pytest.mark.parametrize("attack", [length_of, ill, row_of])
@pytest.mark.parametrize("rules", [{}, {"allow_row_level": "parties"}])
def test_nobody_is_weighed_alone(attack, rules):
    federation = federate(allow_disclosed=True, **rules)
    with pytest.raises(ReleaseRefusedError, match="allow_row_level"):
        attack(federation, 4)
    assert not any(line.step == "pca.shown_loadings" for line in federation.ledger)


def test_control_weighed_people_are_seen():
    X = np.random.default_rng(3).standard_normal((N, 5))
    federation = federate(**WISHED)
    assert_allclose(length_of(federation, 4), X[4] @ X[4])
    assert [ill(federation, person) for person in (3, 4, 5, 6)] == [
        True,
        False,
        False,
        True,
    ]
    assert_allclose(row_of(federation, 4), X[4])


# --- a silo alone in a total, on a column partition -----------------------------------


def widest(policy: dict[str, Any], names: str, to: str = "parties") -> dict[str, str]:
    """Ask for directions of all columns, of which one silo has more than the others."""
    X = np.random.default_rng(3).standard_normal((N, 7))
    frame = pd.DataFrame(X, columns=list("abcdefg"))
    parts = {"x": frame[list("abcd")], "y": frame[["e"]], "z": frame[["f", "g"]]}
    parts = {name: parts[name] for name in names}
    here = silos(parts, partition="columns", policy=policy)
    columns = tuple(c for part in parts.values() for c in part)
    rogue = Rogue(here, partition="columns", columns=columns).enter()
    leader, *others = rogue.names
    sealed = rogue.say(leader, {"kind": "offer group key", **rogue.where}).header
    accept = {"kind": "accept group key", "leader": leader, "sealed": sealed["sealed"]}
    for name in others:
        rogue.say(name, accept | rogue.where)
    kept = rogue.rules("pls.own_basis", {"block": 4, "scaled": True, "seed": 0})
    assert set(kept.values()) == {""}
    return rogue.rules("pls.local_image", {"block": 4, "ceiling": 2.0}, to=to)


def test_nobody_is_alone_in_the_last_directions():
    shown = {"allow_row_level": True, "min_parties": 2}
    assert set(widest(shown, "xyz").values()) == {"allow_disclosed"}
    assert set(widest(shown, "xyz", "coordinator").values()) == {"allow_disclosed"}
    assert set(widest(shown, "xy", "coordinator").values()) == {"allow_disclosed"}


def test_control_two_silos_have_each_other_s_directions_anyway():
    shown = {"allow_row_level": "parties", "min_parties": 2}
    assert set(widest(shown, "xy").values()) == {""}
    assert set(widest(shown | {"allow_disclosed": True}, "xyz").values()) == {""}
