"""MMVFL's promises: what is learnt, how slow silos rest, and what is refused."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import unpooled as up
from chance import deviation
from line_fields import fields
from mmvfl_silos import SIZES, published, silos, three_kinds
from party_views import chosen
from unpooled.errors import DataError, ReleaseRefusedError
from unpooled.models.mmvfl import mmvfl


@pytest.fixture(scope="module")
def data():
    return three_kinds()


# --- What is learnt ------------------------------------------------------------------


@pytest.mark.slow
def test_the_coordinator_sees_noise_where_an_opened_consensus_tells_every_label(
    monkeypatch,
):
    rng = np.random.default_rng(3)
    y = np.repeat(["ash", "elm", "oak"], 100)
    codes = np.unique(y, return_inverse=True)[1]
    X = {
        k: np.eye(3)[codes] @ rng.standard_normal((3, 4))
        + rng.standard_normal((300, 4))
        for k in "abc"
    }
    seen = []
    federation = silos(X, y)
    run_step = federation.coordinator.run_step

    def watched(call):
        answer = run_step(call)
        if call.step.name == "mmvfl.local_labels":
            seen.append(answer["consensus"].words)
        return answer

    monkeypatch.setattr(federation.coordinator, "run_step", watched)
    up.MMVFL(0.1, max_iter=10, tol=0.0).fit(federation, y="tree")

    Z = published(X, y, 0.1, 10)[2]
    assert (Z.argmax(1) == codes).all()  # the control: opened, it gives every label
    for words in seen:
        guess = words[:900].reshape(300, 3).view(np.int64).argmax(1)
        best = max(
            (np.array(order)[guess] == codes).mean()
            for order in [
                (0, 1, 2),
                (0, 2, 1),
                (1, 0, 2),
                (1, 2, 0),
                (2, 0, 1),
                (2, 1, 0),
            ]
        )
        # The best of six orders of a fair three-sided guess over 300 rows.
        assert best < 1 / 3 + deviation(300, 6 * len(seen))


@pytest.mark.slow
@pytest.mark.parametrize("follow", [False, True])
def test_folds_are_judged_as_by_the_published_algorithm(data, follow):
    X, y = data
    federation = silos(X, y, follow=follow)
    model = up.MMVFL(max_iter=3, tol=0.0)
    found = up.cross_validate(model, federation, "tree", cv=3, random_state=4)
    # One for names, two for each iteration of all folds, and two for their scores.
    assert len({line.round for line in federation.ledger} - {0}) == 1 + 2 * 3 + 2
    wanted = []
    for train, test in federation.folds(3, random_state=4):
        inside, outside = chosen(train), chosen(test)
        W, _, _ = published({k: A[inside] for k, A in X.items()}, y[inside], 0.1, 3)
        scores = np.sum([X[k][outside] @ W[k] for k in X], axis=0)
        names = np.unique(y)[scores.argmax(axis=1)]
        wanted.append(np.mean(names == y[outside]))
    assert_allclose(found["test_score"], wanted)
    named = up.cross_validate(
        model, federation, "tree", cv=3, random_state=4, scoring="accuracy"
    )
    assert_allclose(named["test_score"], wanted)

    # Nobody but the silos opens what is predicted for a row.
    left = fields(federation.ledger, "name visibility", direction="out")
    of_people = {"consensus", "scores"}
    assert {seen for name, seen in left if name in of_people} == {"veiled"}


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"scoring": "balanced_accuracy"}, "is judged by accuracy"),
        ({"scoring": ["accuracy", "r2"]}, "is judged by accuracy"),
    ],
)
def test_folds_are_judged_by_what_silos_can_count(data, options, says):
    with pytest.raises(DataError, match=says):
        up.cross_validate(up.MMVFL(), silos(*data), "tree", **options)


@pytest.mark.slow
def test_ledger_of_a_fit_is_what_the_docstring_says(data):
    X, y = data
    federation = silos(X, y)
    model = up.MMVFL(max_iter=2, tol=0.0).fit(federation, y="tree")
    out = fields(federation.ledger, "step name shape visibility", direction="out")
    iteration = [
        ("mmvfl.local_labels", "consensus", (36, 3), "veiled"),
        ("mmvfl.local_objective", "objective", (), "summed"),
        ("mmvfl.local_objective", "seconds", (), "summed"),
    ]
    names = ("mmvfl.local_names", "cells", (20, 16), "summed")
    assert out == [names, *iteration, *iteration]
    assert model.n_iter_ == 2


@pytest.mark.slow
def test_weights_are_told_only_where_every_silo_allows_it(data):
    X, y = data
    policy = {"allow_row_level": True, "min_rows_per_class": 1}
    model = up.MMVFL(max_iter=3, tol=0.0).fit(silos(X, y, policy=policy), y="tree")
    for ask in (lambda: model.coef_, lambda: model.select(10)):
        with pytest.raises(ReleaseRefusedError, match="allow_disclosed"):
            ask()


def test_rows_are_refused_by_default(data):
    X, y = data
    with pytest.raises(ReleaseRefusedError, match="allow_row_level"):
        up.MMVFL().fit(silos(X, y, policy=None), y="tree")


# --- A slow silo ---------------------------------------------------------------------


@pytest.mark.slow
def test_a_slow_silo_rests_and_all_still_converge(data, monkeypatch):
    X, y = data
    work, updates = mmvfl.row_sparse_weights, {"wide": 0, "others": 0}

    class Clock:
        """Time passes while the wide silo works, and nowhere else."""

        now = 0.0

        def perf_counter(self):
            return self.now

    clock = Clock()

    def slow_where_wide(X, *args, **how):
        wide = X.shape[1] == SIZES["d"]
        clock.now += 10.0 if wide else 0.1
        updates["wide" if wide else "others"] += 1
        return work(X, *args, **how)

    monkeypatch.setattr(mmvfl, "time", clock)
    monkeypatch.setattr(mmvfl, "row_sparse_weights", slow_where_wide)
    model = up.MMVFL(0.1, max_iter=30, tol=0.0, max_staleness=2)
    model.fit(silos(X, y), y="tree")

    assert updates == {"wide": 10, "others": 90}
    values = np.array(model.objective_)
    assert (np.diff(values) <= 0.1 * 49 * 1e-8 + 1e-12 * values[0]).all()


# --- Refusals and plans --------------------------------------------------------------


def test_a_plan_tells_the_most_that_a_fit_may_take(data):
    X, y = data
    plan = up.plan(up.MMVFL(max_iter=7), silos(X, y), y="tree")
    assert plan.rounds == 1 + 2 * 7


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"beta": 0.0}, "beta=0.0; choose a number above 0"),
        ({"zeta": -1.0}, "zeta=-1.0"),
        ({"max_iter": 0}, "max_iter=0; choose a whole number from 1"),
        ({"max_staleness": -1}, "max_staleness=-1"),
        ({"tol": 2.0}, "tol=2.0"),
    ],
)
def test_parameters_out_of_range(data, how, message):
    X, y = data
    with pytest.raises(DataError, match=message):
        up.MMVFL(**how).fit(silos(X, y), y="tree")


@pytest.mark.slow
def test_inputs_that_cannot_be(data):
    X, y = data
    federation = silos(X, y)
    with pytest.raises(DataError, match="is not the label that the silos carry"):
        up.MMVFL().fit(federation, y="ash")
    with pytest.raises(DataError, match="single class"):
        up.MMVFL().fit(silos(X, np.repeat("ash", 36)), y="tree")
    holes = X | {"b": np.where(np.eye(36, 3) > 0, np.nan, X["b"])}
    with pytest.raises(DataError, match="missing"):
        up.MMVFL().fit(silos(holes, y), y="tree")
    with pytest.raises(DataError, match="partitions by columns"):
        up.MMVFL().fit(up.simulate(up.partition_rows(X["a"], 3)), y="tree")
    model = up.MMVFL(max_iter=1, tol=0.0).fit(federation, y="tree")
    with pytest.raises(DataError, match="percent=0"):
        model.select(0)
    with pytest.raises(DataError, match="rows of a Federation, not of ndarray"):
        model.predict(X["a"])


@pytest.mark.slow
def test_a_model_file_keeps_what_the_coordinator_has(data, tmp_path):
    X, y = data
    federation = silos(X, y)
    model = up.MMVFL(max_iter=3, tol=0.0).fit(federation, y="tree")
    up.save(model, tmp_path / "m.npz")
    again = up.load(tmp_path / "m.npz")
    assert again.objective_ == model.objective_
    assert (again.predict(federation) == model.predict(federation)).all()
    with pytest.raises(DataError, match="read from a file"):
        again.select(10)
    assert again.select(10, federation).feature_names


@pytest.mark.slow
def test_calls_on_a_fitted_model_are_followed_with_classes_of_any_name():
    rng = np.random.default_rng(0)
    y = np.array(["ash", "elm", "oak"])[np.arange(60) % 3]
    X = rng.standard_normal((60, 4)) + 2.0 * (y == "elm")[:, None]
    frame = pd.DataFrame(X, columns=list("uvwx"))
    federation = up.simulate(
        {"a": frame[["u", "v"]].assign(tree=y), "b": frame[["w"]], "c": frame[["x"]]},
        partition="columns",
        label="tree",
        policy=up.Policy.open(),
        follow=True,
    )
    model = up.MMVFL(max_iter=3, tol=0.0).fit(federation, y="tree")

    assert sorted(model.feature_importances_) == ["a", "b", "c"]
    assert len(model.select(50).feature_names) == 3
    hits = model.class_hits(federation)
    assert hits.sum() / 60 == pytest.approx(model.score(federation), abs=1e-15)
    predicted = model.predict(federation)
    assert [
        int((predicted[y == c] == c).sum()) for c in model.classes_
    ] == hits.tolist()
    assert model.class_count_.tolist() == [20, 20, 20]


def test_loadings_that_silos_keep_are_asked_for_in_a_followed_call():
    X = np.random.default_rng(0).standard_normal((30, 4))
    federation = up.simulate(
        up.partition_columns(X, 2),
        partition="columns",
        policy=up.Policy.open(),
        follow=True,
    )

    model = up.PCA(2).fit(federation)

    assert model.components_.shape == (2, 4)
