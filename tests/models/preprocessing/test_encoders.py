"""Encoders give scikit-learn's columns, on any split, and merge what is rare."""

from typing import Any

import numpy as np
import pandas as pd
import polars
import pyarrow
import pytest
import sklearn.preprocessing
from numpy.testing import assert_allclose, assert_array_equal

import unpooled as up
from line_fields import fields
from unpooled.data.categories import category_code, coded
from unpooled.errors import DataError, ReleaseRefusedError
from unpooled.models.preprocessing.one_hot_encoder import one_hot
from unpooled.models.preprocessing.ordinal_encoder import ordinal
from unpooled.testing import check_estimator, check_step

OPEN = up.Policy.open()
rng = np.random.default_rng(5)
NUMBERS = rng.integers(0, [4, 2, 3], (120, 3)).astype(float)


def pooled(X, y):
    names = [np.unique(column.astype(int).astype(str)) for column in X.T]
    counts = [np.unique(column, return_counts=True)[1] for column in X.T]
    return {
        "categories_": names,
        "counts_": counts,
        "n_other_": np.zeros(3, int),
        "n_missing_": np.zeros(3, int),
    }


CODED: dict[str, Any] = {
    "pooled": pooled,
    "categorical": ["x0", "x1", "x2"],
    "generate_only": True,
}
# Each silo has a column, of which one holds numbers.
OWN: dict[str, Any] = {
    "partition": "columns",
    "categorical": ["x0", "x2"],
    "generate_only": True,
}


@pytest.mark.parametrize(
    "check",
    [
        check
        for check in (
            *check_estimator(up.OneHotEncoder(drop="first"), NUMBERS, **CODED),
            *check_estimator(up.OrdinalEncoder(), NUMBERS, **CODED),
            *check_estimator(up.OneHotEncoder(), NUMBERS, **OWN),
            *check_estimator(up.OrdinalEncoder(), NUMBERS, **OWN),
        )
    ],
    ids=repr,
)
def test_convention(check):
    check()


def mixed_rows():
    """Three silos: one without some names, one with names of its own and gaps."""
    frames = {
        "a": pd.DataFrame({"site": rng.choice(["x", "y"], 80)}),
        "b": pd.DataFrame({"site": rng.choice(["y", "z"], 80)}),
        "c": pd.DataFrame({"site": rng.choice(["x", "own"], 80)}),
    }
    frames["b"].loc[:6, "site"] = "rare"
    frames["b"].loc[7:12, "site"] = None
    for frame in frames.values():
        frame["stage"] = rng.choice([1, 2], len(frame))
        frame["age"] = rng.normal(50, 9, len(frame))
    return frames


ROWS = mixed_rows()
POOLED = pd.concat(ROWS.values(), ignore_index=True)
NAMES = POOLED[["site", "stage"]].astype({"stage": str}).fillna(np.nan).astype(object)
NEW = pd.DataFrame({"site": ["z", "never seen", None, "rare"], "stage": [1, 2, 1, 2]})


def federation(**options):
    # Many fits ask about the same 240 people.
    policy = up.Policy(max_released_share=9.0)
    options = {"policy": policy, "categorical": ["site", "stage"], **options}
    return up.simulate(ROWS, **options)


@pytest.fixture(scope="module")
def silos():
    return federation()[["site", "stage"]]


@pytest.mark.thinned(1)
@pytest.mark.parametrize(
    "how",
    [
        {},
        {"drop": "first"},
        {"drop": "if_binary"},
        {"min_frequency": 8},
        {"min_frequency": 0.04},
        {"min_frequency": 8, "drop": "first", "handle_unknown": "ignore"},
    ],
    ids=repr,
)
def test_one_hot_is_that_of_scikit_learn(silos, how):
    how = {"min_frequency": 5, "handle_unknown": "infrequent_if_exist"} | how
    twin = sklearn.preprocessing.OneHotEncoder(sparse_output=False, **how).fit(NAMES)

    ours = up.OneHotEncoder(**how).fit(silos)

    names = ours.get_feature_names_out()
    assert_array_equal(names, twin.get_feature_names_out())
    wanted = twin.transform(NAMES)
    assert_array_equal(ours.transform(POOLED), wanted)
    view = ours.transform(silos)
    assert view.feature_names == tuple(names)
    assert_allclose(up.StandardScaler().fit(view).mean_, wanted.mean(0), atol=1e-9)
    # Results name the category that the others are compared with.
    shown = ours.summary().to_frame("categories")
    assert ("reference" in shown) == ("drop" in how)
    if "drop" in how:
        left = shown[shown["reference"] == "reference"]
        found = dict(zip(left["column"], left["category"], strict=True))
        dropped = zip(["site", "stage"], twin.categories_, twin.drop_idx_, strict=True)
        assert found == {c: names[k] for c, names, k in dropped if k is not None}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Found unknown categories")
