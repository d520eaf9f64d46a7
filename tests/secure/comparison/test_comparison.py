"""Signs of polynomials of totals, computed by real MPyC processes."""

import os
import signal
import subprocess
import sys
import tempfile
import time

import numpy as np
import pytest
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from unpooled.errors import AggregationError
from unpooled.secure.comparison.blinded_signs import ROUNDS
from unpooled.secure.comparison.polynomial import Polynomial
from unpooled.secure.comparison.protocol import Computation

pytest.importorskip("mpyc")
CUBIC = Polynomial(
    {("a", "b"): 1.0, ("a", "a", "a"): -1.0, ("b",): 2.0, (): -0.25},
    {"a": 1, "b": 2},
    fraction=20,
    bits=127,
)


def began(m=3, certificates=None):
    parties = [Computation(i, m) for i in range(m)]
    addresses = [("127.0.0.1", party.port) for party in parties]
    known = [party.certificate for party in parties]
    for i, party in enumerate(parties):
        party.begin(addresses, (certificates or {}).get(i, known))
    return parties


@pytest.fixture(scope="module")
def parties():
    parties = began()
    for party in parties:
        party.tested()
    yield parties
    for party in parties:
        party.close()


def ask(parties, polynomial, values):
    for party, own in zip(parties, values, strict=True):
        party.ask(polynomial, polynomial.integers(own))
    found = [party.found() for party in parties]
    return [(polynomial.opened(words, ["s"])["s"], spent) for words, spent in found]


def test_every_sign_is_that_of_exact_integers(parties):
    rng, q = np.random.default_rng(0), 40
    values = [
        {"a": rng.normal(size=q), "b": rng.normal(size=q) * 10.0 ** rng.integers(-9, 3)}
        for _ in parties
    ]

    answers = ask(parties, CUBIC, values)

    rows = [CUBIC.integers(own) for own in values]
    a, b = [
        [sum(entries) for entries in zip(*name, strict=True)]
        for name in zip(*rows, strict=True)
    ]
    one = 2**20
    exact = [
        x * y - x**3 + 2 * y * one - one**3 // 4 < 0 for x, y in zip(a, b, strict=True)
    ]
    for negative, _ in answers:
        assert negative.tolist() == exact


def test_signs_about_zero_and_at_the_ends_of_the_ring(parties):
    plain = Polynomial({("a",): 1.0}, {"a": 1}, fraction=0, bits=63)
    ends = np.array([0.0, 1.0, -1.0, 2.0**61, -(2.0**61), 2.0**53 - 1])
    nothing = {"a": np.zeros(6)}
    for negative, _ in ask(parties, plain, [{"a": ends}, nothing, nothing]):
        assert negative.tolist() == [False, False, True, False, True, False]


@pytest.mark.parametrize(("degree", "further"), [(1, 0), (2, 1), (3, 2)])
def test_shares_of_a_sum_take_no_round_among_three(degree, further):
    """Totals of three parties are shares; for products they are shared anew."""
    one = Polynomial({("a",) * degree: 1.0}, {"a": 1}, fraction=8, bits=63)
    assert one.rounds(3) == ROUNDS + further
    # Those of four are shared among three first.
    assert one.rounds(4) == ROUNDS + max(further, 1)


@pytest.mark.thinned
@pytest.mark.parametrize("bits", [63, 127, 207])
@pytest.mark.parametrize("degree", [1, 2, 3])
def test_rounds_and_bytes_are_the_ones_planned(parties, bits, degree):
    check_cost(parties, bits, degree)


