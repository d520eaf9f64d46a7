"""The command as a test calls it, and a small study for it."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars
from rich.cells import cell_len
from typer.testing import CliRunner

import unpooled as up
from unpooled.cli import app

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


def too_wide(text, width):
    return [line for line in text.splitlines() if cell_len(line.rstrip()) > width]


def one_red_line(result):
    assert result.exit_code == 1
    assert "Traceback" not in result.output
    assert result.stderr.startswith("Error: ")
    assert result.stderr.count("\n") == 1
    return result.stderr
