"""scikit-learn starts without what it rarely uses, and nothing else changes."""

import importlib
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import unpooled
from unpooled import late_imports

IMPORTER = "toy_importer"
# One file for each form of import that scikit-learn's files have.
SOURCE = """
import toy_package
import toy_package.slow
import toy_package.slow as named
try:
    import toy_absent
except ImportError:
    toy_absent = None
"""


@pytest.fixture
def toys(tmp_path, monkeypatch):
    """Modules that note each time that they run, one of which can be late."""
    package = tmp_path / "toy_package"
    package.mkdir()
    (tmp_path / f"{IMPORTER}.py").write_text(SOURCE)
    (tmp_path / "toy_runs.py").write_text("runs = []")
    (package / "__init__.py").write_text("quick = 1")
    (package / "slow.py").write_text(
        "import toy_runs\n"
        "toy_runs.runs.append(__name__)\n"
        "if len(toy_runs.runs) <= getattr(toy_runs, 'failures', 0):\n"
        "    raise RuntimeError('no')\n"
        "value = 2\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    late = frozenset({"toy_package.slow", "toy_absent"})
    monkeypatch.setattr(late_imports, "LATE", late)
    monkeypatch.setattr(late_imports, "IMPORTERS", frozenset({IMPORTER}))
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    late_imports.install()
    yield importlib.import_module("toy_runs")
    for name in [name for name in sys.modules if name.startswith("toy_")]:
        del sys.modules[name]


def imported():
    return importlib.import_module(IMPORTER)


def test_a_late_module_runs_once_when_a_name_in_it_is_used(toys):
    module = imported()
    assert toys.runs == []
    assert "toy_package.slow" not in sys.modules

    assert module.named.value == 2
    assert module.toy_package.slow.value == 2
    assert toys.runs == ["toy_package.slow"]
    assert vars(sys.modules["toy_package.slow"])["value"] == 2


def test_other_names_of_its_package_do_not_load_it(toys):
    assert imported().toy_package.quick == 1
    assert toys.runs == []


@pytest.mark.parametrize(
    "statement",
    [
        "import toy_package.slow",
        "from toy_package import slow",
        "from toy_package.slow import value",
        "import importlib, toy_package.slow as slow; importlib.reload(slow)",
    ],
)
def test_imports_elsewhere_are_as_ever(toys, statement):
    module = imported()
    exec(statement, {})
    found = sys.modules["toy_package.slow"]
    assert type(found) is type(sys)
    assert found.value == 2
    assert module.named.value == 2


def test_a_module_that_is_there_is_bound_as_it_is(toys):
    slow = importlib.import_module("toy_package.slow")
    assert imported().named is slow
    assert toys.runs == ["toy_package.slow"]


def test_what_is_absent_or_forbidden_is_an_import_error(toys, monkeypatch):
    assert imported().toy_absent is None

    monkeypatch.setitem(sys.modules, "toy_package.slow", None)
    del sys.modules[IMPORTER]
    with pytest.raises(ImportError):
        imported()


def test_a_failure_leaves_nothing_and_the_next_use_tries_again(toys):
    toys.failures = 1
    module = imported()
    with pytest.raises(RuntimeError, match="no"):
        _ = module.named.value
    assert "toy_package.slow" not in sys.modules
    assert module.named.value == 2


def test_threads_that_use_it_at_once_get_the_same_whole_module(toys):
    module = imported()
    found, start = [], threading.Barrier(8)

    def use():
        start.wait()
        found.append((module.named.value, sys.modules["toy_package.slow"]))

    threads = [threading.Thread(target=use) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert toys.runs == ["toy_package.slow"]
    assert found == [(2, sys.modules["toy_package.slow"])] * 8


def test_another_loader_is_left_alone(toys, monkeypatch):
    """Such as one that checks types, or that reads an archive."""
    loader = type("Other", (late_imports.SourceFileLoader,), {})
    spec = late_imports.PathFinder.find_spec(IMPORTER)
    assert spec is not None
    spec.loader = loader(IMPORTER, str(spec.origin))
    monkeypatch.setattr(late_imports.PathFinder, "find_spec", lambda *args: spec)
    assert late_imports._FINDER.find_spec(IMPORTER) is None


# scikit-learn itself, in a fresh process: what the toys cannot show.
WHOLE = """
import importlib, inspect, sys
import numpy as np
import unpooled
import sklearn.base
from sklearn.utils import fixes, validation

late = {"scipy.stats", "scipy.special", "pandas", "narwhals"}
assert not late & set(sys.modules)
# Whether arrays are data frames is narwhals' to say, which needs no pandas for that.
validation.check_array(np.ones((3, 2)))
assert late & set(sys.modules) <= {"narwhals"}

assert fixes._mode(np.array([1.0, 1.0, 2.0])).mode == 1.0
import scipy.stats
from scipy import special
from scipy.stats import norm
assert scipy.stats.norm is norm and special is scipy.special
importlib.reload(scipy.special)

import pandas, pandas.core.frame
assert pandas.core.frame.DataFrame is pandas.DataFrame is fixes.pd.DataFrame
home = sys.modules[pandas.DataFrame.__module__]
assert inspect.getmodule(pandas.DataFrame) is home
from sklearn.preprocessing import StandardScaler
frame = pandas.DataFrame({"a": [1.0, 2.0], "b": [3.0, 4.0]})
scaler = StandardScaler().set_output(transform="pandas").fit(frame)
assert list(scaler.feature_names_in_) == ["a", "b"]
assert isinstance(scaler.transform(frame), pandas.DataFrame)
"""


@pytest.mark.slow
def test_scikit_learn_works_on_arrays_and_frames():
    done = subprocess.run(
        [sys.executable, "-c", WHOLE],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(unpooled.__file__).parents[1],
    )
    assert done.stderr == ""
