"""The pages tell the truth: their code runs, and prints what they say it prints.

A fenced block is run by its language, page by page, in order, in an empty folder:

    python                      run, all of a page in one namespace; what it prints is
                                the block ``text`` that follows, or nothing
    python, toml with a title   a file of that name, or the next part of one
    console                     the lines after "$ " are run, the others are the output

In an output "..." stands for anything, as in doctest.
"""

import contextlib
import doctest
import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest
import typer

import unpooled
from tiers import slow
from unpooled.cli import app
from unpooled.errors import RULES
from unpooled.models.files.catalogue import estimators
from unpooled.party.rules.policy import Policy
from unpooled.protocol.step import home_of, steps_of

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
README = ROOT / "README.md"
PAGES = [README, *sorted(DOCS.rglob("*.md"))]
FENCE = re.compile(r"^```([a-z]*)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TITLE = re.compile(r'title="([^"]+)"')
LINK = re.compile(r"\]\(([^)\s]+)\)")
TEST = re.compile(r"`((?:tests/[\w/]+/)?(test_\w+)(\.py)?)`")
PROGRAMS = {
    "unpooled": ["-c", "from unpooled.cli import main; main()"],
    "pytest": ["-m", "pytest", "-p", "no:cacheprovider"],
}


@dataclass(frozen=True)
class Block:
    language: str
    title: str
    content: str
    line: int


NOTHING = Block("", "", "", 0)


def _hook() -> Any:
    path = DOCS / "hooks" / "generated_tables.py"
    spec = spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


generated_tables = _hook()


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def blocks_of(page: Path) -> list[Block]:
    text = page.read_text("utf-8")
    return [
        Block(
            found[1],
            title[1] if (title := TITLE.search(found[2])) else "",
            found[3],
            text[: found.start()].count("\n") + 2,
        )
        for found in FENCE.finditer(text)
    ]


def runnable(page: Path) -> bool:
    return any(block.language in ("python", "console") for block in blocks_of(page))


def assert_printed(page: Path, line: int, wanted: str, printed: str) -> None:
    def stripped(text: str) -> str:
        return "".join(row.rstrip() + "\n" for row in text.strip("\n").splitlines())

    same = doctest.OutputChecker().check_output(
        stripped(wanted), stripped(printed), doctest.ELLIPSIS
    )
    # Written out, so that a page is corrected by copying from the report.
    assert same, f"{name_of(page)}, line {line}, printed:\n{stripped(printed)}"


def run_python(page: Path, block: Block, names: dict, wanted: str) -> None:
    # The offset makes the line numbers of a traceback those of the page.
    source = "\n" * (block.line - 1) + block.content
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(source, str(page), "exec"), names)
    assert_printed(page, block.line, wanted, printed.getvalue())


def run_console(page: Path, block: Block) -> None:
    environment = os.environ | {
        "COLUMNS": "80",
        "NO_COLOR": "1",
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(Path.cwd())]),
    }
    for command in re.split(r"^\$ ", block.content, flags=re.MULTILINE)[1:]:
        typed, _, wanted = command.partition("\n")
        program, *arguments = shlex.split(typed)
        done = subprocess.run(
            [sys.executable, *PROGRAMS[program], *arguments],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        assert done.returncode == 0, f"{typed}\n{done.stdout}{done.stderr}"
        assert_printed(page, block.line, wanted, done.stdout)


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Iterator[Path]:
    """An empty working folder; modules that a page writes there are forgotten."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]


@pytest.mark.thinned("README.md", "docs/index.md", "docs/matching.md")
@pytest.mark.parametrize(
    "page",
    slow(
        [(name_of(page), page) for page in filter(runnable, PAGES)],
        "docs/adding-an-estimator.md",
        "docs/study-files.md",
        "docs/yeo-johnson.md",
    ),
)
def test_page_runs(page, folder):
    blocks, names = blocks_of(page), {"__name__": "__main__"}

    for block, following in zip(blocks, [*blocks[1:], NOTHING], strict=True):
        if block.title:
            with (folder / block.title).open("a", encoding="utf-8") as file:
                file.write(block.content + "\n\n")
        elif block.language == "python":
            shown = following.content if following.language == "text" else ""
            run_python(page, block, names, shown)
        elif block.language == "console":
            run_console(page, block)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_fence_has_a_language_that_this_test_knows(page):
    known = {"python", "text", "toml", "console", "bibtex", "json", "sh"}

    assert page.read_text("utf-8").count("\n```") % 2 == 0
    assert [b for b in blocks_of(page) if b.language and b.language not in known] == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_to_files(page):
    targets = [link.split("#")[0] for link in LINK.findall(page.read_text("utf-8"))]
    local = [target for target in targets if target and "://" not in target]

    assert [t for t in local if not (page.parent / t).resolve().exists()] == []


# Where operators read commands: pages, and the files that they copy.
WRITTEN = [*PAGES, ROOT / "SECURITY.md", ROOT / "CONTRIBUTING.md"]
WRITTEN += sorted((ROOT / "deploy").glob("*.service"))
INLINE = re.compile(r"`(unpooled [^`]+)`")
TYPED = re.compile(
    r"^(?:\$ |ExecStart=\S+/|#\s+)?(?:\w+=\S+ )*(unpooled .+)$", re.MULTILINE
)


def commands_of(path: Path) -> list[str]:
    """Return the commands that a page or file shows, with what follows them."""
    text = path.read_text("utf-8").replace("\\\n", " ")
    fences = [found.group() for found in FENCE.finditer(text)]
    prose = FENCE.sub("", text)
    typed = [text] if path.suffix == ".service" else fences
    found = [" ".join(match.split()) for match in INLINE.findall(prose)]
    return found + [line for block in typed for line in TYPED.findall(block)]


def wrong_in(line: str) -> str:
    """Return the word of a command line that the command does not know, if any."""
    words = re.split(r" [#|>&]|;", line)[0].split()[1:]
    known: Any = typer.main.get_command(app)
    while hasattr(known, "commands") and words and re.match("[a-z]", words[0]):
        if words[0] not in known.commands:
            return words[0]
        known = known.commands[words.pop(0)]
    options = {name for one in known.params for name in one.opts} | {"--help"}
    given = [word.partition("=")[0] for word in words if word.startswith("--")]
    return next((name for name in given if name not in options), "")


@pytest.mark.thinned(1)
@pytest.mark.parametrize("path", WRITTEN, ids=name_of)
def test_every_command_that_is_shown_exists_with_its_options(path):
    wrong = [(line, word) for line in commands_of(path) if (word := wrong_in(line))]

    assert not wrong


def test_commands_are_found_and_judged():
    page = commands_of(DOCS / "operations.md")
    assert "unpooled silo start --kit KIT" in page  # behind a proxy's address
    assert any(line.startswith("unpooled provision federation.toml") for line in page)
    assert len(page) > 30
    assert commands_of(ROOT / "deploy" / "unpooled-server.service")
    assert wrong_in("unpooled silo pin bundle.toml --kits KIT") == "--kits"
    assert wrong_in("unpooled silo pinn bundle.toml") == "pinn"
    assert wrong_in("unpooled silo log --verify --against ledger.jsonl # all") == ""


def test_named_tests_exist():
    """A claim that names its test is worth as much as the test."""
    files = {file.name: file for file in (ROOT / "tests").rglob("test_*.py")}
    functions = {
        name
        for file in files.values()
        for name in re.findall(r"^def (test_\w+)", file.read_text("utf-8"), re.M)
    }

    missing = [
        f"{name_of(page)}: {named}"
        for page in DOCS.rglob("*.md")
        for named, stem, is_file in TEST.findall(page.read_text("utf-8"))
        if (is_file and f"{stem}.py" not in files)
        or (is_file and "/" in named and not (ROOT / named).exists())
        or (not is_file and stem not in functions)
    ]

    assert missing == []


def test_architecture_leads_to_files_and_functions_that_exist():
    sources = list((ROOT / "src").rglob("*.py"))
    texts = "\n".join(source.read_text("utf-8") for source in sources)
    defined = set(re.findall(r"(?:def|class) (\w+)", texts))
    page = (DOCS / "architecture.md").read_text("utf-8")
    steps = re.findall(r"^\|(?: \d+ \|)?([^|]*\w\.py[^|]*)\|", page, re.M)

    files = set(re.findall(r"[\w/]+\.py", page))
    named = {name for one in steps for name in re.findall(r"`(?:\w+\.)?(\w+)`", one)}

    assert [
        f for f in files if not any(f"/{s}".endswith(f"/{f}") for s in sources)
    ] == []
    assert len(named) > 30
    assert named - defined - {"py"} == set()


def test_architecture_names_every_rule_of_a_silo():
    page = (DOCS / "architecture.md").read_text("utf-8")
    rules = (ROOT / "src" / "unpooled" / "party" / "rules").glob("[a-z]*.py")

    assert [rule.name for rule in rules if rule.name not in page] == []


def test_readme_names_the_estimators_of_a_column_partition():
    text = README.read_text("utf-8").partition("**Different columns")[2]
    named = re.findall(r"`(\w+)`", text.partition("\n\n")[0])
    by_columns = [n for n, one in estimators().items() if "columns" in one._partitions]

    assert sorted(named) == sorted(by_columns)


def test_readme_is_short():
    assert len(README.read_text("utf-8").splitlines()) <= 120
    assert len(blocks_of(README)[0].content.splitlines()) <= 12


def test_readme_begins_with_a_picture_of_a_result_and_no_table():
    before, fence, _ = README.read_text("utf-8").partition("```python")
    (picture,) = re.findall(r"!\[.+\]\((.+)\)", before)

    assert fence
    assert (README.parent / picture).is_file()
    assert not re.search(r"(?m)^\s*\|", before)


def built(name: str) -> str:
    """Return a page with its generated tables in place."""
    return generated_tables.on_page_markdown((DOCS / name).read_text("utf-8"))


def test_disclosure_page_lists_every_declared_release():
    wanted = {
        name: {
            (step.name, array, declared.meaning)
            for step in steps_of(home_of(estimator.__module__)).values()
            for array, declared in step.declared.items()
        }
        for name, estimator in estimators().items()
    }
    page = built("disclosure.md").replace("`", "")

    row = r"\|.*\n"
    tables = re.findall(rf"^### (\w+)\n\n{row}{row}((?:{row})+)", page + "\n", re.M)

    shown = {
        name: {
            tuple(cells[i].strip() for i in (1, 2, 4))
            for cells in (line.split("|") for line in rows.splitlines())
        }
        for name, rows in tables
    }
    # Some release nothing of their own.
    assert shown == {name: rows for name, rows in wanted.items() if rows}
    assert all(
        f"| {name} |" in page.split("Every declared array")[0] for name in wanted
    )


def test_error_page_lists_every_rule():
    page = generated_tables.on_page_markdown((DOCS / "api" / "errors.md").read_text())

    shown = re.findall(r"^\| `(\w+)` \| (.+) \| (.+) \|$", page, re.M)

    assert {rule: (said, remedy) for rule, said, remedy in shown} == RULES


def test_a_page_with_an_unknown_table_is_not_built():
    with pytest.raises(KeyError, match="rulez"):
        generated_tables.on_page_markdown("<!-- generated: rulez -->")


def test_study_page_lists_every_policy_key_with_its_default():
    wanted = {
        name: "all" if rule.default is None else str(rule.default).lower()
        for name, rule in Policy.__dataclass_fields__.items()
    } | {"roster_period_days": "never"}
    section = built("study-files.md").split("## Policies")[1]

    shown = re.findall(r"^\| `(\w+)` \| ([^|]+) \| (.+) \|$", section, re.M)

    assert {key: default for key, default, _ in shown} == wanted
    assert all(len(words.split()) > 3 for _, _, words in shown)


def test_reference_has_every_public_name():
    pages = [f"api/{page.name}" for page in (DOCS / "api").glob("*.md")]
    entries = "\n".join(map(built, pages))
    public = [name for name in unpooled.__all__ if not name.startswith("_")]

    missing = [
        n for n in public if not re.search(rf"^::: unpooled\S*\.{n}$", entries, re.M)
    ]

    assert missing == []
