"""Twelve questions to a finished study, answered from `results/` and the report alone.

The page docs/reading-results.md has the questions in this order. Answers are read as
files and as text, without this library, and compared with the pooled rows.
"""

import csv
import json

import numpy as np
import pytest
import scipy.stats
from numpy.testing import assert_allclose
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import StandardScaler

import unpooled as up
from report_pages import Page
from unpooled.cli.heart_demo import write_study
from unpooled.data import heart_disease
from unpooled.study.reporting import report_of

MORE = """
[[steps]]
model = "Heterogeneity"
[[steps]]
model = "LinearDiscriminantAnalysis"
[evaluate]
cv = 5
scoring = ["accuracy", "balanced_accuracy"]
"""
# Sums travel with twelve digits; a solver loses some of them.
RTOL = 1e-9
COLUMNS = heart_disease.FEATURES


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two runs on heart disease: components; and differences, classes, new patients."""
    folder = tmp_path_factory.mktemp("questions")
    text = write_study(folder).read_text()
    head, component = text.rsplit('[[steps]]\nmodel = "PCA"', 1)
    stated = head.replace(
        'name = "heart"', 'name = "classes"\npurpose = "What tells disease?"'
    )
    (folder / "classes.toml").write_text(stated + MORE)
    assert component
    found = []
    for name in ("study", "classes"):
        # Without the files of pictures, which take as long as the rest.
        path = folder / f"{name}.toml"
        path.write_text(f"{path.read_text()}\n[outputs]\nreport = false\n")
        run = up.Study.from_file(path).run()
        page = Page(report_of(run.folder).read_text())
        found.append((run.folder / "results", page.text))
    return found


@pytest.fixture(scope="module")
def pooled():
    """All rows in one place, their classes and hospitals; chol 0 is missing."""
    tables = heart_disease.load()
    X = np.concatenate(
        [
            np.column_stack([t[name].to_numpy().astype(float) for name in COLUMNS])
            for t in tables.values()
        ]
    )
    X[X[:, COLUMNS.index("chol")] == 0, COLUMNS.index("chol")] = np.nan
    y = np.concatenate([t[heart_disease.LABEL].to_numpy() for t in tables.values()])
    silo = np.repeat(np.arange(4), [t.num_rows for t in tables.values()])
    filled = SimpleImputer().fit_transform(X)
    return X, filled, StandardScaler().fit_transform(filled), y.astype(int), silo


def rows(folder, name):
    """The rows of a table, by its first column."""
    with (folder / f"{name}.csv").open() as file:
        head, *lines = csv.reader(file)
    return {line[0]: dict(zip(head[1:], line[1:], strict=True)) for line in lines}


def numbers(folder, name, key):
    return {what: float(row[key]) for what, row in rows(folder, name).items()}


def test_1_which_columns_drive_component_1(runs, pooled):
    (results, text), _ = runs
    found = numbers(results, "pca/loadings", "component_1")

    wanted = PCA(5, svd_solver="full").fit(pooled[2]).components_[0]
    assert_allclose(
        np.abs([found[c] for c in COLUMNS]), np.abs(wanted), rtol=RTOL, atol=1e-10
    )
    largest = sorted(found, key=lambda column: -abs(found[column]))
    assert largest[:3] == ["exang", "thalach", "oldpeak"]
    assert "Component 1 (21.6 % of the variance) increases with exang" in text


def test_2_how_much_of_the_variance_do_the_components_explain(runs, pooled):
    (results, text), _ = runs
    found = numbers(results, "pca/explained_variance", "cumulative_share")

    ratio = PCA(svd_solver="full").fit(pooled[2]).explained_variance_ratio_
    assert_allclose(found["5"], ratio[:5].sum(), rtol=RTOL)
    assert "5 components explain 56.6 % of the total variance" in text


def test_3_how_many_components_stand_out(runs, pooled):
    (results, text), _ = runs
    share = numbers(results, "pca/explained_variance", "share")
    stick = numbers(results, "pca/explained_variance", "broken_stick")

    assert list(share) == [str(k + 1) for k in range(13)]
    assert_allclose(stick["13"], 1 / 13**2, rtol=RTOL)
    assert share["1"] < stick["1"]
    assert "broken stick" in text


def test_4_how_much_was_imputed(runs, pooled):
    (results, text), _ = runs
    found = numbers(results, "simpleimputer/columns", "missing_share")

    wanted = np.isnan(pooled[0]).mean(axis=0)
    assert_allclose([found[c] for c in COLUMNS], wanted, rtol=RTOL)
    assert "More than a third of slope, ca and thal was missing" in text


def test_5_what_are_the_means_and_standard_deviations(runs, pooled):
    (results, _), _ = runs
    mean = numbers(results, "standardscaler/columns", "mean")
    scale = numbers(results, "standardscaler/columns", "scale")

    assert_allclose([mean[c] for c in COLUMNS], pooled[1].mean(axis=0), rtol=RTOL)
    assert_allclose([scale[c] for c in COLUMNS], pooled[1].std(axis=0), rtol=RTOL)


def test_6_do_the_hospitals_differ_and_in_what(runs, pooled):
    _, (results, text) = runs
    share = numbers(results, "heterogeneity/columns", "eta_squared")
    p_value = numbers(results, "heterogeneity/columns", "p_value")

    X, silo = pooled[2], pooled[4]
    for j, column in enumerate(COLUMNS):
        groups = [X[silo == i, j] for i in range(4)]
        between = sum(len(g) * (g.mean() - X[:, j].mean()) ** 2 for g in groups)
        assert_allclose(share[column], between / (len(X) * X[:, j].var()), rtol=1e-8)
        wanted = scipy.stats.f_oneway(*groups).pvalue
        assert_allclose(p_value[column], wanted, rtol=1e-7)
    assert next(iter(share)) == "age"
    assert "age 20.8 %" in text


def test_7_which_columns_tell_the_classes_apart(runs, pooled):
    _, (results, text) = runs
    found = numbers(
        results, "lineardiscriminantanalysis/within_correlations", "discriminant_1"
    )

    X, y = pooled[2], pooled[3]
    scores = LinearDiscriminantAnalysis(solver="eigen").fit(X, y).transform(X)[:, 0]

    def within(values):
        means = np.array([values[y == k].mean(axis=0) for k in range(5)])
        return values - means[y]

    wanted = [np.corrcoef(within(x), within(scores))[0, 1] for x in X.T]
    assert_allclose(
        np.abs([found[c] for c in COLUMNS]), np.abs(wanted), rtol=1e-7, atol=1e-9
    )
    assert max(found, key=lambda column: abs(found[column])) == "cp"
    assert "Structure correlations" in text


def test_8_how_large_are_the_classes(runs, pooled):
    _, (results, text) = runs
    found = numbers(results, "lineardiscriminantanalysis/classes", "rows")

    assert list(found.values()) == np.bincount(pooled[3]).tolist()
    assert "0 411 44.7 %" in text


def test_9_how_well_does_it_classify_new_patients(runs):
    _, (results, text) = runs
    found = rows(results, "evaluation/scores")

    for score in found.values():
        folds = [float(score[f"fold_{k + 1}"]) for k in range(5)]
        assert_allclose(float(score["mean"]), np.mean(folds), rtol=RTOL)
    # Better than "always 0", whose accuracy is the largest class's share, 44.7 %.
    pooled = rows(results, "evaluation/pooled_scores")
    share = float(pooled["Share of the largest class, 0"]["share"])
    assert share == pytest.approx(411 / 920)
    matrix = rows(results, "evaluation/confusion_matrix")
    assert sum(int(matrix["0"][f"predicted_{k}"]) for k in range(5)) == 411
    assert "Always naming the largest class, 0, would be right for 44.7 %" in text
    assert 0.5 < float(found["accuracy"]["mean"]) < 0.65
    assert 0.25 < float(found["balanced_accuracy"]["mean"]) < 0.45
    assert "Scores on new rows" in text


def test_10_who_took_part_with_how_many_people(runs):
    _, (results, text) = runs
    record = json.loads((results / "results.json").read_text())

    assert record["silos"] == ["cleveland", "hungary", "switzerland", "va"]
    assert "Four silos computed a joint result from 920 rows" in text
    assert "What tells disease?" in text


def test_11_did_data_of_people_leave_a_hospital(runs):
    for _, text in runs:
        assert "No person’s data left a silo." in text
        assert "Opened only as the total over all 4 silos." in text


def test_12_what_do_i_write_under_methods(runs):
    _, (results, text) = runs
    paper = (results / "methods.txt").read_text()
    paragraph, _, works = paper.partition("\n\nReferences\n\n")

    assert paragraph in text
    assert "All steps were fitted 5 times" in paragraph
    for model in ("replaced by the mean", "Levene", "discriminant analysis"):
        assert model in paragraph
    assert works.startswith("1. Little RJA")
    assert f"[{len(works.strip().splitlines())}]" in paragraph
