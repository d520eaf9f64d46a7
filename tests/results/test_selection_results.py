"""MMVFL's results: how it settled, and weights where silos showed them."""

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import ConvergenceWarning

import unpooled as up
from unpooled.results.formats import number


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(0)
    kind = np.arange(90) % 3
    X = rng.standard_normal((90, 6)) + rng.standard_normal((3, 6))[kind]
    frame = pd.DataFrame(X, columns=list("uvwxyz")).assign(kind=kind)
    people = up.simulate(
        {"a": frame[["u", "v", "kind"]], "b": frame[["w"]], "c": frame[list("xyz")]},
        partition="columns",
        label="kind",
        policy=up.Policy.open(),
    )
    return up.MMVFL(beta=2.0, tol=1e-3).fit(people, y="kind"), people


def shown(fitted):
    return {exhibit.heading: exhibit for exhibit in fitted[0].summary().exhibits}


@pytest.mark.slow
def test_weights_are_told_where_they_were_asked_for(fitted):
    model, _ = fitted
    classes, settled, kept = shown(fitted).values()
    assert classes.tables[0].column("people") == [30, 30, 30]
    assert "would be right for 33.3 %" in classes.text
    assert "tol" not in settled.text
    assert "not requested from the silos" in kept.text
    assert kept.tables == []
    whole, few = settled.tables
    assert whole.column("objective") == list(model.objective_)
    assert few.shown[-1] == (str(model.n_iter_), number(model.objective_[-1]))
    assert "classes 0, 1 and 2" in settled.text

    weights = model.feature_importances_
    counting = shown(fitted)["Weights of columns"]

    by_column = {row[0]: row[1:] for row in counting.tables[0].rows}
    for silo, columns in {"a": "uv", "b": "w", "c": "xyz"}.items():
        for name, weight in zip(columns, weights[silo], strict=True):
            assert by_column[name][:2] == (silo, weight)
    values = sorted((w for own in weights.values() for w in own), reverse=True)
    assert [row[2] for row in counting.tables[0].rows] == values
    assert counting.picture is not None


@pytest.mark.slow
def test_a_search_that_was_cut_short_says_so(fitted):
    _, people = fitted
    with pytest.warns(ConvergenceWarning):
        model = up.MMVFL(beta=2.0, tol=1e-9, max_iter=3).fit(people, y="kind")

    settled = shown((model, people))["Convergence"]
    assert "still fell by more than tol = 1e-09" in settled.text
    assert "larger max_iter" in settled.text
