"""Studies over a real consortium give what one process gives."""

import inspect
import json
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import unpooled as up
from integration.consortium import HEART, SILOS, study_text, surroundings, wait_for
from unpooled.data.heart_disease import load
from unpooled.errors import AggregationError, StudyError
from unpooled.federation.local import in_one_process
from unpooled.models.catalogue import estimators
from unpooled.secure.roster import Identity, Roster

# Estimators that need more than their defaults, or complete cells: the steps before.
BEFORE = {"PCA": ("SimpleImputer",), "StandardScaler": ("SimpleImputer",)}
RULES = {"min_rows": 10}
COMMAND = "from unpooled.cli import main; main()"


def study(consortium, name, steps=HEART, **options):
    path = consortium.folder / f"{name}.toml"
    path.write_text(study_text(name, steps, **options))
    return up.Study.from_file(path)


def alone(name, steps):
    """The same steps on the same rows in one process: models, ledger."""
    federation, _ = in_one_process(
        {silo: load()[silo] for silo in SILOS},
        partition="rows",
        label="num",
        ids=None,
        secure_sum="masked",
        policy=RULES,
        random_state=None,
        study=name,
    )
    models, view = [], federation
    for model in steps:
        models.append(model.fit(view, "num"))
        view = model.transform(view)
    return models, federation.ledger


def lines(ledger):
    names = "study round step name shape dtype bytes visibility direction parties"
    return [tuple(getattr(line, name) for name in names.split()) for line in ledger]


def assert_equal_models(ours, theirs):
    fitted = {key: value for key, value in vars(theirs).items() if key.endswith("_")}
    assert fitted
    for key, value in fitted.items():
        other = getattr(ours, key)
        if isinstance(value, np.ndarray) and value.dtype.kind == "f":
            # Equal totals give equal arrays; BLAS may add blocks in another order.
            np.testing.assert_allclose(other, value, rtol=1e-12, atol=1e-12)
        elif isinstance(value, np.ndarray):
            assert other.tolist() == value.tolist()
        elif isinstance(value, float):
            assert other == pytest.approx(value, rel=1e-12)
        else:
            assert other == value


def test_heart_study_equals_one_process(consortium):
    began, events, plans = time.monotonic(), [], []

    done = study(consortium, "heart").run(
        kit=consortium.coordinator,
        listener=lambda *event: events.append(event),
        planned=plans.append,
    )

    print(f"submit to result: {time.monotonic() - began:.1f} s")
    kinds = (up.SimpleImputer(), up.StandardScaler(), up.PCA(5))
    models, ledger = alone("heart", kinds)
    for ours, theirs in zip(done.models.values(), models, strict=True):
        assert_equal_models(ours, theirs)
    assert lines(done.ledger) == lines(ledger)
    assert done.ledger.verify()
    assert [line.name for line in plans[0].releases] == [x.name for x in done.ledger]
    assert {party for party, _, _ in events} == set(SILOS)
    names = {path.name for path in done.folder.iterdir()}
    assert names == set(
        "study.toml state.json models pipeline.unpooled ledger.jsonl rounds.jsonl "
        "silos log.txt report.html".split()
    )
    for silo in SILOS:
        delivered = consortium.kit(silo) / "state" / "models" / "heart"
        assert (delivered / "pipeline.unpooled").exists()


@pytest.mark.parametrize("kind", sorted(estimators()))
def test_every_estimator_equals_one_process(consortium, kind):
    before, made = BEFORE.get(kind, ()), estimators()[kind]
    needs = {
        name: 3
        for name, parameter in inspect.signature(made).parameters.items()
        if parameter.default is inspect.Parameter.empty
    }
    text = "".join(f'[[steps]]\nmodel = "{name}"\n' for name in (*before, kind))
    text += "".join(f"{name} = {value}\n" for name, value in needs.items())
    name = f"alone-{kind}"

    done = study(consortium, name, text).run(kit=consortium.coordinator)

    models, ledger = alone(name, [*(estimators()[b]() for b in before), made(**needs)])
    for ours, theirs in zip(done.models.values(), models, strict=True):
        assert_equal_models(ours, theirs)
    assert lines(done.ledger) == lines(ledger)


def test_command_plans_and_runs(consortium):
    file = study(consortium, "by-command").path

    def unpooled(*words):
        return subprocess.run(
            [sys.executable, "-c", COMMAND, *words, "--kit", consortium.coordinator],
            capture_output=True,
            text=True,
            env=surroundings(),
            timeout=180,
        )

    plan = unpooled("plan", file)
    assert plan.returncode == 0, plan.stderr
    assert "local_scatter" in plan.stdout
    run = unpooled("run", file)
    assert run.returncode == 0, run.stderr
    assert "round 6 of 6" in run.stdout
    again = unpooled("run", file, "--out", str(file.with_suffix(".other")))
    assert again.returncode == 1
    assert "has a run of a study by-command already" in again.stderr


