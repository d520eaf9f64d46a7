"""Masks of different releases have nothing in common."""

import itertools

import numpy as np
import pytest

from masked_parties import UNIFORM, added, conceal_all, masked_sums, unevenness
from unpooled.protocol.request import Request
from unpooled.protocol.view_operations import Rows, Select
from unpooled.secure.sums.fixed_point import BoundedCode, WideCode


def base_request(**changes: object) -> Request:
    fields: dict[str, object] = {
        "study": "heart",
        "session": "s1",
        "round": 1,
        "step": "pca.local_total",
        "to": "coordinator",
        "operations": (Select(("a", "b")),),
        "public": {},
    }
    return Request(**(fields | changes))  # type: ignore[arg-type]


CHANGES = [
    {},
    {"study": "heart2"},
    {"session": "s2"},
    {"round": 2},
    {"round": 11},
    {"step": "scaler.local_counts"},
    {"to": "parties"},
    {"operations": (Select(("b", "a")),)},
    {"operations": (Select(("a", "b")), Rows(0, 5, 0.0, False, 1))},
    {"operations": (Select(("a", "b")), Rows(0, 5, 0.0, False, 2))},
    {"study": "heart\0s1", "session": ""},
    {"study": 'heart","s1', "session": "x"},
    {"session": 's1",1,"', "round": 1},
]


@pytest.mark.slow
def test_every_context_has_masks_of_its_own():
    code, sums = WideCode(2), masked_sums(7)[0]
    contexts = [base_request(**c).context(n) for c in CHANGES for n in ("a", "b")]
    contexts += [b"veil" + context for context in contexts]
    assert len(set(contexts)) == 4 * len(CHANGES)

    masks = [sums.conceal(np.zeros(400), code, context) for context in contexts]

    for first, second in itertools.combinations(masks, 2):
        difference = first.copy()
        code.subtract(difference, second)
        # No number is masked by the same word, at the same place or elsewhere.
        assert not np.intersect1d(first, second).size
        assert unevenness(difference) < UNIFORM


def test_the_same_context_gives_the_same_bytes():
    code, value = BoundedCode(5), np.linspace(-1, 1, 100)
    first = [s.conceal(value, code, b"round 1") for s in masked_sums(3)]
    again = [s.conceal(value, code, b"round 1") for s in masked_sums(3)]

    assert all((a == b).all() for a, b in zip(first, again, strict=True))
    # Longer than one chunk of key stream, and no stretch of it comes twice.
    long = masked_sums(3)[0].conceal(np.zeros(2**16 + 5), code, b"round 1")
    assert len(np.unique(long)) == long.size


def test_round_one_does_not_help_with_round_two():
    """All of round 1, its total opened, and round 2 but for one message."""
    code, n = WideCode(5), 4000
    sums = masked_sums()
    one = conceal_all(sums, np.zeros((5, n)), code, b"round 1")
    two = conceal_all(sums, np.zeros((5, n)), code, b"round 2")
    assert not added(one, code)[:-1].any()
    missing = 4
    seen = added(two[:missing], code)

    # What would strip the mask if rounds shared any of it.
    for known in (one[missing], added(one[:missing], code), *one[:missing]):
        for sign in (code.subtract, code.add):
            guess = seen.copy()
            sign(guess, known)
            assert unevenness(guess) < UNIFORM
            assert not np.intersect1d(seen, known).size
