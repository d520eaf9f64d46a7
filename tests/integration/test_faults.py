"""Whatever dies, a study ends in a result or a clear error, and goes on later.

However a silo fails, the coordinator learns a rule's name, and nothing of the silo.
Everything that server and coordinator hold after all these faults is searched: their
logs, the job store, the results, what the commands said. So the tests of that stand at
the end of this file, whose tests have one consortium.
"""

import contextlib
import io
import os
import shutil
import signal
import time
import zipfile
from datetime import datetime
from pathlib import Path

import polars
import pytest

import unpooled as up
from integration.certificates import at_another_time
from integration.comparing import assert_equal_models
from integration.consortium import HEART, POLICY, study_text, surroundings, wait_for
from integration.mishaps import (
    LOST,
    as_soon_as,
    assert_ledger_tells_what_left,
    entries,
    within,
)
from integration.rows import SILOS, write_rows
from unpooled.errors import AggregationError, ReleaseRefusedError, UnpooledError
from unpooled.federation.nvflare.submission import is_over, submission
from unpooled.party.memory.audit_log import AuditLog

# Long enough that something can happen between two rounds.
STEPS = ["SimpleImputer", *["StandardScaler"] * 4, "PCA"]
LONG = "".join(f'[[steps]]\nmodel = "{step}"\n' for step in STEPS) + "n_components = 3"
# Starting processes takes most of it; a study that hangs would take for ever.
PATIENCE = 240.0
NOT_THERE = rf"{LOST}|va could not|did not start"


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
                pytest.raises(AggregationError, match=NOT_THERE),
            ):
                begin(consortium, study, resume=number > 0)
        finally:
            if what == "machine":
                consortium.start("va")

    done = begin(consortium, study, resume=True)

    assert_done(consortium, study, done, undisturbed)


def test_a_late_silo_is_not_blamed_for_one_that_had_answered(consortium):
    study = asked(consortium, "dies-answered")

    def kill_after_its_answer():
        # Found before: looking for them takes seconds on a busy machine, in which a
        # silo that is stopped would be silent indeed.
        late, killed = consortium.jobs("cleveland"), consortium.jobs("va")
        for pids, number in (
            (late, signal.SIGSTOP),
            (killed, signal.SIGKILL),
            (late, signal.SIGCONT),
        ):
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)
            if number == signal.SIGSTOP:
                time.sleep(0.3)

    with (
        as_soon_as(
            lambda: entries(consortium, "va", study.name) >= 2, kill_after_its_answer
        ),
        pytest.raises(AggregationError, match=NOT_THERE) as error,
    ):
        begin(consortium, study)

    assert "cleveland did not answer" not in str(error.value)


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
    with submission(consortium.coordinator) as session:
        left = [job for job in session.jobs() if job["name"] == study.name]
    # NVFlare itself lists it as running from then on.
    assert left
    assert all(is_over(job["status"]) for job in left)

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


def test_clocks_that_are_a_day_off(consortium, undisturbed):
    study = asked(consortium, "clocks")
    clocks = str(Path(__file__).parent / "clocks")
    paths = os.pathsep.join([clocks, surroundings()["PYTHONPATH"]])
    day = 86_400
    shifts = {"hungary": -day, "va": day}
    # The certificates are of today. So of the silo that is late, the clock beneath
    # Python is right, as with older certificates; of the other all is wrong.
    wrong = {silo: {"PYTHONPATH": paths, "CLOCK_SHIFT": str(shifts[silo])}
             for silo in shifts}  # fmt: skip
    wrong["va"] = at_another_time("+1d") or wrong["va"]
    try:
        for silo, environment in wrong.items():
            consortium.kill(silo)
            consortium.start(silo, **environment)

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


# --- What the coordinator learns of a silo that fails ---------------------------------

CELL, FOLDER, NUMBER = "Mrs-Smith-4711", "ward-seven", "987654.125"


def fails(consortium, name, steps=HEART):
    """Run a study that must fail; return what its submitter is told."""
    path = consortium.folder / f"{name}.toml"
    text = study_text(name, steps).replace("timeout = 30", "timeout = 15")
    path.write_text(text + "[outputs]\nreport = false\n")
    with pytest.raises(UnpooledError) as caught:
        within(240.0, up.Study.from_file(path).run, kit=consortium.coordinator)
    return str(caught.value)


