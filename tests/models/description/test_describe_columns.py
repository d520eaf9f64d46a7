"""First tables on column partitions: each silo's own columns, equal to pandas'."""

import csv

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from typer.testing import CliRunner

import unpooled as up
from federations import federation_of
from unpooled.cli import app
from unpooled.errors import DataError, ReleaseRefusedError

N = 120
SHOWS = {"allow_disclosed": True}
# Means and squares of a hundred numbers, added in another order than pandas does.
CLOSE = 1e-12


@pytest.fixture(scope="module")
def parts():
    """Return columns with missing cells: many in b, three in c; e has two 1s."""
    rows = np.random.default_rng(5).normal(10.0, 3.0, (N, 6))
    rows[:30, 1] = rows[:3, 2] = np.nan
    rows[:, 4] = np.arange(N) < 2
    columns = {"bank": "ab", "shop": "cd", "tax": "ef"}
    whole = pd.DataFrame(rows, columns=list("abcdef"))
    return {name: whole[list(own)] for name, own in columns.items()}


@pytest.mark.parametrize("follow", [False, True])
def test_what_silos_show_is_pandas_and_small_counts_are_withheld(parts, follow):
    federation = federation_of(parts, policy=SHOWS, follow=follow)
    model = up.Describe().fit(federation)
    assert {line.visibility for line in federation.ledger} <= {"kept", "public"}

    whole, shown = pd.concat(list(parts.values()), axis=1), [0, 1, 3, 5]

    assert_allclose(model.mean_[0, shown], whole.mean().iloc[shown], rtol=CLOSE)
    assert_allclose(model.std_[0, shown], whole.std().iloc[shown], rtol=CLOSE)
    assert model.n_[0, shown].tolist() == [N, N - 30, N, N]
    assert model.n_missing_[0, shown].tolist() == [0, 30, 0, 0]
    for withheld in (model.n_, model.n_missing_, model.mean_, model.std_):
        assert np.isnan(withheld[0, [2, 4]]).all()
    assert "c, mean (SD)" in str(model)
    frame = model.to_frame()
    assert frame["mean"].isna().sum() == 2
    assert not hasattr(model, "quartiles_")


def test_silos_that_do_not_allow_it_show_nothing(parts):
    model = up.Describe().fit(federation_of(parts))
    with pytest.raises(ReleaseRefusedError, match="allow_disclosed"):
        _ = model.mean_
    assert "its folder of results" in str(model.summary())
    # A study cannot have less withheld than a silo's rules say.
    with pytest.raises(ReleaseRefusedError, match="min_rows_per_class"):
        up.Describe(min_rows_per_class=2).fit(federation_of(parts, policy=SHOWS))


@pytest.mark.parametrize("options", [{"per_silo": True}, {"categorical": ["a"]}])
def test_what_is_for_rows_is_named(parts, options):
    with pytest.raises(DataError, match="Leave per_silo and categorical out"):
        up.Describe(**options).fit(federation_of(parts))
    with pytest.raises(DataError, match="'a' is not the label"):
        up.Describe("a").fit(federation_of(parts))


@pytest.mark.slow
def test_columns_of_text_are_counted_for_the_silo_alone(parts, tmp_path):
    pain = np.where(np.arange(N) < 50, "none", "typical").astype(object)
    pain[:3], pain[-10:] = "odd", None
    text = '[study]\nname = "text"\npartition = "columns"\naligned = true\n'
    text += 'categorical = ["pain"]\n[policy]\nallow_disclosed = true\n'
    text += '[[steps]]\nmodel = "Describe"\ndisclose = ["mean_", "n_missing_"]\n'
    for name, part in parts.items():
        part = part.assign(pain=pain) if name == "shop" else part
        part.to_csv(tmp_path / f"{name}.csv", index=False)
        text += f'[parties.{name}]\nsource = "{name}.csv"\n'
    (tmp_path / "study.toml").write_text(text)

    run = up.Study.from_file(tmp_path / "study.toml").run()

    model = run.models["describe"]
    column = model.columns_.index("pain")
    assert np.isnan([model.mean_[0, column], model.n_missing_[0, column]]).all()
    # The numbers beside it are described as before.
    wanted = parts["shop"]["d"].mean()
    assert_allclose(model.mean_[0, model.columns_.index("d")], wanted, rtol=CLOSE)
    silos = tmp_path / "runs" / "text" / "silos"
    with (silos / "shop" / "results" / "describe_category_counts.csv").open() as lines:
        rows = [(row["category"], int(row["rows"])) for row in csv.DictReader(lines)]
    assert rows == [("typical", 60), ("none", 47), ("odd", 3), ("(missing)", 10)]
    for path in (tmp_path / "runs" / "text").rglob("*"):
        if path.is_file() and "silos" not in path.parts:
            assert b"typical" not in path.read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("by", [None, "kind"])
