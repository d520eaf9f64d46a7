"""Columns and components: every number equals the one computed from pooled rows."""

from fractions import Fraction

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn import decomposition
from sklearn.linear_model import LinearRegression

import unpooled as up
from unpooled.models.pca.column_measures import broken_stick

# The promise to readers; sums keep twelve digits, so errors are about a thousand times
# smaller.
RTOL = 1e-9
N, P = 240, 5


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(3)
    mixed = rng.standard_normal((N, P)) @ rng.standard_normal((P, P))
    return mixed * [1.0, 5.0, 0.1, 2.0, 30.0] + [0.0, 100.0, 3.0, -20.0, 7.0]


def silos(X, **options):
    return up.simulate(up.partition_rows(X, 4), policy=up.Policy.open(), **options)


@pytest.fixture(scope="module")
def fits(rows):
    """A model of three components, its federation, and scores of the pooled rows."""
    federation = silos(rows)
    return (
        up.PCA(3).fit(federation),
        federation,
        decomposition.PCA(3).fit_transform(rows),
    )


def table(model, name):
    """Return a table of columns by components as an array."""
    frame = model.summary().to_frame(name)
    return frame.filter(like="component_").to_numpy()


# --- Variances -----------------------------------------------------------------------


def test_all_variances_are_known_whatever_is_kept(rows, fits):
    model = fits[0]
    pooled = decomposition.PCA().fit(rows)

    frame = model.summary().to_frame("explained_variance")

    assert_allclose(model.eigenvalues_, pooled.explained_variance_, rtol=RTOL)
    assert_allclose(frame["variance"], pooled.explained_variance_, rtol=RTOL)
    assert_allclose(frame["share"], pooled.explained_variance_ratio_, rtol=RTOL)
    shares = np.cumsum(pooled.explained_variance_ratio_)
    assert_allclose(frame["cumulative_share"], shares, rtol=RTOL)
    assert frame["kept"].tolist() == [True, True, True, False, False]
    assert_allclose(model.feature_variance_, rows.var(axis=0, ddof=1), rtol=RTOL)


def test_more_components_than_rows_have_no_variance():
    X = np.random.default_rng(0).standard_normal((9, 20))

    model = up.PCA(2).fit(silos(X))

    pooled = decomposition.PCA().fit(X)
    # The ninth is rounding: there are N - 1 directions.
    assert len(model.eigenvalues_) == 9
    assert_allclose(model.eigenvalues_[:8], pooled.explained_variance_[:8], rtol=RTOL)
    expected = model.summary().to_frame("explained_variance")["broken_stick"]
    assert_allclose(expected, [*broken_stick(8), 0.0], rtol=1e-14)


@pytest.mark.slow
def test_solvers_that_find_k_do_not_list_others(rows):
    for model in (up.PCA(2, svd_solver="krylov"), up.PCA(2, bits=32)):
        model.fit(silos(rows))

        assert "eigenvalues_" not in vars(model)
        assert_allclose(model.feature_variance_, rows.var(axis=0, ddof=1), rtol=RTOL)
        assert len(model.summary().to_frame("explained_variance")) == 2


def test_an_update_knows_the_variances_of_the_present_rows(rows):
    model = up.PCA(2).fit(silos(rows[:200], study="s"))

    model.update(silos(rows, study="t"))

    pooled = decomposition.PCA().fit(rows)
    assert_allclose(model.eigenvalues_, pooled.explained_variance_, rtol=RTOL)
    assert_allclose(model.feature_variance_, rows.var(axis=0, ddof=1), rtol=RTOL)


def test_the_broken_stick():
    thirds = [Fraction(11, 18), Fraction(5, 18), Fraction(2, 18)]
    assert_allclose(broken_stick(3), [float(one) for one in thirds], rtol=1e-15)
    assert broken_stick(40).sum() == pytest.approx(1.0, abs=1e-14)
    # Expected lengths of the pieces between sorted uniform cuts; the standard error of
    # each mean is below 0.2 / sqrt(20000) = 0.0015.
    cuts = np.sort(np.random.default_rng(1).uniform(size=(20_000, 3)), axis=1)
    edges = np.hstack([np.zeros((20_000, 1)), cuts, np.ones((20_000, 1))])
    pieces = np.sort(np.diff(edges, axis=1), axis=1)[:, ::-1]
    assert_allclose(broken_stick(4), pieces.mean(axis=0), atol=0.006)


def test_components_above_the_broken_stick_are_counted():
    rng = np.random.default_rng(5)
    X = rng.standard_normal((N, 1)) * np.ones(6) + 0.3 * rng.standard_normal((N, 6))

    text = up.PCA(2).fit(silos(X)).summary().exhibits[0].text

    assert "The first component lies above the broken stick" in text


# --- Columns and components ----------------------------------------------------------


def test_correlations_are_those_of_pooled_rows_with_scores(rows, fits):
    model, _, scores = fits

    theirs = np.corrcoef(rows.T, scores.T)[:P, P:]

    assert_allclose(table(model, "correlations"), theirs, rtol=RTOL, atol=1e-12)


