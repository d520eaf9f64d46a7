"""[evaluate] in a study file: planned, run, resumed, followed, shown, kept as JSON."""

import json
from dataclasses import replace

import numpy as np
import pytest
import sklearn.cross_decomposition
import sklearn.discriminant_analysis
import sklearn.metrics
import sklearn.model_selection
from numpy.testing import assert_allclose
from sklearn.pipeline import make_pipeline

import unpooled as up
from command_line import call
from integration.matrix import text_of as case_text
from pooled_folds import pooled_folds, pooled_rows
from server_end import ServerEnd
from small_study import SILOS, killed, quick_disk, text_of, write
from unpooled.errors import DataError, StudyError
from unpooled.models.model_selection.cross_validation import FILLED_WITHIN_FOLDS
from unpooled.study.announcement import calls_of, read_announced
from unpooled.study.evaluation_results import evaluation_exhibits

# Fixtures of another module.
__all__ = ["quick_disk", "write"]

STEPS = ["SimpleImputer", "LinearDiscriminantAnalysis"]
HEAD = 'columns = ["a", "b", "c", "d"]\nrandom_state = 0'
EVALUATE = '[evaluate]\ncv = 3\nscoring = ["accuracy", "neg_log_loss"]\n'
EVALUATED = "[evaluate]\ncv = 3\n"
# Columns without missing cells.
COMPLETE = 'columns = ["a", "c", "d"]\nrandom_state = 0'
# Silos of forty rows, with blocks of ten: three fits are half of their numbers.
# With blocks of one row no filling of cells is remembered, which a resumed one forgets.
POLICY = "max_released_share = 10.0\nmin_rows = 1"


def text(evaluate=EVALUATE, **options):
    options = {"study": HEAD, "steps": STEPS, "policy": POLICY} | options
    return text_of(**options) + evaluate


def test_scores_are_those_of_the_same_folds_in_python(write):
    study = write(text())
    run = study.run()

    federation = study.federation()
    model = make_pipeline(up.SimpleImputer(), up.LinearDiscriminantAnalysis())
    model.fit(federation, "kind")
    found = up.cross_validate(
        model, federation, "kind", cv=3, scoring=["accuracy", "neg_log_loss"]
    )
    assert run.evaluation is not None
    for name, values in run.evaluation.scores.items():
        assert values == found[f"test_{name}"].tolist()
    content = json.loads((run.folder / "evaluation.json").read_text())
    assert content["scores"] == run.evaluation.scores
    assert content["mean"]["accuracy"] == found["test_accuracy"].mean()
    table = run.evaluation.summary().tables["scores"]
    heads = [column.heading for column in table.columns]
    assert heads == ["Score", "Mean", "SD", "Fold 1", "Fold 2", "Fold 3"]
    assert table.rows[0][3:] == tuple(run.evaluation.scores["accuracy"])
    assert (run.folder / "results" / "evaluation" / "scores.csv").exists()


@pytest.mark.slow
@pytest.mark.parametrize("cv", [0, 2])
def test_a_jackknife_is_that_of_python(write, cv):
    asked = EVALUATED.replace("cv = 3", f"cv = {cv}") + "jackknife = 3\n"
    steps = ["LinearDiscriminantAnalysis"]
    shown = "true" if cv else "false"
    study = write(text(asked, study=COMPLETE, steps=steps, party="", report=shown))
    run = study.run()

    model = up.LinearDiscriminantAnalysis()
    expected = up.jackknife(model, study.federation(), "kind", n_blocks=3)
    assert run.evaluation is not None
    found = run.evaluation.jackknife
    assert found is not None
    assert list(found.estimates) == list(expected.estimates)
    for name, errors in expected.standard_errors.items():
        assert_allclose(found.standard_errors[name], errors, rtol=1e-12)
    assert bool(run.evaluation.scores) == bool(cv)
    tables = run.folder / "results" / "evaluation"
    assert (tables / "jackknife_coef.csv").exists()
    if cv:
        page = (run.folder / "report.html").read_text()
        assert "Standard errors by the jackknife" in page
        assert "Busing" in page
    assert len({line.round for line in run.ledger}) == study.plan().rounds


