"""scikit-learn's fixtures, and the table of what is left out, applied."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from adapters import PCA, Adapter
from borrowing import CASES, is_about_another
from left_out import pattern_for

HERE = Path(__file__).parent


@pytest.fixture
def global_dtype() -> type:
    """Only double precision, as in scikit-learn's own default run."""
    return np.float64


@pytest.fixture
def global_random_seed() -> int:
    """The seed of scikit-learn's own default run."""
    return 42


@pytest.fixture(autouse=True)
def as_the_test_needs(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Set the adapters up for two tests that need it."""
    test = getattr(request.node, "originalname", "")
    if test == "test_pca_solver_equivalence":
        # Compares solvers with "full": ours with theirs, rather than ours with ours.
        monkeypatch.setattr(PCA, "theirs", ("full",))
    if test == "test_standard_scaler_near_constant_features":
        # Squares from 1e-60 to 1e42, beyond what a masked sum has room for.
        monkeypatch.setattr(Adapter, "secure_sum", "plain")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Leave out what the table names, and cases that are about another estimator."""
    cases, kept, gone = Counter(), [], []
    for item in items:
        file = item.path.name
        if item.path.parent != HERE or not file.startswith("test_their_"):
            kept.append(item)
        elif is_about_another(item):
            gone.append(item)
        else:
            # `make test` has each of their values once, the long tier their grids.
            item.add_marker(pytest.mark.thinned)
            pattern = pattern_for(item.name)
            cases[file, pattern] += 1
            (gone if pattern else kept).append(item)
    config.stash[CASES] = cases
    config.hook.pytest_deselected(items=gone)
    items[:] = kept
