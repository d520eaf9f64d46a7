"""Studies: plans, runs, and runs that end anywhere and go on from there."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import polars
import pytest
from numpy.testing import assert_allclose

import unpooled as up
from unpooled.errors import DataError, ReleaseRefusedError, StudyError
from unpooled.ledger import Ledger

SILOS = ("north", "south", "west")
STEPS = ("simpleimputer", "standardscaler", "pca")


def rows(silo):
    rng = np.random.default_rng(SILOS.index(silo))
    X = rng.normal(size=(40, 4)) @ rng.normal(size=(4, 4)) + [0.0, 5.0, -3.0, 100.0]
    X[::7, 1] = np.nan
    # 999 was written for "not measured".
    X[::5, 2] = 999.0
    return X


def pooled():
    X = np.concatenate([rows(silo) for silo in SILOS])
    X[X == 999.0] = np.nan
    return X


def text_of(
    study="", steps=None, policy="", party="missing = { c = [999] }", report="false"
):
    parties = "".join(
        f'[parties.{silo}]\nsource = "data/{silo}.csv"\n{party}\n' for silo in SILOS
    )
    if steps is None:
        steps = ["SimpleImputer", "StandardScaler", "PCA"]
    tables = "".join(f'[[steps]]\nmodel = "{model}"\n' for model in steps)
    return (
        f'[study]\nname = "small"\nlabel = "kind"\n{study}\n{parties}'
        f"[policy]\n{policy}\n[outputs]\nreport = {report}\n{tables}"
    )


@pytest.fixture(autouse=True)
def quick_disk(monkeypatch):
    """A process that dies loses nothing that it has written; only a machine would."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


def write_data(folder):
    (folder / "data").mkdir()
    for silo in SILOS:
        frame = polars.DataFrame(rows(silo), list("abcd"))
        kind = polars.Series("kind", ["x", "y"] * 20)
        frame = frame.with_columns(kind, site=polars.lit(silo))
        frame.select("d", "kind", "a", "site", "c", "b").write_csv(
            folder / "data" / f"{silo}.csv"
        )


@pytest.fixture
def write(tmp_path):
    """Write a study file of this text, and read it."""
    write_data(tmp_path)

    def write(text):
        (tmp_path / "study.toml").write_text(text)
        return up.Study.from_file(tmp_path / "study.toml")

    return write


COLUMNS = 'columns = ["a", "b", "c", "d"]'


@pytest.fixture
def study(write):
    """Without a report, which takes longer than everything else."""
    return write(text_of(COLUMNS))


@pytest.fixture
def reported(write):
    return write(text_of(COLUMNS, report="true"))


def files(folder):
    return {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()}


def arrays(run):
    return {
        f"{step}.{name}": np.asarray(value, float)
        for step, model in run.models.items()
        for name, value in vars(model).items()
        if name.endswith("_") and name != "feature_names_in_"
    }


def assert_same_models(one, other):
    assert list(one.models) == list(other.models)
    mine, others = arrays(one), arrays(other)
    assert mine.keys() == others.keys()
    for name, value in mine.items():
        assert_allclose(value, others[name], rtol=1e-12, atol=1e-12, err_msg=name)


def twin():
    from sklearn.decomposition import PCA
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    last = PCA(svd_solver="full")
    return make_pipeline(SimpleImputer(), StandardScaler(), last).fit(pooled())


def test_a_run_gives_the_pooled_answer_and_its_folder(reported):
    run = reported.run()

    wanted = twin()
    assert run.folder == reported.folder
    assert list(run.models) == list(STEPS)
    assert run.models["pca"].feature_names_in_.tolist() == list("abcd")
    # The secure sum keeps twelve digits of each entry's bound.
    assert_allclose(run.models["pca"].components_, wanted[-1].components_, atol=1e-9)
    new = np.random.default_rng(9).normal(size=(5, 4))
    frame = polars.DataFrame(new, list("abcd")).to_pandas()
    assert_allclose(run.pipeline.transform(frame), wanted.transform(new), atol=1e-9)
    assert files(run.folder) == {
        "study.toml", "state.json", "ledger.jsonl", "rounds.jsonl", "log.txt",
        "report.html", "pipeline.unpooled", *(f"silos/{silo}.json" for silo in SILOS),
        *(f"models/{n:02}-{step}.unpooled" for n, step in enumerate(STEPS, 1)),
    }  # fmt: skip


