"""Fitted models applied in a silo: what the study's views have there, row by row."""

import numpy as np
import pandas as pd
import pytest

from integration.matrix import CASES, model_of, text_of
from integration.rows import WRITERS
from silo_rows import table_of
from unpooled.data.sources.open_source import open_source
from unpooled.errors import DataError, StudyError
from unpooled.models.files.apply_in_silo import apply
from unpooled.models.files.catalogue import estimators
from unpooled.models.files.model_file import load
from unpooled.party.views.view import View
from unpooled.study import Study

# Secure comparisons take their time, and their exponents are applied like any others.
SLOW = ("PowerTransformer", "PCA-power")
# Whose directions are of columns that each silo whitened for itself.
NO_SCORES = ("CCA-dcca-power",)
# Whose means stay in the process of the fit.
STAYS = ("CentreBySite",)
BY_ROWS = [
    name
    for name, case in CASES.items()
    if case.partition == "rows"
    and name not in (*SLOW, *NO_SCORES, *STAYS)
    and not case.categorical
    and hasattr(estimators()[model_of(name)], "transform")
]
# Of people whose columns three silos have.
BY_COLUMNS = ["CCA-columns", "KernelPCA-columns", "StandardScaler-columns"]


def fitted(name, folder):
    """Run a case in this process; return its study, and its pipeline as delivered."""
    case = CASES[name]
    sources = {
        silo: WRITERS[case.partition](silo, folder)
        for silo in ("cleveland", "hungary", "va")
    }
    study = Study.from_text(folder / f"{name}.toml", text_of(name, sources))
    done = study.run()
    return study, load(done.folder / "pipeline.unpooled"), sources["hungary"]


@pytest.mark.thinned(4)
@pytest.mark.parametrize("name", BY_ROWS)
def test_a_silo_writes_what_the_study_reads_of_its_rows(name, tmp_path):
    study, pipeline, source = fitted(name, tmp_path)
    table = open_source(str(source), label="num")
    view = study.federation()
    for _, part in pipeline.steps:
        view = part.transform(view)
    own = View(table_of(view, "hungary"), view.operations)
    wanted = np.concatenate([block.X for block in own.blocks([])])

    n_rows, columns = apply(pipeline, table, tmp_path / "out.csv")

    written = pd.read_csv(tmp_path / "out.csv")
    assert n_rows == len(wanted) == 294
    assert columns == ["num", *view.feature_names] == list(written.columns)
    np.testing.assert_allclose(written.drop(columns="num"), wanted, rtol=1e-9)


@pytest.mark.parametrize("name", [name for name in CASES if CASES[name].categorical])
@pytest.mark.thinned(2)
def test_a_model_of_categories_says_how_it_is_applied(name, tmp_path):
    _, pipeline, source = fitted(name, tmp_path)
    coded = CASES[name].categorical
    table = open_source(str(source), label="num", categorical=coded)

    with pytest.raises(
        StudyError, match=r"reads columns of categories.*unpooled\.load"
    ):
        apply(pipeline, table, tmp_path / "out.csv")
    assert not (tmp_path / "out.csv").exists()


@pytest.mark.parametrize("name", NO_SCORES)
def test_a_model_without_scores_says_so(name, tmp_path):
    _, pipeline, source = fitted(name, tmp_path)
    table = open_source(str(source), label="num")

    with pytest.raises(DataError, match=r"no scores along them. Fit with solver"):
        apply(pipeline, table, tmp_path / "out.csv")
    assert not (tmp_path / "out.csv").exists()


@pytest.mark.parametrize("name", BY_COLUMNS)
def test_a_model_of_other_silos_columns_says_why_it_is_not_applied(name, tmp_path):
    _, pipeline, source = fitted(name, tmp_path)
    table = open_source(str(source), label="num")

    with pytest.raises(StudyError, match="own columns are enough to apply it"):
        apply(pipeline, table, tmp_path / "out.csv")
    assert not (tmp_path / "out.csv").exists()
