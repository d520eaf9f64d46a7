"""What a study by columns asks for beside its fits, and what its silos keep of it."""

import csv
import os
import stat
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import sklearn.decomposition
from numpy.testing import assert_allclose
from sklearn.metrics import accuracy_score, balanced_accuracy_score
from sklearn.preprocessing import StandardScaler

from integration.matrix import RULES
from integration.rows import SILOS, write_columns
from server_end import ServerEnd
from silo_command import run
from unpooled.data import heart_disease
from unpooled.errors import DataError, ReleaseRefusedError, StudyError
from unpooled.study import Study, server_job
from unpooled.study.announcement import calls_of, read_announced
from unpooled.study.reporting import facts_of_run
from unpooled.study.run_folder import RunFolder

# Totals keep twelve digits, of which the inverse of the smallest variance takes two.
ATOL = 1e-9
PCA = """
[[steps]]
model = "PCA"
n_components = 2
scores = "parties"
disclose = ["components_"]
"""
MMVFL = """
[[steps]]
model = "MMVFL"
max_iter = 4
tol = 0.0
select = 40
score = true
disclose = ["feature_importances_"]
"""
# In a part, columns of two silos, and of one.
PARTS = """
[[steps]]
model = "ColumnTransformer"
remainder = "passthrough"
transformers = [
    {model = "StandardScaler", columns = ["sex", "cp"]},
    {model = "OrdinalEncoder", columns = "categorical"},
    {model = "StandardScaler", columns = ["age", "chol"], disclose = ["mean_", "var_"]},
    {model = "SimpleImputer", columns = ["ca"], disclose = ["statistics_"]},
]
"""
SHOWN = {f"scaler.shown_{name}" for name in ("sums", "squares")}


def study(steps, *, sources=None, rules=RULES["columns"], scaled=True):
    lines = ["[study]", 'name = "asked"', 'partition = "columns"', 'label = "num"']
    for silo in SILOS:
        lines.append(f"[parties.{silo}]")
        lines += [] if sources is None else [f'source = "{sources[silo]}"']
    lines += [] if sources is None else ["[policy]", rules]
    scaler = '[[steps]]\nmodel = "StandardScaler"' if scaled else ""
    return "\n".join([*lines, scaler, steps, "[outputs]", "report = false", ""])


def people():
    """Return the joined columns of the same people, and the label."""
    frame = heart_disease.load()["cleveland"].to_pandas().dropna().head(100)
    return frame.astype(float)


def pooled():
    """Return the joined columns of the same people, standardised, and the label."""
    frame = people()
    y = frame.pop("num")
    scaled = StandardScaler().fit_transform(frame)
    return pd.DataFrame(scaled, columns=frame.columns), y.to_numpy()


def server(folder):
    return ServerEnd(
        folder, write=write_columns, partition="columns", rules=RULES["columns"]
    )


def simulated(folder, steps, **more):
    sources = {silo: write_columns(silo, folder) for silo in SILOS}
    text = study(steps, sources=sources, **more)
    return Study.from_text(folder / "asked.toml", text)


def read(path):
    with path.open(newline="") as stream:
        head, *rows = csv.reader(stream)
    return head, [row[0] for row in rows], np.array([row[1:] for row in rows], float)


def check_own_files(folders):
    X, _ = pooled()
    exact = sklearn.decomposition.PCA(2).fit(X)
    scores = exact.transform(X)
    for folder in folders.values():
        head, columns, loadings = read(folder / "pca_components.csv")
        assert head == ["column", "component_1", "component_2"]
        places = [X.columns.get_loc(column) for column in columns]
        wanted = exact.components_[:, places].T
        # On a column partition the peak of the scores is positive, not of the loadings.
        signs = np.sign(np.sum(loadings * wanted, axis=0))
        assert_allclose(loadings, wanted * signs, atol=ATOL)
        head, rows, own = read(folder / "pca_scores.csv")
        assert (head[0], rows) == ("row", [str(n) for n in range(1, 101)])
        assert_allclose(np.abs(own), np.abs(scores), atol=100 * ATOL)
    files = [folder / "pca_components.csv" for folder in folders.values()]
    assert sorted(name for file in files for name in read(file)[1]) == sorted(X.columns)


