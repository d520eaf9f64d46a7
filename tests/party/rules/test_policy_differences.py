"""Totals that each pass a silo's rules, subtracted from one another."""

import numpy as np
import pytest

from policy_steps import TABLES, squares
from unpooled.arrays import Array
from unpooled.errors import ReleaseRefusedError
from unpooled.protocol.view_operations import Rows, Select
from wire import COLUMNS, Rogue, rows, silos


def test_two_splits_do_not_subtract_to_one_row():
    here = silos({name: rows(40, seed=i) for i, name in enumerate("abc")})
    rogue = Rogue(here).enter()

    def first(share: float) -> Array:
        chain = (Select(COLUMNS), Rows(0, 0, share, False, -1))
        return rogue.observed("scaler", chain)["total"]

    try:
        difference = first(21 / 40) - first(20 / 40)
    except KeyError:
        return  # refused: nothing came back
    one_each = np.sum([rows(40, seed=i)[20] for i in range(3)], axis=0)
    assert not np.allclose(difference, one_each)


@pytest.mark.xfail(
    raises=(AssertionError, pytest.fail.Exception),
    reason="max_feature_ratio counts one request's columns: a covariance of too many "
    "features comes piece by piece",
)
def test_a_refused_covariance_cannot_be_had_in_pieces():
    p = 14
    names = [f"x{j}" for j in range(p)]
    here = silos({name: rows(30, p, i) for i, name in enumerate("abc")})
    with pytest.raises(ReleaseRefusedError, match="max_feature_ratio"):
        here.federation.sum(squares)
    halves = [names[:5], names[5:10], names[10:]]
    pairs = [(i, j) for i in range(3) for j in range(i)]
    pieces = [halves[i] + halves[j][:4] for i, j in pairs]
    pieces += [halves[i][:4] + halves[j][4:] for i, j in pairs]
    refused = 0
    for piece in pieces:
        try:
            here.federation.select(piece).sum(squares)
        except ReleaseRefusedError:
            refused += 1
    assert refused


@pytest.mark.slow
def test_refusals_do_not_add_up_to_a_silos_own_value():
    """Which bound does silo b's own variance exceed? 40 questions, or until it ends."""
    here = silos(TABLES)
    mean = np.zeros(3)
    low, high = 0.0, 1e6
    for _ in range(40):
        rogue = Rogue(here).enter()
        if "refusals" in rogue.rules("pca.local_squares", {"mean": mean}).values():
            break
        middle = (low + high) / 2
        bound = np.array([1e30, middle, 1e30])
        rule = rogue.rules("pca.local_scatter", {"squares": bound})["b"]
        if rule not in ("", "public_bound"):
            return
        low, high = (middle, high) if rule else (low, middle)
    own = (TABLES["b"][:, 1] ** 2).sum()
    assert abs(low - own) > 1e-4 * own
