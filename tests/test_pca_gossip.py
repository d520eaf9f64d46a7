"""PCA without a coordinator: scikit-learn's answer at every silo, on every graph."""

import numpy as np
import pytest
import sklearn.decomposition
from hypothesis import given, settings
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import make_pipeline

import unpooled as up
import wire
from test_gossip import connected, neighbours, path
from unpooled.errors import ConvergenceError, DataError, ReleaseRefusedError
from unpooled.models import pca_gossip
from unpooled.party.step import disclosed
from unpooled.secure.message import decode

N, P, K = 40, 12, 3
OPEN = up.Policy.open()
TOPOLOGIES = ["complete", "ring", "star", "path"]
# `tol` is 1e-9 of a sine; scores are of unit length times singular values.
RTOL = 1e-8


@disclosed(by="party", takes={"wanted": "size k"}, scores="N k", variance="k")
def each_one_s(kept, *, wanted: int):
    return {"scores": kept["scores"], "variance": kept["variance"]}


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(7)
    return rng.standard_normal((N, P)) @ rng.standard_normal((P, P)) + 3.0


def federate(X, m=4, **options):
    parts = up.partition_columns(X, m)
    return up.simulate(parts, partition="columns", **{"policy": OPEN, **options})


def graph_of(topology, m):
    if topology in ("complete", "ring", "star"):
        return topology
    near = path(m) if topology == "path" else topology
    return {f"silo{i + 1}": [f"silo{j + 1}" for j in near[i]] for i in range(m)}


def gossip(k=K, **options):
    return up.PCA(k, svd_solver="gossip", **{"random_state": 0, **options})


def signed(scores):
    """By the rule of column partitions: the largest entry is positive."""
    peaks = scores[np.abs(scores).argmax(axis=0), np.arange(scores.shape[1])]
    return scores * np.sign(peaks)


def assert_equals_pooled(model, federation, X, k):
    theirs = sklearn.decomposition.PCA(k, svd_solver="full").fit(X)
    scores = signed(theirs.transform(X))
    told = federation.collect(each_one_s, kept_of=model.kept_, wanted=k)
    (first, *others) = told.values()
    for other in others:
        # The same bytes: one silo's numbers were passed on.
        assert_array_equal(other["scores"], first["scores"])
        assert_array_equal(other["variance"], first["variance"])
    assert_allclose(first["scores"], scores, atol=RTOL * np.abs(scores).max())
    assert_allclose(first["variance"], theirs.explained_variance_, rtol=RTOL)


@pytest.mark.parametrize("m", [2, 5])
@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_equals_pooled_pca_at_every_silo(rows, topology, m):
    federation = federate(rows, m)

    model = gossip(topology=graph_of(topology, m)).fit(federation)

    assert_equals_pooled(model, federation, rows, K)


@settings(max_examples=6)
@given(connected(most=6))
def test_equals_pooled_pca_on_any_connected_graph(graph):
    X = np.random.default_rng(3).standard_normal((N, P)) * np.arange(1.0, P + 1)
    federation = federate(X, len(graph))

    model = gossip(topology=graph_of(graph, len(graph))).fit(federation)

    assert_equals_pooled(model, federation, X, K)


@pytest.mark.parametrize("k", [1, 5, P])
def test_any_number_of_components(rows, k, secure_sum):
    federation = federate(rows, 3, secure_sum=secure_sum)
    model = gossip(k, topology="ring").fit(federation)
    assert_equals_pooled(model, federation, rows, k)


def test_more_columns_than_people(rows):
    X = np.random.default_rng(5).standard_normal((11, 30))
    federation = federate(X, 3)
    model = gossip(8, topology="star").fit(federation)
    assert_equals_pooled(model, federation, X, 8)


def test_digits_by_four():
    X = load_digits().data
    federation = federate(X, 4)
    model = gossip(10, topology="ring").fit(federation)
    assert_equals_pooled(model, federation, X, 10)


