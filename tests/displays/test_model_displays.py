"""Displays: numbers of the pooled rows, scikit-learn's manner, nothing from silos."""

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.patches import Polygon
from numpy.testing import assert_allclose
from sklearn import decomposition
from sklearn.datasets import load_iris
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis as PooledLDA
from sklearn.exceptions import NotFittedError
from sklearn.metrics import ConfusionMatrixDisplay, confusion_matrix
from sklearn.pipeline import make_pipeline

import unpooled as up
from unpooled.errors import DataError

RTOL = 1e-9  # see tests/models/pca/test_column_measures.py
X, SPECIES = load_iris(return_X_y=True)
NAMES = ["sepal length", "sepal width", "petal length", "petal width"]


@pytest.fixture(scope="module")
def federation():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=NAMES).assign(species=SPECIES)
    parts = {name: frame[i::3] for i, name in enumerate(("a", "b", "c"))}
    return up.simulate(parts, label="species", policy=up.Policy.open())


@pytest.fixture(scope="module")
def pca(federation):
    return up.PCA(2).fit(federation)


@pytest.fixture(scope="module")
def whole(federation):
    return up.PCA().fit(federation)


@pytest.fixture(scope="module")
def lda(federation):
    return up.LinearDiscriminantAnalysis().fit(federation, "species")


@pytest.fixture(autouse=True)
def closed():
    """Pyplot keeps figures until they are closed."""
    yield
    plt.close("all")


def drawn_by(display, *args, **options):
    """Return a display, and check what all have."""
    one = display.from_estimator(*args, **options)
    assert isinstance(one, display)
    axes = np.ravel(one.ax_)
    assert all(ax.figure is one.figure_ for ax in axes)
    assert all(ax.has_data() or ax.patches for ax in axes)
    one.figure_.canvas.draw()
    return one


# --- Their numbers -------------------------------------------------------------------


@pytest.mark.slow
def test_scree_has_all_shares_that_are_known(pca):
    pooled = decomposition.PCA().fit(X)

    display = drawn_by(up.ScreeDisplay, pca)

    assert_allclose(display.shares, pooled.explained_variance_ratio_, rtol=RTOL)
    assert (display.n_kept, display.reference_name) == (2, "broken stick")
    panels: Any = display.ax_
    shares, cumulative = panels
    heights = [bar.get_height() for bar in shares.patches]
    assert_allclose(heights, 100 * pooled.explained_variance_ratio_, rtol=RTOL)
    line = cumulative.lines[0].get_ydata()
    assert_allclose(line, 100 * np.cumsum(pooled.explained_variance_ratio_))


@pytest.mark.slow
def test_scree_of_discriminants(lda):
    pooled = PooledLDA(solver="eigen").fit(X, SPECIES)

    display = drawn_by(up.ScreeDisplay, lda)

    expected = pooled.explained_variance_ratio_[:2]
    assert_allclose(display.shares, expected, rtol=1e-7)
    assert display.reference is None


@pytest.mark.slow
def test_loadings_are_bars_on_one_scale(pca):
    pooled = decomposition.PCA(2).fit(X)

    display = drawn_by(up.LoadingsDisplay, pca)

    assert display.columns == NAMES
    panels: Any = display.ax_
    for ax, values in zip(panels, pooled.components_, strict=True):
        widths = [bar.get_width() for bar in ax.patches]
        assert_allclose(widths, values, rtol=RTOL, atol=1e-11)
    assert panels[0].get_xlim() == panels[1].get_xlim()


@pytest.mark.slow
def test_loadings_of_many_columns_are_the_largest():
    wide = np.random.default_rng(0).standard_normal((200, 12))
    parts = up.partition_rows(wide, 4)
    model = up.PCA(2).fit(up.simulate(parts, policy=up.Policy.open()))

    display = drawn_by(up.LoadingsDisplay, model, components=[1], max_columns=3)

    largest = np.sort(np.argsort(-np.abs(model.components_[1]))[:3])
    assert display.columns == [f"x{j}" for j in largest]
    assert_allclose(display.loadings, model.components_[1:, largest])


