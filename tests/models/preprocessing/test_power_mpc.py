"""PowerTransformer by secure comparisons in real processes: signs and nothing else."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from exact_rounds import exactly
from hard_columns import made_up
from optima import is_optimal
from unpooled import Policy, PowerTransformer, partition_rows, plan, simulate
from unpooled.coordinator.coordinator import Coordinator
from unpooled.errors import AggregationError
from unpooled.federation import local
from unpooled.models.preprocessing import signs_in_secret
from unpooled.protocol.message import decode
from unpooled.secure.comparison.polynomial import Polynomial
from unpooled.secure.keys.roster import Roster
from wire import Rogue, silos

pytest.importorskip("mpyc")
# Coarse, to save time: what is finer is tested on exact integers.
OPTIONS = {"comparison": "mpc", "tol": 2.0**-6}


@pytest.fixture(scope="module")
def rows():
    return np.column_stack([made_up()[n][:150] for n in ("years", "missing")])


def exact(rows):
    """Return the model of the same signs, computed on pooled integers."""
    federation, _ = exactly(list(partition_rows(rows, 3).values()))
    return PowerTransformer(**OPTIONS).fit(federation)


@pytest.mark.slow
def test_learns_lambda_and_releases_nothing_but_signs(rows):
    federation = simulate(partition_rows(rows, 3))
    expected = plan(PowerTransformer(**OPTIONS), federation)

    model = PowerTransformer(**OPTIONS).fit(federation)

    for j in range(2):
        assert is_optimal(rows[:, j], float(model.lambdas_[j]), 2.0**-5)
    out = [line for line in federation.ledger if line.direction == "out"]
    seen = {(line.step, line.name, line.visibility) for line in out}
    assert seen == {
        ("power.local_count", "count", "summed"),
        ("power.compared_lengths", "apart", "compared"),
        ("power.compared_sides", "beyond", "compared"),
        ("power.compared_widths", "narrower", "compared"),
        ("power.compared_slopes", "falling", "compared"),
        ("power.local_transformed", "total", "summed"),
        ("power.local_transformed", "squares", "summed"),
    }
    counted = [record.round for record in federation.rounds if record.round]
    assert counted == sorted({line.round for line in federation.ledger})
    assert expected.rounds == len(counted) == 12 + 5 * model.n_iter_
    assert federation.ledger.verify()
    assert np.nanstd(model.transform(rows)) == pytest.approx(1.0)


@pytest.mark.slow
def test_goes_on_from_the_last_finished_batch(rows, monkeypatch):
    whole = exact(rows)
    federation = simulate(partition_rows(rows, 3))
    model, batches = PowerTransformer(**OPTIONS), []
    ask = type(federation).compare

    def compare(self, step, **public):
        batches.append(step.function.__name__)
        if batches.count("compared_slopes") == 2:
            _kill_a_process(federation)
        return ask(self, step, **public)

    monkeypatch.setattr(type(federation), "compare", compare)
    with pytest.raises(AggregationError, match=r"comparison .* continue with resume"):
        model.fit(federation)
    monkeypatch.setattr(type(federation), "compare", ask)
    assert not hasattr(model, "lambdas_")

    model.resume(federation)

    assert_array_equal(model.lambdas_, whole.lambdas_)
    assert model.n_iter_ == whole.n_iter_
    slopes = [x for x in federation.ledger if x.step == "power.compared_slopes"]
    asked = len([x for x in slopes if x.direction == "out"]) / 5
    # The batch that failed, and no other, twice.
    assert asked == whole.n_iter_ + 1


def _kill_a_process(federation):
    door = federation.coordinator.channel._doors["silo2"]
    (session,) = door.__self__._sessions.values()
    session.computing._computation._child.kill()


def test_two_silos_are_refused_with_the_remedy(rows):
    federation = simulate(partition_rows(rows, 2), policy={"min_parties": 2})
    for ask in (plan, lambda model, federation: model.fit(federation)):
        with pytest.raises(AggregationError, match=r"silo, let the coordinator comp"):
            ask(PowerTransformer(**OPTIONS), federation)
    assert len(federation.ledger) == 0


@pytest.mark.slow
def test_beside_two_silos_the_coordinator_may_be_a_declared_third(rows):
    federation = simulate(partition_rows(rows, 2), policy={"min_parties": 2})
    model = PowerTransformer(**OPTIONS, allow_coordinator_party=True)

    planned = plan(model, federation)
    model.fit(federation)

    for j in range(2):
        assert is_optimal(rows[:, j], float(model.lambdas_[j]), 2.0**-5)
    assert "The coordinator computes as a third party" in str(planned)
    assert federation.coordinator.notes == [planned.notes[0]]
    assert planned.rounds == len({line.round for line in federation.ledger})


def test_beside_three_silos_no_silo_computes_with_the_coordinator():
    rogue = Rogue(silos()).enter()
    header = {"kind": "offer computing", "coordinator": True}
    replies = rogue.ask_all(header).values()
    assert {reply.header["rule"] for reply in replies} == {"two_parties"}


@pytest.mark.slow
def test_a_committee_computes_for_many_silos(rows):
    rows, whole = rows[:, 1:], exact(rows[:, 1:])
    here = silos({f"s{i}": piece for i, piece in enumerate(np.array_split(rows, 7))},
                 policy=Policy.open())  # fmt: skip

    model = PowerTransformer(**OPTIONS).fit(here.federation)

    assert_array_equal(model.lambdas_, whole.lambdas_)
    computed = {party for party, _ in here.wire.of_kind("compared")}
    assert computed == {"s0", "s1", "s2", "s3", "s4"}
    assert "computed by the committee s0, s1" in here.federation.coordinator.notes[0]
    (first, *_), = [[s for s in here.wire.of_kind("released") if s[0] == "s6"
                     and decode(s[1]).header.get("shares")]]  # fmt: skip
    assert set(decode(first[1]).header["shares"]) == computed


@pytest.mark.slow
def test_a_committee_of_three_takes_the_rounds_of_three(rows, monkeypatch):
    monkeypatch.setattr(local, "MOST_COMPUTING", 3)
    federation = simulate(partition_rows(rows, 7), policy={"min_own_cells": 1})
    planned = plan(PowerTransformer(**OPTIONS), federation)

    model = PowerTransformer(**OPTIONS).fit(federation)

    assert "computed by the committee silo1, silo2, silo3" in planned.notes[0]
    rounds = len({line.round for line in federation.ledger})
    assert rounds == planned.rounds == 12 + 5 * model.n_iter_


def test_many_silos_without_a_committee_are_refused(rows):
    pieces = {f"s{i}": piece for i, piece in enumerate(np.array_split(rows, 6))}
    here = silos(pieces, policy=Policy.open())
    coordinator = here.federation.coordinator
    assert isinstance(coordinator, Coordinator)
    coordinator.roster = Roster(dict(here.roster))
    with pytest.raises(AggregationError, match="only by a committee of 3 to 5"):
        PowerTransformer(**OPTIONS).fit(here.federation)


def test_declared_polynomials_are_the_slope_of_the_likelihood():
    declared = signs_in_secret.compared_slopes.computation
    assert isinstance(declared, Polynomial)
    assert declared.names == ("u", "psi", "squares", "slope", "products")
    means = {name: np.array([value]) for name, value in
             zip(declared.names, (0.3, 0.5, 2.0, 0.25, 0.7), strict=True)}  # fmt: skip
    integers = [row[0] for row in declared.integers(means)]
    value = sum(c * np.prod([integers[i] for i in f], dtype=object)
                for c, f in declared.scaled_terms())  # fmt: skip
    # F = u (squares - psi²) - (products - psi slope)
    exact = 0.3 * (2.0 - 0.25) - (0.7 - 0.5 * 0.25)
    assert value / 2 ** (3 * declared.fraction) == pytest.approx(exact)
