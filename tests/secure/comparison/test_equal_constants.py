"""Constants are equal everywhere or not, and nothing else can be read from shares."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unpooled.errors import AggregationError
from unpooled.secure.comparison.equal_constants import (
    SHARE_BYTES,
    ComparedConstants,
    all_equal,
)
from unpooled.secure.keys.roster import Identity, Roster

IDENTITIES = {name: Identity() for name in "abcd"}
FLOATS = st.floats(allow_nan=False, allow_infinity=False)


def roster_of(names):
    return Roster({name: IDENTITIES[name].public for name in names})


def shares_of(constants, session="s", study="study"):
    """Return each silo's shares, of constants by silo and column."""
    roster = roster_of(constants)
    members = {
        name: ComparedConstants(name, IDENTITIES[name], roster, study, session)
        for name in constants
    }
    offers = {name: member.offer() for name, member in members.items()}
    return {name: members[name].shares(offers, constants[name]) for name in members}


def equal(values, column="c"):
    found = shares_of({name: {column: value} for name, value in values.items()})
    return all_equal(shares[column] for shares in found.values())


@given(st.lists(FLOATS, min_size=2, max_size=4), st.booleans())
def test_equal_are_values_that_python_finds_equal(values, same):
    values = values[:1] * len(values) if same else values
    assert equal(dict(zip("abcd", values, strict=False))) == (len(set(values)) == 1)


def test_neighbouring_doubles_differ_and_the_sign_of_zero_does_not():
    assert not equal({"a": 1.0, "b": 1.0, "c": 1.0 + 2**-52})
    assert equal({"a": 0.0, "b": -0.0, "c": 0.0})


def test_columns_are_compared_each_by_itself():
    found = shares_of({name: {"x": 1.0, "y": float(ord(name))} for name in "abc"})
    assert all_equal(shares["x"] for shares in found.values())
    assert not all_equal(shares["y"] for shares in found.values())
    # The same value under another column's name has another share.
    assert len({share for one in found.values() for share in one.values()}) == 6


def test_no_subset_of_shares_and_no_other_session_tells_of_equality():
    """Sums over fewer silos, and over those of two sessions, are random numbers."""
    one, two = (shares_of({n: {"c": 1.0} for n in "abcd"}, s) for s in "st")
    for size in (1, 2, 3):
        for some in itertools.combinations("abcd", size):
            assert not all_equal(one[name]["c"] for name in some)
    assert not all_equal([*(one[n]["c"] for n in "abc"), two["d"]["c"]])
    assert all(one[name]["c"] != two[name]["c"] for name in "abcd")
    assert all(len(one[name]["c"]) == SHARE_BYTES for name in "abcd")


@pytest.mark.parametrize("other", [{"session": "t"}, {"study": "another"}])
def test_offers_of_another_comparison_are_refused(other):
    roster, how = roster_of("abc"), {"study": "study", "session": "s"}
    members = {
        name: ComparedConstants(
            name, IDENTITIES[name], roster, **(how | (other if name == "c" else {}))
        )
        for name in "abc"
    }
    offers = {name: member.offer() for name, member in members.items()}
    with pytest.raises(AggregationError):
        members["a"].shares(offers, {"c": 1.0})


def test_a_forged_or_missing_offer_is_refused():
    roster = roster_of("abc")
    members = {
        name: ComparedConstants(name, IDENTITIES[name], roster, "study", "s")
        for name in "abc"
    }
    offers = {name: member.offer() for name, member in members.items()}
    stranger = ComparedConstants("c", Identity(), roster, "study", "s").offer()
    with pytest.raises(AggregationError):
        members["a"].shares(offers | {"c": stranger}, {"c": 1.0})
    with pytest.raises(AggregationError):
        members["b"].shares({n: offers[n] for n in "ab"}, {"c": 1.0})
