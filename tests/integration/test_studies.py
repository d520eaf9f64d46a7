"""Studies over a real consortium give what one process gives."""

import os

import pytest

import unpooled as up
from integration.comparing import assert_equal_models, lines
from integration.consortium import HEART, study_text
from integration.rows import SILOS
from unpooled.data.heart_disease import load
from unpooled.errors import AggregationError, StudyError
from unpooled.federation.local import in_one_process

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
        follow=True,
    )
    models, view = [], federation
    for model in steps:
        models.append(model.fit(view, "num"))
        view = model.transform(view)
    return models, federation.ledger


def test_heart_study_equals_one_process(consortium):
    events, plans = [], []

    done = study(consortium, "heart").run(
        kit=consortium.coordinator,
        listener=lambda *event: events.append(event),
        planned=plans.append,
    )

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
        "digests.json silos log.txt report.html results".split()
    )
    for silo in SILOS:
        delivered = consortium.kit(silo) / "state" / "models" / "heart"
        assert (delivered / "pipeline.unpooled").exists()
        # A job's first message has a connection, and is not repeated after a pause.
        job = max(consortium.kit(silo).glob("*-*-*/log.txt"), key=os.path.getmtime)
        assert "seconds after 1 tries" in job.read_text("utf-8")


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
