"""What the coordinator learns about people on a column partition: each claim, shown."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import unpooled as up
from unpooled.errors import ReleaseRefusedError
from unpooled.models import pca
from wire import silos

N, P = 30, 5
OPEN = up.Policy.open()


@pytest.fixture(scope="module")
def rows():
    return np.random.default_rng(9).standard_normal((N, P)) * [1, 2, 3, 4, 5] + 7.0


def federate(X, **options):
    frame = pd.DataFrame(X, columns=list("abcde"))
    parts = {"x": frame[["a", "b"]], "y": frame[["c"]], "z": frame[["d", "e"]]}
    return up.simulate(parts, partition="columns", **{"policy": OPEN, **options})


def gram_of(federation):
    with federation.fitting():
        squares = float(federation.sum(pca.own_means)["squares"])
        return federation.sum(pca.own_gram, squares=squares)["gram"]


def test_gram_entries_are_distances_between_people(rows):
    G = gram_of(federate(rows))
    squared = G[0, 0] + G[1, 1] - 2 * G[0, 1]
    assert_allclose(squared, ((rows[0] - rows[1]) ** 2).sum(), rtol=1e-9)


def test_gram_entries_are_all_rows_to_one_who_knows_some(rows):
    """As many known people as columns turn the rotation back."""
    centred = rows - rows.mean(axis=0)
    values, U = np.linalg.eigh(gram_of(federate(rows)))
    rotated = U[:, -P:] * np.sqrt(values[-P:])
    rotation = np.linalg.lstsq(rotated[:P], centred[:P], rcond=None)[0]
    assert_allclose(rotated @ rotation, centred, atol=1e-6)
    # With one person less, nobody else's row is determined.
    fewer = np.linalg.lstsq(rotated[: P - 1], centred[: P - 1], rcond=None)[0]
    assert np.abs(rotated @ fewer - centred).max() > 0.1


def test_blocks_of_low_rank_rebuild_the_gram_matrix(rows):
    """As many images as there are columns: G = Y (Vᵀ Y)⁺ Yᵀ."""
    federation = federate(rows)
    G = gram_of(federation)
    V = np.linalg.qr(np.random.default_rng(0).standard_normal((N, P)))[0]
    with federation.fitting():
        squares = float(federation.sum(pca.own_means)["squares"])
        Y = federation.sum(pca.own_image, V=V, squares=squares)["image"]
    assert_allclose(Y @ np.linalg.pinv(V.T @ Y) @ Y.T, G, atol=1e-7 * np.abs(G).max())


@pytest.mark.parametrize("solver", ["gram", "krylov"])
def test_nothing_over_people_leaves_by_default(rows, solver):
    federation = federate(rows, policy={})
    with pytest.raises(ReleaseRefusedError, match="allow_row_level"):
        up.PCA(2, svd_solver=solver).fit(federation)
    over_people = [x for x in federation.ledger if x.direction == "out" and x.shape]
    assert over_people == []


def test_two_parties_are_refused_by_default(rows):
    frame = pd.DataFrame(rows, columns=list("abcde"))
    two = {"x": frame[["a", "b"]], "y": frame[["c", "d", "e"]]}
    rules = {"allow_row_level": True}
    federation = up.simulate(two, partition="columns", policy=rules)
    with pytest.raises(ReleaseRefusedError, match="min_parties"):
        up.PCA(2).fit(federation)


def test_scores_for_the_parties_are_noise_to_the_coordinator(rows):
    federation = federate(rows)
    seen = up.PCA(2).fit(federation).transform(federation)
    hidden = up.PCA(2, scores="parties").fit(federation)
    view = hidden._check_view(federation)
    with view.fitting():
        scale = np.ones(2)
        told = view.sum(pca.own_scores, to="parties", kept_of=hidden.kept_, scale=scale)
    words = told["scores"].words.astype(float).ravel()[: seen.size]
    assert abs(np.corrcoef(words, seen.ravel())[0, 1]) < 0.6


def test_no_party_s_own_products_pass_the_wire(rows):
    frame = pd.DataFrame(rows, columns=list("abcde"))
    parts = {"x": frame[["a", "b"]], "y": frame[["c"]], "z": frame[["d", "e"]]}
    here = silos(parts, partition="columns", policy=OPEN)
    up.PCA(2, svd_solver="gram").fit(here.federation)
    own = rows[:, [2]] - rows[:, 2].mean()
    needle = (own @ own.T)[0, 1]
    assert all(
        np.float64(needle).tobytes() not in data for _, data in here.wire.received
    )