def test_circle_has_the_correlations_of_pooled_rows_with_scores(whole):
    scores = decomposition.PCA().fit_transform(X)[:, [0, 2]]

    display = drawn_by(up.CorrelationCircleDisplay, whole, components=(0, 2))

    expected = np.corrcoef(X.T, scores.T)[:4, 4:]
    assert_allclose(display.correlations, expected, rtol=RTOL, atol=1e-11)
    assert display.columns == NAMES
    assert display.labels == ("component 1 (92.5 %)", "component 3 (1.7 %)")


@pytest.mark.slow
def test_biplot_of_all_rows_is_their_covariance(pca):
    scores = decomposition.PCA(2).fit_transform(X)

    display = drawn_by(up.BiplotDisplay, pca)

    assert display.classes == [""]
    assert_allclose(display.covariances[0], np.cov(scores.T), rtol=RTOL, atol=1e-10)


@pytest.mark.slow
def test_biplot_of_classes_on_components(pca, lda):
    pooled = decomposition.PCA(2).fit(X)
    scores = pooled.transform(X)
    means = [scores[SPECIES == c].mean(axis=0) for c in range(3)]
    # Within classes, with denominator N: as the discriminant analysis has it.
    within = np.mean([np.cov(scores[SPECIES == c].T, ddof=0) for c in range(3)], axis=0)

    display = drawn_by(up.BiplotDisplay, pca, classes=lda)

    assert display.classes == ["0", "1", "2"]
    assert_allclose(display.means, means, rtol=RTOL, atol=1e-10)
    assert_allclose(display.covariances, [within] * 3, rtol=RTOL, atol=1e-10)
    assert_allclose(display.arrows, pooled.components_.T, rtol=RTOL, atol=1e-10)


@pytest.mark.slow
def test_biplot_of_discriminants_has_structure_correlations(lda):
    scores = PooledLDA(solver="eigen").fit(X, SPECIES).transform(X)
    centre = np.array([X[SPECIES == c].mean(axis=0) for c in range(3)])[SPECIES]
    along = np.array([scores[SPECIES == c].mean(axis=0) for c in range(3)])[SPECIES]
    expected = np.corrcoef((X - centre).T, (scores - along).T)[:4, 4:]

    display = drawn_by(up.BiplotDisplay, lda)

    # Signs of directions are scikit-learn's own; its solver has about eight digits.
    assert_allclose(np.abs(display.arrows), np.abs(expected), rtol=1e-7)
    assert_allclose(display.covariances, [np.eye(2)] * 3, atol=1e-9)


@pytest.mark.slow
def test_classes_have_ellipses_of_their_own_where_the_fit_opened_them(federation):
    model = up.LinearDiscriminantAnalysis(shrinkage="auto").fit(federation, "species")

    display = drawn_by(up.BiplotDisplay, model)

    V = model.scalings_
    own = [np.cov((X[SPECIES == c] @ V).T, ddof=0) for c in range(3)]
    assert_allclose(display.covariances, own, rtol=RTOL, atol=1e-9)


@pytest.mark.slow
def test_ellipses_contain_their_share_of_a_normal_distribution(pca):
    points = np.random.default_rng(0).standard_normal((100_000, 2))

    display = drawn_by(up.BiplotDisplay, pca, coverage=0.9)

    (outline,) = [p.get_xy() for p in display.ax_.patches if isinstance(p, Polygon)]
    # In units of standard deviations it is a circle; of 100,000 points 0.9 lie inside,
    # give or take five times sqrt(0.9 × 0.1 / 100,000) = 0.001.
    radius = np.linalg.norm(outline / np.sqrt(np.diag(display.covariances[0])), axis=1)
    assert_allclose(radius, radius[0], rtol=1e-9)
    inside = np.mean(np.linalg.norm(points, axis=1) < radius[0])
    assert inside == pytest.approx(0.9, abs=0.005)


@pytest.mark.thinned(1)
@pytest.mark.shapes
@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ("correlations", np.corrcoef(X.T)),
        ("covariances", np.cov(X.T)),
        ("loadings", decomposition.PCA().fit(X).components_.T),
        ("contributions", decomposition.PCA().fit(X).components_.T ** 2),
        ("cos2", np.corrcoef(X.T, decomposition.PCA().fit_transform(X).T)[:4, 4:] ** 2),
    ],
)
def test_heatmaps_of_components(whole, values, expected):
    display = drawn_by(up.HeatmapDisplay, whole, values=values)

    assert_allclose(display.values, expected, rtol=RTOL, atol=1e-11)
    assert display.rows == NAMES


