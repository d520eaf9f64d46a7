"""`unpooled.report` is a function and a package, and naming it loads little."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import unpooled as up

# A fresh interpreter imports the same library as this one.
ALONE = os.environ | {"PYTHONPATH": str(Path(up.__file__).parents[1])}


ORDERS = [
    "import unpooled as up",
    "import unpooled.report.html, unpooled as up",
    "import unpooled as up; up.report; import unpooled.report.html",
    "import unpooled as up; import unpooled.results.plots.svg",
    "from unpooled import report\nimport unpooled as up\n1 / (up.report is report)",
    "from unpooled.report.html import report; import unpooled as up",
    "import unpooled.report, unpooled as up; up.PCA",
]


@pytest.mark.slow
@pytest.mark.parametrize("imports", ORDERS)
def test_report_can_be_called_whatever_was_imported_first(imports):
    check = (
        "import inspect\n"
        "names = list(inspect.signature(up.report).parameters)\n"
        "assert names[:4] == ['model', 'federation', 'path', 'title'], names\n"
        "from unpooled.report.html import render\n"
        "import unpooled.report.html as page\n"
        "assert page.render is render is up.report.html.render\n"
        "try:\n    up.report(None, None, 'nowhere')\n"
        "except up.errors.DataError:\n    print('called')\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", f"{imports}\n{check}"],
        capture_output=True,
        text=True,
        check=False,
        env=ALONE,
    )

    assert (done.stdout, done.stderr) == ("called\n", "")


def test_naming_the_report_loads_nothing_heavy():
    check = (
        "import unpooled, sys; unpooled.report; "
        "print({'matplotlib', 'jinja2', 'sklearn'} & set(sys.modules))"
    )

    done = subprocess.run(
        [sys.executable, "-c", check],
        capture_output=True,
        text=True,
        check=True,
        env=ALONE,
    )

    assert done.stdout == "set()\n"
