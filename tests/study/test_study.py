"""Studies: plans, runs, what they refuse, and what their folders hold."""

import json
import re
import zipfile

import numpy as np
import polars
import pytest
from numpy.testing import assert_allclose

import unpooled as up
from line_fields import fields
from small_study import (
    COLUMNS,
    SILOS,
    STEPS,
    assert_same_models,
    files,
    quick_disk,
    reported,
    rows,
    study,
    text_of,
    write,
)
from unpooled.errors import DataError, ReleaseRefusedError, StudyError
from unpooled.ledger import Ledger
from unpooled.party.rules.unusable_cells import UnusableCells

# Fixtures of another module.
__all__ = ["quick_disk", "reported", "study", "write"]


def pooled():
    X = np.concatenate([rows(silo) for silo in SILOS])
    X[X == 999.0] = np.nan
    return X


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
    found = {name for name in files(run.folder) if not name.startswith("results/")}
    assert found == {
        "study.toml", "state.json", "ledger.jsonl", "rounds.jsonl", "log.txt",
        "digests.json", "report.html", "pipeline.unpooled", "silos/log.txt",
        *(f"silos/{silo}.json" for silo in SILOS),
        *(f"models/{n:02}-{step}.unpooled" for n, step in enumerate(STEPS, 1)),
    }  # fmt: skip


@pytest.mark.slow
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
    assert re.search(r"Finished standardscaler, rounds 3 to 5\.", log)
    assert log.endswith(" Done.\n")


@pytest.mark.slow
def test_the_plan_is_what_the_ledger_becomes(study):
    plan = study.plan()
    assert not study.folder.exists()

    run = study.run()

    def told(lines):
        return fields(
            lines,
            "study round step name shape dtype bytes visibility direction parties",
        )

    assert told(plan.releases) == told(run.ledger)
    assert plan.rounds == 8
    assert plan.refusals == ()


@pytest.mark.slow
def test_columns_come_in_the_order_of_the_study(write):
    run = write(text_of('columns = ["c", "a"]', ["SimpleImputer"])).run()

    assert run.models["simpleimputer"].feature_names_in_.tolist() == ["c", "a"]
    X = pooled()
    assert_allclose(
        run.models["simpleimputer"].statistics_,
        [np.nanmean(X[:, 2]), np.nanmean(X[:, 0])],
        rtol=1e-12,
    )


@pytest.mark.slow
def test_a_study_without_a_report_writes_none(write):
    run = write(text_of(COLUMNS, ["SimpleImputer"])).run()

    assert run.report is None
    assert not (run.folder / "report.html").exists()


@pytest.mark.slow
def test_a_folder_can_be_named(study, tmp_path):
    run = study.run(tmp_path / "elsewhere")

    assert run.folder == tmp_path / "elsewhere"
    assert not study.folder.exists()


@pytest.mark.slow
def test_plain_sums_give_the_same_models(write, tmp_path):
    policy = "allow_plain = true" if hasattr(up.Policy(), "allow_plain") else ""
    plain = write(text_of(COLUMNS + '\nsecure_sum = "plain"', policy=policy))
    masked = write(text_of(COLUMNS))

    assert_same_models(plain.run(tmp_path / "plain"), masked.run(tmp_path / "masked"))


@pytest.mark.slow
def test_listeners_hear_of_every_reply(study):
    heard, plans = [], []

    run = study.run(listener=lambda *event: heard.append(event), planned=plans.append)

    steps = [event for event in heard if "." in event[1]]
    assert len(steps) == plans[0].rounds * len(SILOS)
    assert {event[0] for event in heard} == set(SILOS)
    assert {event[2] for event in steps} == {line.round for line in run.ledger}


# --- What is refused, and when.


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_refusal_on_the_way_keeps_what_was_finished(write, monkeypatch):
    # Without the imputer the missing cells show when PCA reads the rows. A plan finds
    # them; other faults show only then.
    monkeypatch.setattr(UnusableCells, "check", lambda *_, **__: None)
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
    log = (study.folder / "silos" / "log.txt").read_text()
    assert "impute first" in log
    assert "b: 6 cells missing (data rows 1, 8, 15, 22, 29, 36)" in log
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


@pytest.mark.slow
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


@pytest.mark.slow
def test_no_file_of_a_run_holds_a_row(study):
    run = study.run()

    numbers = {f"{x:.6f}"[:-1] for silo in SILOS for x in rows(silo)[:, 3]}
    for name in files(run.folder):
        content = (run.folder / name).read_bytes()
        if zipfile.is_zipfile(run.folder / name):
            continue  # whose arrays are compared with the ledger's shapes elsewhere
        assert not [n for n in numbers if n.encode() in content], name


@pytest.mark.slow
def test_ids_and_a_label_may_both_be_texts_where_columns_are_divided(tmp_path):
    """The file was opened without its ids to look for the label, and refused."""
    rng = np.random.default_rng(0)
    people = [f"p{i:02}" for i in range(30)]
    for silo, names in {"clinic": "ab", "lab": "cd", "bank": "ef"}.items():
        frame = polars.DataFrame(rng.normal(size=(30, 2)), list(names))
        frame = frame.with_columns(polars.Series("person", people))
        if silo == "clinic":
            frame = frame.with_columns(polars.Series("kind", ["ill", "well"] * 15))
        frame.write_csv(tmp_path / f"{silo}.csv")
    parties = "".join(
        f'[parties.{s}]\nsource = "{s}.csv"\n' for s in ("clinic", "lab", "bank")
    )
    (tmp_path / "study.toml").write_text(
        '[study]\nname = "wide"\npartition = "columns"\nids = "person"\n'
        f'label = "kind"\n{parties}[policy]\nallow_row_level = true\n'
        "max_released_share = 100.0\n[outputs]\nreport = false\n"
        '[[steps]]\nmodel = "MMVFL"\nbeta = 1.0\nmax_iter = 2\ntol = 0.0\n'
    )

    run = up.Study.from_file(tmp_path / "study.toml").run()

    assert list(run.models["mmvfl"].classes_) == ["ill", "well"]
