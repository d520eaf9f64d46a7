"""What analysts do needs nothing that only POSIX systems have.

No Windows and no macOS can be tried here. So what Windows lacks is taken away from the
library in a Python of this machine, and one rule says where code for POSIX may stand.
"""

import ast
import os
import subprocess
import sys

import pytest

from small_study import COLUMNS, text_of, write_data
from source_trees import FILES, ROOT, nodes, nodes_of

MODULES = {"fcntl", "grp", "posix", "pwd", "resource", "termios", "tty", "pty"}
NAMES = {"AF_UNIX", "fchmod", "fchown", "fork", "geteuid", "getuid", "killpg", "setsid"}
NAMES |= {"umask", "uname", "waitpid", "sched_getaffinity", "SIGCHLD"}
NAMES |= {"SIGKILL"}

AS_IF_WINDOWS = f"""
import builtins, os, signal, socket, sys, warnings
import matplotlib.pyplot, pyarrow.dataset, scipy.stats, sklearn.pipeline

load = builtins.__import__
def without(name, namespace=None, *more, **named):
    ours = str((namespace or {{}}).get("__name__", "")).startswith("unpooled")
    if ours and name.partition(".")[0] in {MODULES}:
        raise ImportError(name)
    return load(name, namespace, *more, **named)
builtins.__import__ = without
for name in {NAMES}:
    for module in (os, signal, socket):
        if hasattr(module, name):
            delattr(module, name)
# There, text without an encoding is in the one of the machine.
warnings.filterwarnings("error", category=EncodingWarning, module="unpooled")

from pathlib import Path
import unpooled as up
from unpooled.study.audit import audit

study = up.Study.from_file(sys.argv[1])
print(study.plan())
study.run()
place = Path(sys.argv[1]).parent / "runs" / "small"
assert all(check.good for check in audit(place))
print(up.load(place / "pipeline.unpooled"))
"""


def posix_only(tree: tuple[ast.AST, ...]) -> list[str]:
    """Return what a file uses that only POSIX systems have."""
    found = []
    for node in tree:
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
            found += [name for name in names if name.partition(".")[0] in MODULES]
        elif isinstance(node, ast.ImportFrom) and node.module in MODULES:
            found.append(node.module)
        elif isinstance(node, ast.Attribute) and node.attr in NAMES:
            found.append(node.attr)
    return found


@pytest.mark.slow
def test_code_for_posix_stands_in_one_file():
    using = {
        path.relative_to(ROOT).as_posix(): found
        for path in FILES
        if (found := posix_only(nodes_of(path)))
    }
    assert list(using) == ["posix.py"]


@pytest.mark.parametrize(
    "source", ["def f():\n    import fcntl", "from pwd import getpwnam", "os.fork()"]
)
def test_such_code_is_seen(source):
    assert posix_only(nodes(source))


@pytest.mark.slow
def test_a_study_runs_as_if_on_windows(tmp_path):
    write_data(tmp_path)
    (tmp_path / "study.toml").write_text(text_of(COLUMNS, report="true"))

    python = [sys.executable, "-X", "warn_default_encoding"]
    done = subprocess.run(
        [*python, "-c", AS_IF_WINDOWS, str(tmp_path / "study.toml")],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT.parent)},
        capture_output=True,
        text=True,
    )

    assert done.returncode == 0, done.stderr
    assert list(tmp_path.rglob("report.html"))
