"""Nystroem and Fourier features: scikit-learn's on joined or pooled rows, then PCA."""

import numpy as np
import pandas as pd
import pytest
import sklearn.decomposition
from numpy.testing import assert_allclose
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.pipeline import make_pipeline

import unpooled as up
from twins import assert_close
from unpooled.errors import DataError, ReleaseRefusedError
from unpooled.linalg.eigen import with_positive_peaks

N, P, SIZE = 240, 6, 40
OPEN = up.Policy.open()
RTOL = 1e-8
GAMMA = 0.1


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(5)
    return rng.standard_normal((N, P)) @ rng.standard_normal((P, P)) * 0.7 + 0.5


@pytest.fixture(scope="module")
def new_rows():
    return np.random.default_rng(6).standard_normal((30, P)) + 0.5


def by_columns(X, cut=(1, 4), **options):
    parts = np.split(np.arange(X.shape[1]), list(cut))
    frame = pd.DataFrame(X, columns=[f"c{j}" for j in range(X.shape[1])])
    tables = {f"silo{i}": frame.iloc[:, part] for i, part in enumerate(parts)}
    return up.simulate(tables, partition="columns", **{"policy": OPEN, **options})


def twin(approximation, X, k=None, **kernel):
    """scikit-learn's features, then its PCA, signs turned as kernel PCA has them."""
    if approximation == "fourier":
        features = RBFSampler(gamma=GAMMA, n_components=SIZE, random_state=7)
    else:
        features = Nystroem(n_components=SIZE, random_state=7, **kernel)
    pca = sklearn.decomposition.PCA(k, svd_solver="full")
    model = make_pipeline(features, pca).fit(X)
    scores = model.transform(X)
    turned = with_positive_peaks(scores)
    pca.components_ *= np.where((scores * turned).sum(axis=0) < 0, -1, 1)[:, None]
    return model


CASES = {
    "fourier": ("fourier", {"kernel": "rbf", "gamma": GAMMA}),
    "nystroem-rbf": ("nystroem", {"kernel": "rbf", "gamma": GAMMA}),
    "nystroem-poly": (
        "nystroem",
        {"kernel": "poly", "gamma": 0.2, "degree": 3, "coef0": 1.0},
    ),
    "nystroem-sigmoid": (
        "nystroem",
        {"kernel": "sigmoid", "gamma": 0.01, "coef0": 0.5},
    ),
}


@pytest.mark.thinned
@pytest.mark.parametrize(("approximation", "kernel"), CASES.values(), ids=CASES)
@pytest.mark.parametrize("scores", ["coordinator", "parties"])
def test_on_columns_equals_features_and_pca(
    rows, new_rows, secure_sum, approximation, kernel, scores
):
    theirs = twin(approximation, rows, 5, **kernel)
    federation = by_columns(rows, secure_sum=secure_sum)
    how = {"approximation": approximation, "n_landmarks": SIZE, "random_state": 7}

    ours = up.KernelPCA(5, **kernel, **how, scores=scores).fit(federation)

    variance = theirs[-1].explained_variance_
    assert_allclose(ours.eigenvalues_ / (N - 1), variance, RTOL)
    if scores == "parties":
        assert ours.transform(by_columns(new_rows)) is None
        # What follows asks the silos for the axes.
    later = ours.set_params(scores="coordinator")
    for name in ("kernel_means_", "score_weights_"):
        assert getattr(ours, name) is not None
    assert_close(
        later.transform(by_columns(new_rows)), theirs.transform(new_rows), RTOL
    )
    own = ours.eigenvectors_ * np.sqrt(ours.eigenvalues_)
    assert_close(own, theirs.transform(rows), RTOL)
    if approximation == "fourier":
        # Features are made of public weights, so rows in one place have scores too.
        assert_close(ours.transform(new_rows), theirs.transform(new_rows), RTOL)
    else:
        assert (ours.component_indices_ == theirs[0].component_indices_).all()


def test_on_rows_fourier_equals_features_and_pca(rows, new_rows, federate):
    theirs = make_pipeline(
        RBFSampler(gamma=GAMMA, n_components=SIZE, random_state=7),
        sklearn.decomposition.PCA(5, svd_solver="covariance_eigh"),
    ).fit(rows)
    federation = federate(rows)
    how = {"approximation": "fourier", "n_landmarks": SIZE, "random_state": 7}

    ours = up.KernelPCA(5, gamma=GAMMA, **how).fit(federation)

    variance = theirs[-1].explained_variance_
    assert_allclose(ours.eigenvalues_ / (N - 1), variance, 1e-9)
    assert_close(ours.transform(new_rows), theirs.transform(new_rows), 1e-9)
    assert_close(
        ours.to_sklearn().transform(new_rows), theirs.transform(new_rows), 1e-9
    )
    # The view of scores: their moments are those of the pooled scores.
    scaler = up.StandardScaler().fit(ours.transform(federation))
    assert_allclose(scaler.mean_, 0.0, atol=1e-10)
    assert_allclose(scaler.var_, variance * (N - 1) / N, 1e-9)
    names = list(ours.get_feature_names_out())
    assert list(ours.transform(federation).feature_names) == names