def test_the_folder_holds_what_the_run_returned(study):
    run = study.run()

    assert (run.folder / "study.toml").read_text() == study.text
    ledger = Ledger.from_json((run.folder / "ledger.jsonl").read_text())
    assert ledger == run.ledger
    assert ledger.verify()
    lines = (run.folder / "rounds.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in lines] == [r.step for r in run.rounds]
    loaded = up.load(run.folder / "pipeline.unpooled")
    frame = polars.DataFrame(rows("north"), list("abcd")).to_pandas()
    assert np.array_equal(loaded.transform(frame), run.pipeline.transform(frame))
    for number, step in enumerate(STEPS, 1):
        model = up.load(run.folder / "models" / f"{number:02}-{step}.unpooled")
        assert repr(model) == repr(run.models[step])
    log = (run.folder / "log.txt").read_text()
    assert re.search(r"Finished standardscaler, rounds 2 to 3\.", log)
    assert log.endswith(" Done.\n")


def test_the_plan_is_what_the_ledger_becomes(study):
    plan = study.plan()
    assert not study.folder.exists()

    run = study.run()

    def told(lines):
        return [
            (x.study, x.round, x.step, x.name, x.shape, x.dtype, x.bytes, x.visibility,
             x.direction, x.parties)
            for x in lines
        ]  # fmt: skip

    assert told(plan.releases) == told(run.ledger)
    assert plan.rounds == 6
    assert plan.refusals == ()


def test_columns_come_in_the_order_of_the_study(write):
    run = write(text_of('columns = ["c", "a"]', ["SimpleImputer"])).run()

    assert run.models["simpleimputer"].feature_names_in_.tolist() == ["c", "a"]
    X = pooled()
    assert_allclose(
        run.models["simpleimputer"].statistics_,
        [np.nanmean(X[:, 2]), np.nanmean(X[:, 0])],
        rtol=1e-12,
    )


def test_a_study_without_a_report_writes_none(write):
    run = write(text_of(COLUMNS, ["SimpleImputer"])).run()

    assert run.report is None
    assert not (run.folder / "report.html").exists()


def test_a_folder_can_be_named(study, tmp_path):
    run = study.run(tmp_path / "elsewhere")

    assert run.folder == tmp_path / "elsewhere"
    assert not study.folder.exists()


def test_plain_sums_give_the_same_models(write, tmp_path):
    policy = "allow_plain = true" if hasattr(up.Policy(), "allow_plain") else ""
    plain = write(text_of(COLUMNS + '\nsecure_sum = "plain"', policy=policy))
    masked = write(text_of(COLUMNS))

    assert_same_models(plain.run(tmp_path / "plain"), masked.run(tmp_path / "masked"))


def test_listeners_hear_of_every_reply(study):
    heard, plans = [], []

    run = study.run(listener=lambda *event: heard.append(event), planned=plans.append)

    steps = [event for event in heard if "." in event[1]]
    assert len(steps) == plans[0].rounds * len(SILOS)
    assert {event[0] for event in heard} == set(SILOS)
    assert {event[2] for event in steps} == {line.round for line in run.ledger}


# --- What is refused, and when.


def test_what_a_silo_would_refuse_is_refused_before_anything_leaves(write):
    study = write(text_of(COLUMNS, policy="min_rows = 41"))

    assert [refusal[2] for refusal in study.plan().refusals[:1]] == ["min_rows"]
    with pytest.raises(ReleaseRefusedError, match=r"north refused .*min_rows"):
        study.run()
    assert not study.folder.exists()


def test_each_party_has_its_own_policy(write):
    text = text_of(COLUMNS).replace(
        '[parties.west]\nsource = "data/west.csv"',
        '[parties.west]\nsource = "data/west.csv"\npolicy = { min_rows = 41 }',
    )

    assert {party for party, _, _ in write(text).plan().refusals} == {"west"}


def test_a_refusal_on_the_way_keeps_what_was_finished(write):
    # Without the imputer the missing cells show when PCA reads the rows.
    study = write(text_of(COLUMNS, ["StandardScaler", "PCA"]))

    with pytest.raises(DataError, match="missing_values"):
        study.run()

    state = json.loads((study.folder / "state.json").read_text())
    assert state["finished"] == ["standardscaler"]
    assert not state["done"]
    assert (
        up.load(study.folder / "models" / "01-standardscaler.unpooled").mean_.size == 4
    )
    assert "Failed: " in (study.folder / "log.txt").read_text()
    # The reason, with what no message may say, is in the silos' own log.
    assert "impute first" in (study.folder / "silos" / "log.txt").read_text()
    with pytest.raises(DataError, match="missing_values"):
        study.resume()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (text_of(COLUMNS).replace("north.csv", "nort.csv"),
         r"study\.toml, \[parties\.north\]: There is no file"),
        (text_of('columns = ["a", "bb"]'),
         r"study\.toml, \[parties\.north\]: .* no column 'bb'.*Did you mean 'b'"),
        (text_of(), r"study\.toml, \[parties\.north\]: .* not numbers: 'site'"),
        (text_of(COLUMNS, party="missing = { x = [1] }"),
         r"study\.toml, \[parties\.north\]: .* no column 'x'"),
        (text_of(COLUMNS).replace('"kind"', '"kin"'),
         r"study\.toml, \[parties\.north\]: .* no column 'kin'"),
        (text_of(COLUMNS) + "n_components = 5\n",
         r"study\.toml, \[\[steps\]\]: n_components=5"),
        (text_of(COLUMNS) + 'svd_solver = "arpack"\n',
         r"study\.toml, \[\[steps\]\]: svd_solver='arpack'"),
    ],
    ids=["file", "column", "text", "missing", "label", "value", "choice"],
)  # fmt: skip
def test_wrong_data_and_values_are_named_with_the_file(write, text, message):
    study = write(text)

    for act in (study.plan, study.run):
        with pytest.raises(DataError, match=message):
            act()
    assert not study.folder.exists()


