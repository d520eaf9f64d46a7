"""Attacks on the few people of a class, or with a flag, by features of a kernel.

Random Fourier features are known functions of the columns, as many as the study likes.
Their sums over five people are equations for these people's records, each of which is
about all of their cells, and twenty of them determine five records of three columns.
"""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.optimize
from numpy.testing import assert_allclose
from sklearn.pipeline import make_pipeline

import unpooled as up
from unpooled.arrays import Array
from unpooled.errors import ReleaseRefusedError
from unpooled.linalg import kernels

COLUMNS = ["age", "pressure", "chol"]
N_PEOPLE, SIZE, GAMMA = 5, 25, 0.3
OPEN = {"max_feature_ratio": 1e9}


def tables(n_people: int = N_PEOPLE) -> dict[str, pd.DataFrame]:
    """Tables in which few people of b, and nobody else, have a rare disease."""
    rng = np.random.default_rng(0)
    made = {}
    for name in "abc":
        made[name] = pd.DataFrame(
            rng.normal(size=(300, 3)).round(3), columns=COLUMNS
        ).assign(ill=0)
    made["b"].loc[: n_people - 1, "ill"] = 1
    return made


def features() -> up.KernelPCA:
    return up.KernelPCA(
        SIZE, approximation="fourier", n_landmarks=SIZE, gamma=GAMMA, random_state=1
    )


def of_the_ill(model: up.KernelPCA, sums: Array) -> Array:
    """Return the records whose components add up to known sums, by first column."""
    W, offset = kernels.fourier_weights(1, len(COLUMNS), SIZE, GAMMA)

    def beyond(cells: Array) -> Array:
        F = kernels.fourier_features(cells.reshape(-1, len(COLUMNS)) @ W, offset)
        return ((F - model.kernel_means_) @ model.score_weights_).sum(axis=0) - sums

    rng = np.random.default_rng(5)
    starts = (rng.normal(size=N_PEOPLE * len(COLUMNS)) for _ in range(30))
    found = (
        scipy.optimize.least_squares(beyond, start, xtol=1e-15) for start in starts
    )
    cells = next(one.x for one in found if one.cost < 1e-15).reshape(N_PEOPLE, -1)
    return cells[cells[:, 0].argsort()]


def by_class(here: up.Federation) -> Array:
    """Return the records of a class from one analysis, of which they are few."""
    pipeline = make_pipeline(features(), up.LinearDiscriminantAnalysis())
    kernel, model = pipeline.fit(here.select(COLUMNS)).named_steps.values()
    return of_the_ill(kernel, model.class_count_[1] * model.means_[1])


def by_response(here: up.Federation) -> Array:
    """Ask for products with the label, of which few are 1."""
    pipeline = make_pipeline(features(), up.LogisticRegression(C=1.0))
    pipeline.fit(here.select(COLUMNS))
    return np.zeros(0)


def by_flag(here: up.Federation) -> Array:
    """Return the records of those with a flag from covariances with features."""
    transformer = up.make_column_transformer(
        (features(), COLUMNS), remainder="passthrough"
    ).fit(here)
    kernel, _ = transformer.transformers_[0]
    view = transformer.transform(here)
    model = up.PCA().fit(view)
    N, mean = model.n_samples_, model.mean_
    S = (N - 1) * model.get_covariance() + N * np.outer(mean, mean)
    ill = view.feature_names.index("ill")
    return of_the_ill(kernel, np.delete(S[ill], ill))


def by_category(here: up.Federation) -> Array:
    """Ask for products with a category of few people over all silos."""
    transformer = up.make_column_transformer(
        (features(), COLUMNS), (up.OneHotEncoder(), ["ill"])
    ).fit(here)
    up.PCA().fit(transformer.transform(here))
    return np.zeros(0)


def simulated(attack: Any, made: dict[str, pd.DataFrame], **more: Any) -> up.Federation:
    if attack is by_flag:
        return up.simulate(made, **more)
    if attack is by_category:
        named = {
            k: t.assign(ill=np.where(t["ill"] > 0, "rare", "usual"))
            for k, t in made.items()
        }
        return up.simulate(named, categorical=["ill"], **more)
    return up.simulate(made, label="ill", **more)


ATTACKS = [by_class, by_response, by_flag, by_category]


@pytest.mark.slow
@pytest.mark.parametrize("follow", [False, True])
@pytest.mark.parametrize("attack", ATTACKS)
def test_features_are_not_added_over_few_people(attack, follow):
    with pytest.raises(ReleaseRefusedError, match="max_feature_ratio"):
        attack(simulated(attack, tables(), follow=follow))


@pytest.mark.parametrize("attack", [by_class, by_flag])
def test_control_without_a_limit_their_records_are_solved_for(attack):
    found = attack(simulated(attack, tables(), policy=OPEN))
    record = tables()["b"].loc[: N_PEOPLE - 1, COLUMNS].sort_values("age")
    assert_allclose(found, record, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("attack", [by_flag, by_category])
def test_features_beside_a_flag_of_many_are_answered(attack, monkeypatch):
    monkeypatch.setattr(f"{__name__}.of_the_ill", lambda kernel, sums: sums)
    attack(simulated(attack, tables(30), follow=True))


@pytest.mark.slow
def test_features_of_a_class_of_many_are_answered_and_cross_validated():
    made = {
        name: table.assign(ill=np.arange(300) % 3 == 0)
        for name, table in tables().items()
    }
    here = up.simulate(made, label="ill", follow=True, random_state=0)
    model = make_pipeline(
        up.KernelPCA(4, approximation="fourier", n_landmarks=8, gamma=0.3),
        up.LinearDiscriminantAnalysis(),
    )
    up.cross_validate(model, here.select(COLUMNS), cv=3)
