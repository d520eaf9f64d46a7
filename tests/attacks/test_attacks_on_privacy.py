"""Attacks on differential privacy: what is refused, and rows longer than the noise."""

from typing import Any

import numpy as np
import pytest

from matched_people import people, silos_of
from unpooled.data.sources.open_source import open_source
from unpooled.data.table import ArrayTable
from unpooled.errors import DataError, ReleaseRefusedError
from unpooled.federation.matching import agree_on_rows
from unpooled.models.pca.private import local_private
from unpooled.models.private_rows import on_lattice
from unpooled.party.memory.audit_log import AuditLog
from unpooled.party.memory.studies import Studies
from unpooled.party.party import Party
from unpooled.protocol.bounds import LATTICE
from unpooled.protocol.refusal import Refusal
from unpooled.protocol.view_operations import Complete, Select
from unpooled.secure.noise import rho_of
from wire import COLUMNS, Rogue, Silos, rows, silos

pytest.importorskip("opendp")

# A fixture of another module.
__all__ = ["people"]
PERSON = 11
TABLES = {name: rows(seed=i) for i, name in enumerate("abc")}
PROMISE = {"epsilon": 0.1, "delta": 1e-5}
RULES = {"require_privacy": True}


def asked(centre: Any, row_norm: Any) -> dict[str, Any]:
    return {"centre": np.asarray(centre, float), "row_norm": row_norm, **PROMISE}


def spent(party: Party) -> float:
    return party._studies._audit_log.spent()


def refusals(tables: dict[str, Any], public: dict[str, Any]) -> dict[str, str]:
    return Rogue(silos(tables, policy=RULES)).enter().rules("pca.local_private", public)


@pytest.mark.thinned(1)
@pytest.mark.parametrize("norm", [-1.0, 0.0, 1e-160, 5e-324, 1e160, 1])
def test_whether_a_record_is_there_is_no_reason_to_refuse(norm):
    record, nobody = TABLES["b"][PERSON], np.full(3, 4.0)
    assert refusals(TABLES, asked(record, norm)) == refusals(
        TABLES, asked(nobody, norm)
    )
    assert set(refusals(TABLES, asked(record, norm)).values()) == {"arguments"}


def test_a_far_centre_makes_no_row_longer_than_the_lattice():
    X = TABLES["b"]
    for centre, norm in [(-1.8e19, 4.6e-305), (1e200, 1.0), (2.0**51, 1.0)]:
        with pytest.raises(Refusal, match="arguments"):
            on_lattice(X, np.full(3, centre), norm)
    for centre, norm in [(2.0**49, 1.0), (0.0, 2.0**-499), (-1e145, 1e145)]:
        Y = on_lattice(X, np.full(3, centre), norm)
        assert np.einsum("ij,ij->i", Y, Y).max() <= LATTICE**2


@pytest.mark.thinned(1)
@pytest.mark.parametrize("cell", [np.nan, np.inf, -1e308, 1e200])
def test_no_cell_of_a_row_is_a_reason_to_refuse(cell):
    marked = {name: X.copy() for name, X in TABLES.items()}
    marked["b"][PERSON, 1] = cell
    public = asked(np.zeros(3), 5.0)
    assert refusals(marked, public) == dict.fromkeys("abc", "")
    # With it or without it, the row is within what the noise is for.
    with_it = local_private(marked["b"], **public)
    without = local_private(np.delete(marked["b"], PERSON, axis=0), **public)
    for name, declared in local_private.declared.items():
        moved = np.linalg.norm(with_it[name] - without[name])
        assert declared.noise is not None
        assert moved <= declared.noise.sensitivity


def test_what_fails_after_the_rules_has_been_paid_for(monkeypatch):
    here: Silos = silos(TABLES, policy=RULES)
    rogue = Rogue(here).enter()
    monkeypatch.setattr(
        "unpooled.party.session.noised", lambda *_: (_ for _ in ()).throw(OSError())
    )
    before = {name: spent(party) for name, party in here.parties.items()}
    told = rogue.rules("pca.local_private", asked(np.zeros(3), 5.0))
    assert set(told.values()) == {"failed_in_silo"}
    cost = rho_of(PROMISE["epsilon"], PROMISE["delta"])
    for name, party in here.parties.items():
        assert spent(party) - before[name] == pytest.approx(cost)


