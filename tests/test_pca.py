"""PCA on a federation: the pooled answer, what it cost, and what is refused."""

import functools

import mpmath
import numpy as np
import pytest
import scipy.linalg
import sklearn.decomposition
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import NotFittedError

from twins import RTOL, assert_close, assert_same_components, assert_same_pca
from unpooled import PCA, Policy, partition_rows, plan, simulate
from unpooled.errors import DataError, ReleaseRefusedError

N, P = 120, 6


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(7)
    return rng.standard_normal((N, P)) @ rng.standard_normal((P, P)) + 10.0


@pytest.fixture(scope="module")
def new_rows():
    return 10 + 3 * np.random.default_rng(8).standard_normal((9, P))


def pooled(rows, n_components=None, **options):
    options = {"svd_solver": "full", **options}
    return sklearn.decomposition.PCA(n_components, **options).fit(rows)


def three_silos(rows, **options):
    return simulate(partition_rows(rows, 3), **options)


def open_silos(rows, m=3):
    return simulate(partition_rows(rows, m), policy=Policy.open())


# --- The pooled answer ---------------------------------------------------------------


@pytest.mark.parametrize("n_components", [None, 3])
def test_equals_the_pooled_twin(federate, rows, new_rows, n_components):
    theirs = pooled(rows, n_components)

    ours = PCA(n_components).fit(federate(rows))

    assert_same_pca(ours, theirs)
    coordinates = theirs.transform(new_rows)
    assert_close(ours.transform(new_rows), coordinates)
    assert_close(
        ours.inverse_transform(coordinates), theirs.inverse_transform(coordinates)
    )


@pytest.mark.parametrize("n_components", [1, P, 0.01, 0.8, 0.999])
def test_any_number_of_components(rows, n_components):
    assert_same_pca(PCA(n_components).fit(open_silos(rows)), pooled(rows, n_components))


@pytest.mark.parametrize("split", ["one-row", "dirichlet"], indirect=True)
def test_whitening_equals_the_pooled_twin(federate, rows, new_rows):
    theirs = pooled(rows, 4, whiten=True)

    ours = PCA(4, whiten=True).fit(federate(rows))

    assert_same_pca(ours, theirs)
    coordinates = theirs.transform(new_rows)
    assert_close(ours.transform(new_rows), coordinates)
    assert_close(
        ours.inverse_transform(coordinates), theirs.inverse_transform(coordinates)
    )
    assert_allclose(ours.transform(rows).var(axis=0, ddof=1), 1.0, rtol=RTOL)


@pytest.mark.parametrize("n_components", [2, P])
def test_probabilistic_model_equals_the_pooled_twin(rows, new_rows, n_components):
    ours, theirs = PCA(n_components).fit(open_silos(rows)), pooled(rows, n_components)

    assert_close(ours.get_covariance(), theirs.get_covariance())
    # Inverted with a condition of 1e3 or so, at eps each.
    assert_close(ours.get_precision(), theirs.get_precision())
    assert_close(ours.score_samples(new_rows), theirs.score_samples(new_rows))
    assert_allclose(ours.score(new_rows), theirs.score(new_rows), rtol=RTOL)


def test_fewer_rows_than_columns(rows):
    wide = rows[:, :5].T.copy()

    ours = PCA().fit(open_silos(wide))

    assert_same_pca(ours, pooled(wide))
    assert ours.n_components_ == 5
    # Five rows about their mean have rank 4: exactly nothing is left for the fifth.
    assert ours.singular_values_[-1] == 0.0


def test_noise_variance_of_fewer_rows_than_columns(rows):
    # scikit-learn's solvers differ: "full" divides by min(N, p) - k, "covariance_eigh"
    # by p - k, which is the maximum likelihood estimate and ours.
    wide = rows[:, :5].T.copy()
    theirs = pooled(wide, 2, svd_solver="covariance_eigh")
    ours = PCA(2).fit(open_silos(wide))
    assert_allclose(ours.noise_variance_, theirs.noise_variance_, rtol=RTOL)


