"""`summary()`: prints, is shown in notebooks, becomes frames, and asks nobody."""

import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

import unpooled as up
from report_pages import Page
from unpooled.errors import DataError
from unpooled.results.summary import summaries_of

NAMES = ["age", "<b>chol</b>", "thal"]


@pytest.fixture(scope="module")
def pca():
    rng = np.random.default_rng(0)
    frames = {
        s: pd.DataFrame(rng.standard_normal((40, 3)), columns=NAMES) for s in "abc"
    }
    return up.PCA(2).fit(up.simulate(frames))


def test_it_prints_aligned_tables(pca):
    text = str(pca.summary())

    lines = text.splitlines()
    assert lines[0].startswith("PCA: principal component analysis")
    start = next(i for i, line in enumerate(lines) if line.startswith("Component  "))
    first = lines[start + 1].split()
    assert first[0] == "1"
    assert float(first[1]) == pytest.approx(pca.explained_variance_[0], rel=1e-3)
    assert repr(pca.summary()) == text


def test_frames_have_all_digits(pca):
    summary = pca.summary()
    assert list(summary.tables) == [
        "explained_variance",
        "loadings",
        "correlations",
        "contributions",
        "cos2",
        "means",
    ]
    frame = summary.to_frame()
    assert list(frame) == [
        "component",
        "variance",
        "share",
        "cumulative_share",
        "broken_stick",
        "kept",
    ]
    np.testing.assert_array_equal(frame["variance"], pca.eigenvalues_)
    loadings = summary.to_frame("loadings")
    assert loadings["column"].tolist() == NAMES
    np.testing.assert_array_equal(loadings["component_2"], pca.components_[1])


def test_a_table_that_is_not_there_is_refused_with_those_that_are(pca):
    with pytest.raises(DataError, match=r'no table "scores" .* "loadings"'):
        pca.summary().to_frame("scores")


def test_frames_without_pandas_name_the_remedy(pca, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)

    with pytest.raises(DataError, match="pip install pandas"):
        pca.summary().to_frame()


def test_what_returns_a_frame_says_so_before_it_asks_silos(monkeypatch):
    rows = np.random.default_rng(0).standard_normal((60, 2))
    federation = up.simulate(up.partition_rows(rows, 3), policy=up.Policy.open())
    regression = up.LinearRegression().fit(federation, "x1")
    correlation = up.Correlation().fit(federation)
    before = len(federation.ledger)
    monkeypatch.setitem(sys.modules, "pandas", None)

    for call in (
        lambda: up.quantiles(federation),
        regression.conf_int,
        correlation.to_frame,
        federation.ledger.to_frame,
    ):
        with pytest.raises(DataError, match="pip install pandas"):
            call()
    assert len(federation.ledger) == before


@pytest.mark.slow
def test_a_notebook_shows_pictures_and_no_markup_of_others(pca):
    page = Page(pca.summary()._repr_html_())

    assert page.tags.count("svg") == 4
    assert page.tags.count("table") == 6
    assert "<b>chol</b>" in page.text
    assert "b" not in page.tags


def test_before_a_fit_there_is_none():
    with pytest.raises(NotFittedError):
        up.PCA().summary()


def test_it_asks_the_silos_for_nothing():
    X = np.random.default_rng(1).standard_normal((40, 6))
    parts = up.partition_columns(X, 3)
    federation = up.simulate(parts, partition="columns", policy=up.Policy.open())
    model = up.PCA(2, svd_solver="gram").fit(federation)
    lines = len(federation.ledger)

    before = str(model.summary())

    assert len(federation.ledger) == lines
    assert "Kept in the silos" in before
    assert "Loadings" not in before
    # And what a study file would ask for.
    assert 'disclose = ["components_", "mean_"]' in before.replace("\n", " ")
    generalised = up.CCA(1, regularisation=0.5).fit(federation)
    assert "No silo shows them" in str(generalised.summary()).replace("\n", " ")
    assert model.components_.shape == (2, 6)
    after = str(model.summary())
    assert "Loadings" in after


def test_a_description_that_needs_what_silos_keep_gives_way(monkeypatch):
    """An author who forgets that attributes may be in the silos ends no study."""
    X = np.random.default_rng(1).standard_normal((40, 6))
    parts = up.partition_columns(X, 3)
    federation = up.simulate(parts, partition="columns", policy=up.Policy.open())
    model = up.PCA(2, svd_solver="gram").fit(federation)
    monkeypatch.setattr(up.PCA, "_exhibits", lambda self, columns: self.components_)

    headings = [exhibit.heading for exhibit in model.summary().exhibits]

    assert headings == ["Fitted attributes", "Kept in the silos"]


CHANGED = {
    "scaler": (up.StandardScaler(), "standard deviations here, as StandardScaler"),
    "ranges": (up.RobustScaler(), "interquartile ranges here, as RobustScaler"),
    "tenths": (
        up.RobustScaler(quantile_range=(10.0, 90.0)),
        "distances between their 10 % and 90 % quantiles here",
    ),
    "ranks": (up.QuantileTransformer(n_quantiles=9), "shares of the rows with smaller"),
    "normal": (
        up.QuantileTransformer(n_quantiles=9, output_distribution="normal"),
        "normal scores of their ranks",
    ),
    "power": (
        up.PowerTransformer(comparison="summed"),
        "standard deviations of their Yeo-Johnson transforms",
    ),
}


def fitted_in_turn(steps, y=None):
    """Fit steps of a study, each on the rows as those before it give them."""
    rng = np.random.default_rng(2)
    tables = {
        s: pd.DataFrame(rng.lognormal(size=(90, 3)), columns=list("xyz")) for s in "abc"
    }
    view = up.simulate(tables, policy=up.Policy.open())
    for model in steps:
        model.fit(view, *([y] if model is steps[-1] and y else []))
        view = model.transform(view) if model is not steps[-1] else view
    return [summary.exhibits for summary in summaries_of(steps)]


@pytest.mark.thinned(1)
@pytest.mark.parametrize(("step", "unit"), CHANGED.values(), ids=CHANGED)
def test_a_model_says_in_what_units_earlier_steps_left_its_columns(step, unit):
    first, second = fitted_in_turn([step, up.LinearRegression()], "y")

    assert first[0].heading != "Units"
    assert second[0].heading == "Units"
    assert second[0].text.startswith(f"All columns are in {unit}")


@pytest.mark.slow
def test_units_are_of_the_columns_that_a_step_changed():
    parts = [(up.StandardScaler(), ["x", "y"])]
    scaled = up.ColumnTransformer(parts, remainder="passthrough")
    steps = [scaled, up.LinearRegression()]
    units = fitted_in_turn(steps, "y")[1][0]
    assert units.text == (
        "x and y are in standard deviations here, as ColumnTransformer gives them. "
        "z is not rescaled."
    )

    # Components have names of their own, and what only centres changes no unit.
    centred = up.StandardScaler(with_std=False)
    for steps in ([up.StandardScaler(), up.PCA(2), up.PCA(2)], [centred, up.PCA(2)]):
        assert fitted_in_turn(steps)[-1][0].heading == "Explained variance"
