"""What people look at in a notebook: federations, plans and ledgers."""

import html.parser
import sys
from typing import Any

import numpy as np
import pandas as pd
import pytest
import sklearn.decomposition
import sklearn.model_selection
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

import unpooled as up
from unpooled.errors import DataError
from unpooled.ledger import Ledger
from unpooled.ledger.lines import changed


@pytest.fixture
def rows():
    X = np.random.default_rng(6).standard_normal((90, 3))
    return {
        k: pd.DataFrame(X[j::3], columns=["a", "<b>", "c"]) for j, k in enumerate("uvw")
    }


class Cells(html.parser.HTMLParser):
    """Collects the texts of a page, and fails on a tag that is not closed."""

    def __init__(self, text):
        super().__init__()
        self.texts, self.open = [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


def test_the_shape_of_a_federation(rows):
    federation = up.simulate(rows)

    assert federation.shape == (None, 3)
    assert federation.columns == federation.feature_names == ("a", "<b>", "c")
    assert federation["a"].columns == ("a",)
    assert federation[["c", "a"]].columns == ("c", "a")
    assert bool(federation)
    with pytest.raises(DataError, match="number of rows is not known"):
        len(federation)
    keys: list[Any] = [0, slice(3), np.arange(3)]
    for key in keys:
        with pytest.raises(DataError, match="Rows of a federation cannot be chosen"):
            federation[key]


def test_the_shape_of_a_column_partition():
    X = np.random.default_rng(6).standard_normal((40, 4))
    federation = up.simulate({"u": X[:, :2], "v": X[:, 2:]}, "columns")

    assert federation.shape == (40, 4)
    assert len(federation) == 40


def test_other_librarys_functions_are_refused_in_a_sentence(rows):
    federation = up.simulate(rows)

    with pytest.raises(DataError, match=r"federation|rows"):
        sklearn.model_selection.cross_val_score(sklearn.decomposition.PCA(), federation)
    # And ours are not disturbed by a shape without rows.
    pipeline = make_pipeline(up.StandardScaler(), up.PCA(2))
    assert clone(pipeline).fit(federation)[-1].n_samples_ == 90


def test_html_of_all_three(rows):
    federation = up.simulate(rows, label=None)
    plan = up.plan(up.PCA(2), federation)
    up.PCA(2).fit(federation)

    shown = Cells(federation._repr_html_())
    assert {"u", "v", "w", "3"} <= set(shown.texts)
    for thing, count in (
        (plan, len(plan.releases)),
        (federation.ledger, len(federation.ledger)),
    ):
        cells = Cells(thing._repr_html_())
        assert cells.texts.count("pca.local_scatter") == sum(
            line.step == "pca.local_scatter"
            for line in (plan.releases if thing is plan else federation.ledger)
        )
        assert "3×3" in cells.texts
        assert count < 60
    names = up.simulate({f"<{k}>": frame for k, frame in rows.items()})
    assert "<u>" in Cells(names._repr_html_()).texts


@pytest.mark.slow
def test_a_long_ledger_is_shown_in_part(rows):
    federation = up.simulate(rows)
    for _ in range(20):
        up.PCA(1).fit(federation)
    ledger = federation.ledger
    # Rounds of twenty equal fits are shown once.
    assert "more lines" not in ledger._repr_html_()
    other = Ledger([changed(ledger[0], round=i, bytes=i) for i in range(100)])

    assert "and 40 more lines" in other._repr_html_()
    assert len(ledger.to_frame()) == len(ledger)


def test_plans_and_ledgers_as_frames(rows):
    federation = up.simulate(rows)
    planned = up.plan(up.PCA(2), federation).to_frame()
    up.PCA(2).fit(federation)
    done = federation.ledger.to_frame()

    assert list(planned) == (
        "round step name shape bytes visibility direction parties".split()
    )
    both = list(planned.columns)
    pd.testing.assert_frame_equal(planned, done[both])
    out = done[done["direction"] == "out"]
    assert out["bytes"].sum() == federation.ledger.bytes_out("u")
    assert done["time"].str.len().min() > 0


def test_without_pandas_the_error_says_what_to_install(rows, monkeypatch):
    plan = up.plan(up.PCA(2), up.simulate({k: f.to_numpy() for k, f in rows.items()}))
    monkeypatch.setitem(sys.modules, "pandas", None)

    with pytest.raises(DataError, match="pip install pandas"):
        plan.to_frame()