@pytest.mark.slow
def test_what_is_asked_is_in_the_results_and_the_rest_in_each_silos(tmp_path):
    place = server(tmp_path).done("run", study(PCA))

    (_, _), (_, model) = place.models()
    X, _ = pooled()
    exact = sklearn.decomposition.PCA(2).fit(X).components_
    cosines = np.abs(np.sum(model.components_ * exact, axis=1))
    assert_allclose(cosines, 1.0, atol=ATOL)
    loadings = place.path / "results" / "pca" / "loadings.csv"
    assert read(loadings)[1] == list(X.columns)
    check_own_files({s: tmp_path / s / "state" / "results" / "asked" for s in SILOS})
    # Scores of people are veiled where they leave a silo, and told to nobody else.
    seen = {(x.name, x.visibility) for x in place.ledger if x.direction == "out"}
    assert ("scores", "veiled") in seen
    assert ("scores", "summed") not in seen
    assert not list(place.path.rglob("*scores*"))


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="no such rights")
def test_a_silos_own_files_are_for_its_owner_and_deleted_with_the_study(tmp_path):
    end = server(tmp_path)
    end.ask("run", study(PCA))

    folder = tmp_path / "va" / "state" / "results" / "asked"
    files = list(folder.iterdir())
    assert files
    for path in (folder, *files):
        assert not stat.S_IMODE(path.stat().st_mode) & 0o077
    run("silo", "forget", "asked", "--yes", "--kit", tmp_path / "va")
    assert not folder.exists()


@pytest.mark.slow
def test_a_simulated_study_has_a_folder_for_each_silo(tmp_path):
    done = simulated(tmp_path, PCA).run(tmp_path / "run", follow=True)

    assert done.models["pca"].components_.shape == (2, 13)
    silos = tmp_path / "run" / "silos"
    check_own_files({silo: silos / silo / "results" for silo in SILOS})
    # The report, made from the folder, names the columns of each silo.
    known = facts_of_run(RunFolder.open(done.folder)).columns_of
    assert known == {
        silo: tuple(read(silos / silo / "results" / "pca_components.csv")[1])
        for silo in SILOS
    }


@pytest.mark.slow
def test_selection_and_right_answers_are_those_of_the_pooled_columns(tmp_path):
    place = server(tmp_path).done("run", study(MMVFL))

    (_, _), (_, model) = place.models()
    X, y = pooled()
    W = np.vstack(list(model.coef_.values()))
    predicted = model.classes_[(X.to_numpy() @ W).argmax(axis=1)]
    summary = model.summary()
    shares = dict(summary.tables["accuracy"].rows)
    assert_allclose(shares["Accuracy"], accuracy_score(y, predicted), atol=1e-12)
    balanced = balanced_accuracy_score(y, predicted)
    assert_allclose(shares["Balanced accuracy"], balanced, atol=1e-12)
    most = np.bincount(y.astype(int)).max() / len(y)
    assert_allclose(shares["Share of the largest class"], most, atol=1e-12)
    weights = summary.to_frame("feature_importances").set_index("column")
    norms = pd.Series(np.linalg.norm(W, axis=1), X.columns)
    assert_allclose(weights["weight"], norms[weights.index], atol=1e-12)
    largest = [
        own.nlargest(int(np.ceil(0.4 * len(own)))).index
        for own in (norms.iloc[:4], norms.iloc[4:9], norms.iloc[9:])
    ]
    chosen = summary.to_frame("selected_features")
    assert sorted(chosen["column"]) == sorted(name for own in largest for name in own)
    # What is selected at 40 % is what the table says is selected above less.
    above = weights.index[weights["selected_above"] < 0.4]
    assert set(above) == set(chosen["column"])
    head, _, own = read(tmp_path / "va/state/results/asked/mmvfl_weights.csv")
    assert head[:2] == ["column", "class_1"]
    assert_allclose(own, model.coef_["va"], atol=0)


@pytest.mark.slow
def test_a_study_that_died_between_a_fit_and_what_it_asks_is_continued(tmp_path):
    end = server(tmp_path)
    place = end.continued(study(PCA), 6)

    assert place.models()[-1][1].components_.shape == (2, 13)
    check_own_files({s: tmp_path / s / "state" / "results" / "asked" for s in SILOS})


