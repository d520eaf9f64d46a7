"""The study file as outside input: every mistake is named with its file and its key."""

import contextlib
import math
import tomllib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import unpooled as up
from unpooled.data.toml import Section, suggestion
from unpooled.errors import StudyError

STUDY = """
[study]
name = "heart"

[parties.a]
source = "a.csv"

[[steps]]
model = "PCA"
"""


@pytest.fixture
def read(tmp_path):
    """Read a study file of this text, beside which other files may lie."""

    def read(text=STUDY, **files):
        for name, content in files.items():
            (tmp_path / f"{name}.toml").write_text(content)
        (tmp_path / "heart.toml").write_text(text)
        return up.Study.from_file(tmp_path / "heart.toml")

    return read


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
    assert study.silos["a"].policy == up.Policy()
    assert study.silos["a"].source == str(tmp_path / "a.csv")
    assert [(s.name, s.model, s.parameters) for s in study.steps] == [
        ("pca", "PCA", {})
    ]


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
    assert list(study.silos) == ["a", "b-2", "c_3"]
    assert study.silos["a"].missing == {"chol": [0.0, -9.5]}
    assert study.silos["a"].policy == up.Policy(min_rows=20)
    assert study.silos["b-2"].source == "/elsewhere/b.csv"
    assert study.silos["b-2"].policy.allowed_columns == ["age", "sex"]
    assert study.silos["c_3"].source == f"sqlite:///{tmp_path}/x.db?table=t"
    assert study.silos["c_3"].policy.min_parties == 2
    assert math.isinf(study.silos["c_3"].policy.max_feature_ratio)
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

    assert study.silos["a"].policy == up.Policy(min_rows=3)


def test_steps_of_one_class_are_numbered_as_by_make_pipeline(read):
    from sklearn.pipeline import make_pipeline

    models = ["PCA", "StandardScaler", "PCA"]
    study = read(STUDY.split("[[steps]]")[0] + "".join(
        f'[[steps]]\nmodel = "{model}"\n' for model in models
    ))  # fmt: skip

    wanted = make_pipeline(*(getattr(up, model)() for model in models))
    assert [step.name for step in study.steps] == [name for name, _ in wanted.steps]


def edited(old, new):
    assert old in STUDY
    return STUDY.replace(old, new)


def test_a_party_may_be_its_source_alone(read):
    short = edited('[parties.a]\nsource = "a.csv"', '[parties]\na = "a.csv"')
    assert read(short).silos == read(STUDY).silos


