"""Identities are pinned; whoever is not on the roster is nobody."""

from collections import OrderedDict

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import assume, example, given
from hypothesis import strategies as st

from unpooled.errors import AggregationError, StudyError
from unpooled.party.setup.silo_init import pin
from unpooled.secure.keys.roster import Identity, Roster

NAMES = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20)


@pytest.fixture
def identities():
    return {name: Identity() for name in ("north", "south", "west")}


@pytest.fixture
def roster(identities):
    return Roster({name: identity.public for name, identity in identities.items()})


def test_a_signature_counts_for_its_party_and_statement_only(identities, roster):
    signature = identities["north"].sign(b"statement")

    roster.check("north", b"statement", signature)
    for party, statement, signed in [
        ("south", b"statement", signature),
        ("north", b"statemenT", signature),
        ("north", b"", signature),
        ("north", b"statement", bytes(64)),
        ("north", b"statement", signature[:-1]),
        ("north", b"statement", signature + b"\0"),
        ("north", b"statement", b""),
        ("east", b"statement", signature),
        ("", b"statement", signature),
    ]:
        with pytest.raises(AggregationError, match="not signed by the") as refused:
            roster.check(party, statement, signed)
        assert refused.value.rule == "wrong_signature"


def test_a_signature_that_was_made_elsewhere_is_verified(identities, roster):
    key = identities["north"].private_bytes()[:32]
    signature = Ed25519PrivateKey.from_private_bytes(key).sign(b"statement")

    roster.check("north", b"statement", signature)
    with pytest.raises(AggregationError):
        roster.check("south", b"statement", signature)


def test_no_more_than_the_last_signatures_are_kept(identities, monkeypatch):
    monkeypatch.setattr("unpooled.secure.keys.roster._made_here", kept := OrderedDict())
    monkeypatch.setattr("unpooled.secure.keys.roster._MOST_MADE", 3)

    for statement in (b"1", b"2", b"3", b"4"):
        identities["north"].sign(statement)

    assert [statement for _, statement, _ in kept] == [b"2", b"3", b"4"]


