"""Which ids all have: the right ones, in one order, and nothing to see on the way."""

import itertools
import secrets
from typing import Any

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from chance import RARE, deviation
from unpooled.errors import AggregationError
from unpooled.secure.intersection import protocol as intersection
from unpooled.secure.intersection.protocol import Intersection, keyed_digest, places_for

IDS = st.lists(st.integers(0, 30).map(lambda i: b"%d" % i), min_size=1, unique=True)


class Ring:
    """All parties of one intersection, and every message between them."""

    def __init__(self, *sets, salt=b"salt", secrets_of=None):
        m = len(sets)
        own = secrets_of or [secrets.token_bytes(32) for _ in sets]
        self.sets, self.sent = sets, []
        self.parties = [
            Intersection(i, m, ids, own[i], salt) for i, ids in enumerate(sets)
        ]
        for i, party in enumerate(self.parties):
            points = self._passing(party.blinded(0, len(sets[i])))
            for hop in range(1, m):
                points = self._passing(self.parties[(i + hop) % m].passed_on(points))
            party.take_back(points)

    def _passing(self, points):
        self.sent.append(points)
        return points

    def tables(self) -> tuple[list[Any], bytes]:
        places = places_for(max(map(len, self.sets)))
        contexts = (b"context %d" % attempt for attempt in itertools.count())
        tables, context = [None], b""
        while any(table is None for table in tables):
            context = next(contexts)
            tables = [party.table(places, context) for party in self.parties]
        return tables, context

    def found(self):
        tables, context = self.tables()
        total = np.sum(tables, axis=0)
        return [party.common(total, context) for party in self.parties]


def common_of(ring):
    """Every party's own ids at the positions that it was told, in their order."""
    return [
        [ids[row] for row in rows]
        for ids, (rows, _) in zip(ring.sets, ring.found(), strict=True)
    ]


@pytest.mark.slow
@given(st.lists(IDS, min_size=2, max_size=5))
@settings(max_examples=25)
def test_finds_what_all_sets_have_in_one_order(sets):
    ring = Ring(*sets)

    found = common_of(ring)

    assert set(found[0]) == set(sets[0]).intersection(*map(set, sets))
    assert all(ids == found[0] for ids in found)
    assert all(len(tokens) == len(found[0]) for _, tokens in ring.found())


@pytest.mark.slow
def test_order_says_nothing_and_is_the_same_again_under_the_same_secrets():
    ids = [b"%03d" % i for i in range(200)]
    own = [bytes([i]) * 32 for i in range(3)]

    first = common_of(Ring(ids, ids[::-1], ids, secrets_of=own))[0]
    again = common_of(Ring(ids[::-1], ids[:150], ids, secrets_of=own))[0]
    other = common_of(Ring(ids, ids, ids))[0]

    assert again == [name for name in first if name in ids[:150]]
    assert other != first
    # Neither the ids nor the order of anybody's rows; under these secrets, always the
    # same one.
    assert abs(scipy.stats.spearmanr(np.argsort(first), range(200)).statistic) < 0.3


def test_another_salt_gives_unrelated_points():
    own = [bytes([i]) * 32 for i in range(2)]

    (_, one), _ = Ring([b"a"], [b"a"], secrets_of=own, salt=b"study 1").found()
    (_, two), _ = Ring([b"a"], [b"a"], secrets_of=own, salt=b"study 2").found()

    assert one != two


def bits(points):
    # The first and the last bit of an encoded point are always 0.
    words = np.frombuffer(points, np.uint8).reshape(-1, 32)
    return np.unpackbits(words, axis=1, bitorder="little")[:, 1:255]


@pytest.mark.slow
def test_messages_look_random_and_are_fresh():
    ids = [b"%d" % i for i in range(400)]
    ring, again = Ring(ids, ids[:300], ids[100:]), Ring(ids, ids[:300], ids[100:])

    for points in ring.sent:
        seen = bits(points)
        off = np.abs(seen.mean(axis=0) - 0.5).max()
        assert off < deviation(len(seen), seen.shape[1] * len(ring.sent))
    everything = [
        sent[i : i + 32] for sent in ring.sent + again.sent for i in range(0, 32, 32)
    ]
    assert len(set(everything)) == len(everything)
    # No point stands in two messages, so nobody on the way can compare two sets.
    points = [sent[i : i + 32] for sent in ring.sent for i in range(0, len(sent), 32)]
    assert len(set(points)) == len(points)


def test_a_candidate_cannot_be_told_by_the_kind_of_its_point():
    rbcl = pytest.importorskip("rbcl")
    ids = [b"%d" % i for i in range(64)]

    # Each is an element of a group of prime order, in its only encoding.
    for points in Ring(ids, ids[:5]).sent:
        for i in range(0, len(points), 32):
            assert rbcl.crypto_core_ristretto255_is_valid_point(points[i : i + 32])


@pytest.mark.slow
def test_what_only_some_have_cannot_be_told_from_what_nobody_else_has():
    # Party 0 looks at the sum at its own tokens: ids of all, of two parties, of one.
    n = 900
    ids = [b"%d" % i for i in range(n)]
    ring = Ring(ids, ids[: 2 * n // 3], ids[: n // 3])
    tables, context = ring.tables()
    total = np.sum(tables, axis=0)
    places = intersection._places(ring.parties[0]._tokens, len(total), context)

    seen = total[places].sum(axis=1) / 2.0**64

    assert (seen[: n // 3] == 0).all()
    for some in (seen[n // 3 : 2 * n // 3], seen[2 * n // 3 :]):
        assert scipy.stats.kstest(some, "uniform").pvalue > RARE


def test_tables_look_random():
    tables, _ = Ring([b"a", b"b"], [b"a", b"c"], [b"a"]).tables()

    for table in tables:
        assert scipy.stats.kstest(table / 2.0**64, "uniform").pvalue > RARE


def test_no_common_ids_give_an_empty_answer():
    for rows, tokens in Ring([b"a"], [b"b"], [b"c"]).found():
        assert_array_equal(rows, [])
        assert tokens == []


def test_a_table_that_cannot_be_made_says_so():
    party = Ring([b"a", b"b"], [b"a"]).parties[0]

    # With three places both tokens need them all.
    assert party.table(3, b"context") is None


def test_points_come_back_once_and_all_of_them():
    party = Intersection(0, 2, [b"a", b"b"], bytes(32), b"")
    with pytest.raises(AggregationError, match="points are missing"):
        party.table(places_for(2), b"")
    points = party.blinded(0, 2)
    party.take_back(points)
    with pytest.raises(AggregationError, match="twice"):
        party.take_back(points)


@given(st.binary(min_size=32, max_size=64).filter(lambda b: len(b) % 32))
def test_what_are_no_points_is_refused(data):
    party = Intersection(0, 2, [b"a"], bytes(32), b"")

    with pytest.raises(AggregationError, match="points"):
        party.passed_on(data)


@given(st.lists(st.binary(max_size=3)), st.lists(st.binary(max_size=3)))
def test_digests_are_equal_for_equal_lists_only(one, other):
    assert (keyed_digest(b"k", one) == keyed_digest(b"k", other)) == (one == other)
    assert keyed_digest(b"k", one) != keyed_digest(b"l", one)
