"""What a person at a silo does: look at the log, decide, apply a model, forget."""

import re
import sqlite3

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline
from typer.testing import CliRunner

from unpooled import PCA, SimpleImputer, StandardScaler
from unpooled.cli import app
from unpooled.errors import AggregationError, ReleaseRefusedError, StudyError
from unpooled.federation.base import Federation
from unpooled.federation.layout import Layout
from unpooled.federation.local import LocalChannel
from unpooled.federation.rounds import Coordinator
from unpooled.models.files import load, save
from unpooled.party.founding import Charter, found, pin
from unpooled.party.silo import Silo

COLUMNS = ("age", "chol", "rate")
NAMES = ("berlin", "paris", "rome")
TEXT = """\
[study]
name = "heart"
label = "sick"
columns = ["age", "chol", "rate"]
[parties.berlin]
[parties.paris]
[parties.rome]
[[steps]]
model = "SimpleImputer"
[[steps]]
model = "StandardScaler"
[[steps]]
model = "PCA"
n_components = 2
"""


def rows(seed: int, n: int = 40) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3)) * [9, 40, 20] + [55, 240, 80]
    X[0, 1] = np.nan
    frame = pd.DataFrame(X.round(3), columns=list(COLUMNS))
    frame.insert(0, "id", [f"p{seed}-{k}" for k in range(n)])
    return frame.assign(sick=rng.integers(0, 2, n))


class Consortium:
    """Three silos' kits in a folder, and a coordinator in this process."""

    def __init__(self, folder, approval="none"):
        self.folder, self.parties = folder, {}
        publics = []
        for seed, name in enumerate(NAMES):
            (folder / name).mkdir()
            source = folder / name / "rows.csv"
            rows(seed).to_csv(source, index=False)
            charter = Charter(
                name=name,
                source=str(source),
                label="sick",
                ids="id",
                columns=None,
                missing={},
                policy=None,
                approval=approval,
            )
            publics.append(found(folder / name / "local", charter))
        for name in NAMES:
            pin(self.silo(name).roster, publics)
        self.start()

    def silo(self, name) -> Silo:
        return Silo.from_file(self.folder / name / "local" / "silo.toml")

    def start(self):
        self.parties = {name: self.silo(name).party() for name in NAMES}

    def coordinator(self, **more) -> Coordinator:
        channel = LocalChannel({n: p.handle for n, p in self.parties.items()})
        roster = self.silo("rome").pinned()
        return Coordinator(channel, roster, study="heart", **more)

    def announce(self, text=TEXT) -> set[str]:
        header = {"kind": "announce", "study": "heart", "text": text}
        replies = self.coordinator().tell(header)
        return {reply.header["approval"] for reply in replies.values()}

    def fit(self, model=None, **more):
        coordinator = self.coordinator(**more)
        layout = Layout.of_rows(coordinator.parties, COLUMNS)
        federation = Federation(coordinator, layout=layout, named=True, label="sick")
        steps = (SimpleImputer(), StandardScaler(), PCA(2))
        return (model or make_pipeline(*steps)).fit(federation), federation

    def deliver(self, model, name="pipeline"):
        content = np.frombuffer(save(model, self.folder / "m").read_bytes(), np.uint8)
        header = {"kind": "deliver", "study": "heart", "name": name}
        self.coordinator().tell(header, {"file": content})


@pytest.fixture
def heart(tmp_path):
    return Consortium(tmp_path)


@pytest.fixture
def asked(tmp_path):
    return Consortium(tmp_path, "each-study")


def command(heart, *arguments, code=0, silo="rome", columns="140", **options):
    kit = ["--kit", str(heart.folder / silo)]
    done = CliRunner(env={"COLUMNS": columns}).invoke(
        app, ["silo", *map(str, arguments), *kit], **options
    )
    if done.exit_code != code:
        raise AssertionError(done.output) from done.exception
    return done.output if options.get("whole") else " ".join(done.output.split())