def test_as_many_components_as_explain_a_sum_of_ratios(rows):
    # The sum of all ratios but the last is not enough: `share` is to be exceeded.
    share = PCA().fit(open_silos(rows)).explained_variance_ratio_.cumsum()[-2]
    assert PCA(share).fit(open_silos(rows)).n_components_ == P


def test_numbers_of_components_may_be_numpys(rows):
    assert PCA(np.int64(2)).fit(open_silos(rows)).n_components_ == 2
    assert PCA(np.float32(0.5)).fit(open_silos(rows)).n_components_ >= 1


def test_truncated_solution_equals_the_full_one():
    # Above 256 columns only the leading eigenpairs are solved for.
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 300)) * np.linspace(3, 1, 300) + 1
    assert_same_pca(PCA(4).fit(open_silos(X)), pooled(X, 4))


def test_integers_and_bools_are_numbers():
    X = np.random.default_rng(0).integers(0, 5, (60, 4))
    assert_same_pca(PCA().fit(open_silos(X)), pooled(X))
    flags = X > 2
    assert_same_pca(PCA().fit(open_silos(flags)), pooled(flags.astype(float)))


def test_half_precision_silos_are_added_in_double(rows):
    X = rows.astype(np.float32)
    assert_same_pca(PCA().fit(open_silos(X)), pooled(X.astype(float)))


# --- Hard columns --------------------------------------------------------------------


def test_constant_columns(federate, rows):
    X = np.column_stack([rows, np.zeros(N), np.full(N, 7.3), np.full(N, -1e8)])

    ours, theirs = PCA().fit(federate(X)), pooled(X)

    assert_close(ours.mean_, theirs.mean_)
    assert_allclose(ours.explained_variance_[:P], theirs.explained_variance_[:P], RTOL)
    assert_same_components(ours.components_, theirs.components_, np.arange(P + 3) < P)
    # A mean that is no float64 leaves N (eps mean)² of scatter: here of 1e-8, once.
    assert_allclose(ours.explained_variance_[P:], 0.0, atol=N * (2.3e-16 * 1e8) ** 2)


def test_all_columns_constant():
    X = np.tile([1.0, 2.0], (30, 1))
    pca = PCA().fit(open_silos(X))
    assert_array_equal(pca.explained_variance_, 0.0)
    assert_array_equal(pca.explained_variance_ratio_, 0.0)
    assert_array_equal(pca.transform(X), 0.0)


def test_two_identical_columns(federate, rows):
    check_identical_columns(federate, rows)


# Raw products stand in for centred ones up to means of two spreads.
@pytest.mark.parametrize("offset", [0.0, 1.0, 1.9, 3.0, 1e4])
def test_two_identical_columns_of_any_mean(rows, offset):
    check_identical_columns(
        open_silos, (rows - rows.mean(axis=0)) / rows.std(axis=0) + offset
    )


def check_identical_columns(silos, rows):
    X = np.column_stack([rows, rows[:, 2]])

    ours, theirs = PCA().fit(silos(X)), pooled(X)

    assert_same_pca(ours, theirs)
    # Not noise: a variance of 1e-16 is a singular value of 1e-8.
    assert ours.singular_values_[-1] == 0.0


@functools.cache
def exact_pca(kind):
    """Rows, with their mean, variances and directions at 50 digits, rounded once."""
    rng = np.random.default_rng(5)
    Z = rng.standard_normal((N, P)) @ (np.eye(P) + 0.4 * rng.standard_normal((P, P)))
    scales = np.logspace(-8, 8, P)
    X = {
        "scales up": Z * scales,
        "scales down": Z[:, ::-1] * scales[::-1],
        "means": Z + 1e8 * np.array([1, -1, 1, 0, 0.5, 1]),
        "scales and means": (Z + 1e8 * np.array([1, -1, 1, 0, 0.5, 1])) * scales,
    }[kind]
    with mpmath.workdps(50):
        cells = [[mpmath.mpf(x) for x in column] for column in X.T.tolist()]
        mean = [mpmath.fsum(column) / N for column in cells]
        C = [[x - m for x in column] for column, m in zip(cells, mean, strict=True)]
        S = mpmath.matrix([[mpmath.fdot(a, b) / (N - 1) for a in C] for b in C])
        values, vectors = mpmath.eigsy(S)
        variance = np.array([float(v) for v in values])[::-1]
        axes = np.array(vectors.tolist(), dtype=float)[:, ::-1].T
        return X, np.array([float(m) for m in mean]), variance, axes