@pytest.mark.slow
def test_scores_that_suit_a_classifier_are_those_of_scikit_learn(write):
    """No score is named: accuracies, AUC, and the matrix that they come from.

    All cells are there, so that each training part gives scikit-learn's own fit.
    """
    study = write(
        text(EVALUATED, study=COMPLETE, steps=["LinearDiscriminantAnalysis"], party="")
    )
    study_without = replace(study, cv=0)
    run = study.run()

    judged, federation = run.evaluation, study.federation()
    assert judged is not None
    # Until silos have counted their blocks, each has its own.
    up.StandardScaler().fit(federation.folds(3)[0][0])
    X, y = pooled_rows(federation)
    folds = pooled_folds(federation, 3)
    theirs = sklearn.discriminant_analysis.LinearDiscriminantAnalysis()
    expected = sklearn.model_selection.cross_validate(
        theirs, X, y, cv=folds, scoring=["accuracy", "balanced_accuracy", "roc_auc"]
    )
    assert list(judged.scores) == ["accuracy", "balanced_accuracy", "roc_auc"]
    for name in ("accuracy", "balanced_accuracy"):
        assert_allclose(judged.scores[name], expected[f"test_{name}"], rtol=1e-12)
    # Of the area the bound that comes with it is promised.
    for ours, area, bound in zip(
        judged.scores["roc_auc"],
        expected["test_roc_auc"],
        judged.score_errors["roc_auc"],
        strict=True,
    ):
        assert abs(ours - area) <= bound
    predicted = sklearn.model_selection.cross_val_predict(theirs, X, y, cv=folds)
    matrix = sklearn.metrics.confusion_matrix(y, predicted)
    assert judged.classes == ["x", "y"]
    assert judged.confusion_matrix == matrix.tolist()
    tables = judged.summary().tables
    assert [row[1:3] for row in tables["confusion_matrix"].rows] == [
        tuple(row) for row in matrix.tolist()
    ]
    pooled = tables["pooled_scores"].column("share")
    assert_allclose(
        np.array(pooled, float),
        [
            sklearn.metrics.accuracy_score(y, predicted),
            sklearn.metrics.balanced_accuracy_score(y, predicted),
            np.mean(y == "x"),
        ],
        rtol=1e-12,
    )
    fit, rounds = study_without.plan().rounds, len({line.round for line in run.ledger})
    assert rounds == study.plan().rounds
    # Three fits and their scores share their messages.
    assert rounds - fit <= 3 * fit


@pytest.mark.slow
def test_scores_that_suit_a_regression_are_those_of_each_response(write):
    regression = '[[steps]]\nmodel = "PLSRegression"\ny = ["c", "d"]\n'
    # Four columns, two of them predicted, of ten rows.
    policy = "max_released_share = 10.0\nmax_feature_ratio = 1.0"
    options = {"study": COMPLETE, "steps": [], "party": "", "policy": policy}
    study = write(text(EVALUATED, **options) + f"{regression}n_components = 1\n")
    judged = study.run().evaluation

    federation = study.federation()
    assert judged is not None
    X, _ = pooled_rows(federation)
    assert federation.feature_names == ("a", "c", "d")
    first, second = np.hsplit(X.to_numpy(), [1])
    shares, errors = [], []
    for train, test in pooled_folds(federation, 3):
        theirs = sklearn.cross_decomposition.PLSRegression(1)
        predicted = theirs.fit(first[train], second[train]).predict(first[test])
        scored = second[test], predicted
        shares.append(sklearn.metrics.r2_score(*scored, multioutput="raw_values"))
        mse = sklearn.metrics.mean_squared_error(*scored, multioutput="raw_values")
        errors.append(np.sqrt(mse))
    assert_allclose(judged.scores["r2"], np.mean(shares, axis=1), rtol=1e-9)
    responses = judged.summary().tables["responses"]
    assert responses.column("response") == ["c", "d"]
    for key, values in (("r2", shares), ("rmse", errors)):
        wanted = np.mean(values, axis=0)
        assert_allclose(np.array(responses.column(key), float), wanted, rtol=1e-9)
    scores = judged.summary().tables["scores"]
    # Shown without the sign that makes greater values better.
    assert scores.rows[1][0] == "root_mean_squared_error"
    assert scores.rows[1][1] > 0
    assert "smaller is better" in scores.note


@pytest.mark.slow
def test_the_plan_has_the_evaluation(write):
    study = write(text())

    planned = study.plan()
    run = study.run()

    # How many tables the names of the classes take is not known before.
    assert planned.rounds == len({line.round for line in run.ledger})
    steps = [line.step for line in planned.releases]
    assert steps[-1].startswith("classification.")
    assert set(steps) == {line.step for line in run.ledger}
    # Cells are missing, and each fold's fit has a mean of its own to fill them with.
    assert FILLED_WITHIN_FOLDS in planned.notes
    assert FILLED_WITHIN_FOLDS in run.evaluation.summary().exhibits[0].text


