"""The command: what it shows, what it writes, and how it ends."""

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import unpooled as up
from command_line import SOURCE, call, in_a_process, one_red_line, too_wide, write_study
from unpooled import cli


@pytest.fixture
def study(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    write_study(tmp_path)
    return Path("study.toml")


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """The output of a run, and its folder."""
    path = write_study(tmp_path_factory.mktemp("done"))
    result = call("run", path)
    assert result.exit_code == 0, result.output
    return result.output, path.parent / "runs" / "small"


@pytest.mark.slow
def test_help_lists_the_commands():
    result = call("--help")

    assert result.exit_code == 0
    for command in ("demo", "plan", "run", "resume", "report"):
        assert re.search(rf"\b{command}\b", result.output)
        assert call(command, "--help").exit_code == 0


@pytest.mark.slow
def test_help_loads_nothing_heavy():
    heavy = ("numpy", "scipy", "sklearn", "pyarrow", "matplotlib", "cryptography")
    code = (
        f"import sys; from unpooled.cli import app\n"
        f"try: app(['--help'])\n"
        f"except SystemExit: pass\n"
        f"sys.exit(' '.join(n for n in {heavy} if n in sys.modules) or 0)"
    )
    shown = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert shown.returncode == 0, shown.stderr


def test_the_version_is_shown():
    assert call("--version").output == f"unpooled {up.__version__}\n"


@pytest.mark.slow
@pytest.mark.parametrize(("argument", "code"), [("--version", 0), ("plan", 2)])
def test_the_package_is_the_command_too(argument, code):
    done = subprocess.run(
        [sys.executable, "-m", "unpooled", argument],
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == code, done.stderr
    assert ("Usage: python -m unpooled plan" in done.stderr) == (argument == "plan")


@pytest.mark.thinned(1)
@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["frobnicate"],
        ["plan"],
        ["plan", "absent.toml"],
        ["run", "."],
        ["report", "study.toml"],
        ["run", "study.toml", "--frob"],
        ["demo", "--out"],
    ],
    ids=str,
)
def test_wrong_use_ends_with_2(study, arguments):
    assert call(*arguments).exit_code == 2


@pytest.mark.slow
def test_a_command_ends_with_0_1_or_2(study):
    planned = call("plan", study)
    assert planned.exit_code == 0
    assert "pca.local_scatter" in planned.stdout
    assert planned.stderr == ""

    study.write_text(study.read_text().replace("PCA", "PCB"))
    # A process, whose interpreter could still write a traceback.
    failed = in_a_process("plan", study)
    assert failed.returncode == 1
    assert failed.stdout == ""
    assert failed.stderr.startswith(
        'Error: study.toml, [steps 2] model: "PCB" is unknown'
    )
    assert failed.stderr.count("\n") == 1

    assert call("plan").exit_code == 2


def test_debug_shows_where_an_error_came_from(study):
    study.write_text("[study")

    assert "is not TOML" in one_red_line(call("plan", study))
    result = call("plan", study, "--debug")
    assert result.exit_code == 1
    assert isinstance(result.exception, up.errors.StudyError)


# --- Plans.


@pytest.mark.thinned(1)
@pytest.mark.parametrize("width", [80, 120])
def test_a_plan_shows_every_array_and_runs_nothing(study, width):
    result = call("plan", study, width=width)

    assert result.exit_code == 0
    assert too_wide(result.output, width) == []
    flat = " ".join(result.output.split())
    for line in up.Study.from_file(study).plan().releases:
        assert line.step in flat
    assert "Nothing has left any silo" in flat
    assert "6 rounds. Each of 3 silos sends" in flat
    assert sorted(path.name for path in Path().iterdir()) == [
        "a.csv", "b.csv", "c.csv", "study.toml",
    ]  # fmt: skip


@pytest.mark.slow
def test_a_plan_that_a_silo_would_refuse_ends_with_1(study):
    write_study(Path(), policy="min_rows = 31")

    result = call("plan", study)

    assert result.exit_code == 1
    assert "Would be refused" in result.output
    assert "min_rows" in result.output
    assert too_wide(result.output, 80) == []
    assert "min_rows" in one_red_line(call("run", study))


def test_a_plan_without_protection_says_so(study):
    study.write_text(study.read_text().replace("[parties.a]",
        'secure_sum = "plain"\n[parties.a]', 1))  # fmt: skip

    assert "no protection" in " ".join(call("plan", study).output.split())