def test_a_folder_that_is_not_empty_is_refused(study, tmp_path):
    folder = tmp_path / "full"
    folder.mkdir()
    (folder / "thesis.txt").touch()
    with pytest.raises(StudyError, match=r"is not empty"):
        study.run(folder)
    with pytest.raises(StudyError, match="is a file"):
        study.run(folder / "thesis.txt")
    with pytest.raises(StudyError, match="no state"):
        study.resume(folder)
    study.run()
    with pytest.raises(StudyError, match=r"is not empty\. Continue the run"):
        study.run()
    assert files(folder) == {"thesis.txt"}


def test_nothing_to_resume_is_said(study):
    with pytest.raises(StudyError, match=r"There is no run in .* to resume"):
        study.resume()


# --- Runs that end anywhere.


class Killed(BaseException):
    """Ends a run from within, as Ctrl-C would."""


def kill_at(event):
    """Return a listener that ends the run at the given event, counted from 1."""
    left = [event]

    def listener(party, step, number):
        left[0] -= 1
        if left[0] == 0:
            raise Killed

    return listener


def killed(study, event):
    """Run until the given event; return whether the run came so far."""
    try:
        study.run(listener=kill_at(event))
    except Killed:
        return True
    return False


@pytest.fixture(scope="module")
def heard():
    """The events of a run that nothing disturbs."""
    return []


@pytest.fixture(scope="module")
def whole(tmp_path_factory, heard):
    """A run that nothing disturbs."""
    folder = tmp_path_factory.mktemp("whole")
    write_data(folder)
    (folder / "study.toml").write_text(text_of(COLUMNS))
    study = up.Study.from_file(folder / "study.toml")
    return study.run(listener=lambda *event: heard.append(event))


def test_a_run_goes_on_from_wherever_it_was_killed(study, whole):
    # Every fourth of some 45 replies: in handshakes, within rounds, between steps.
    event = 1
    while killed(study, event):
        before = Ledger()
        if (study.folder / "ledger.jsonl").exists():
            before = Ledger.from_json((study.folder / "ledger.jsonl").read_text())

        run = study.resume()

        assert_same_models(run, whole)
        assert run.ledger.verify()
        assert run.ledger[: len(before)] == before
        numbers = [line.round for line in run.ledger]
        assert numbers == sorted(numbers)
        assert set(numbers) == set(range(1, max(numbers) + 1))
        assert run.ledger == Ledger.from_json((run.folder / "ledger.jsonl").read_text())
        shutil.rmtree(study.folder)
        event += 4
    assert event > 40


