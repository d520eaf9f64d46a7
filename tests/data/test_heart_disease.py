import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from unpooled.data.heart_disease import FEATURES, LABEL, load, paths, write_raw
from unpooled.data.sources.open_source import open_source

PATIENTS = {"cleveland": 303, "hungary": 294, "switzerland": 123, "va": 200}
CHOL_ZERO = {"cleveland": 0, "hungary": 0, "switzerland": 123, "va": 49}
BLANK = {"cleveland": 6, "hungary": 782, "switzerland": 273, "va": 698}
LABELS = {  # num: 0, 1, 2, 3, 4
    "cleveland": [164, 55, 36, 35, 13],
    "hungary": [188, 106, 0, 0, 0],
    "switzerland": [8, 48, 32, 30, 5],
    "va": [51, 56, 41, 42, 10],
}


def test_hospitals_come_in_order():
    assert list(load()) == list(paths()) == list(PATIENTS)


@pytest.mark.parametrize("hospital", list(PATIENTS))
def test_tables_are_the_files_with_cholesterol_zero_missing(hospital):
    table = load()[hospital]

    assert table.column_names == [*FEATURES, LABEL]
    oracle = pd.read_csv(paths()[hospital])
    assert (oracle["chol"] == 0).sum() == CHOL_ZERO[hospital]
    oracle["chol"] = oracle["chol"].mask(oracle["chol"] == 0)
    assert_array_equal(table.to_pandas().to_numpy(float), oracle.to_numpy(float))


@pytest.mark.parametrize("hospital", list(PATIENTS))
def test_counts_are_those_of_the_readme(hospital):
    table = load()[hospital]

    assert table.num_rows == PATIENTS[hospital]
    nulls = sum(column.null_count for column in table.columns)
    assert nulls == BLANK[hospital] + CHOL_ZERO[hospital]
    assert np.bincount(table[LABEL], minlength=5).tolist() == LABELS[hospital]


@pytest.mark.parametrize("hospital", list(PATIENTS))
def test_the_file_with_the_code_named_is_the_same_table(hospital):
    path = open_source(paths()[hospital], label=LABEL, missing={"chol": [0]})
    memory = open_source(load()[hospital], label=LABEL)

    assert path.columns == memory.columns == FEATURES
    ours, theirs = next(path.blocks(FEATURES)), next(memory.blocks(FEATURES))
    assert_array_equal(ours.X, theirs.X)


def test_attribution_is_packaged():
    text = (paths()["va"].parent / "README.md").read_text()

    for word in ("CC BY 4.0", "Janosi", "Steinbrunn", "Pfisterer", "Detrano", "1988"):
        assert word in text


def test_raw_files_have_the_same_patients(tmp_path):
    forms = {"hungary": {"sep": ";", "decimal": ","}}
    for hospital, path in write_raw(tmp_path / "files").items():
        raw = pd.read_csv(path, **forms.get(hospital, {}))
        wanted = load()[hospital].to_pandas()
        assert_array_equal(raw["age"], wanted["age"])
        assert_array_equal(raw["st_depression"], wanted["oldpeak"])
        assert_array_equal(raw["sex"] == "male", wanted["sex"] == 1)
        assert_array_equal(raw["exercise_angina"].isna(), wanted["exang"].isna())
        assert_array_equal(raw["chest_pain"] == "silent", wanted["cp"] == 4)
        assert_array_equal(raw["disease"] == "yes", wanted["num"] > 0)
        if hospital == "switzerland":
            raw["cholesterol"] = raw["cholesterol"].mask(raw["cholesterol"] == 0)
        assert_array_equal(raw["cholesterol"], wanted["chol"])
        pressure = wanted["trestbps"].mask(wanted["trestbps"] == 0)
        unit = 0.133322 if hospital == "va" else 1.0
        # Two digits are written.
        assert_allclose(raw["blood_pressure"], pressure * unit, atol=0.005)
