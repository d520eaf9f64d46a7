"""Pages made of the executed notebooks, with the outputs that are stored in them.

    docs/notebooks/NAME.ipynb ──> page notebooks/NAME
                                  ├── notebooks/NAME/output-3.png, ...
                                  └── notebooks/NAME/NAME.ipynb, to download

Nothing is executed here: `make notebooks` executes and stores. A plugin would bring a
style sheet and scripts of its own; this way the pages look like all others, in light
and dark, and a reader's browser asks nobody else for anything.
"""

import base64
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

from mkdocs.structure.files import File, Files

# pandas brings a style for each table; without it and its class, the theme's applies.
_OF_PANDAS = re.compile(r"<style scoped>.*?</style>|(?<=<table) [^>]*", re.DOTALL)
_SCRIPT = re.compile(r"<script.*?</script>", re.DOTALL)
_PLACE = re.compile(r'<div data-output="(\d+)"></div>')


class Notebook(File):
    """A notebook as a page of the site.

    Attributes
    ----------
    html : list of str
        Outputs in HTML. Markdown would misread their scripts and blank lines, so they
        are put into the page when the rest of it is HTML too.
    """

    html: list[str]

    def is_documentation_page(self) -> bool:
        """Return True: it has a page, although its name does not end in .md."""
        return True


def on_files(files: Files, config: Any) -> Files:
    """Put pages in the place of notebooks."""
    for found in [file for file in files if file.src_uri.endswith(".ipynb")]:
        source, folder = found.content_string, PurePosixPath(found.src_uri)
        page = Notebook.generated(config, found.src_uri, content="")
        download = folder.with_suffix("") / folder.name
        page.html, pictures = [], {}
        page.content_string = "\n\n".join(
            parts(json.loads(source), folder.stem, page.html, pictures)
        )
        files.remove(found)
        files.append(page)
        files.append(File.generated(config, str(download), content=source))
        for name, picture in pictures.items():
            place = str(folder.parent / name)
            files.append(File.generated(config, place, content=picture))
    return files


def on_page_content(html: str, page: Any, **_: Any) -> str:
    """Return a notebook's page with its outputs in HTML."""
    outputs = getattr(page.file, "html", [])
    return _PLACE.sub(lambda place: outputs[int(place[1])], html)


def parts(
    notebook: Mapping[str, Any], stem: str, html: list[str], pictures: dict[str, bytes]
) -> Iterator[str]:
    """Return a page in Markdown, in parts.

    Parameters
    ----------
    notebook : mapping
        As stored.
    stem : str
        Of the notebook's file.
    html, pictures : list and dict
        What the page refers to is added: outputs in HTML, and pictures by their places
        beside the notebook.
    """
    for number, cell in enumerate(notebook["cells"]):
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            yield source
            if number == 0:
                yield f"[Download this notebook]({stem}/{stem}.ipynb)"
            continue
        yield f"```python\n{source}\n```"
        for output in cell["outputs"]:
            data = output.get("data", {})
            if "text/html" in data:
                html.append(_shown("".join(data["text/html"])))
                yield f'<div data-output="{len(html) - 1}"></div>'
            elif "image/png" in data:
                name = f"{stem}/output-{len(pictures) + 1}.png"
                pictures[name] = base64.b64decode("".join(data["image/png"]))
                yield f"![{cell['metadata']['alt']}]({name})"
            else:
                text = "".join(output.get("text", data.get("text/plain", "")))
                yield f"```text\n{text.rstrip()}\n```"


def _shown(html: str) -> str:
    if "<script" not in html:
        return f'<div class="output">{_OF_PANDAS.sub("", html)}</div>'
    # scikit-learn's diagrams have a style of their own, which the theme's would spoil:
    # it does not reach into a shadow root. Nor do the diagram's scripts, which copy
    # names to the clipboard.
    root = f'<template shadowrootmode="open">{_SCRIPT.sub("", html)}</template>'
    return f'<div class="output diagram">{root}</div>'
