"""Masks: what an adversary holds is uniform, and one round never helps with another.

Chi-square over the 256 values of a byte has 255 degrees of freedom. The threshold is
its quantile at 1e-9, so that the few hundred tests of a run fail by chance once in
millions of runs; a leak of any structure lies thousands above it.
"""

import itertools
import math

import numpy as np
import pytest
import scipy.stats

from unpooled.arrays import Array
from unpooled.errors import AggregationError
from unpooled.party.operations import Rows, Select
from unpooled.party.request import Request, Veiled
from unpooled.party.step import release, summed
from unpooled.secure.fixed_point import BoundedCode, Code, WideCode
from unpooled.secure.masking import MaskedSum, unveil, veil
from unpooled.secure.message import decode
from wire import Rogue, Silos, silos

UNIFORM = scipy.stats.chi2.isf(1e-9, 255)
CODES = pytest.mark.parametrize("make", [WideCode, BoundedCode])
NAMES = "abcde"


def unevenness(words: Array) -> float:
    """Chi-square of the bytes against the uniform distribution."""
    counts = np.bincount(np.ascontiguousarray(words).view(np.uint8).ravel(), None, 256)
    return float(scipy.stats.chisquare(counts).statistic)


def masked_sums(seed: int | None = None) -> list[MaskedSum]:
    """Five parties that share keys, fresh or those of a seed."""
    rng = np.random.default_rng(seed)
    keys = {pair: rng.bytes(32) for pair in itertools.combinations(NAMES, 2)}
    return [
        MaskedSum(i, {j: keys[min(i, j), max(i, j)] for j in NAMES if j != i})
        for i in NAMES
    ]


def added(parts: list[Array], code: Code) -> Array:
    return MaskedSum().added(parts, code)


def conceal_all(
    sums: list[MaskedSum], values: Array, code: Code, context: bytes = b"context"
) -> list[Array]:
    return [
        party.conceal(part, code, context)
        for party, part in zip(sums, values, strict=True)
    ]


@CODES
def test_all_together_open_the_total(make):
    values = np.random.default_rng(1).uniform(-0.2, 0.2, (5, 1000))
    code = make(5)

    parts = conceal_all(masked_sums(), values, code)

    for order in (parts, parts[::-1], parts[2:] + parts[:2]):
        total = MaskedSum().reveal(iter(order), code)
        np.testing.assert_allclose(total, values.sum(axis=0), atol=1e-15)


@CODES
@pytest.mark.parametrize(
    "subset", [s for k in range(1, 5) for s in itertools.combinations(range(5), k)]
)
def test_totals_of_strict_subsets_look_uniform(make, subset):
    # Zeros are the worst case: without masks every byte is 0.
    code = make(5)
    parts = conceal_all(masked_sums(), np.zeros((5, 5000)), code)

    assert unevenness(added([parts[i] for i in subset], code)) < UNIFORM


@CODES
def test_differences_and_single_limbs_look_uniform(make):
    code = make(5)
    parts = conceal_all(masked_sums(), np.full((5, 20_000), 0.125), code)

    first, second = parts[0].copy(), parts[1]
    code.subtract(first, second)
    assert unevenness(first) < UNIFORM
    for column in np.atleast_2d(parts[0].T):
        assert unevenness(column) < UNIFORM
    # Neighbours on the wire are independent too.
    assert unevenness(np.diff(parts[0], axis=0)) < UNIFORM


@CODES
def test_view_without_the_last_party_tells_nothing(make):
    """A game: which of two inputs did the parties have? Nobody does better than a coin.

    By Hoeffding a fair coin deviates from T / 2 by more than e T with probability at
    most 2 exp(-2 T e^2), which is 1e-9 at the e below.
    """
    trials = 600
    e = math.sqrt(math.log(2e9) / (2 * trials))
    rng = np.random.default_rng(5)
    code = make(5)
    inputs = [np.full((5, 8), 0.19), np.full((5, 8), -0.01)]
    plain = [added([code.encode(v) for v in x[:4]], code) for x in inputs]
    wins: dict[str, int] = dict.fromkeys(
        ("nearest", "top bit", "bytes", "xor", "chosen mask"), 0
    )
    for _ in range(trials):
        secret = int(rng.integers(2))
        sums = masked_sums(int(rng.integers(2**62)))
        # The other inputs are the adversary's choice; four of five messages arrive.
        seen = added(conceal_all(sums, inputs[secret], code)[:4], code)
        guesses = {
            "nearest": _distance(seen, plain[0]) > _distance(seen, plain[1]),
            "top bit": (seen >> np.uint64(63)).sum() > seen.size / 2,
            "bytes": seen.view(np.uint8).mean() > 127.5,
            "xor": int(np.bitwise_xor.reduce(seen, axis=None)) % 2 == 1,
            "chosen mask": bool((seen & np.uint64(1)).sum() % 2),
        }
        for name, guess in guesses.items():
            wins[name] += int(guess) == secret
    assert all(abs(won - trials / 2) <= e * trials for won in wins.values()), wins
    # The game can be won: with the last message the inputs are told apart at once.
    whole = added(conceal_all(masked_sums(), inputs[0], code), code)
    assert code.decode(whole) == pytest.approx(5 * 0.19)