def test_unknown_silo_is_refused(consortium):
    strange = study(consortium, "strange", silos=(*SILOS, "nowhere"))

    with pytest.raises(AggregationError, match="Not connected to the server: nowhere"):
        strange.run(kit=consortium.coordinator)


def test_a_source_in_the_study_is_refused(consortium):
    text = study_text("sourced", HEART).replace(
        "[parties.va]", '[parties.va]\nsource = "va.csv"'
    )
    path = consortium.folder / "sourced.toml"
    path.write_text(text)

    with pytest.raises(StudyError, match=r"\[parties.va\] source"):
        up.Study.from_file(path).run(kit=consortium.coordinator)


def test_a_job_of_another_class_is_refused(consortium, tmp_path):
    from unpooled.federation import nvflare
    from unpooled.federation.submission import is_over, submission

    nvflare.write_job(tmp_path / "job", "other", SILOS, {})
    config = tmp_path / "job" / "app_party" / "config" / "config_fed_client.json"
    content = json.loads(config.read_text())
    content["components"][0]["path"] = "unpooled.party.silo.Silo"
    config.write_text(json.dumps(content))

    with submission(consortium.coordinator) as session:
        job = session._session.submit_job(str(tmp_path / "job"))
        until = time.monotonic() + 90
        while not is_over(status := session.status(job, 60.0)):
            assert time.monotonic() < until, status
            time.sleep(0.5)

    assert status != "FINISHED:COMPLETED"


def test_a_silo_killed_in_a_study_is_named_and_the_study_goes_on_later(consortium):
    asked = study(consortium, "killed")
    state = consortium.server / "studies" / "killed" / "state.json"

    def kill_when_a_step_is_finished():
        wait_for(lambda: json.loads(state.read_text())["finished"], pause=0.01)
        consortium.kill("va")

    killer = threading.Thread(target=kill_when_a_step_is_finished)
    killer.start()
    try:
        with pytest.raises(AggregationError, match="va did not answer"):
            asked.run(kit=consortium.coordinator)
    finally:
        killer.join()
        consortium.start("va")

    folder = asked.folder
    assert (
        "simpleimputer" in json.loads((folder / "state.json").read_text())["finished"]
    )
    done = asked.resume(kit=consortium.coordinator)

    kinds = (up.SimpleImputer(), up.StandardScaler(), up.PCA(5))
    for ours, theirs in zip(
        done.models.values(), alone("killed", kinds)[0], strict=True
    ):
        assert_equal_models(ours, theirs)
    assert done.ledger.verify()
    assert "simpleimputer" not in Path(folder / "log.txt").read_text().split("Resumed")[
        1
    ].replace("finished before: simpleimputer", "")


@pytest.mark.parametrize(
    ("pins_itself", "says"),
    [(False, "va could not open its door"), (True, "name of va is not signed")],
)
def test_an_identity_that_nobody_pins_is_refused(consortium, pins_itself, says):
    local = consortium.kit("va") / "local"
    before = {
        name: (local / name).read_text() for name in ("identity.key", "roster.toml")
    }
    stranger = Identity()
    (local / "identity.key").write_text(stranger.private_bytes().hex())
    if pins_itself:
        pinned = dict(Roster.from_file(local / "roster.toml"))
        (local / "roster.toml").write_text(
            Roster(pinned | {"va": stranger.public}).to_toml()
        )
    try:
        with pytest.raises(AggregationError, match=says):
            study(consortium, f"impostor-{pins_itself}").run(kit=consortium.coordinator)
    finally:
        for name, text in before.items():
            (local / name).write_text(text)


def test_a_silo_that_is_too_slow_is_named(consortium):
    asked = study(consortium, "slow")
    asked.path.write_text(asked.text.replace("timeout = 30", "timeout = 10"))
    state = consortium.server / "studies" / "slow" / "state.json"

    def stall():
        wait_for(lambda: json.loads(state.read_text())["finished"], pause=0.01)
        consortium.send("va", signal.SIGSTOP)

    staller = threading.Thread(target=stall)
    staller.start()
    try:
        with pytest.raises(AggregationError, match="va did not answer"):
            up.Study.from_file(asked.path).run(kit=consortium.coordinator)
    finally:
        staller.join()
        consortium.send("va", signal.SIGCONT)
