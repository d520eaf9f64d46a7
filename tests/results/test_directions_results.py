"""Results of discriminants and correlations; scores where silos showed them."""

import numpy as np
import pandas as pd
import pytest

from unpooled import (
    CCA,
    PCA,
    KernelPCA,
    LinearDiscriminantAnalysis,
    PLSCanonical,
    PLSRegression,
    Policy,
    VFedAKPCA,
    VFedPCA,
    simulate,
)
from unpooled.report.facts import facts_of
from unpooled.report.text.wording import what_came_in, what_left, what_stayed
from unpooled.results.plots.svg import svg


@pytest.fixture(scope="module")
def parties():
    rng = np.random.default_rng(0)
    y = np.arange(150) % 3
    X = rng.standard_normal((150, 5)) + 2.0 * rng.standard_normal((3, 5))[y]
    X[:, 3:] += X[:, :2]
    frame = pd.DataFrame(X, columns=list("abcde")).assign(kind=np.array(list("xyz"))[y])
    return {f"silo{i}": frame[i::3] for i in range(3)}


@pytest.fixture(scope="module")
def federation(parties):
    return simulate(parties, label="kind")


def exhibits(model):
    return {exhibit.heading: exhibit for exhibit in model.summary().exhibits}


def drawn(exhibit):
    return str(svg(exhibit.picture, "picture"))


@pytest.mark.slow
def test_discriminants(federation):
    model = LinearDiscriminantAnalysis().fit(federation, "kind")
    shown = exhibits(model)
    picture = drawn(shown["Classes"])
    assert [f">{name}<" in picture for name in "xyz"] == [True] * 3
    means, covariances = shown["Classes"].tables
    assert len(means.rows) == len(covariances.rows) == 3
    assert "stay in the silos" in shown["Classes"].text
    assert "Discriminant directions" in shown


@pytest.mark.thinned(1)
@pytest.mark.parametrize("criterion", ["maxvar", "sumcor"])
def test_three_parties_have_generalised_correlations(criterion):
    rng = np.random.default_rng(0)
    views = {name: rng.standard_normal((60, 3)) for name in "abc"}
    people = simulate(views, partition="columns", policy=Policy.open())
    model = CCA(2, regularisation=0.2, criterion=criterion).fit(people)
    shown = exhibits(model)
    [table] = shown["Generalised correlations"].tables
    assert len(table.rows) == 2


@pytest.mark.slow
def test_people_are_drawn_where_silos_show_them(parties, federation):
    open_ones = simulate(parties, label="kind", policy=Policy.open())
    model = LinearDiscriminantAnalysis(scores="coordinator").fit(open_ones, "kind")
    assert len(model.scores_) == len(model.score_classes_) == 150
    shown = exhibits(model)["Classes"]
    assert "The 150 people drawn" in shown.text
    plain = LinearDiscriminantAnalysis().fit(open_ones, "kind")
    without = exhibits(plain)["Classes"]
    assert "stay in the silos" in without.text
    assert len(drawn(shown)) > len(drawn(without)) + 150 * 10


@pytest.mark.slow
def test_a_single_direction_has_curves(federation):
    model = LinearDiscriminantAnalysis(1).fit(federation, "kind")
    picture = exhibits(model)["Classes"].picture
    assert picture.name == "densities"
    assert [f">{name}<" in str(svg(picture, "picture")) for name in "xyz"] == [True] * 3


@pytest.mark.slow
def test_canonical_correlations(federation):
    model = CCA(2).fit(federation, y=["d", "e"])
    shown = exhibits(model)
    bars, circle = shown["Canonical correlations"], shown["Correlation circle"]
    assert bars.picture is not None
    assert bars.tables[0].columns[-1].heading == "p-value"
    assert [f">{name}<" in drawn(circle) for name in "abcde"] == [True] * 5


