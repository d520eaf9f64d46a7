import json
import math

import numpy as np
import pytest
import sklearn.decomposition
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as np_st
from sklearn.pipeline import Pipeline, make_pipeline

import unpooled as up
from unpooled.errors import StudyError
from unpooled.models.files.model_record import model_of, record_of


def there_and_back(model):
    arrays = {}
    text = json.dumps(record_of(model, arrays), allow_nan=False)
    return model_of(json.loads(text), arrays.pop)


def attribute_back(value):
    return there_and_back(with_attribute(value)).odd_


def with_attribute(value):
    model = up.PCA()
    model.odd_ = value
    return model


def same(a, b):
    """Equal to the bit, with equal types all the way down."""
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray):
        bits = a.tobytes() == b.tobytes() if a.dtype != object else bool((a == b).all())
        return a.dtype == b.dtype and a.shape == b.shape and bits
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    if isinstance(a, float):
        return a == b or (math.isnan(a) and math.isnan(b))
    return a == b


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats()
    | st.text()
    | st.floats().map(np.float64)
    | st.integers(-100, 100).map(np.int64)
    | np_st.arrays(
        st.sampled_from([np.float64, np.float32, np.int64, np.bool_, np.complex128]),
        np_st.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4),
    )
    | st.lists(st.text(max_size=4), max_size=3).map(lambda x: np.array(x, dtype=object))
    | st.lists(st.text("abc", min_size=1), min_size=1, max_size=3).map(np.array),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)


@pytest.mark.slow
@given(values)
def test_any_value_comes_back_as_it_was(value):
    assert same(attribute_back(value), value)


@pytest.mark.parametrize(
    "value", [{1: 2}, object(), {1, 2}, b"bytes", np.array([{}]), np.array([b"x"])]
)
def test_what_a_record_cannot_hold_is_refused_by_name(value):
    with pytest.raises(StudyError, match="odd_"):
        record_of(with_attribute(value), {})


def test_a_column_major_array_stays_one():
    value = np.asfortranarray(np.arange(6.0).reshape(2, 3))

    assert attribute_back(value).flags.f_contiguous


def test_private_attributes_and_settings_of_output_stay_behind():
    model = up.PCA()
    model._secret_ = 1
    model.plain = 2
    model.odd_ = 3

    assert record_of(model, {})["fitted"] == {"odd_": 3}


def test_nested_pipelines_and_skipped_steps_come_back():
    inner = make_pipeline(up.SimpleImputer("constant", fill_value=2.5), None)
    pipeline = Pipeline([("a", inner), ("b", "passthrough"), ("c", up.PCA(0.9))])

    back = there_and_back(pipeline)

    assert [name for name, _ in back.steps] == ["a", "b", "c"]
    assert back["a"][0].get_params() == inner[0].get_params()
    assert back["a"][1] is None
    assert back["b"] == "passthrough"
    assert back["c"].n_components == 0.9


@pytest.mark.parametrize(
    "model",
    [
        sklearn.decomposition.PCA(),
        make_pipeline(up.StandardScaler(), sklearn.decomposition.PCA()),
        {"a": 1},
        up.PCA,
        None,
    ],
    ids=["twin", "pipeline", "dict", "class", "nothing"],
)
def test_what_is_not_ours_is_refused_by_name(model):
    with pytest.raises(
        StudyError, match=r"A \w+\..* cannot be saved; what can is .*PCA"
    ):
        record_of(model, {})


def changed(**changes):
    return {"class": "PCA", "parameters": {}, "fitted": {}, **changes}


@pytest.mark.parametrize(
    "record",
    [
        changed(**{"class": "Unheard"}),
        changed(**{"class": "unpooled.models.pca.pca.PCA"}),
        changed(**{"class": "FederatedEstimator"}),
        changed(**{"class": ["PCA"]}),
        changed(**{"class": None}),
        changed(parameters={"n_component": 1}),
        changed(parameters={"self": 1}),
        changed(parameters=[1]),
        changed(parameters=None),
        changed(fitted={"mean": 1}),
        changed(fitted={"_private_": 1}),
        changed(fitted={"__class__": 1}),
        changed(fitted={"__dict__": 1}),
        changed(fitted={"transform": 1}),
        changed(fitted={"odd name_": 1}),
        changed(fitted={"mean_": {"array": "absent"}}),
        changed(fitted={"mean_": {"array": ["absent"]}}),
        changed(fitted={"mean_": {"pickle": "x"}}),
        changed(fitted={"mean_": {}}),
        changed(fitted={"mean_": {"tuple": [], "dict": {}}}),
        changed(fitted={"mean_": {"float": "1e5"}}),
        changed(fitted={"mean_": {"texts": [1], "object": True}}),
        changed(fitted={"mean_": {"texts": [{}], "object": False}}),
        changed(fitted={"mean_": {"texts": [["a"], "b"], "object": False}}),
        changed(more=1),
        {"class": "PCA"},
        {"class": "Pipeline"},
        {"class": "Pipeline", "steps": []},
        {"class": "Pipeline", "steps": [["a", "eval"]]},
        {"class": "Pipeline", "steps": [["a", changed()], ["a", changed()]]},
        {"class": "Pipeline", "steps": [["a"]]},
        {"class": "Pipeline", "steps": [["a", changed()]], "memory": "cache"},
        [],
        "PCA",
        None,
        7,
    ],
    ids=str,
)
def test_other_records_are_not_models(record):
    with pytest.raises((ValueError, TypeError, KeyError, AttributeError)):
        model_of(record, {}.pop)