def of_silo(silo, source):
    return f'[silo]\nname = "{silo}"\nsource = "{source}"\nlabel = "num"\n'


@pytest.fixture
def ward(consortium):
    """A folder of va's with a telling name, and va's rows to be spoilt in it."""
    folder = consortium.kit("va") / FOLDER
    folder.mkdir()
    yield folder, polars.read_csv(consortium.kit("va") / "local" / "va-rows.csv")
    shutil.rmtree(folder)


def test_a_cell_that_is_no_number(consortium, ward):
    folder, rows = ward
    age = [CELL, *map(str, rows["age"].to_list()[1:])]
    rows.with_columns(polars.Series("age", age)).write_csv(folder / "rows.csv")
    with consortium.changed("va", "silo.toml", of_silo("va", folder / "rows.csv")):
        told = fails(consortium, "spoilt-cell")

    assert "va" in told
    assert "own log" in told
    assert_nothing_told(consortium, told)
    # The silo itself is told what is wrong, and where.
    assert FOLDER in consortium.log("va") + logs_of(consortium.kit("va"))


def test_rows_that_vanish_in_the_middle(consortium, ward):
    folder, rows = ward
    source = folder / "rows.parquet"
    rows.write_parquet(source)
    with (
        consortium.changed("va", "silo.toml", of_silo("va", source)),
        as_soon_as(lambda: entries(consortium, "va", "vanished") >= 1, source.unlink),
    ):
        told = fails(consortium, "vanished")

    assert "va could not answer" in told
    assert "source_unavailable" in told
    log = AuditLog(consortium.kit("va") / "state" / "audit.sqlite")
    assert log.study("vanished").refusals == 0
    assert_nothing_told(consortium, told)
    assert FOLDER in consortium.log("va") + logs_of(consortium.kit("va"))


def test_a_rule_says_no_about_a_number_that_stands_out(consortium, ward):
    folder, rows = ward
    chol = [float(NUMBER), *map(float, rows["chol"].fill_null(200).to_list()[1:])]
    rows.with_columns(polars.Series("chol", chol)).write_csv(folder / "rows.csv")
    rules = f"{POLICY}max_feature_ratio = 0.001\n"
    own = of_silo("va", folder / "rows.csv") + 'audit = "../state/ward.sqlite"\n'
    with (
        # Without earlier answers, since the new rows by themselves are refused first.
        consortium.settled(POLICY, audit="ward"),
        consortium.changed("va", "silo.toml", own),
        consortium.changed("va", "policy.toml", rules),
    ):
        told = fails(consortium, "stands-out")

    assert "max_feature_ratio" in told
    assert_nothing_told(consortium, told)


def logs_of(kit):
    return "".join(p.read_text("utf-8", "replace") for p in kit.rglob("*log*.txt"))


def assert_nothing_told(consortium, told):
    kits = [str(consortium.kit(silo)) for silo in SILOS]
    secrets = [CELL, FOLDER, NUMBER, *kits]
    # Lines of a traceback of the code that only silos run.
    secrets += ["unpooled/party/runtime.py", "unpooled/party/session.py"]
    assert not [secret for secret in secrets if secret in told]
    found = [
        (secret, where)
        for where, content in held_by_coordinator(consortium)
        for secret in secrets
        if secret.encode() in content
    ]
    assert not found


def held_by_coordinator(consortium):
    """Yield (name, bytes) of every file of server and coordinator, archives opened."""
    folders = [consortium.server, consortium.coordinator, consortium.folder / "runs"]
    paths = [path for folder in folders for path in folder.rglob("*")]
    for path in [*paths, consortium.folder / "server.log"]:
        if path.is_file():
            yield from opened(str(path), path.read_bytes())


def opened(name, content):
    yield name, content
    if content.startswith(b"PK") and zipfile.is_zipfile(io.BytesIO(content)):
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            for member in archive.namelist():
                yield from opened(f"{name}/{member}", archive.read(member))