def test_new_rows(silos):
    for how in ("infrequent_if_exist", "ignore"):
        ours = up.OneHotEncoder(min_frequency=8, handle_unknown=how).fit(silos)
        twin = sklearn.preprocessing.OneHotEncoder(
            sparse_output=False, min_frequency=8, handle_unknown=how
        ).fit(NAMES)
        names = NEW.astype({"stage": str}).fillna(np.nan).astype(object)
        assert_array_equal(ours.transform(NEW), twin.transform(names))
    # Zeros would be the category that was dropped: as scikit-learn, it says so.
    dropping = up.OneHotEncoder(drop="first").fit(silos)
    with pytest.warns(UserWarning, match=r"\['never seen'\] in column 0 .* dropped"):
        dropping.transform(NEW)
    strict = up.OneHotEncoder(handle_unknown="error").fit(silos)
    with pytest.raises(ValueError, match=r"unknown categories \['never seen'\]"):
        strict.transform(NEW)
    assert strict.transform(silos).n_features == 8


@pytest.mark.parametrize("fewest", [5, 8])
def test_ordinal_is_that_of_scikit_learn(silos, fewest):
    twin = sklearn.preprocessing.OrdinalEncoder(min_frequency=fewest).fit(NAMES)
    ours = up.OrdinalEncoder(min_frequency=fewest).fit(silos)
    assert_array_equal(ours.transform(POOLED), twin.transform(NAMES))
    view, wanted = ours.transform(silos), twin.transform(NAMES)
    assert_allclose(up.StandardScaler().fit(view).mean_, np.nanmean(wanted, axis=0))


@pytest.mark.thinned(1)
@pytest.mark.parametrize("sizes", [[80, 160], [1, 230], [3, 9, 120]])
@pytest.mark.parametrize("sums", ["masked", "plain"])
def test_any_split(sizes, sums):
    parts = np.split(np.arange(len(POOLED)), sizes)
    frames = {f"s{i}": POOLED.iloc[rows] for i, rows in enumerate(parts)}
    view = up.simulate(
        frames, categorical=["site", "stage"], policy=OPEN, secure_sum=sums
    )[["site", "stage"]]
    ours = up.OneHotEncoder().fit(view)
    assert list(ours.categories_[0]) == ["own", "rare", "x", "y", "z"]
    assert ours.n_missing_.tolist() == [6, 0]
    assert ours.get_feature_names_out()[5] == "site_nan"


def test_a_group_of_few_rows_takes_the_smallest_of_the_others(tmp_path):
    frames = {name: pd.DataFrame({"site": list("x" * 40 + "y" * 30)}) for name in "abc"}
    frames["a"].loc[:3, "site"] = "four"
    frames["b"].loc[:4, "site"] = "five"
    ours = up.OneHotEncoder().fit(up.simulate(frames, categorical=["site"]))
    assert_array_equal(ours.infrequent_categories_[0], ["five", "four"])
    # Its share may be large: who reads the table must know what became of it.
    up.save(ours, tmp_path / "encoder.unpooled")
    again = up.load(tmp_path / "encoder.unpooled")
    for told in (str(ours.summary()), str(again.summary())):
        assert "(infrequent, and five)" in told
        assert "Where they would be fewer than 5 rows together" in told
        assert "four" not in told


@pytest.mark.parametrize("missing", [2, 30])
def test_cells_that_are_missing_may_join_the_rare_names(missing):
    frames = {name: pd.DataFrame({"site": list("x" * 40 + "y" * 30)}) for name in "abc"}
    frames["a"].loc[:3, "site"] = "four"
    frames["b"].loc[: missing - 1, "site"] = np.nan
    ours = up.OneHotEncoder().fit(up.simulate(frames, categorical=["site"]))
    told = str(ours.summary())
    assert ("(infrequent, and others)" in told) == (missing == 2)
    assert ("(infrequent, and (missing))" in told) == (missing == 30)


def test_single_rows_of_a_silo_are_infrequent():
    frames = {name: pd.DataFrame({"site": list("x" * 40 + "y" * 30)}) for name in "abc"}
    for number, frame in enumerate(frames.values()):
        frame.loc[:1, "site"] = [f"alone {number}", f"alone too {number}"]
    ours = up.OneHotEncoder().fit(up.simulate(frames, categorical=["site"]))
    assert ours.n_other_.tolist() == [6]
    names = ["site_x", "site_y", "site_infrequent_sklearn"]
    assert ours.get_feature_names_out().tolist() == names