# --- Runs.


def test_a_run_shows_plain_lines_and_results(done):
    output, folder = done

    lines = re.findall(
        r"^round (\d) of 6: (\S+), 3 silos, ([\d,]+) bytes", output, re.M
    )
    assert [int(number) for number, _, _ in lines] == [1, 2, 3, 4, 5, 6]
    ledger = up.Ledger.from_json((folder / "ledger.jsonl").read_text())
    sent = [int(sent.replace(",", "")) for _, _, sent in lines]
    assert sum(sent) == ledger.bytes_out()
    assert f"{ledger.bytes_out():,}" in output
    assert "Cumulative" in output
    assert "Loadings" in output
    assert "Study small is done" in output
    assert too_wide(output.replace(str(folder), ""), 80) == []


def test_a_run_into_a_full_folder_is_one_red_line(study):
    Path("runs/small").mkdir(parents=True)
    Path("runs/small/thesis.txt").touch()

    assert "runs/small is not empty" in one_red_line(call("run", study))
    assert "state.json" in one_red_line(call("resume", study))


def test_sigterm_ends_a_run_as_ctrl_c_does_and_asks_nothing(study, monkeypatch):
    stops, before = [], signal.getsignal(signal.SIGTERM)

    def ended(self, folder=None, *, stop, **_):
        try:
            signal.raise_signal(signal.SIGTERM)
        except KeyboardInterrupt:
            stops.append(stop())
            raise

    monkeypatch.setattr(up.Study, "run", ended)
    monkeypatch.setattr(cli, "_confirm_stop", lambda *_: pytest.fail("a question"))

    stopped = call("run", study)

    assert "Stopped. Continue with: unpooled resume study.toml" in one_red_line(stopped)
    assert stops == [True]
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.slow
def test_a_run_can_go_elsewhere_and_be_continued(study, monkeypatch):
    real, heard = up.Study.run, []

    def killed(self, folder=None, *, listener=None, planned=None, **_):
        def listen(*event):
            heard.append(event)
            if len(heard) == 20:
                raise KeyboardInterrupt
            assert listener is not None
            listener(*event)

        return real(self, folder, listener=listen, planned=planned)

    monkeypatch.setattr(up.Study, "run", killed)
    stopped = call("run", study, "--out", "there")
    assert "resume study.toml --out there\n" in one_red_line(stopped)
    assert "Stopped: KeyboardInterrupt" in Path("there/log.txt").read_text()

    assert "no run in runs/small" in one_red_line(call("resume", study))
    result = call("resume", study, "--out", "there", "--quiet")

    assert result.exit_code == 0
    assert "standardscaler" in result.output.split("What left")[0]
    assert Path("there/report.html").exists()
    assert not Path("runs").exists()
    # The folder knows its study file.
    assert "is done" in call("resume", "there").output
    monkeypatch.chdir("there")
    assert "is done" in call("resume", ".").output
    monkeypatch.chdir("..")
    Path("study.toml").rename("other.toml")
    assert "study file study.toml, which is not" in one_red_line(
        call("resume", "there")
    )
    Path("other.toml").rename("study.toml")
    # Continuing what is done shows it again, and --resume of nothing starts.
    assert "is done" in call("run", study, "--resume", "--out", "there").output
    monkeypatch.setattr(up.Study, "run", real)
    assert call("run", study, "--resume").exit_code == 0


@pytest.mark.slow
def test_a_report_is_written_again(done, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(done[1], folder)
    (folder / "report.html").unlink()

    result = call("report", folder)

    assert result.exit_code == 0
    assert result.output == f"{folder / 'report.html'}\n"
    assert "</html>" in (folder / "report.html").read_text()
    (folder / "state.json").unlink()
    assert "is not the folder of a run" in one_red_line(call("report", folder))


@pytest.mark.slow
def test_names_cannot_write_on_the_terminal(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_study(tmp_path, ["\x1b[2Jage", "\u202echol", "[red]thal[/red]"])

    shown = call("run", "study.toml")
    assert shown.exit_code == 0
    assert not {"\x1b", "\u202e"} & set(shown.output)
    assert "[red]thal[/red]" in shown.output

    Path("c.csv").write_text('"\x1b[2Jage"\n1\n')
    assert "\x1b" not in one_red_line(call("run", "study.toml", "--out", "again"))
