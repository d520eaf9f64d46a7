"""Mistakes in a study file: each is named with its file and its key."""

import pytest

import unpooled as up
from study_text import STUDY, edited, reader
from unpooled.data.toml import Section, suggestion
from unpooled.errors import DataError, StudyError


@pytest.fixture
def read(tmp_path):
    """Read a study file of this text, beside which other files may lie."""
    return reader(tmp_path)


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
        r"\[parties\.a\] missing: must name columns.*{ chol = \[0, .*, not \[0\]",
    ),
    "plausible of no column": (
        edited('"a.csv"', '"a.csv"\nplausible = [0, 9]'),
        r"\[parties\.a\] plausible: must name columns.*{ chol = \[100, 230\] }",
    ),
    "missing truth": (
        edited('"a.csv"', '"a.csv"\nmissing = {chol = [true]}'),
        r"\[parties\.a\.missing\] chol: must be a list of numbers",
    ),
    "missing of a name with an umlaut": (
        edited('"a.csv"', '"a.csv"\nmissing = { Größe = [0] }'),
        r"heart.toml is not TOML.* stand in quotes, such as { \"Größe\"",
    ),
    "party with an umlaut": (
        edited("[parties.a]", "[parties.Köln]"),
        r"heart.toml is not TOML.* those of silos and studies have none",
    ),
    "party with an umlaut in quotes": (
        edited("[parties.a]", '[parties."Köln"]'),
        r"\"Köln\" must be letters \(a to z\)",
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
        POLICY + "max_leverage = nan",
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
    "exclude of columns": (
        edited("[parties", 'partition = "columns"\nexclude = ["age"]\n[parties'),
        r"\[study\] exclude: .*each has its own.*\[parties\.<name>\] exclude",
    ),
    "columns and exclude": (
        edited("[parties", 'columns = ["b"]\nexclude = ["age"]\n[parties'),
        r"\[study\] exclude: .*beside columns leave it out",
    ),
    "one table of steps": (
        edited("[[steps]]", "[steps]"),
        r"\[steps\]: is one table; write \[\[steps\]\] with two brackets",
    ),
    "two tables of steps": (
        edited("[[steps]]", "[steps]") + '[steps]\nmodel = "PCA"',
        r"is not TOML: .*Write \[\[steps\]\] with two brackets",
    ),
    "unquoted name": (
        edited('"heart"', "heart"),
        r'is not TOML: .*line 3.*After name = put each text in quotes, such as "name"',
    ),
    "unquoted path": (
        edited('"a.csv"', "../data/a.csv"),
        "After source = put each text in quotes",
    ),
    "unquoted list": (
        edited("[parties", "columns = [age, sex]\n[parties"),
        "After columns = put each text in quotes",
    ),
    "capital true": (
        edited("[parties", "aligned = True\n[parties"),
        "After aligned = write true or false, in lower case",
    ),
    "backslash": (
        edited('"a.csv"', r'"C:\data\a.csv"'),
        "In a path write / in place of",
    ),
    "a number of 5,000 digits": (
        STUDY + f"n_components = {'1' * 5000}\n",
        "is not TOML: .*4300 digits",
    ),
    "a number of 20,000 bits": (
        STUDY + f"n_components = 0x{'f' * 5000}\n",
        "is not TOML: A whole number has more than 4,096 bits",
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
    with pytest.raises(
        StudyError, match=r"Cannot read .*latin\.toml: .* Save it in UTF"
    ):
        up.Study.from_file(tmp_path / "latin.toml")


def test_a_byte_order_mark_is_no_part_of_a_file(tmp_path):
    """Editors on Windows write one, and the file was "not TOML" at its first letter."""
    (tmp_path / "rules.toml").write_text("min_rows = 20\n", "utf-8-sig")
    text = edited('"a.csv"', '"a.csv"\npolicy = "rules.toml"')
    (tmp_path / "study.toml").write_text(text, "utf-8-sig")
    study = up.Study.from_file(tmp_path / "study.toml")
    assert study.parties["a"].policy.min_rows == 20
    (tmp_path / "study.toml").write_text(text, "utf-8")
    assert study.text == up.Study.from_file(tmp_path / "study.toml").text


def test_a_password_without_quotes_is_not_repeated(read):
    with pytest.raises(StudyError) as caught:
        read(edited('"a.csv"', "postgresql://u:secret@db/x?table=t"))

    assert "secret" not in str(caught.value)


def test_a_file_that_is_not_there_is_looked_for_beside_the_study(
    read, tmp_path, monkeypatch
):
    monkeypatch.chdir("/")
    study = read(edited("a.csv", "../data/a.csv"))

    with pytest.raises(DataError) as caught:
        study.federation()

    message = str(caught.value)
    assert message.count("data/a.csv") == 1
    assert f"Relative paths start at {tmp_path}, the folder of heart.toml." in message
    assert "working directory" not in message


def test_a_suggestion_looks_beyond_case():
    assert suggestion("pca", ["PCA", "StandardScaler"]) == 'Did you mean "PCA"? '
    assert suggestion("wholly other", ["PCA"]) == ""
    assert suggestion("question", ["purpose", "versions"]) == ""


def test_a_section_names_its_place():
    with pytest.raises(StudyError, match=r"^f\.toml, \[a\.b\] c: wrong\.$"):
        Section("f.toml", "a.b", {}).fail("c", "wrong")


@pytest.mark.parametrize("seconds", ["0", "1e9", "nan"])
def test_a_timeout_has_limits(tmp_path, seconds):
    path = tmp_path / "study.toml"
    path.write_text(edited("[study]", f"[study]\ntimeout = {seconds}"))

    with pytest.raises(StudyError, match=r"\[study\] timeout: must be"):
        up.Study.from_file(path)
