"""PCA without a coordinator: what it releases, plans, and refuses."""

import numpy as np
import pytest

import unpooled as up
import wire
from gossiping_silos import OPEN, N, federate, gossip, rows
from line_fields import fields
from unpooled.errors import ConvergenceError, DataError, ReleaseRefusedError
from unpooled.models.pca import gossip as pca_gossip
from unpooled.protocol.message import decode

# Fixtures of another module.
__all__ = ["rows"]


@pytest.mark.slow
def test_releases_only_what_the_docstring_says(rows):
    federation = federate(rows, 3)
    gossip(topology="ring").fit(federation)

    out = set(fields(federation.ledger, "step name shape visibility", direction="out"))
    width = 7
    assert {x for x in out if width in x[2] or not x[2]} == {
        ("pca.gossip_image", "image", (N, width), "exchanged"),
        ("pca.gossip_passed", "block", (N, width), "exchanged"),
        ("pca.gossip_ready", "ready", (), "summed"),
        ("pca.gossip_ready", "unsure", (), "summed"),
    }
    assert {(name, how) for _, name, _, how in out} == {
        ("image", "exchanged"), ("block", "exchanged"), ("vectors", "exchanged"),
        ("values", "exchanged"), ("ready", "summed"), ("unsure", "summed"),
    }  # fmt: skip
    assert federation.ledger.verify()


@pytest.mark.slow
def test_coordinator_sees_no_values(rows):
    """What the coordinator holds: sealed bytes, two counts, and N."""
    parts = up.partition_columns(rows, 3)
    silos = wire.silos(parts, partition="columns", policy=OPEN)

    model = gossip(topology="complete").fit(silos.federation)

    for party, data in silos.wire.received:
        message = decode(data, silos.roster, party)
        for name, array in message.arrays.items():
            assert name in ("ready", "unsure") or array.dtype == np.uint8
    opened = {x.name for x in silos.ledger if x.visibility in ("summed", "disclosed")}
    assert opened == {"ready", "unsure"}
    told = {n: v for n, v in vars(model).items() if n.endswith("_") and n[0] != "_"}
    assert set(told) == {
        "n_samples_", "n_components_", "n_iter_", "mixing_steps_", "spectral_gap_",
        "kept_", "n_features_in_",
    }  # fmt: skip
    # Nor in what it sends: the silos draw the first block, all else is sealed.
    sent = [decode(data) for _, data in silos.wire.sent]
    clear = {n for m in sent for n, a in m.arrays.items() if a.dtype != np.uint8}
    assert clear == set()


@pytest.mark.slow
def test_policies_decide(rows):
    for rules, rule in (
        ({"allow_row_level": True}, "allow_disclosed"),
        ({"allow_disclosed": True}, "allow_row_level"),
        ({}, "allow_disclosed"),
    ):
        federation = federate(rows, policy=up.Policy.of(rules))
        planned = up.plan(gossip(), federation)
        assert rule in {refused for _, _, refused in planned.refusals}
        with pytest.raises(ReleaseRefusedError, match=rule):
            gossip().fit(federation)
        assert {x.visibility for x in federation.ledger} <= {"kept", "public"}


@pytest.mark.slow
def test_plan_is_a_bound_and_says_why(rows):
    federation = federate(rows)
    planned = up.plan(gossip(topology="ring"), federation)
    gossip(topology="ring").fit(federation)
    run = {(x.step, x.name, x.parties, x.peers) for x in federation.ledger}
    assert run <= {(x.step, x.name, x.parties, x.peers) for x in planned.releases}
    assert planned.rounds >= len({x.round for x in federation.ledger})
    assert "spectral gap 0.5" in str(planned)
    assert "Neighbours see each other's images" in str(planned)


def test_too_few_iterations_are_an_error(rows):
    with pytest.raises(ConvergenceError, match="After 1 blocks 0 of 4 silos"):
        gossip(max_iter=1).fit(federate(rows))


@pytest.mark.slow
def test_averages_that_do_not_hold_together_are_refused(rows, monkeypatch):
    """Too few steps of mixing: silos disagree, or QᵀGQ is not symmetric."""
    monkeypatch.setattr(pca_gossip, "mixed", lambda own, *rest: own)
    with pytest.raises(DataError, match="averages"):
        gossip(topology="ring").fit(federate(rows, 4))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"k": 0.9}, 'n_components=0.9: svd_solver="gossip" finds a number'),
        ({"k": None}, "n_components=None"),
        ({"k": 13}, "n_components=13"),
        ({"topology": "tree"}, "topology='tree'"),
        ({"topology": {"silo1": ["silo2"]}}, "The topology is about"),
        ({"bits": 8}, "bits=8 and rank=None are of a scatter"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_leaves(rows, options, message):
    federation = federate(rows)
    with pytest.raises(DataError, match=message):
        gossip(**options).fit(federation)
    assert len(federation.ledger) == 0


def test_rows_and_holes_are_refused(rows):
    with pytest.raises(DataError, match='choose "auto", '):
        gossip().fit(up.simulate(up.partition_rows(rows, 3), policy=OPEN))
    holes = rows.copy()
    holes[3, 4] = np.nan
    with pytest.raises(DataError, match="missing_values"):
        gossip().fit(federate(holes))
