"""Masks on integers: none in a total over all parties, and noise anywhere else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unpooled.secure.comparison.integer_masks import covered
from unpooled.secure.comparison.polynomial import Polynomial

ONE = Polynomial({("x",): 1.0, ("y",): 1.0}, {"x": 1, "y": 1}, fraction=0, bits=63)
PARTIES = "abcd"
INTEGERS = st.integers(-(2**62), 2**62 - 1)
ROWS = st.lists(st.lists(INTEGERS, min_size=3, max_size=3), min_size=2, max_size=2)


def keys_of(party):
    """A key for each pair, the same at both."""
    pairs = {peer: "".join(sorted(party + peer)) for peer in PARTIES if peer != party}
    return {peer: (pair * 16).encode() for peer, pair in pairs.items()}


def added(parts):
    return [
        [sum(xs) for xs in zip(*same, strict=True)] for same in zip(*parts, strict=True)
    ]


def masked(rows, contexts):
    return [
        covered(own, ONE, party, keys_of(party), context)
        for own, party, context in zip(rows, PARTIES, contexts, strict=True)
    ]


@pytest.mark.slow
@given(st.lists(ROWS, min_size=4, max_size=4))
def test_masks_cancel_in_the_total_over_all(rows):
    assert added(masked(rows, [b"asked"] * 4)) == added(rows)


def test_masks_do_not_cancel_in_smaller_sums_or_where_parties_were_asked_differently():
    nothing = [[0] * 50, [0] * 50]
    alike = masked([nothing] * 4, [b"asked"] * 4)
    differently = masked([nothing] * 4, [b"asked", b"asked", b"otherwise", b"asked"])
    for parts in (alike[:1], alike[:3], differently):
        # Of about 2^127: one of a hundred is smaller once in 2^30 times.
        assert min(abs(x) for row in added(parts) for x in row) > 2**90


def test_every_integer_has_masks_of_its_own():
    (first,), (second,) = (
        masked([[[0] * 50, [0] * 50]] * 4, [context] * 4)[:1]
        for context in (b"one", b"two")
    )
    seen = [x for rows in (first, second) for row in rows for x in row]
    assert len(set(seen)) == len(seen)
