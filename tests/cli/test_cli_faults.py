"""Faults of the library itself: one line for the user, the traceback in a log."""

import errno

import pytest

from command_line import call, one_red_line, write_study
from unpooled.errors import ReleaseRefusedError
from unpooled.models.pca.pca import PCA


@pytest.fixture
def study(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return write_study(tmp_path)


def broken(*arguments, **options):
    raise TypeError("float() argument must be a number, not 'Federation'")


def test_a_fault_before_a_run_has_a_folder_goes_to_the_users_log(study, monkeypatch):
    monkeypatch.setattr(PCA, "_fit", broken)
    log = study.parent / "state" / "unpooled" / "log.txt"

    line = one_red_line(call("plan", study))

    assert "unexpected TypeError" in line
    assert line.rstrip().endswith(str(log))
    assert "float()" not in line
    text = log.read_text()
    assert "Traceback" in text
    assert "not 'Federation'" in text
    assert log.stat().st_mode & 0o077 == 0


@pytest.mark.slow
@pytest.mark.parametrize("command", ["run", "resume"])
def test_a_fault_in_a_run_goes_to_the_runs_log(study, monkeypatch, command):
    monkeypatch.setattr("unpooled.study.run.save", broken)
    log = study.parent / "runs" / "small" / "log.txt"
    if command == "resume":
        call("run", study)
        log.unlink()

    line = one_red_line(call(command, study))

    assert line.rstrip().endswith(str(log))
    assert "TypeError: float()" in log.read_text()


@pytest.mark.slow
def test_a_fault_in_a_report_goes_to_the_runs_log(study, monkeypatch):
    assert call("run", study).exit_code == 0
    monkeypatch.setattr("unpooled.study.reporting.facts_of_run", broken)
    folder = study.parent / "runs" / "small"

    assert str(folder / "log.txt") in one_red_line(call("report", folder))
    assert "Traceback" in (folder / "log.txt").read_text()


def test_a_log_that_cannot_be_written_is_no_second_fault(study, monkeypatch):
    monkeypatch.setattr(PCA, "_fit", broken)
    (study.parent / "state").write_text("a file")

    assert "see it with --debug" in one_red_line(call("plan", study))


@pytest.mark.thinned(1)
@pytest.mark.parametrize(
    ("error", "says"),
    [
        (PermissionError(errno.EACCES, "Permission denied", "kit/x"),
         "Error: kit/x: Permission denied. Run the command as the user who owns it"),
        (OSError(errno.ENOSPC, "No space left on device"),
         "Error: No space left on device. Make room on that disk"),
        (OSError(errno.EROFS, "Read-only file system", "runs"),
         "Error: runs: Read-only file system. Name a folder on a disk that can be"),
        (FileExistsError(errno.EEXIST, "File exists", "kits"),
         "Error: kits: File exists."),
        (OSError("the proxy says no"), "Error: the proxy says no"),
    ],
)  # fmt: skip
def test_what_the_system_refuses_is_a_sentence(study, monkeypatch, error, says):
    def refused(*arguments, **options):
        raise error

    monkeypatch.setattr(PCA, "_fit", refused)

    line = one_red_line(call("plan", study))

    assert line.startswith(says)
    assert "Errno" not in line


@pytest.mark.slow
def test_what_was_fitted_before_a_refusal_is_not_lost(study, monkeypatch):
    def refused(*arguments, **options):
        raise ReleaseRefusedError("a", "pca.local_scatter", "max_released_share", "")

    study.write_text(f"{study.read_text()}[evaluate]\ncv = 2\n")
    monkeypatch.setattr("unpooled.study.run.evaluate", refused)
    folder = study.parent / "runs" / "small"

    ran = call("run", study, "--quiet")

    assert "a refused pca.local_scatter" in one_red_line(ran)
    says = "Finished: standardscaler, pca. See the results with: unpooled results "
    says += str(folder)
    assert ran.stdout.splitlines()[-1] == says
    assert "Explained variance" in call("results", folder).stdout
    # Of another study that finds the folder taken, nothing is finished.
    again = call("run", study, "--quiet")
    assert "Finished" not in again.output
    assert says in call("resume", study, "--quiet").stdout


def test_debug_shows_the_fault_itself(study, monkeypatch):
    monkeypatch.setattr(PCA, "_fit", broken)

    result = call("plan", study, "--debug")

    assert isinstance(result.exception, TypeError)