def test_new_rows_and_what_is_gathered(rows):
    theirs = sklearn.decomposition.PCA(K).fit(rows)
    new = np.random.default_rng(9).standard_normal((15, P))
    federation = federate(rows)
    model = gossip(topology="ring").fit(federation)

    scores = model.transform(federate(new))

    signs = np.sign(signed(theirs.transform(rows))[0] * theirs.transform(rows)[0])
    assert_allclose(scores, theirs.transform(new) * signs, atol=1e-8)
    assert "explained_variance_" not in vars(model)
    for name in (
        "mean_", "explained_variance_", "explained_variance_ratio_",
        "singular_values_", "noise_variance_",
    ):  # fmt: skip
        assert_allclose(getattr(model, name), getattr(theirs, name), rtol=1e-8)
    assert_allclose(model.components_, theirs.components_ * signs[:, None], atol=1e-9)
    assert model.n_samples_ == N
    assert model.n_components_ == K


def test_whitened_in_a_pipeline(rows):
    theirs = sklearn.decomposition.PCA(K, whiten=True)
    scaled = (rows - rows.mean(axis=0)) / rows.std(axis=0)
    expected = signed(theirs.fit_transform(scaled))
    federation = federate(rows)
    model = make_pipeline(up.StandardScaler(), gossip(whiten=True))
    assert_allclose(model.fit_transform(federation), expected, atol=1e-8)


def test_rounds_follow_from_the_graph(rows):
    """S to average, 1 to count, E to pass a block on; E more for the solution."""
    for topology, steps, far in (("complete", 1, 1), ("ring", 2, 2), ("star", 2, 1)):
        federation = federate(rows, 4)
        model = gossip(topology=topology).fit(federation)
        rounds = len({line.round for line in federation.ledger})
        blocks = model.n_iter_
        assert model.mixing_steps_ == steps
        # Means before, loadings after; the last block is not continued.
        assert rounds == 2 + blocks * (steps + 1) + (blocks - 1) * far + far
    assert_allclose(model.spectral_gap_, 1 / 4)


def test_releases_only_what_the_docstring_says(rows):
    federation = federate(rows, 3)
    gossip(topology="ring").fit(federation)

    out = {
        (x.step, x.name, x.shape, x.visibility)
        for x in federation.ledger
        if x.direction == "out"
    }
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


def test_plan_is_a_bound_and_says_why(rows):
    federation = federate(rows)
    planned = up.plan(gossip(topology="ring"), federation)
    gossip(topology="ring").fit(federation)
    run = {(x.step, x.name, x.parties, x.peers) for x in federation.ledger}
    assert run <= {(x.step, x.name, x.parties, x.peers) for x in planned.releases}
    assert planned.rounds >= len({x.round for x in federation.ledger})
    assert "spectral gap 0.5" in str(planned)
    assert "Neighbours see each other's images" in str(planned)


def test_a_saved_model_scores_new_rows(rows, tmp_path):
    federation = federate(rows)
    model = gossip(topology="ring").fit(federation)
    up.save(model, tmp_path / "model.unpooled")
    read = up.load(tmp_path / "model.unpooled")
    assert read.mixing_steps_ == model.mixing_steps_
    new = federate(rows[:12])
    assert_allclose(read.transform(new), model.transform(new), rtol=1e-12)


def test_order_and_splitting_of_silos_change_nothing(rows):
    first = gossip(topology="ring").fit(federate(rows, 3))
    other = gossip(topology="star").fit(federate(rows, 6))
    view = federate(rows[:9], 3), federate(rows[:9], 6)
    assert_allclose(first.transform(view[0]), other.transform(view[1]), atol=1e-8)


def test_close_eigenvalues_are_told():
    X = np.random.default_rng(0).standard_normal((24, 6))
    federation = federate(np.linalg.qr(X - X.mean(axis=0))[0], 3)
    with pytest.warns(ConvergenceWarning, match="close together"):
        gossip(2).fit(federation)