@pytest.mark.parametrize(
    ("finished", "last"),
    [
        (1, "imputer.local_observed"),
        (2, "scaler.local_squares"),
        (3, "pca.local_scatter"),
    ],
)
def test_finished_steps_are_not_asked_for_again(study, whole, heard, finished, last):
    ends = [n for n, event in enumerate(heard, 1) if event[1] == last]
    # The replies that follow are those of leaving the fit; then the step is finished.
    event = ends[-1] + len(SILOS) + 1
    again = []
    came_so_far = killed(study, event)
    assert came_so_far == (finished < 3)
    state = json.loads((study.folder / "state.json").read_text())
    assert state["finished"] == list(STEPS[:finished])

    run = study.resume(listener=lambda *event: again.append(event))

    asked = {event[1].split(".")[0] for event in again if "." in event[1]}
    assert asked == set(["imputer", "scaler", "pca"][finished:])
    assert_same_models(run, whole)


def test_a_run_can_be_killed_again_and_again(reported, whole):
    assert killed(reported, 20)
    with pytest.raises(Killed):
        reported.resume(listener=kill_at(4))
    with pytest.raises(Killed):
        reported.resume(listener=kill_at(10))

    run = reported.resume()

    assert_same_models(run, whole)
    assert run.ledger.verify()
    state = json.loads((reported.folder / "state.json").read_text())
    assert len(state["resumed"]) == 3
    assert state["resumed"] == sorted(state["resumed"])
    assert run.report is not None
    assert run.report.read_text().count("and was continued") == 3


def test_a_continued_run_reads_its_silos_memory(study):
    assert killed(study, 20)
    for silo in SILOS:
        (study.folder / "silos" / f"{silo}.json").write_text('{"fitted": []}')

    # What a silo does not remember having fitted, it does not apply.
    with pytest.raises(ReleaseRefusedError, match="transform_not_fitted"):
        study.resume()


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", '{"fitted": [["a", "b"]]}', '{"fitted": 1}']
)
def test_a_memory_that_is_none_is_refused(study, text):
    assert killed(study, 20)
    (study.folder / "silos" / "west.json").write_text(text)

    with pytest.raises(StudyError):
        study.resume()


def test_a_done_run_is_returned_as_it_is(study):
    run = study.run()
    before = {name: (run.folder / name).read_bytes() for name in files(run.folder)}
    # Not even the sources are needed any more.
    shutil.rmtree(study.path.parent / "data")

    again = study.resume(listener=kill_at(1))

    assert_same_models(again, run)
    assert again.ledger == run.ledger
    assert again.report == run.report
    assert {n: (run.folder / n).read_bytes() for n in files(run.folder)} == before


def test_a_changed_study_is_not_continued(study, write):
    assert killed(study, 20)
    changed = write(text_of(COLUMNS) + "n_components = 2\n")

    with pytest.raises(StudyError, match=r"study\.toml was changed since the run in"):
        changed.resume()


def test_a_line_that_was_written_in_part_is_dropped(study, whole):
    # After round 3, in which the scaler ends: lines of rounds 1 to 3 belong to
    # finished steps, the last one is of the step under way.
    assert killed(study, 38)
    path = study.folder / "ledger.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    state = json.loads((study.folder / "state.json").read_text())
    assert len(lines) > state["lines"] > 0
    for name in ("ledger.jsonl", "rounds.jsonl"):
        content = (study.folder / name).read_bytes()
        (study.folder / name).write_bytes(content[:-17])

    run = study.resume()

    assert_same_models(run, whole)
    assert run.ledger.verify()
    assert run.ledger == Ledger.from_json(path.read_text())
    assert run.ledger[len(lines) - 2] == Ledger.from_json(lines[-2].decode())[0]


@pytest.mark.parametrize("kept", [0, 1])
def test_a_ledger_that_lacks_what_was_finished_is_refused(study, kept):
    assert killed(study, 20)
    path = study.folder / "ledger.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:kept]))

    with pytest.raises(StudyError, match="lacks lines that the run wrote"):
        study.resume()


def test_an_altered_ledger_is_refused(study):
    assert killed(study, 20)
    path = study.folder / "ledger.jsonl"
    path.write_text(path.read_text().replace('"bytes": ', '"bytes": 1', 1))

    with pytest.raises(StudyError, match="was altered"):
        study.resume()


def change(state, key, value):
    content = json.loads(state.read_text())
    if value is None:
        del content[key]
    else:
        content[key] = value
    state.write_text(json.dumps(content))


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("version", 2, "was written by a newer version"),
        ("version", "1", "is not the state of a run"),
        ("version", None, "is not the state of a run"),
        ("digest", None, "is not the state of a run"),
        ("extra", 1, "is not the state of a run"),
        ("finished", "pca", "is not the state of a run"),
        ("finished", ["../../x"], "is not the state of a run"),
        ("finished", [1], "is not the state of a run"),
        ("finished", ["pca"], "names finished steps that the study has not"),
        (
            "finished",
            ["simpleimputer", "standardscaler", "pca"],
            "There is no model file",
        ),
        ("next_round", 1.5, "is not the state of a run"),
        ("lines", True, "is not the state of a run"),
        ("done", 0, "is not the state of a run"),
    ],
)
def test_another_state_is_refused(study, key, value, message):
    assert killed(study, 20)
    change(study.folder / "state.json", key, value)

    with pytest.raises(StudyError, match=message):
        study.resume()


