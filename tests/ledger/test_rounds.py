"""Rounds that exchange the same arrays are told once, and none is lost."""

import dataclasses

import pytest

import unpooled as up
from report_pages import rows
from unpooled.ledger.rounds import equal_rounds, round_numbers, rounds_label


@pytest.fixture(scope="module")
def line():
    federation = up.simulate(up.partition_rows(rows(), 4))
    up.PCA(2).fit(federation)
    return federation.ledger[0]


def told(line, steps):
    lines = [
        dataclasses.replace(line, round=i + 1, step=step)
        for i, step in enumerate(steps)
    ]
    groups = equal_rounds(lines)
    assert sorted(x.round for g in groups for r in g for x in r) == [
        *range(1, len(steps) + 1)
    ]
    return [(g[0][0].step, round_numbers([r[0].round for r in g])) for g in groups]


def test_equal_rounds_in_a_row_are_one_group(line):
    assert told(line, "abbbc") == [("a", "1"), ("b", "2 to 4"), ("c", "5")]


def test_few_kinds_keep_their_order_and_many_that_alternate_do_not(line):
    assert told(line, "abab") == [("a", "1"), ("b", "2"), ("a", "3"), ("b", "4")]
    assert told(line, "ab" * 50) == [
        ("a", "1 to 99, 50 of them"),
        ("b", "2 to 100, 50 of them"),
    ]


@pytest.mark.parametrize("other", [{"peers": ("x",)}, {"bytes": 1}, {"shape": (9,)}])
def test_rounds_that_differ_in_anything_but_time_are_not_equal(line, other):
    lines = [line, dataclasses.replace(line, round=2, **other)]

    assert len(equal_rounds(lines)) == 2
    same = [line, dataclasses.replace(line, round=2, time="later")]
    assert len(equal_rounds(same)) == 1


def test_labels():
    assert rounds_label([3]) == "Round 3"
    assert rounds_label([3, 4, 5]) == "Rounds 3 to 5"
    assert rounds_label([3, 5, 9]) == "Rounds 3 to 9, 3 of them"