def test_heatmap_within_classes(lda):
    residuals = X - np.array([X[SPECIES == c].mean(axis=0) for c in range(3)])[SPECIES]

    display = drawn_by(up.HeatmapDisplay, lda, values="correlations")

    assert_allclose(display.values, np.corrcoef(residuals.T), rtol=RTOL)


@pytest.mark.thinned(1)
@pytest.mark.parametrize("normalize", [None, "true", "pred", "all"])
def test_a_confusion_matrix_is_scikit_learns(federation, lda, normalize):
    predicted = PooledLDA().fit(X, SPECIES).predict(X)
    expected = confusion_matrix(SPECIES, predicted, normalize=normalize)

    display = up.ConfusionMatrixDisplay.from_estimator(
        lda, federation, "species", normalize=normalize
    )

    assert_allclose(display.confusion_matrix, expected, rtol=1e-12)
    assert display.display_labels == [0, 1, 2]
    theirs = ConfusionMatrixDisplay(expected).plot()
    drawn = [text.get_text() for text in display.ax_.texts]
    if normalize is None:
        assert drawn == [one.get_text() for one in theirs.text_.ravel()]
    assert drawn == display.text_.ravel().tolist()
    xlabels = [text.get_text() for text in display.ax_.get_xticklabels()]
    assert xlabels == ["0", "1", "2"]
    display.figure_.canvas.draw()


def test_a_confusion_matrix_of_predictions_takes_labels_names_and_axes(federation, lda):
    axes = plt.figure().add_subplot()
    predicted = lda.predict(federation)

    display = up.ConfusionMatrixDisplay.from_predictions(
        "species",
        predicted,
        labels=[2, 1],
        display_labels=["virginica", "versicolor"],
        values_format=".1f",
        ax=axes,
    )

    own = PooledLDA().fit(X, SPECIES).predict(X)
    expected = confusion_matrix(SPECIES, own, labels=[2, 1])
    assert display.confusion_matrix.tolist() == expected.tolist()
    assert display.ax_ is axes
    assert display.text_[0, 0] == f"{expected[0, 0]:.1f}"
    heads = [text.get_text() for text in axes.get_yticklabels()]
    assert heads == ["virginica", "versicolor"]


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda m, f: up.ConfusionMatrixDisplay.from_estimator(m, X, SPECIES),
         "not LinearDiscriminantAnalysis and ndarray. For arrays in one place"),
        (lambda m, f: up.ConfusionMatrixDisplay.from_estimator(m, f, "kind"),
         "y='kind' is not the label"),
        (lambda m, f: up.ConfusionMatrixDisplay.from_predictions("species", f),
         "confusion_matrix takes the name of a label"),
        (lambda m, f: up.ConfusionMatrixDisplay.from_estimator(m, f, normalize="row"),
         "normalize='row'; choose"),
        (lambda m, f: up.ConfusionMatrixDisplay(np.eye(2), display_labels="abc").plot(),
         "3 classes has 3 rows and columns"),
    ],
)  # fmt: skip
def test_a_confusion_matrix_refuses(federation, lda, draw, message):
    with pytest.raises(DataError, match=message):
        draw(lda, federation)


# --- Their manner --------------------------------------------------------------------


@pytest.mark.slow
def test_they_draw_where_the_user_says(pca, whole):
    figure, axes = plt.subplots(2, 3)
    scree, loadings, circle, biplot, heatmap, alone = axes.ravel()

    assert up.ScreeDisplay.from_estimator(pca, ax=[scree, alone]).ax_ == (scree, alone)
    one = up.LoadingsDisplay.from_estimator(pca, ax=loadings)
    assert one.ax_ is loadings
    assert one.titles == ["component 1"]
    for display, ax in (
        (up.CorrelationCircleDisplay, circle),
        (up.BiplotDisplay, biplot),
        (up.HeatmapDisplay, heatmap),
    ):
        found = display.from_estimator(whole, ax=ax)
        assert found.ax_ is ax
        assert found.figure_ is figure
    figure.canvas.draw()


def test_a_figure_of_their_own_is_pyplots(pca):
    display = up.ScreeDisplay.from_estimator(pca)

    assert plt.gcf() is display.figure_


def test_a_display_can_be_drawn_again(pca):
    display = up.LoadingsDisplay.from_estimator(pca)
    first = display.figure_

    assert display.plot() is display
    assert display.figure_ is not first