class Away:
    """Rows of a silo that is connected to them at times."""

    def __init__(self, monkeypatch):
        self.rule = ""
        blocks = ArrayTable._blocks

        def reading(table, *given, **options):
            if self.rule and any(table is one for one in self.tables):
                raise DataError("the drive does not answer", rule=self.rule)
            return blocks(table, *given, **options)

        self.tables = list[Any]()
        monkeypatch.setattr(ArrayTable, "_blocks", reading)


@pytest.mark.slow
@pytest.mark.parametrize("in_file", [False, True], ids=["memory", "file"])
def test_rows_that_are_away_cost_no_privacy(monkeypatch, tmp_path, in_file):
    """Neither once nor a hundred times; and what is released in the end is paid for."""
    here, away = silos(TABLES, policy=RULES), Away(monkeypatch)
    party = here.parties["b"]
    away.tables.append(party.table)
    if in_file:
        log = AuditLog(tmp_path / "b.sqlite")
        party._studies = Studies(party.policy, party._identity, log, "none", None)
    cost = rho_of(PROMISE["epsilon"], PROMISE["delta"])
    public = asked(np.zeros(3), 5.0)

    away.rule = "source_unavailable"
    for _ in range(20):
        told = Rogue(here).enter().rules("pca.local_private", public)
        assert told == {"a": "", "b": "source_unavailable", "c": ""}
    # Rounding of twenty sums and differences.
    assert abs(spent(party)) < 1e-12 * cost
    away.rule = ""
    assert set(Rogue(here).enter().rules("pca.local_private", public).values()) == {""}
    assert spent(party) == pytest.approx(cost)
    if in_file:
        again = AuditLog(tmp_path / "b.sqlite")
        assert again.spent() == spent(party)
        assert again.verify()


@pytest.mark.parametrize("rule", ["source_changed", "source_damaged", "failed_in_silo"])
def test_other_failures_of_rows_are_paid_for(monkeypatch, rule):
    here, away = silos(TABLES, policy=RULES), Away(monkeypatch)
    away.tables.append(here.parties["b"].table)
    away.rule = rule

    told = Rogue(here).enter().rules("pca.local_private", asked(np.zeros(3), 5.0))

    assert told["b"] == rule
    cost = rho_of(PROMISE["epsilon"], PROMISE["delta"])
    assert spent(here.parties["b"]) == pytest.approx(cost)


def test_matching_counts_nobody_where_privacy_is_required(people):
    here = silos(silos_of(people), partition="columns", ids="id", policy=RULES)
    with pytest.raises(ReleaseRefusedError, match="require_privacy"):
        agree_on_rows(here.federation)
    assert not len(here.federation.ledger)
    rogue = Rogue(here, partition="columns")
    told = rogue.ask_all({"kind": "describe"})
    assert {m.header["rule"] for m in told.values()} == {"require_privacy"}


def test_whether_few_rows_are_incomplete_is_no_reason_to_refuse():
    """Complete rows next to all of them were refused where they differ in few."""
    few = {name: X.copy() for name, X in TABLES.items()}
    few["b"][PERSON, 1] = np.nan
    public, told = asked(np.zeros(3), 5.0), []
    for tables in (TABLES, few):
        rogue = Rogue(silos(tables, policy=RULES)).enter()
        chain = (Select(COLUMNS), Complete())
        rules = rogue.rules("pca.local_private", public, chain)
        told.append([rules, rogue.rules("pca.local_private", public)])
    assert told[0] == told[1]
    assert told[0] == [dict.fromkeys("abc", "private_inputs"), dict.fromkeys("abc", "")]


def test_whether_one_row_came_is_no_reason_to_refuse():
    here, public = silos(TABLES, policy=RULES), asked(np.zeros(3), 5.0)
    for X in (TABLES["b"], TABLES["b"], np.delete(TABLES["b"], PERSON, axis=0)):
        here.parties["b"].table = open_source(X)
        rules = Rogue(here).enter().rules("pca.local_private", public)
        assert rules == dict.fromkeys("abc", "")
