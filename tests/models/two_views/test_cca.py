"""Canonical correlations and partial least squares: the pooled answer."""

import warnings

import numpy as np
import pandas as pd
import pytest
import sklearn.cross_decomposition as theirs_of
from cca_zoo.linear import RidgeCCA
from numpy.testing import assert_allclose

from line_fields import fields
from twins import assert_close
from unpooled import (
    CCA,
    PCA,
    PLSSVD,
    PLSCanonical,
    PLSRegression,
    Policy,
    load,
    plan,
    save,
    simulate,
)
from unpooled.errors import DataError
from unpooled.models.two_views.significance import bartlett

P, Q = 5, 3
SECOND = [f"x{j}" for j in range(P, P + Q)]
ARRAYS = (
    "x_weights_ y_weights_ x_loadings_ y_loadings_ x_rotations_ y_rotations_ coef_ "
    "intercept_"
).split()
# Their power method stops at `tol`, the square of a step: far below what is compared.
CONVERGED = {"tol": 1e-28, "max_iter": 100_000}
PAIRS = {
    "CCA": (CCA(3), theirs_of.CCA(3, **CONVERGED)),
    "CCA unscaled": (CCA(2, scale=False), theirs_of.CCA(2, scale=False, **CONVERGED)),
    "PLSSVD": (PLSSVD(3), theirs_of.PLSSVD(3)),
    "PLSSVD unscaled": (PLSSVD(1, scale=False), theirs_of.PLSSVD(1, scale=False)),
    "PLSCanonical": (PLSCanonical(3), theirs_of.PLSCanonical(3, algorithm="svd")),
    "PLSRegression": (PLSRegression(4), theirs_of.PLSRegression(4, **CONVERGED)),
    "PLSRegression unscaled": (
        PLSRegression(2, scale=False),
        theirs_of.PLSRegression(2, scale=False, **CONVERGED),
    ),
}


@pytest.fixture(scope="module")
def views():
    """Two views of 120 rows with three common factors, of different scales."""
    rng = np.random.default_rng(4)
    common = rng.standard_normal((120, 3)) * [2.0, 1.0, 0.5]
    X = common @ rng.standard_normal((3, P)) + rng.standard_normal((120, P))
    Y = common @ rng.standard_normal((3, Q)) + rng.standard_normal((120, Q))
    return X * [1, 10, 1, 0.1, 1] + 3.0, Y * [1, 1, 5] - 7.0


def silos(X, Y, m=3, **options):
    rows = np.column_stack([X, Y])
    return simulate({f"silo{i}": rows[i::m] for i in range(m)}, **options)


@pytest.mark.thinned
@pytest.mark.parametrize(("ours", "theirs"), PAIRS.values(), ids=PAIRS)
@pytest.mark.parametrize("split", ["skewed", "sorted"], indirect=True)
def test_equals_the_pooled_twin(federate, views, ours, theirs):
    X, Y = views
    new = np.random.default_rng(5).standard_normal((7, P)) + 3.0
    theirs.fit(X, Y)

    ours.fit(federate(np.column_stack([X, Y])), y=SECOND)

    for name in ARRAYS:
        if hasattr(theirs, name):
            assert_close(getattr(ours, name), getattr(theirs, name))
    assert_close(ours.transform(new), theirs.transform(new))
    for one, other in zip(ours.transform(X, Y), theirs.transform(X, Y), strict=True):
        assert_close(one, other)
    if hasattr(theirs, "predict"):
        assert_close(ours.predict(new), theirs.predict(new))
        scores = theirs.transform(new)
        assert_close(ours.inverse_transform(scores), theirs.inverse_transform(scores))
    assert_close(ours.to_sklearn().transform(new), ours.transform(new))