def test_log_shows_what_left_when_and_in_which_company(heart):
    heart.announce()
    _, federation = heart.fit()
    text = command(heart, "log")
    assert "Study heart" in text
    left = [line for line in federation.ledger if line.direction == "out"]
    rounds = len({line.round for line in left})
    assert f"{rounds} rounds; {len(left)} arrays left" in text
    assert text.count("berlin, paris, rome") >= rounds
    assert "announced" in text
    assert re.search(r"20\d\d-\d\d-\d\d \d\d:\d\d", text)
    assert command(heart, "log", "other").startswith("Nothing is written about other")
    for columns in ("80", "120"):
        done = CliRunner(env={"COLUMNS": columns}).invoke(
            app, ["silo", "log", "--kit", str(heart.folder / "rome")]
        )
        assert max(map(len, done.output.splitlines())) <= int(columns)


def test_a_silo_that_took_part_in_nothing_has_no_log(tmp_path):
    heart = Consortium(tmp_path)
    for path in (tmp_path / "rome").rglob("audit.sqlite*"):
        path.unlink()
    for name in (["log"], ["deny", "heart"], ["approve", "heart"], ["forget", "heart"]):
        assert "no log yet" in command(heart, *name, code=1)
    assert not list((tmp_path / "rome").rglob("audit.sqlite"))


def test_verify_finds_any_edited_row(heart):
    heart.fit()
    assert "none altered, all signed" in command(heart, "log", "--verify")
    database = sqlite3.connect(heart.silo("rome").audit)
    database.execute("DROP TRIGGER entries_stay")
    database.execute("UPDATE entries SET time = '2000' WHERE number = 5")
    database.commit()
    database.close()
    assert "Entry 5 of the audit log" in command(heart, "log", "--verify", code=1)
    assert "none altered" in command(heart, "log", "--verify", silo="paris")


def test_verify_against_a_ledger_finds_lines_cut_at_the_end(heart):
    _, federation = heart.fit()
    path = heart.folder / "ledger.jsonl"
    path.write_text(federation.ledger.to_lines())
    assert "it lacks 0 lines" in command(heart, "log", "--against", path)
    database = sqlite3.connect(heart.silo("rome").audit)
    database.execute("DROP TRIGGER entries_remain")
    (last,) = database.execute("SELECT MAX(number) FROM entries WHERE kind = 'round'")
    (before,) = database.execute(
        "SELECT MAX(number) FROM entries WHERE kind = 'round' AND number < ?", last
    )
    database.execute("DELETE FROM entries WHERE number > ?", before)
    database.commit()
    database.close()
    assert "all signed" in command(heart, "log", "--verify")
    output = command(heart, "log", "--verify", "--against", path, code=1)
    assert "lacks it: the log was cut" in output


def test_nothing_runs_before_a_person_approved(asked):
    assert asked.announce() == {"waiting"}
    with pytest.raises(ReleaseRefusedError, match="approval"):
        asked.fit()
    for name in NAMES:
        assert "announced" in command(asked, "log", silo=name)
        output = command(asked, "approve", "heart", "--yes", silo=name)
        assert "SimpleImputer, StandardScaler, PCA" in output
        assert "3 columns: age, chol, rate" in output
        assert "Approved: heart may run imputer.*, pca.*, scaler.*" in output
    assert asked.announce() == {"approved"}
    _, federation = asked.fit()
    # What a person approved is what left: the plan was made from the same text.
    assert "approved by" in command(asked, "log", "--verify")
    # Another text under the same name needs a person again.
    assert asked.announce(TEXT.replace("= 2", "= 3")) == {"waiting"}
    with pytest.raises(ReleaseRefusedError, match="approval"):
        asked.fit(ledger=federation.ledger, first_round=9)


def test_a_step_that_nobody_approved_is_refused(asked):
    asked.announce(TEXT.split("[[steps]]\nmodel = \"StandardScaler\"")[0])  # fmt: skip
    for name in NAMES:
        command(asked, "approve", "heart", "--yes", silo=name)
    _, federation = asked.fit(SimpleImputer())
    with pytest.raises(ReleaseRefusedError, match=r"scaler.*approval"):
        asked.fit(StandardScaler(), ledger=federation.ledger, first_round=3)
    assert "refused scaler" in command(asked, "log")