@pytest.mark.slow
def test_other_models_and_parties_have_pages_too(federation):
    shown = exhibits(PLSRegression(2).fit(federation, y=["d", "e"]))
    assert shown["Correlations of the scores"].picture is not None
    assert [f">{name}<" in drawn(shown["Correlation circle"]) for name in "ade"]
    rng = np.random.default_rng(1)
    pair = simulate(
        {"a": rng.standard_normal((60, 3)), "b": rng.standard_normal((60, 2))},
        partition="columns",
        policy=Policy.open(),
    )
    assert "Canonical correlations" in exhibits(CCA(2).fit(pair))
    model = PLSCanonical(2).fit(pair)
    assert set(exhibits(model)) == {"Correlations of the scores", "Kept in the silos"}
    assert model.x_correlations_.shape == (3, 2)
    assert "Correlation circle" in exhibits(model)
    assert "Kept in the silos" not in exhibits(model)


@pytest.mark.slow
@pytest.mark.parametrize("model", [VFedPCA(2, rounds=3), VFedAKPCA(2)])
def test_merged_directions_have_variances_and_no_shares(model):
    """Nobody released the variance of all columns; asked for, loadings are there."""
    X = np.random.default_rng(2).standard_normal((60, 7))
    parts = dict(zip("abc", np.split(X, [2, 4], axis=1), strict=True))
    people = simulate(parts, partition="columns", policy=Policy.open())
    result = model.fit(people).summary()
    shown, kept = result.exhibits
    assert kept.heading == "Kept in the silos"
    assert result.title.startswith(f"{type(model).__name__}: ")
    assert shown.heading == "Variance along merged directions"
    assert shown.picture is None
    assert [c.heading for c in shown.tables[0].columns] == ["Component", "Variance"]
    assert len(shown.tables[0].rows) == 2
    assert f"in {len(model.history_)} rounds" in shown.text
    assert model.components_.shape == (2, 7)
    assert "Loadings" in exhibits(model)


KERNELS = {
    "rbf": {"gamma": 0.1},
    "poly": {"kernel": "poly", "scores": "parties"},
    "nystroem": {"approximation": "nystroem", "n_landmarks": 20, "random_state": 0},
    "fourier": {"approximation": "fourier", "n_landmarks": 20, "random_state": 0},
}


@pytest.mark.thinned(1)
@pytest.mark.parametrize("how", KERNELS.values(), ids=KERNELS)
def test_kernels_have_eigenvalues_and_nobody_s_scores(people, how):
    model = KernelPCA(3, **how).fit(people)
    shown = model.summary().exhibits[0]
    assert shown.heading == "Eigenvalues of the kernel matrix"
    assert shown.picture is not None
    assert len(shown.tables[0].rows) == 3
    assert "60 people" in shown.text
    assert ("20" in shown.text) == ("approximation" in how)


@pytest.mark.thinned(1)
@pytest.mark.shapes
@pytest.mark.parametrize(
    "model",
    [
        PCA(2, svd_solver="gram"),
        PCA(2, svd_solver="krylov", scores="parties"),
        *(KernelPCA(2, **how) for how in KERNELS.values()),
    ],
    ids=str,
)
def test_every_array_of_a_fit_by_columns_has_words(people, model):
    model.fit(people).transform(people)
    facts = facts_of(model, people)
    for told in (what_left, what_came_in, what_stayed):
        said = [s for c in told(facts) for p in c.passages for s in p.sentences]
        # Fourier features ask with empty arrays only, which are not told.
        assert said or (told is what_came_in and model.n_landmarks)
        # What the page says of an array that it has no phrase for.
        assert not [one.text for one in said if "the array" in one.text.lower()]


@pytest.fixture
def people():
    X = np.random.default_rng(2).standard_normal((60, 7))
    parts = dict(zip("abc", np.split(X, [2, 4], axis=1), strict=True))
    return simulate(parts, partition="columns", policy=Policy.open())