POLICY = STUDY + "[policy]\n"
STEP = STUDY  # ends inside the step
MISTAKES = {
    "no toml": ("[study", "heart.toml is not TOML"),
    "deep": ("x = " + "[" * 100_000, "heart.toml is not TOML"),
    "empty": ("", r"heart\.toml, \[study\]: this table is missing"),
    "unknown table": (
        STUDY + "[output]\n",
        r'output: no such table. Did you mean "outputs"',
    ),
    "study no table": ("study = 3", r"\[study\]: must be a table of keys, not 3"),
    "unknown key": (
        edited("name", "nam"),
        r'\[study\] nam: no such key. Did you mean "name"',
    ),
    "no name": (edited('name = "heart"', ""), r"\[study\] name: this key is missing"),
    "bad name": (edited('"heart"', '"../heart"'), r"\[study\] name: .*must be letters"),
    "long name": (edited("heart", "h" * 65), r"\[study\] name: .*at most 64"),
    "number name": (edited('"heart"', "3"), r"\[study\] name: must be a text, not 3"),
    "partition": (
        edited("[parties", 'partition = "row"\n[parties'),
        r'\[study\] partition: "row" is unknown. Did you mean "rows"',
    ),
    "secure_sum": (
        edited("[parties", 'secure_sum = "mask"\n[parties'),
        r'\[study\] secure_sum: "mask" is unknown. Did you mean "masked"',
    ),
    "columns text": (
        edited("[parties", 'columns = "age"\n[parties'),
        r"\[study\] columns: must be a list of texts",
    ),
    "columns twice": (
        edited("[parties", 'columns = ["age", "age"]\n[parties'),
        r"\[study\] columns: must have at least one entry, and none twice",
    ),
    "columns none": (
        edited("[parties", "columns = []\n[parties"),
        "at least one entry",
    ),
    "columns of columns": (
        edited("[parties", 'partition = "columns"\ncolumns = ["age"]\n[parties'),
        r"\[study\] columns: .*each has its own",
    ),
    "random_state": (
        edited("[parties", "random_state = true\n[parties"),
        r"\[study\] random_state: must be a whole number from 0, not True",
    ),
    "date": (edited('"heart"', "2026-01-01"), r"\[study\] name: must be a text"),
    "no parties": (
        '[study]\nname = "x"\n[parties]\n[[steps]]\nmodel = "PCA"',
        r"\[parties\]: needs at least one party",
    ),
    "party no table": (
        edited('[parties.a]\nsource = "a.csv"', "[parties]\na = 3"),
        r"\[parties\.a\]: must be a table of keys, not 3",
    ),
    "party empty": (
        edited('[parties.a]\nsource = "a.csv"', "[parties]\na = ' '"),
        r"\[parties\] a: must be a text",
    ),
    "party list": (
        edited("[parties.a]", "[[parties]]\nname = 'a'"),
        r"\[\[parties\]\]: write a table for each, \[parties\.<name>\]",
    ),
    "party name": (
        edited("[parties.a]", '[parties."a/b"]'),
        r'\[parties\] a/b: "a/b" must be',
    ),
    "party dots": (
        edited("[parties.a]", '[parties.".."]'),
        r"\[parties\] \.\.: .* must be",
    ),
    "party case": (
        edited("[[steps]]", '[parties.A]\nsource = "b.csv"\n[[steps]]'),
        r"\[parties\] A: differs from another party's name in case only",
    ),
    "empty source": (edited("a.csv", " "), r"\[parties\.a\] source: must be a text"),
    "nul source": (
        edited("a.csv", "a\\u0000"),
        r"\[parties\.a\] source: must be a text",
    ),
    "party key": (
        edited("source", "sauce"),
        r'\[parties\.a\] sauce: no such key. Did you mean "source"',
    ),
    "missing": (
        edited('"a.csv"', '"a.csv"\nmissing = [0]'),
        r"\[parties\.a\.missing\]: must be a table",
    ),
    "missing text": (
        edited('"a.csv"', '"a.csv"\nmissing = {chol = ["0"]}'),
        r"\[parties\.a\.missing\] chol: must be a list of numbers",
    ),
    "missing huge": (
        edited('"a.csv"', f'"a.csv"\nmissing = {{chol = [1{"0" * 999}]}}'),
        r"\[parties\.a\.missing\] chol: must be a list of numbers",
    ),
    "policy key": (
        POLICY + "min_row = 3",
        r'\[policy\] min_row: no such key. Did you mean "min_rows"',
    ),
    "policy value": (
        POLICY + "min_rows = -3",
        r"\[policy\] min_rows: must be a whole number",
    ),
    "policy flag": (POLICY + "allow_disclosed = 1", "must be true or false, not 1"),
    "policy number": (
        POLICY + "max_row_share = nan",
        "must be a number from 0, not nan",
    ),
    "policy list": (POLICY + "allowed_steps = {a = 1}", "must be a list of texts"),
    "own policy key": (
        edited('"a.csv"', '"a.csv"\npolicy = {min_row = 3}'),
        r"\[parties\.a\.policy\] min_row: no such key",
    ),
    "own policy absent": (
        edited('"a.csv"', '"a.csv"\npolicy = "none.toml"'),
        r"\[parties\.a\] policy: There is no file .*none\.toml",
    ),
    "own policy file": (
        edited('"a.csv"', '"a.csv"\npolicy = "own.toml"'),
        r"own\.toml, \[policy\] min_row: no such key",
    ),
    "no steps": (
        STUDY.split("[[steps]]")[0],
        r"\[\[steps\]\]: needs at least one table",
    ),
    "steps table": (
        edited("[[steps]]", "[steps]"),
        r"\[\[steps\]\]: needs at least one table",
    ),
    "steps numbers": (
        "steps = [1]\n" + STUDY.split("[[steps]]")[0],
        r"\[steps 1\]: must be a table",
    ),
    "no model": (
        edited('model = "PCA"', ""),
        r"\[steps 1\] model: this key is missing; it takes CCA, .*PCA, ",
    ),
    "model": (
        edited('"PCA"', '"pca"'),
        r'\[steps 1\] model: "pca" is unknown. .*mean "PCA"',
    ),
    "model path": (
        edited('"PCA"', '"os.system"'),
        r'\[steps 1\] model: "os\.system" is unknown',
    ),
    "parameter": (
        STEP + "n_component = 3",
        r"\[steps 1\] n_component: no such parameter of PCA. "
        r'Did you mean "n_components"',
    ),
    "parameter date": (
        STEP + "n_components = 2026-01-01",
        r"\[steps 1\] n_components: must be a number",
    ),
    "step name": (
        STEP + 'name = "a__b"',
        r'\[\[steps\]\] name: "a__b" cannot name a step',
    ),
    "step name taken": (
        STEP + 'name = "steps"',
        r"\[\[steps\]\] name: .* cannot name a step",
    ),
    "step name path": (STEP + 'name = "a/b"', r"\[steps 1\] name: .* must be letters"),
    "step names": (
        STEP + 'name = "a"\n[[steps]]\nmodel = "PCA"\nname = "a"',
        r"\[\[steps\]\] name: a names more than one step",
    ),
    "outputs": (
        STUDY + "[outputs]\nfoldr = 1",
        r'\[outputs\] foldr: .*Did you mean "folder"',
    ),
    "report": (
        STUDY + '[outputs]\nreport = "no"',
        r"\[outputs\] report: must be true or false",
    ),
}


