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
from gossiping_silos import K, N, P, federate, gossip, rows
from graphs import connected, path
from unpooled.protocol.step import disclosed

# Fixtures of another module.
__all__ = ["rows"]

TOPOLOGIES = ["complete", "ring", "star", "path"]
# `tol` is 1e-9 of a sine; scores are of unit length times singular values.
RTOL = 1e-8


@disclosed(by="party", takes={"wanted": "size k"}, scores="N k", variance="k")
def each_one_s(kept, *, wanted: int):
    return {"scores": kept["scores"], "variance": kept["variance"]}


def graph_of(topology, m):
    if topology in ("complete", "ring", "star"):
        return topology
    near = path(m) if topology == "path" else topology
    return {f"silo{i + 1}": [f"silo{j + 1}" for j in near[i]] for i in range(m)}


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


@pytest.mark.thinned
@pytest.mark.parametrize("m", [2, 5])
@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_equals_pooled_pca_at_every_silo(rows, topology, m):
    federation = federate(rows, m)

    model = gossip(topology=graph_of(topology, m)).fit(federation)

    assert_equals_pooled(model, federation, rows, K)


@pytest.mark.slow
@settings(max_examples=6)
@given(connected(most=6))
def test_equals_pooled_pca_on_any_connected_graph(graph):
    X = np.random.default_rng(3).standard_normal((N, P)) * np.arange(1.0, P + 1)
    federation = federate(X, len(graph))

    model = gossip(topology=graph_of(graph, len(graph))).fit(federation)

    assert_equals_pooled(model, federation, X, K)


@pytest.mark.thinned(2)
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


@pytest.mark.slow
def test_digits_by_four():
    X = load_digits().data
    federation = federate(X, 4)
    model = gossip(10, topology="ring").fit(federation)
    assert_equals_pooled(model, federation, X, 10)


@pytest.mark.slow
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


@pytest.mark.slow
def test_whitened_in_a_pipeline(rows):
    theirs = sklearn.decomposition.PCA(K, whiten=True)
    scaled = (rows - rows.mean(axis=0)) / rows.std(axis=0)
    expected = signed(theirs.fit_transform(scaled))
    federation = federate(rows)
    model = make_pipeline(up.StandardScaler(), gossip(whiten=True))
    assert_allclose(model.fit_transform(federation), expected, atol=1e-8)


@pytest.mark.slow
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
    # No silo disclosed results: what is known of the computation is shown.
    table = model.summary().tables["averages"]
    assert table.column("value") == [model.n_iter_, 2, model.spectral_gap_]


@pytest.mark.slow
def test_a_saved_model_scores_new_rows(rows, tmp_path):
    federation = federate(rows)
    model = gossip(topology="ring").fit(federation)
    up.save(model, tmp_path / "model.unpooled")
    read = up.load(tmp_path / "model.unpooled")
    assert read.mixing_steps_ == model.mixing_steps_
    new = federate(rows[:12])
    assert_allclose(read.transform(new), model.transform(new), rtol=1e-12)


@pytest.mark.slow
def test_order_and_splitting_of_silos_change_nothing(rows):
    first = gossip(topology="ring").fit(federate(rows, 3))
    other = gossip(topology="star").fit(federate(rows, 6))
    view = federate(rows[:9], 3), federate(rows[:9], 6)
    assert_allclose(first.transform(view[0]), other.transform(view[1]), atol=1e-8)


@pytest.mark.slow
def test_close_eigenvalues_are_told():
    X = np.random.default_rng(0).standard_normal((24, 6))
    federation = federate(np.linalg.qr(X - X.mean(axis=0))[0], 3)
    with pytest.warns(ConvergenceWarning, match="close together"):
        gossip(2).fit(federation)


def test_constant_columns_have_no_loadings():
    model = gossip(2).fit(federate(np.full((20, 6), 4.0), 3))
    assert_array_equal(model.explained_variance_, 0.0)
    assert_array_equal(model.components_, 0.0)