@pytest.mark.parametrize(
    "kind", ["scales up", "scales down", "means", "scales and means"]
)
@pytest.mark.parametrize("split", ["balanced", "one-row", "six"], indirect=True)
def test_columns_of_any_scale_and_mean(federate, kind):
    # Scales from 1e-8 to 1e8, means of 1e8 spreads. scikit-learn is no oracle here: of
    # variances from 1e-16 to 1e16 it finds the small ones to 1e-4.
    X, mean, variance, axes = exact_pca(kind)

    ours = PCA().fit(federate(X))

    assert_allclose(ours.mean_, mean, rtol=1e-15, atol=1e-15 * np.ptp(X, axis=0).max())
    # The promise; measured errors are below 1e-13.
    assert_allclose(ours.explained_variance_, variance, rtol=RTOL)
    for axis, truth in zip(ours.components_, axes, strict=True):
        angle = scipy.linalg.subspace_angles(axis[:, None], truth[:, None])[0]
        assert np.sin(angle) <= RTOL


def test_nearly_collinear_columns_as_well_as_a_covariance_can_tell():
    # Columns that differ by 1e-3 of their spread leave λ_p = 1e-7 λ_1. Entries of S are
    # known to some eps, so λ_p to about 100 eps / 1e-7, and no method on S does better.
    rng = np.random.default_rng(2)
    X = rng.standard_normal((N, 3)) + 1
    X[:, 2] = X[:, 0] + 1e-3 * X[:, 2]

    ours, theirs = PCA().fit(open_silos(X)), pooled(X)

    assert_allclose(ours.explained_variance_, theirs.explained_variance_, rtol=2e-7)
    assert_same_components(ours.components_, theirs.components_, [True] * 3)


# --- Laws ----------------------------------------------------------------------------

ATTRIBUTES = (
    "mean_",
    "components_",
    "explained_variance_",
    "explained_variance_ratio_",
    "singular_values_",
    "noise_variance_",
)


def assert_equal_models(first, second, rtol=1e-12):
    for name in ATTRIBUTES:
        assert_close(getattr(first, name), getattr(second, name), rtol)


def test_order_of_the_silos_does_not_matter(rows):
    silos = partition_rows(rows, 5)
    turned = dict(reversed(silos.items()))
    first = PCA(3).fit(simulate(silos, policy=Policy.open()))
    # Names too: parties are sorted by name before their parts are added.
    renamed = dict(zip("edcba", silos.values(), strict=True))
    for other in (turned, renamed):
        assert_equal_models(PCA(3).fit(simulate(other, policy=Policy.open())), first)


def test_splitting_a_silo_in_two_does_not_matter(rows):
    a, b, c = partition_rows(rows, 3).values()
    whole = PCA(3).fit(simulate({"a": a, "b": b, "c": c}, policy=Policy.open()))
    cut = {"a": a[:7], "d": a[7:], "b": b, "c": c}
    assert_equal_models(PCA(3).fit(simulate(cut, policy=Policy.open())), whole)


def test_order_of_the_columns_goes_through_to_the_loadings(rows):
    order = np.array([3, 0, 5, 1, 2, 4])
    first = PCA(4).fit(open_silos(rows))
    second = PCA(4).fit(open_silos(rows[:, order]))
    assert_close(second.components_, first.components_[:, order], 1e-12)
    assert_close(second.mean_, first.mean_[order], 1e-12)
    assert_close(second.explained_variance_, first.explained_variance_, 1e-12)


