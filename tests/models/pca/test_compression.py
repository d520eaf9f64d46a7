"""PCA in fewer bytes: how near it comes, what travels, and what is refused."""

import numpy as np
import pytest
import scipy.linalg
import sklearn.decomposition
from numpy.testing import assert_allclose

from federations import open_silos
from line_fields import fields
from twins import assert_same_pca
from unpooled import PCA, Policy, load, partition_rows, plan, save, simulate
from unpooled.errors import AggregationError, DataError, ReleaseRefusedError
from unpooled.linalg.moments import pack
from unpooled.protocol.bounds import Trace
from unpooled.protocol.message import decode
from unpooled.secure.sums.low_precision_code import LowPrecisionCode
from wire import silos

N, P, K = 400, 120, 3


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(7)
    return rng.standard_normal((N, P)) * 0.95 ** np.arange(P) + 10.0


def pooled(rows, k=K):
    return sklearn.decomposition.PCA(k, svd_solver="full").fit(rows)


def angle(ours, theirs):
    """The largest angle between two spaces, in degrees."""
    return np.degrees(
        scipy.linalg.subspace_angles(ours.components_.T, theirs.components_.T)[0]
    )


@pytest.mark.thinned
@pytest.mark.parametrize(("bits", "most"), [(64, 1e-7), (32, 1e-5), (16, 0.1), (8, 30)])
def test_near_the_pooled_twin(federate, rows, bits, most):
    ours, theirs = PCA(K, bits=bits).fit(federate(rows)), pooled(rows)

    assert angle(ours, theirs) <= most
    assert_allclose(ours.mean_, theirs.mean_, rtol=1e-12)
    # Along directions that are off by an angle a, exact variances are off by a².
    off = np.radians(most) ** 2 * theirs.explained_variance_[0] + 1e-12
    assert_allclose(ours.explained_variance_, theirs.explained_variance_, atol=off)
    ratio = ours.explained_variance_ / theirs.explained_variance_.sum()
    assert_allclose(ours.explained_variance_ratio_.sum() > 0, True)
    assert ratio.sum() <= 1 + 1e-12


@pytest.mark.thinned(1)
@pytest.mark.parametrize("bits", [8, 16, 32])
@pytest.mark.parametrize("k", [None, 0.5, 5])
def test_where_all_directions_fit_the_last_round_it_is_exact(rows, bits, k):
    narrow = rows[:, :20]
    ours = PCA(k, bits=bits).fit(open_silos(narrow))
    assert_same_pca(ours, pooled(narrow, k))


@pytest.mark.thinned(1)
@pytest.mark.parametrize("bits", [8, 16, 32])
def test_bytes_fall_with_the_bits(rows, bits):
    here = silos(
        {name: rows[i::3] for i, name in enumerate("abc")}, policy=Policy.open()
    )
    PCA(K, bits=bits).fit(here.federation)

    (line,) = [
        x for x in here.ledger if x.step == "pca.local_rounded" and x.name == "scatter"
    ]
    assert line.dtype == f"uint{bits}"
    assert line.bytes == P * (P + 1) // 2 * bits // 8 + 16
    # On the wire, from each silo: the words, signed and described.
    sent = [data for _, data in here.wire.of_kind("released")]
    sizes = [len(data) for data in sent if "scatter" in decode(data).arrays]
    assert len(sizes) == 3
    assert max(sizes) <= line.bytes + 2000


def test_the_ledger_is_what_the_docstring_says(rows):
    federation = open_silos(rows)
    PCA(K, bits=16).fit(federation)
    seen = fields(
        federation.ledger, "round step name shape visibility", direction="out"
    )
    more = K + 32
    assert seen == [
        (1, "pca.local_total", "count", (), "summed"),
        (1, "pca.local_total", "total", (P,), "summed"),
        (2, "pca.local_squares", "squares", (P,), "summed"),
        (3, "pca.local_rounded", "scatter", (P, P), "summed"),
        (4, "pca.local_projected", "projected", (more, more), "summed"),
    ]
    planned = plan(PCA(K, bits=16), federation)
    wanted = [(x.step, x.name, x.shape, x.bytes) for x in federation.ledger]
    assert [(x.step, x.name, x.shape, x.bytes) for x in planned.releases] == wanted


def test_a_low_rank_release_of_full_rank_is_exact(federate, rows):
    narrow = rows[:, :20]
    ours = PCA(K, rank=20).fit(federate(narrow))
    assert_same_pca(ours, pooled(narrow))