def _distance(seen: Array, expected: Array) -> float:
    difference = (seen - expected).astype(np.int64).astype(float)
    return float(np.abs(difference).sum())


@pytest.mark.parametrize("colluding", [1, 2, 3])
def test_colluding_parties_learn_the_sum_of_the_others_only(colluding):
    """c parties hand their keys over; the others stay hidden in their sum."""
    code, n = WideCode(5), 4000
    sums = masked_sums()
    parts = conceal_all(sums, np.zeros((5, n)), code)
    # Keys of the colluders take their masks off the honest messages.
    for honest in range(colluding, 5):
        for traitor in range(colluding):
            alone = MaskedSum(
                NAMES[honest], {NAMES[traitor]: sums[traitor]._keys[NAMES[honest]]}
            )
            code.subtract(parts[honest], alone.conceal(np.zeros(n), code, b"context"))
    honest_parts = parts[colluding:]

    assert not added(honest_parts, code).any()
    for k in range(1, len(honest_parts)):
        for some in itertools.combinations(honest_parts, k):
            assert unevenness(added(list(some), code)) < UNIFORM


# --- contexts -------------------------------------------------------------------------


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
    {"step": "scaler.local_observed"},
    {"to": "parties"},
    {"operations": (Select(("b", "a")),)},
    {"operations": (Select(("a", "b")), Rows(0, 5, 0.0, False, 1))},
    {"operations": (Select(("a", "b")), Rows(0, 5, 0.0, False, 2))},
    {"study": "heart\0s1", "session": ""},
    {"study": 'heart","s1', "session": "x"},
    {"session": 's1",1,"', "round": 1},
]


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
    assert not added(one, code).any()
    missing = 4
    seen = added(two[:missing], code)

    # What would strip the mask if rounds shared any of it.
    for known in (one[missing], added(one[:missing], code), *one[:missing]):
        for sign in (code.subtract, code.add):
            guess = seen.copy()
            sign(guess, known)
            assert unevenness(guess) < UNIFORM
            assert not np.intersect1d(seen, known).size


@CODES
def test_a_foreign_part_spoils_the_total(make):
    code = make(5)
    sums, values = masked_sums(), np.full((5, 64), 0.01)
    parts = conceal_all(sums, values, code)
    other_round = sums[4].conceal(values[4], code, b"another round")

    for wrong in (parts[:4], [*parts[:4], other_round], [*parts, parts[0]]):
        # 64 random words are all in the range with probability at most 2^-64.
        with pytest.raises(AggregationError, match="masks did not cancel"):
            MaskedSum().reveal(wrong, code)


def test_a_party_alone_has_no_masks():
    with pytest.raises(AggregationError, match="at least two") as refused:
        MaskedSum("a", {}).conceal(np.ones(3), WideCode(1), b"context")
    assert refused.value.rule == "min_parties"


# --- totals for the parties alone -----------------------------------------------------


@CODES
def test_a_veil_hides_the_total_and_comes_off(make):
    code, key = make(5), b"k" * 32
    values = np.full((5, 5000), 0.01)
    parts = conceal_all(masked_sums(), values, code)
    veil(parts[0], code, key, b"context")

    total = added(parts, code)

    assert unevenness(total) < UNIFORM
    before = total.copy()
    opened = unveil(total, code, key, b"context")
    np.testing.assert_allclose(opened, 0.05, atol=1e-15)
    assert (total == before).all()
    for wrong_key, context in ((b"K" * 32, b"context"), (key, b"another")):
        with pytest.raises(AggregationError):
            unveil(total, code, wrong_key, context)


