"""Opened totals: the sums of random subsets of words show every wrong total."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unpooled.errors import AggregationError
from unpooled.secure.sums.fixed_point import BoundedCode, Code, WideCode
from unpooled.secure.sums.low_precision_code import LowPrecisionCode
from unpooled.secure.sums.masking import MaskedSum
from unpooled.secure.sums.total_check import (
    SUBSETS,
    check_sums,
    check_total,
    seal_sums,
)

KEY, CONTEXT = bytes(range(32)), b"study session round step name"
NAMES = ("east", "north", "south", "west", "upland", "coast")
CODES = {
    "wide": lambda m: WideCode(m),
    "bounded": lambda m: BoundedCode(m),
    "8 bits": lambda m: LowPrecisionCode(m, 8, CONTEXT),
    "16 bits": lambda m: LowPrecisionCode(m, 16, CONTEXT),
    "32 bits": lambda m: LowPrecisionCode(m, 32, CONTEXT),
}
EACH = pytest.mark.parametrize("name", list(CODES))
# Sizes on both sides of the switch from subsets to buckets, and of a chunk.
SIZES = (1, 13, 5000, 40_000)


def words_of(code: Code, d: int, rng: np.random.Generator) -> np.ndarray:
    """Masked words: uniform in the ring."""
    shape = code.shape(d)
    return np.frombuffer(rng.bytes(code.bytes(d)), code.word).reshape(shape).copy()


def replies(name: str, m: int, d: int) -> tuple[Code, dict[str, np.ndarray]]:
    rng = np.random.default_rng([m, d])
    code = CODES[name](m)
    return code, {party: words_of(code, d, rng) for party in NAMES[:m]}


def total_of(code: Code, parts: dict[str, np.ndarray]) -> np.ndarray:
    return MaskedSum().added(parts.values(), code)


def sealed(parts: dict[str, np.ndarray], context: bytes = CONTEXT) -> dict[str, bytes]:
    return {
        party: seal_sums(check_sums(words, KEY, context), KEY, party, context)
        for party, words in parts.items()
    }


def exactly(words: np.ndarray) -> list[int]:
    """The ring elements as whole numbers."""
    if words.ndim == 1:
        return [int(word) for word in words]
    return [sum(int(w) << 64 * i for i, w in enumerate(row)) for row in words]


@pytest.mark.thinned(1)
@EACH
@pytest.mark.parametrize("d", SIZES)
@pytest.mark.parametrize("m", [2, 3, 6])
def test_honest_totals_pass(name, d, m):
    code, parts = replies(name, m, d)

    check_total(total_of(code, parts), sealed(parts), KEY, CONTEXT)


@given(
    name=st.sampled_from(list(CODES)),
    values=st.lists(
        st.lists(st.floats(-1, 1), min_size=5, max_size=5), min_size=2, max_size=6
    ),
)
def test_honest_totals_of_any_values_pass(name, values):
    code = CODES[name](len(values))
    part = np.array(values) / len(values)
    parts = {p: code.encode(v) for p, v in zip(NAMES, part, strict=False)}

    check_total(total_of(code, parts), sealed(parts), KEY, CONTEXT)


@EACH
@pytest.mark.parametrize("d", SIZES)
def test_sums_are_those_of_the_chosen_words(name, d):
    words = replies(name, 2, d)[1]["east"]
    bits = 256 if words.ndim == 2 else 8 * words.itemsize
    # The subsets themselves, from the sums of words of which one is 1.
    picked = sorted({0, len(words) // 2, len(words) - 1})
    sparse, expected = np.zeros_like(words), [0] * SUBSETS
    for j in picked:
        one = np.zeros_like(words)
        one.flat[j * (4 if words.ndim == 2 else 1)] = 1
        subset = exactly(check_sums(one, KEY, CONTEXT))
        assert set(subset) <= {0, 1}
        sparse[j] = words[j]
        value = exactly(words[j : j + 1])[0]
        expected = [
            (e + s * value) % 2**bits for e, s in zip(expected, subset, strict=True)
        ]

    assert exactly(check_sums(sparse, KEY, CONTEXT)) == expected


@EACH
@pytest.mark.parametrize("d", [13, 5000])
def test_sums_are_linear(name, d):
    code, parts = replies(name, 3, d)
    sums = [check_sums(words, KEY, CONTEXT) for words in parts.values()]

    together = sums[0].copy()
    for other in sums[1:]:
        code.add(together, other)

    assert (together == check_sums(total_of(code, parts), KEY, CONTEXT)).all()


def refused(total: np.ndarray, sums: dict[str, bytes]) -> None:
    with pytest.raises(AggregationError) as raised:
        check_total(total, sums, KEY, CONTEXT)
    assert raised.value.rule == "wrong_total"


@pytest.mark.thinned
@EACH
@pytest.mark.parametrize("d", [1, 13, 5000])
def test_a_total_wrong_in_one_word_by_any_power_of_two_is_refused(name, d):
    code, parts = replies(name, 3, d)
    honest, sums = total_of(code, parts), sealed(parts)
    for bit in range(8 * honest[0].nbytes):
        forged, amount = honest.copy(), np.zeros_like(honest[:1])
        amount.view(np.uint8).flat[bit // 8] = 1 << bit % 8
        code.add(forged[-1:], amount)
        refused(forged, sums)


@EACH
def test_totals_wrong_in_two_words_by_half_the_ring_are_refused(name):
    code, parts = replies(name, 3, 40)
    honest, sums = total_of(code, parts), sealed(parts)
    half = np.zeros_like(honest[:1])
    half.view(np.uint8).flat[-1] = 0x80
    for first in range(0, 39):
        forged = honest.copy()
        for j in (first, first + 1):
            code.add(forged[j : j + 1], half)
        refused(forged, sums)


@EACH
def test_swapped_words_are_refused(name):
    code, parts = replies(name, 3, 50)
    honest, sums = total_of(code, parts), sealed(parts)
    first = next(j for j in range(50) if (honest[j] != honest[j + 1]).any())
    forged = honest.copy()
    forged[[first, first + 1]] = honest[[first + 1, first]]

    refused(forged, sums)


@EACH
def test_a_total_without_one_party_or_with_one_twice_is_refused(name):
    code, parts = replies(name, 4, 20)
    sums = sealed(parts)

    refused(total_of(code, {p: w for p, w in parts.items() if p != "west"}), sums)
    refused(total_of(code, parts | {"again": parts["west"]}), sums)


def test_a_subset_misses_a_wrong_word_half_of_the_time():
    wrong = np.zeros(100, np.uint64)
    wrong[[3, 77]] = 2**63
    caught = np.array(
        [(check_sums(wrong, KEY, b"%d" % i) != 0).sum() for i in range(200)]
    )

    # 200 x 64 fair coins: six standard deviations are 340.
    assert abs(caught.sum() - 200 * SUBSETS / 2) < 340


# Of words that are all zero, every subset has the sum zero under any key and context:
# what refuses these sums is that they cannot be opened.
NOTHING = np.zeros(9, np.uint64)


@pytest.mark.parametrize("change", ["party", "context", "key", "byte", "short"])
def test_sums_of_another_party_or_total_cannot_be_opened(change):
    data = seal_sums(check_sums(NOTHING, KEY, CONTEXT), KEY, "north", CONTEXT)
    check_total(NOTHING, {"north": data}, KEY, CONTEXT)
    # A nonce, the sums of 64-bit words, and a tag.
    assert len(data) == 12 + 8 * SUBSETS + 16
    party, context, key = "north", CONTEXT, KEY
    if change == "party":
        party = "south"
    elif change == "context":
        context = CONTEXT + b" of the next round"
    elif change == "key":
        key = bytes(32)
    elif change == "byte":
        data = data[:-1] + bytes([data[-1] ^ 1])
    else:
        data = data[:5]

    with pytest.raises(AggregationError) as raised:
        check_total(NOTHING, {party: data}, key, context)

    assert raised.value.rule == "wrong_total"


def test_a_name_and_a_context_cannot_be_exchanged():
    data = seal_sums(np.zeros(64, np.uint64), KEY, "north", b"er round")

    with pytest.raises(AggregationError):
        check_total(NOTHING, {"norther": data}, KEY, b" round")


def test_sums_of_another_code_are_refused():
    sums = check_sums(np.zeros(9, np.uint32), KEY, CONTEXT)
    data = {"north": seal_sums(sums, KEY, "north", CONTEXT)}

    refused(np.zeros(9, np.uint64), data)


def test_sums_cannot_be_told_without_the_key():
    words = np.arange(1, 200, dtype=np.uint64)

    ours, others = (check_sums(words, key, CONTEXT) for key in (KEY, bytes(32)))

    assert (ours == others).sum() < 10
    assert (ours != check_sums(words, KEY, b"the next round")).any()


def test_values_in_clear_have_no_exact_sums():
    with pytest.raises(TypeError, match="ring"):
        check_sums(np.zeros(3), KEY, CONTEXT)
