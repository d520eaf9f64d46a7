"""Execute the notebooks of the documentation, and store what they show.

    python scripts/execute_notebooks.py             # all of them
    python scripts/execute_notebooks.py NOTEBOOK    # some

Each runs in a kernel and an empty folder of its own, as a reader would run it. A cell
that fails, or that warns, stops this before the notebook is written.
"""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import nbformat
from nbclient import NotebookClient

NOTEBOOKS = Path(__file__).parents[1] / "docs" / "notebooks"


def execute(path: Path) -> None:
    """Execute a notebook, and write it with its outputs."""
    notebook = nbformat.read(path, as_version=4)
    with TemporaryDirectory() as folder:
        client = NotebookClient(
            notebook,
            timeout=600,
            kernel_name="python3",
            # Times would make each execution a change.
            record_timing=False,
            resources={"metadata": {"path": folder}},
        )
        client.execute()
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            picture = "image/png" in output.get("data", {})
            drawn = output.output_type == "display_data" and not picture
            if output.get("name") == "stderr" or drawn:
                sys.exit(f"{path.name}: a cell warns:\n{cell.source}\n\n{output}")
    notebook.metadata = nbformat.from_dict(
        {
            "kernelspec": {
                "display_name": "Python 3",
                "language": "python",
                "name": "python3",
            },
            "language_info": {"name": "python"},
        }
    )
    nbformat.write(notebook, path)


if __name__ == "__main__":
    for notebook in map(Path, sys.argv[1:] or sorted(NOTEBOOKS.glob("*.ipynb"))):
        print(notebook.name, flush=True)
        execute(notebook)
