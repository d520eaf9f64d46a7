"""Rules that no single file shows: who may import whom, and what no file may do."""

import ast
import functools
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from source_trees import FILES, ROOT, nodes, nodes_of

Nodes = tuple[ast.AST, ...]

LAYERS = (
    "late_imports errors posix arrays ledger linalg data secure protocol results party "
    "coordinator federation models metrics displays report study desk cli testing"
)
RANK: dict[str, int] = {name: i for i, name in enumerate(LAYERS.split())}
# `python -m unpooled` stands on the command.
RANK["__main__"] = len(RANK)
# The root package only gathers public names, from every layer.
MODULES = [path for path in FILES if path != ROOT / "__init__.py"]

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


def aliases(tree: Nodes) -> dict[str, str]:
    """Local name -> dotted name of what a file imports, wherever in the file."""
    names = {}
    for node in tree:
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


@functools.cache
def imported(tree: Nodes) -> tuple[str, ...]:
    """Return the dotted names that a file imports, by statement or by a string."""
    return tuple(_imported(tree))


def _imported(tree: Nodes) -> Iterator[str]:
    names = aliases(tree)
    for node in tree:
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


def forward_imports(layer: str, tree: Nodes) -> list[str]:
    """Return what a file of `layer` imports from layers above it, or from the root."""
    ours = [name for name in imported(tree) if name.split(".")[0] == "unpooled"]
    # `import unpooled` and `from unpooled import PCA` reach every layer at once: a name
    # that is no layer ranks above all.
    parts = [(name, [*name.split("."), ""][1]) for name in ours]
    return [name for name, top in parts if RANK.get(top, len(RANK)) > RANK[layer]]


def forbidden(tree: Nodes) -> list[str]:
    """Return what in a file runs foreign code, or draws from a shared generator."""
    names = aliases(tree)
    found = [
        name
        for name in imported(tree)
        if name.split(".")[0] in PICKLES | {"random"} or _shared_generator(name)
    ]
    for node in tree:
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


def imports_of_files(*, for_types: bool = True) -> dict[str, set[str]]:
    """Module -> the library's modules that it imports, wherever in the file.

    `for_types` is whether imports count that only type checkers make.
    """
    paths = {module_name(path): path for path in FILES}
    graph = {}
    for name, path in paths.items():
        if path == ROOT / "__init__.py":
            continue
        tree = nodes_of(path)
        names = set(imported(tree))
        if not for_types:
            blocks = ast.Module(list(type_blocks(tree)), [])
            names -= set(imported(tuple(ast.walk(blocks))))
        found = {existing(one, set(paths)) for one in names}
        graph[name] = found - {None, name, "unpooled"}
    return graph


def type_blocks(tree: Nodes) -> Iterator[ast.stmt]:
    """Yield the statements that run for type checkers only."""
    for node in tree:
        if isinstance(node, ast.If) and dotted(node.test, {}) == "TYPE_CHECKING":
            yield from node.body


def module_name(path: Path) -> str:
    parts = ("unpooled", *path.relative_to(ROOT).with_suffix("").parts)
    return ".".join(parts).removesuffix(".__init__")


def existing(name: str, modules: set[str]) -> str | None:
    """Return the module that a dotted name is, or is a name of."""
    while name and name not in modules:
        name = name.rpartition(".")[0]
    return name or None


def circles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """Return the groups of modules that import each other, late imports included."""
    order = TopologicalSorter(graph)
    try:
        order.prepare()
    except CycleError as found:
        return [found.args[1]]
    return []


def reached(graph: Mapping[str, set[str]], start: str) -> set[str]:
    """Return every module that a package's modules import, however indirectly."""
    waiting = {name for name in graph if f"{name}.".startswith(f"{start}.")}
    found: set[str] = set()
    while waiting:
        name = waiting.pop()
        found.add(name)
        waiting |= graph.get(name, set()) - found
    return found


@pytest.mark.slow
def test_imports_point_backwards():
    homeless = [short(path) for path in MODULES if layer_of(path) not in RANK]
    assert homeless == [], f"in no layer: {LAYERS}"

    offenders = {
        short(path): found
        for path in MODULES
        if (found := forward_imports(layer_of(path), nodes_of(path)))
    }
    assert offenders == {}


@pytest.mark.slow
def test_no_module_imports_itself_by_way_of_others():
    # A model's results name its type, and the model calls them.
    assert circles(imports_of_files(for_types=False)) == []


@pytest.mark.slow
def test_the_coordinator_cannot_import_what_sees_rows():
    """Neither code of a party nor a table, at any distance."""
    sees_rows = ("unpooled.party", "unpooled.data.table", "unpooled.data.sources")
    for end in ("unpooled.coordinator", "unpooled.federation.federation"):
        found = reached(imports_of_files(), end)
        assert [name for name in sorted(found) if name.startswith(sees_rows)] == []


@pytest.mark.slow
def test_no_code_from_data_and_no_shared_randomness():
    offenders = {
        short(path): found for path in FILES if (found := forbidden(nodes_of(path)))
    }
    assert offenders == {}


def test_modules_have_telling_names():
    words = {
        short(path): set(path.relative_to(ROOT).with_suffix("").as_posix().split("/"))
        for path in FILES
    }
    vague = {
        name: parts
        for name, parts in words.items()
        if {word for part in parts for word in part.split("_")} & VAGUE_NAMES
    }
    assert vague == {}


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
    assert forward_imports("party", nodes(statement)) != []


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
    assert forward_imports("party", nodes(statement)) == []


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
    assert forbidden(nodes(source)) != []


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
    assert forbidden(nodes(source)) == []


def test_a_circle_is_seen_and_so_is_what_lies_behind_another_module():
    graph = {"a.x": {"b.y"}, "b.y": {"c.z"}, "c.z": set()}
    assert circles(graph) == []
    assert reached(graph, "a") == {"a.x", "b.y", "c.z"}
    assert circles({**graph, "c.z": {"a.x"}}) != []
