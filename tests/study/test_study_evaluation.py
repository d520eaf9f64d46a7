"""[evaluate] in a study file: planned, run, resumed, followed, shown, kept as JSON."""

import json

import pytest
from sklearn.pipeline import make_pipeline

import unpooled as up
from command_line import call
from integration.matrix import text_of as case_text
from server_end import ServerEnd
from small_study import SILOS, killed, quick_disk, text_of, write
from unpooled.errors import DataError, StudyError
from unpooled.study.announcement import calls_of, read_announced

# Fixtures of another module.
__all__ = ["quick_disk", "write"]

STEPS = ["SimpleImputer", "LinearDiscriminantAnalysis"]
HEAD = 'columns = ["a", "b", "c", "d"]\nrandom_state = 0'
EVALUATE = '[evaluate]\ncv = 3\nscoring = ["accuracy", "neg_log_loss"]\n'
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


def test_the_plan_has_the_evaluation(write):
    study = write(text())

    planned = study.plan()
    run = study.run()

    # How many tables the names of the classes take is not known before.
    assert planned.rounds == len({line.round for line in run.ledger})
    steps = [line.step for line in planned.releases]
    assert steps[-1].startswith("classification.")
    assert set(steps) == {line.step for line in run.ledger}


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


def test_silos_follow_the_evaluation_of_an_announced_text(tmp_path):
    server = ServerEnd(tmp_path, rules="max_released_share = 10.0\n")
    asked = case_text("LinearDiscriminantAnalysis").replace(
        "[study]", "[study]\nrandom_state = 0"
    )
    outcome, place = server.ask("run", asked + "[evaluate]\ncv = 4\n")

    assert outcome["error"] is None
    assert place is not None
    scores = json.loads((place.path / "evaluation.json").read_text())["scores"]
    assert len(scores["score"]) == 4


@pytest.mark.slow
def test_silos_follow_an_evaluation_whose_job_died(tmp_path):
    server = ServerEnd(tmp_path, rules="max_released_share = 10.0\n")
    asked = case_text("LinearDiscriminantAnalysis").replace(
        "[study]", "[study]\nrandom_state = 0"
    )
    asked += "[evaluate]\ncv = 3\n"
    server.dies_after(9)
    outcome, _ = server.ask("run", asked)
    assert outcome["error"] is not None

    server.dies_after(None)
    outcome, place = server.ask("resume", asked)

    assert outcome["error"] is None
    assert place is not None
    assert (place.path / "evaluation.json").exists()


@pytest.mark.thinned(1)
@pytest.mark.parametrize(
    ("said", "done"),
    [("", "[evaluate]\ncv = 3\n"), ("[evaluate]\ncv = 2\n", "[evaluate]\ncv = 3\n")],
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
    outcome, _ = server.ask("run", asked + done)

    assert outcome["error"]["rule"] == "not_followed"


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
        ("[evaluate]\ncv = 1\n", r"\[evaluate\] cv: must be from 2 to 20 folds"),
        ("[evaluate]\nfolds = 5\n", r'\[evaluate\] folds: no such key'),
        ('[evaluate]\nscoring = "f1"\n', "scoring='f1'; choose among accuracy"),
    ],
)  # fmt: skip
def test_mistakes_are_refused_by_file_and_key(write, evaluate, message):
    with pytest.raises(StudyError, match=message):
        write(text(evaluate))


def test_models_that_have_no_score_are_refused_before_anything_leaves(write):
    study = write(text("[evaluate]\n", steps=["SimpleImputer", "StandardScaler"]))

    with pytest.raises(DataError, match=r"\[evaluate\]: A StandardScaler has no score"):
        study.run()
    assert not study.folder.exists()


def test_the_command_shows_the_scores(write):
    study = write(text(steps=["SimpleImputer", "PCA"], evaluate="[evaluate]\ncv = 3\n"))

    planned = call("plan", study.path, width=120)
    done = call("run", study.path, width=120)

    assert planned.exit_code == done.exit_code == 0
    assert "pca.local_likelihood" in planned.output
    assert "Scores on new rows" in done.output
    assert "evaluation.json" in done.output
