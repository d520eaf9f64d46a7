"""Whatever dies, a study ends in a result or a clear error, and goes on later."""

import contextlib
import os
import signal
from datetime import datetime
from pathlib import Path

import pytest

import unpooled as up
from integration.comparing import assert_equal_models
from integration.consortium import study_text, surroundings, wait_for
from integration.mishaps import (
    as_soon_as,
    assert_ledger_tells_what_left,
    entries,
    within,
)
from integration.rows import SILOS, write_rows
from unpooled.errors import AggregationError, ReleaseRefusedError
from unpooled.party.memory.audit_log import AuditLog

# Long enough that something can happen between two rounds.
STEPS = ["SimpleImputer", *["StandardScaler"] * 4, "PCA"]
LONG = "".join(f'[[steps]]\nmodel = "{step}"\n' for step in STEPS) + "n_components = 3"
# Starting processes takes most of it; a study that hangs would take for ever.
PATIENCE = 240.0
LOST = r"va did not answer|ended \(|va could not|did not start"


def asked(consortium, name, timeout=15):
    path = consortium.folder / f"{name}.toml"
    text = study_text(name, LONG).replace("timeout = 30", f"timeout = {timeout}")
    path.write_text(text + "[outputs]\nreport = false\n")
    return up.Study.from_file(path)


def begin(consortium, study, resume=False):
    start = study.resume if resume else study.run
    return within(PATIENCE, start, kit=consortium.coordinator)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """The same steps on the same rows in one process: models by name."""
    folder = tmp_path_factory.mktemp("alone")
    sources = {silo: f'source = "{write_rows(silo, folder)}"' for silo in SILOS}
    text = study_text("alone", LONG)
    for silo, source in sources.items():
        text = text.replace(f"[parties.{silo}]", f"[parties.{silo}]\n{source}")
    text += "[outputs]\nreport = false\n[policy]\nmin_rows = 10\n"
    return up.Study.from_text(folder / "alone.toml", text).run().models


def assert_done(consortium, study, done, undisturbed):
    """The result is as if nothing had happened, and the ledger has all that left."""
    for ours, (name, theirs) in zip(
        done.models.items(), undisturbed.items(), strict=True
    ):
        assert ours[0] == name
        assert_equal_models(ours[1], theirs)
    assert_ledger_tells_what_left(consortium, study.name, done.ledger)


WHEN = {
    "starting": lambda c, s: bool(c.jobs("va")),
    "before": lambda c, s: entries(c, "va", s, "joined") >= 1,
    "during": lambda c, s: entries(c, "va", s) >= 2,
    "after": lambda c, s: entries(c, "va", s) >= 5,
}


def kill(consortium, study, when, what):
    if when == "during":
        # va is asked and cannot answer: then another silo is a round ahead of it.
        consortium.send("va", signal.SIGSTOP, "job")
        has = entries(consortium, "va", study)
        # Unless it was stopped between its log and its answer: then nobody is ahead.
        with contextlib.suppress(AssertionError):
            wait_for(lambda: entries(consortium, "hungary", study) > has, 5.0, 0.01)
    consortium.kill("va", what)


@pytest.mark.parametrize(
    ("what", "moments"),
    [("job", "starting before during after"), ("machine", "before during after")],
)
def test_a_silo_dies_and_the_study_goes_on_later(
    consortium, what, moments, undisturbed
):
    study = asked(consortium, f"dies-{what}")
    wait_for(lambda: not consortium.jobs("va"))  # of a test before
    for number, when in enumerate(moments.split()):
        try:
            with (
                as_soon_as(
                    lambda when=when: WHEN[when](consortium, study.name),
                    lambda when=when: kill(consortium, study.name, when, what),
                ),
                pytest.raises(AggregationError, match=LOST),
            ):
                begin(consortium, study, resume=number > 0)
        finally:
            if what == "machine":
                consortium.start("va")

    done = begin(consortium, study, resume=True)

    assert_done(consortium, study, done, undisturbed)


