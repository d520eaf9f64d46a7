"""Rules that no single file shows: who may import whom, how long, and what never."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import unpooled

LAYERS = (
    "errors arrays ledger linalg secure data party federation models report study cli"
)
RANK: dict[str, int] = {name: i for i, name in enumerate(LAYERS.split())}
# `python -m unpooled` stands on the command.
RANK["__main__"] = len(RANK)
ROOT = Path(unpooled.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))
# The root package only gathers public names, from every layer.
MODULES = [path for path in FILES if path != ROOT / "__init__.py"]

MOST_LINES = 320
# Without its docstring: a documented parameter does not make a function harder to read.
MOST_LINES_OF_A_FUNCTION = 45

VAGUE_NAMES = {"util", "utils", "helper", "helpers", "common", "core", "misc"}
# Loading what these saved runs code. joblib.load and pandas.read_pickle are pickle too.
PICKLES = {"pickle", "cPickle", "dill", "cloudpickle", "marshal", "shelve", "joblib"}
RUNS_TEXT = {"eval", "exec", "compile", "__import__", "pandas.read_pickle"}
# What numpy.random has besides functions over one generator that the process shares.
OWN_GENERATORS = {
    "default_rng", "Generator", "BitGenerator", "SeedSequence", "RandomState", "PCG64",
    "PCG64DXSM", "Philox", "SFC64", "MT19937",
}  # fmt: skip


def short(path: Path) -> str:
    return str(path.relative_to(ROOT))


def layer_of(path: Path) -> str:
    return path.relative_to(ROOT).with_suffix("").parts[0]


def aliases(tree: ast.AST) -> dict[str, str]:
    """Local name -> dotted name of what a file imports, wherever in the file."""
    names = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name.partition(".")[0]
                names[alias.asname or top] = alias.name if alias.asname else top
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                names[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return names


def dotted(node: ast.AST, names: dict[str, str]) -> str:
    """Return ``numpy.random.seed`` for ``np.random.seed``; nothing for other forms."""
    if isinstance(node, ast.Name):
        return names.get(node.id, node.id)
    if isinstance(node, ast.Attribute):
        owner = dotted(node.value, names)
        return f"{owner}.{node.attr}" if owner else ""
    return ""


def imported(tree: ast.AST) -> Iterator[str]:
    """Yield the dotted names that a file imports, by statement or by a string."""
    names = aliases(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif (
            isinstance(node, ast.Call)
            and dotted(node.func, names) == "importlib.import_module"
            and isinstance(node.args[0], ast.Constant)
        ):
            yield str(node.args[0].value)


def forward_imports(layer: str, source: str) -> list[str]:
    """Return what a file of `layer` imports from layers above it, or from the root."""
    ours = [
        name for name in imported(ast.parse(source)) if name.split(".")[0] == "unpooled"
    ]
    # `import unpooled` and `from unpooled import PCA` reach every layer at once: a name
    # that is no layer ranks above all.
    parts = [(name, [*name.split("."), ""][1]) for name in ours]
    return [name for name, top in parts if RANK.get(top, len(RANK)) > RANK[layer]]


def long_functions(source: str) -> list[str]:
    found = []
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        lines = (node.end_lineno or 0) - node.lineno + 1
        if ast.get_docstring(node) is not None:
            text = node.body[0]
            lines -= (text.end_lineno or 0) - text.lineno + 1
        if lines > MOST_LINES_OF_A_FUNCTION:
            found.append(f"{node.name}: {lines} lines")
    return found


def forbidden(source: str) -> list[str]:
    """Return what in a file runs foreign code, or draws from a shared generator."""
    tree = ast.parse(source)
    names = aliases(tree)
    found = [
        name
        for name in imported(tree)
        if name.split(".")[0] in PICKLES | {"random"} or _shared_generator(name)
    ]
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            called = dotted(node.func, names)
            if called in RUNS_TEXT or _shared_generator(called):
                found.append(called)
            for keyword in node.keywords:
                if keyword.arg == "allow_pickle" and not _is_false(keyword.value):
                    found.append("allow_pickle")
    return found


def _shared_generator(name: str) -> bool:
    parts = name.split(".")
    return parts[:2] == ["numpy", "random"] and not OWN_GENERATORS.issuperset(
        parts[2:3]
    )


def _is_false(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is False


@pytest.mark.parametrize("path", MODULES, ids=short)
def test_imports_point_backwards(path):
    assert layer_of(path) in RANK, f"{short(path)} is in no layer: {LAYERS}"

    assert forward_imports(layer_of(path), path.read_text()) == []


@pytest.mark.parametrize("path", FILES, ids=short)
def test_files_and_functions_are_short(path):
    source = path.read_text()
    lines = source.count("\n")

    assert lines <= MOST_LINES
    assert long_functions(source) == []


@pytest.mark.parametrize("path", FILES, ids=short)
def test_no_code_from_data_and_no_shared_randomness(path):
    assert forbidden(path.read_text()) == []


@pytest.mark.parametrize("path", FILES, ids=short)
def test_module_has_a_telling_name(path):
    words = {
        word
        for part in path.relative_to(ROOT).with_suffix("").parts
        for word in part.split("_")
    }

    assert words & VAGUE_NAMES == set()


# A rule that finds nothing may be one that cannot see: each is shown what it forbids.
@pytest.mark.parametrize(
    "statement",
    [
        "import unpooled.models.pca.pca",
        "import unpooled.models.pca.pca as pca",
        "from unpooled.models.pca.pca import PCA",
        "from unpooled.models import pca",
        "from unpooled import models",
        "from unpooled import PCA",
        "import unpooled",
        "import unpooled as up",
        "def fit():\n    from unpooled.study import Study",
        "import importlib\nimportlib.import_module('unpooled.cli')",
        "from importlib import import_module\nimport_module('unpooled.cli')",
    ],
)
def test_a_forward_import_is_seen(statement):
    assert forward_imports("party", statement) != []


@pytest.mark.parametrize(
    "statement",
    [
        "import unpooled.errors",
        "from unpooled import errors",
        "from unpooled.secure.sums.masking import MaskedSum",
        "from unpooled.protocol.step import summed",
        "import unpooledness",
        "import numpy as np",
    ],
)
def test_a_backward_import_is_not(statement):
    assert forward_imports("party", statement) == []


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "from pickle import loads",
        "import joblib.externals",
        "def load():\n    import cloudpickle",
        "eval('1')",
        "exec('x = 1')",
        "import numpy as np\nnp.random.seed(0)",
        "import numpy\nnumpy.random.standard_normal(3)",
        "from numpy import random\nrandom.rand(3)",
        "from numpy.random import rand",
        "import numpy.random as draws\ndraws.rand(3)",
        "import random",
        "import numpy as np\nnp.load('x.npy', allow_pickle=True)",
        "import pandas as pd\npd.read_pickle('x')",
    ],
)
def test_foreign_code_and_shared_randomness_are_seen(source):
    assert forbidden(source) != []


@pytest.mark.parametrize(
    "source",
    [
        "import numpy as np\nnp.random.default_rng(0).standard_normal(3)",
        "from numpy.random import Generator, default_rng",
        "import numpy as np\nnp.load('x.npz', allow_pickle=False)",
        "import re\nre.compile('a')",
        "import secrets",
    ],
)
def test_own_generators_and_plain_arrays_are_fine(source):
    assert forbidden(source) == []


def test_a_long_function_is_seen_and_its_docstring_is_not_counted():
    body = "\n".join("    x = 1" for _ in range(MOST_LINES_OF_A_FUNCTION))
    text = "\n".join("    words" for _ in range(MOST_LINES_OF_A_FUNCTION))

    assert long_functions(f"def f():\n{body}") == ["f: 46 lines"]
    assert long_functions(f'def f():\n    """Say.\n{text}\n    """\n    x = 1') == []
