"""MMVFL's results: how it settled, and weights where silos showed them."""

import numpy as np
import pandas as pd
import pytest

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


def test_weights_are_told_where_they_were_asked_for(fitted):
    model, _ = fitted
    settled, kept = shown(fitted).values()
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
