"""A new estimator is one file: nothing else of the library is edited for it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import unpooled as up

MATRIX = '''"""Pearson correlations of rows that stay in their silos."""

from typing import Any, final

import numpy as np

from unpooled.federation.federation import Federation
from unpooled.models import moments
from unpooled.models.base import FederatedEstimator


@final
class CorrelationMatrix(FederatedEstimator):
    """Pearson correlations of all columns.

    Attributes
    ----------
    correlation_ : (p, p) array
        Correlations over all rows.

    Notes
    -----
    Released, as totals only: N, column sums, squared deviations and the cross-product
    matrix about the mean. Never released: a row, or any silo's own share of a total.
    """

    _steps = (moments.local_total, moments.local_squares, moments.local_scatter)

    def _fit(self, federation: Federation, y: Any) -> None:
        _, mean = moments.pooled_mean(federation)
        S = moments.pooled_scatter(federation, mean)
        scale = np.sqrt(S.diagonal())
        self.correlation_ = S / scale / scale[:, None]
'''
# What a user of the new estimator does, beside what `check_estimator` does.
USE = """
import importlib.util, sys
import numpy as np
import unpooled as up
from unpooled.testing import check_estimator

check_estimator(
    up.CorrelationMatrix(), pooled=lambda X, y: {"correlation_": np.corrcoef(X.T)}
)
from unpooled.cli import app
from typer.testing import CliRunner
import pandas as pd
rng = np.random.default_rng(0)
for silo in "abc":
    pd.DataFrame(rng.standard_normal((30, 3)), columns=list("xyz")).to_csv(
        f"{silo}.csv", index=False
    )
parties = "".join(f"[parties.{s}]\\nsource = '{s}.csv'\\n" for s in "abc")
steps = "[[steps]]\\nmodel = 'CorrelationMatrix'\\n"
with open("study.toml", "w") as file:
    file.write(f"[study]\\nname = 'new'\\n{parties}{steps}")
for words in (["plan", "study.toml"], ["run", "study.toml"], ["report", "runs/new"]):
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, (words, done.output, done.exception)
model = up.load("runs/new/models/01-correlationmatrix.unpooled")
assert model.correlation_.shape == (3, 3)
assert "correlation_matrix.local_scatter" in open("runs/new/ledger.jsonl").read()

spec = importlib.util.spec_from_file_location("tables", sys.argv[1])
tables = importlib.util.module_from_spec(spec)
spec.loader.exec_module(tables)
assert "`correlation_matrix.local_scatter`" in tables.releases()
assert "| `CorrelationMatrix` |" in tables.what_each_sees()
assert "::: unpooled.CorrelationMatrix" in tables.reference()
print("whole")
"""


@pytest.mark.slow
def test_one_file_makes_an_estimator_of_the_library(tmp_path):
    source = Path(up.__file__).parent
    hook = Path(__file__).parents[2] / "docs" / "hooks" / "generated_tables.py"
    copy = tmp_path / "src" / "unpooled"
    shutil.copytree(source, copy, ignore=shutil.ignore_patterns("__pycache__"))
    (copy / "models" / "correlation_matrix.py").write_text(MATRIX)

    done = subprocess.run(
        [sys.executable, "-c", USE, str(hook)],
        env={**os.environ, "PYTHONPATH": str(tmp_path / "src")},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.stdout.endswith("whole\n"), done.stderr
