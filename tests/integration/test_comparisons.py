"""Secure comparisons between silos that cannot reach each other: through the relay."""

import contextlib
import os
import signal

import pytest

import unpooled as up
from integration.comparing import assert_equal_models, lines
from integration.computing import batches, processes
from integration.consortium import study_text
from integration.mishaps import (
    LOST,
    as_soon_as,
    assert_ledger_tells_what_left,
    entries,
    within,
)
from integration.rows import SILOS, write_rows
from unpooled.errors import AggregationError

pytest.importorskip("mpyc")
# Coarse, to save time: a finer search has as many batches, of more candidates.
STEP = """
[[steps]]
model = "PowerTransformer"
tol = 0.01
[outputs]
report = false
"""
COLUMNS = 'label = "num"\ncolumns = ["age", "chol"]'
PATIENCE = 400.0


def asked(consortium, name, silos=SILOS, step=STEP):
    path = consortium.folder / f"{name}.toml"
    text = study_text(name, step, silos).replace('label = "num"', COLUMNS)
    path.write_text(text.replace("timeout = 30", "timeout = 120"))
    return up.Study.from_file(path)


def alone(folder, name, silos=SILOS, step=STEP, rules="min_rows = 10"):
    """Run the same study in one process."""
    text = study_text(name, step, silos).replace('label = "num"', COLUMNS)
    for silo in silos:
        source = f'[parties.{silo}]\nsource = "{write_rows(silo, folder)}"'
        text = text.replace(f"[parties.{silo}]", source)
    return up.Study.from_text(folder / f"{name}.toml", f"{text}[policy]\n{rules}").run(
        follow=True
    )


def begin(consortium, study, resume=False):
    start = study.resume if resume else study.run
    return within(PATIENCE, start, kit=consortium.coordinator)


def test_three_silos_find_what_one_process_finds(consortium, tmp_path):
    study = asked(consortium, "compared")

    done = begin(consortium, study)

    there = alone(tmp_path, "compared")
    assert_equal_models(
        done.models["powertransformer"], there.models["powertransformer"]
    )
    assert lines(done.ledger) == lines(there.ledger)
    assert_ledger_tells_what_left(consortium, study.name, done.ledger)
    assert not any(processes(consortium, silo) for silo in SILOS)


def test_components_are_computed_of_a_scatter_that_nobody_opens(consortium, tmp_path):
    step = STEP.replace(
        'model = "PowerTransformer"\ntol = 0.01',
        'model = "SimpleImputer"\n[[steps]]\nmodel = "PCA"\nn_components = 1\n'
        'open = "components"',
    )
    study = asked(consortium, "components-only", step=step)

    done = begin(consortium, study)

    there = alone(tmp_path, study.name, step=step)
    assert_equal_models(done.models["pca"], there.models["pca"])
    assert lines(done.ledger) == lines(there.ledger)
    assert_ledger_tells_what_left(consortium, study.name, done.ledger)
    assert not any(processes(consortium, silo) for silo in SILOS)


def test_a_party_that_dies_is_waited_for_and_the_search_begins_anew(
    consortium, tmp_path
):
    """Silos that follow run a search from its beginning, and so does who resumes it."""
    study = asked(consortium, "compared-and-killed")

    def late():
        return entries(consortium, "va", study.name) >= 6

    def kill_process():
        for pid in processes(consortium, "va"):
            os.kill(pid, signal.SIGKILL)

    with (
        as_soon_as(late, kill_process),
        pytest.raises(AggregationError, match=r"comparison .* continue with resume"),
    ):
        begin(consortium, study)
    before = entries(consortium, "va", study.name)
    with (
        as_soon_as(
            lambda: entries(consortium, "va", study.name) > before,
            lambda: consortium.kill("va", "job"),
        ),
        pytest.raises(AggregationError, match=LOST),
    ):
        begin(consortium, study, resume=True)

    done = begin(consortium, study, resume=True)

    model = alone(tmp_path, study.name).models["powertransformer"]
    assert_equal_models(done.models["powertransformer"], model)
    assert batches(done.ledger) <= 3 * (model.n_iter_ + 4)
    assert_ledger_tells_what_left(consortium, study.name, done.ledger)


def test_beside_two_silos_the_servers_coordinator_is_a_third(consortium, tmp_path):
    step = STEP.replace("tol", "allow_coordinator_party = true\ntol")
    two, rules = (
        SILOS[:2],
        "min_rows = 10\nmin_parties = 2\nallow_roster_change = true\n",
    )
    study = asked(consortium, "compared-by-two", two, step)
    with contextlib.ExitStack() as changes:
        for silo in two:
            changes.enter_context(consortium.changed(silo, "policy.toml", rules))
        done = begin(consortium, study)

    there = alone(tmp_path, study.name, two, step, rules)
    assert_equal_models(
        done.models["powertransformer"], there.models["powertransformer"]
    )
