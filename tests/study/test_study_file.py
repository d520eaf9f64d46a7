"""The study file as outside input: read whole, or an error of ours says why not."""

import contextlib
import math
import tomllib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import unpooled as up
from study_text import STUDY, edited, reader
from unpooled.errors import StudyError


@pytest.fixture
def read(tmp_path):
    """Read a study file of this text, beside which other files may lie."""
    return reader(tmp_path)


def test_a_short_file_has_the_defaults(read, tmp_path):
    study = read()

    assert (study.name, study.partition, study.secure_sum) == (
        "heart",
        "rows",
        "masked",
    )
    assert (study.columns, study.label, study.ids) == (None, None, None)
    assert study.random_state is None
    assert study.folder == tmp_path / "runs" / "heart"
    assert study.report
    assert study.parties["a"].policy == up.Policy()
    assert study.parties["a"].source == str(tmp_path / "a.csv")
    assert [(s.name, s.model, s.parameters) for s in study.steps] == [
        ("pca", "PCA", {})
    ]


@pytest.mark.parametrize("y", ['"chol"', '["chol"]'])
def test_one_response_is_named_with_or_without_a_list(read, y):
    study = read(edited('model = "PCA"', f'model = "LinearRegression"\ny = {y}'))
    assert study.steps[0].y == ("chol",)


def test_a_full_file_is_read_whole(read, tmp_path):
    study = read(
        """
        [study]
        name = "Heart_2-x"
        partition = "rows"
        columns = ["age", "sex"]
        label = "num"
        ids = "patient"
        secure_sum = "plain"
        random_state = 7
        [parties.a]
        source = "data/a.parquet"
        missing = { chol = [0, -9.5] }
        policy = "own.toml"
        [parties.b-2]
        source = "/elsewhere/b.csv"
        policy = { min_rows = 4, allowed_columns = ["age", "sex"] }
        [parties.c_3]
        source = "sqlite:///x.db?table=t"
        [policy]
        min_parties = 2
        max_feature_ratio = inf
        [[steps]]
        model = "SimpleImputer"
        strategy = "constant"
        fill_value = 0.5
        [[steps]]
        name = "axes"
        model = "PCA"
        n_components = 0.9
        whiten = true
        [outputs]
        folder = "out/here"
        report = false
        """,
        own="[policy]\nmin_rows = 20\n",
    )

    assert study.name == "Heart_2-x"
    assert study.columns == ("age", "sex")
    assert (study.label, study.ids, study.random_state) == ("num", "patient", 7)
    assert study.secure_sum == "plain"
    assert list(study.parties) == ["a", "b-2", "c_3"]
    assert study.parties["a"].missing == {"chol": [0.0, -9.5]}
    assert study.parties["a"].policy == up.Policy(min_rows=20)
    assert study.parties["b-2"].source == "/elsewhere/b.csv"
    assert study.parties["b-2"].policy.allowed_columns == ["age", "sex"]
    assert study.parties["c_3"].source == f"sqlite:///{tmp_path}/x.db?table=t"
    assert study.parties["c_3"].policy.min_parties == 2
    assert math.isinf(study.parties["c_3"].policy.max_feature_ratio)
    assert study.folder == tmp_path / "out" / "here"
    assert not study.report
    pipeline = study.pipeline()
    assert [name for name, _ in pipeline.steps] == ["simpleimputer", "axes"]
    assert pipeline["axes"].get_params()["n_components"] == 0.9
    assert pipeline["simpleimputer"].fill_value == 0.5


def test_a_policy_file_may_have_its_keys_at_the_top(read):
    study = read(
        STUDY.replace('"a.csv"', '"a.csv"\npolicy = "own.toml"'), own="min_rows=3"
    )

    assert study.parties["a"].policy == up.Policy(min_rows=3)


def test_steps_of_one_class_are_numbered_as_by_make_pipeline(read):
    from sklearn.pipeline import make_pipeline

    models = ["PCA", "StandardScaler", "PCA"]
    study = read(STUDY.split("[[steps]]")[0] + "".join(
        f'[[steps]]\nmodel = "{model}"\n' for model in models
    ))  # fmt: skip

    wanted = make_pipeline(*(getattr(up, model)() for model in models))
    assert [step.name for step in study.steps] == [name for name, _ in wanted.steps]


def test_a_party_may_be_its_source_alone(read):
    short = edited('[parties.a]\nsource = "a.csv"', '[parties]\na = "a.csv"')
    assert read(short).parties == read(STUDY).parties


def test_a_source_may_be_absent_only_over_a_consortium(tmp_path):
    path = tmp_path / "study.toml"
    path.write_text(edited('source = "a.csv"', ""))

    study = up.Study.from_file(path)

    assert study.parties["a"].source is None
    with pytest.raises(StudyError, match=r"\[parties\.a\] source: this key is missing"):
        study.run(tmp_path / "run")


KEYS = ["study", "parties", "policy", "steps", "outputs", "name", "model", "source",
        "missing", "columns", "label", "partition", "secure_sum", "random_state",
        "folder", "report", "a", "min_rows", "allowed_steps"]  # fmt: skip
toml_values = st.recursive(
    st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=6)
    | st.sampled_from(["PCA", "rows", "masked", "heart"])
    | st.dates(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(KEYS) | st.text(max_size=3), inner, max_size=5
        )
    ),
    max_leaves=15,
)


def parsed(content):
    """Read a document as if TOML had said so: what could be in a file, and more."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tomllib, "loads", lambda text: content)
        patch.setattr(Path, "read_text", lambda *args, **options: "")
        return up.Study.from_file("heart.toml")


def good():
    return tomllib.loads(STUDY)


@pytest.mark.slow
@settings(deadline=None)
@given(st.dictionaries(st.sampled_from(KEYS), toml_values, max_size=5))
def test_any_document_is_a_study_or_an_error_of_ours(document):
    with contextlib.suppress(StudyError):
        parsed(document)


@pytest.mark.slow
@settings(deadline=None)
@given(st.sampled_from(["study", "parties", "a", "policy", "steps", "outputs"]),
       st.sampled_from(KEYS), toml_values)  # fmt: skip
def test_any_value_of_any_key_is_read_or_an_error_of_ours(table, key, value):
    document = good()
    places = {
        "study": document["study"],
        "parties": document["parties"],
        "a": document["parties"]["a"],
        "policy": document.setdefault("policy", {}),
        "steps": document["steps"][0],
        "outputs": document.setdefault("outputs", {}),
    }
    places[table][key] = value

    with contextlib.suppress(StudyError):
        study = parsed(document)
        # What passes can be made: a parameter's value is the model's own business.
        study.pipeline()


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
def test_any_bytes_are_an_error_of_ours(tmp_path, content):
    (tmp_path / "any.toml").write_bytes(content)

    with pytest.raises(StudyError, match=r"any\.toml"):
        up.Study.from_file(tmp_path / "any.toml")
