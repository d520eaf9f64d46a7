"""How every study ends: plan, run, resume and report, for each estimator.

One table of small studies, one for each estimator and partition that the catalogue
knows. All four commands end with 0, write nothing to standard error, and nothing that
Python does not know of to standard output, as BLAS does where an argument is wrong.
"""

import json
import re
from dataclasses import dataclass

import numpy as np
import polars
import pytest

from command_line import call
from report_pages import reads_well
from unpooled.models.files.catalogue import estimators

NAMES = list("abcdef")
SILOS = ("clinic", "lab", "bank")
Y = 'y = ["d", "e", "f"]'
OPEN = "max_released_share = 1000.0\nmax_feature_ratio = 1.0\n"
BY_COLUMNS = "allow_row_level = true\nallow_disclosed = true\nmin_parties = 2\n"


@dataclass(frozen=True)
class Ending:
    """A study whose last step is the estimator.

    Attributes
    ----------
    keys : str
        More lines of its step.
    before : tuple of str
        Models of the steps before.
    silos : int
        Number of silos.
    head : str
        More lines of [study]: which columns the study has, and which are categories.
    rules : str
        More lines of [policy].
    without : tuple of str
        On a column partition, columns that the silos leave out.
    """

    keys: str = ""
    before: tuple[str, ...] = ("SimpleImputer",)
    silos: int = 3
    head: str = f"columns = {NAMES}\n"
    rules: str = ""
    without: tuple[str, ...] = ()


FEW = "n_components = 2"
CODED = 'columns = ["site", "stage"]\ncategorical = ["site", "stage"]\n'
MIXED = 'columns = ["a", "c", "site"]\ncategorical = ["site"]\n'
TOWNS = 'categorical = ["town"]\n'
# A column of categories of each silo.
OF_SILOS = ("site", "town", "stage")
KINDS = 'categorical = ["site", "town", "stage"]\n'
EACH_KIND = """transformers = [
    { model = "StandardScaler", columns = "numeric" },
    { model = "OneHotEncoder", columns = "categorical", drop = "first" },
]"""
ROWS = {
    "CCA": Ending(f"{FEW}\n{Y}"),
    "CentreBySite": Ending("", ()),
    "ColumnTransformer": Ending(EACH_KIND, (), head=MIXED),
    "Correlation": Ending('missing = "pairwise"', ()),
    "DerivedColumns": Ending('columns = { ab = "a * b" }'),
    "Describe": Ending('by = "kind"', ()),
    "FAMD": Ending(FEW, (), head=MIXED),
    "FactorAnalysis": Ending(f'{FEW}\nrotation = "varimax"'),
    "GLM": Ending('y = ["f"]'),
    "GeneralizedEigen": Ending(
        f'{FEW}\npair = "pairs.local_canonical"\npublic = {{ first = 3 }}'
    ),
    "Heterogeneity": Ending(FEW),
    "Histogram": Ending("bins = 4", ()),
    "KernelPCA": Ending(f'{FEW}\napproximation = "fourier"\nn_landmarks = 8'),
    "LinearDiscriminantAnalysis": Ending(),
    "LinearRegression": Ending('y = ["f"]\ncov_type = "HC1"'),
    "LogisticRegression": Ending("C = 1.0"),
    "MetaAnalysis": Ending('y = ["f"]', rules="allow_disclosed = true\n"),
    "MCA": Ending(FEW, (), head=CODED),
    "OneHotEncoder": Ending('drop = "first"', (), head=CODED),
    "OrdinalEncoder": Ending("", (), head=CODED),
    "PCA": Ending(FEW),
    "PLSCanonical": Ending(f"{FEW}\n{Y}"),
    "PLSRegression": Ending(f"{FEW}\n{Y}"),
    "PLSSVD": Ending(f"{FEW}\n{Y}"),
    "PersonalizedPCA": Ending("n_components = 1", rules="allow_disclosed = true\n"),
    "PowerTransformer": Ending('comparison = "summed"\ntol = 0.05', ()),
    "IterativeImputer": Ending("max_iter = 3", ()),
    "KBinsDiscretizer": Ending("n_bins = 2"),
    "QuantileTransformer": Ending("n_quantiles = 3", ()),
    "Quantiles": Ending("", ()),
    "RareColumns": Ending("", ()),
    "Ridge": Ending('y = ["f"]'),
    "RobustScaler": Ending("", ()),
    "SimpleImputer": Ending("", ()),
    "StandardScaler": Ending("", ()),
}
COLUMNS = {
    "CCA": Ending(FEW),
    "ColumnTransformer": Ending(EACH_KIND, (), head=TOWNS),
    "Correlation": Ending(),
    "DerivedColumns": Ending('columns = { ab = "a * b" }'),
    "Describe": Ending("", ()),
    "FAMD": Ending(
        f'{FEW}\ndisclose = ["category_coordinates_"]', (), head=TOWNS, without=("b",)
    ),
    "KBinsDiscretizer": Ending('n_bins = 2\nencode = "ordinal"'),
    "KernelPCA": Ending(f"{FEW}\ngamma = 0.1"),
    "LinearRegression": Ending('y = ["f"]\ndisclose = ["coef_"]'),
    "MCA": Ending(FEW, (), head=KINDS, without=tuple(NAMES)),
    "MMVFL": Ending(
        "beta = 1.0\nmax_iter = 2\ntol = 0.0\n[evaluate]\ncv = 2",
        rules="min_rows_per_class = 1\n",
    ),
    "OneHotEncoder": Ending('drop = "first"', (), head=TOWNS),
    "OrdinalEncoder": Ending("", (), head=TOWNS),
    "PCA": Ending(FEW),
    "PLSCanonical": Ending(f'{FEW}\ndisclose = ["x_correlations_"]', silos=2),
    "PLSRegression": Ending(FEW, silos=2),
    "PLSSVD": Ending(FEW, silos=2),
    "QuantileTransformer": Ending("n_quantiles = 3", ()),
    "Quantiles": Ending('disclose = ["quantiles_"]', ()),
    "Ridge": Ending('y = ["f"]'),
    "RobustScaler": Ending("", ()),
    "SimpleImputer": Ending("", ()),
    "StandardScaler": Ending("", ()),
    "VFedAKPCA": Ending(f"{FEW}\ngamma = 0.1"),
    "VFedPCA": Ending(f"{FEW}\nrounds = 2\nlocal_iterations = 2"),
}
EXAMPLES = {"rows": ROWS, "columns": COLUMNS}
# The same model another way, where a silo's end differs.
OTHERS = {
    "Describe-text": Ending('by = "kind"', (), head=MIXED),
    "LinearDiscriminantAnalysis-shrunk": Ending('shrinkage = "auto"'),
    "LinearDiscriminantAnalysis-dgep": Ending('solver = "dgep-eigh"'),
    "CCA-regularised": Ending(f"{FEW}\nregularisation = 0.1\n{Y}"),
    "Heterogeneity-first": Ending(
        "", ("SimpleImputer", "Heterogeneity", "StandardScaler")
    ),
}