def test_constant_columns_have_no_loadings():
    model = gossip(2).fit(federate(np.full((20, 6), 4.0), 3))
    assert_array_equal(model.explained_variance_, 0.0)
    assert_array_equal(model.components_, 0.0)


def test_too_few_iterations_are_an_error(rows):
    with pytest.raises(ConvergenceError, match="After 1 blocks 0 of 4 silos"):
        gossip(max_iter=1).fit(federate(rows))


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
    with pytest.raises(DataError, match='choose "auto" or'):
        gossip().fit(up.simulate(up.partition_rows(rows, 3), policy=OPEN))
    holes = rows.copy()
    holes[3, 4] = np.nan
    with pytest.raises(DataError, match="missing_values"):
        gossip().fit(federate(holes))


# --- What neighbours learn ------------------------------------------------------------


def images_seen(party, X, m, topology, monkeypatch):
    """What one silo sees of its first neighbour: blocks, and images of them."""
    seen, blocks = [], []
    real = pca_gossip._mixed

    def watch(kept, inbox, momentum, rate):
        if inbox.party == party and not momentum:
            other = next(name for name in inbox if name != party)
            seen.append(np.array(inbox[other]["image"]))
            blocks.append(np.array(kept["block"]))
        return real(kept, inbox, momentum, rate)

    monkeypatch.setattr(pca_gossip, "_mixed", watch)
    gossip(topology=topology).fit(federate(X, m))
    return np.hstack(blocks), np.hstack(seen)


def rebuilt(V, Y):
    """The Gram matrix of least rank with these images: Y (VᵀY)⁺ Yᵀ."""
    return Y @ np.linalg.pinv(V.T @ Y, rcond=1e-10) @ Y.T


def test_a_few_images_rebuild_a_neighbour_s_gram(rows, monkeypatch):
    """A silo of 3 columns is read whole off its first image, of width 7."""
    V, Y = images_seen("silo1", rows, 4, "complete", monkeypatch)
    theirs = up.partition_columns(rows, 4)["silo2"]
    centred = theirs - theirs.mean(axis=0)
    G = centred @ centred.T
    found = rebuilt(V[:, :7], Y[:, :7])
    assert_allclose(found, G, atol=1e-8 * np.abs(G).max())
    # And its rows, up to a rotation of its columns.
    values, U = np.linalg.eigh(found)
    own = U[:, -3:] * np.sqrt(values[-3:])
    turn = np.linalg.lstsq(own, centred, rcond=None)[0]
    assert_allclose(own @ turn, centred, atol=1e-6)
    assert_allclose(turn @ turn.T, np.eye(3), atol=1e-6)


def test_control_fewer_images_than_columns_do_not(monkeypatch):
    X = np.random.default_rng(1).standard_normal((60, 40))
    V, Y = images_seen("silo1", X, 2, "complete", monkeypatch)
    theirs = up.partition_columns(X, 2)["silo2"]
    centred = theirs - theirs.mean(axis=0)
    G = centred @ centred.T
    few = np.abs(rebuilt(V[:, :14], Y[:, :14]) - G).max()
    many = np.abs(rebuilt(V, Y) - G).max()
    assert few > 0.1 * np.abs(G).max()
    assert Y.shape[1] >= 20
    assert many < 1e-6 * np.abs(G).max()


def test_mixing_tells_of_those_further_away():
    """On a path a - b - c, what b tells after one step holds c's value."""
    a, b, c = np.random.default_rng(0).standard_normal((3, 5))
    rate = 0.3
    told = b - rate * (2 * b - a - c)
    assert_allclose((told - b) / rate + 2 * b - a, c, atol=1e-12)


def test_graphs_of_the_tests_are_those_of_the_library():
    assert neighbours("star", 4) == [[1, 2, 3], [0], [0], [0]]