def test_largest_loading_of_every_component_is_positive(rows):
    axes = PCA().fit(open_silos(-rows)).components_
    assert (axes[np.arange(P), np.abs(axes).argmax(axis=1)] > 0).all()


def test_one_silo_is_the_pooled_case(rows):
    # In clear: nobody could share a mask with it.
    federation = simulate({"a": rows}, policy=Policy.open(), secure_sum="plain")
    assert_same_pca(PCA().fit(federation), pooled(rows))


def test_fitting_twice_gives_the_same(rows):
    federation = open_silos(rows)
    pca = PCA(3).fit(federation)
    first = {name: np.copy(getattr(pca, name)) for name in ATTRIBUTES}
    pca.fit(federation)
    for name, value in first.items():
        assert_array_equal(getattr(pca, name), value)


def test_refitting_forgets_the_names_of_the_fit_before(rows):
    names = [f"c{j}" for j in range(P)]
    import pandas as pd

    frames = [
        pd.DataFrame(part, columns=names) for part in partition_rows(rows, 3).values()
    ]
    pca = PCA(2).fit(simulate(dict(zip("abc", frames, strict=True))))
    assert_array_equal(pca.feature_names_in_, names)
    pca.fit(three_silos(rows))
    assert not hasattr(pca, "feature_names_in_")


# --- Transforming --------------------------------------------------------------------


def test_a_federation_is_transformed_in_its_silos(rows):
    federation = open_silos(rows)
    pca = PCA(3).fit(federation)
    before = len(federation.ledger)

    view = pca.transform(federation)

    assert view.feature_names == ("pca0", "pca1", "pca2")
    assert len(federation.ledger) == before, "a view released something"
    # The covariance of scores is diagonal: the explained variances.
    again = PCA().fit(view)
    assert_allclose(again.explained_variance_, pca.explained_variance_, rtol=1e-12)
    assert_allclose(again.mean_, 0.0, atol=1e-12)


def test_names_of_the_columns_of_scores(rows):
    pca = PCA(3).fit(three_silos(rows))
    assert_array_equal(pca.get_feature_names_out(), ["pca0", "pca1", "pca2"])


def test_twin_for_silos_without_this_library(rows, new_rows):
    for whiten in (False, True):
        pca = PCA(3, whiten=whiten).fit(three_silos(rows))
        twin = pca.to_sklearn()
        assert type(twin) is sklearn.decomposition.PCA
        assert twin.get_params()["whiten"] is whiten
        # The twin subtracts the mean's projection, which rounds differently.
        assert_close(twin.transform(new_rows), pca.transform(new_rows), 1e-13)
        twin.components_[:] = 0
        assert pca.components_.any(), "the twin shares its arrays with the model"


# --- What left -----------------------------------------------------------------------


def test_releases_only_what_the_docstring_says(rows):
    federation = three_silos(rows)
    PCA(2).fit(federation)
    triangle = P * (P + 1) // 2

    out = [
        (line.round, line.step, line.name, line.shape, line.bytes, line.visibility)
        for line in federation.ledger
        if line.direction == "out"
    ]

    assert out == [
        (1, "pca.local_total", "count", (), 32, "summed"),
        (1, "pca.local_total", "total", (P,), 32 * P, "summed"),
        (2, "pca.local_squares", "squares", (P,), 32 * P, "summed"),
        (3, "pca.local_scatter", "scatter", (P, P), 8 * triangle, "summed"),
    ]


@pytest.mark.parametrize("n_components", [2, None, 0.5])
def test_plan_equals_ledger(secure_sum, rows, n_components):
    federation = three_silos(rows, secure_sum=secure_sum)
    planned = plan(PCA(n_components), federation)
    assert len(federation.ledger) == 0, "planning left a trace"

    PCA(n_components).fit(federation)

    assert [bare(line) for line in planned.releases] == list(
        map(bare, federation.ledger)
    )


