"""Complete rows: a view of them, and what a silo answers beside it."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import unpooled as up
from unpooled.errors import DataError, ReleaseRefusedError

N = 60


def silos(missing):
    """Three silos of N rows, of which the first lacks cells: column -> rows."""
    rng = np.random.default_rng(5)
    made = {
        s: pd.DataFrame(rng.standard_normal((N, 3)), columns=[*"abc"]) for s in "xyz"
    }
    for column, rows in missing.items():
        made["x"].loc[rows, column] = np.nan
    return made


def test_view_has_the_complete_rows():
    made = silos({"a": range(20), "b": range(10, 30)})
    rows = pd.concat(made.values())
    view = up.simulate(made).select(["a", "b"]).complete_rows()

    pca = up.PCA().fit(view)

    wanted = rows[["a", "b"]].dropna()
    assert pca.n_samples_ == len(wanted) == 3 * N - 30
    assert_allclose(pca.mean_, wanted.mean(), atol=1e-12)


def test_complete_tables_are_answered_about_like_others():
    federation = up.simulate(silos({}))
    up.PCA().fit(federation)
    assert up.PCA().fit(federation.complete_rows()).n_samples_ == 3 * N


def test_a_few_incomplete_rows_are_not_left_out_beside_all_rows():
    federation = up.simulate(silos({"a": [3]}))
    up.PCA().fit(federation.select(["b", "c"]))
    with pytest.raises(ReleaseRefusedError, match=r"x refused.*min_changed_rows"):
        up.PCA().fit(federation.complete_rows())


def test_all_rows_are_not_answered_about_after_complete_ones_without_a_few():
    federation = up.simulate(silos({"a": [3]}))
    up.PCA().fit(federation.complete_rows())
    with pytest.raises(ReleaseRefusedError, match=r"x refused.*min_changed_rows"):
        up.PCA().fit(federation.select(["b", "c"]))


# Twenty rows lack a, and row 20 lacks b alone: its cell of a is in the mean of the
# cells that are there, and not in that of the complete rows.
TELLING = {"a": range(20), "b": range(21)}


def test_observed_cells_and_complete_rows_that_differ_in_one_cell():
    federation = up.simulate(silos(TELLING))
    up.SimpleImputer().fit(federation)
    with pytest.raises(ReleaseRefusedError, match=r"x refused.*min_changed_rows"):
        up.PCA().fit(federation.complete_rows())


def test_complete_rows_and_observed_cells_that_differ_in_one_cell():
    federation = up.simulate(silos(TELLING))
    up.PCA().fit(federation.select(["a", "b"]).complete_rows())
    with pytest.raises(ReleaseRefusedError, match=r"x refused.*min_changed_rows"):
        up.SimpleImputer().fit(federation.select(["a"]))
    # The other columns have no cells that the complete rows told of.
    up.PCA().fit(federation.select(["c"]))


def test_both_are_answered_about_where_enough_cells_differ():
    federation = up.simulate(silos({"a": range(20), "b": range(20, 40)}))
    up.SimpleImputer().fit(federation)
    assert up.PCA().fit(federation.complete_rows()).n_samples_ == 3 * N - 40


def test_parts_of_complete_rows_are_not_made():
    federation = up.simulate(silos({}))
    with pytest.raises(DataError, match="Folds and splits of complete rows"):
        federation.complete_rows().folds(3)
    part, _ = federation.train_test_split()
    with pytest.raises(DataError, match="Folds and splits of complete rows"):
        part.complete_rows()


def test_on_a_column_partition_nobody_knows_complete_rows():
    columns = up.partition_columns(np.zeros((12, 4)), 2)
    with pytest.raises(DataError, match="no silo knows which rows are complete"):
        up.simulate(columns, partition="columns").complete_rows()


@pytest.mark.slow
def test_each_choice_of_columns_is_a_question_about_missing_cells():
    """Refusals by choice of columns tell which columns have a few missing cells."""
    federation = up.simulate(silos({"a": [3], "b": [4], "c": [5]}))
    up.PCA().fit(federation.select(["a"]).complete_rows())
    for column in "bc":
        with pytest.raises(ReleaseRefusedError, match="min_changed_rows"):
            up.PCA().fit(federation.select([column]).complete_rows())
    with pytest.raises(ReleaseRefusedError, match="min_changed_rows"):
        up.PCA().fit(federation.select(["b", "c"]).complete_rows())
    with pytest.raises(ReleaseRefusedError, match="refusals"):
        up.PCA().fit(federation.select(["a", "c"]).complete_rows())


def test_followed_and_out_of_core(tmp_path):
    made = silos({"a": range(20), "b": range(10, 30)})
    wanted = pd.concat(made.values())[["a", "b"]].dropna()
    for name, rows in made.items():
        rows.to_csv(tmp_path / f"{name}.csv", index=False)
    files = {name: tmp_path / f"{name}.csv" for name in made}
    federation = up.simulate(files, follow=True)

    pca = up.PCA().fit(federation.select(["a", "b"]).complete_rows())

    assert_allclose(pca.mean_, wanted.mean(), atol=1e-12)