@pytest.mark.parametrize("c", [0.0, 0.2, 1.0])
def test_regularised_correlations_equal_cca_zoos(views, c):
    X, Y = views
    theirs = RidgeCCA(3, shrinkage=c).fit([X, Y])
    scores = theirs.transform([X, Y])

    ours = CCA(3, regularisation=c).fit(silos(X, Y), y=SECOND)

    r = [np.corrcoef(*(Z[:, j] for Z in scores))[0, 1] for j in range(3)]
    assert_allclose(ours.canonical_correlations_, r, rtol=1e-8)
    mine = ours.transform(X, Y)
    for Z, T in zip(mine, scores, strict=True):
        for j in range(3):
            assert abs(np.corrcoef(Z[:, j], T[:, j])[0, 1]) == pytest.approx(1, 1e-9)


def test_significance_is_wilks_and_bartletts(views):
    X, Y = views
    ours = CCA(1).fit(silos(X, Y), y=SECOND)
    S = np.cov(np.column_stack([X, Y]).T)
    wilks = np.linalg.det(S) / np.linalg.det(S[:P, :P]) / np.linalg.det(S[P:, P:])

    found = ours.significance()

    assert_allclose(found.wilks[0], wilks, rtol=1e-9)
    assert_allclose(found.statistic[0], -(119 - (P + Q + 1) / 2) * np.log(wilks))
    assert found.dof.tolist() == [15, 8, 3]
    independent = np.random.default_rng(0).standard_normal((300, P + Q))
    none = CCA(1).fit(silos(independent[:, :P], independent[:, P:]), y=SECOND)
    assert none.significance().p_value[0] > 0.01
    assert bartlett(np.array([1.0, 0.5]), 50, 3, 2).p_value[0] == 0.0


@pytest.mark.slow
def test_releases_only_what_the_docstring_says(views):
    for model, home in (
        (CCA(2), "cca"),
        (PLSRegression(2), "pls_regression"),
        (PLSSVD(1), "pls"),
    ):
        federation = silos(*views)
        planned = plan(model, federation, SECOND)
        model.fit(federation, y=SECOND)
        left = fields(federation.ledger, "step name shape visibility", direction="out")
        assert left == [
            (f"{home}.local_total", "count", (), "summed"),
            (f"{home}.local_total", "total", (P + Q,), "summed"),
            (f"{home}.local_squares", "squares", (P + Q,), "summed"),
            (f"{home}.local_scatter", "scatter", (P + Q, P + Q), "summed"),
        ]
        assert fields(planned.releases, "name") == fields(federation.ledger, "name")


@pytest.mark.thinned(1)
@pytest.mark.parametrize("model", [CCA(2), PLSSVD(2), PLSRegression(2)])
def test_views_files_and_names(views, tmp_path, model):
    X, Y = views
    frame = pd.DataFrame(np.column_stack([X, Y]), columns=list("abcdexyz"))
    federation = simulate({f"silo{i}": frame[i::3] for i in range(3)})
    # The second view may stand anywhere among the columns.
    model.fit(federation.select(list("xaybczde")), y=["z", "x", "y"])
    assert model.feature_names_in_.tolist() == list("abcde")
    scores = model.transform(frame[list("abcde")])
    view = model.transform(federation)
    assert view.feature_names == tuple(model.get_feature_names_out())
    assert_allclose(
        PCA().fit(view).explained_variance_,
        np.linalg.eigvalsh(np.cov(scores.T))[::-1],
        rtol=1e-9,
    )
    save(model, tmp_path / "views.unpooled")
    assert_close(load(tmp_path / "views.unpooled").transform(X), scores, 1e-14)


def test_a_constant_second_view_gives_nothing():
    X = np.random.default_rng(0).standard_normal((60, 3))
    ours = PLSRegression(2).fit(silos(X, np.full((60, 1), 4.0)), y="x3")
    assert_allclose(ours.coef_, 0.0)
    assert_allclose(ours.predict(X), 4.0)