def test_names_beyond_64_have_a_line_each(tmp_path, by):
    n = 2400
    code = np.array([f"code {k % 200:03}" for k in range(n)])
    kind = np.arange(n) // 200 % 2
    x = np.random.default_rng(2).normal(size=(n, 4))
    parts = {
        "bank": pd.DataFrame({"code": code, "kind": kind, "a": x[:, 0]}),
        "shop": pd.DataFrame({"b": x[:, 1]}),
        "tax": pd.DataFrame({"c": x[:, 2]}),
    }
    text = '[study]\nname = "text"\npartition = "columns"\naligned = true\n'
    text += 'categorical = ["code"]\n[policy]\nallow_disclosed = true\n'
    text += 'allow_row_level = "parties"\n[[steps]]\nmodel = "Describe"\n'
    text += "" if by is None else 'by = "kind"\n'
    for name, part in parts.items():
        part.to_csv(tmp_path / f"{name}.csv", index=False)
        text += f'[parties.{name}]\nsource = "{name}.csv"\n'
    text = text.replace("[policy]", 'label = "kind"\n[policy]')
    (tmp_path / "study.toml").write_text(text)

    up.Study.from_file(tmp_path / "study.toml").run()

    own = tmp_path / "runs" / "text" / "silos" / "bank" / "results"
    table = pd.read_csv(own / "describe_category_counts.csv")
    assert sorted(table["category"]) == sorted(set(code))
    assert (table["rows"] == 12).all()
    if by is not None:
        table = pd.read_csv(own / "describe_class_category_counts.csv")
        assert len(table) == 200
        assert (table[["class_1", "class_2"]] == 6).all(axis=None)


@pytest.mark.slow
@pytest.mark.parametrize("disclosed", [False, True])
def test_from_a_study_file_to_each_silos_own_table(parts, tmp_path, disclosed):
    text = '[study]\nname = "first"\npartition = "columns"\naligned = true\n'
    text += "[policy]\nallow_disclosed = true\n" if disclosed else ""
    text += '[[steps]]\nmodel = "Describe"\n'
    text += 'disclose = ["mean_", "std_"]\n' if disclosed else ""
    for name, part in parts.items():
        part.to_csv(tmp_path / f"{name}.csv", index=False)
        text += f'[parties.{name}]\nsource = "{name}.csv"\n'
    study, out = tmp_path / "study.toml", tmp_path / "run"
    study.write_text(text)
    commands = (["plan", study], ["run", study, "--out", out], ["resume", out])
    for command in (*commands, ["report", out]):
        done = CliRunner().invoke(app, [str(part) for part in command])
        assert done.exit_code == 0, done.output
        assert not done.stderr
    (path,) = (out / "silos" / "bank").rglob("describe_quartiles.csv")
    rows = list(csv.reader(path.read_text("utf-8").splitlines()))[1:]
    theirs = parts["bank"].quantile([0.25, 0.5, 0.75]).T
    assert [row[0] for row in rows] == ["a", "b"]
    # Interpolated by NumPy and by pandas.
    assert_allclose([[float(x) for x in row[1:]] for row in rows], theirs, rtol=1e-13)
    report = (out / "report.html").read_text("utf-8")
    assert ("a, mean (SD)" in report) == disclosed