@pytest.mark.slow
def test_pipelines_stand_for_their_last_step(federation):
    pipeline = make_pipeline(up.StandardScaler(), up.PCA(2)).fit(federation)

    display = drawn_by(up.CorrelationCircleDisplay, pipeline)

    assert display.columns == NAMES


@pytest.mark.slow
def test_they_ask_nothing_of_the_silos(federation, pca, lda):
    before = len(federation.ledger)

    up.ScreeDisplay.from_estimator(pca)
    up.CorrelationCircleDisplay.from_estimator(pca)
    up.BiplotDisplay.from_estimator(pca, classes=lda)
    up.HeatmapDisplay.from_estimator(lda, values="covariances")

    assert len(federation.ledger) == before


# --- What they refuse ----------------------------------------------------------------


@pytest.mark.slow
def test_what_silos_keep_is_not_drawn_until_it_was_read():
    parts = up.partition_columns(X, 2)
    people = up.simulate(parts, partition="columns", policy=up.Policy.open())
    model = up.PCA(2, svd_solver="gram").fit(people)
    before = len(people.ledger)

    for display in (
        up.LoadingsDisplay, up.CorrelationCircleDisplay, up.BiplotDisplay,
        up.HeatmapDisplay,
    ):  # fmt: skip
        with pytest.raises(DataError, match=r"components_ is kept in the silos"):
            display.from_estimator(model)
    assert len(people.ledger) == before
    assert drawn_by(up.ScreeDisplay, model).n_kept == 2

    assert model.components_.shape == (2, 4)
    drawn_by(up.BiplotDisplay, model)
    with pytest.raises(DataError, match="standard deviations of the columns are not"):
        up.CorrelationCircleDisplay.from_estimator(model)


def test_people_of_a_kernel_matrix_are_never_drawn():
    parts = up.partition_columns(X, 2)
    people = up.simulate(parts, partition="columns", policy=up.Policy.open())
    model = up.KernelPCA(2).fit(people)

    for display in (up.LoadingsDisplay, up.HeatmapDisplay):
        with pytest.raises(DataError, match="draws components_, which this KernelPCA"):
            display.from_estimator(model)


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda m: up.HeatmapDisplay.from_estimator(m, values="correlations"),
         "n_components=None, which releases no more"),
        (lambda m: up.HeatmapDisplay.from_estimator(m, values="scores"),
         "values='scores'; choose "),
        (lambda m: up.BiplotDisplay.from_estimator(m, components=(0, 2)),
         "two different positions from 0 to 1"),
        (lambda m: up.BiplotDisplay.from_estimator(m, components=(1, 1)),
         "two different positions from 0 to 1"),
        (lambda m: up.BiplotDisplay.from_estimator(m, coverage=1.0),
         "must lie between 0 and 1"),
        (lambda m: up.BiplotDisplay.from_estimator(m, classes=m),
         "not PCA"),
        (lambda m: up.LoadingsDisplay.from_estimator(m, components=[4]),
         "positions from 0 to 1"),
        (lambda m: up.LoadingsDisplay(np.eye(1), ["a"], ["1"]).plot(ax=[None, None]),
         "1 components need 1 axes; there are 2"),
    ],
)  # fmt: skip
def test_refusals_say_what_is_allowed(pca, draw, message):
    with pytest.raises(DataError, match=message):
        draw(pca)


def test_other_models_are_refused(federation, lda):
    scaler = up.StandardScaler().fit(federation)
    with pytest.raises(DataError, match="explained_variance_ratio_, which this Stand"):
        up.ScreeDisplay.from_estimator(scaler)
    with pytest.raises(DataError, match="draws a PCA, not LinearDiscriminantAnalysis"):
        up.CorrelationCircleDisplay.from_estimator(lda)
    with pytest.raises(DataError, match="not StandardScaler"):
        up.BiplotDisplay.from_estimator(scaler)


def test_classes_of_other_columns_are_refused(federation, pca):
    other = federation.select(NAMES[:3])
    groups = up.LinearDiscriminantAnalysis().fit(other, "species")

    with pytest.raises(DataError, match="fitted on other columns"):
        up.BiplotDisplay.from_estimator(pca, classes=groups)


def test_unfitted_models_are_refused():
    with pytest.raises(NotFittedError):
        up.ScreeDisplay.from_estimator(up.PCA())