def test_phases_of_a_narrow_kernel_are_within_their_bound(rows):
    """Its frequencies are long: a phase exceeds the length of the rows together."""
    X = rows[:8] * np.r_[100.0, np.ones(P - 1)]
    how = {"approximation": "fourier", "n_landmarks": SIZE, "random_state": 7}
    ours = up.KernelPCA(2, gamma=50.0, **how).fit(by_columns(X))
    features = RBFSampler(gamma=50.0, n_components=SIZE, random_state=7)
    scatter = 7.0 * np.cov(features.fit_transform(X).T)
    assert_close(ours.eigenvalues_, np.linalg.eigvalsh(scatter)[::-1][:2], RTOL)


@pytest.mark.slow
def test_the_cut_of_columns_changes_nothing(rows):
    how = {"approximation": "fourier", "n_landmarks": SIZE, "random_state": 7}
    for approximation in ("fourier", "nystroem"):
        how["approximation"] = approximation
        first, second = (
            up.KernelPCA(4, gamma=GAMMA, **how).fit(by_columns(rows, cut))
            for cut in ((1, 4), (3, 5))
        )
        assert_close(first.eigenvectors_, second.eigenvectors_, 1e-10)


@pytest.mark.slow
def test_errors_against_exact_fall_as_landmarks_grow(rows):
    exact = up.KernelPCA(gamma=GAMMA).fit(by_columns(rows))
    for approximation in ("nystroem", "fourier"):
        errors = [
            np.mean([_error(exact, rows, approximation, size, s) for s in range(3)])
            for size in (10, 160)
        ]
        # Fourier's falls as 1 / sqrt(l), a factor of 4; Nystroem's faster.
        assert errors[1] < 0.5 * errors[0]
    assert _error(exact, rows, "nystroem", N, 0) < 1e-8


def _error(exact, rows, approximation, size, seed):
    """Return the error of the centred kernel matrix, of its Frobenius norm."""
    how = {"n_landmarks": size, "random_state": seed, "gamma": GAMMA}
    ours = up.KernelPCA(approximation=approximation, **how).fit(by_columns(rows))
    K, near = (
        m.eigenvectors_ * m.eigenvalues_ @ m.eigenvectors_.T for m in (exact, ours)
    )
    return np.linalg.norm(K - near) / np.linalg.norm(K)


def test_plans_say_what_is_sent(rows):
    federation = by_columns(rows)
    how = {"approximation": "nystroem", "n_landmarks": SIZE, "random_state": 0}
    planned = up.plan(up.KernelPCA(3, **how), federation)
    up.KernelPCA(3, **how).fit(federation)
    lines = [(x.step, x.name, x.shape, x.bytes) for x in federation.ledger]
    assert [(x.step, x.name, x.shape, x.bytes) for x in planned.releases] == lines
    assert planned.bytes == 8 * N * SIZE + 16 + 32 + 32
    assert "all rows, up to a rotation" in str(planned)
    how["approximation"] = "fourier"
    planned = up.plan(up.KernelPCA(3, **how), federation)
    assert "40 known mixtures of 6 columns" in str(planned)
    assert "all rows, by solving for them" in str(planned)


@pytest.mark.slow
def test_saved_models_of_rows_still_work(rows, new_rows, tmp_path):
    federation = up.simulate(up.partition_rows(rows, 3), policy=OPEN)
    how = {"approximation": "fourier", "n_landmarks": SIZE}
    model = up.KernelPCA(3, **how, random_state=1).fit(federation)
    again = up.load(up.save(model, tmp_path / "model"))
    assert (again.transform(new_rows) == model.transform(new_rows)).all()
    # The view, too: every silo checks the projection against the fit that it answered.
    scaler = up.StandardScaler().fit(again.transform(federation))
    assert_allclose(scaler.mean_, 0.0, atol=1e-10)


@pytest.mark.slow
def test_transforms_of_rows_are_checked_against_the_fit(rows):
    policy = {"min_parties": 3}
    federation = up.simulate(up.partition_rows(rows, 3), policy=policy, follow=True)
    how = {"approximation": "fourier", "n_landmarks": 20, "random_state": 1}
    model = up.KernelPCA(3, **how).fit(federation)
    up.StandardScaler().fit(model.transform(federation))
    # Both transforms came of the fit, but only one after the other.
    with pytest.raises(ReleaseRefusedError, match="transform_not_fitted"):
        up.StandardScaler().fit(model._features(federation))
    model.score_weights_ = model.score_weights_[::-1].copy()
    with pytest.raises(ReleaseRefusedError, match="transform_not_fitted"):
        up.StandardScaler().fit(model.transform(federation))


def test_refusal_limit(rows):
    federation = up.simulate(up.partition_rows(rows, 3), policy=OPEN)
    for approximation in (None, "nystroem"):
        with pytest.raises(DataError, match='Choose approximation="fourier"'):
            up.KernelPCA(2, approximation=approximation).fit(federation)
    with pytest.raises(DataError, match="approximate rbf alone"):
        up.KernelPCA(2, kernel="poly", approximation="fourier").fit(federation)
    with pytest.raises(DataError, match="raise n_landmarks"):
        up.KernelPCA(9, approximation="fourier", n_landmarks=5).fit(federation)
    model = up.KernelPCA(2, approximation="fourier").fit(federation)
    with pytest.raises(DataError, match="fitted on a partition by rows"):
        model.transform(by_columns(rows))
    with pytest.raises(ReleaseRefusedError, match="max_feature_ratio"):
        up.KernelPCA(2, approximation="fourier").fit(
            up.simulate(up.partition_rows(rows, 3))
        )
