"""A coordinator that hands silos different questions, and opens what they compute."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import unpooled as up
from unpooled.arrays import Array
from unpooled.coordinator.comparisons import Comparisons
from unpooled.coordinator.step_call import RoundRecord
from unpooled.protocol import computing_party as computing
from unpooled.protocol.step import (
    Polynomial,
    SharedEigenpairs,
    SharedProducts,
    compared,
    computed,
    kept,
    release,
    stays,
)
from wire import Rogue, rows, silos

pytest.importorskip("mpyc")
TABLES = {name: rows(seed=i) for i, name in enumerate("abc")}
VICTIM = "b"
# On both sides, in turn, of what the victim alone has.
GUESSES = TABLES[VICTIM].sum() + np.tile([-1.0, 1.0], 12)


@compared(
    Polynomial({("gap",): 1.0}, {"gap": 1}, fraction=20, bits=63),
    takes={"guesses": "l"},
    below=release("l", meaning="whether the cells' sum is below a guess"),
)
def gaps(X: Array, *, guesses: Array, times: float) -> dict[str, Array]:
    return {"gap": times * (X.sum() - guesses)}


@kept(by="party", cells=stays(""))
def own_cells(X: Array, *, times: float) -> dict[str, Array]:
    return {"cells": np.array(times * X.sum())}


@compared(
    Polynomial({("gap",): 1.0}, {"gap": 1}, fraction=20, bits=63),
    by="party",
    takes={"guesses": "l"},
    below=release("l", meaning="whether the kept sum is below a guess"),
)
def kept_gaps(kept: Any, *, guesses: Array) -> dict[str, Array]:
    return {"gap": kept["cells"] - guesses / len(TABLES)}


def ask(rogue: Rogue, step: Any, times: float | None, **public: Any) -> dict[str, Any]:
    """Ask the victim with 1 times, and the others with so many."""
    # On a column partition silos read their own columns, all of them.
    operations = () if rogue.partition == "columns" else None
    real = rogue.request(step.name, public, operations)
    asked = dict.fromkeys(rogue.names, real)
    if times is not None:
        for party in rogue.names:
            own = public | {"times": 1.0 if party == VICTIM else times}
            asked[party] = replace(real, public=own)
    said = {party: rogue.say(party, *asked[party].as_message()) for party in asked}
    assert {reply.header["kind"] for reply in said.values()} == {"released"}
    return said


def signs(times: float, *, in_memory: bool) -> Array:
    """Compare the victim's sum with guesses, beside so many times the others'."""
    here = silos(TABLES)
    rogue = Rogue(here).enter()
    comparing = Comparisons(
        tuple(TABLES),
        send=lambda header, *, parties: rogue._say(list(parties), header, {}),
        channel=here.wire,
        study=rogue.where["study"],
        session=rogue.where["session"],
    )
    try:
        comparing.begin()
        if in_memory:
            ask(rogue, own_cells, times)
            step, replies = kept_gaps, ask(rogue, kept_gaps, None, guesses=GUESSES)
        else:
            step, replies = gaps, ask(rogue, gaps, times, guesses=GUESSES)
        record = RoundRecord(rogue.round, step.name, 0.0, 0, 0)
        sizes = {"l": len(GUESSES)}
        outcome = comparing.compared(
            step,
            sizes,
            first_round=rogue.round,
            request_cost=record,
            released=replies,
        )
    finally:
        comparing.close()
        rogue.ask_all({"kind": "leave"})
    return outcome.results["below"]


TRUE = TABLES[VICTIM].sum() < GUESSES


@pytest.mark.slow
@pytest.mark.parametrize("in_memory", [False, True])
def test_no_silo_is_compared_alone(in_memory):
    seen = signs(0.0, in_memory=in_memory)
    # Signs of noise: right about 24 guesses once in 2^24 times.
    assert (seen != TRUE).any()


@pytest.mark.thinned(1)
@pytest.mark.parametrize("in_memory", [False, True])
def test_control_without_masks_one_silo_is_compared_alone(in_memory, monkeypatch):
    monkeypatch.setattr(computing, "covered", lambda rows, *_: rows)
    assert_array_equal(signs(0.0, in_memory=in_memory), TRUE)


@computed(
    SharedEigenpairs("scatter", vectors="vectors", values="values"),
    takes={"size": "size q"},
    vectors=release("q p", meaning="eigenvectors of products of the cells"),
    values=release("q", meaning="their eigenvalues"),
)
def products(X: Array, *, size: int, times: float) -> dict[str, Array]:
    S = times * (X.T @ X) / (TABLES[VICTIM] ** 2).sum()
    return {"scatter": S[np.triu_indices(len(S))]}


@computed(
    SharedProducts("cells", products="products"),
    by="party",
    takes={"size": "size q"},
    products=release("q q", symmetric=True, meaning="products of all silos' columns"),
)
def column_products(
    X: Array, party: str, *, size: int, times: float
) -> dict[str, Array]:
    cells, p = np.zeros((len(X), size)), X.shape[1]
    first = p * list(TABLES).index(party)
    cells[:, first : first + p] = times * X / np.linalg.norm(X, axis=0)
    return {"cells": cells.ravel()}


def computed_of(
    step: Any, size: int, times: float, partition: str = "rows"
) -> dict[str, Any]:
    """Compute of the victim's part of a total, beside so many times the others'."""
    options = {"policy": up.Policy.open()} if partition == "columns" else {}
    here = silos(TABLES, partition=partition, **options)
    rogue = Rogue(here, partition=partition).enter()
    comparing = Comparisons(
        tuple(TABLES),
        send=lambda header, *, parties: rogue._say(list(parties), header, {}),
        channel=here.wire,
        study=rogue.where["study"],
        session=rogue.where["session"],
    )
    try:
        comparing.begin()
        ask(rogue, step, times, size=size)
        return rogue.ask_all({"kind": "signs"})
    finally:
        comparing.close()
        rogue.ask_all({"kind": "leave"})


@pytest.mark.slow
def test_no_silos_components_are_computed_alone():
    """The masks of different requests do not cancel, so that the trace is noise."""
    replies = computed_of(products, 1, 0.0)
    assert {reply.header["kind"] for reply in replies.values()} == {"refused"}
    assert {reply.header["rule"] for reply in replies.values()} == {"wrong_total"}


@pytest.mark.slow
def test_control_without_masks_one_silos_components_are_found(monkeypatch):
    monkeypatch.setattr(computing, "covered", lambda rows, *_: rows)
    replies = computed_of(products, 1, 0.0)
    _, V = np.linalg.eigh(TABLES[VICTIM].T @ TABLES[VICTIM])
    for reply in replies.values():
        assert abs(reply.arrays["vectors"] @ V[:, -1]) == pytest.approx(1.0)


P = next(iter(TABLES.values())).shape[1]


@pytest.mark.slow
def test_no_silos_columns_are_multiplied_alone():
    """The masks are left in every cell, so that no column has length 1."""
    replies = computed_of(column_products, 3 * P, 0.0, "columns")
    assert {reply.header["kind"] for reply in replies.values()} == {"refused"}
    assert {reply.header["rule"] for reply in replies.values()} == {"wrong_total"}


@pytest.mark.slow
def test_control_without_masks_one_silos_columns_are_multiplied(monkeypatch):
    monkeypatch.setattr(computing, "covered", lambda rows, *_: rows)
    replies = computed_of(column_products, 3 * P, 0.0, "columns")
    unit = TABLES[VICTIM] / np.linalg.norm(TABLES[VICTIM], axis=0)
    for reply in replies.values():
        own = reply.arrays["products"][P : 2 * P, P : 2 * P]
        assert_allclose(own, unit.T @ unit, atol=1e-11)
