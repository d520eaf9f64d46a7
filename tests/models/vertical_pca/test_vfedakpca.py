"""VFedAKPCA as published: equal to independent code, by kernel and by projection."""

import numpy as np
import pytest
import sklearn.decomposition
from numpy.testing import assert_allclose

import vfedpca_reference as reference
from line_fields import fields
from unpooled import VFedAKPCA, load, partition_columns, save
from unpooled.errors import DataError, ReleaseRefusedError
from unpooled.linalg.kernels import centred_kernel
from vfedpca_silos import silos

N = 30
ATOL = 1e-10
KERNELS = {
    "rbf": {"kernel": "rbf", "gamma": 0.05},
    "sigmoid": {"kernel": "sigmoid", "gamma": 0.01, "coef0": 0.5},
}


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(5)
    return rng.standard_normal((N, 8)) @ rng.standard_normal((8, 8))


def signed(U, like):
    return U * np.sign(np.sum(U * like, axis=0))


@pytest.mark.thinned
@pytest.mark.parametrize("align_signs", [False, True])
@pytest.mark.parametrize("weights", ["eigenvalue", "equal"])
@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_equals_independent_code(rows, secure_sum, kernel, weights, align_signs):
    parts = list(partition_columns(rows, 3).values())
    theirs = reference.vfedakpca(parts, 2, **kernel, weights=weights, align=align_signs)

    model = VFedAKPCA(2, **kernel, weights=weights, align_signs=align_signs)
    ours = model.fit(silos(rows, secure_sum=secure_sum))

    assert_allclose(signed(ours.u_, theirs), theirs, rtol=0, atol=ATOL)
    assert len(ours.history_) == 2


@pytest.mark.slow
def test_more_rounds_replace_the_data_as_vfedpca_does(rows):
    kernel = KERNELS["rbf"]
    parts = list(partition_columns(rows, 3).values())
    first = VFedAKPCA(**kernel).fit(silos(rows)).history_[0]["u"]
    replaced = [reference.replaced(X, first) for X in parts]
    theirs = reference.vfedakpca(replaced, 1, **kernel)

    ours = VFedAKPCA(rounds=2, **kernel).fit(silos(rows))

    assert_allclose(signed(ours.u_, theirs), theirs, rtol=0, atol=1e-8)


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_one_silo_is_kernel_pca(rows, kernel):
    pooled = sklearn.decomposition.KernelPCA(1, **kernel).fit(rows)

    ours = VFedAKPCA(**kernel, project="kernel").fit(silos(rows, 1, secure_sum="plain"))

    axis = pooled.eigenvectors_
    assert_allclose(signed(ours.u_, axis), axis, rtol=0, atol=1e-9)
    # K u = λ u, and the scores of kernel PCA are u sqrt(λ).
    scores = pooled.transform(rows) * np.sqrt(pooled.eigenvalues_)
    assert_allclose(signed(ours.scores_, scores), scores, rtol=0, atol=1e-9)


@pytest.mark.slow
def test_projections(rows):
    kernel = KERNELS["rbf"]
    features = VFedAKPCA(2, **kernel).fit(silos(rows))
    kernels = VFedAKPCA(2, **kernel, project="kernel").fit(silos(rows))

    Z = rows.T @ features.u_
    P = (Z / np.linalg.norm(Z, axis=0)).T
    assert_allclose(features.components_, P, rtol=0, atol=1e-12)
    assert_allclose(features.scores_, rows @ P.T, rtol=0, atol=1e-9)
    new = np.random.default_rng(1).standard_normal((12, 8))
    assert_allclose(features.transform(silos(new)), new @ P.T, rtol=0, atol=1e-9)
    parts = partition_columns(rows, 3).values()
    K = sum(centred_kernel(X, "rbf", 0.05, 1.0) for X in parts)
    assert_allclose(kernels.scores_, K @ kernels.u_, rtol=0, atol=1e-9)
    with pytest.raises(DataError, match='project="kernel" gives scores of the rows'):
        kernels.transform(silos(new))


def test_releases_only_what_the_docstring_says(rows):
    federation = silos(rows)
    VFedAKPCA(project="kernel").fit(federation)

    left = fields(federation.ledger, "step name shape visibility", direction="out")

    assert left == [
        ("vfedakpca.local_weighted", "vector", (N,), "summed"),
        ("vfedakpca.local_weighted", "weight", (), "summed"),
        ("vfedakpca.local_squares", "squares", (1,), "summed"),
        ("vfedakpca.local_kernel_scores", "scores", (N, 1), "summed"),
    ]
    assert federation.ledger.verify()


def test_saved_models_come_back(rows, tmp_path):
    model = VFedAKPCA(2).fit(silos(rows))

    save(model, tmp_path / "model.unpooled")

    assert_allclose(load(tmp_path / "model.unpooled").u_, model.u_, rtol=0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kernel": "poly"}, 'kernel=\'poly\'; choose "rbf", "sigmoid" or'),
        ({"project": "both"}, "project='both'"),
        ({"gamma": -1.0}, r"gamma=-1\.0; choose a number above 0"),
        ({"centre": "rows"}, "is for VFedPCA"),
    ],
)
def test_what_is_no_option_is_refused(rows, options, message):
    with pytest.raises(DataError, match=message):
        VFedAKPCA(**options).fit(silos(rows))


def test_rows_that_cannot_be_used_are_refused_by_rule(rows):
    holes = rows.copy()
    holes[0, 0] = np.nan
    with pytest.raises(DataError, match="missing_values"):
        VFedAKPCA().fit(silos(holes))
    flat = rows.copy()
    flat[:, :3] = 1.0
    with pytest.raises(DataError, match="no_variance"):
        VFedAKPCA().fit(silos(flat))
    with pytest.raises(ReleaseRefusedError, match="allow_row_level"):
        VFedAKPCA().fit(silos(rows, policy=None))
