"""Keys between parties: only from offers of this session, signed as the roster pins."""

import itertools
from collections.abc import Mapping

import pytest

from unpooled.errors import AggregationError
from unpooled.secure.keys.agreement import (
    KEY_BYTES,
    Agreement,
    Offer,
    new_group_key,
    open_sealed,
    seal_for,
    session_seed,
)
from unpooled.secure.keys.roster import Identity, Roster

NAMES = ("a", "b", "c", "d")
IDENTITIES = {name: Identity() for name in NAMES}
ROSTER = Roster({name: identity.public for name, identity in IDENTITIES.items()})


def agreements(session: bytes = b"s", roster: Roster = ROSTER) -> dict[str, Agreement]:
    return {n: Agreement(n, IDENTITIES[n], roster, session) for n in roster}


def offers_of(members: Mapping[str, Agreement]) -> dict[str, Offer]:
    return {name: member.offer() for name, member in members.items()}


def test_every_pair_has_one_key_of_its_own():
    members = agreements()
    offers = offers_of(members)
    keys = {name: member.agree(offers) for name, member in members.items()}

    pairs = list(itertools.combinations(NAMES, 2))
    assert all(keys[i][j] == keys[j][i] for i, j in pairs)
    assert len({keys[i][j] for i, j in pairs}) == len(pairs)
    assert all(len(keys[i][j]) == KEY_BYTES for i, j in pairs)
    assert all(set(keys[i]) == set(NAMES) - {i} for i in NAMES)


def test_keys_are_derived_with_partners_alone_and_all_offers_are_checked():
    members = agreements()
    offers = offers_of(members)
    all_keys, few = members["b"].agree(offers), members["a"].agree(offers, {}, {"b"})
    assert few == {"b": all_keys["a"]}
    # Also the offer of a party with whom no key is needed, and also where another
    # party of this process has checked all the others.
    members = agreements()
    offers = offers_of(members)
    members["b"].agree(offers)
    wrong = {**offers, "c": offers["c"]._replace(head="another")}
    with pytest.raises(AggregationError):
        members["a"].agree(wrong, {}, {"b"})


def test_both_ends_know_which_heads_of_their_logs_were_seen():
    def shared(seen_by_a: str, told_to_b: str) -> bool:
        a = Agreement("a", IDENTITIES["a"], ROSTER, b"s", {"b": seen_by_a})
        members = agreements() | {"a": a}
        offers = offers_of(members)
        of_b = members["b"].agree(offers, {"a": told_to_b})
        return members["a"].agree(offers)["b"] == of_b["a"]

    assert shared("head", "head")
    assert shared("", "")
    # A relay that keeps from b what a saw of its log.
    assert not shared("head", "")
    assert not shared("head", "another")


def test_every_session_has_keys_of_its_own():
    seen = set()
    for session in (b"s", b"s", b"t"):
        members = agreements(session)
        seen |= set(members["a"].agree(offers_of(members)).values())
    assert len(seen) == 9


def _swap(offers, members, relay):
    # The relay puts its own key in b's place and cannot sign it as b.
    return {**offers, "b": relay.offer()}


def _own_signature(offers, members, relay):
    return {**offers, "b": offers["b"]._replace(public=relay.offer().public)}


def _exchanged(offers, members, relay):
    return {**offers, "b": offers["c"], "c": offers["b"]}


def _earlier_session(offers, members, relay):
    return {**offers, "b": agreements(b"earlier")["b"].offer()}


def _other_roster(offers, members, relay):
    smaller = Roster({name: ROSTER[name] for name in "abc"})
    return {**offers, "b": agreements(b"s", smaller)["b"].offer()}


def _missing(offers, members, relay):
    return {name: offer for name, offer in offers.items() if name != "b"}


def _stranger(offers, members, relay):
    return {**offers, "mallory": relay.offer()}


def _own_offer_altered(offers, members, relay):
    # Also a party's own offer must come back as it went out.
    return {**offers, "a": offers["b"]}


def _small_order(offers, members, relay):
    public = bytes(32)
    statement = members["b"]._statement("b", public, "")
    return {**offers, "b": Offer(public, IDENTITIES["b"].sign(statement))}


def _short(offers, members, relay):
    public = offers["b"][0][:31]
    statement = members["b"]._statement("b", public, "")
    return {**offers, "b": Offer(public, IDENTITIES["b"].sign(statement))}


def _flipped(offers, members, relay):
    public = offers["b"].public
    altered = bytes([public[0] ^ 1, *public[1:]])
    return {**offers, "b": offers["b"]._replace(public=altered)}


