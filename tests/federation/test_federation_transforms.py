"""Views of a federation: fitted transforms, which silos apply as rows are read."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from silo_rows import NAMES, frames, rows_of, table_of, view_of
from unpooled import PCA, Policy, StandardScaler, simulate
from unpooled.errors import DataError
from unpooled.models.moments import local_total
from unpooled.models.pca.pca import projected
from unpooled.models.preprocessing.scaler import standardised
from unpooled.party.views.view import View


@pytest.fixture
def federation():
    return simulate(frames(), label="sick", policy=Policy.open())


def test_derived_rows_are_what_the_step_returns(federation):
    mean, scale = np.array([1.0, 2, 3, 4]), np.array([1.0, 2, 1, 2])

    view = federation.derive(standardised, list("wxyz"), mean=mean, scale=scale)

    assert view.feature_names == ("w", "x", "y", "z")
    for party, X in rows_of(view).items():
        assert_array_equal(X, (frames()[party][NAMES].to_numpy() - mean) / scale)


@pytest.mark.slow
def test_selections_rows_and_transforms_go_on_from_one_another(federation):
    scaler = StandardScaler().fit(federation)
    pca = PCA(3).fit(scaler.transform(federation))
    train, _ = federation.folds(2, shuffle=False)[0]

    view = pca.transform(scaler.transform(train)).select(["pca2", "pca0"])

    for party, frame in frames().items():
        rows = frame[NAMES].to_numpy()[view_of(train, party).rows()]
        expected = pca.transform(scaler.transform(rows))[:, [2, 0]]
        assert_allclose(rows_of(view)[party], expected, rtol=0, atol=1e-13)


def test_only_selected_columns_are_read_from_the_source(federation):
    view = View(table_of(federation, "a"), federation.select(["pulse"]).operations)
    assert view.source_columns == ("pulse",)


def test_a_transform_takes_the_fitted_columns_in_any_order(federation):
    scaler = StandardScaler().fit(federation)
    turned = federation.select(NAMES[::-1])
    view = scaler.transform(turned)
    assert view.feature_names == tuple(NAMES)
    straight = rows_of(scaler.transform(federation))
    for party, X in rows_of(view).items():
        assert_array_equal(X, straight[party])


def test_a_transform_leaves_columns_out_that_it_was_not_fitted_on(federation):
    scaler = StandardScaler().fit(federation.select(["age", "height"]))
    assert scaler.transform(federation).feature_names == ("age", "height")
    with pytest.raises(DataError, match="no column 'age'"):
        scaler.transform(federation.select(["height", "pulse"]))


@pytest.mark.parametrize(
    ("step", "public", "said"),
    [
        (local_total, {}, "is declared summed, not derived"),
        (standardised, {"mean": np.zeros(4)}, "takes the public arguments"),
        (standardised, {"mean": np.zeros(4), "scale": np.zeros(3)}, "with axes"),
        (standardised, {"mean": np.zeros((4, 1)), "scale": np.ones(4)}, "with axes"),
        (
            projected,
            {"mean": np.zeros(4), "components": np.eye(4, 3), "scale": np.ones(4)},
            "with axes",
        ),
    ],
)
def test_impossible_transforms(federation, step, public, said):
    with pytest.raises(DataError, match=said):
        federation.derive(step, NAMES, **public)
