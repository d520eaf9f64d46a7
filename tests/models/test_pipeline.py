"""scikit-learn's pipelines, with a federation where X stands."""

import numpy as np
import pytest
import sklearn.pipeline
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import Pipeline, make_pipeline

from pipeline_silos import NAMES, federation, frames, model, rows
from twins import assert_close
from unpooled import PCA, Policy, SimpleImputer, StandardScaler, plan, simulate
from unpooled.federation.federation import Federation

# Fixtures of another module.
__all__ = ["federation", "frames", "rows"]


def bare(line):
    """Return a line without what only a ledger has: time, chain and seals."""
    return {
        name: value
        for name, value in line.as_record().items()
        if name not in ("time", "hash", "seals")
    }


# --- Fitting and transforming --------------------------------------------------------


@pytest.mark.slow
def test_later_steps_see_the_rows_as_earlier_ones_made_them(federation, rows):
    theirs = make_pipeline(
        sklearn.impute.SimpleImputer(),
        sklearn.preprocessing.StandardScaler(),
        sklearn.decomposition.PCA(2, svd_solver="full"),
    ).fit(rows.to_numpy())

    ours = model().fit(federation)

    assert_close(ours[1].mean_, theirs[1].mean_)
    assert_close(ours.transform(rows), theirs.transform(rows.to_numpy()))
    assert_array_equal(ours.get_feature_names_out(), ["pca0", "pca1"])
    assert ours.n_features_in_ == 4
    assert_array_equal(ours.feature_names_in_, NAMES)


@pytest.mark.slow
def test_fitting_step_by_step_is_the_same(federation, rows):
    pipe = model().fit(federation)
    view, steps = federation, [clone(step) for step in model()]
    for step in steps:
        view = step.fit_transform(view)
    assert_array_equal(steps[-1].components_, pipe[-1].components_)
    assert view.feature_names == ("pca0", "pca1")


@pytest.mark.slow
def test_a_pipeline_turns_a_federation_into_a_view(federation):
    pipe = model().fit(federation)
    before = len(federation.ledger)

    view = pipe.transform(federation)

    assert isinstance(view, Federation)
    assert view.feature_names == ("pca0", "pca1")
    assert len(federation.ledger) == before, "a view released something"
    assert isinstance(model().fit_transform(federation), Federation)
    assert pipe[:1].transform(federation).feature_names == tuple(NAMES)


@pytest.mark.slow
def test_labels_go_through_every_step(federation):
    pipe = model().fit(federation, "sick")
    assert_array_equal(pipe[0].feature_names_in_, NAMES)
    assert pipe.transform(federation).label == "sick"


@pytest.mark.slow
def test_rows_are_transformed_without_a_federation(federation, rows):
    pipe = model().fit(federation)
    scores = pipe.transform(rows)
    assert type(scores) is np.ndarray
    # Back without what two components leave out, and with the holes filled.
    back = pipe[1:].inverse_transform(scores)
    assert back.shape == rows.shape
    assert_close(pipe[1:].transform(back), scores, 1e-12)
    with pytest.raises(ValueError, match="feature names should match"):
        pipe.transform(rows[NAMES[::-1]])


def test_pipelines_of_ours_and_theirs(federation, rows):
    pipe = Pipeline([("keep", "passthrough"), ("fill", SimpleImputer())])
    filled = pipe.fit(federation).transform(rows)
    assert not np.isnan(filled).any()


@pytest.mark.slow
def test_laws_hold_through_the_steps(frames, rows):
    def scores(silos):
        return model().fit(simulate(silos, policy=Policy.open())).transform(rows)

    given = {name: frame[NAMES] for name, frame in frames.items()}
    first = scores(given)
    # Order of the silos, their names, where they are cut: none of it matters.
    assert_close(scores(dict(reversed(given.items()))), first, 1e-12)
    assert_close(scores(dict(zip("cab", given.values(), strict=True))), first, 1e-12)
    north = given["north"]
    cut = {**given, "north": north[:11], "south": north[11:]}
    assert_close(scores(cut), first, 1e-12)


# --- Plan and ledger -----------------------------------------------------------------


@pytest.mark.thinned(1)
@pytest.mark.parametrize("complete", [False, True], ids=["holes", "complete"])
def test_plan_equals_ledger(frames, secure_sum, complete):
    # Of complete rows the imputer's statistics are the scaler's means to the bit: two
    # arrays all the same, as the plan says before anybody knows the numbers.
    if complete:
        frames = {name: frame.fillna(1.0) for name, frame in frames.items()}
    federation = simulate(frames, label="sick", secure_sum=secure_sum)
    planned = plan(model(), federation)
    assert len(federation.ledger) == 0, "planning left a trace in the ledger"
    assert federation.rounds == [], "planning left a trace in the rounds"

    model().fit(federation)

    assert [bare(line) for line in planned.releases] == list(
        map(bare, federation.ledger)
    )
    assert planned.bytes == federation.ledger.bytes_out()
    assert planned.rounds == max(line.round for line in federation.ledger)
    assert planned.refusals == ()


@pytest.mark.thinned(2)
@pytest.mark.parametrize(
    "steps",
    [
        [StandardScaler(), StandardScaler()],
        [StandardScaler(with_mean=False, with_std=False), PCA()],
        [SimpleImputer(), SimpleImputer(), PCA(1), PCA(1)],
    ],
    ids=["scaled-twice", "identity", "each-twice"],
)
def test_plan_equals_ledger_of_odd_pipelines(frames, steps):
    complete = {name: frame.fillna(0.0) for name, frame in frames.items()}
    federation = simulate(complete, label="sick", policy=Policy.open())
    planned = plan(make_pipeline(*steps), federation)
    make_pipeline(*steps).fit(federation)
    assert [bare(line) for line in planned.releases] == list(
        map(bare, federation.ledger)
    )


@pytest.mark.slow
def test_a_plan_does_not_touch_the_model_or_the_next_fit(federation, frames):
    pipe = model()
    plan(pipe, federation)
    with pytest.raises(NotFittedError):
        pipe[-1].transform(np.ones((1, 4)))
    pipe.fit(federation)
    undisturbed = model().fit(simulate(frames, label="sick"))
    assert_array_equal(pipe[-1].components_, undisturbed[-1].components_)
    assert federation.ledger[0].round == 1


def test_each_fit_is_protected_by_keys_of_its_own(federation):
    model().fit(federation)
    joins = [record for record in federation.rounds if record.step == "join"]
    assert len(joins) == 3
    assert federation.ledger.verify()