@pytest.mark.slow
def test_a_run_goes_on_from_its_evaluation(write):
    whole = write(text()).run().evaluation
    study = write(text('[evaluate]\ncv = 3\nscoring = ["accuracy", "neg_log_loss"]\n')
                  .replace('name = "small"', 'name = "again"'))  # fmt: skip
    fits = len(write(text("").replace('"small"', '"fits"')).run().rounds)
    assert killed(study, len(SILOS) * (fits + 5))
    assert json.loads((study.folder / "state.json").read_text())["finished"]
    assert not (study.folder / "evaluation.json").exists()

    run = study.resume()

    assert run.evaluation is not None
    assert whole is not None
    assert run.evaluation.scores == whole.scores
    rounds = len(run.rounds)
    assert study.resume().evaluation == run.evaluation
    assert len(study.resume().rounds) == rounds


@pytest.mark.slow
def test_silos_follow_the_evaluation_of_an_announced_text(tmp_path):
    server = ServerEnd(tmp_path, rules="max_released_share = 10.0\n")
    asked = case_text("LinearDiscriminantAnalysis").replace(
        "[study]", "[study]\nrandom_state = 0"
    )
    asked += "[evaluate]\ncv = 4\njackknife = 4\n"
    place = server.done("run", asked)

    content = json.loads((place.path / "evaluation.json").read_text())
    assert len(content["scores"]["accuracy"]) == 4
    assert len(content["jackknife"]["block_rows"]) == 4
    assert set(content["jackknife"]["standard_errors"]) >= {"scalings_", "coef_"}


@pytest.mark.slow
def test_silos_follow_an_evaluation_whose_job_died(tmp_path):
    server = ServerEnd(tmp_path, rules="max_released_share = 10.0\n")
    asked = case_text("LinearDiscriminantAnalysis").replace(
        "[study]", "[study]\nrandom_state = 0"
    )
    asked += "[evaluate]\ncv = 3\n"
    place = server.continued(asked, 9)

    assert (place.path / "evaluation.json").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("said", "done"),
    [
        ("", "[evaluate]\ncv = 3\n"),
        ("[evaluate]\ncv = 2\n", "[evaluate]\ncv = 3\n"),
        ("jackknife = 3\n", "jackknife = 4\n"),
    ],
)
def test_an_evaluation_that_was_not_announced_is_refused(
    tmp_path, monkeypatch, said, done
):
    """A coordinator may not cross-validate on its own account, nor on other folds."""
    server = ServerEnd(tmp_path, rules="max_released_share = 10.0\n")
    asked = case_text("LinearDiscriminantAnalysis")

    def announced(whole):
        return calls_of(whole.replace(done, said))

    monkeypatch.setattr("unpooled.study.announcement.calls_of", announced)
    asked += done if done.startswith("[") else f"[evaluate]\ncv = 0\n{done}"
    outcome, _ = server.ask("run", asked)

    assert outcome["error"]["rule"] == "not_followed"


BEHIND = ["IterativeImputer", "StandardScaler", "LinearDiscriminantAnalysis"]


@pytest.mark.slow
@pytest.mark.parametrize("follow", [False, True])
def test_what_follows_an_imputation_from_other_cells_is_judged(write, follow):
    """The imputer fills all rows once, and folds are of the table that it completed."""
    asked = text(steps=BEHIND, report="true")
    imputer = 'model = "IterativeImputer"\n'
    study = write(asked.replace(imputer, f"{imputer}max_iter = 2\n"))
    planned = study.plan()
    run = study.run(follow=follow)

    federation = study.federation()
    imputed = up.IterativeImputer(max_iter=2).fit(federation).transform(federation)
    model = make_pipeline(up.StandardScaler(), up.LinearDiscriminantAnalysis())
    found = up.cross_validate(
        model, imputed, "kind", cv=3, scoring=["accuracy", "neg_log_loss"]
    )
    judged = run.evaluation
    assert judged is not None
    assert judged.on_all_rows == ["iterativeimputer"]
    for name, values in judged.scores.items():
        assert values == found[f"test_{name}"].tolist()
    assert planned.refusals == ()
    assert planned.rounds == len({line.round for line in run.ledger})
    assert "iterativeimputer: fitted on all rows before the folds" in str(planned.notes)
    page = (run.folder / "report.html").read_text()
    assert "The steps behind iterativeimputer were fitted 3 times" in page
    assert study.resume().evaluation == judged


@pytest.mark.slow
@pytest.mark.parametrize("parts", ["", "[evaluate]\ncv = 4\n"])
def test_silos_follow_what_is_judged_behind_an_imputation(tmp_path, monkeypatch, parts):
    rules = "max_released_share = 10.0\nmin_rows = 1\n"
    server = ServerEnd(tmp_path, rules=rules)
    asked = case_text("LinearDiscriminantAnalysis").replace(
        'model = "SimpleImputer"', 'model = "IterativeImputer"\nmax_iter = 2'
    )
    assert "IterativeImputer" in asked
    done = "[evaluate]\ncv = 4\n"
    name = "case-LinearDiscriminantAnalysis"
    announced = read_announced(server.party("cleveland"), name, asked + done)
    assert not announced.plan.refusals

    def told(whole):
        return calls_of(whole.replace(done, parts))

    monkeypatch.setattr("unpooled.study.announcement.calls_of", told)
    outcome, place = server.ask("run", asked + done)
    if not parts:
        assert outcome["error"]["rule"] == "not_followed"
        return
    assert outcome["error"] is None
    assert place is not None
    content = json.loads((place.path / "evaluation.json").read_text())
    assert content["on_all_rows"] == ["iterativeimputer"]