@pytest.mark.parametrize("bit", range(0, 512, 7))
def test_every_bit_of_a_signature_counts(identities, roster, bit):
    signature = bytearray(identities["west"].sign(b"x"))
    signature[bit // 8] ^= 1 << bit % 8
    with pytest.raises(AggregationError):
        roster.check("west", b"x", bytes(signature))


def test_a_key_that_is_no_key_refuses():
    order_8 = "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05"
    identity = b"\x01" + bytes(31)
    for key in (
        # Zeros, as in a roster that nobody has filled in, and other points of small
        # order, under which one signature is good for many messages.
        bytes(32),
        identity,
        identity[:-1] + b"\x80",
        b"\xec" + b"\xff" * 30 + b"\x7f",
        b"\xed" + b"\xff" * 30 + b"\x7f",
        bytes.fromhex(order_8),
        b"\xff" * 32,
        b"short",
        b"",
    ):
        for signature in (bytes(64), identity + bytes(32)):
            for statement in (b"x", b"y", b"z", b"w"):
                with pytest.raises(AggregationError):
                    Roster({"a": key}).check("a", statement, signature)


def test_identities_are_fresh_and_can_be_kept(identities):
    assert len({identity.public for identity in identities.values()}) == 3
    north = identities["north"]
    again = Identity(north.private_bytes())
    assert again.public == north.public
    assert again.sign(b"x") == north.sign(b"x")
    assert again.derivation_secret(b"x") == north.derivation_secret(b"x")


def test_derivations_need_a_secret_that_signs_nothing():
    one, other = Identity(), Identity()
    key, secret = one.private_bytes()[:32], other.private_bytes()[32:]
    mixed = Identity(key + secret)
    assert mixed.public == one.public
    assert mixed.derivation_secret(b"x") == other.derivation_secret(b"x")
    assert mixed.derivation_secret(b"x") != one.derivation_secret(b"x")
    assert mixed.derivation_secret(b"y") != mixed.derivation_secret(b"x")


def test_an_identity_of_an_earlier_version_is_its_signing_key_alone():
    old = Identity(bytes(range(32)))
    assert old.private_bytes() == bytes(range(32))
    assert old.derivation_secret(b"x") == Identity(bytes(range(32))).derivation_secret(
        b"x"
    )
    assert old.derivation_secret(b"x") != Identity().derivation_secret(b"x")
    for size in (31, 33, 63, 65, 96):
        with pytest.raises(ValueError, match="32 or 64 bytes"):
            Identity(bytes(size))


def test_the_digest_is_of_names_and_keys_in_any_order(roster, identities):
    keys = dict(roster)
    assert Roster(dict(reversed(keys.items()))).digest() == roster.digest()
    others = [
        {**keys, "east": identities["north"].public},
        {**keys, "north": keys["south"]},
        {"North" if name == "north" else name: key for name, key in keys.items()},
        {name: key for name, key in keys.items() if name != "west"},
        {**keys, "north": keys["south"], "south": keys["north"]},
    ]
    digests = {roster.digest(), *(Roster(other).digest() for other in others)}
    assert len(digests) == 1 + len(others)


def test_iteration_is_sorted(roster):
    assert list(roster) == ["north", "south", "west"]
    assert len(roster) == 3


@example({"\U00010000": bytes(32), "\x7f\r\n": b"k" * 32, 'a"b\\': b"l" * 32})
@given(
    st.dictionaries(NAMES, st.binary(min_size=32, max_size=32), min_size=1, max_size=4)
)
def test_files_keep_every_name(tmp_path_factory, keys):
    assume(len(set(keys.values())) == len(keys))
    path = tmp_path_factory.getbasetemp() / "roster.toml"
    path.write_text(Roster(keys).to_toml(), "utf-8")
    assert dict(Roster.from_file(path)) == keys


@pytest.mark.parametrize(
    "text",
    [
        "",
        "not toml [",
        "roster = 5",
        "[roster]\na = 5",
        "[roster]\na = 'zz'",
        "[roster]\na = 'abcd'",
        f"[roster]\na = '{'00' * 33}'",
        f"[roster]\na = '{'00' * 32}'\na = '{'00' * 32}'",
        f"[roster]\na = '{'ab' * 32}'\nb = '{'ab' * 32}'",
        "[other]",
    ],
)
def test_what_is_no_roster_is_refused(tmp_path, text):
    path = tmp_path / "roster.toml"
    path.write_text(text)
    with pytest.raises(StudyError, match="is not a roster"):
        Roster.from_file(path)


def test_an_absent_file_is_refused(tmp_path):
    with pytest.raises(StudyError, match="There is no file"):
        Roster.from_file(tmp_path / "none.toml")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(StudyError):
        Roster.from_file(tmp_path / "binary")


def test_the_private_key_stays_out_of_sight(identities):
    identity = identities["north"]
    assert identity.private_bytes().hex() not in repr(identity) + str(vars(identity))


def test_a_committee_is_part_of_the_roster_and_of_its_digest(roster, tmp_path):
    keys = dict(roster) | {name: Identity().public for name in "uvwx"}
    pinned = Roster(keys, ["west", "north", "u"])
    path = tmp_path / "roster.toml"
    path.write_text(pinned.to_toml(), "utf-8")

    again = Roster.from_file(path)

    assert again.committee == ("north", "u", "west")
    assert again.digest() == pinned.digest() != Roster(keys).digest()
    assert Roster(keys).committee == (), "seven parties, and nobody was chosen"
    # A study without one of its members has no committee but everybody.
    assert again.part(["north", "u", "west", "v"]).committee == again.committee
    assert again.part(["north", "u", "v"]).committee == ("north", "u", "v")
    assert roster.committee == ("north", "south", "west")


@pytest.mark.parametrize(
    "committee",
    [
        '["north", "south"]',
        '["north", "south", "east"]',
        '["north", "south", "south"]',
        '"north"',
        "[1, 2, 3]",
        '["a", "b", "c", "d", "e", "f"]',
    ],
)
def test_a_committee_that_is_none_is_refused(roster, committee, tmp_path):
    keys = dict(roster) | {name: Identity().public for name in "abcdef"}
    path = tmp_path / "roster.toml"
    path.write_text(f"committee = {committee}\n{Roster(keys).to_toml()}", "utf-8")
    with pytest.raises(StudyError, match="committee"):
        Roster.from_file(path)


def test_pinning_one_more_silo_keeps_the_committee(roster, tmp_path):
    path, line = tmp_path / "roster.toml", tmp_path / "east.toml"
    path.write_text(Roster(dict(roster), tuple(roster)).to_toml(), "utf-8")
    line.write_text(Roster({"east": Identity().public}).to_toml(), "utf-8")
    assert pin(path, [line]).committee == tuple(roster)
