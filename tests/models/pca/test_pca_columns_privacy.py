"""What the coordinator learns about people on a column partition: each claim, shown."""

import numpy as np
import pandas as pd
import pytest
import scipy.stats
import sklearn.decomposition
from numpy.testing import assert_allclose

import unpooled as up
from chance import RARE
from unpooled.errors import ReleaseRefusedError
from unpooled.models.pca import pca_columns
from unpooled.protocol.message import decode
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
    federation = federation.asked_by("pca")
    with federation.fitting():
        squares = float(federation.sum(pca_columns.own_means)["squares"])
        return federation.sum(pca_columns.own_gram, squares=squares)["gram"]


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


@pytest.mark.thinned(1)
@pytest.mark.parametrize(("width", "everything"), [(P, True), (P - 1, False)])
def test_blocks_of_low_rank_rebuild_the_gram_matrix(rows, width, everything):
    """As many images as there are columns, and no less: G = Y (Vᵀ Y)⁺ Yᵀ."""
    federation = federate(rows)
    G = gram_of(federation)
    V = np.linalg.qr(np.random.default_rng(0).standard_normal((N, width)))[0]
    federation = federation.asked_by("pca")
    with federation.fitting():
        squares = float(federation.sum(pca_columns.own_means)["squares"])
        Y = federation.sum(pca_columns.own_image, V=V, squares=squares)["image"]
    off = np.abs(Y @ np.linalg.pinv(V.T @ Y) @ Y.T - G).max() / np.abs(G).max()
    assert off < 1e-7 if everything else off > 0.01


@pytest.mark.thinned(1)
@pytest.mark.parametrize("solver", ["gram", "krylov"])
@pytest.mark.parametrize("scores", ["parties", None])
def test_a_fit_tells_the_coordinator_the_scores_whatever_is_said(
    rows, solver, scores, monkeypatch
):
    """What it sends back for the silos' loadings are the scores, of unit length."""
    federation = federate(rows)
    run_step, seen = federation.coordinator.run_step, {}

    def listening(call):
        if call.step.name == "pca.own_loadings":
            seen.update(call.public)
        return run_step(call)

    monkeypatch.setattr(federation.coordinator, "run_step", listening)
    up.PCA(2, svd_solver=solver, scores=scores, random_state=0).fit(federation)
    theirs = sklearn.decomposition.PCA(2).fit_transform(rows)
    assert_allclose(np.abs(seen["U"] * seen["length"]), np.abs(theirs), atol=1e-6)


@pytest.mark.slow
def test_scores_are_less_than_the_gram_matrix_and_show_outliers(rows):
    U, s, Vt = np.linalg.svd(rows - rows.mean(axis=0), full_matrices=False)
    # The same scores along two directions, and other people along the rest.
    other = U * np.r_[s[:2], 0.9 * s[2:]] @ Vt + rows.mean(axis=0)
    told = [up.PCA(2).fit_transform(federate(X)) for X in (rows, other)]
    assert_allclose(told[0], told[1], atol=1e-8)
    assert np.abs(gram_of(federate(rows)) - gram_of(federate(other))).max() > 1.0
    # Who is far out in one direction is seen; nobody else was.
    assert np.abs(told[0] / told[0].std(axis=0)).max() < 4.0
    far = rows.copy()
    far[17] += 60.0
    scores = up.PCA(1).fit_transform(federate(far))[:, 0]
    assert np.flatnonzero(np.abs(scores / scores.std()) > 4.0).tolist() == [17]


def test_two_parties_subtract_their_own_part(rows):
    frame = pd.DataFrame(rows, columns=list("abcde"))
    two = {"x": frame[["a", "b"]], "y": frame[["c", "d", "e"]]}
    G = gram_of(up.simulate(two, partition="columns", policy=OPEN))
    x, y = (part - part.mean() for part in two.values())
    assert_allclose(G - x.to_numpy() @ x.to_numpy().T, y @ y.T, atol=1e-8)


def test_the_squares_of_all_columns_need_leave_too(rows):
    federation = federate(rows, policy={}).asked_by("pca")
    with federation.fitting(), pytest.raises(ReleaseRefusedError, match="row_level"):
        federation.sum(pca_columns.own_means)
    federation = federate(rows, policy={"allow_row_level": "parties"}).asked_by("pca")
    with federation.fitting():
        told = federation.sum(pca_columns.own_means)
    assert_allclose(told["squares"], ((rows - rows.mean(axis=0)) ** 2).sum())


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


@pytest.mark.slow
def test_scores_for_the_parties_are_noise_to_the_coordinator(rows):
    federation = federate(rows)
    seen = up.PCA(2).fit(federation).transform(federation)
    hidden = up.PCA(2, scores="parties").fit(federation)
    view = hidden._check_view(federation)
    with view.fitting():
        scale = np.ones(2)
        told = view.sum(
            pca_columns.own_scores, to="parties", kept_of=hidden.kept_, scale=scale
        )
    words = told["scores"].words.astype(float).ravel()[: seen.size]
    assert scipy.stats.pearsonr(words, seen.ravel()).pvalue > RARE


def on_the_wire(rows, **options):
    frame = pd.DataFrame(rows, columns=[f"column {name}" for name in "abcde"])
    parts = {"x": frame.iloc[:, :2], "y": frame.iloc[:, [2]], "z": frame.iloc[:, 3:]}
    return silos(parts, partition="columns", policy=OPEN, **options)


@pytest.mark.parametrize(("secure_sum", "seen"), [("masked", False), ("plain", True)])
def test_no_party_s_own_products_pass_the_wire(rows, secure_sum, seen):
    here = on_the_wire(rows, secure_sum=secure_sum)
    up.PCA(2, svd_solver="gram").fit(here.federation)
    own = rows[:, [2]] - rows[:, [2]].mean(axis=0)
    needle = (own @ own.T)[np.triu_indices(N)]
    replies = [decode(data) for party, data in here.wire.received if party == "y"]
    words = [a for reply in replies for a in reply.arrays.values() if len(a) > N]
    # In units of a bound, so up to a factor.
    n = len(needle)  # behind them are guard words
    found = [scipy.stats.pearsonr(needle, a[:n].astype(float)) for a in words]
    assert (max(abs(one.statistic) for one in found) > 0.999) == seen
    assert (min(one.pvalue for one in found) < RARE) == seen


def test_parties_hear_of_others_columns_in_a_selection_only(rows):
    here = on_the_wire(rows)
    up.PCA(2).fit(here.federation)
    to_y = [data for party, data in here.wire.sent if party == "y"]
    assert to_y
    assert not any(b"column a" in data for data in to_y)
    up.PCA(2).fit(here.federation.select(["column a", "column c", "column d"]))
    to_y = [data for party, data in here.wire.sent if party == "y"]
    assert any(b"column a" in data for data in to_y)


@pytest.mark.slow
def test_loadings_and_means_need_leave_to_be_disclosed(rows):
    federation = federate(rows, policy={"allow_row_level": True})
    model = up.PCA(2).fit(federation)
    for name in ("components_", "mean_"):
        with pytest.raises(ReleaseRefusedError, match="allow_disclosed"):
            getattr(model, name)
    rules = {"allow_row_level": True, "allow_disclosed": True}
    model = up.PCA(2).fit(federate(rows, policy=rules))
    assert_allclose(model.mean_, rows.mean(axis=0))
