"""The verb `exchange`: neighbours only, sealed from end to end, in every ledger."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import wire
from line_fields import fields
from unpooled import Policy, plan, simulate
from unpooled.errors import DataError, ReleaseRefusedError, StudyError
from unpooled.federation.federation import Federation
from unpooled.ledger import Ledger
from unpooled.models.base import FederatedEstimator
from unpooled.protocol.message import decode
from unpooled.protocol.neighbour_messages import sealed_size
from unpooled.protocol.step import disclosed, exchanged, kept, release, stays, summed
from unpooled.protocol.topology import distances, graph_of

N = 20
PARTIES = ("a", "b", "c", "d")
SHAPES = {
    "complete": {p: set(PARTIES) - {p} for p in PARTIES},
    "ring": {"a": {"b", "d"}, "b": {"a", "c"}, "c": {"b", "d"}, "d": {"a", "c"}},
    "star": {"a": {"b", "c", "d"}, "b": {"a"}, "c": {"a"}, "d": {"a"}},
}
PATH = {"a": ["b"], "b": ["a", "c"], "c": ["b", "d"], "d": ["c"]}
OPEN = Policy.open()


@exchanged(
    by="party",
    total=release("N", meaning="the sum of each person's values"),
    own=stays("", until="fit"),
)
def told(X, *, turn: int):
    return {"total": X.sum(axis=1) + turn, "own": np.array(X[0, 0])}


@exchanged(by="party", total=release("N", meaning="what came before, added"))
def told_on(inbox):
    return {"total": sum(values["total"] for values in inbox.values())}


@kept(by="party", heard=stays("N", until="fit"), number=stays("", until="fit"))
def heard(inbox):
    total = np.sum([values["total"] for values in inbox.values()], axis=0)
    return {"heard": total, "number": np.array(float(len(inbox)))}


@disclosed(by="party", heard="N", number="")
def shown(kept):
    return {"heard": kept["heard"], "number": kept["number"]}


@summed(by="party", total="N")
def added(inbox):
    return {"total": inbox.own["total"]}


@exchanged(by="party", loadings="p")
def columns_of(X):
    return {"loadings": X[0]}


def tables():
    rng = np.random.default_rng(3)
    widths = dict(zip(PARTIES, (2, 1, 3, 2), strict=True))
    return {party: rng.standard_normal((N, p)) for party, p in widths.items()}


def federate(**options) -> Federation:
    return simulate(tables(), partition="columns", **{"policy": OPEN, **options})


def sums():
    return {party: X.sum(axis=1) for party, X in tables().items()}


@pytest.mark.thinned(1)
@pytest.mark.parametrize("topology", [*SHAPES, PATH], ids=[*SHAPES, "path"])
def test_each_hears_its_neighbours_and_itself(topology, secure_sum):
    graph = SHAPES.get(str(topology), PATH)
    federation = federate(secure_sum=secure_sum)

    with federation.fitting():
        assert federation.exchange(told, topology, turn=0) is None
        federation.keep(heard)
        found = federation.collect(shown)

    for party in PARTIES:
        expected = sum(sums()[other] for other in {party, *graph[party]})
        assert_array_equal(found[party]["number"], 1 + len(graph[party]))
        np.testing.assert_allclose(found[party]["heard"], expected, atol=1e-13)


def test_an_inbox_is_of_the_last_exchange_and_may_be_read_again():
    federation = federate()
    with federation.fitting():
        federation.exchange(told, "ring", turn=7)
        federation.exchange(told_on, PATH)
        federation.keep(heard)
        federation.keep(heard)
        found = federation.collect(shown)
        own = federation.sum(added)["total"]

    once = {p: X + 7 for p, X in sums().items()}
    twice = {p: sum(once[o] for o in {p, *SHAPES["ring"][p]}) for p in PARTIES}
    np.testing.assert_allclose(found["a"]["heard"], twice["a"] + twice["b"], atol=1e-13)
    np.testing.assert_allclose(own, sum(twice.values()), rtol=1e-9)


def test_works_on_rows_too():
    federation = simulate({name: wire.rows(seed=i) for i, name in enumerate("abc")},
                          policy=OPEN)  # fmt: skip
    with federation.fitting():
        federation.exchange(means, "complete")
        federation.keep(mean_of_means)
        found = federation.collect(shown_mean)
    assert_array_equal(found["a"]["mean"], found["b"]["mean"])


@exchanged(by="rows", total="p")
def means(X):
    return {"total": X.sum(axis=0)}


@kept(by="party", mean=stays("p", until="fit"))
def mean_of_means(inbox):
    # In the parties' order at every silo, so that rounding is the same.
    return {"mean": np.mean([inbox[p]["total"] for p in sorted(inbox)], axis=0)}


@disclosed(by="party", mean="p")
def shown_mean(kept):
    return {"mean": kept["mean"]}


def test_ledger_says_who_told_whom():
    silos = wire.silos(tables(), partition="columns", policy=OPEN)
    with silos.federation.fitting():
        silos.federation.exchange(told, "star", turn=0)
        silos.federation.keep(heard)

    size = sealed_size((N,))
    between = fields(
        silos.ledger, "parties direction peers shape bytes", visibility="exchanged"
    )
    # One line for all that have the same neighbours.
    others = ("b", "c", "d")
    assert between == [
        (("a",), "out", others, (N,), 3 * size),
        (others, "out", ("a",), (N,), size),
        (("a",), "in", others, (N,), 3 * size),
        (others, "in", ("a",), (N,), size),
    ]
    assert silos.ledger.verify({p: silos.roster[p] for p in PARTIES})
    for party, member in silos.parties.items():
        (study,) = member.studies.values()
        lines = [x for x in study.ledger if x.visibility == "exchanged"]
        assert [x.direction for x in lines] == ["out", "in"]
        assert {x.peers for x in lines} == {others if party == "a" else ("a",)}
        assert study.ledger.verify()
    assert "out: a to b, c, d" in str(silos.ledger)


def test_nobody_can_write_other_neighbours_into_a_ledger():
    federation = federate()
    with federation.fitting():
        federation.exchange(told, "ring", turn=0)
    text = federation.ledger.to_json()
    assert Ledger.from_json(text) == federation.ledger
    altered = Ledger.from_json(text.replace('"peers": ["b", "d"]', '"peers": ["b"]'))
    with pytest.raises(StudyError, match="altered"):
        altered.verify()
    # With another chain, the seal is still about the neighbours.
    line = next(x for x in federation.ledger if x.peers == ("b", "d"))
    assert line.parties == ("a", "c")
    other = replace(line, peers=("b",))
    assert other.statement("a", 0, "") != line.statement("a", 0, "")


def test_coordinator_sees_no_number_of_it():
    silos = wire.silos(tables(), partition="columns", policy=OPEN)
    with silos.federation.fitting():
        silos.federation.exchange(told, "complete", turn=0)
        silos.federation.keep(heard)
    for passed in (silos.wire.sent, silos.wire.received):
        for _, data in passed:
            for total in sums().values():
                assert total[:1].tobytes() not in data
    replies = [decode(data) for _, data in silos.wire.of_kind("released")]
    kinds = {a.dtype.str for reply in replies for a in reply.arrays.values()}
    assert kinds == {"|u1"}


def test_policies_decide():
    rules = Policy(allow_row_level=True, min_rows=5)
    with pytest.raises(ReleaseRefusedError, match="allow_disclosed"):
        federate(policy=rules).exchange(told, "ring", turn=0)
    rules = Policy(allow_disclosed=True, min_rows=5)
    with pytest.raises(ReleaseRefusedError, match="allow_row_level"):
        federate(policy=rules).exchange(told, "ring", turn=0)
    rules = Policy(allow_row_level=True, allow_disclosed=True, min_rows=5)
    federation = federate(policy=rules)
    federation.exchange(told, "ring", turn=0)
    assert {x.visibility for x in federation.ledger} == {"exchanged", "kept"}


class Telling(FederatedEstimator):
    """A model of one exchange."""

    _partitions = ("columns",)

    def _fit(self, federation, y):
        federation.exchange(told, "ring", turn=0)
        federation.keep(heard)


def test_plan_says_what_neighbours_would_learn():
    federation = federate(policy=Policy(allow_row_level=True))
    planned = plan(Telling(), federation)
    assert {rule for _, _, rule in planned.refusals} == {"allow_disclosed"}

    federation = federate()
    planned = plan(Telling(), federation)
    Telling().fit(federation)
    what = [(x.step, x.name, x.parties, x.peers, x.bytes) for x in planned.releases]
    assert what == fields(federation.ledger, "step name parties peers bytes")
    assert {x.peers for x in federation.ledger} == {("b", "d"), ("a", "c"), ()}


@pytest.mark.parametrize(
    ("topology", "message"),
    [
        ("tree", "topology='tree'; choose 'complete', 'ring', 'star', or a mapping"),
        (None, "topology=None; choose"),
        ({"a": ["b"], "b": ["a"]}, "The topology is about"),
        ({**PATH, "d": ["c", "e"]}, "The neighbours of d are a list of other parties"),
        ({**PATH, "d": ["d", "c"]}, "The neighbours of d are a list of other parties"),
        ({**PATH, "d": "c"}, "The neighbours of d are a list of other parties"),
        ({**PATH, "d": []}, "c would send to d and not the reverse"),
        (
            {"a": ["b"], "b": ["a"], "c": ["d"], "d": ["c"]},
            "does not connect c with a",
        ),
    ],
)
def test_what_is_no_topology_is_refused(topology, message):
    federation = federate()
    with pytest.raises(DataError, match=message):
        federation.exchange(told, topology, turn=0)
    assert len(federation.ledger) == 0


def test_graphs_have_the_parties_order():
    assert graph_of("ring", PARTIES)["a"] == ("b", "d")
    assert graph_of({p: list(PATH[p])[::-1] for p in PATH}, PARTIES)["b"] == ("a", "c")
    assert graph_of("ring", ("a", "b")) == {"a": ("b",), "b": ("a",)}
    assert distances(graph_of(PATH, PARTIES), "b") == {"b": 0, "a": 1, "c": 1, "d": 2}
    with pytest.raises(DataError, match="at least two parties"):
        graph_of("complete", ("a",))


def test_what_cannot_be_exchanged_is_refused():
    federation = federate()
    with pytest.raises(DataError, match="differ between the parties"):
        federation.exchange(columns_of, "ring")
    with pytest.raises(DataError, match="declared kept, not exchanged"):
        federation.exchange(heard, "ring")
    with pytest.raises(TypeError, match="it is sent whole"):
        exchanged(S=release("p p", symmetric=True))(lambda X: {})
    with pytest.raises(TypeError, match="inbox"):
        kept(by="party", a="N")(lambda X, letters: {})
    empty = tables()
    empty["b"][3, 0] = np.inf
    federation = simulate(empty, partition="columns", policy=OPEN)
    with pytest.raises(Exception, match="fixed_point_range"):
        federation.exchange(told, "ring", turn=0)
