"""The package as a stranger gets it: built, installed without extras, used."""

import subprocess
import tomllib
import venv
from pathlib import Path

import pytest

import unpooled

CHECKOUT = Path(__file__).resolve().parents[2]

# Every public name loads its module, and so whatever that module imports.
USE = """
import importlib.metadata, importlib.resources, importlib.util
import unpooled

for name in unpooled.__all__:
    getattr(unpooled, name)
assert importlib.metadata.version("unpooled") == unpooled.__version__
files = importlib.resources.files("unpooled")
assert files.joinpath("py.typed").is_file()
assert len([p for p in files.joinpath("data/heart_disease").iterdir()
            if p.name.endswith(".csv")]) == 4
for extra in ("pandas", "polars", "jaxtyping", "beartype", "pytest", "nvflare", "mpyc",
              "adbc_driver_manager"):
    assert importlib.util.find_spec(extra) is None, extra
"""

TOOLS = {"test", "lint", "docs", "experiments", "release"}


def extras():
    """Return what the package's extras ask for: extra -> requirements."""
    text = (CHECKOUT / "pyproject.toml").read_text("utf-8")
    return tomllib.loads(text)["project"]["optional-dependencies"]


def test_all_has_every_extra_for_users_and_dev_the_tools_too():
    found = extras()
    for extra, wanted in [
        ("all", set(found) - TOOLS - {"all", "dev"}),
        ("dev", TOOLS | {"all"}),
    ]:
        (requirement,) = found[extra]
        assert requirement.startswith("unpooled[")
        names = requirement.removeprefix("unpooled[").removesuffix("]").split(",")
        assert (set(names), len(names)) == (wanted, len(wanted))


def test_the_changelog_and_the_citation_have_the_version():
    changelog = (CHECKOUT / "CHANGELOG.md").read_text("utf-8")
    version = changelog.partition("## [")[2].partition("]")[0]

    assert unpooled.__version__ in (version, f"{version}.dev0")
    readme = (CHECKOUT / "README.md").read_text("utf-8")
    assert f"version {unpooled.__version__}." in readme


@pytest.mark.slow
def test_the_core_alone_is_enough(tmp_path):
    venv.create(tmp_path / "venv", with_pip=True)
    binaries = tmp_path / "venv" / "bin"
    pip = [binaries / "python", "-m", "pip", "install", "--quiet"]
    subprocess.run([*pip, CHECKOUT], check=True)

    # -I: neither the checkout nor the caller's PYTHONPATH may lend a module.
    subprocess.run([binaries / "python", "-I", "-c", USE], check=True, cwd=tmp_path)
    shown = subprocess.run(
        [binaries / "unpooled", "--help"], check=True, capture_output=True, text=True
    )

    assert "demo" in shown.stdout
    # What a newcomer does first, in an empty folder.
    folder = tmp_path / "newcomer"
    folder.mkdir()
    readme = (CHECKOUT / "README.md").read_text("utf-8")
    example = readme.partition("```python\n")[2].partition("```")[0]
    wanted = readme.partition("```text\n")[2].partition("```")[0]
    python = binaries / "python", "-I", "-c", example
    assert in_folder(folder, *python) == wanted
    for words in NEWCOMER:
        said = in_folder(folder, binaries / "unpooled", *words.split())
        assert said, words
    assert (folder / "heart/runs/heart/results/pca/loadings.csv").is_file()


# In this order; the last two show what the one before wrote.
NEWCOMER = (
    "demo --quiet",
    "demo --study heart",
    "plan heart/study.toml",
    "run heart/study.toml --quiet",
    "resume heart/study.toml --quiet",
    "results heart/runs/heart",
    "report heart/runs/heart",
)


def in_folder(folder, *command):
    """Run a command in a folder; return what it writes, and nothing to stderr."""
    ended = subprocess.run(
        command, check=False, cwd=folder, capture_output=True, text=True
    )
    assert (ended.returncode, ended.stderr) == (0, ""), (command, ended.stderr)
    return ended.stdout
