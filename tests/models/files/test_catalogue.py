import os
import subprocess
import sys
from pathlib import Path

import pytest

import unpooled as up
from integration.matrix import CASES, in_one_process, model_of
from tiers import mostly_slow
from unpooled.models.base import FederatedEstimator
from unpooled.models.files.catalogue import estimators, parameter_names


def test_every_public_estimator_is_listed():
    public = [getattr(up, name) for name in up.__all__]
    ours = {
        kind.__name__: kind
        for kind in public
        if isinstance(kind, type) and issubclass(kind, FederatedEstimator)
    }

    assert {"PCA", "SimpleImputer", "StandardScaler"} <= set(ours)
    assert ours.items() <= estimators().items()
    assert list(estimators()) == sorted(estimators())


@pytest.mark.slow
def test_the_list_is_whole_in_a_process_that_has_imported_nothing_yet():
    code = (
        "from unpooled.models.files.catalogue import estimators; print(*estimators())"
    )
    source = Path(up.__file__).parents[1]
    shown = subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(source)},
    )

    assert shown.stdout.split() == list(estimators())


def test_classes_from_elsewhere_are_not_listed():
    class Foreign(FederatedEstimator):
        def _fit(self, federation, y):
            pass

    assert "Foreign" not in estimators()
    assert "FederatedEstimator" not in estimators()
    del Foreign


def test_parameters_are_those_of_the_constructor():
    assert parameter_names(up.PCA)[:2] == ("n_components", "svd_solver")
    assert set(parameter_names(up.PCA)) == set(up.PCA().get_params())


def test_every_estimator_has_a_case_over_a_consortium():
    lacking = set(estimators()) - {model_of(name) for name in CASES}

    assert not lacking, f"add lines for {lacking} to tests/integration/matrix.py"


# `test_endings.py` runs each estimator, these all their ways.
@pytest.mark.slow
@pytest.mark.parametrize("name", mostly_slow(CASES, "PCA", "KernelPCA-columns"))
def test_every_case_runs_in_one_process(name, tmp_path):
    done = in_one_process(name, tmp_path)

    assert type(list(done.models.values())[-1]).__name__ == model_of(name)
    assert done.ledger.verify()
