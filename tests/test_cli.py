"""The command: what it shows, what it writes, and how it ends."""

import dataclasses
import io
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars
import pytest
from rich.cells import cell_len
from rich.console import Console
from typer.testing import CliRunner

import unpooled as up
from unpooled.cli import app
from unpooled.cli.progress import Display
from unpooled.cli.tables import left_table, loadings_table, plan_table, variance_table
from unpooled.cli.words import count, printable, shape, size
from unpooled.data import heart_disease

SOURCE = Path(up.__file__).parents[1]
MAIN = "import sys; sys.argv[0] = 'unpooled'; from unpooled.cli import main; main()"
STEPS = '[[steps]]\nmodel = "StandardScaler"\n[[steps]]\nmodel = "PCA"\n'


def call(*arguments, width=80):
    return CliRunner().invoke(
        app, [str(a) for a in arguments], env={"COLUMNS": str(width)}
    )


def in_a_process(*arguments, **options):
    return subprocess.run(
        [sys.executable, "-c", MAIN, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(SOURCE), "COLUMNS": "80"},
        **options,
    )


def write_study(folder, names=("age", "chol", "thal"), policy="", steps=STEPS):
    rng = np.random.default_rng(0)
    for silo in ("a", "b", "c"):
        frame = polars.DataFrame(rng.normal(size=(30, len(names))), list(names))
        frame.write_csv(folder / f"{silo}.csv")
    parties = "".join(f'[parties.{s}]\nsource = "{s}.csv"\n' for s in "abc")
    text = f'[study]\nname = "small"\n{parties}[policy]\n{policy}\n{steps}'
    (folder / "study.toml").write_text(text)
    return folder / "study.toml"


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


def too_wide(text, width):
    return [line for line in text.splitlines() if cell_len(line.rstrip()) > width]


def one_red_line(result):
    assert result.exit_code == 1
    assert "Traceback" not in result.output
    assert result.stderr.startswith("Error: ")
    assert result.stderr.count("\n") == 1
    return result.stderr


# --- Use and wrong use.


def test_help_lists_the_commands():
    result = call("--help")

    assert result.exit_code == 0
    for command in ("demo", "plan", "run", "resume", "report"):
        assert re.search(rf"\b{command}\b", result.output)
        assert call(command, "--help").exit_code == 0


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


def test_a_process_ends_with_0_1_or_2(study):
    planned = in_a_process("plan", study)
    assert planned.returncode == 0
    assert "pca.local_scatter" in planned.stdout
    assert planned.stderr == ""

    study.write_text(study.read_text().replace("PCA", "PCB"))
    failed = in_a_process("plan", study)
    assert failed.returncode == 1
    assert failed.stdout == ""
    assert failed.stderr.startswith(
        'Error: study.toml, [steps 2] model: "PCB" is unknown'
    )
    assert failed.stderr.count("\n") == 1

    assert in_a_process("plan").returncode == 2


def test_debug_shows_where_an_error_came_from(study):
    study.write_text("[study")

    assert "is not TOML" in one_red_line(call("plan", study))
    result = call("plan", study, "--debug")
    assert result.exit_code == 1
    assert isinstance(result.exception, up.errors.StudyError)


# --- Plans.


@pytest.mark.parametrize("width", [80, 120])
def test_a_plan_shows_every_array_and_runs_nothing(study, width):
    result = call("plan", study, width=width)

    assert result.exit_code == 0
    assert too_wide(result.output, width) == []
    flat = " ".join(result.output.split())
    for line in up.Study.from_file(study).plan().releases:
        assert line.step in flat
    assert "Nothing has left any silo" in flat
    assert "5 rounds. Each of 3 silos sends" in flat
    assert sorted(path.name for path in Path().iterdir()) == [
        "a.csv", "b.csv", "c.csv", "study.toml",
    ]  # fmt: skip


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
        r"^round (\d) of 5: (\S+), 3 silos, ([\d,]+) bytes", output, re.M
    )
    assert [int(number) for number, _, _ in lines] == [1, 2, 3, 4, 5]
    ledger = up.Ledger.from_json((folder / "ledger.jsonl").read_text())
    sent = [int(sent.replace(",", "")) for _, _, sent in lines]
    assert sum(sent) == ledger.bytes_out()
    assert f"{ledger.bytes_out():,}" in output
    assert "cumulative" in output
    assert "leading loadings" in output
    assert "Study small is done" in output
    assert too_wide(output.replace(str(folder), ""), 80) == []