def _another_head(offers, members, relay):
    return {**offers, "b": offers["b"]._replace(head="another")}


ATTACKS = [
    _swap,
    _own_signature,
    _exchanged,
    _earlier_session,
    _other_roster,
    _missing,
    _stranger,
    _own_offer_altered,
    _small_order,
    _short,
    _flipped,
    _another_head,
]


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)
def test_a_relay_that_alters_offers_is_noticed(attack):
    members = agreements()
    relay = Agreement("b", Identity(), ROSTER, b"s")
    offers = attack(offers_of(members), members, relay)

    with pytest.raises(AggregationError) as refused:
        members["a"].agree(offers)

    assert refused.value.rule in ("wrong_signature", "wrong_roster")


def test_a_stranger_cannot_answer_for_the_offer():
    # The relay knows both publics and all signatures, and no private half.
    members = agreements()
    offers = offers_of(members)
    relay = Agreement("a", IDENTITIES["a"], ROSTER, b"s")
    assert relay.agree({**offers, "a": relay.offer()})["b"] not in set(
        members["b"].agree(offers).values()
    )


def test_keys_are_agreed_once():
    members = agreements()
    offers = offers_of(members)
    members["a"].agree(offers)
    with pytest.raises(AggregationError) as refused:
        members["a"].agree(offers)
    assert refused.value.rule == "replayed"
    assert members["a"]._private is None
    # The offer stays what it was, for a peer that is slower.
    assert members["a"].offer() == offers["a"]


def test_group_keys_pass_sealed_and_unaltered():
    pair, other = b"p" * 32, b"o" * 32
    key, about = new_group_key(), agreements()["a"].about("group key", "a", "b")
    sealed = seal_for(pair, key, about)

    assert key not in sealed
    assert open_sealed(pair, sealed, about) == key
    assert seal_for(pair, key, about) != sealed
    broken = [sealed[:-1], sealed + b"\0", sealed[1:], b"", sealed[:12]]
    for bit in range(0, 8 * len(sealed), 11):
        flipped = bytearray(sealed)
        flipped[bit // 8] ^= 1 << bit % 8
        broken.append(bytes(flipped))
    for bad in broken:
        with pytest.raises(AggregationError, match="was altered") as refused:
            open_sealed(pair, bad, about)
        assert refused.value.rule == "wrong_signature"
    with pytest.raises(AggregationError):
        open_sealed(other, sealed, about)


def test_a_sealed_key_is_for_one_receiver_and_one_session():
    pair = b"p" * 32
    one, other = agreements()["a"], agreements(b"t")["a"]
    sealed = seal_for(pair, new_group_key(), one.about("group key", "a", "b"))
    for wrong in (
        one.about("group key", "b", "a"),
        one.about("group key", "a", "c"),
        one.about("another key", "a", "b"),
        other.about("group key", "a", "b"),
    ):
        with pytest.raises(AggregationError, match="another purpose"):
            open_sealed(pair, sealed, wrong)


def test_group_keys_are_fresh():
    assert len({new_group_key() for _ in range(100)}) == 100


def test_signatures_of_one_kind_do_not_serve_as_another():
    """A party signs offers, messages and ledger lines with one identity.

    Each begins differently, so that none can be taken for another.
    """
    from unpooled.ledger import Release
    from unpooled.protocol.message import encode

    member = agreements()["a"]
    line = Release("s", 1, "t", "n", (), "f", 8, "summed", "out", ("a",))
    starts = {
        member._statement("a", bytes(32), "")[:9],
        encode({}, {})[:9],
        line.statement("a", 0, "")[:9],
    }
    assert len({start[:2] for start in starts}) == 3


def test_a_seed_depends_on_every_partys_fresh_key():
    offers = offers_of(agreements())
    seed = session_seed("study", "session", offers)

    assert 0 <= seed < 2**31
    assert seed == session_seed("study", "session", dict(reversed(offers.items())))
    for name in NAMES:
        other = offers | {name: agreements()[name].offer()}
        assert session_seed("study", "session", other) != seed
    others = [("other", "session"), ("study", "other"), ("stud", "ysession")]
    assert all(session_seed(*names, offers) != seed for names in others)


def test_a_seed_is_that_of_the_keys_and_not_of_their_signatures():
    offers = {name: Offer(bytes([i]), b"x") for i, name in enumerate(NAMES)}
    signed_again = {n: offer._replace(signature=b"y") for n, offer in offers.items()}

    assert session_seed("s", "t", offers) == session_seed("s", "t", signed_again)
