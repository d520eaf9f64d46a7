"""PCA by block Krylov: scikit-learn's arpack answer, without a scatter anywhere."""

import numpy as np
import pytest
import sklearn.decomposition
from numpy.testing import assert_allclose
from sklearn.exceptions import ConvergenceWarning

from line_fields import fields
from twins import assert_close, assert_same_pca
from unpooled import PCA, Policy, partition_rows, plan, report, simulate
from unpooled.errors import ConvergenceError, DataError

N, P, K = 90, 40, 3
ROUNDS = 60


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(11)
    X = rng.standard_normal((N, 12)) @ rng.standard_normal((12, P))
    return X * np.linspace(1.0, 4.0, P) + 0.1 * rng.standard_normal((N, P)) + 7.0


@pytest.fixture(scope="module")
def new_rows(rows):
    return np.random.default_rng(12).standard_normal((15, P)) + rows[:15]


def by_krylov(k=K, **options):
    return PCA(k, svd_solver="krylov", random_state=0, **options)


def by_arpack(X, k=K, **options):
    twin = sklearn.decomposition.PCA(k, svd_solver="arpack", random_state=0, **options)
    return twin.fit(X)


def open_silos(X, m=3, **options):
    return simulate(partition_rows(X, m), policy=Policy.open(), **options)


# --- The pooled answer ---------------------------------------------------------------


@pytest.mark.thinned(1)
@pytest.mark.parametrize("whiten", [False, True])
def test_equals_arpack_on_pooled_rows(federate, rows, new_rows, whiten):
    theirs = by_arpack(rows, whiten=whiten)
    ours = by_krylov(whiten=whiten).fit(federate(rows))
    # An angle of tol = 1e-9 or less, and neighbouring components are told apart by
    # gaps that are larger than the last one.
    assert_same_pca(ours, theirs)
    assert_close(ours.transform(new_rows), theirs.transform(new_rows))


def test_equals_the_scatter_in_whole(rows, new_rows):
    federation = open_silos(rows)
    whole = PCA(K, svd_solver="covariance_eigh").fit(federation)
    ours = by_krylov().fit(federation)
    assert_allclose(ours.explained_variance_, whole.explained_variance_, rtol=1e-12)
    assert_allclose(
        ours.explained_variance_ratio_, whole.explained_variance_ratio_, rtol=1e-12
    )
    assert_close(ours.transform(new_rows), whole.transform(new_rows))


@pytest.mark.slow
@pytest.mark.parametrize("offset", [1e4, 1e8])
def test_means_far_from_zero_cost_no_digits(rows, offset):
    # Columns of both kinds: raw products serve some, others are centred.
    shift = np.where(np.arange(P) % 2, offset, 0.0)
    X = rows - rows.mean(axis=0) + shift
    # The cells themselves lose what they have behind the sixteenth digit.
    exact = X - shift
    theirs = by_arpack(exact)
    ours = by_krylov().fit(open_silos(X))
    assert_close(ours.components_, theirs.components_)
    assert_allclose(ours.explained_variance_, theirs.explained_variance_, rtol=1e-9)


@pytest.mark.slow
def test_columns_of_any_scale(rows):
    scales = 10.0 ** np.resize([-4, 0, 4], P)
    theirs = by_arpack(rows * scales)
    ours = by_krylov().fit(open_silos(rows * scales))
    assert_same_pca(ours, theirs)


@pytest.mark.slow
def test_more_columns_than_rows():
    rng = np.random.default_rng(5)
    X = rng.standard_normal((40, 8)) @ rng.standard_normal((8, 900))
    X += 0.05 * rng.standard_normal(X.shape)
    assert_same_pca(by_krylov(5).fit(open_silos(X, 4)), by_arpack(X, 5))


def test_all_components_of_few_columns(rows):
    X = rows[:, :4]
    theirs = sklearn.decomposition.PCA(4, svd_solver="covariance_eigh").fit(X)
    assert_same_pca(by_krylov(4).fit(open_silos(X)), theirs)


# --- Laws ----------------------------------------------------------------------------


@pytest.mark.slow
def test_order_and_splitting_of_silos_do_not_matter(rows):
    parts = partition_rows(rows, 3)
    first, turned = (
        by_krylov().fit(simulate(dict(order), policy=Policy.open()))
        for order in (parts.items(), reversed(parts.items()))
    )
    split = by_krylov().fit(open_silos(rows, 7))
    for other in (turned, split):
        assert_close(other.components_, first.components_)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, np.random.RandomState(3)])
def test_the_first_block_does_not_matter(rows, seed):
    federation = open_silos(rows)
    first = by_krylov().fit(federation)
    other = PCA(K, svd_solver="krylov", random_state=seed).fit(federation)
    assert_close(other.components_, first.components_)


@pytest.mark.slow
def test_the_federations_seed_is_taken(rows):
    fits = [
        PCA(K, svd_solver="krylov").fit(open_silos(rows, random_state=4)).residuals_
        for _ in range(2)
    ]
    # The same up to the last bit: nothing else is drawn.
    np.testing.assert_array_equal(*fits)


# --- What certifies it ---------------------------------------------------------------


