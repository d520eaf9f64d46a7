"""Numbers in 8, 16 or 32 bits: unbiased, never clipped, and noise to who has a part."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unpooled.errors import AggregationError
from unpooled.secure.sums.fixed_point import SLACK
from unpooled.secure.sums.low_precision_code import LowPrecisionCode
from unpooled.secure.sums.masking import MaskedSum

WIDTHS = pytest.mark.parametrize("bits", [8, 16, 32])


def scale(bits, m):
    """Codes of the bound: one of room for each party at either end, and the slack."""
    return int((2 ** (bits - 1) - 1 - m) / SLACK)


def total_of(parts, bits, context=b"context"):
    m = len(parts)
    codes = [LowPrecisionCode(m, bits, context, party) for party in range(m)]
    words = codes[0].encode(parts[0])
    for code, part in zip(codes[1:], parts[1:], strict=True):
        code.add(words, code.encode(part))
    return LowPrecisionCode(m, bits, context).decode(words)


@pytest.mark.thinned(1)
@WIDTHS
@pytest.mark.parametrize("m", [1, 2, 5, 60])
def test_totals_are_right_to_half_a_code_a_party(bits, m):
    parts = np.random.default_rng(1).uniform(-1, 1, (m, 70_000)) / m
    error = np.abs(total_of(parts, bits) - parts.sum(axis=0))
    # And the rounding of float64 in values divided by the scale.
    assert error.max() <= m / 2 / scale(bits, m) + 1e-14


@WIDTHS
def test_totals_at_the_bound_do_not_wrap(bits):
    m = 5
    parts = np.outer(np.full(m, 1 / m), [1.0, -1.0, 1.0, -1.0] * 5000)
    error = np.abs(total_of(parts, bits) - parts.sum(axis=0))
    assert error.max() <= m / 2 / scale(bits, m) + 1e-14


@pytest.mark.parametrize("value", [0.0, 0.3, 0.4999])
def test_errors_have_mean_zero_and_a_variance_that_no_value_changes(value):
    # A value between two codes, and one on a code, 20,000 times.
    m, n = 4, 20_000
    code = 1 / scale(8, m)
    parts = np.full((m, n), (3 + value) * code)
    errors = (total_of(parts, 8) - parts.sum(axis=0)) / code
    # Standard errors of a mean and of a variance, times 5.
    assert abs(errors.mean()) <= 5 * np.sqrt(m / 12 / n)
    assert abs(errors.var() - m / 12) <= 5 * m / 12 * np.sqrt(2 / n)


def test_dithers_differ_by_party_and_by_context():
    value = np.zeros(1000)
    parts = [LowPrecisionCode(3, 16, b"a", party)._dither(party) for party in range(3)]
    drawn = [next(part) for part in parts]
    for one, other in itertools.combinations(drawn, 2):
        assert abs(np.corrcoef(one, other)[0, 1]) < 0.05
    # Of another context: the total is opened with the wrong dithers taken away.
    words = LowPrecisionCode(1, 16, b"a").encode(value)
    assert np.abs(LowPrecisionCode(1, 16, b"b").decode(words)).max() > 0


@WIDTHS
def test_encoding_twice_gives_the_same_bytes(bits):
    # Two roundings under one mask would differ by nothing but themselves, in clear.
    value = np.random.default_rng(2).uniform(-1, 1, 100)
    first, second = (LowPrecisionCode(3, bits, b"c", 1).encode(value) for _ in range(2))
    np.testing.assert_array_equal(first, second)


@pytest.mark.thinned(1)
@WIDTHS
@given(st.binary(max_size=12), st.integers(1, 40))
def test_bytes_are_counted_as_they_travel(bits, context, d):
    code = LowPrecisionCode(3, bits, context)
    words = code.encode(np.zeros(d))
    assert words.dtype == code.word == f"uint{bits}"
    assert words.shape == code.shape(d)
    assert words.nbytes == code.bytes(d) == d * bits // 8 + 16


@WIDTHS
def test_masks_that_do_not_cancel_show(bits):
    keys = {peer: bytes([i]) * 32 for i, peer in enumerate("bc", 1)}
    code = LowPrecisionCode(3, bits, b"context", 0)
    words = MaskedSum("a", keys).conceal(np.zeros(40), code, b"context")
    with pytest.raises(AggregationError, match="masks did not cancel"):
        LowPrecisionCode(3, bits, b"context").decode(words)


@WIDTHS
def test_masked_totals_are_those_in_clear(bits):
    names, d = "abcd", 300_000
    keys = {
        pair: bytes(map(ord, pair)) * 16 for pair in itertools.combinations(names, 2)
    }
    parts = np.random.default_rng(3).uniform(-0.2, 0.2, (4, d))
    concealed = []
    for place, name in enumerate(names):
        shared = {o: keys[min(name, o), max(name, o)] for o in names if o != name}
        code = LowPrecisionCode(4, bits, b"context", place)
        concealed.append(MaskedSum(name, shared).conceal(parts[place], code, b"x"))
    code = LowPrecisionCode(4, bits, b"context")
    total = code.decode(MaskedSum().added(concealed, code))
    np.testing.assert_array_equal(total, total_of(parts, bits))


@WIDTHS
@pytest.mark.parametrize("bad", [np.nan, np.inf, 1.001, -1.001])
def test_nothing_is_clipped(bits, bad):
    with pytest.raises(AggregationError, match="not finite or exceeds"):
        LowPrecisionCode(3, bits).encode(np.array([0.0, bad]))


@WIDTHS
@pytest.mark.parametrize("beyond", [1.0 + 2.0**-21, -SLACK])
def test_what_rounding_moved_beyond_the_bound_is_not_clipped(bits, beyond):
    m = 3
    parts = np.outer(np.eye(m)[0], np.full(1000, beyond))
    error = np.abs(total_of(parts, bits) - beyond)
    assert error.max() <= m / 2 / scale(bits, m) + 1e-14


@pytest.mark.parametrize("bits", [4, 64, 16.0, True, "16", None])
def test_other_widths_are_refused(bits):
    with pytest.raises(AggregationError, match="8, 16, 32 or 64"):
        LowPrecisionCode(3, bits)


def test_more_parties_than_rounding_has_room_for():
    LowPrecisionCode(63, 8)
    with pytest.raises(AggregationError, match=r"8 bits have no room .* use 16"):
        LowPrecisionCode(64, 8)