def check_parts(model):
    """Check that parts have what was asked of them, and others nothing."""
    frame = people()
    other, scaler, imputer = model.fitted_
    assert_allclose(scaler.mean_, frame[["age", "chol"]].mean(), rtol=1e-12)
    assert_allclose(scaler.var_, frame[["age", "chol"]].var(ddof=0), rtol=1e-10)
    assert_allclose(imputer.statistics_, frame[["ca"]].mean(), rtol=1e-12)
    assert not {"mean_", "scale_", "var_"} & set(vars(other))
    tables = model.summary().tables
    assert [row[0] for row in tables["columns"].rows] == ["age", "chol"]
    assert [row[0] for row in tables["columns_2"].rows] == ["ca"]
    kept = " ".join(str(model.summary()).split()).split("Kept in the silos")[1:]
    assert len(kept) == 1
    assert "in the table of this part" in kept[0]


@pytest.mark.slow
@pytest.mark.parametrize("follow", [False, True])
def test_parts_of_a_transform_of_columns_disclose_each_what_is_asked(tmp_path, follow):
    asked = simulated(tmp_path, PARTS + PCA, scaled=False)

    done = asked.run(tmp_path / "run", follow=follow)

    check_parts(done.models["columntransformer"])
    columns = read(done.folder / "results" / "columntransformer/columns.csv")[1]
    assert columns == ["age", "chol"]
    # The sums of a part are asked for once, and of no other part.
    rounds = {(x.round, x.name) for x in done.ledger if x.step in SHOWN}
    shown = [name for _, name in rounds if name in ("total", "squares")]
    assert sorted(shown) == ["squares", "total"]
    assert done.models["pca"].components_.shape == (2, 13)


@pytest.mark.slow
def test_a_consortium_discloses_what_is_asked_of_parts(tmp_path):
    place = server(tmp_path).done("run", study(PARTS, scaled=False))

    [(_, model)] = place.models()
    check_parts(model)


# --- The announced text --------------------------------------------------------------


def test_the_text_says_which_calls_follow_which_fit():
    further = calls_of(study(PCA + MMVFL)).further

    assert [(place, call["method"], call["arguments"]) for place, call in further] == [
        (1, "transform", {}),
        (1, "_gather", {}),
        (2, "select", {"percent": 40.0}),
        (2, "_gather", {}),
        (2, "class_hits", {}),
    ]


def test_the_text_says_what_is_asked_of_which_part():
    text = calls_of(study(PARTS, scaled=False))

    asked = [(place, call["method"], call["arguments"]) for place, call in text.further]
    assert asked == [(0, "_gather", {"part": 2}), (0, "_gather", {"part": 3})]
    # It is no parameter of the model.
    parts = text.calls[0]["parameters"]["transformers"]
    assert all(set(part["dict"]) == {"model", "columns"} for part in parts)


PART_ASKED = ', disclose = ["mean_", "var_"]'


@pytest.mark.slow
@pytest.mark.parametrize(
    ("steps", "old", "new", "answered", "refused"),
    [
        (PCA, 'disclose = ["components_"]', "", "pca.own_gram", "pca.shown_loadings"),
        (PARTS, PART_ASKED, "", "scaler.own_squares", "scaler.shown_sums"),
        # The same of another part of the same class.
        (
            PARTS,
            PARTS,
            PARTS.replace(PART_ASKED, "").replace('"cp"]', '"cp"]' + PART_ASKED),
            "scaler.own_squares",
            "scaler.shown_sums",
        ),
    ],
)
def test_what_the_announced_text_does_not_ask_is_not_answered(
    tmp_path, monkeypatch, steps, old, new, answered, refused
):
    announce = server_job._announce
    whole = study(steps, scaled=steps == PCA)
    other = whole.replace(old, new)

    def announced(asked, *args, **more):
        return announce(replace(asked, text=other), *args, **more)

    monkeypatch.setattr(server_job, "_announce", announced)
    outcome, place = server(tmp_path).ask("run", whole)

    assert outcome["error"]["rule"] == "not_followed"
    assert place is not None
    left = {x.step for x in place.ledger if x.direction == "out"}
    assert answered in {x.step for x in place.ledger}
    assert refused not in left


