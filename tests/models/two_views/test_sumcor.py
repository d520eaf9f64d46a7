"""Multiset canonical correlations of three or more parties' columns, with a ridge."""

import numpy as np
import pytest
from cca_zoo.linear import GCCA, MCCA
from numpy.testing import assert_allclose

from line_fields import fields
from party_views import N, chosen, federated, images_opened, related
from unpooled import CCA, load, plan, save
from unpooled.errors import DataError, ReleaseRefusedError
from unpooled.linalg.joint_ritz import JointRitz, pair_errors
from unpooled.protocol.request import Veiled

SIZES = (5, 4, 6)
RIDGES = (0.01, 0.3, 0.95, 1.0)


def joint(k=2, c=0.3, **options):
    options = {"criterion": "sumcor", "random_state": 0, **options}
    return CCA(k, regularisation=c, **options)


def views_of(sizes=SIZES, n=N, seed=0):
    """Return views in one unit: a ridge is not the same in others."""
    return {
        name: X / np.geomspace(1.0, 1000.0, X.shape[1])
        for name, X in related(sizes, n, seed).items()
    }


def assert_same_scores(ours, theirs, rtol=1e-8):
    """Compare all views' scores together, up to each pair's sign and scale."""
    ours = np.vstack([Z - Z.mean(axis=0) for Z in ours])
    theirs = np.vstack([Z - Z.mean(axis=0) for Z in theirs])
    for z, t in zip(ours.T, theirs.T, strict=True):
        z, t = z / np.linalg.norm(z), t / np.linalg.norm(t)
        assert np.linalg.norm(z - t * np.sign(z @ t)) <= rtol


@pytest.mark.thinned
@pytest.mark.parametrize("c", RIDGES)
@pytest.mark.parametrize("solver", ["krylov", "exact"])
def test_equals_pooled_mcca(c, solver, secure_sum):
    views = views_of()
    every = list(views.values())
    theirs = MCCA(2, shrinkage=c).fit(every).transform(every)
    federation = federated(views, secure_sum=secure_sum)
    ours = joint(c=c, solver=solver).fit(federation).transform(federation)
    assert_same_scores(ours.values(), theirs)
    # Weights are in one unit in all parties, whose scores go the same way.
    total = np.sum(list(ours.values()), axis=0)
    assert (total[np.abs(total).argmax(axis=0), [0, 1]] > 0).all()


@pytest.mark.slow
def test_differs_from_gcca_with_a_ridge_and_not_without():
    views = views_of()
    every, federation = list(views.values()), federated(views)
    maxvar = CCA(2, regularisation=0.3, random_state=0).fit(federation)
    scores = maxvar.transform(federation).values()
    assert_same_scores(scores, GCCA(2, shrinkage=0.3).fit(every).transform(every))
    with pytest.raises(AssertionError):
        assert_same_scores(scores, MCCA(2, shrinkage=0.3).fit(every).transform(every))
    plain = joint(c=0.0).fit(federation)
    assert_same_scores(
        plain.transform(federation).values(), MCCA(2).fit(every).transform(every)
    )
    assert_allclose(plain.eigenvalues_, CCA(2).fit(federation).eigenvalues_ - 1.0)


def test_eigenvalues_are_those_of_the_sum_of_covariances():
    views = views_of()
    federation = federated(views)
    model = joint(c=0.2).fit(federation)
    scores = list(model.transform(federation).values())
    S = [np.cov(np.hstack([Z[:, [j]] for Z in scores]).T) for j in range(2)]
    between = [one.sum() - np.trace(one) for one in S]
    # Weights have Σ wᵀ C w = 1, so the maximum is the sum itself.
    assert_allclose(model.eigenvalues_, between, rtol=1e-9)


@pytest.mark.thinned("(1, 1, 1)", "(2, 9, 70)")
@pytest.mark.parametrize("sizes", [(40, 30, 50), (1, 1, 1), (2, 9, 70)], ids=str)
def test_more_columns_than_people_and_very_few(sizes):
    views, k = views_of(sizes, n=40), min(2, *sizes)
    every, federation = list(views.values()), federated(views)
    theirs = MCCA(k, shrinkage=0.5).fit(every).transform(every)
    ours = joint(k, c=0.5).fit(federation).transform(federation)
    assert_same_scores(ours.values(), theirs)