SIZE = 600
_opened_in_silos: list[Array] = []


@summed(total=release(str(SIZE)))
def wide_constant(X: Array) -> dict[str, Array]:
    return {"total": np.full(SIZE, float(len(X)))}


@summed(takes={"total": "r"}, echo=release(""))
def uses_a_total(X: Array, *, total: Array) -> dict[str, Array]:
    _opened_in_silos.append(total)
    return {"echo": np.array(float(total.sum()))}


@pytest.fixture
def three() -> Silos:
    return silos()


def test_totals_for_the_parties_end_to_end(three):
    _opened_in_silos.clear()
    federation = three.federation
    with federation.fitting():
        veiled = federation.sum(wide_constant, to="parties")["total"]
        assert isinstance(veiled, Veiled)
        assert veiled.shape == (SIZE,)
        # To the coordinator, and to all that heard every message, it is noise ...
        assert unevenness(veiled.words) < UNIFORM
        parts = [
            decode(data).arrays["total"] for _, data in three.wire.of_kind("released")
        ]
        code = WideCode(3)
        for k in (1, 2, 3):
            for some in itertools.combinations(parts, k):
                assert unevenness(added(list(some), code)) < UNIFORM
        # ... and the parties open it when they are asked to use it.
        echo = federation.sum(uses_a_total, total=veiled)["echo"]
    assert [o.tolist() for o in _opened_in_silos] == 3 * [[90.0] * SIZE]
    assert echo == 3 * 90.0 * SIZE
    assert three.ledger.verify(three.roster)
    assert [(x.name, x.visibility, x.direction) for x in three.ledger] == [
        ("total", "summed", "out"),
        ("total", "summed", "in"),
        ("echo", "summed", "out"),
    ]


def test_the_same_step_twice_on_the_wire(three):
    """Everything of round 1 and the opened totals say nothing of c in round 2."""
    federation = three.federation
    with federation.fitting():
        for _ in range(2):
            assert (federation.sum(wide_constant)["total"] == 90.0).all()
    with federation.fitting():
        federation.sum(wide_constant)
    heard = [(p, decode(data).arrays) for p, data in three.wire.of_kind("released")]
    rounds = [dict(heard[start : start + 3]) for start in (0, 3, 6)]
    code = WideCode(3)
    for earlier, later in itertools.combinations(rounds, 2):
        for sign in (code.add, code.subtract):
            for helper in (earlier["c"], earlier["a"], later["a"], later["b"]):
                guess = later["c"]["total"].copy()
                sign(guess, helper["total"])
                assert unevenness(guess) < UNIFORM


def test_a_veiled_total_serves_one_fit_and_one_name(three):
    federation = three.federation
    with federation.fitting():
        veiled = federation.sum(wide_constant, to="parties")["total"]
    with federation.fitting(), pytest.raises(Exception, match="out_of_order"):
        federation.sum(uses_a_total, total=veiled)
    with federation.fitting():
        veiled = federation.sum(wide_constant, to="parties")["total"]
        for other in (
            Veiled(veiled.round + 1, "total", veiled.shape, veiled.words, "uint256"),
            Veiled(veiled.round, "echo", veiled.shape, veiled.words, "uint256"),
        ):
            with pytest.raises(Exception, match="out_of_order"):
                federation.sum(uses_a_total, total=other)
        altered = veiled.words.copy()
        altered[0, 3] ^= np.uint64(2**62)
        with pytest.raises(AggregationError):
            federation.sum(
                uses_a_total,
                total=Veiled(veiled.round, "total", (SIZE,), altered, "uint256"),
            )


def test_without_the_group_key_nothing_is_veiled(three):
    # A coordinator that skips the group key gets a refusal, not an open total.
    rogue = Rogue(three).enter()

    rules = rogue.rules("test_masking.wide_constant", to="parties")

    assert rules["a"] == "out_of_order"
    assert rules["b"] == rules["c"] == ""


def test_the_group_key_passes_the_relay_sealed(three):
    federation = three.federation
    with federation.fitting():
        federation.sum(wide_constant, to="parties")
    offers = [decode(data) for _, data in three.wire.of_kind("group")]
    assert len(offers) == 1
    sealed = offers[0].header["sealed"]
    assert set(sealed) == {"b", "c"}
    assert len(set(sealed.values())) == 2
    # 12 bytes of nonce, 32 of key, 16 of tag.
    assert {len(bytes.fromhex(text)) for text in sealed.values()} == {60}
