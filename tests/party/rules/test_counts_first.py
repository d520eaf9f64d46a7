"""What a silo accepts as the counts over all silos, one column or class at a time."""

import numpy as np
import pytest

import unpooled as up
from unpooled.arrays import Array
from unpooled.models.discriminant.classes import local_class_counts, local_class_totals
from unpooled.models.moments import local_counts, local_observed
from unpooled.party.rules.counts_first import CountsFirst
from unpooled.protocol.refusal import Refusal
from unpooled.protocol.step import Step

OWN = np.array([30.0, 12.0, 20.0])
STEPS = {
    "cells": (local_counts, local_observed),
    "classes": (local_class_counts, local_class_totals),
}


def own(step: Step) -> dict[str, Array]:
    return {name: OWN for name, one in step.declared.items() if one.counts}


def judged(what: str, told: Array) -> None:
    """Judge counts that the silo is told, after it sent its own."""
    counting, summing = STEPS[what]
    rule = CountsFirst(up.Policy(), "rows")
    rule.check(counting, "view", {}, own(counting))
    rule.check(summing, "view", {"count": told}, own(summing))


@pytest.mark.parametrize("what", STEPS)
def test_counts_no_smaller_than_the_silos_own_pass(what):
    judged(what, OWN)
    judged(what, OWN + np.array([60.0, 0.0, 5.0]))


@pytest.mark.parametrize("what", STEPS)
@pytest.mark.parametrize("place", range(3))
def test_a_single_count_below_the_silos_own_is_refused(what, place):
    told = OWN + 60.0
    told[place] = OWN[place] - 1.0

    with pytest.raises(Refusal, match="public_bound"):
        judged(what, told)