@pytest.mark.slow
def test_new_rows_are_scored_with_the_kept_weights():
    views = views_of()
    train, test = federated(views).train_test_split(test_size=0.2, random_state=0)
    model = joint().fit(train)
    inside, outside = chosen(train), chosen(test)
    theirs = MCCA(2, shrinkage=0.3).fit([X[inside] for X in views.values()])
    new = theirs.transform([X[outside] for X in views.values()])
    assert_same_scores(model.transform(test).values(), new)


@pytest.mark.slow
def test_order_of_parties_changes_nothing():
    views = views_of()
    one, other = federated(views), federated(dict(reversed(views.items())))
    first, second = (joint().fit(part).transform(part) for part in (one, other))
    for party, scores in first.items():
        assert_allclose(second[party], scores, atol=1e-8 * np.abs(scores).max())


@pytest.mark.slow
def test_the_coordinator_sees_mixtures_of_columns_and_no_people(secure_sum):
    federation = federated(views_of(), secure_sum=secure_sum)
    planned = plan(joint(1), federation)
    model = joint(1).fit(federation)
    left = fields(federation.ledger, "step name shape visibility", direction="out")
    wanted = [("cca.own_start", "squares", (), "summed")]
    for width in range(5, 5 * model.n_iter_ + 1, 5):
        wanted += [
            ("cca.local_shared", "image", (N, 5), "veiled"),
            ("cca.local_products", "overlaps", (width, 5), "summed"),
            ("cca.local_products", "products", (width, 5), "summed"),
            ("cca.local_residuals", "overlap", (width, 5), "summed"),
            ("cca.local_residuals", "squares", (5, 5), "summed"),
        ]
    assert left == wanted
    # As many blocks as there can be directions are planned, and two more.
    out = [line for line in planned.releases if line.direction == "out"]
    assert len(out) == 1 + 5 * (3 + 2) >= len(left)
    # 8 bytes for each number, under a bound that all know; guard words where masked.
    assert out[1].bytes == 8 * N * 5 + (16 if secure_sum == "masked" else 0)
    assert [(x.step, x.name, x.shape, x.visibility) for x in out][: len(left)] == left


@pytest.mark.slow
def test_the_coordinator_does_not_open_the_images(monkeypatch):
    seen = images_opened(monkeypatch)
    joint().fit(federated(views_of()))
    assert seen
    assert all(isinstance(value, Veiled) for value in seen)


@pytest.mark.slow
def test_what_cannot_be_done_is_refused(tmp_path):
    federation = federated(views_of())
    with pytest.raises(DataError, match="criterion='sum'"):
        CCA(1, criterion="sum").fit(federation)
    with pytest.raises(DataError, match=r"Choose solver=.krylov"):
        joint(solver="gram").fit(federation)
    with pytest.raises(ReleaseRefusedError, match="allow_row_level"):
        joint().fit(federated(views_of(), policy={}))
    save(joint(1).fit(federation), tmp_path / "cca.unpooled")
    again = load(tmp_path / "cca.unpooled")
    assert again.criterion == "sumcor"
    assert set(again.transform(federation)) == set(federation.parties)


def test_ritz_pairs_of_a_spread_basis():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((12, 12))
    A = A + A.T
    V, found = rng.standard_normal((12, 3)), JointRitz()
    theta, R = np.zeros(3), V
    values = np.linalg.eigvalsh(A)[::-1]
    basis = np.zeros((12, 0))
    for _ in range(5):
        basis = np.hstack([basis, V])
        found.extend(basis.T @ V, basis.T @ (A @ V))
        theta, Y = found.pairs(3)
        R = A @ basis @ Y - basis @ (Y * theta)
        back, turn = found.continuation(basis.T @ R, R.T @ R, 1e-10)
        V = (R - basis @ back) @ turn
        # Orthonormal, and zeros once there is nothing left.
        square = V.T @ V
        assert_allclose(square, np.diag(np.rint(square.diagonal())), atol=1e-8)
        assert_allclose(basis.T @ V, 0.0, atol=1e-8)
    assert_allclose(theta, values[:3], rtol=1e-12)
    lengths = np.linalg.norm(R, axis=0)
    assert (pair_errors(theta, lengths, 2) < 1e-12).all()
    # Two values that are the same leave their vectors open.
    assert np.isinf(pair_errors(np.array([2.0, 2.0, 1.0]), lengths, 2)).all()
