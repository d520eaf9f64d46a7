"""Generalised eigenproblems: a user's own matrices, exactly and in one shot."""

import numpy as np
import pytest
import scipy.linalg
from numpy.testing import assert_allclose, assert_array_equal

from line_fields import fields
from twins import assert_close
from unpooled import GeneralizedEigen, Policy, load, plan, save, simulate
from unpooled.arrays import Array
from unpooled.errors import DataError
from unpooled.linalg.generalized_eigen import largest_sine
from unpooled.protocol.step import kept, stays, summed
from unpooled.results.plots.drawing import settings

P = 5
SILO = "test_generalized_eigen"


@kept(takes={"mean": "p"}, A=stays("p p", until="fit"), B=stays("p p", until="fit"))
def local_lags(X, *, mean: Array):
    """Covariance of successive rows against that of rows: slow directions."""
    Z = X - mean
    C = Z[1:].T @ Z[:-1]
    return {"A": C + C.T, "B": Z.T @ Z}


@kept(A="p p", B="p p")
def local_skewed(X):
    return {"A": np.triu(X.T @ X), "B": X.T @ X}


@summed(A="p p", B="p p")
def local_summed(X):
    return {"A": X.T @ X, "B": np.eye(X.shape[1])}


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(3)
    noise = rng.standard_normal((240, P))
    walk = np.zeros((240, P))
    for t in range(1, 240):
        walk[t] = np.linspace(0.9, 0.1, P) * walk[t - 1] + noise[t]
    return walk @ rng.standard_normal((P, P)) + 3.0


def silos(rows, m=4, **options):
    pieces = np.array_split(rows, m)
    return simulate({f"silo{i}": x for i, x in enumerate(pieces)}, **options)


def pairs(rows, m=4):
    mean = rows.mean(axis=0)
    found = [local_lags(x, mean=mean) for x in np.array_split(rows, m)]
    return [f["A"] for f in found], [f["B"] for f in found]


def model(rows, k=2, **options):
    return GeneralizedEigen(
        k, pair=local_lags, public={"mean": rows.mean(axis=0)}, **options
    )


@pytest.mark.parametrize("m", [3, 4, 7])
def test_equals_the_pooled_problem(rows, m, secure_sum):
    A, B = (sum(one) for one in pairs(rows, m))
    values, vectors = scipy.linalg.eigh(A, B)

    ours = model(rows).fit(silos(rows, m, secure_sum=secure_sum))

    assert_allclose(ours.eigenvalues_, values[:-3:-1], rtol=1e-9)
    V = vectors[:, :-3:-1]
    V = V * np.sign(V[np.abs(V).argmax(axis=0), [0, 1]])
    assert_close(ours.eigenvectors_, V)
    new = np.random.default_rng(0).standard_normal((4, P))
    assert_close(ours.transform(new), new @ V)


def root(B, ridge=0.0):
    return np.linalg.inv(scipy.linalg.sqrtm(B + ridge * np.eye(P)).real)


@pytest.mark.thinned(1)
@pytest.mark.parametrize("ridge", [None, 0.5])
def test_one_shot_is_the_published_algorithm(rows, ridge):
    M = sum(
        root(B, ridge or 0.0) @ A @ root(B, ridge or 0.0)
        for A, B in zip(*pairs(rows), strict=True)
    )
    exact = np.linalg.eigh(M)[1][:, :-3:-1]

    ours = model(rows, solver="dgep-eigh", ridge=ridge).fit(silos(rows))
    assert largest_sine(ours.eigenvectors_, exact) < 1e-9
    assert_allclose(np.abs(ours.eigenvectors_.T @ exact), np.eye(2), atol=1e-9)

    start = np.random.default_rng(1).standard_normal((P, 2))
    power = model(rows, solver="dgep-power", ridge=ridge, init=start, max_iter=7)
    W = power.fit(silos(rows)).eigenvectors_
    # Seven steps of the power method span what seven products do.
    assert largest_sine(W, np.linalg.matrix_power(M, 7) @ start) < 1e-6


