"""A silo answers about its table for one set of parties, for rosters subtract."""

import itertools

import numpy as np
import pytest

from unpooled.arrays import Array
from unpooled.protocol.step import summed
from unpooled.protocol.view_operations import Rows, Select
from wire import Rogue, Silos, rows, silos

TABLES = {name: rows(seed=i) for i, name in enumerate("abcde")}
COLUMNS = ("x0", "x1", "x2")


@summed(total="p")
def totals(X: Array) -> dict[str, Array]:
    return {"total": X.sum(axis=0)}


@summed(total="p")
def other_totals(X: Array) -> dict[str, Array]:
    return {"total": X.sum(axis=0)}


@pytest.fixture
def here() -> Silos:
    return silos(TABLES)


def rules(
    here: Silos, names: str, columns: tuple[str, ...] = COLUMNS, step: str = "totals"
) -> dict[str, str]:
    """Every coordinator has a study of its own; the silos are the same."""
    rogue = Rogue(here, list(names), study=f"study of {names} {next(_studies)}").enter()
    return rogue.rules(f"test_differencing.{step}", operations=(Select(columns),))


_studies = itertools.count()


def test_three_overlapping_rosters_would_give_one_silo_away(here):
    """A+B+C, C+D+E and A+B+D+E: the first two less the third are C twice."""
    assert set(rules(here, "abc").values()) == {""}

    assert rules(here, "cde") == {"c": "allow_roster_change", "d": "", "e": ""}
    assert rules(here, "abde") == {
        "a": "allow_roster_change",
        "b": "allow_roster_change",
        "d": "allow_roster_change",
        "e": "allow_roster_change",
    }


def test_the_same_roster_may_ask_again(here):
    for _ in range(3):
        assert set(rules(here, "abc").values()) == {""}


@pytest.mark.parametrize(
    "columns", [("x0",), ("x2", "x1", "x0"), ("x1", "x0"), ("x2",)]
)
def test_another_selection_of_columns_is_no_way_round(here, columns):
    rules(here, "abcd")
    assert set(rules(here, "abc", columns).values()) == {"allow_roster_change"}


def test_columns_without_one_in_common_are_no_way_round(here):
    """Their counts subtract: to a silo's rows, and to the sizes of its classes."""
    rules(here, "abcd", ("x0", "x1"))
    assert set(rules(here, "abc", ("x2",)).values()) == {"allow_roster_change"}


def test_other_rows_are_no_way_round(here):
    rules(here, "abcd")
    rogue = Rogue(here, "abc", study="rows").enter()
    chain = (Select(COLUMNS), Rows(0, 2, 0.0, False, 1))
    refused = rogue.rules("test_differencing.totals", operations=chain)
    assert set(refused.values()) == {"allow_roster_change"}


def test_a_refused_or_failed_round_leaves_no_trace():
    tables = {**TABLES, "d": rows(5)}
    here = silos(tables)
    assert rules(here, "abcd")["d"] == "min_rows"
    # d gave nothing, so it may still answer others; a, b and c have answered.
    assert set(rules(here, "bce").values()) == {"", "allow_roster_change"}
    assert rules(here, "bce")["e"] == ""


def test_a_silo_may_allow_the_change():
    here = silos(TABLES, policy={p: {"allow_roster_change": p == "a"} for p in TABLES})
    rules(here, "abcd")
    assert rules(here, "abc") == {
        "a": "",
        "b": "allow_roster_change",
        "c": "allow_roster_change",
    }


def test_the_refusal_reaches_the_user_by_name(here):
    from unpooled.coordinator.channel import LocalChannel
    from unpooled.coordinator.coordinator import Coordinator
    from unpooled.errors import ReleaseRefusedError
    from unpooled.secure.keys.roster import Roster

    here.federation.sum(totals)
    doors = {name: here.parties[name].handle for name in "abd"}
    smaller = Roster({name: here.roster[name] for name in "abd"})
    second = Coordinator(LocalChannel(doors), smaller, study="second")

    with pytest.raises(ReleaseRefusedError, match=r"a refused .*allow_roster_change"):
        here.federation.over(second).sum(totals)

    # Nothing was opened, and the difference stays unknown.
    assert len(second.ledger) == 0


