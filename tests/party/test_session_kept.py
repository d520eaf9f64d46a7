"""A fit as a party sees it: what is kept, how long, and for whom."""

import numpy as np
import pytest

from session_silos import (
    POOLED,
    TABLES,
    here,
    keeps_a_triangle,
    keeps_for_the_fit,
    keeps_for_the_study,
    uses_kept,
    uses_triangle,
)
from unpooled.errors import ReleaseRefusedError
from wire import Rogue

# Fixtures of another module.
__all__ = ["here"]

MEANS = np.sum([X.mean(axis=0) for X in TABLES.values()], axis=0)


def test_what_is_kept_until_the_study_ends(here):
    federation = here.federation
    with federation.fitting():
        assert federation.keep(keeps_for_the_study) is None
    with federation.fitting():
        np.testing.assert_allclose(federation.sum(uses_kept)["mean"], MEANS)
    (line, *_) = here.ledger
    assert (line.visibility, line.direction, line.bytes) == ("kept", "in", 0)


def test_what_is_kept_until_the_fit_ends(here):
    federation = here.federation
    with federation.fitting():
        federation.keep(keeps_for_the_fit)
        np.testing.assert_allclose(federation.sum(uses_kept)["mean"], MEANS + 3.0)
    with federation.fitting(), pytest.raises(ReleaseRefusedError, match="nothing_kept"):
        federation.sum(uses_kept)


def test_what_the_fit_keeps_hides_what_the_study_keeps(here):
    federation = here.federation
    with federation.fitting():
        federation.keep(keeps_for_the_study)
        federation.keep(keeps_for_the_fit)
        np.testing.assert_allclose(federation.sum(uses_kept)["mean"], MEANS + 3.0)
    with federation.fitting():
        np.testing.assert_allclose(federation.sum(uses_kept)["mean"], MEANS)


def test_what_is_kept_belongs_to_its_view(here):
    federation = here.federation
    other = federation.select(["x2", "x1"])
    with federation.fitting():
        federation.keep(keeps_for_the_study)
        for view in (other, federation.folds(2, random_state=0)[0][0]):
            with pytest.raises(ReleaseRefusedError, match="nothing_kept"):
                view.sum(uses_kept)
        other.keep(keeps_for_the_study)
        np.testing.assert_allclose(other.sum(uses_kept)["mean"], MEANS[[2, 1]])


def test_a_symmetric_array_is_kept_as_its_triangle(here):
    federation = here.federation
    with federation.fitting():
        federation.keep(keeps_a_triangle)
        square = federation.sum(uses_triangle)["square"]
    np.testing.assert_allclose(square, POOLED.T @ POOLED, rtol=1e-13)


def test_another_study_sees_nothing_that_was_kept(here):
    first = Rogue(here, study="one").enter()
    first.step("session_silos.keeps_for_the_study")
    assert set(first.rules("session_silos.uses_kept").values()) == {""}
    second = Rogue(here, study="two").enter()
    rules = second.rules("session_silos.uses_kept")
    assert set(rules.values()) == {"nothing_kept"}
