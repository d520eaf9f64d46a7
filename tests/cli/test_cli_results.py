"""`unpooled run` and `results`: every family ends well and shows its results."""

import csv
import io
import json
from collections import Counter
from pathlib import Path

import numpy as np
import openpyxl
import polars
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from command_line import call, one_red_line, too_wide, write_study
from tiers import mostly_slow
from unpooled.cli.results_tables import exhibits
from unpooled.results.exhibits import Column, Exhibit, ResultTable
from unpooled.results.summary import Summary

NAMES = list("abcdef")
OPEN = """[policy]
allow_disclosed = true
allow_row_level = true
min_parties = 2
max_leverage = 1.0
max_feature_ratio = inf
max_released_share = inf
min_own_cells = 0
"""
# Steps of a study, and what its output has.
ROWS = {
    "PCA": ('model = "PCA"', "Cumulative"),
    "LDA of two classes": (
        'model = "LinearDiscriminantAnalysis"', "Discriminant directions"
    ),
    "CCA": ('model = "CCA"\ny = ["e", "f"]', "Canonical correlations"),
    "PLSRegression": (
        'model = "PLSRegression"\ny = ["e", "f"]', "Correlations of the scores"
    ),
    "PLSSVD": ('model = "PLSSVD"\ny = ["e", "f"]', "Correlations of the scores"),
    "KernelPCA": (
        'model = "KernelPCA"\nn_components = 2\napproximation = "fourier"\n'
        "n_landmarks = 4",
        "Cumulative",
    ),
    "Heterogeneity": ('model = "Heterogeneity"', "Differences between silos"),
    "PowerTransformer": (
        'model = "PowerTransformer"\ncomparison = "summed"\ntol = 0.1', "Exponent"
    ),
    "scalers": (
        'model = "SimpleImputer"\n[[steps]]\nmodel = "StandardScaler"',
        "SD before",
    ),
    "RareColumns": ('model = "RareColumns"', "Columns kept and left out"),
}  # fmt: skip
COLUMNS = {
    "PCA": ('model = "PCA"\nn_components = 2\nsvd_solver = "gram"', "Cumulative"),
    "KernelPCA": ('model = "KernelPCA"\nn_components = 2', "Cumulative"),
    "CCA": ('model = "CCA"\nn_components = 1', "Generalised correlations"),
    "MMVFL": ('model = "MMVFL"\nbeta = 1.0\ntol = 0.1', "Objective"),
    "VFedPCA": ('model = "VFedPCA"\nn_components = 2', "merged directions"),
    "VFedAKPCA": ('model = "VFedAKPCA"\nn_components = 2', "merged directions"),
    "StandardScaler": ('model = "StandardScaler"', "Kept in the silos"),
    "PCA-asked": (
        'model = "PCA"\nn_components = 2\nscores = "parties"\n'
        'disclose = ["components_"]',
        "Loadings",
    ),
    "MMVFL-asked": (
        'model = "MMVFL"\nbeta = 1.0\ntol = 0.1\nselect = 40\nscore = true\n'
        'disclose = ["feature_importances_"]',
        "Selected columns",
    ),
}


def written(folder, steps, partition):
    """Write three silos' files, and a study of them without a report."""
    rng = np.random.default_rng(0)
    for j, silo in enumerate("xyz"):
        X = rng.standard_normal((40, 6)) @ rng.standard_normal((6, 6)) + 3.0
        X[:, 0] += np.arange(40) % 2
        frame = polars.DataFrame(X, NAMES).with_columns(kind=np.arange(40) % 2)
        if partition == "columns":
            frame = frame.select(*NAMES[2 * j : 2 * j + 2], "kind")
        frame.write_csv(folder / f"{silo}.csv")
    parties = "".join(f'[parties.{s}]\nsource = "{s}.csv"\n' for s in "xyz")
    (folder / "study.toml").write_text(
        f'[study]\nname = "family"\nlabel = "kind"\npartition = "{partition}"\n'
        f"{parties}{OPEN}[outputs]\nreport = false\n[[steps]]\n{steps}\n"
    )
    return folder / "study.toml"


def ends_well(family, partition):
    steps, words = family
    study = written(Path(), steps, partition)

    result = call("run", study)

    assert result.exit_code == 0, (result.output, result.exception)
    assert result.stderr == ""
    shown = result.output.split("What left each silo")[0]
    assert words in " ".join(shown.split())
    assert too_wide(result.output, 80) == []
    again = call("results", "runs/family")
    assert (again.exit_code, again.stderr) == (0, "")
    assert words in " ".join(again.output.split())
    # All tables that stand there are files.
    record = json.loads(Path("runs/family/results/results.json").read_text())
    for step in record["steps"]:
        for name, table in step["tables"].items():
            path = Path("runs/family/results", step["step"], f"{name}.csv")
            with path.open() as file:
                head, *rows = csv.reader(file)
            assert head == [column["key"] for column in table["columns"]]
            assert len(rows) == len(table["rows"])