@pytest.mark.parametrize(("text", "message"), MISTAKES.values(), ids=list(MISTAKES))
def test_a_mistake_is_named_with_file_and_key(read, text, message):
    with pytest.raises(StudyError, match=message) as caught:
        read(text, own="[policy]\nmin_row = 3\n")

    assert str(caught.value).startswith(("heart.toml", "own.toml"))
    assert len(str(caught.value)) < 600


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(StudyError, match=r"There is no file .*absent\.toml"):
        up.Study.from_file(tmp_path / "absent.toml")
    with pytest.raises(StudyError, match="Cannot read"):
        up.Study.from_file(tmp_path)
    (tmp_path / "latin.toml").write_bytes(b'[study]\nname = "caf\xe9"')
    with pytest.raises(StudyError, match=r"Cannot read .*latin\.toml"):
        up.Study.from_file(tmp_path / "latin.toml")


def test_a_suggestion_looks_beyond_case():
    assert suggestion("pca", ["PCA", "StandardScaler"]) == 'Did you mean "PCA"? '
    assert suggestion("wholly other", ["PCA"]) == ""


def test_a_section_names_its_place():
    with pytest.raises(StudyError, match=r"^f\.toml, \[a\.b\] c: wrong\.$"):
        Section("f.toml", "a.b", {}).fail("c", "wrong")


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


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from(KEYS), toml_values, max_size=5))
def test_any_document_is_a_study_or_an_error_of_ours(document):
    with contextlib.suppress(StudyError):
        parsed(document)


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


def test_a_source_may_be_absent_only_over_a_consortium(tmp_path):
    path = tmp_path / "study.toml"
    path.write_text(edited('source = "a.csv"', ""))

    study = up.Study.from_file(path)

    assert study.silos["a"].source is None
    with pytest.raises(StudyError, match=r"\[parties\.a\] source: this key is missing"):
        study.run(tmp_path / "run")


@pytest.mark.parametrize("seconds", ["0", "1e9", "nan"])
def test_a_timeout_has_limits(tmp_path, seconds):
    path = tmp_path / "study.toml"
    path.write_text(edited("[study]", f"[study]\ntimeout = {seconds}"))

    with pytest.raises(StudyError, match=r"\[study\] timeout: must be"):
        up.Study.from_file(path)