@pytest.mark.slow
def test_a_silo_sees_in_its_plan_what_is_asked(tmp_path):
    party = server(tmp_path).party("va")
    announced = read_announced(party, "asked", study(PCA + MMVFL))

    steps = {line.step for line in announced.plan.releases}
    asked = {"pca.shown_loadings", "mmvfl.chosen_columns", "mmvfl.shown_weights"}
    assert asked | {"pca.own_scores", "mmvfl.local_class_hits"} <= steps
    parts = read_announced(party, "asked", study(PARTS, scaled=False)).plan.releases
    assert {"scaler.shown_sums", "imputer.shown_statistics"} <= {x.step for x in parts}
    plain = PCA.replace('disclose = ["components_"]', "")
    lines = read_announced(party, "asked", study(plain)).plan.releases
    assert "pca.shown_loadings" not in {line.step for line in lines}


@pytest.mark.slow
def test_rules_refuse_what_is_asked_before_anything_leaves(tmp_path):
    rules = RULES["columns"].replace("allow_disclosed = true\n", "")
    asked = simulated(tmp_path, PCA, rules=rules)

    plan = asked.plan()
    assert {(step, rule) for _, step, rule in plan.refusals} == {
        ("pca.shown_loadings", "allow_disclosed")
    }
    with pytest.raises(ReleaseRefusedError, match="allow_disclosed"):
        asked.run(tmp_path / "run")
    assert not (tmp_path / "run").exists()
    without = PCA.replace('disclose = ["components_"]', "")
    simulated(tmp_path, without, rules=rules).run(tmp_path / "run")


@pytest.mark.slow
def test_rules_refuse_what_is_asked_of_a_part(tmp_path):
    assert simulated(tmp_path, PARTS, scaled=False).plan().refusals == ()
    rules = RULES["columns"].replace("allow_disclosed = true\n", "")
    asked = simulated(tmp_path, PARTS, scaled=False, rules=rules)

    assert {(step, rule) for _, step, rule in asked.plan().refusals} == {
        ("scaler.shown_sums", "allow_disclosed"),
        ("scaler.shown_squares", "allow_disclosed"),
        ("imputer.shown_statistics", "allow_disclosed"),
    }
    with pytest.raises(ReleaseRefusedError, match="allow_disclosed"):
        asked.run(tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_part_without_columns_has_nothing_to_disclose(tmp_path):
    asked = PARTS.replace('columns = ["ca"]', 'columns = {pattern = "none*"}')
    with pytest.raises(DataError, match=r"Part 4 .* SimpleImputer.* has no column"):
        simulated(tmp_path, asked, scaled=False).plan()


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        (PARTS.replace("mean_", "means_"), 'transformers 3. disclose: "means_" is not'),
        (PARTS + 'disclose = ["mean_"]', "into the tables of its transformers"),
        (
            PARTS.replace('"categorical"', '"categorical", disclose = ["categories_"]'),
            "OrdinalEncoder they keep no attributes",
        ),
        (
            PARTS.replace('"OrdinalEncoder"', '"passthrough", disclose = ["mean_"]'),
            "is of a model that silos fit",
        ),
        (PCA.replace("components_", "component_"), 'Did you mean "components_"'),
        (MMVFL.replace("40", "0"), "above 0 and at most 100"),
        (MMVFL.replace("40", '"a"'), "must be a number"),
        (PCA + "select = 40", r"selected on a column partition, by MMVFL"),
        (PCA + "score = true", r"is of MMVFL"),
    ],
)
def test_mistakes_are_said_with_their_key(tmp_path, steps, message):
    with pytest.raises(StudyError, match=message):
        Study.from_text(tmp_path / "asked.toml", study(steps))


def test_on_rows_nothing_is_kept_that_could_be_disclosed(tmp_path):
    for steps in (PCA, PARTS):
        text = study(steps).replace('partition = "columns"', "")
        with pytest.raises(StudyError, match="on a column partition only"):
            Study.from_text(tmp_path / "asked.toml", text)