def test_a_model_file_that_was_swapped_is_refused(study):
    assert killed(study, 36)
    models = study.folder / "models"
    shutil.copy(
        models / "02-standardscaler.unpooled", models / "01-simpleimputer.unpooled"
    )

    with pytest.raises(
        StudyError, match="holds a StandardScaler, not the SimpleImputer"
    ):
        study.resume()


def test_two_processes_never_run_in_one_folder(study):
    assert killed(study, 20)
    refused = []

    def listener(party, step, number):
        if not refused:
            with pytest.raises(StudyError, match="Another process") as caught:
                study.resume()
            refused.append(caught)

    study.resume(listener=listener)

    assert refused


SCRIPT = """
import os, signal, sys
import unpooled as up

count = [int(sys.argv[2])]
def listener(*event):
    count[0] -= 1
    if count[0] == 0:
        os.kill(os.getpid(), signal.SIGKILL)

study = up.Study.from_file(sys.argv[1])
(study.resume if sys.argv[3] == "resume" else study.run)(listener=listener)
"""


def in_a_process(study, event, how):
    """Run or resume in a process that is killed at an event; return its exit code."""
    source = Path(up.__file__).parents[1]
    return subprocess.run(
        [sys.executable, "-c", SCRIPT, study.path, str(event), how],
        env={**os.environ, "PYTHONPATH": str(source)},
        check=False,
    ).returncode


def test_a_process_that_was_killed_loses_nothing(study, whole):
    # The 20th reply is of the scaler's second round, the next of the PCA's last.
    assert in_a_process(study, 20, "run") == -signal.SIGKILL
    state = json.loads((study.folder / "state.json").read_text())
    assert state["finished"] == ["simpleimputer"]
    assert in_a_process(study, 26, "resume") == -signal.SIGKILL

    run = study.resume()

    assert_same_models(run, whole)
    assert run.ledger.verify()
    keys = {seal.key for line in run.ledger for seal in line.seals.values()}
    assert len(keys) == 3 * len(SILOS)  # three processes, each with its own identities


def test_a_report_is_made_from_the_folder_alone(reported, tmp_path):
    from unpooled.study.reporting import report_of

    run = reported.run()
    assert run.report is not None
    before = run.report.read_text()
    shutil.rmtree(reported.path.parent / "data")
    moved = shutil.move(run.folder, tmp_path / "moved")
    (Path(moved) / "report.html").unlink()

    path = report_of(moved)

    def steady(text):
        return re.sub(r"\d{4}-\d\d-\d\d[^<]*", "", text)

    assert steady(path.read_text()) == steady(before)


def test_a_run_on_the_way_has_a_report_too(reported):
    from unpooled.study.reporting import report_of

    assert killed(reported, 20)

    assert "small" in report_of(reported.folder).read_text()


def test_endless_limits_come_back_for_the_report(write):
    from unpooled.study.folder import RunFolder
    from unpooled.study.reporting import facts_of_run

    policy = 'max_feature_ratio = inf\nallowed_steps = ["*"]'
    run = write(text_of(COLUMNS, ["SimpleImputer"], policy=policy)).run()

    facts = facts_of_run(RunFolder.open(run.folder))

    assert facts.policies is not None
    assert facts.policies["west"]["max_feature_ratio"] == float("inf")
    assert facts.policies["west"]["allowed_steps"] == ["*"]
    assert facts.models[0][0] == "simpleimputer"
    assert facts.feature_names == tuple("abcd")


def test_no_file_of_a_run_holds_a_row(study):
    run = study.run()

    numbers = {f"{x:.6f}"[:-1] for silo in SILOS for x in rows(silo)[:, 3]}
    for name in files(run.folder):
        content = (run.folder / name).read_bytes()
        if zipfile.is_zipfile(run.folder / name):
            continue  # whose arrays are compared with the ledger's shapes elsewhere
        assert not [n for n in numbers if n.encode() in content], name