def test_steps():
    codes = coded("ab")
    cells = np.column_stack([coded([*"aabbc", None]), coded(list("bababa"))])
    known = {
        "codes": np.concatenate([codes, [-2.0], codes]),
        "column": np.array([0, 0, 0, 1, 1]),
        "group": np.array([0, 1, 2, 3, 4]),
        "unknown": np.array([-1, -1]),
        "count": np.full(5, 9.0),
    }
    place = np.array([0, 1, 2, -1, 3])
    check_step(one_hot, cells, **known, place=place, width=4)
    check_step(ordinal, cells, **known, value=np.array([0.0, 1, -1, 0, 1]))
    wanted = [[1, 0, 0, 1], [1, 0, 0, 0], [0, 1, 0, 1], [0, 1, 0, 0], [0, 0, 0, 1]]
    found = one_hot(cells[:5], **known, place=place, width=4)
    assert_array_equal(found, wanted)


def test_what_is_released(silos):
    fresh = federation()
    up.OneHotEncoder().fit(fresh[["site", "stage"]])
    lines = fields(fresh.ledger, "step shape", direction="out")
    assert lines == [("one_hot_encoder.local_categories", (2, 24, 43))]


@pytest.mark.slow
def test_a_study_that_makes_columns_of_few_rows_is_refused():
    rules = up.Policy(min_rows_per_class=8, max_released_share=9.0)
    here = federation(policy=rules)[["site"]]
    encoded = up.OneHotEncoder(min_frequency=5).fit(here).transform(here)
    with pytest.raises(ReleaseRefusedError, match="min_rows_per_class"):
        up.StandardScaler().fit(encoded)
    encoded = up.OneHotEncoder(min_frequency=8).fit(here).transform(here)
    up.StandardScaler().fit(encoded)


def test_a_dummy_of_one_person_in_a_fold_or_a_product_is_refused():
    """What a silo has once is no category; a person alone in a direction is refused."""
    frames = {
        n: pd.DataFrame({"site": list("xy") * 30, "sex": list("mf") * 30})
        for n in "abc"
    }
    # One row with both rare values: their product would be this person's.
    frames["a"].loc[0, "sex"] = "f"
    here = up.simulate(frames, categorical=["site", "sex"])
    model = up.OneHotEncoder(drop="first").fit(here)
    with pytest.raises(ReleaseRefusedError, match="max_leverage"):
        up.PCA(1).fit(model.transform(here))


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"drop": "last"}, "drop='last'"),
        ({"min_frequency": 0}, "min_frequency=0"),
        ({"min_frequency": True}, "min_frequency=True"),
        ({"handle_unknown": "warn"}, "handle_unknown='warn'"),
    ],
)
def test_parameters_are_checked(silos, how, message):
    with pytest.raises(DataError, match=message):
        up.OneHotEncoder(**how).fit(silos)


@pytest.mark.slow
def test_two_hundred_categories():
    names = [f"site {i:03}" for i in range(200)]
    rows = pd.DataFrame({"site": np.repeat(names, 40)}).sample(frac=1, random_state=0)
    frames = {f"s{i}": rows.iloc[i::4] for i in range(4)}
    ours = up.OneHotEncoder(drop="first").fit(up.simulate(frames, categorical=["site"]))
    assert list(ours.categories_[0]) == names
    assert category_code(names[0]) != category_code(names[1])
    assert ours.transform(rows).shape == (8000, 199)


def as_arrow(frame):
    return pyarrow.Table.from_pandas(frame, preserve_index=False)


@pytest.mark.thinned(1)
@pytest.mark.parametrize("form", [lambda x: x, polars.from_pandas, as_arrow])
def test_new_rows_are_read_by_the_names_of_their_columns(form):
    frame = pd.DataFrame(
        {"site": rng.choice(["x", "y"], 90), "arm": rng.choice(["a", "b"], 90)}
    )
    federation = up.simulate(
        up.partition_rows(frame, 3), categorical=["site", "arm"], policy=OPEN
    )
    encoder = up.OneHotEncoder().fit(federation)
    wanted = encoder.transform(frame.to_numpy(dtype=object))
    assert wanted.sum() == 180

    more = frame.assign(extra=1.0)[["extra", "arm", "site"]]
    assert_array_equal(encoder.transform(form(more)), wanted)
    # As many columns as there were, of which one has another name.
    other = form(frame.rename(columns={"arm": "branch"}))
    with pytest.raises(ValueError, match="no column 'arm', with which OneHotEncoder"):
        encoder.transform(other)


def test_frames_without_names_are_read_by_place():
    frame = pd.DataFrame({"site": rng.choice(["x", "y"], 90)})
    federation = up.simulate(
        up.partition_rows(frame, 3), categorical=["site"], policy=OPEN
    )
    encoder = up.OneHotEncoder().fit(federation)

    numbered = pd.DataFrame(frame.to_numpy())
    assert_array_equal(encoder.transform(numbered), encoder.transform(frame))
