"""What kernel PCA tells of people on a column partition: each claim, shown."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import unpooled as up
from unpooled.errors import ReleaseRefusedError
from unpooled.linalg.kernels import fourier_features, fourier_weights
from unpooled.models.kernel_pca import kernel_pca
from unpooled.models.kernel_pca.kernel_pca_columns import (
    own_distances_with,
    own_landmarks,
    own_products,
)
from unpooled.models.moments import local_total
from wire import silos

N, P = 40, 5
OPEN = up.Policy.open()
GAMMA = 0.02


@pytest.fixture(scope="module")
def rows():
    return np.random.default_rng(9).standard_normal((N, P)) * [1, 2, 3, 2, 1] + 2.0


def cut(X):
    frame = pd.DataFrame(X, columns=list("abcde"))
    return {"x": frame[["a", "b"]], "y": frame[["c"]], "z": frame[["d", "e"]]}


def federate(X, **options):
    return up.simulate(cut(X), partition="columns", **{"policy": OPEN, **options})


def squared_distances(X):
    return ((X[:, None] - X[None]) ** 2).sum(axis=-1)


def placed(distances, known):
    """Place everybody by distances, and turn them so that the known lie right."""
    n = len(distances)
    centring = np.eye(n) - 1.0 / n
    values, U = np.linalg.eigh(-0.5 * centring @ distances @ centring)
    points = U[:, -P:] * np.sqrt(np.maximum(values[-P:], 0.0))
    # An affine map, from the people whose rows are known.
    design = np.column_stack([points, np.ones(n)])
    return design @ np.linalg.lstsq(design[: len(known)], known, rcond=None)[0]


def test_an_rbf_kernel_is_all_distances_and_with_some_rows_all_rows(rows):
    model = up.KernelPCA(gamma=GAMMA).fit(federate(rows))
    # From the fitted model alone: its axes and means give the kernel matrix back.
    K = model.eigenvectors_ * model.eigenvalues_ @ model.eigenvectors_.T
    means = model.kernel_means_
    K = K + means + means[:, None] - means.mean()
    distances = -np.log(K) / GAMMA
    assert_allclose(distances, squared_distances(rows), atol=1e-8)
    assert_allclose(placed(distances, rows[: P + 1]), rows, atol=1e-5)
    # With one person less, nobody else's row is determined.
    assert np.abs(placed(distances, rows[:P]) - rows).max() > 0.1


@pytest.mark.thinned(1)
@pytest.mark.parametrize(
    ("kernel", "inverse"),
    [
        ("poly", lambda K, c: (np.cbrt(K) - c) / GAMMA),
        ("sigmoid", lambda K, c: (np.arctanh(K) - c) / GAMMA),
    ],
)
def test_other_kernels_are_products_of_every_two_rows(rows, kernel, inverse):
    how = {"kernel": kernel, "gamma": GAMMA, "coef0": 0.5}
    model = up.KernelPCA(N if kernel == "poly" else 3, **how).fit(federate(rows))
    products = _opened(federate(rows), own_products, centred=False)
    assert_allclose(products, rows @ rows.T, atol=1e-9)
    if kernel == "poly":
        K = model.eigenvectors_ * model.eigenvalues_ @ model.eigenvectors_.T
        means = model.kernel_means_
        K = K + means + means[:, None] - means.mean()
        assert_allclose(inverse(K, 0.5), rows @ rows.T, atol=1e-6)


def _opened(federation, step, **how):
    """What a coordinator opens, by the steps of a fit."""
    federation = federation.asked_by("kernel_pca")
    with federation.fitting():
        chosen, centred = np.arange(N), how.get("centred", True)
        told = federation.sum(own_landmarks, chosen=chosen, centred=centred)
        squares = float(told["squares"])
        return next(iter(federation.sum(step, squares=squares, **how).values()))


def test_more_landmarks_than_columns_place_everybody(rows):
    federation = federate(rows).asked_by("kernel_pca")
    for size, everybody in ((P + 1, True), (P - 2, False)):
        chosen = np.arange(size)
        with federation.fitting():
            told = federation.sum(own_landmarks, chosen=chosen, centred=True)
            how = {"chosen": chosen, "squares": 2 * float(told["squares"])}
            halves = federation.sum(own_distances_with, **how)["distances"]
        # ‖x‖² - 2 x·y + ‖y‖²: differences between landmarks are linear in x.
        Y, squares = rows[:size], (rows[:size] ** 2).sum(axis=1)
        right = 0.5 * (squares[1:] - squares[0]) - (halves[:, 1:] - halves[:, :1])
        found = np.linalg.lstsq(Y[1:] - Y[0], right.T, rcond=None)[0].T
        assert (np.abs(found - rows).max() < 1e-6) == everybody


def watched(here, monkeypatch):
    """Note what a coordinator is told of every step, and who opens it."""
    run_step, seen = here.federation.coordinator.run_step, []

    def listening(call):
        opened = run_step(call)
        seen.append((call.step.name.rpartition(".")[2], call.to, opened))
        return opened

    monkeypatch.setattr(here.federation.coordinator, "run_step", listening)
    return seen


@pytest.mark.parametrize(("size", "everything"), [(P, True), (P - 1, False)])
def test_as_many_phases_as_columns_are_the_rows_themselves(
    rows, size, everything, monkeypatch
):
    here = silos(cut(rows), partition="columns", policy=OPEN)
    seen = watched(here, monkeypatch)
    how = {"approximation": "fourier", "n_landmarks": size, "random_state": 3}
    up.KernelPCA(2, gamma=GAMMA, **how).fit(here.federation)
    [phases] = [told["phases"] for name, _, told in seen if name == "own_phases"]
    W = fourier_weights(3, P, size, GAMMA)[0]
    found = np.linalg.lstsq(W.T, phases.T, rcond=None)[0].T
    assert (np.abs(found - rows).max() < 1e-6) == everything


@pytest.mark.thinned(1)
@pytest.mark.parametrize("approximation", [None, "nystroem", "fourier"])
def test_with_scores_for_the_parties_the_coordinator_opens_no_sum(
    rows, approximation, monkeypatch
):
    here = silos(cut(rows), partition="columns", policy=OPEN)
    seen = watched(here, monkeypatch)
    how = {"approximation": approximation, "n_landmarks": 8, "random_state": 3}
    model = up.KernelPCA(2, gamma=GAMMA, **how, scores="parties")
    model.fit(here.federation)
    assert model.transform(here.federation) is None
    opened = {name for name, to, told in seen if told and to == "coordinator"}
    assert opened == {"own_landmarks", "own_values", "own_extent"}
    assert not {"eigenvectors_", "kernel_means_", "score_weights_"} & set(vars(model))


def test_no_silo_s_own_products_pass_the_wire(rows):
    here = silos(cut(rows), partition="columns", policy=OPEN)
    up.KernelPCA(2, kernel="poly").fit(here.federation)
    needle = (rows[:, [2]] @ rows[:, [2]].T)[0, 1]
    assert all(
        np.float64(needle).tobytes() not in data for _, data in here.wire.received
    )


@pytest.mark.parametrize("approximation", [None, "nystroem", "fourier"])
def test_nothing_over_people_leaves_by_default(rows, approximation):
    federation = federate(rows, policy={})
    how = {"approximation": approximation, "n_landmarks": 8}
    with pytest.raises(ReleaseRefusedError, match="allow_row_level"):
        up.KernelPCA(2, **how).fit(federation)
    over_people = [x for x in federation.ledger if x.direction == "out" and x.shape]
    assert over_people == []


def test_on_rows_features_stay_and_totals_leave():
    rows = np.random.default_rng(1).standard_normal((120, 3))
    federation = up.simulate(up.partition_rows(rows, 3))
    up.KernelPCA(2, approximation="fourier", n_landmarks=8, random_state=0).fit(
        federation
    )
    left = [x for x in federation.ledger if x.direction == "out"]
    assert [(x.step, x.name, x.shape, x.visibility) for x in left] == [
        ("kernel_pca.local_total", "count", (), "summed"),
        ("kernel_pca.local_total", "total", (8,), "summed"),
        ("kernel_pca.local_squares", "squares", (8,), "summed"),
        ("kernel_pca.local_scatter", "scatter", (8, 8), "summed"),
    ]


def test_drawn_features_are_few_beside_the_rows_in_every_release():
    rows = np.random.default_rng(1).standard_normal((120, 3))
    # Of 13 features of 40 rows some row carries a direction: no matter here.
    policy = {"max_leverage": 1.0}
    federation = up.simulate(up.partition_rows(rows, 3), policy=policy)
    how = {"approximation": "fourier", "random_state": 0}
    with pytest.raises(ReleaseRefusedError, match="max_feature_ratio"):
        up.KernelPCA(2, **how, n_landmarks=14).fit(federation)
    # Not even their sums, which are no release over pairs of features.
    assert not [x for x in federation.ledger if x.direction == "out"]
    up.KernelPCA(2, **how, n_landmarks=13).fit(federation)


def test_totals_of_many_drawn_features_tell_who_is_in_the_data():
    """What the rule above is against: a known row, looked for in sums of features."""
    size, (rows, strangers) = 4_000, np.random.default_rng(1).normal(0, 10, (2, 120, 3))
    federation = up.simulate(up.partition_rows(rows, 3), policy=OPEN)
    names, how = [f"f{j}" for j in range(size)], {"seed": 0, "gamma": 5.0}
    with federation.fitting():
        view = federation.derive(kernel_pca.fourier, names, size=size, **how)
        total = view.asked_by("kernel_pca").sum(local_total)["total"]
    weights, offset = fourier_weights(0, 3, size, 5.0)

    def found(X):
        """Add a row's kernel values with all: 1 for who is there, else about 0."""
        return fourier_features(X @ weights, offset) @ total

    # Noise of sqrt(120 / 4000), against which 0.5 is three deviations.
    assert (found(rows) > 0.5).mean() > 0.95
    assert (found(strangers) < 0.5).mean() > 0.95
