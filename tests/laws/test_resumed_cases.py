"""Every estimator's study goes on after its process died, and ends as if it had not."""

import os

import pytest

from integration.comparing import assert_equal_models
from integration.matrix import CASES, text_of
from integration.rows import SILOS, WRITERS
from small_study import Killed, kill_at
from unpooled.study import Study

# Secure comparisons are stopped and resumed in tests of their own.
OTHERWISE = ("PowerTransformer", "PCA-power")
# One by rows and one by columns; the rest takes a minute.
FIRST = ("LinearDiscriminantAnalysis", "KernelPCA-columns")
NAMES = [
    name if name in FIRST else pytest.param(name, marks=pytest.mark.slow)
    for name in CASES
    if name not in OTHERWISE
]


@pytest.fixture(autouse=True)
def quick_disk(monkeypatch):
    """A process that dies loses nothing that it has written; only a machine would."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_study_goes_on_where_it_was_killed(name, tmp_path):
    write = WRITERS[CASES[name].partition]
    sources = {silo: write(silo, tmp_path) for silo in SILOS}
    study = Study.from_text(tmp_path / "study.toml", text_of(name, sources))
    heard = []
    whole = study.run(tmp_path / "whole", listener=lambda *event: heard.append(event))
    rounds = [number for number, event in enumerate(heard, 1) if "." in event[1]]
    # Within the last round: what was kept and found before it is asked for anew.
    with pytest.raises(Killed):
        study.run(tmp_path / "killed", listener=kill_at(rounds[-1] - 1))

    done = study.resume(tmp_path / "killed")

    for step, theirs in whole.models.items():
        assert_equal_models(done.models[step], theirs)
    assert done.ledger.verify()
