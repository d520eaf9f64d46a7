"""People along discriminants are shown where every silo lets them, and nowhere else."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from unpooled import LinearDiscriminantAnalysis, Policy, load, plan, save, simulate
from unpooled.errors import DataError, ReleaseRefusedError
from unpooled.models.discriminant.discriminant import MOST_PEOPLE

P = 4
SHOWN = "discriminant.shown_people"


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(3)
    y = np.repeat([0, 1, 2], [60, 50, 40])
    X = rng.standard_normal((150, P)) + 2.0 * rng.standard_normal((3, P))[y]
    order = rng.permutation(150)
    return X[order], y[order]


def silos(X, y, **options):
    rows = np.column_stack([X, y])
    parties = {f"silo{i}": rows[i::3] for i in range(3)}
    return simulate(parties, label=f"x{X.shape[1]}", **options)


def fitted(federation, **options):
    model = LinearDiscriminantAnalysis(scores="coordinator", **options)
    return model.fit(federation, federation.label)


def test_all_people_of_small_silos_are_shown(data):
    X, y = data
    model = fitted(silos(X, y, policy=Policy.open()), random_state=0)
    for k in range(3):
        ours = model.scores_[model.score_classes_ == k]
        theirs = model.transform(X[y == k])
        # In no order that tells who is who.
        assert_allclose(np.sort(ours, axis=0), np.sort(theirs, axis=0), atol=1e-12)
    assert not np.allclose(model.scores_[:50], model.transform(X[0::3]))


@pytest.mark.slow
def test_of_large_silos_some_are_drawn():
    rng = np.random.default_rng(0)
    y = np.arange(3 * 700) % 2
    X = rng.standard_normal((len(y), P)) + y[:, None]
    model = fitted(silos(X, y, policy=Policy.open()), random_state=0)
    assert model.scores_.shape == (3 * MOST_PEOPLE, 1)
    again = fitted(silos(X, y, policy=Policy.open()), random_state=0)
    assert_array_equal(model.scores_, again.scores_)


@pytest.mark.slow
def test_more_columns_than_rows():
    rng = np.random.default_rng(0)
    y = np.arange(60) % 3
    X = rng.standard_normal((60, 200)) + rng.standard_normal((3, 200))[y]
    model = fitted(silos(X, y, policy=Policy.open()), shrinkage=0.5)
    assert model.scores_.shape == (60, 2)


@pytest.mark.thinned(1)
@pytest.mark.parametrize(
    ("rules", "missing"),
    [
        ({}, "allow_disclosed|allow_row_level"),
        ({"allow_disclosed": True}, "allow_row_level"),
        ({"allow_row_level": True}, "allow_disclosed"),
    ],
)
def test_policies_must_allow_it_twice_over(data, rules, missing):
    federation = silos(*data, policy=rules)
    with pytest.raises(ReleaseRefusedError, match=missing):
        fitted(federation)
    # Before anything of it left.
    assert SHOWN not in {line.step for line in federation.ledger}
    without = LinearDiscriminantAnalysis().fit(federation, federation.label)
    assert not hasattr(without, "scores_")


@pytest.mark.slow
def test_ledger_plan_and_files(data, tmp_path):
    federation = silos(*data, policy=Policy.open())
    asked = LinearDiscriminantAnalysis(scores="coordinator", classes=[0, 1, 2])
    planned = plan(asked, federation, federation.label)
    model = asked.fit(federation, federation.label)
    wanted = [
        ("scores", (MOST_PEOPLE, 2), "disclosed"),
        ("codes", (MOST_PEOPLE,), "disclosed"),
    ]
    for lines in (federation.ledger, planned.releases):
        left = [(x.name, x.shape, x.visibility) for x in lines if x.step == SHOWN]
        assert [x for x in left if x[2] == "disclosed"] == wanted
    save(model, tmp_path / "lda.unpooled")
    assert_array_equal(load(tmp_path / "lda.unpooled").scores_, model.scores_)
    model.set_params(scores=None).fit(federation, federation.label)
    assert not hasattr(model, "scores_")


def test_scores_go_to_the_coordinator_or_to_nobody(data):
    with pytest.raises(DataError, match="scores='parties'"):
        LinearDiscriminantAnalysis(scores="parties").fit(silos(*data), f"x{P}")
