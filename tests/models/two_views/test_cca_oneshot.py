"""One-shot canonical correlations: the published algorithms, in one round."""

import numpy as np
import pytest
import scipy.linalg
from numpy.testing import assert_allclose
from test_cca import SECOND, P, Q, silos, views

from twins import assert_close
from unpooled import CCA, Policy, plan, simulate
from unpooled.errors import DataError, ReleaseRefusedError
from unpooled.linalg.generalized_eigen import largest_sine

__all__ = ["views"]


def root(S):
    return np.linalg.inv(scipy.linalg.sqrtm(S).real)


def own(X, Y, m=3, ridge=0.0):
    found = []
    for i in range(m):
        Z, V = (W[i::m] - W[i::m].mean(axis=0) for W in (X, Y))
        x, y = root(Z.T @ Z + ridge * np.eye(P)), root(V.T @ V + ridge * np.eye(Q))
        found.append(x @ Z.T @ V @ y)
    return found


@pytest.mark.thinned(1)
@pytest.mark.parametrize("ridge", [None, 2.0])
def test_one_shot_is_the_published_algorithm(views, ridge):
    K = own(*views, ridge=ridge or 0.0)
    U, _, Vt = np.linalg.svd(sum(K))
    dgep = CCA(2, solver="dgep-eigh", ridge=ridge).fit(silos(*views), y=SECOND)
    for ours, theirs in ((dgep.x_weights_, U), (dgep.y_weights_, Vt.T)):
        assert_allclose(np.abs(ours.T @ theirs[:, :2]), np.eye(2), atol=1e-9)

    start = np.random.default_rng(6).standard_normal((P + Q, 2))
    options = {"solver": "dcca-power", "ridge": ridge, "init": start, "max_iter": 6}
    dcca = CCA(2, **options).fit(silos(*views), y=SECOND)
    left, right = sum(k @ k.T for k in K), sum(k.T @ k for k in K)
    for ours, square, first in (
        (dcca.x_weights_, left, start[:P]),
        (dcca.y_weights_, right, start[P:]),
    ):
        assert largest_sine(ours, np.linalg.matrix_power(square, 6) @ first) < 1e-6
    shown = CCA(2, **options, factors=True)
    shown.fit(silos(*views, policy=Policy.open()), y=SECOND)
    assert_close(shown.x_weights_, dcca.x_weights_, 1e-9)
    thin = CCA(2, **options, factors=Q)
    thin.fit(silos(*views, policy=Policy.open()), y=SECOND)
    assert_close(thin.y_weights_, dcca.y_weights_, 1e-9)
    with pytest.raises(ReleaseRefusedError, match="allow_disclosed"):
        shown.fit(silos(*views), y=SECOND)


def test_one_shot_of_more_columns_than_rows_shows_thin_factors():
    rng = np.random.default_rng(0)
    rows, m = rng.standard_normal((32, 90)), 4
    second = [f"x{j}" for j in range(50, 90)]
    options = {"solver": "dcca-power", "max_iter": 5, "random_state": 0}
    fits, left = {}, {}
    for factors in (True, 7):
        federation = simulate(
            {f"silo{i}": rows[i::m] for i in range(m)}, policy=Policy.open()
        )
        model = CCA(1, factors=factors, **options).fit(federation, y=second)
        fits[factors] = model.x_weights_
        left[factors] = [x.shape for x in federation.ledger if x.direction == "out"]
    assert_close(fits[7], fits[True], 1e-9)
    # Eight rows about their mean span seven dimensions.
    assert left == {True: [(50, 40)], 7: [(50, 7), (40, 7)]}
    for factors, says in ((6, "factor_columns"), (-1, "factors=-1")):
        with pytest.raises(DataError, match=says):
            CCA(1, factors=factors, **options).fit(federation, y=second)


@pytest.mark.parametrize("solver", ["dgep-eigh", "dgep-power", "dcca-power"])
def test_one_shot_takes_one_round(views, solver):
    federation = silos(*views)
    model = CCA(1, solver=solver, random_state=0)
    planned = plan(model, federation, SECOND)
    model.fit(federation, y=SECOND)
    assert {line.round for line in federation.ledger} == {1}
    assert planned.rounds == 1
    with pytest.raises(DataError, match="predict nothing"):
        model.predict(views[0])


@pytest.mark.slow
def test_the_power_method_on_the_dilation_has_no_gap(views):
    K = sum(own(*views))
    exact = np.linalg.svd(K)[0][:, :1]
    dgep = CCA(1, solver="dgep-power", max_iter=200, random_state=0)
    dgep.fit(silos(*views), y=SECOND)
    error = dgep.diagnose(silos(*views)).error
    dcca = CCA(1, solver="dcca-power", max_iter=200, random_state=0)
    dcca.fit(silos(*views), y=SECOND)
    assert error > 0.1
    assert largest_sine(dcca.x_weights_, exact) < 0.1


# --- Refusals ------------------------------------------------------------------------