def test_deny_stops_a_study_also_while_it_runs(asked):
    asked.announce()
    for name in NAMES:
        command(asked, "approve", "heart", "--yes", silo=name)
    federation = asked.fit(SimpleImputer())[1]
    federation.coordinator.enter()
    from unpooled.models.imputer import local_observed

    federation.sum(local_observed)
    assert "does not take part" in command(asked, "deny", "heart")
    with pytest.raises(ReleaseRefusedError, match=r"rome refused .*approval"):
        federation.sum(local_observed)
    assert "A person denied it" in command(asked, "log")


def test_approve_asks_and_needs_a_study(asked):
    assert "No study heart was announced" in command(asked, "approve", "heart", code=1)
    asked.announce()
    assert "Nobody to ask" in command(asked, "approve", "heart", code=2)
    assert asked.announce() == {"waiting"}
    asked.announce(TEXT.replace('name = "heart"', 'name = "other"'))
    output = command(asked, "approve", "heart", "--yes", code=1)
    assert "is of the study other" in output
    asked.announce(TEXT.replace('"rate"', '"income"'))
    output = command(asked, "approve", "heart", "--yes", code=1)
    assert "columns that this silo does not have: income" in output
    asked.announce("[study]\nname = 5")
    assert "the study heart" in command(asked, "approve", "heart", "--yes", code=1)


def test_approve_tells_what_the_policy_would_refuse(asked):
    policy = asked.silo("rome").policy
    policy.write_text("[policy]\nmin_rows = 1000\n")
    asked.announce()
    output = command(asked, "approve", "heart", "--yes")
    assert "Your policy would refuse imputer.local_observed: min_rows" in output


def test_a_text_that_a_terminal_would_obey_is_shown_harmless(asked):
    asked.announce(TEXT + '# \x1b[2J\x07 "evil"\n'.replace("\x1b", "\x9b"))
    output = command(asked, "log")
    assert "\x9b" not in output
    for name in ("paris", "rome"):
        assert "\x9b" not in command(asked, "log", "--verify", silo=name)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_apply_writes_scores_of_the_silos_own_rows(heart, kind):
    pipeline, _ = heart.fit()
    heart.deliver(pipeline)
    out = heart.folder / f"scores.{kind}"
    output = command(heart, "apply", "heart/pipeline", "--out", out)
    assert f"Wrote 40 rows to {out}: id, sick, pca0, pca1." in output
    written = pd.read_csv(out) if kind == "csv" else pd.read_parquet(out)
    own = rows(NAMES.index("rome"))
    assert list(written.columns) == ["id", "sick", "pca0", "pca1"]
    assert list(written["id"]) == list(own["id"])
    assert list(written["sick"]) == list(own["sick"])
    expected = pipeline.transform(own[list(COLUMNS)].to_numpy())
    np.testing.assert_allclose(written[["pca0", "pca1"]], expected, rtol=1e-12)
    assert out.stat().st_mode & 0o777 == 0o600
    assert "exists" in command(heart, "apply", "heart/pipeline", "--out", out, code=1)


def test_apply_takes_a_file_and_refuses_an_altered_one(heart):
    pipeline, _ = heart.fit()
    heart.deliver(pipeline)
    out = heart.folder / "x.csv"
    command(heart, "apply", heart.folder / "m", "--out", out)
    delivered = heart.silo("rome").models / "heart" / "pipeline.unpooled"
    assert load(delivered).steps[-1][0] == "pca"
    delivered.write_bytes(delivered.read_bytes() + b" ")
    output = command(heart, "apply", "heart/pipeline", "--out", out, code=1)
    assert "it was altered" in output
    for bad, says in (
        ("heart/other", "Delivered were: heart/pipeline"),
        (heart.folder / "rome" / "rows.csv", "not a model file"),
    ):
        assert says in command(heart, "apply", bad, "--out", heart.folder / "y.csv",
                               code=1)  # fmt: skip
    assert "neither" in command(heart, "apply", heart.folder / "m", "--out", "y.txt",
                                code=1)  # fmt: skip
    assert not (heart.folder / "y.csv").exists()
    assert [p for p in heart.folder.iterdir() if p.name.startswith(".")] == []


