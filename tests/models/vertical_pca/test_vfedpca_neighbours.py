"""VFedPCA and VFedAKPCA without a server: equal to independent code, silo by silo."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import vfedpca_reference as reference
import wire
from line_fields import fields
from unpooled import (
    Policy,
    VFedAKPCA,
    VFedPCA,
    load,
    partition_columns,
    plan,
    save,
)
from unpooled.errors import DataError, ReleaseRefusedError
from unpooled.protocol.message import decode
from vfedpca_silos import N, as_printed, init, rows, silos

# Fixtures of another module.
__all__ = ["init", "rows"]

ATOL = 1e-10
PATH = {"silo1": ["silo2"], "silo2": ["silo1", "silo3"], "silo3": ["silo2"]}
OPTIONS = {
    "default": {},
    "no warm start": {"warm_start": False},
    "weight scaling": {"weight_scaling": True},
    "aligned signs": {"align_signs": True},
    "VFedAvgPCA": {"weights": "equal"},
    "centred rows": {"centre": "rows"},
    "text": {"centre": "none"},
}
OPEN = Policy.open()


def expected(rows, init, k, m, topology, **options):
    parts = list(partition_columns(rows, m).values())
    options = as_printed(options)
    return reference.vfedpca(parts, k, init, topology=topology, **options)


def heard_by(topology, m):
    return reference.neighbours(topology, m)


def assert_same(history, theirs, heard):
    assert len(history) == len(theirs)
    m = len(heard)
    for entry, found in zip(history, theirs, strict=True):
        assert entry["u"].shape == (m, N)
        assert_allclose(entry["u"], [u for u, _ in found], rtol=0, atol=ATOL)
        weights = np.zeros((m, m))
        for i, (_, w) in enumerate(found):
            weights[i, heard[i]] = w
        assert_allclose(entry["weights"], weights, rtol=0, atol=ATOL)


@pytest.mark.slow
@pytest.mark.thinned(4)
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("topology", ["complete", "ring", "star"])
def test_equals_independent_code(rows, init, topology, options):
    options = {"rounds": 2, **options}
    # Of four parties, a ring is not complete.
    theirs = expected(rows, init, 2, 4, topology, **options)

    model = VFedPCA(2, init=init, topology=topology, **options).fit(silos(rows, 4))

    assert_same(model.history_, theirs, heard_by(topology, 4))
    T = options["rounds"]
    first = np.array([found[0][0] for found in theirs[T - 1 :: T]]).T
    assert_allclose(model.u_, first / np.linalg.norm(first, axis=0), atol=ATOL)


@pytest.mark.slow
def test_ten_silos_keep_their_order(rows, init):
    """silo10 stands behind silo9, not behind silo1."""
    X = np.hstack([rows, rows[:, :1] ** 2])
    theirs = expected(X, init, 1, 10, "ring", rounds=2)
    model = VFedPCA(init=init, rounds=2, topology="ring").fit(silos(X, 10))
    assert_same(model.history_, theirs, heard_by("ring", 10))


@pytest.mark.slow
def test_where_all_hear_all_it_is_what_a_server_merges(rows, init, secure_sum):
    among = VFedPCA(2, init=init, rounds=3, topology="complete")
    among.fit(silos(rows, secure_sum=secure_sum))
    server = VFedPCA(2, init=init, rounds=3).fit(silos(rows))
    for one, other in zip(among.history_, server.history_, strict=True):
        assert_allclose(one["u"], np.tile(other["u"], (3, 1)), rtol=0, atol=ATOL)
    signs = np.sign(np.sum(among.u_ * server.u_, axis=0))
    assert_allclose(among.scores_ * signs, server.scores_, atol=1e-8)
    assert_allclose(among.components_ * signs[:, None], server.components_, atol=1e-9)
    assert_allclose(among.explained_variance_, server.explained_variance_, rtol=1e-9)
    new = np.random.default_rng(9).standard_normal((12, 9))
    assert_allclose(
        among.transform(silos(new)) * signs, server.transform(silos(new)), atol=1e-8
    )


@pytest.mark.slow
def test_a_graph_of_one_s_own(rows, init):
    model = VFedPCA(init=init, rounds=2, topology=PATH).fit(silos(rows))
    star = {"silo2": ["silo1", "silo3"], "silo1": ["silo2"], "silo3": ["silo2"]}
    same = VFedPCA(init=init, rounds=2, topology=star).fit(silos(rows))
    assert_allclose(model.history_[-1]["u"], same.history_[-1]["u"], rtol=0)
    assert_allclose(model.history_[0]["weights"][0, 2], 0.0)


@pytest.mark.thinned(1)
@pytest.mark.parametrize("topology", ["complete", "star"])
def test_kernel_directions_equal_independent_code(rows, topology):
    parts = list(partition_columns(rows, 3).values())
    heard = heard_by(topology, 3)
    how = {"kernel": "rbf", "gamma": 0.05}
    model = VFedAKPCA(topology=topology, align_signs=True, **how).fit(silos(rows))
    for i, those in enumerate(heard):
        theirs = reference.vfedakpca([parts[j] for j in those], 1, align=True, **how)
        ours = model.history_[0]["u"][i]
        ours = ours / np.linalg.norm(ours)
        assert_allclose(ours, theirs[:, 0], rtol=0, atol=1e-9)


@pytest.mark.slow
def test_kernel_directions_by_deflation_are_those_of_a_server(rows):
    how = {"gamma": 0.05, "rounds": 2, "weights": "equal"}
    among = VFedAKPCA(2, topology="complete", **how).fit(silos(rows))
    server = VFedAKPCA(2, **how).fit(silos(rows))
    for one, other in zip(among.history_, server.history_, strict=True):
        assert_allclose(one["u"], np.tile(other["u"], (3, 1)), rtol=0, atol=1e-9)


def left(federation):
    return fields(federation.ledger, "step name shape visibility", direction="out")


@pytest.mark.slow
def test_the_coordinator_is_told_nothing(rows):
    here = wire.silos(partition_columns(rows, 3), partition="columns", policy=OPEN)
    model = VFedPCA(2, rounds=2, topology="complete", random_state=0)
    model.fit(here.federation)

    assert {how for *_, how in left(here.federation)} == {"exchanged", "veiled"}
    veiled = [line for line in left(here.federation) if line[3] == "veiled"]
    # For the silos alone: noise to the coordinator.
    assert veiled == [("vfedpca.neighbour_squares", "squares", (2,), "veiled")]
    for party, data in here.wire.received:
        for name, array in decode(data, here.roster, party).arrays.items():
            assert array.dtype == np.uint8 or name == "squares"
    fitted = {n for n in vars(model) if n.endswith("_") and n[0] != "_"}
    assert fitted == {"n_samples_", "kept_", "n_features_in_"}
    before = len(here.ledger)
    _ = model.history_
    assert {x.visibility for x in here.ledger[before:] if x.direction == "out"} == {
        "disclosed", "summed",
    }  # fmt: skip


def test_releases_only_what_the_docstring_says(rows):
    federation = silos(rows)
    VFedPCA(rounds=2, topology="complete", random_state=0).fit(federation)
    told = [
        ("vfedpca.neighbour_direction", "vector", (N,), "exchanged"),
        ("vfedpca.neighbour_direction", "eigenvalue", (), "exchanged"),
    ]
    assert [x for x in left(federation) if x[3] == "exchanged"] == [
        *[told[0]] * 3, *[told[1]] * 3,
        *[told[0]] * 3, *[told[1]] * 3,
    ]  # fmt: skip


def test_neighbours_need_every_silo_to_allow_it(rows):
    rules = Policy(allow_row_level=True)
    VFedPCA(rounds=1).fit(silos(rows, policy=rules))
    for model in (VFedPCA(topology="ring"), VFedAKPCA(topology="ring")):
        with pytest.raises(ReleaseRefusedError, match="allow_disclosed"):
            model.fit(silos(rows, policy=rules))


@pytest.mark.slow
def test_plan_says_what_is_released(rows):
    federation = silos(rows)
    model = VFedPCA(2, rounds=2, topology="star")
    planned = plan(model, federation)
    model.fit(federation)
    what = [(x.step, x.name, x.shape, x.peers, x.parties) for x in planned.releases]
    assert what == fields(federation.ledger, "step name shape peers parties")


@pytest.mark.slow
def test_saved_models_come_back(rows, tmp_path):
    model = VFedPCA(2, rounds=2, topology="ring", random_state=0).fit(silos(rows))
    save(model, tmp_path / "bare.unpooled")
    with pytest.raises(DataError, match="kept in the silos"):
        _ = load(tmp_path / "bare.unpooled").history_
    _ = model.components_
    save(model, tmp_path / "model.unpooled")
    read = load(tmp_path / "model.unpooled")
    assert_allclose(read.u_, model.u_, rtol=0)
    assert_allclose(read.history_[1]["weights"], model.history_[1]["weights"], rtol=0)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (VFedPCA(topology="tree"), "topology='tree'; choose 'server' or"),
        (VFedPCA(topology={"silo1": []}), "The topology is about"),
        (
            VFedAKPCA(topology="ring", project="kernel"),
            "without a server each silo has its own",
        ),
    ],
)
def test_what_is_no_topology_is_refused(rows, model, message):
    federation = silos(rows)
    with pytest.raises(DataError, match=message):
        model.fit(federation)
    assert len(federation.ledger) == 0