def test_nothing_is_judged_behind_a_last_imputation(write):
    with pytest.raises(StudyError, match="no step behind it is left to judge"):
        write(text(steps=["StandardScaler", "IterativeImputer"]))


@pytest.mark.slow
def test_a_silo_plans_the_evaluation_too(tmp_path):
    server = ServerEnd(tmp_path, rules="max_released_share = 10.0\n")
    asked = case_text("LinearDiscriminantAnalysis") + "[evaluate]\ncv = 4\n"
    name = "case-LinearDiscriminantAnalysis"

    announced = read_announced(server.party("cleveland"), name, asked)

    assert "classification.*" in announced.steps
    assert not announced.plan.refusals


@pytest.mark.parametrize(
    ("evaluate", "message"),
    [
        ("[evaluate]\ncv = 0\n", r"must be from 2 to 20 folds, not 0; or 0 beside"),
        ("[evaluate]\njackknife = 1\n", r"\[evaluate\] jackknife: must be from 2 to"),
        ("[evaluate]\ncv = 1\n", r"\[evaluate\] cv: must be from 2 to 20 folds"),
        ("[evaluate]\nfolds = 5\n", r'\[evaluate\] folds: no such key'),
        ('[evaluate]\nscoring = "f2"\n', "scoring='f2'; choose among accuracy"),
    ],
)  # fmt: skip
def test_mistakes_are_refused_by_file_and_key(write, evaluate, message):
    with pytest.raises(StudyError, match=message):
        write(text(evaluate))


@pytest.mark.slow
def test_models_that_have_no_score_are_refused_before_anything_leaves(write):
    study = write(text("[evaluate]\n", steps=["SimpleImputer", "StandardScaler"]))

    with pytest.raises(DataError, match=r"\[evaluate\]: A StandardScaler has no score"):
        study.run()
    assert not study.folder.exists()
    study = write(
        text('[evaluate]\nscoring = "accuracy"\n', steps=["SimpleImputer", "PCA"])
    )
    with pytest.raises(DataError, match=r"\[evaluate\]: scoring='accuracy': A PCA "):
        study.plan()


@pytest.mark.slow
def test_sentences_say_which_way_is_better_and_why_two_means_differ(write):
    scoring = '["accuracy", "balanced_accuracy", "neg_log_loss"]'
    evaluate = f"[evaluate]\ncv = 3\nscoring = {scoring}\n"
    run = write(text(evaluate, steps=STEPS)).run()
    scores, predicted = evaluation_exhibits(run.evaluation)

    (table,) = scores.tables
    assert table.note.startswith(
        "SD: standard deviation over the folds (denominator: their number). Of "
        "log_loss smaller is better. Of accuracy and balanced_accuracy greater is "
        "better."
    )
    mean = np.mean(run.evaluation.scores["balanced_accuracy"])
    pooled = predicted.tables[0].rows[1][1]
    said = f"The mean of the folds’ balanced accuracies is {100 * mean:.1f} %"
    assert (said in predicted.text) == (abs(mean - pooled) >= 0.0005)


@pytest.mark.slow
def test_a_score_of_one_class_is_planned_and_told_with_its_class(write):
    scoring = '["recall", "recall:x", "precision:x"]'
    study = write(text(f"[evaluate]\ncv = 3\nscoring = {scoring}\n", steps=STEPS))
    planned = study.plan()
    run = study.run()

    assert planned.rounds == len({line.round for line in run.ledger})
    classes = run.evaluation.classes
    assert classes[0] == "x"
    scores, _ = evaluation_exhibits(run.evaluation)
    said = "recall{} is the share of the class {!r} that is predicted correctly"
    assert said.format("", classes[1]) in scores.text
    assert said.format(":x", "x") in scores.text
    assert "precision:x is the share that is of the class 'x'" in scores.text


@pytest.mark.slow
def test_the_command_shows_the_scores(write):
    study = write(text(steps=["SimpleImputer", "PCA"], evaluate="[evaluate]\ncv = 3\n"))

    planned = call("plan", study.path, width=120)
    done = call("run", study.path, width=120)

    assert planned.exit_code == done.exit_code == 0
    assert "pca.local_likelihood" in planned.output
    assert "Scores on new rows" in done.output
    assert "evaluation.json" in done.output
