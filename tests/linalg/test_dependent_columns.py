"""Which columns are collinear or constant, said by name."""

import numpy as np
import pandas as pd
import pytest

import unpooled as up
from unpooled.errors import DataError
from unpooled.linalg.generalized_eigen import check_definite, dependent_columns


@pytest.fixture
def frame():
    rng = np.random.default_rng(2)
    rows = pd.DataFrame(rng.standard_normal((90, 3)), columns=["age", "bmi", "chol"])
    rows["ill"] = np.arange(90) % 2
    return rows


def scatter(X):
    X = X - X.mean(axis=0)
    return X.T @ X


def test_each_dependent_column_has_what_it_depends_on(frame):
    X = frame[["age", "bmi", "chol"]].to_numpy()
    whole = np.column_stack([X, 2.0 * X[:, 1], X[:, 0] - X[:, 2], np.ones(90)])

    found = dependent_columns(scatter(whole))

    # One of each collinear set is left over, which is as well a pivot as the others.
    assert len(found) == 3
    assert found[5] == []
    pair = {1, 3}
    (one,) = pair & set(found)
    assert found[one] == list(pair - {one})
    three = {0, 2, 4}
    (one,) = three & set(found)
    assert sorted(found[one]) == sorted(three - {one})
    kept = [j for j in range(6) if j not in found]
    assert np.linalg.matrix_rank(whole[:, kept] - whole[:, kept].mean(axis=0)) == 3


def test_a_definite_matrix_has_none(frame):
    X = frame[["age", "bmi", "chol"]].to_numpy()

    assert dependent_columns(scatter(X)) == {}
    assert check_definite(scatter(X)).shape == (3,)


MODELS = {
    "lda": (up.LinearDiscriminantAnalysis(), "ill"),
    "cca": (up.CCA(1), ["chol"]),
    "heterogeneity": (up.Heterogeneity(2), None),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_models_name_the_columns(frame, name):
    model, y = MODELS[name]
    frame["bmi 2"] = frame["bmi"] * 3.0 + 1.0
    parties = {k: frame[j::3] for j, k in enumerate("uvw")}
    federation = up.simulate(parties, label="ill", follow=True)

    with pytest.raises(
        DataError,
        match=r"collinear.*: 'bmi( 2)?' is a linear combination of 'bmi( 2)?'\. Leave",
    ):
        model.fit(federation, *([] if y is None else [y]))


def test_the_columns_of_a_matrix_that_is_just_singular_are_named():
    rng = np.random.default_rng(0)
    S = np.cov(rng.standard_normal((200, 5)), rowvar=False)
    unit = np.sqrt(S.diagonal())
    S = S / unit / unit[:, None]
    # The last but one is 0.99999999997 of the last, and so are all its correlations:
    # the smallest eigenvalue is 3e-11, and the variance given the others 6e-11.
    S[3] = (1.0 - 3e-11) * S[4]
    S[:, 3] = S[3]
    S[3, 3] = 1.0
    with pytest.raises(DataError, match=r"'[de]' is a linear combination of '[de]'"):
        check_definite(S, list("abcde"))
