"""Notebooks do what is stored in them, and become pages of the site."""

import ast
import base64
import contextlib
import io
import json
import re
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import pytest

from tiers import slow

DOCS = Path(__file__).parents[2] / "docs"
NOTEBOOKS = sorted((DOCS / "notebooks").glob("*.ipynb"))
AGAIN = "If this is right, store it: make notebooks"


def cells_of(path: Path) -> list[Any]:
    return json.loads(path.read_text("utf-8"))["cells"]


def code_of(path: Path) -> list[Any]:
    return [cell for cell in cells_of(path) if cell["cell_type"] == "code"]


def stored(cell: Any) -> tuple[str, str | None, int]:
    """Return what a cell printed, its value as text, and how many pictures it drew."""
    outputs = cell["outputs"]
    printed = "".join("".join(o["text"]) for o in outputs if "text" in o)
    values = [
        "".join(o["data"]["text/plain"])
        for o in outputs
        if o["output_type"] == "execute_result"
    ]
    pictures = sum(o["output_type"] == "display_data" for o in outputs)
    return printed, values[0] if values else None, pictures


def executed(
    source: str, names: dict[str, Any], where: str
) -> tuple[str, str | None, int]:
    """Run a cell as a notebook does, in this process; return the same three."""
    tree, printed, value = ast.parse(source), io.StringIO(), None
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, where, "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), where, "eval"), names)
    pictures = len(plt.get_fignums())
    plt.close("all")
    return printed.getvalue(), None if value is None else repr(value), pictures


def hook() -> Any:
    spec = spec_from_file_location("notebooks", DOCS / "hooks" / "notebooks.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
@pytest.mark.parametrize(
    "path",
    slow([(path.stem, path) for path in NOTEBOOKS], "a-papers-figure"),
)
def test_a_notebook_shows_what_is_stored_in_it(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plt.close("all")  # figures of other tests
    names: dict[str, Any] = {"__name__": "__main__"}

    for number, cell in enumerate(code_of(path), 1):
        source, where = "".join(cell["source"]), f"{path.name}, cell {number}"
        assert executed(source, names, where) == stored(cell), f"{where}. {AGAIN}"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_stored_as_a_reader_would_run_it(path):
    code = code_of(path)
    outputs = [output for cell in code for output in cell["outputs"]]

    assert [cell["execution_count"] for cell in code] == [*range(1, len(code) + 1)]
    assert {o.get("name", "stdout") for o in outputs} == {"stdout"}
    assert "error" not in {o["output_type"] for o in outputs}
    # Anything else that is displayed is a warning or the remains of a progress bar.
    displayed = [o["data"] for o in outputs if o["output_type"] == "display_data"]
    assert all("image/png" in data for data in displayed)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_pictures_are_small_and_described(path):
    for cell in code_of(path):
        for output in cell["outputs"]:
            if "image/png" in output.get("data", {}):
                assert len(base64.b64decode(output["data"]["image/png"])) < 300_000
                assert len(cell["metadata"]["alt"].split()) > 5


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_outputs_name_no_folder_of_the_machine_and_load_nothing(path):
    outputs = json.dumps([cell["outputs"] for cell in code_of(path)])

    assert re.findall(r"/tmp|/home/|/root|/Users/", outputs) == []
    assert re.findall(r'src=\\"http|<link|@import|url\(\s*http', outputs) == []


def test_links_of_notebooks_lead_to_files():
    broken = [
        (path.name, link)
        for path in NOTEBOOKS
        for cell in cells_of(path)
        if cell["cell_type"] == "markdown"
        for link in re.findall(r"\]\(([^)\s#]+)[^)]*\)", "".join(cell["source"]))
        if "://" not in link and not (path.parent / link).resolve().exists()
    ]

    assert broken == []


def test_a_notebook_becomes_a_page_with_its_outputs():
    table = "<div><style scoped>td { color: red }</style><table border=1><tr></table>"
    outputs = [
        {"output_type": "stream", "name": "stdout", "text": ["two\n", "lines\n"]},
        {"output_type": "execute_result", "data": {"text/html": [table]}},
        {"output_type": "display_data", "data": {"image/png": "cGljdHVyZQ=="}},
    ]
    code = {"cell_type": "code", "source": ["x = 1"], "outputs": outputs}
    title = {"cell_type": "markdown", "source": ["# A title"]}
    notebook = {"cells": [title, code | {"metadata": {"alt": "A picture"}}]}
    html: list[str] = []
    pictures: dict[str, bytes] = {}

    page = list(hook().parts(notebook, "first", html, pictures))

    assert page == [
        "# A title",
        "[Download this notebook](first/first.ipynb)",
        "```python\nx = 1\n```",
        "```text\ntwo\nlines\n```",
        '<div data-output="0"></div>',
        "![A picture](first/output-1.png)",
    ]
    assert html == ['<div class="output"><div><table><tr></table></div>']
    assert pictures == {"first/output-1.png": b"picture"}


def test_a_diagram_keeps_its_own_style_and_no_script():
    diagram = "<style>b { color: red }</style><script>copy()</script><b>PCA</b>"
    output = {"output_type": "execute_result", "data": {"text/html": [diagram]}}
    code = {"cell_type": "code", "source": ["model"], "outputs": [output]}
    html: list[str] = []

    list(hook().parts({"cells": [code]}, "first", html, {}))

    assert html == [
        '<div class="output diagram"><template shadowrootmode="open">'
        "<style>b { color: red }</style><b>PCA</b></template></div>"
    ]