def test_one_shot_takes_one_round_in_which_anything_leaves(rows):
    federation = silos(rows)
    planned = plan(model(rows, solver="dgep-power"), federation)
    model(rows, solver="dgep-power", random_state=0).fit(federation)
    left = fields(federation.ledger, "round step shape visibility", direction="out")
    assert left == [(2, "eigenproblem.local_whitened", (P, P), "summed")]
    assert [x.name for x in planned.releases] == [x.name for x in federation.ledger]


@pytest.mark.slow
def test_diagnosis_names_error_and_bound(rows):
    federation = silos(rows, policy=Policy.open())
    ours = model(rows, k=1, solver="dgep-eigh").fit(federation)
    A, B = pairs(rows)
    M0 = root(sum(B)) @ sum(A) @ root(sum(B))
    W = np.linalg.eigh(M0)[1][:, -1:]

    found = ours.diagnose(federation)

    assert_allclose(
        found.error, np.linalg.norm(ours.eigenvectors_ - W @ (W.T @ ours.eigenvectors_))
    )
    assert found.error <= found.perturbation or found.perturbation == np.inf
    M = sum(root(b) @ a @ root(b) for a, b in zip(A, B, strict=True))
    gap = np.linalg.eigvalsh(M0)[-1] - np.linalg.eigvalsh(M)[-2] / 4
    assert found.perturbation == pytest.approx(np.linalg.norm(M0 - M / 4, 2) / gap)
    assert found.bound is not None
    assert (
        model(rows, 1, solver="dgep-eigh").fit(silos(rows)).diagnose(silos(rows)).bound
        is None
    )


def test_equal_silos_have_no_error_but_for_scale(rows):
    # With B_i = B / m, M_i = M_0: the one-shot sum is m M_0, of the same vectors.
    same = np.concatenate([rows[:60]] * 3)
    federation = simulate({f"silo{i}": rows[:60] for i in range(3)})
    options = {"pair": local_lags, "public": {"mean": same.mean(axis=0)}}
    ours = GeneralizedEigen(2, solver="dgep-eigh", **options).fit(federation)
    assert ours.diagnose(federation).error < 1e-7


def test_a_model_with_a_named_pair_is_saved(rows, tmp_path):
    named = GeneralizedEigen(
        2, pair=f"{SILO}.local_lags", public={"mean": rows.mean(axis=0)}
    ).fit(silos(rows))
    save(named, tmp_path / "gep.unpooled")
    assert_close(load(tmp_path / "gep.unpooled").transform(rows), named.transform(rows))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"pair": None}, "needs pair="),
        ({"pair": local_summed}, "must be declared with kept"),
        ({"pair": local_skewed}, "declaration"),
        ({"n_components": 6}, "from 1 to 5"),
        ({"solver": "lobpcg"}, "solver='lobpcg'"),
        ({"solver": "dgep-eigh", "ridge": -1.0}, "ridge=-1"),
        ({"solver": "dgep-power", "init": np.ones(3)}, r"give a finite \(5, 2\)"),
    ],
)
def test_arguments_are_checked(rows, options, says):
    given = {"pair": local_lags, "public": {"mean": rows.mean(axis=0)}, **options}
    if given["pair"] is not local_lags:
        del given["public"]
    with pytest.raises(DataError, match=says):
        GeneralizedEigen(**{"n_components": 2, **given}).fit(silos(rows))


def test_results_have_pictures_whose_numbers_are_in_tables(rows):
    one = model(rows).fit(silos(rows))

    summary = one.summary()

    values, vectors = summary.exhibits
    assert summary.to_frame("eigenvalues")["eigenvalue"].tolist() == list(
        one.eigenvalues_
    )
    found = summary.to_frame("eigenvectors").filter(like="eigenvector_").to_numpy()
    assert_array_equal(found, one.eigenvectors_)
    with settings():
        (axes,) = values.picture.draw().axes
        heights = [bar.get_height() for bar in axes.patches]
        panels = vectors.picture.draw().axes
        widths = [[bar.get_width() for bar in panel.patches] for panel in panels]
    assert_allclose(heights, one.eigenvalues_)
    assert_allclose(widths, one.eigenvectors_.T)