def test_cos2_is_the_share_of_a_column_that_scores_explain(rows, fits):
    model, _, scores = fits
    explained = [
        [LinearRegression().fit(scores[:, [i]], y).score(scores[:, [i]], y)
         for i in range(3)]
        for y in rows.T
    ]  # fmt: skip

    assert_allclose(table(model, "cos2"), explained, rtol=RTOL, atol=1e-12)

    of_all = [LinearRegression().fit(scores, y).score(scores, y) for y in rows.T]
    frame = model.summary().to_frame("cos2")
    assert_allclose(frame["total"], of_all, rtol=RTOL)
    plane = model.summary().to_frame("correlations")["cos2_plane"]
    assert_allclose(plane, np.sum(explained, axis=1, where=[True, True, False]))


def test_contributions_are_those_of_factominer(rows, fits):
    """As there, from standard deviations with denominator N: contrib = coord² / λ."""
    centred = rows - rows.mean(axis=0)
    values, vectors = np.linalg.eigh(centred.T @ centred / N)
    coordinates = vectors[:, :-4:-1] * np.sqrt(values[:-4:-1])

    ours = table(fits[0], "contributions")

    assert_allclose(ours, coordinates**2 / values[:-4:-1], rtol=RTOL, atol=1e-12)
    assert_allclose(ours.sum(axis=0), 1.0, rtol=1e-12)


def test_all_components_determine_the_correlations_of_columns(rows, fits):
    summary = up.PCA().fit(silos(rows)).summary()

    frame = summary.to_frame("correlation_matrix")

    assert_allclose(
        frame.to_numpy()[:, 1:].astype(float), np.corrcoef(rows.T), rtol=RTOL
    )
    assert "correlation_matrix" not in fits[0].summary().tables


def test_constant_columns_have_no_correlations(rows):
    X = np.column_stack([rows, np.full(N, 0.1)])

    summary = up.PCA(2).fit(silos(X)).summary()

    frame = summary.to_frame("correlations").set_index("column")
    assert np.isnan(frame.loc["x5"]).all()
    assert not np.isnan(frame.drop("x5")).any(axis=None)
    circle = next(e for e in summary.exhibits if e.heading.startswith("Columns and"))
    assert "5 columns as lines" in circle.picture.description


def test_columns_without_any_variance_have_results():
    federation = silos(np.ones((40, 3)))

    with np.errstate(all="raise"):
        summary = up.PCA(2).fit(federation).summary()

    assert "correlations" in summary.tables
    assert str(summary)


def test_sentences_name_the_columns_that_drive_components(fits):
    model = fits[0]
    text = next(e for e in model.summary().exhibits if e.heading == "Loadings").text

    largest = int(np.argmax(np.abs(model.components_[0])))
    rising = model.components_[0, largest] > 0
    assert f"{'increases' if rising else 'decreases'} with x{largest}" in text
    # By its units, this column alone has nearly all variance.
    assert "Column x4 alone has" in model.summary().exhibits[0].text


def test_many_columns_are_cut_on_pages_and_whole_in_files():
    X = np.random.default_rng(2).standard_normal((N, 40))

    summary = up.PCA(8).fit(silos(X)).summary()

    for name in ("correlations", "contributions", "cos2"):
        assert len(summary.tables[name].rows) == 40
        (part,) = [
            t for e in summary.exhibits for t in e.on_pages if t.name == name
        ]  # fmt: skip
        assert len(part.rows) == 15
        assert "Of 40 columns" in part.notes


# --- What is known -------------------------------------------------------------------


@pytest.mark.slow
def test_with_privacy_noise_is_the_reference_and_correlations_are_not_told():
    X = np.random.default_rng(4).standard_normal((4000, 3)) * [3.0, 1.0, 1.0]
    privacy = up.GaussianPrivacy(epsilon=4.0, delta=1e-6, row_norm=12.0)

    model = up.PCA(1, privacy=privacy).fit(silos(X))

    summary = model.summary()
    frame = summary.to_frame("explained_variance")
    assert len(frame) == 3
    # The same noise edge beside every component, in units of the total variance.
    edge = model.privacy_["noise_edge"]
    total = model.explained_variance_[0] / model.explained_variance_ratio_[0]
    assert_allclose(frame["noise_alone"], edge / total, rtol=1e-12)
    assert not {"correlations", "cos2"} & set(summary.tables)
    assert "contributions" in summary.tables


def test_on_columns_what_all_components_determine_is_told_once_read(rows):
    parts = up.partition_columns(rows, 2)
    people = up.simulate(parts, partition="columns", policy=up.Policy.open())
    model = up.PCA(svd_solver="gram").fit(people)
    # N = 240 people, of whom the matrix of products has rank p.
    before = len(people.ledger)
    assert not {"loadings", "correlations"} & set(model.summary().tables)
    assert len(people.ledger) == before

    assert model.components_.shape[1] == P  # asks the silos

    theirs = np.corrcoef(rows.T, decomposition.PCA().fit_transform(rows).T)[:P, P:]
    ours = table(model, "correlations")
    # A Gram matrix is of squares: of a component it keeps half the digits of its
    # standard deviation beside the largest's.
    assert_allclose(np.abs(ours[:, :P]), np.abs(theirs), atol=1e-6)


def test_nothing_is_asked_of_silos_for_a_summary(fits):
    model, federation, _ = fits
    before = len(federation.ledger)

    str(model.summary())

    assert len(federation.ledger) == before
    assert {line.name for line in federation.ledger if line.direction == "out"} == {
        "count", "total", "squares", "scatter",
    }  # fmt: skip
