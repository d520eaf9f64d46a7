"""Every benchmark runs with ``--quick`` and leaves committed tables as they are."""

import runpy
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"
# Parts of other scripts.
IMPORTED = {"engine_ends", "fedsvd"}
# Those over a real server and silos.
FEDERATIONS = {"engine_rounds", "many_studies"}
SCRIPTS = sorted({path.stem for path in FOLDER.glob("*.py")} - IMPORTED)


def test_every_benchmark_has_a_quick_mode():
    assert IMPORTED | FEDERATIONS <= {path.stem for path in FOLDER.glob("*.py")}
    for name in SCRIPTS:
        assert '"--quick"' in (FOLDER / f"{name}.py").read_text(), name


def run_quick(name, monkeypatch):
    """Run a script in this process, which has loaded the libraries."""
    # The name of a module here is that of a script there.
    for module in {path.stem for path in FOLDER.glob("*.py")} & set(sys.modules):
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.syspath_prepend(FOLDER)
    # Scripts set it too, which is undone with it.
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")
    script = str(FOLDER / f"{name}.py")
    monkeypatch.setattr(sys, "argv", [script, "--quick"])
    before = {path: path.read_bytes() for path in (FOLDER / "results").iterdir()}
    runpy.run_path(script, run_name="__main__")
    after = {path: path.read_bytes() for path in (FOLDER / "results").iterdir()}
    assert after == before


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in SCRIPTS if n not in FEDERATIONS])
# A benchmark may warn, such as of people fewer than columns.
@pytest.mark.filterwarnings("default")
def test_a_quick_benchmark_prints_its_figures(name, monkeypatch, capsys):
    run_quick(name, monkeypatch)
    assert "|" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.federation
@pytest.mark.parametrize("name", sorted(FEDERATIONS))
def test_a_quick_benchmark_over_a_federation_prints_its_figures(
    name, monkeypatch, capsys
):
    run_quick(name, monkeypatch)
    assert "|" in capsys.readouterr().out