def test_a_silos_parent_alone_dies(consortium, undisturbed):
    study = asked(consortium, "dies-parent")
    try:
        with as_soon_as(
            lambda: entries(consortium, "va", study.name) >= 2,
            lambda: consortium.kill("va", "parent"),
        ):
            # Its job lives on for a second or so, which may be enough for a result.
            with contextlib.suppress(AggregationError):
                begin(consortium, study)
    finally:
        consortium.start("va")

    done = begin(consortium, study, resume=True)

    assert_done(consortium, study, done, undisturbed)


def test_the_coordinators_job_dies(consortium, undisturbed):
    study = asked(consortium, "dies-coordinator")
    with (
        as_soon_as(
            lambda: entries(consortium, "va", study.name) >= 3,
            lambda: consortium.kill("server", "job"),
        ),
        pytest.raises(AggregationError, match=r"ended \(FINISHED.*continue the study"),
    ):
        begin(consortium, study)

    done = begin(consortium, study, resume=True)

    assert_done(consortium, study, done, undisturbed)


def test_the_server_restarts(consortium, undisturbed):
    study = asked(consortium, "server-restarts")
    try:
        with (
            as_soon_as(
                lambda: entries(consortium, "va", study.name) >= 3,
                lambda: consortium.kill("server"),
            ),
            pytest.raises(AggregationError, match=r"not answered|ended \("),
        ):
            begin(consortium, study)
    finally:
        # The silos find it again by themselves.
        consortium.start("server")

    done = begin(consortium, study, resume=True)

    assert_done(consortium, study, done, undisturbed)


def test_a_slow_silo_is_named(consortium, undisturbed):
    study = asked(consortium, "slow", timeout=10)
    try:
        with (
            as_soon_as(
                lambda: entries(consortium, "va", study.name) >= 3,
                lambda: consortium.send("va", signal.SIGSTOP),
            ),
            pytest.raises(AggregationError, match="va did not answer"),
        ):
            begin(consortium, study)
    finally:
        consortium.send("va", signal.SIGCONT)

    # With the time that it takes; the study's text is that of the run.
    done = begin(consortium, study, resume=True)

    assert_done(consortium, study, done, undisturbed)


def test_a_full_audit_log_lets_nothing_leave(consortium, undisturbed):
    study = asked(consortium, "full-log")
    file = (consortium.kit("va") / "local" / "silo.toml").read_text()
    # SQLite takes the size that the file has for a limit below it: it is full.
    with (
        consortium.changed("va", "silo.toml", file + "audit_pages = 1\n"),
        pytest.raises((ReleaseRefusedError, AggregationError), match="audit_log"),
    ):
        begin(consortium, study)
    rounds = {silo: entries(consortium, silo, study.name) for silo in SILOS}
    assert rounds["va"] < len(STEPS)

    done = begin(consortium, study, resume=True)

    assert_done(consortium, study, done, undisturbed)


def test_clocks_that_are_two_hours_apart(consortium, undisturbed):
    study = asked(consortium, "clocks")
    clocks = str(Path(__file__).parent / "clocks")
    shifts = {"hungary": -3600, "va": 3600}
    try:
        for silo, seconds in shifts.items():
            consortium.kill(silo)
            paths = os.pathsep.join([clocks, surroundings()["PYTHONPATH"]])
            consortium.start(silo, PYTHONPATH=paths, CLOCK_SHIFT=str(seconds))

        done = begin(consortium, study)
    finally:
        for silo in shifts:
            consortium.kill(silo)
            consortium.start(silo)

    assert_done(consortium, study, done, undisturbed)
    joined = {silo: first_time(consortium, silo, study.name) for silo in SILOS}
    for silo, seconds in shifts.items():
        apart = (joined[silo] - joined["cleveland"]).total_seconds()
        assert apart == pytest.approx(seconds, abs=60)


def first_time(consortium, silo, study):
    journal = AuditLog(consortium.kit(silo) / "state" / "audit.sqlite")
    return datetime.fromisoformat(journal.entries(study)[0].time)
