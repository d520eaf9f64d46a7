"""Totals that would be subtracted, each attack beside a control that succeeds.

As in test_published_attacks.py the adversary is the coordinator.

References
----------
Denning, Denning and Schwartz, The Tracker: A Threat to Statistical Database Security,
ACM Transactions on Database Systems 4(1), 1979.
"""

from numpy.testing import assert_allclose

from attacks import column_sums, tables_of
from wire import Rogue, Silos, silos

FIVE = tables_of("abcde")
CHANGE = {"allow_roster_change": True}
TWO = {"min_parties": 2}


def refusals(here: Silos, names: str) -> dict[str, str]:
    rogue = Rogue(here, names, study=f"study-of-{names}").enter()
    return rogue.rules("pca.local_total")


def test_two_studies_do_not_subtract_to_a_silo():
    """Denning et al. 1979: a tracker is two allowed sums around one that is not."""
    here = silos(FIVE)
    column_sums(here, "abcde")
    assert set(refusals(here, "abcd").values()) == {"allow_roster_change"}


def test_control_two_studies_subtract_to_a_silo():
    here = silos(FIVE, policy=CHANGE)
    own = column_sums(here, "abcde") - column_sums(here, "abcd", "pca.local_total")
    assert_allclose(own, FIVE["e"].sum(axis=0), rtol=1e-12)


def test_three_overlapping_studies_do_not_combine_to_a_silo():
    """No silo but c is in the first two, and c is not in the third."""
    here = silos(FIVE)
    column_sums(here, "abc")
    assert refusals(here, "cde") == {"c": "allow_roster_change", "d": "", "e": ""}
    assert set(refusals(here, "abde").values()) == {"allow_roster_change"}


def test_control_three_overlapping_studies_combine_to_a_silo():
    here = silos(FIVE, policy=CHANGE)
    twice = (
        column_sums(here, "abc") + column_sums(here, "cde") - column_sums(here, "abde")
    )
    assert_allclose(twice / 2, FIVE["c"].sum(axis=0), rtol=1e-12)


def test_two_parties_are_refused():
    here = silos({name: FIVE[name] for name in "ab"})
    joined = Rogue(here).join()
    assert {reply.header["rule"] for reply in joined.values()} == {"min_parties"}


def test_control_of_two_parties_one_subtracts_itself():
    here = silos({name: FIVE[name] for name in "ab"}, policy=TWO)
    theirs = column_sums(here, "ab") - FIVE["a"].sum(axis=0)
    assert_allclose(theirs, FIVE["b"].sum(axis=0), rtol=1e-12)