def check_cost(parties, bits, degree):
    one = Polynomial({("a",) * degree: 1.0}, {"a": 1}, fraction=8, bits=bits)
    m, values = len(parties), [{"a": np.ones(30)}] * len(parties)
    spent = [cost for _, cost in ask(parties, one, values)]
    # Both are of the party with the most.
    assert max(round(rounds) for rounds, _, _ in spent) == one.rounds(m)
    planned = one.rounds(m) * one.bytes("s", (30,), m, {})
    assert max(sent for _, sent, _ in spent) == pytest.approx(planned, rel=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("m", [4, 5])
def test_four_and_five_parties_find_the_same_signs(m):
    parties = began(m)
    try:
        for party in parties:
            party.tested()
        rng = np.random.default_rng(m)
        values = [{"a": rng.normal(size=40)} for _ in parties]
        square = Polynomial({("a", "a"): 1.0, (): -1.0}, {"a": 1}, fraction=8, bits=63)
        rows = [square.integers(own)[0] for own in values]
        exact = [sum(entries) ** 2 < 2**16 for entries in zip(*rows, strict=True)]
        for negative, _ in ask(parties, square, values):
            assert negative.tolist() == exact
        for degree in (1, 3):
            check_cost(parties, 127, degree)
    finally:
        for party in parties:
            party.close()


def test_more_bits_than_three_parties_compare_are_refused():
    with pytest.raises(ValueError, match="bits=250: at most 249"):
        Polynomial({("a",): 1.0}, {"a": 1}, fraction=8, bits=250)


@pytest.mark.slow
def test_a_peer_with_another_certificate_is_not_talked_to():
    stranger = Computation(1, 3)
    parties = [Computation(i, 3) for i in range(3)]
    addresses = [("127.0.0.1", party.port) for party in parties]
    known = [party.certificate for party in parties]
    others = [known[0], stranger.certificate, known[2]]
    for i, party in enumerate(parties):
        party.begin(addresses, others if i == 0 else known)
    with pytest.raises(AggregationError, match="stopped computing"):
        parties[0].found(timeout=3.0)
    for party in (*parties, stranger):
        party.close()


@pytest.mark.slow
def test_a_party_that_dies_ends_in_an_error():
    parties = began()
    for party in parties:
        party.tested()
    parties[2].close()
    try:
        for party in parties[:2]:
            party.ask(CUBIC, CUBIC.integers({"a": np.ones(2), "b": np.ones(2)}))
            with pytest.raises(AggregationError, match="stopped computing"):
                party.found(timeout=30.0)
    finally:
        # A process left behind would fail whichever test runs next.
        for party in parties:
            party.close()


def test_a_key_in_a_file_opens_nothing_without_the_password(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    party = Computation(0, 3)
    try:
        (key,) = tmp_path.rglob("party_0.key")
        assert key.parent.stat().st_mode & 0o077 == 0
        with pytest.raises(TypeError, match="assword"):
            load_pem_private_key(key.read_bytes(), None)
    finally:
        party.close()
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_no_file_is_left_once_processes_compute(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    parties = began()
    try:
        assert len(list(tmp_path.rglob("*.key"))) == 3
        for party in parties:
            party.tested()
        assert not list(tmp_path.iterdir())
        values = [{"a": np.array([float(i)]), "b": np.zeros(1)} for i in range(3)]
        for negative, _ in ask(parties, CUBIC, values):
            assert negative.tolist() == [True]  # -27 - 1/4
    finally:
        for party in parties:
            party.close()


@pytest.mark.slow
def test_a_process_ends_when_its_parent_is_gone(tmp_path):
    code = (
        "import sys, time\n"
        "from unpooled.secure.comparison.protocol import Computation\n"
        "parties = [Computation(i, 3) for i in range(3)]\n"
        "for p in parties: p.begin([('127.0.0.1', o.port) for o in parties], "
        "[o.certificate for o in parties])\n"
        "for p in parties: p.tested()\n"
        "print(*[p._child.pid for p in parties], flush=True)\n"
        "time.sleep(600)\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    assert parent.stdout is not None
    children = [int(pid) for pid in parent.stdout.readline().split()]
    assert len(children) == 3
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    until = time.monotonic() + 30
    while any(os.path.exists(f"/proc/{pid}") for pid in children):
        assert time.monotonic() < until, "a process holds shares after its parent"
        time.sleep(0.1)
    assert not list(tmp_path.iterdir()), "a key outlives those who used it"


def test_two_parties_cannot_compute():
    with pytest.raises(AggregationError, match="at least three"):
        Computation(0, 2)


def test_what_is_not_finite_is_refused():
    with pytest.raises(AggregationError, match="not finite"):
        CUBIC.integers({"a": np.array([np.nan]), "b": np.zeros(1)})
