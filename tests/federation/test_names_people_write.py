"""What people write first: numbers as names, values as y, a label named once."""

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from sklearn.pipeline import make_pipeline

import unpooled as up
from unpooled.errors import DataError, StudyError


@pytest.fixture
def pool():
    rng = np.random.default_rng(4)
    frame = pd.DataFrame(rng.standard_normal((90, 4)), columns=list("abcd"))
    frame["ill"] = np.where(np.arange(90) % 2, "Yes", "No")
    frame["site"] = np.arange(90) % 3 + 1
    return frame


@pytest.fixture
def federation(pool):
    parts = {k: rows.drop(columns="site") for k, rows in pool.groupby("site")}
    return up.simulate(parts, label="ill", follow=True)


def test_numbers_name_parties(pool, federation):
    assert federation.parties == ("1", "2", "3")
    tuples = {k: rows[["a"]] for k, rows in pool.groupby(["site"])}
    assert up.simulate(tuples).parties == ("1", "2", "3")
    by_number = {np.int64(k): {"min_rows": 5} for k in (1, 2, 3)}
    assert up.simulate(tuples, policy=by_number).parties == ("1", "2", "3")
    with pytest.raises(DataError, match="Two parties have the same name"):
        up.simulate({1: pool[["a"]], "1": pool[["a"]]})
    for bad in (None, "", 1.5, ("a", 1), True):
        with pytest.raises(DataError, match=r"whole number.*str\(name\)"):
            up.simulate({bad: pool[["a"]]})


@pytest.mark.slow
def test_a_label_is_named_once(federation):
    once = up.LinearDiscriminantAnalysis().fit(federation)
    again = up.LinearDiscriminantAnalysis().fit(federation, "ill")

    assert_array_equal(once.scalings_, again.scalings_)
    pipeline = make_pipeline(up.StandardScaler(), up.LinearDiscriminantAnalysis())
    assert list(pipeline.fit(federation)[-1].classes_) == ["No", "Yes"]
    assert up.plan(up.LinearDiscriminantAnalysis(), federation).rounds > 0


def test_without_any_label_the_error_says_where_to_name_it(pool):
    unlabelled = up.simulate({k: pool[j::3][["a", "b"]] for j, k in enumerate("uvw")})

    with pytest.raises(DataError, match=r"Name the label column when.*simulate\("):
        up.LinearDiscriminantAnalysis().fit(unlabelled)


@pytest.mark.parametrize("kind", ["series", "array", "list", "frame"])
def test_values_in_place_of_a_name_are_refused(pool, federation, kind):
    y = {
        "series": pool["ill"],
        "array": pool["ill"].to_numpy(),
        "list": [1, 2, 3],
        "frame": pool[["ill"]],
    }[kind]
    model = make_pipeline(up.SimpleImputer(), up.LinearDiscriminantAnalysis())

    with pytest.raises(DataError, match=r'of values.*fit\(federation, y="ill"\)'):
        model.fit(federation, y)


@pytest.mark.slow
def test_names_in_an_array_are_names(federation):
    chosen = up.CCA(1).fit(federation, np.array(["c", "d"]))
    listed = up.CCA(1).fit(federation, ["c", "d"])

    assert_array_equal(chosen.x_weights_, listed.x_weights_)


def test_a_view_in_place_of_column_names_is_refused(federation):
    X, Y = federation.select(["a", "b"]), federation.select(["c", "d"])

    with pytest.raises(DataError, match=r"fit\(federation, y=\['c', 'd'\]\)"):
        up.CCA(1).fit(X, Y)


def test_a_misspelt_rule_is_named():
    for policy in ({"min_row": 3}, "mapping"):
        with pytest.raises(StudyError, match=r'\[\'min_row\'\].*mean "min_rows"'):
            up.Policy(min_row=3) if policy == "mapping" else up.Policy.of(policy)  # type: ignore[call-arg]
    policy = up.Policy(min_rows=3)
    assert copy.deepcopy(policy) == pickle.loads(pickle.dumps(policy)) == policy


def test_a_policy_by_a_word_is_explained(pool):
    with pytest.raises(StudyError, match=r"no policy file open\..*Policy\.open\(\)"):
        up.simulate({"a": pool[["a"]]}, policy="open")
