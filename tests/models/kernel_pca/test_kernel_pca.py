"""Kernel PCA on column partitions: scikit-learn's answer on the joined columns."""

import numpy as np
import pandas as pd
import pytest
import sklearn.decomposition
from numpy.testing import assert_allclose
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import unpooled as up
from twins import assert_close
from unpooled.errors import DataError, ReleaseRefusedError
from unpooled.party.memory.kept_arrays import shared_kept
from unpooled.protocol.view_operations import split_address

N, P = 60, 7
OPEN = up.Policy.open()
ROW_LEVEL = {"allow_row_level": True}
CUTS = {"balanced": [2, 5], "skewed": [1, 2], "two": [3], "six": [1, 2, 3, 4, 6]}
# Parameters under which four eigenvalues are above 1e-4 of the first: a score errs by
# 1e-15 of it over that, and the sums keep 1e-16 of their bound, so 1e-8 has room.
KERNELS = {
    "rbf": {"kernel": "rbf", "gamma": 0.05},
    "rbf-default": {"kernel": "rbf"},
    "linear": {"kernel": "linear"},
    "poly": {"kernel": "poly", "gamma": 0.1, "degree": 2, "coef0": 2.0},
    "poly-default": {"kernel": "poly"},
    "sigmoid": {"kernel": "sigmoid", "gamma": 0.01, "coef0": 0.5},
}
RTOL = 1e-8


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(3)
    return rng.standard_normal((N, P)) @ rng.standard_normal((P, P)) + 0.5


@pytest.fixture(scope="module")
def new_rows():
    return np.random.default_rng(4).standard_normal((12, P)) * 2 + 0.5


def federate(X, cut=(2, 5), **options):
    parts = np.split(np.arange(X.shape[1]), list(cut))
    frame = pd.DataFrame(X, columns=[f"c{j}" for j in range(X.shape[1])])
    tables = {f"silo{i}": frame.iloc[:, part] for i, part in enumerate(parts)}
    return up.simulate(tables, partition="columns", **{"policy": OPEN, **options})


def pooled(X, k=None, **kernel):
    return sklearn.decomposition.KernelPCA(k, eigen_solver="dense", **kernel).fit(X)


@pytest.mark.thinned(3)
@pytest.mark.parametrize("cut", CUTS.values(), ids=CUTS)
@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_equals_the_twin_on_joined_columns(rows, new_rows, secure_sum, cut, kernel):
    theirs = pooled(rows, 4, **kernel)
    federation = federate(rows, cut, secure_sum=secure_sum)

    ours = up.KernelPCA(4, **kernel).fit(federation)

    assert_allclose(ours.eigenvalues_, theirs.eigenvalues_, RTOL)
    assert_close(ours.eigenvectors_, theirs.eigenvectors_, RTOL)
    assert_close(ours.transform(federation), theirs.transform(rows), RTOL)
    later = federate(new_rows, cut, secure_sum=secure_sum)
    assert_close(ours.transform(later), theirs.transform(new_rows), RTOL)
    assert ours.gamma_ == theirs.gamma_
    assert (ours.n_samples_, ours.n_features_in_) == (N, P)


@pytest.mark.thinned
@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly"])
@pytest.mark.parametrize("k", [None, 1, 50, 1000])
def test_any_number_of_components(rows, kernel, k):
    theirs = pooled(rows, k, **KERNELS[kernel])
    ours = up.KernelPCA(k, **KERNELS[kernel])
    scores = ours.fit_transform(federate(rows))
    assert scores.shape == theirs.transform(rows).shape
    # Of eigenvalues, rounding leaves what is above 1e-14 of the first.
    most = theirs.eigenvalues_[0]
    assert_allclose(ours.eigenvalues_, theirs.eigenvalues_, RTOL, 1e-13 * most)
    ours = ours.set_params(scores="parties").fit(federate(rows))
    assert_allclose(ours.eigenvalues_, theirs.eigenvalues_, RTOL, 1e-13 * most)


@pytest.mark.slow
def test_far_means_keep_their_digits_where_a_kernel_does_not_see_them(rows):
    for kernel in ("rbf", "linear"):
        near, far = (
            up.KernelPCA(3, kernel=kernel, gamma=0.05).fit(federate(X))
            for X in (rows, rows + 1e7)
        )
        # Cells of 1e7 keep nine digits of a spread of 1.
        assert_close(far.eigenvectors_, near.eigenvectors_, 1e-7)


@pytest.mark.slow
def test_standardised_in_the_silos(rows, new_rows):
    scaler = StandardScaler().fit(rows)
    theirs = pooled(scaler.transform(rows), 3, kernel="rbf")
    model = make_pipeline(up.StandardScaler(), up.KernelPCA(3))
    scores = model.fit_transform(federate(rows, policy=ROW_LEVEL))
    assert_close(scores, theirs.transform(scaler.transform(rows)), RTOL)
    later = federate(new_rows, policy=ROW_LEVEL)
    wanted = theirs.transform(scaler.transform(new_rows))
    assert_close(model.transform(later), wanted, RTOL)