@pytest.mark.slow
@pytest.mark.shapes
@pytest.mark.parametrize(
    "family",
    mostly_slow(ROWS.items(), "LDA of two classes", "CCA", "Heterogeneity", "scalers"),
)
def test_every_family_on_rows(family, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ends_well(family, "rows")


@pytest.mark.thinned(2)
@pytest.mark.shapes
@pytest.mark.parametrize(
    "family",
    mostly_slow(COLUMNS.items(), "PCA", "MMVFL", "StandardScaler"),
)
def test_every_family_on_columns(family, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ends_well(family, "columns")


PCA_TABLES = (
    "explained_variance", "loadings", "correlations", "contributions", "cos2",
    "correlation_matrix",
)  # fmt: skip
PCA_PICTURES = ("scree", "loadings", "correlation_circle", "cos2", "correlation_matrix")


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    assert call("run", write_study(folder)).exit_code == 0
    return folder / "runs" / "small"


def test_a_run_has_its_results_and_pictures_with_the_report(done):
    folder = done / "results"

    assert {str(path.relative_to(folder)) for path in folder.rglob("*.*")} == {
        "results.json",
        "results.xlsx",
        "methods.txt",
        "standardscaler/columns.csv",
        *(f"pca/{table}.csv" for table in PCA_TABLES),
        *(f"pca/{one}.{form}" for one in PCA_PICTURES for form in ("svg", "png")),
    }
    record = json.loads((done / "results/results.json").read_text())
    assert record["study"] == "small"
    assert record["silos"] == ["a", "b", "c"]
    assert "numpy" in record["versions"]
    assert record["steps"][0]["parameters"]["with_mean"] is True


@pytest.mark.slow
def test_results_can_be_written_in_one_form(done, tmp_path):
    where = tmp_path / "elsewhere"

    told = call("results", done, "--format", "csv", "--out", where).output
    assert "loadings.csv" in told.replace("\n", "")
    assert {p.name for p in where.rglob("*.*")} == {
        "columns.csv",
        *(f"{table}.csv" for table in PCA_TABLES),
    }
    assert call("results", done, "--format", "xlsx", "--out", where).exit_code == 0
    sheets = openpyxl.load_workbook(where / "results.xlsx").sheetnames
    assert "pca.loadings" in sheets
    assert call("results", done, "--format", "json", "--out", where).exit_code == 0
    assert (where / "results.json").exists()


@pytest.mark.slow
def test_a_run_of_an_earlier_version_gets_its_results_when_it_is_resumed(tmp_path):
    study = write_study(tmp_path)
    assert call("run", study, "--out", tmp_path / "run").exit_code == 0
    record = tmp_path / "run/results/results.json"
    record.unlink()

    assert call("resume", study, "--out", tmp_path / "run").exit_code == 0

    assert record.exists()


def test_results_of_no_run_are_one_red_line(tmp_path):
    assert "state.json" in one_red_line(call("results", tmp_path))


@pytest.mark.slow
@given(data=st.data(), width=st.integers(40, 200))
def test_a_table_wider_than_the_terminal_has_every_cell(data, width):
    words = st.text(alphabet="abcxyz", min_size=1, max_size=9)
    texts = st.lists(words, min_size=1, max_size=4).map(" ".join)
    kinds = data.draw(st.lists(st.sampled_from(["text", "number", "df"]), max_size=12))
    columns = [Column(data.draw(texts), kind, "c") for kind in ["text", *kinds]]
    numbers = st.integers(-9, 10**5).map(float)
    rows = [
        [data.draw(texts if c.kind == "text" else numbers) for c in columns]
        for _ in range(3)
    ]
    table = ResultTable("t", columns, rows)
    output = io.StringIO()
    console = Console(width=width, file=output, color_system=None)
    console.print(*exhibits(Summary("a model", [Exhibit("Found", "", [table])])))
    lines = output.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    shown = Counter(" ".join(lines).split())
    headings = [c.heading for c in columns]
    cells = [cell for row in [headings, *table.shown] for cell in row]
    assert Counter(word for cell in cells for word in cell.split()) <= shown


@pytest.mark.parametrize("values", [[0.45], [0.45, 0.9]])
def test_a_bar_is_compared_with_others(values):
    cells = {Column("Response"): ["a", "b"][: len(values)]}
    table = ResultTable.of(
        "t", {**cells, Column("R²", "number", "r2", bar=True): values}
    )
    output = io.StringIO()
    console = Console(width=80, file=output, color_system=None)

    console.print(*exhibits(Summary("a model", [Exhibit("Found", "", [table])])))

    longest = max(line.count("━") for line in output.getvalue().splitlines())
    assert longest == (20 if len(values) > 1 else 0)
