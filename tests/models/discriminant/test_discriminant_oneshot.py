"""One-shot discriminants: the published algorithms, and how far from exact they are."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from test_discriminant import P, data, silos

from twins import assert_close
from unpooled import LinearDiscriminantAnalysis, Policy
from unpooled.errors import DataError

__all__ = ["data"]


@pytest.mark.slow
@pytest.mark.parametrize("ridge", [None, 1.5])
def test_one_shot_is_the_published_algorithm(data, ridge):
    X, y = data
    M = np.zeros((P, P))
    for i in range(3):
        Z, own = X[i::3], y[i::3]
        means = np.array([Z[own == k].mean(axis=0) for k in range(3)])
        W = Z - means[own]
        H = (means - Z.mean(axis=0)) * np.sqrt(np.bincount(own))[:, None]
        values, V = np.linalg.eigh(W.T @ W + (ridge or 0.0) * np.eye(P))
        root = V / np.sqrt(values) @ V.T
        M += root @ H.T @ H @ root
    exact = np.linalg.eigh(M)[1][:, :-3:-1]

    federation = silos(X, y)
    ours = LinearDiscriminantAnalysis(solver="dgep-eigh", ridge=ridge)
    ours.fit(federation, "class")

    assert_allclose(np.abs(ours.scalings_.T @ exact), np.eye(2), atol=1e-9)
    assert ours.classes_.tolist() == [0, 1, 2]
    assert {line.round for line in federation.ledger} == {1, 2}
    with pytest.raises(DataError, match="find directions"):
        ours.predict(X)
    options = {"ridge": ridge, "random_state": 0, "max_iter": 100}
    power = LinearDiscriminantAnalysis(solver="dgep-power", **options)
    assert_close(power.fit(silos(X, y), "class").scalings_, ours.scalings_, 1e-6)
    shown = LinearDiscriminantAnalysis(
        solver="dgep-eigh", ridge=ridge, factors=True, classes=[0, 1, 2]
    ).fit(silos(X, y, policy=Policy.open()), "class")
    assert_close(shown.scalings_, ours.scalings_, 1e-9)


@pytest.mark.slow
def test_one_shot_factors_of_more_columns_than_rows():
    rng = np.random.default_rng(0)
    y = np.arange(60) % 3
    X = rng.standard_normal((60, 300)) + rng.standard_normal((3, 300))[y]
    options = {"solver": "dgep-eigh", "classes": [0, 1, 2], "ridge": 0.5}
    shown = LinearDiscriminantAnalysis(**options, factors=True)
    federation = silos(X, y, policy=Policy.open())
    shown.fit(federation, "class")
    *_, line = [one for one in federation.ledger if one.direction == "out"]
    assert (line.shape, line.visibility, line.round) == ((300, 3), "disclosed", 2)
    whole = LinearDiscriminantAnalysis(**options)
    whole.fit(silos(X, y, policy=Policy.open()), "class")
    assert_close(shown.scalings_, whole.scalings_, 1e-9)


@pytest.mark.thinned(1)
@pytest.mark.parametrize("options", [{}, {"factors": True, "classes": [0, 1, 2]}])
def test_diagnosis_names_error_and_bound(data, options):
    X, y = data
    A, B, M = np.zeros((3, P, P))
    radii = []
    for i in range(3):
        Z, own = X[i::3], y[i::3]
        means = np.array([Z[own == k].mean(axis=0) for k in range(3)])
        W = Z - means[own]
        H = (means - Z.mean(axis=0)) * np.sqrt(np.bincount(own))[:, None]
        a, b = H.T @ H, W.T @ W
        A, B, M = A + a, B + b, M + _between_roots(a, b)
        radii.append([np.linalg.norm(a, 2), np.linalg.norm(b, 2)])
    exact = _between_roots(A, B)
    V = np.linalg.eigh(exact)[1][:, -1:]
    federation = silos(X, y, policy=Policy.open())
    model = LinearDiscriminantAnalysis(1, solver="dgep-eigh", **options)
    W = model.fit(federation, "class").scalings_

    found = model.diagnose(federation)

    assert_allclose(found.error, np.linalg.norm(W - V @ (V.T @ W)), rtol=1e-7)
    ours, spectrum = (np.linalg.eigvalsh(one)[::-1] for one in (M, exact))
    gap = spectrum[0] - ours[1] / 3
    assert found.perturbation == pytest.approx(np.linalg.norm(exact - M / 3, 2) / gap)
    (a, b), wide = np.transpose(radii), spectrum[0] - ours[1]
    bound = (a.max() / (27 * b.max()) + 3 * (a / b).max()) / wide
    assert found.bound == (pytest.approx(bound) if wide > 0 else np.inf)


@pytest.mark.slow
def test_diagnosis_without_the_bound(data):
    model = LinearDiscriminantAnalysis(1, solver="dgep-power", random_state=0)
    model.fit(silos(*data), "class")
    assert model.diagnose(silos(*data)).bound is None
    exact = LinearDiscriminantAnalysis().fit(silos(*data), "class")
    with pytest.raises(DataError, match="no error"):
        exact.diagnose(silos(*data))


def _between_roots(a, b):
    values, V = np.linalg.eigh(b)
    root = V / np.sqrt(values) @ V.T
    return root @ a @ root