def test_a_model_for_other_columns_is_refused(heart):
    heart.fit()
    import unpooled as up

    other = up.simulate(
        {n: pd.DataFrame(np.eye(12)[:, :2], columns=["age", "bmi"]) for n in "abc"},
        policy=up.Policy.open(),
    )
    save(StandardScaler().fit(other), heart.folder / "m")
    out = heart.folder / "z.csv"
    output = command(heart, "apply", heart.folder / "m", "--out", out, code=1)
    assert "needs the columns bmi" in output


def test_models_come_only_into_studies_that_the_silo_took_part_in(heart):
    pipeline, _ = heart.fit()
    content = np.zeros(5, np.uint8)
    coordinator = heart.coordinator()
    for study in ("other", "../heart", "heart/..", "", "heart\x00", "a" * 101):
        with pytest.raises((ReleaseRefusedError, AggregationError)):
            coordinator.tell(
                {"kind": "deliver", "study": study, "name": "m"}, {"file": content}
            )
    for name in ("../m", "", ".hidden", "m/n", "m\x00", 5, "a" * 101):
        with pytest.raises((ReleaseRefusedError, AggregationError)):
            coordinator.tell(
                {"kind": "deliver", "study": "heart", "name": name}, {"file": content}
            )
    for arrays in ({}, {"file": np.zeros(3)}, {"a": content, "b": content}):
        with pytest.raises((ReleaseRefusedError, AggregationError)):
            coordinator.tell({"kind": "deliver", "study": "heart", "name": "m"}, arrays)
    assert not heart.silo("rome").models.exists()
    heart.deliver(pipeline)
    folder = heart.silo("rome").models
    assert [str(p.relative_to(folder)) for p in folder.rglob("*")] == [
        "heart",
        "heart/pipeline.unpooled",
    ]


def test_models_that_are_too_large_or_too_many_are_refused(heart, monkeypatch):
    from unpooled.party import dealings

    heart.fit()
    monkeypatch.setattr(dealings, "_MOST_MODELS", 2)
    for name in ("one", "two", "two"):
        heart.deliver(StandardScaler(), name)
    with pytest.raises(ReleaseRefusedError, match="delivery"):
        heart.deliver(StandardScaler(), "three")
    monkeypatch.setattr(dealings, "_MOST_MODEL_BYTES", 10)
    with pytest.raises(ReleaseRefusedError, match="delivery"):
        heart.deliver(StandardScaler(), "one")


def test_forget_deletes_models_and_never_the_log(heart):
    pipeline, federation = heart.fit()
    heart.deliver(pipeline)
    before = heart.silo("rome").audit
    output = command(heart, "forget", "heart")
    assert "1 model files deleted" in output
    assert not (heart.silo("rome").models / "heart").exists()
    assert "Delivered were: none" in command(
        heart, "apply", "heart/pipeline", "--out", heart.folder / "q.csv", code=1
    )
    assert "forgotten, with 1 model" in command(heart, "log", "--verify")
    # What was fitted is forgotten too, in the process that runs; what left is not.
    federation.coordinator.enter()
    view = pipeline[:1].transform(federation)
    with pytest.raises(ReleaseRefusedError, match="transform_not_fitted"):
        StandardScaler().fit(view)
    heart.fit(ledger=federation.ledger, first_round=50)
    assert federation.ledger.verify(heart.silo("rome").pinned())
    assert "No study other" in command(heart, "forget", "other", code=1)
    assert before == heart.silo("rome").audit


def test_forget_ends_the_sessions_of_a_running_process(heart):
    from unpooled.models.imputer import local_observed

    _, federation = heart.fit()
    federation.coordinator.enter()
    federation.sum(local_observed)
    command(heart, "forget", "heart")
    with pytest.raises(ReleaseRefusedError, match=r"rome refused .*nothing_kept"):
        federation.sum(local_observed)
    with pytest.raises((StudyError, AggregationError, ReleaseRefusedError)):
        federation.sum(local_observed)