def bare(line):
    """Return a line without what only a ledger has: time, chain and seals."""
    return {
        name: value
        for name, value in line.as_record().items()
        if name not in ("time", "hash", "seals")
    }


# --- Refusals ------------------------------------------------------------------------


def test_fitting_an_array_says_what_to_do(rows):
    with pytest.raises(
        DataError, match=r"PCA.fit takes a Federation, not ndarray\. Ma"
    ):
        PCA().fit(rows)


@pytest.mark.parametrize("cell", [np.nan, np.inf, -np.inf])
def test_missing_and_infinite_cells_are_refused(secure_sum, rows, cell):
    X = rows.copy()
    X[17, 3] = cell
    said = "missing values" if np.isnan(cell) else "infinity"

    with pytest.raises(DataError, match=said) as refused:
        PCA().fit(three_silos(X, secure_sum=secure_sum))

    # Which silo, so that somebody can look; not which row or column.
    assert "silo1" in str(refused.value)
    assert "17" not in str(refused.value)
    if np.isnan(cell):
        assert "SimpleImputer" in str(refused.value)


def test_one_row_has_no_variance():
    one = {"a": np.ones((1, 2))}
    federation = simulate(one, policy=Policy.open(), secure_sum="plain")
    with pytest.raises(DataError, match="at least 2 rows over all silos"):
        PCA().fit(federation)


@pytest.mark.parametrize("n_components", [P + 1, 0, -1, 1.0, 0.0, 2.5, True, "mle"])
def test_impossible_numbers_of_components(rows, n_components):
    federation = three_silos(rows)
    with pytest.raises(DataError, match=r"n_components=.* from 1 to the 6 features"):
        PCA(n_components).fit(federation)
    assert len(federation.ledger) == 0, "found out only after something left"


def test_more_components_than_rows(rows):
    with pytest.raises(
        DataError, match=r"between 1 and min\(n_samples, n_features\)=5"
    ):
        PCA(6).fit(open_silos(rows[:5]))


def test_nothing_is_drawn_at_random(rows):
    first, second = (PCA(3, random_state=s).fit(three_silos(rows)) for s in (0, 1))
    assert_array_equal(first.components_, second.components_)


@pytest.mark.parametrize("svd_solver", ["full", "arpack", "gram", ""])
def test_unknown_solvers(rows, svd_solver):
    federation = three_silos(rows)
    with pytest.raises(DataError, match='choose "auto" or "covariance_eigh", "kry'):
        PCA(svd_solver=svd_solver).fit(federation)
    assert len(federation.ledger) == 0


def test_too_many_columns_for_a_silos_rows(rows):
    federation = simulate({"a": rows[:50], "b": rows[50:108], "small": rows[108:]})
    with pytest.raises(ReleaseRefusedError, match=r"small refused .*max_feature_ratio"):
        PCA().fit(federation)


def test_not_fitted(rows):
    for ask in (
        lambda: PCA().transform(rows),
        lambda: PCA().transform(three_silos(rows)),
        lambda: PCA().inverse_transform(rows),
        lambda: PCA().to_sklearn(),
        lambda: PCA().get_covariance(),
        lambda: PCA().score(rows),
    ):
        with pytest.raises(NotFittedError):
            ask()


def test_arrays_of_another_width(rows):
    pca = PCA(2).fit(three_silos(rows))
    with pytest.raises(ValueError, match="X has 5 features, but PCA is expecting 6"):
        pca.transform(rows[:, :5])
    with pytest.raises(ValueError, match="X has 1 features, but PCA gives 2"):
        pca.inverse_transform(rows[:, :1])
    with pytest.raises(ValueError, match="X has 5 features, but PCA is expecting 6"):
        pca.transform(three_silos(rows[:, :5]))
    with pytest.raises(ValueError, match="Input X contains NaN"):
        pca.transform(np.full((1, P), np.nan))
