"""How far the merged directions of VFedPCA are from the exact components."""

import numpy as np
import pytest
import scipy.linalg
from numpy.testing import assert_allclose

import unpooled as up
from unpooled.results.summary import summaries_of


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((90, 6)) @ rng.standard_normal((6, 6))
    parts = up.partition_columns(X, 3)
    return up.simulate(parts, partition="columns", policy=up.Policy.open()), X


@pytest.mark.slow
@pytest.mark.parametrize(
    "model", [up.VFedPCA(2, rounds=3), up.VFedAKPCA(2, gamma=0.01)]
)
def test_directions_are_compared_with_the_pca_of_the_study(people, model):
    federation, X = people
    model.fit(federation)
    if isinstance(model, up.VFedPCA):
        assert model.components_.shape == (2, 6)
    exact = up.PCA(3).fit(federation)
    assert exact.components_.shape == (3, 6)

    table = summaries_of([model, exact])[0].to_frame("variances")

    centred = X - X.mean(axis=0)
    _, d, Vt = np.linalg.svd(centred, full_matrices=False)
    best = d**2 / (len(X) - 1)
    own = np.square(centred.T @ model.u_).sum(axis=0) / (len(X) - 1)
    # Totals keep twelve digits of their bounds.
    assert_allclose(table["variance"], own, rtol=1e-9)
    assert_allclose(table["variance_pca"], best[:2], rtol=1e-9)
    shares = np.cumsum(own) / np.cumsum(best[:2])
    assert_allclose(table["cumulative_share_of_pca"], shares, rtol=1e-9)
    assert (shares <= 1.0).all()
    assert_allclose(table["share_of_total"], own / best.sum(), rtol=1e-9)
    if "components_" in vars(model):
        angles = [
            np.degrees(
                scipy.linalg.subspace_angles(model.components_[:k].T, Vt[:k].T)[0]
            )
            for k in (1, 2)
        ]
        assert_allclose(table["angle"], angles, rtol=1e-6)


@pytest.mark.slow
def test_without_a_pca_the_results_point_to_it(people):
    federation, _ = people
    model = up.VFedPCA(2, rounds=1).fit(federation)

    for later in ([], [up.PCA(2).fit(federation.select(["x0", "x2", "x4"]))]):
        (shown, *_), *_ = (summaries_of([model, *later])[0].exhibits,)
        assert "PCA gives them exactly" in shown.text
        assert [c.key for c in shown.tables[0].columns] == ["component", "variance"]
