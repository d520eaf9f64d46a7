"""Numbers as words: exact sums are the oracle, nothing is ever clipped or wrapped."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from unpooled.errors import AggregationError
from unpooled.secure.sums.fixed_point import BoundedCode, Code, WideCode
from unpooled.secure.sums.low_precision_code import LowPrecisionCode

CODES = pytest.mark.parametrize("make", [WideCode, BoundedCode])
# One rounding to the quantum per party, 2^-129, and two units in the last place of the
# total when it is opened.
WIDE_QUANTUM = Fraction(1, 2**128)
EPS = Fraction(2) ** -52


def total_of(code: Code, parts: np.ndarray) -> np.ndarray:
    """What is opened when every row of `parts` is one party's vector."""
    words = code.encode(parts[0])
    for part in parts[1:]:
        code.add(words, code.encode(part))
    return code.decode(words)


def alone(code: Code, values: np.ndarray, m: int) -> np.ndarray:
    """What is opened when all other parties' vectors are zero."""
    return total_of(code, np.vstack([values, np.zeros((m - 1, len(values)))]))


def exact(parts: np.ndarray) -> list[Fraction]:
    return [sum(map(Fraction, column), Fraction()) for column in parts.T]


@pytest.mark.parametrize("scale", [10.0**k for k in range(-8, 9, 2)])
@pytest.mark.parametrize("mean", [0.0, 1.0, 1e8])
@pytest.mark.parametrize("n_parties", [2, 3, 7])
def test_wide_totals_are_the_exact_ones(scale, mean, n_parties):
    rng = np.random.default_rng(3)
    parts = scale * (mean + rng.standard_normal((n_parties, 40)))

    total = total_of(WideCode(n_parties), parts)

    for ours, true in zip(total, exact(parts), strict=True):
        error = abs(Fraction(ours) - true)
        assert error <= n_parties * WIDE_QUANTUM + 2 * EPS * abs(true)
        # What the design promises, of the bound sum |x|.
        assert error <= Fraction(1, 10**12) * Fraction(scale * n_parties * (mean + 1))


@pytest.mark.slow
@pytest.mark.parametrize("n_parties", [1, 2, 3, 4, 5, 6, 33, 1000])
def test_bounded_totals_are_the_exact_ones(n_parties):
    rng = np.random.default_rng(4)
    parts = rng.uniform(-1, 1, (n_parties, 40)) / n_parties

    total = total_of(BoundedCode(n_parties), parts)

    # Each party rounds to a quantum of at most 2 n_parties 2^-62.
    allowed = n_parties * Fraction(2 * n_parties, 2**63) + EPS
    for ours, true in zip(total, exact(parts), strict=True):
        assert abs(Fraction(ours) - true) <= allowed < Fraction(1, 10**12)


def test_cancelling_totals_keep_their_digits():
    # In float64 the small value would be gone: 1e30 + 1 - 1e30 = 0.
    parts = np.array([[1e30], [1.0 + 2.0**-40], [-1e30]])

    assert total_of(WideCode(3), parts) == [1.0 + 2.0**-40]


@given(
    st.lists(st.floats(-1e37, 1e37, allow_nan=False), min_size=2, max_size=6),
)
@example([5e-324, -5e-324])
@example([-0.0, -0.0])
@example([2.0**-129, 2.0**-129])
@example([-(2.0**-128), 2.0**-128])
@example([2.0**63, -(2.0**63), 2.0**64, -(2.0**64)])
@example([-1.0, 2.0**-128])
def test_wide_encoding_is_homomorphic(values):
    parts = np.array(values)[:, None]
    code = WideCode(len(values))

    total = Fraction(float(total_of(code, parts)[0]))

    error = abs(total - exact(parts)[0])
    assert error <= len(values) * WIDE_QUANTUM + 2 * EPS * abs(exact(parts)[0])