# `make test` has these: each kind of summary. `check_estimator` reports on all.
USUAL = {"CCA-rows", "KernelPCA-columns"}
USUAL |= {f"ColumnTransformer-{partition}" for partition in EXAMPLES}


def cases():
    found = [
        (f"{model}-{partition}", model, partition)
        for model, kind in estimators().items()
        for partition in kind._partitions
    ]
    found += [(name, name.partition("-")[0], "rows") for name in OTHERS]
    for case in found:
        marks = () if case[0] in USUAL else pytest.mark.slow
        yield pytest.param(*case, id=case[0], marks=marks)


def people(silo):
    """Rows of a silo. The bank has nobody of the third class."""
    rng = np.random.default_rng(SILOS.index(silo))
    kind = rng.permutation(np.arange(48) % (2 if silo == "bank" else 3))
    X = rng.normal(size=(48, 6)) @ rng.normal(size=(6, 6)) + kind[:, None] + 3.0
    return X, kind


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    for place, silo in enumerate(SILOS):
        X, kind = people(silo)
        X[::5, 1] = np.nan
        frame = polars.DataFrame(X, NAMES).fill_nan(None)
        labels = polars.Series("kind", [("well", "ill", "dead")[k] for k in kind])
        towns = np.random.default_rng(place).choice(["north", "south", "east"], 48)
        coded = [polars.Series("site", towns), polars.Series("stage", kind + 1)]
        frame.with_columns(labels, *coded).write_csv(folder / f"rows-{silo}.csv")
        X, kind = people("clinic")
        X[::5, 1] = np.nan
        own = polars.DataFrame(X, NAMES).fill_nan(None)[:, 2 * place : 2 * place + 2]
        own = own.with_columns(polars.Series("id", [f"p{i:02}" for i in range(48)]))
        if place == 0:
            own = own.with_columns(polars.Series("kind", kind))
        own = own.with_columns(polars.Series(OF_SILOS[place], towns))
        own.sample(fraction=1.0, shuffle=True, seed=place).write_csv(
            folder / f"columns-{silo}.csv"
        )
    return folder