def test_a_low_rank_release_is_near_and_declared(rows):
    federation = open_silos(rows)
    ours = PCA(K, rank=40).fit(federation)
    assert angle(ours, pooled(rows)) <= 1.0
    (shown,) = [x for x in federation.ledger if x.visibility == "disclosed"]
    assert (shown.name, shown.shape, shown.bytes) == ("factor", (P, 40), P * 40 * 8)


def test_a_low_rank_release_needs_every_silos_leave(rows):
    federation = simulate(partition_rows(rows, 3), policy={"max_feature_ratio": 1.0})
    with pytest.raises(ReleaseRefusedError, match="allow_disclosed"):
        PCA(K, rank=40).fit(federation)
    assert not [x for x in federation.ledger if x.visibility == "disclosed"]


def test_a_low_rank_release_counts_as_pairs_of_features(rows):
    rules = {"max_feature_ratio": 0.33, "allow_disclosed": True}
    with pytest.raises(ReleaseRefusedError, match="max_feature_ratio"):
        PCA(K, rank=40).fit(simulate(partition_rows(rows, 3), policy=rules))


@pytest.mark.slow
def test_rows_are_transformed_in_the_silos(rows):
    federation = open_silos(rows)
    for model in (PCA(K, bits=16), PCA(K, rank=40)):
        view = model.fit(federation).transform(federation)
        again = PCA(K).fit(view)
        assert_allclose(again.explained_variance_, model.explained_variance_, rtol=1e-2)


def test_saves_and_loads(rows, tmp_path):
    model = PCA(K, bits=16).fit(open_silos(rows))
    loaded = load(save(model, tmp_path / "model.unpooled"))
    assert loaded.get_params() == model.get_params()
    np.testing.assert_array_equal(loaded.transform(rows), model.transform(rows))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bits": 12}, "bits=12; choose 8, 16, 32 or 64"),
        ({"bits": True}, "choose 8, 16, 32 or 64"),
        ({"rank": 0}, "whole number from 1"),
        ({"bits": 16, "svd_solver": "krylov"}, "never forms"),
        ({"rank": P + 1}, "rank=121, but there are 120 columns"),
        ({"rank": 2}, "at most the rank"),
        ({"rank": 40, "bits": 16}, "Choose bits or rank"),
        ({"rank": 40, "n_components": 0.5}, "at most the rank"),
    ],
)
def test_refuses_before_anything_leaves(rows, options, message):
    federation = open_silos(rows)
    with pytest.raises(DataError, match=message):
        PCA(**{"n_components": K, **options}).fit(federation)
    assert not len(federation.ledger)


@pytest.mark.slow
def test_more_silos_than_eight_bits_have_room_for(rows):
    with pytest.raises(AggregationError, match="8 bits have no room"):
        PCA(K, bits=8).fit(open_silos(rows, 70))


def test_the_trace_bounds_a_scatter_along_any_directions(rows):
    S = np.cov(rows.T) * (N - 1)
    turned = scipy.linalg.qr(np.random.default_rng(1).standard_normal((P, P)))[0]
    squares = {"squares": S.diagonal().copy()}
    triangle = pack(turned.T @ S @ turned)
    units = Trace("squares").divide(triangle, squares)
    assert np.abs(units).max() <= 1
    back = Trace("squares").multiply(units, squares)
    assert_allclose(back, triangle, rtol=1e-12, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("m", [5, 10])
def test_real_images(shared_data, m):
    rows = np.load(shared_data / "mnist_full.npz")["X_train"].astype(float)
    theirs = sklearn.decomposition.PCA(50, svd_solver="covariance_eigh").fit(rows)
    # Pixels that one picture alone has are allowed to carry a direction.
    parties, policy = partition_rows(rows, m), {"max_leverage": 1.0}
    sixteen = PCA(50, bits=16).fit(simulate(parties, policy=policy))
    assert angle(sixteen, theirs) <= 0.1
    eight = PCA(50, bits=8).fit(simulate(parties, policy=policy))
    angles = scipy.linalg.subspace_angles(eight.components_.T, theirs.components_.T)
    assert np.degrees(angles.mean()) <= 3.0


def test_bytes_of_large_images():
    p = 3072
    assert LowPrecisionCode(5, 16).bytes(p * (p + 1) // 2) <= 10e6
