"""Steps of a study that give no rows stand beside the chain of those that do."""

import dataclasses

import numpy as np
import pytest
from numpy.testing import assert_allclose

import unpooled as up
from small_study import (
    COLUMNS,
    assert_same_models,
    killed,
    quick_disk,
    text_of,
    write,
)

# Fixtures of another module.
__all__ = ["quick_disk", "write"]

CHAIN = ["SimpleImputer", "StandardScaler", "LinearDiscriminantAnalysis"]
BESIDE = ["SimpleImputer", "Heterogeneity", *CHAIN[1:]]


def text(steps):
    return text_of(COLUMNS, steps=steps, policy="max_released_share = 100.0")


@pytest.mark.slow
@pytest.mark.parametrize("follow", [False, True])
def test_the_next_step_reads_what_the_side_step_read(write, tmp_path, follow):
    chain, beside = [*CHAIN[:2], "PCA"], [*BESIDE[:3], "PCA"]
    alone = write(text(chain)).run(tmp_path / "alone", follow=follow)
    both = write(text(beside)).run(tmp_path / "both", follow=follow)

    assert list(both.models) == [name.lower() for name in beside]
    assert both.models["heterogeneity"].n_silos_ == 3
    rest = {n: m for n, m in both.models.items() if n != "heterogeneity"}
    assert_same_models(alone, dataclasses.replace(both, models=rest))


@pytest.mark.slow
def test_the_pipeline_has_the_steps_that_transform(write, tmp_path):
    study = write(text(BESIDE))
    run = study.run()

    pipeline = up.load(run.folder / "pipeline.unpooled")
    assert [name for name, _ in pipeline.steps] == [name.lower() for name in CHAIN]
    assert [name for name, _ in study.pipeline().steps] == [n.lower() for n in CHAIN]
    assert pipeline.predict(np.array([[0.0, 5.0, -3.0, 100.0]])).shape == (1,)


@pytest.mark.slow
def test_a_side_step_at_the_end_leaves_a_pipeline_that_transforms(write):
    run = write(text(["SimpleImputer", "Heterogeneity"])).run()

    assert [name for name, _ in run.pipeline.steps] == ["simpleimputer"]
    assert "heterogeneity" in run.models


@pytest.mark.slow
def test_a_plan_is_what_the_run_does(write):
    study = write(text(BESIDE))

    planned = [(x.round, x.step, x.name, x.shape) for x in study.plan().releases]

    ran = [(x.round, x.step, x.name, x.shape) for x in study.run().ledger]
    # The names of classes take one attempt more or less.
    assert {x[1:3] for x in planned} == {x[1:3] for x in ran}
    assert any(step == "heterogeneity.local_shifts" for _, step, *_ in planned)


@pytest.mark.slow
@pytest.mark.parametrize("event", [10, 25])
def test_a_run_that_was_killed_goes_on(write, tmp_path, event):
    whole = write(text(BESIDE)).run(tmp_path / "whole")
    study = write(text(BESIDE))

    assert killed(study, event)

    resumed = study.resume()
    assert list(resumed.models) == list(whole.models)
    ours, theirs = (
        run.models["lineardiscriminantanalysis"] for run in (resumed, whole)
    )
    assert_allclose(ours.coef_, theirs.coef_, rtol=1e-12)


@pytest.mark.slow
def test_each_step_has_its_own_target(write):
    """The pipeline's one target was the last step's with a `y`, for all of them."""
    tables = (
        '[[steps]]\nmodel = "SimpleImputer"\n'
        '[[steps]]\nmodel = "PLSSVD"\ny = ["c", "d"]\nn_components = 2\n'
        '[[steps]]\nmodel = "LinearDiscriminantAnalysis"\n'
    )
    study = write(text([]) + tables)

    assert study.plan().refusals == ()
    assert study.run().models["lineardiscriminantanalysis"].n_features_in_ == 2


@pytest.mark.slow
def test_scores_of_a_column_partition_are_no_rows(tmp_path, write):
    """The scores of PCA are about people, and no silo has them as columns."""
    rng = np.random.default_rng(0)
    parties = ""
    for silo, names in {"north": "ab", "south": "cd", "west": "ef"}.items():
        lines = [",".join(names), *(f"{a},{b}" for a, b in rng.normal(size=(40, 2)))]
        (tmp_path / f"{silo}.csv").write_text("\n".join(lines) + "\n")
        parties += f'[parties.{silo}]\nsource = "{silo}.csv"\n'
    study = write(
        '[study]\nname = "wide"\npartition = "columns"\naligned = true\n'
        f"{parties}[policy]\nallow_row_level = true\nmax_released_share = 100.0\n"
        "[outputs]\nreport = false\n"
        '[[steps]]\nmodel = "StandardScaler"\n'
        '[[steps]]\nmodel = "PCA"\nn_components = 2\n'
        '[[steps]]\nmodel = "KernelPCA"\nn_components = 2\ngamma = 0.1\n'
    )

    run = study.run()

    assert not any("scores" in line.step for line in run.ledger)
    assert run.models["kernelpca"].n_features_in_ == 6