def test_a_run_into_a_full_folder_is_one_red_line(study):
    Path("runs/small").mkdir(parents=True)
    Path("runs/small/thesis.txt").touch()

    assert "runs/small is not empty" in one_red_line(call("run", study))
    assert "state.json" in one_red_line(call("resume", study))


def test_a_run_can_go_elsewhere_and_be_continued(study, monkeypatch):
    real, heard = up.Study.run, []

    def killed(self, folder=None, *, listener=None, planned=None):
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
    assert "standardscaler" not in result.output.split("What left")[0]
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


def test_names_cannot_write_on_the_terminal(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_study(tmp_path, ["\x1b[2Jage", "\u202echol", "[red]thal[/red]"])

    shown = call("run", "study.toml")
    assert shown.exit_code == 0
    assert not {"\x1b", "\u202e"} & set(shown.output)
    assert "[red]thal[/red]" in shown.output

    Path("c.csv").write_text('"\x1b[2Jage"\n1\n')
    assert "\x1b" not in one_red_line(call("run", "study.toml", "--out", "again"))


# --- The demo.


@pytest.fixture(scope="module")
def demos(tmp_path_factory):
    """What the demo shows, by the width of the window."""
    shown, home = {}, Path.cwd()
    try:
        for width in (80, 120):
            os.chdir(tmp_path_factory.mktemp(f"demo{width}"))
            result = call("demo", "--out", "out", width=width)
            assert result.exit_code == 0, result.output
            shown[width] = result.output, Path("out/report.html").read_text()
    finally:
        os.chdir(home)
    return shown


@pytest.mark.parametrize("width", [80, 120])
def test_the_demo_fits_the_window(demos, width):
    assert too_wide(demos[width][0], width) == []


def test_the_demo_tells_everything_in_order(demos):
    output, report = demos[120]

    parts = [
        "Who takes part",
        "Each silo's rules",
        "Fitting",
        "round 6 of 6: pca.local_scatter, 4 silos",
        "What came of it",
        "Agreement with scikit-learn on pooled rows",
        "What left each silo",
        "The report",
    ]
    places = [output.index(part) for part in parts]
    assert places == sorted(places)
    words = ["cleveland", "hungary", "switzerland", "Only a demo can", "PC5", "thalach"]
    for word in [*words, "Fewest silos in a study", "out/report.html"]:
        assert word in output
    assert "</html>" in report


def test_the_demo_agrees_with_pooled_data(demos):
    for output, _ in demos.values():
        part = output.split("Agreement")[1].split("What left")[0]
        found = re.findall(r"^(\S+).* (\d\.\de[+-]\d+)", part, re.M)

        assert [name for name, _ in found] == [
            "components_", "explained_variance_", "transform",
        ]  # fmt: skip
        # The secure sum keeps twelve digits; scores are of the order of ten.
        assert all(float(difference) < 1e-9 for _, difference in found)


def test_the_demo_writes_its_study(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    result = call("demo", "--study", "heart")

    assert result.exit_code == 0
    assert "unpooled plan heart/study.toml" in result.output
    assert call("plan", "heart/study.toml").exit_code == 0
    assert "exists" in one_red_line(call("demo", "--study", "heart"))
    assert call("run", "heart/study.toml").exit_code == 0
    fitted = up.load("heart/runs/heart/pipeline.unpooled")
    federation = up.simulate(heart_disease.load(), label="num")
    alone = up.SimpleImputer().fit(federation)
    assert np.array_equal(fitted[0].statistics_, alone.statistics_)


def test_a_demo_that_cannot_write_is_one_red_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("file").touch()

    assert "file" in one_red_line(call("demo", "--out", "file"))


# --- Progress, tables and words.


def planned_and_heard(model=None):
    federation = up.simulate(
        up.partition_rows(np.random.default_rng(1).normal(size=(60, 3)), 3)
    )
    model = model or up.PCA(2)
    plan, heard = up.plan(model, federation), []
    coordinator: Any = federation.coordinator
    coordinator.listeners.append(lambda *event: heard.append(event))
    model.fit(federation)
    return plan, heard, federation


def test_a_terminal_gets_a_bar():
    plan, heard, _ = planned_and_heard()
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=80, color_system=None)

    with Display(console) as display:
        display.planned(plan)
        for event in heard:
            display.listener(*event)

    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", out.getvalue())
    assert f"3/3 rounds {size(plan.bytes)} per silo 3/3 silos" in shown
    assert too_wide(shown.replace("\r", "\n"), 80) == []


@pytest.mark.parametrize("terminal", [True, False])
def test_quiet_and_files_get_plain_lines(terminal):
    plan, heard, federation = planned_and_heard()
    out = io.StringIO()
    console = Console(file=out, force_terminal=terminal, width=80)

    with Display(console, quiet=terminal) as display:
        display.planned(plan)
        for event in heard:
            display.listener(*event)

    lines = out.getvalue().splitlines()
    assert [line.split(":")[0] for line in lines] == [
        f"round {k} of 3" for k in (1, 2, 3)
    ]
    first = [
        x.bytes for x in federation.ledger if x.round == 1 and x.direction == "out"
    ]
    assert lines[0].endswith(f"pca.local_total, 3 silos, {sum(first)} bytes from each")


def test_more_rounds_than_planned_are_shown_too():
    plan, heard, _ = planned_and_heard()
    out = io.StringIO()

    with Display(Console(file=out, width=80)) as display:
        display.planned(plan)
        for party, step, number in [*heard, *((p, s, n + 3) for p, s, n in heard)]:
            display.listener(party, step, number)

    assert out.getvalue().count("\n") == 6


def shown(table, width=80):
    out = io.StringIO()
    Console(file=out, width=width).print(table)
    return out.getvalue()


def test_tables_stay_within_the_window():
    names = [f"a_rather_long_name_of_a_column_{j}" for j in range(3)]
    federation = up.simulate(
        {s: polars.DataFrame(np.random.default_rng(k).normal(size=(30, 3)), names)
         for k, s in enumerate("abc")}
    )  # fmt: skip
    pca = up.PCA().fit(federation)
    tables = [
        plan_table(up.plan(up.PCA(), federation)),
        left_table(federation.ledger),
        variance_table(pca),
        loadings_table(pca, names),
    ]
    for table in tables:
        for width in (60, 80, 120):
            assert too_wide(shown(table, width), width) == []


def test_what_is_more_than_a_total_stands_out():
    federation = up.simulate(up.partition_rows(np.ones((60, 2)), 3))
    up.StandardScaler().fit(federation)
    line = dataclasses.replace(federation.ledger[0], visibility="disclosed")

    plan = up.Plan((line,), (), ("a", "b", "c"), "masked")
    assert "disclosed: not only a total" in " ".join(shown(plan_table(plan)).split())
    assert "as a total only" not in shown(left_table(up.Ledger([line])))


def test_a_model_without_variance_has_no_bars():
    class Flat:
        explained_variance_ = np.zeros(2)
        explained_variance_ratio_ = np.zeros(2)

    assert "0.0%" in shown(variance_table(Flat()))


@pytest.mark.parametrize(
    ("n", "text"),
    [
        (0, "0 bytes"),
        (9999, "9,999 bytes"),
        (10_000, "10.0 kB"),
        (999_949, "999.9 kB"),
        (999_950, "1.0 MB"),
        (38_000_000, "38.0 MB"),
        (2 * 10**9, "2.0 GB"),
        (10**16, "10000.0 TB"),
    ],
)
def test_bytes_as_people_read_them(n, text):
    assert size(n) == text


def test_shapes_counts_and_names():
    assert shape(()) == "1"
    assert shape((3, 4000)) == "3 × 4,000"
    assert count(1, "silo") == "1 silo"
    assert count(1000, "silo") == "1,000 silos"
    assert printable("a\nb\x1b[31m\u202e") == "a b\ufffd[31m\ufffd"
