"""PCA on a federation: the pooled answer, what it cost, and what is refused."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import sklearn.decomposition
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import NotFittedError

from federations import open_silos
from line_fields import fields
from pooled_pca import P, correlated_rows, pooled, three_silos
from twins import RTOL, assert_close, assert_same_pca
from unpooled import PCA, Policy, plan, simulate
from unpooled.errors import DataError, ReleaseRefusedError
from unpooled.linalg import crossproduct, eigen, large_eigen


@pytest.fixture(scope="module")
def rows():
    return correlated_rows()


@pytest.fixture(scope="module")
def new_rows():
    return 10 + 3 * np.random.default_rng(8).standard_normal((9, P))


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


@pytest.mark.parametrize("whiten", [False, True])
def test_sparse_rows_are_transformed_as_the_pooled_twin_does(rows, new_rows, whiten):
    ours = PCA(3, whiten=whiten).fit(open_silos(rows))
    theirs = pooled(rows, 3, whiten=whiten)

    for form in (scipy.sparse.csr_array, scipy.sparse.csc_matrix):
        scores = ours.transform(form(new_rows))
        assert isinstance(scores, np.ndarray)
        assert_close(scores, theirs.transform(new_rows))
    with pytest.raises(ValueError, match="7 features, but PCA is expecting 6"):
        ours.transform(scipy.sparse.csr_array(np.ones((2, 7))))


@pytest.mark.thinned(1)
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


def test_a_frame_is_scored_as_its_rows_are(rows):
    frame = pd.DataFrame(rows).add_prefix("x")
    parts = np.array_split(np.arange(len(frame)), 3)
    silos = {f"s{i}": frame.iloc[part] for i, part in enumerate(parts)}
    ours = PCA(2).fit(simulate(silos, policy=Policy.open()))
    assert ours.score(frame) == ours.score(rows)


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


@pytest.mark.thinned(1)
@pytest.mark.parametrize("follow", [False, True])
def test_few_components_of_many_columns_equal_the_pooled_twins(follow, monkeypatch):
    """Found by block Krylov, as those of thousands of columns are."""
    solved = []
    real = large_eigen.large_eigenpairs

    def counted(A, k):
        pairs = real(A, k)
        if len(A) == 300:
            solved.append(pairs is not None)
        return pairs

    monkeypatch.setattr(large_eigen, "LEAST", 257)
    monkeypatch.setattr(eigen, "large_eigenpairs", counted)
    rng = np.random.default_rng(6)
    X = rng.standard_normal((900, 300)) * 0.8 ** np.arange(300) + rng.uniform(0, 9, 300)
    X = X @ np.linalg.qr(rng.standard_normal((300, 300)))[0]
    silos = dict(zip("abc", np.array_split(X, 3), strict=True))
    federation = simulate(silos, policy=Policy.open(), follow=follow)
    ours = PCA(5).fit(federation)
    # A fit on the scores takes the components, which silos that follow then solve for.
    PCA(2).fit(ours.transform(federation))
    assert solved == [True] * (4 if follow else 1)
    assert_same_pca(ours, pooled(X, 5))


def test_whole_numbers_in_single_precision_are_as_exact(monkeypatch):
    monkeypatch.setattr(crossproduct, "_LEAST_WORK", 0)
    X = np.random.default_rng(4).integers(0, 256, (400, 12)).astype(float)
    X[:, 1] += X[:, 0]
    assert_same_pca(PCA(4).fit(open_silos(X)), pooled(X, 4))


def test_integers_and_bools_are_numbers():
    X = np.random.default_rng(0).integers(0, 5, (60, 4))
    assert_same_pca(PCA().fit(open_silos(X)), pooled(X))
    flags = X > 2
    assert_same_pca(PCA().fit(open_silos(flags)), pooled(flags.astype(float)))


def test_half_precision_silos_are_added_in_double(rows):
    X = rows.astype(np.float32)
    assert_same_pca(PCA().fit(open_silos(X)), pooled(X.astype(float)))


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


@pytest.mark.slow
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

    out = fields(
        federation.ledger, "round step name shape bytes visibility", direction="out"
    )

    assert out == [
        (1, "pca.local_total", "count", (), 64, "summed"),
        (1, "pca.local_total", "total", (P,), 32 * P + 32, "summed"),
        (2, "pca.local_squares", "squares", (P,), 32 * P + 32, "summed"),
        (3, "pca.local_scatter", "scatter", (P, P), 8 * triangle + 16, "summed"),
    ]


@pytest.mark.thinned(1)
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


@pytest.mark.parametrize("n_components", [P + 1, 0, -1, 1.0, 0.0, 2.5, True, "all"])
def test_impossible_numbers_of_components(rows, n_components):
    federation = three_silos(rows)
    said = r'n_components=.* a rule \("parallel", .* from 1 to the 6 features'
    with pytest.raises(DataError, match=said):
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
    with pytest.raises(DataError, match='choose "auto", "covariance_eigh" or "kry'):
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