def write_study(folder, data, model, partition, ending):
    rules = OPEN + BY_COLUMNS * (partition == "columns") + ending.rules
    ids, head = "", ending.head
    if partition == "columns":
        ids, head = 'ids = "id"\n', head if "categorical" in head else ""
    lines = [
        f'[study]\nname = "ending"\npartition = "{partition}"\nlabel = "kind"\n{ids}'
        f"random_state = 0\n{head}"
        f"[policy]\n{rules}"
    ]
    for silo in SILOS[: ending.silos]:
        source = data / f"{partition}-{silo}.csv"
        lines.append(f'[parties.{silo}]\nsource = "{source}"\n')
        if partition == "columns":
            place = SILOS.index(silo)
            own = [*NAMES[2 * place : 2 * place + 2], OF_SILOS[place]]
            left_out = {*ending.without, *(c for c in OF_SILOS if c not in head)}
            own = [c for c in own if c in left_out]
            lines += [f"exclude = {own}\n"] if own else []
    lines += [f'[[steps]]\nmodel = "{before}"\n' for before in ending.before]
    lines.append(f'[[steps]]\nmodel = "{model}"\n{ending.keys}\n')
    path = folder / "study.toml"
    path.write_text("".join(lines))
    return path


def ends_well(capfd, *command):
    """Run a command; return what it writes."""
    result = call(*command)
    assert result.exit_code == 0, result.output
    assert "Traceback" not in result.output
    assert result.stderr == ""
    by_others = capfd.readouterr()
    assert by_others.out == "", "written past Python, for instance by BLAS"
    assert by_others.err == ""
    return result.stdout


@pytest.fixture(autouse=True)
def quick_disk(monkeypatch):
    monkeypatch.setattr("os.fsync", lambda descriptor: None)


@pytest.mark.parametrize("partition", EXAMPLES)
def test_every_model_has_a_study_that_ends(partition):
    kinds = estimators().items()
    wanted = {model for model, kind in kinds if partition in kind._partitions}
    assert set(EXAMPLES[partition]) == wanted


@pytest.mark.parametrize(("name", "model", "partition"), [*cases()])
def test_every_study_ends_well(name, model, partition, data, tmp_path, capfd):
    ending = OTHERS[name] if name in OTHERS else EXAMPLES[partition][model]
    study = write_study(tmp_path, data, model, partition, ending)

    planned = ends_well(capfd, "plan", study)
    ran = ends_well(capfd, "run", study, "--quiet")
    resumed = ends_well(capfd, "resume", study, "--quiet")
    again = ends_well(capfd, "report", tmp_path / "runs" / "ending")

    assert "Nothing has left any silo" in planned
    assert "is done" in ran
    assert results(resumed) == results(ran)
    assert again.strip().endswith("report.html")
    assert results(ran), "nothing about the result on the terminal"
    has_its_numbers(tmp_path / "runs" / "ending" / "results")
    reads_well((tmp_path / "runs" / "ending" / "report.html").read_text("utf-8"))


def has_its_numbers(folder):
    """Every picture has its numbers in a file, and no step shows attributes alone."""
    steps = json.loads((folder / "results.json").read_text())["steps"]
    for step in steps:
        assert "fitted_attributes" not in step["tables"], "describe the results"
        for name, picture in step["pictures"].items():
            assert picture["tables"], f"picture {name} has no numbers"
            for table in picture["tables"]:
                lines = (folder / step["step"] / f"{table}.csv").read_text()
                assert len(lines.splitlines()) > 1


def results(output):
    """Return what a run shows before what left: its results, without its rounds."""
    shown = output.partition("What left each silo")[0]
    lines = [x for x in shown.splitlines() if not re.match(r"round \d+ of", x)]
    return "\n".join(lines).lower().strip()