@given(st.lists(st.floats(-1, 1), min_size=2, max_size=6))
@example([5e-324, -0.0])
@example([1.0, -1.0])
def test_bounded_encoding_is_homomorphic(values):
    parts = np.array(values)[:, None] / len(values)

    total = Fraction(float(total_of(BoundedCode(len(values)), parts)[0]))

    assert abs(total - exact(parts)[0]) <= Fraction(1, 2**50)


@pytest.mark.thinned(1)
@given(
    values=st.lists(st.floats(-1, 1), min_size=1, max_size=5),
    pads=st.lists(st.binary(min_size=32, max_size=32), min_size=5, max_size=5),
)
@pytest.mark.parametrize("make", [WideCode, BoundedCode])
def test_subtracting_undoes_adding(make, values, pads):
    code = make(3)
    words = code.encode(np.array(values))
    before = words.copy()
    pad = np.resize(np.frombuffer(b"".join(pads), np.uint64), words.shape)

    code.add(words, pad)
    code.subtract(words, pad)

    assert (words == before).all()


@given(st.integers(-(2**255), 2**255 - 1), st.integers(-(2**255), 2**255 - 1))
@example(-1, 1)
@example(2**64 - 1, 1)
@example(2**192 - 1, 1)
@example(-(2**255), -(2**255))
def test_limbs_carry_as_integers_do(a, b):
    def limbs(value: int) -> np.ndarray:
        data = (value % 2**256).to_bytes(32, "little")
        return np.frombuffer(data, np.uint64).reshape(1, 4).copy()

    code, words = WideCode(2), limbs(a)
    code.add(words, limbs(b))
    assert (words == limbs(a + b)).all()

    words = limbs(a)
    code.subtract(words, limbs(b))
    assert (words == limbs(a - b)).all()


@given(st.lists(st.integers(0, 2**256 - 1), min_size=1, max_size=6))
@example([2**256 - 1] * 6)
@example([2**64 - 1, 1])
@example([2**32 - 1, 1, 2**255])
def test_sums_of_many_arrays_carry_as_integers_do(numbers):
    data = b"".join(number.to_bytes(32, "little") for number in numbers)
    parts = np.frombuffer(data, np.uint64).reshape(len(numbers), 1, 4)

    total = WideCode(2).summed(parts)

    assert int.from_bytes(total.tobytes(), "little") == sum(numbers) % 2**256


@CODES
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e308, -1e308])
def test_what_has_no_word_is_refused(make, bad):
    with pytest.raises(AggregationError) as refused:
        make(3).encode(np.array([0.0, bad, 0.5]))

    assert refused.value.rule in ("fixed_point_range", "public_bound")
    assert str(bad) not in str(refused.value)


@pytest.mark.parametrize("n_parties", [2, 3, 5, 8])
def test_wide_range_ends_where_it_says(n_parties):
    code, edge = WideCode(n_parties), 2.0**126 / n_parties
    below = np.nextafter(edge, 0)

    total = alone(code, np.array([below, -below]), n_parties)
    assert abs(total) == pytest.approx(below, rel=1e-15)
    for beyond in (edge, -edge, np.nextafter(edge, np.inf)):
        with pytest.raises(AggregationError, match="range of the wide code"):
            code.encode(np.array([beyond]))
    # All parties at the edge together stay within the range of a total.
    parts = np.full((n_parties, 1), below)
    assert total_of(code, parts) == pytest.approx(n_parties * below, rel=1e-15)


def test_bounded_range_ends_where_it_says():
    code = BoundedCode(3)
    slack = 1.0 + 2.0**-20

    assert alone(code, np.array([1.0, -1.0]), 3).tolist() == [1.0, -1.0]
    assert alone(code, np.array([slack]), 3) == pytest.approx(slack)
    for beyond in (np.nextafter(slack, 2), -np.nextafter(slack, 2), 1.5):
        with pytest.raises(AggregationError) as refused:
            code.encode(np.array([0.0, beyond]))
        assert refused.value.rule == "public_bound"