@pytest.mark.thinned(3)
@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_the_silos_can_solve_for_themselves(rows, new_rows, secure_sum, kernel):
    theirs = pooled(rows, 3, **kernel)
    federation = federate(rows, secure_sum=secure_sum)

    ours = up.KernelPCA(3, scores="parties", **kernel).fit(federation)

    assert_allclose(ours.eigenvalues_, theirs.eigenvalues_, RTOL)
    later = federate(new_rows, secure_sum=secure_sum)
    assert ours.transform(later) is None
    assert_close(_kept(later, "scores"), theirs.transform(new_rows), RTOL)
    assert ours.fit_transform(federation) is None
    assert_close(_kept(federation, "scores"), theirs.transform(rows), RTOL)
    # Asked for, they are disclosed, which these silos allow.
    assert_close(ours.eigenvectors_, theirs.eigenvectors_, RTOL)


def _kept(federation, name):
    """What the first silo keeps, as its own process could read it."""
    study, view = split_address(federation.kept_here)
    shelf = shared_kept("silo0", study)
    assert shelf is not None
    found = shelf.get(view, name)
    assert found is not None
    return found[0]


def test_releases_what_the_docstring_says(rows):
    federation = federate(rows, policy=ROW_LEVEL)
    up.KernelPCA(2, kernel="rbf").fit(federation)
    seen = _lines(federation.ledger)
    assert [x for x in seen if x[3] == "summed"] == [
        ("kernel_pca.own_landmarks", "squares", (), "summed"),
        ("kernel_pca.own_distances", "distances", (N, N), "summed"),
    ]
    assert {x[3] for x in seen} == {"summed", "kept", "public"}
    planned = up.plan(up.KernelPCA(2, kernel="rbf"), federation)
    assert _lines(planned.releases) == seen
    assert not planned.refusals
    assert planned.rounds == 2
    # N (N + 1) / 2 numbers of 8 bytes, and one of 32, each with guard words.
    assert planned.bytes == 8 * N * (N + 1) // 2 + 16 + 32 + 32
    assert "shows the coordinator sums of every two of 60 people" in str(planned)


def test_with_scores_for_the_parties_the_coordinator_learns_eigenvalues(rows):
    federation = federate(rows, policy=ROW_LEVEL)
    model = up.KernelPCA(2, kernel="poly", scores="parties").fit(federation)
    seen = _lines(federation.ledger)
    planned = up.plan(model, federation)
    assert _lines(planned.releases) == seen
    assert ("kernel_pca.own_values", "eigenvalues", (2,), "summed") in seen
    with pytest.raises(ReleaseRefusedError, match="allow_disclosed"):
        _ = model.eigenvectors_


def _lines(ledger):
    return [(x.step, x.name, x.shape, x.visibility) for x in ledger]


def test_order_of_silos_changes_nothing(rows):
    first = federate(rows)
    frame = pd.DataFrame(rows, columns=[f"c{j}" for j in range(P)])
    turned = {"z": frame.iloc[:, 4:], "a": frame.iloc[:, :4]}
    other = up.simulate(turned, partition="columns", policy=OPEN)
    ours, theirs = (up.KernelPCA(3).fit(f) for f in (first, other))
    assert_close(ours.eigenvectors_, theirs.eigenvectors_, 1e-10)


def test_saved_and_loaded_it_still_transforms(rows, new_rows, tmp_path):
    federation = federate(rows)
    model = up.KernelPCA(3, kernel="poly").fit(federation)
    again = up.load(up.save(model, tmp_path / "model"))
    wanted = model.transform(federate(new_rows))
    assert_close(again.transform(federate(new_rows)), wanted, 1e-14)


@pytest.mark.slow
def test_a_later_fit_does_not_pass_for_an_earlier_one(rows, new_rows):
    federation = federate(rows)
    first = up.KernelPCA(2, scores="parties").fit(federation)
    up.KernelPCA(2, kernel="poly", scores="parties").fit(federation)
    with pytest.raises(DataError, match="nothing_kept"):
        first.transform(federate(new_rows))
    early = {"approximation": "nystroem", "n_landmarks": 20, "random_state": 0}
    second = up.KernelPCA(2, **early).fit(federation)
    up.KernelPCA(2).fit(federation)
    with pytest.raises(DataError, match="nothing_kept"):
        second.transform(federate(new_rows))


@pytest.mark.slow
def test_refusal_limit(rows, new_rows):
    holes = rows.copy()
    holes[3, 4] = np.nan
    with pytest.raises(DataError, match="missing_values"):
        up.KernelPCA(2).fit(federate(holes))
    with pytest.raises(ReleaseRefusedError, match="allow_row_level"):
        up.KernelPCA(2).fit(federate(rows, policy={}))
    with pytest.raises(ReleaseRefusedError, match="min_parties"):
        up.KernelPCA(2).fit(federate(rows, (3,), policy=ROW_LEVEL))
    with pytest.raises(DataError, match="negative eigenvalues"):
        up.KernelPCA(kernel="sigmoid", coef0=-2.0).fit(federate(rows))
    for wrong, said in {
        "n_components": 0,
        "kernel": "cosine",
        "approximation": "sparse",
        "scores": None,
        "gamma": -1.0,
        "n_landmarks": 2.5,
        "degree": np.inf,
    }.items():
        with pytest.raises(DataError, match=wrong):
            up.KernelPCA(**{wrong: said}).fit(federate(rows))
    ours = up.KernelPCA(2).fit(federate(rows))
    with pytest.raises(DataError, match="are in the silos"):
        ours.transform(new_rows)
    with pytest.raises(DataError, match="holds the fitted rows"):
        ours.to_sklearn()
