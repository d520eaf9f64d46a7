"""Files of what a silo keeps, for its own people."""

import csv

import numpy as np
import pytest

from unpooled.data.sources.open_source import open_source
from unpooled.party.memory.kept_arrays import KeptAs, KeptStore
from unpooled.party.memory.own_results import write_own_results

VIEW, OTHER = "a" * 64, "b" * 64
COLUMNS = ("age", "chol")


@pytest.fixture
def table():
    import pandas as pd

    frame = pd.DataFrame({"id": ["p7", "p1", "p4"], "age": [1.0, 2, 3], "chol": 4.0})
    return open_source(frame, ids="id")


def keep(store, name, value, axes, step="pca.own_loadings", view=VIEW):
    about = KeptAs(step, axes, COLUMNS)
    value = np.asarray(value, float)
    store.put(view, name, value, symmetric=False, origin="", about=about)


def rows(path):
    with path.open(newline="") as stream:
        return list(csv.reader(stream))


@pytest.mark.parametrize("on_disk", [False, True])
def test_each_array_is_a_file_with_a_row_for_each_column_or_person(
    tmp_path, table, on_disk
):
    folder = tmp_path / "kept" if on_disk else None
    store = KeptStore(folder)
    keep(store, "components", [[1, 2], [3, 4], [5, 6]], ("k", "p"))
    keep(store, "mean", [7, 8], ("p",))
    keep(store, "weights", [[1, 2], [3, 4]], ("p", "c"), "mmvfl.local_labels")
    keep(store, "scores", [[0.1], [0.2], [0.3]], ("N", "k"), "pca.kept_scores")
    keep(store, "number", 3.0, ())
    if on_disk:
        store = KeptStore(folder)  # of another process

    paths = write_own_results(tmp_path / "own", store, table)

    assert {path.name: rows(path) for path in paths} == {
        "mmvfl_weights.csv": [
            ["column", "class_1", "class_2"],
            ["age", "1.0", "2.0"],
            ["chol", "3.0", "4.0"],
        ],
        "pca_components.csv": [
            ["column", "component_1", "component_2", "component_3"],
            ["age", "1.0", "3.0", "5.0"],
            ["chol", "2.0", "4.0", "6.0"],
        ],
        "pca_mean.csv": [["column", "value"], ["age", "7.0"], ["chol", "8.0"]],
        "pca_scores.csv": [
            ["id", "component_1"],
            ["p7", "0.1"],
            ["p1", "0.2"],
            ["p4", "0.3"],
        ],
    }


def test_two_steps_of_one_model_have_a_file_each(tmp_path, table):
    store = KeptStore()
    keep(store, "mean", [1, 2], ("p",))
    keep(store, "mean", [3, 4], ("p",), view=OTHER)

    paths = write_own_results(tmp_path, store, table)

    assert [path.name for path in paths] == ["pca_mean.csv", "pca_mean-2.csv"]
    assert rows(paths[1])[1] == ["age", "3.0"]


def test_by_rows_only_what_a_step_keeps_for_itself_is_a_result(tmp_path, table):
    store = KeptStore()
    keep(store, "scatter", [[1, 2], [2, 3]], ("p", "p"), "linear.local_within_squares")
    keep(store, "intercept", [0.5], ("q",), "linear.own_intercept")

    (path,) = write_own_results(tmp_path, store, table, "rows")

    assert path.name == "linear_intercept.csv"
    assert rows(path) == [["number", "value"], ["1", "0.5"]]


def test_an_array_that_another_step_replaced_is_that_steps(tmp_path, table):
    store = KeptStore(tmp_path / "kept")
    keep(store, "mean", [1, 2], ("p",))
    keep(store, "mean", [3, 4], ("p",), "vfedpca.local_loadings")

    (path,) = write_own_results(tmp_path, KeptStore(tmp_path / "kept"), table)

    assert path.name == "vfedpca_mean.csv"