def test_another_step_with_the_same_sums_is_no_way_round(here):
    """Observed sums over five, totals over four: the fifth's own sums."""
    five = Rogue(here, study="five").enter()
    four = Rogue(here, "abcd", study="four").enter()
    whole = five.observed("scaler")["total"]
    try:
        part = four.totals("pca.local_total")["total"]
    except KeyError:
        return  # refused: nothing came back
    assert not np.allclose(whole - part, TABLES["e"].sum(axis=0))


def test_a_row_more_between_two_answers_does_not_subtract():
    """The table grows by one person between two fits."""
    from unpooled.data.sources.open_source import open_source

    grown = np.vstack([TABLES["a"], [[40.0, 41.0, 42.0]]])
    here = silos({name: TABLES[name] for name in "abc"})
    before = Rogue(here).enter().totals("test_differencing.totals")["total"]
    here.parties["a"].table = open_source(grown)
    try:
        after = Rogue(here).enter().totals("test_differencing.totals")["total"]
    except KeyError:
        return  # refused: nothing came back
    assert not np.allclose(after - before, [40.0, 41.0, 42.0])


@pytest.mark.thinned(1)
@pytest.mark.parametrize(
    ("new", "rule"), [(1, "min_changed_rows"), (9, "min_changed_rows"), (10, "")]
)
def test_enough_rows_must_change(new, rule):
    """Rows that came, that left, and that have another value."""
    from unpooled.data.sources.open_source import open_source

    X, more = TABLES["a"], rows(new, seed=9)
    edited = X.copy()
    edited[:new, 1] += 1.0
    for changed in (np.vstack([X, more]), X[new:], edited, np.vstack([X[new:], more])):
        here = silos({name: TABLES[name] for name in "abc"})
        assert set(Rogue(here).enter().rules("test_differencing.totals").values()) == {
            ""
        }
        here.parties["a"].table = open_source(changed)
        assert Rogue(here).enter().rules("test_differencing.totals")["a"] == rule
        # Its order is no matter.
        here.parties["b"].table = open_source(TABLES["b"][::-1])
        assert Rogue(here).enter().rules("test_differencing.totals")["b"] == ""


def test_control_one_row_more_subtracts_to_it():
    from unpooled.data.sources.open_source import open_source

    here = silos({n: TABLES[n] for n in "abc"}, policy={"min_changed_rows": 0})
    before = Rogue(here).enter().totals("test_differencing.totals")["total"]
    here.parties["a"].table = open_source(
        np.vstack([TABLES["a"], [[40.0, 41.0, 42.0]]])
    )
    after = Rogue(here).enter().totals("test_differencing.totals")["total"]
    np.testing.assert_allclose(after - before, [40.0, 41.0, 42.0])


def test_a_log_knows_the_rows_after_a_restart(tmp_path):
    from unpooled.data.sources.open_source import open_source
    from unpooled.party.memory.audit_log import AuditLog
    from unpooled.party.rules.policy import Policy
    from unpooled.party.rules.table_versions import TableVersions
    from unpooled.protocol.refusal import Refusal

    def opened():
        return TableVersions(b"key", AuditLog(tmp_path / "log"), Policy())

    def noted(table):
        versions, log = opened(), []
        for kind, record in versions.notes(table):
            log.append((kind, "", record))
        AuditLog(tmp_path / "log")._chain.append(log)
        return versions

    X = TABLES["a"]
    noted(open_source(X))
    again = opened()
    again.check(open_source(X[::-1].copy()))
    with pytest.raises(Refusal, match="min_changed_rows"):
        again.check(open_source(X[1:]))
    # A further column leaves the rows what they were; without one that the silo
    # answered about nothing can be compared.
    wider = open_source(np.hstack([X, X[:, :1]]))
    again.check(wider)
    assert len(again.names(wider)) == 2
    with pytest.raises(Refusal, match="min_changed_rows"):
        again.check(open_source(np.hstack([X, X[:, :1]])[1:]))
    again.check(open_source(X[1:, :2]))
    noted(open_source(X))
    assert len(AuditLog(tmp_path / "log").state().tables) == 1