@pytest.mark.parametrize("n_parties", range(2, 40))
def test_bounded_totals_never_wrap(n_parties):
    # Each party keeps the bound and all together break it: with 64 bits and a quantum
    # of 2^-62, a total of 4 bounds would have come back as 0, and one of 5 as 1.
    parts = np.ones((n_parties, 2)) * [1.0, -1.0]

    with pytest.raises(AggregationError, match="outside the range"):
        total_of(BoundedCode(n_parties), parts)


@CODES
def test_words_that_are_no_total_are_refused(make):
    code = make(3)
    # 2^62 is far from zero in either code, and so is its negation.
    words = code.encode(np.zeros(2))
    for _ in range(2):
        code.add(words, code.encode(np.zeros(2)))
    assert (code.decode(words.copy()) == 0).all()
    words[(0, *[-1] * (words.ndim - 1))] = 2**62 + 2**61
    words[(1, *[-1] * (words.ndim - 1))] = 2**64 - 2**62 - 2**61

    with pytest.raises(AggregationError, match="masks did not"):
        code.decode(words)


@pytest.mark.parametrize("guard", [-1, -2])
def test_each_word_that_counts_the_parties_is_judged_by_itself(guard):
    code = BoundedCode(3)
    words = code.encode(np.zeros(2))
    for _ in range(2):
        code.add(words, code.encode(np.zeros(2)))
    assert (code.decode(words.copy()) == 0).all()
    words[guard] += np.uint64(1)

    with pytest.raises(AggregationError, match="masks did not"):
        code.decode(words)


def test_the_lowest_word_is_no_total():
    # -2^255 is its own negation: a sign bit alone must not decode as something small.
    words = np.array([[0, 0, 0, 2**63], [2, 0, 0, 0]], np.uint64)

    with pytest.raises(AggregationError):
        WideCode(2).decode(words)
    with pytest.raises(AggregationError):
        BoundedCode(2).decode(np.array([2**63, 2, 2], np.uint64))


@CODES
def test_zero_has_one_word(make):
    code, values = make(3), np.array([0.0, -0.0, 5e-324, -5e-324, -(2.0**-200)])

    assert (code.encode(values) == code.encode(np.zeros(5))).all()
    assert np.signbit(alone(code, values, 3)).sum() == 0


@CODES
@pytest.mark.parametrize("d", [0, 1, 2**15 - 1, 2**15, 2**15 + 1])
def test_lengths(make, d):
    code = make(3)
    values = np.linspace(-1, 1, d)

    words = code.encode(values)

    assert words.shape == code.shape(d)
    assert words.nbytes == d * code.bytes_per_number + max(code.bytes_per_number, 16)
    assert words.nbytes == code.bytes(d)
    assert np.abs(alone(code, values, 3) - values).max(initial=0) <= 2.0**-52


def test_encoding_leaves_the_values_alone():
    values = np.array([1.0, -(2.0**-60), 0.25])
    for code in (WideCode(3), BoundedCode(3)):
        code.encode(values)
    assert values.tolist() == [1.0, -(2.0**-60), 0.25]


@pytest.mark.parametrize("d", [1, 5])
@pytest.mark.parametrize("marking", [1, 2, 3])
@pytest.mark.parametrize(
    "make", [WideCode, BoundedCode, lambda m: LowPrecisionCode(m, 16)]
)
def test_one_part_of_noise_makes_the_total_unreadable(make, marking, d):
    for _ in range(20):
        code = make(3)
        parts = [code.noise(d) for _ in range(marking)]
        parts += [code.encode(np.full(d, 0.1)) for _ in range(3 - marking)]
        words = parts[0]
        for part in parts[1:]:
            code.add(words, part)
        with pytest.raises(AggregationError, match="no") as refused:
            code.decode(words)
        assert refused.value.rule == "fixed_point_range"