# --- One shot ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "y", "says"),
    [
        (CCA(4), SECOND, "upper bound is 3"),
        (PLSRegression(6), SECOND, "upper bound is 5"),
        (PLSSVD(0), SECOND, "n_components=0"),
        (CCA(1), None, "Name the columns of the second view"),
        (CCA(1), ["x9"], "has no column 'x9'. It has"),
        (CCA(1), [f"x{j}" for j in range(P + Q)], "name some, not all"),
        (CCA(1, solver="als"), SECOND, "solver='als'"),
        (CCA(1, regularisation=1.5), SECOND, "regularisation=1.5"),
        (CCA(1, solver="dgep-eigh", ridge=-1.0), SECOND, "ridge=-1"),
    ],
)
def test_arguments_are_checked(views, model, y, says):
    with pytest.raises(DataError, match=says):
        model.fit(silos(*views), y=y)


@pytest.mark.slow
def test_ill_posed_requests_are_refused_with_the_remedy():
    rng = np.random.default_rng(0)
    few = silos(*rng.standard_normal((2, 30, 16)), policy=Policy.open())
    second = [f"x{j}" for j in range(16, 32)]
    with pytest.raises(DataError, match=r"32 columns .* Choose a regularisation"):
        CCA(1).fit(few, y=second)
    CCA(1, regularisation=0.1).fit(few, y=second)
    X = rng.standard_normal((60, 3))
    with pytest.raises(DataError, match="collinear"):
        CCA(1).fit(silos(X[:, [0, 1, 0]], X[:, 2:]), y="x3")


def test_no_warnings_for_wide_views():
    X, Y = np.random.default_rng(0).standard_normal((2, 30, 40))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ours = PLSRegression(2).fit(
            silos(X, Y, policy=Policy.open()), y=[f"x{j}" for j in range(40, 80)]
        )
    assert_close(ours.coef_, theirs_of.PLSRegression(2, **CONVERGED).fit(X, Y).coef_)


@pytest.mark.parametrize("model", [CCA(2), PLSCanonical(2), PLSRegression(2)])
def test_structure_correlations_are_those_of_pooled_rows(views, model):
    X, Y = views
    ours = model.fit(silos(X, Y), y=SECOND)
    for own, found, rotations in (
        (X, ours.x_correlations_, ours.x_rotations_),
        (Y, ours.y_correlations_, ours.y_rotations_),
    ):
        scores = (own - own.mean(axis=0)) / own.std(axis=0, ddof=1) @ rotations
        pooled = np.corrcoef(own.T, scores.T)[: own.shape[1], own.shape[1] :]
        assert_allclose(found, pooled, atol=1e-9)
    if hasattr(ours, "score_correlations_"):
        r = [
            np.corrcoef(*pair)[0, 1] for pair in zip(*_scores(ours, X, Y), strict=True)
        ]
        assert_allclose(ours.score_correlations_, r, atol=1e-9)


def _scores(model, X, Y):
    return [scores.T for scores in model.transform(X, Y)]


def test_more_columns_than_rows_equal_cca_zoos():
    rng = np.random.default_rng(0)
    common = rng.standard_normal((105, 2))
    X = common @ rng.standard_normal((2, 150)) + rng.standard_normal((105, 150)) + 4.0
    Y = common @ rng.standard_normal((2, 4)) + rng.standard_normal((105, 4))
    theirs = RidgeCCA(2, shrinkage=0.3).fit([X, Y]).transform([X, Y])
    federation = silos(X, Y, m=5, policy=Policy.open())

    ours = CCA(2, regularisation=0.3).fit(
        federation, y=[f"x{150 + j}" for j in range(4)]
    )

    for mine, Z in zip(ours.transform(X, Y), theirs, strict=True):
        for one, other in zip(mine.T, Z.T, strict=True):
            assert abs(np.corrcoef(one, other)[0, 1]) == pytest.approx(1.0, abs=1e-12)
    sent = [line for line in federation.ledger if line.direction == "out"]
    assert max(int(np.prod(line.shape)) for line in sent) < 150**2