def test_residuals_and_gap_are_those_of_the_pooled_covariance(rows):
    # Loose, so that there is a residual to see.
    pca = by_krylov(tol=1e-3).fit(open_silos(rows))
    C = np.cov(rows.T)
    V, variance = pca.components_.T, pca.explained_variance_
    norms = np.linalg.norm(C @ V - V * variance, axis=0)
    exact = np.linalg.eigvalsh(C)[::-1]
    assert_allclose(pca.residuals_, norms, rtol=1e-4, atol=1e-12 * variance[0])
    assert 0 < pca.gap_ <= exact[K - 1] - exact[K] + norms.max()
    assert pca.residuals_.max() <= 1e-3 * pca.gap_


@pytest.mark.slow
def test_another_fit_forgets_the_certificate(rows):
    pca = by_krylov().fit(open_silos(rows))
    assert pca.n_iter_ >= 2
    pca.set_params(svd_solver="covariance_eigh").fit(open_silos(rows))
    assert not {"n_iter_", "residuals_", "gap_"} & set(vars(pca))


def test_components_without_a_gap_behind_them_are_said_to_be_undefined():
    # Equal variances in the third and fourth direction, to the last bit or so.
    rng = np.random.default_rng(0)
    Q = np.linalg.qr(rng.standard_normal((N, 9)) - rng.standard_normal((1, 9)))[0]
    Q = np.linalg.qr(Q - Q.mean(axis=0))[0]
    X = Q * np.array([9.0, 6.0, 3.0, 3.0, 1.0, 0.8, 0.6, 0.4, 0.2])
    with pytest.warns(ConvergenceWarning, match="Eigenvalues 3 and 4 lie so close"):
        pca = by_krylov().fit(open_silos(X))
    assert_allclose(pca.explained_variance_, np.array([81, 36, 9]) / (N - 1))


def test_too_few_rounds_end_in_an_error_that_says_what_to_change(rows):
    federation = open_silos(rows)
    with pytest.raises(ConvergenceError, match=r"After 2 rounds .* Raise max_iter"):
        by_krylov(max_iter=2).fit(federation)
    # What left stands in the ledger all the same.
    assert [line.step for line in federation.ledger if line.name == "image"] == [
        "pca.local_image"
    ] * 2


@pytest.mark.slow
def test_the_report_tells_what_certifies_it(rows, tmp_path):
    federation = open_silos(rows)
    pca = by_krylov().fit(federation)
    report(pca, federation, tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text("utf-8")
    assert f"computed in {pca.n_iter_} rounds of products" in " ".join(page.split())


# --- What left -----------------------------------------------------------------------


@pytest.mark.slow
def test_releases_only_what_the_docstring_says(rows):
    federation = open_silos(rows, secure_sum="masked")
    pca = by_krylov().fit(federation)
    b = K + 4

    out = fields(federation.ledger, "step name shape bytes visibility", direction="out")

    assert out[:3] == [
        ("pca.local_total", "count", (), 64, "summed"),
        ("pca.local_total", "total", (P,), 32 * P + 32, "summed"),
        ("pca.local_spread", "squares", (P,), 32 * P + 32, "summed"),
    ]
    image = ("pca.local_image", "image", (P, b), 8 * P * b + 16, "summed")
    assert out[3:-1] == [image] * (pca.n_iter_ - 1)
    # The last block may be narrower: no more directions are left.
    assert out[-1][2][1] <= b


@pytest.mark.slow
def test_plan_is_a_bound_on_what_leaves(rows):
    federation = open_silos(rows)
    planned = plan(by_krylov(max_iter=ROUNDS), federation)
    assert len(federation.ledger) == 0
    assert planned.refusals == ()

    by_krylov(max_iter=ROUNDS).fit(federation)

    assert planned.rounds == ROUNDS + 2
    assert federation.ledger.bytes_out(federation.parties[0]) <= planned.bytes
    seen = {(line.step, line.name) for line in federation.ledger}
    assert seen == {(line.step, line.name) for line in planned.releases}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("p", "k", "solver"),
    [
        (4_000, 10, "pca.local_scatter"),
        (9_000, 10, "pca.local_image"),
        (9_000, 600, "pca.local_scatter"),
    ],
)
def test_auto_chooses_by_bytes_and_the_plan_says_why(p, k, solver):
    X = np.broadcast_to(np.zeros((700, 1)), (700, p))
    federation = simulate({name: X for name in "abc"}, policy=Policy.open())

    planned = plan(PCA(k), federation)

    assert solver in {line.step for line in planned.releases}
    reasons = [note for note in planned.notes if "krylov" in note]
    assert len(reasons) == (solver == "pca.local_image")
    if reasons:
        assert "9,000 columns" in reasons[0]
        # Nothing was multiplied, so nobody should have formed a scatter either.
        assert "324 MB from each silo" in reasons[0]
        assert reasons[0] in str(planned)


# --- Refusals ------------------------------------------------------------------------


@pytest.mark.parametrize("n_components", [None, 0.5])
def test_only_a_number_of_components(rows, n_components):
    federation = open_silos(rows)
    with pytest.raises(DataError, match=r"krylov.* give a whole number from 1 to 40"):
        by_krylov(n_components).fit(federation)
    assert len(federation.ledger) == 0


@pytest.mark.parametrize("options", [{"tol": 0.0}, {"tol": 1.0}, {"max_iter": 0}])
def test_impossible_tolerances(rows, options):
    federation = open_silos(rows)
    with pytest.raises(DataError, match="tol is a sine between 0 and 1, and max_iter"):
        by_krylov(**options).fit(federation)
    assert len(federation.ledger) == 0
