"""Partial least squares between two parties with other columns of the same people."""

import numpy as np
import pytest
import sklearn.cross_decomposition as theirs_of
from cca_zoo.linear import PLS
from numpy.testing import assert_allclose

from line_fields import fields
from party_views import N, chosen, federated, images_opened, related
from unpooled import PLSSVD, PLSCanonical, load, plan, save
from unpooled.errors import ConvergenceError, DataError, ReleaseRefusedError
from unpooled.linalg.score_pairs import errors, extended, score_pairs
from unpooled.models.two_views import pls_columns
from unpooled.protocol.request import Veiled

TWINS = {
    "PLSSVD": (PLSSVD, theirs_of.PLSSVD, {}),
    "PLSCanonical": (PLSCanonical, theirs_of.PLSCanonical, {"algorithm": "svd"}),
}
# Covariances of common factors this far apart, and tol=1e-9: within 1e-8.
RTOL = 1e-8


def assert_same_scores(ours, theirs, rtol=RTOL):
    """Compare scores, not only directions; up to the sign of each pair."""
    for z, t in zip(*(np.vstack(list(s)).T for s in (ours, theirs)), strict=True):
        assert np.linalg.norm(z - t * np.sign(z @ t)) <= rtol * np.linalg.norm(t)


@pytest.mark.thinned
@pytest.mark.parametrize("name", TWINS)
@pytest.mark.parametrize("solver", ["direct", "krylov"])
@pytest.mark.parametrize("sizes", [(5, 4), (30, 60), (1, 3)], ids=str)
def test_equals_the_twin_on_joined_views(name, solver, sizes, secure_sum):
    (ours, theirs, how), views = TWINS[name], related(sizes)
    k = min(3, *sizes)
    twin = theirs(k, **how).fit(*views.values())

    federation = federated(views, secure_sum=secure_sum)
    model = ours(k, solver=solver, random_state=0).fit(federation)

    scores = twin.transform(*views.values())
    assert_same_scores(model.transform(federation).values(), scores)
    r = [np.corrcoef(t, u)[0, 1] for t, u in zip(*(s.T for s in scores), strict=True)]
    assert_allclose(model.score_correlations_, r, rtol=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize("name", TWINS)
def test_more_columns_than_people(name):
    (ours, theirs, how), views = TWINS[name], related((90, 70), n=60)
    twin = theirs(2, scale=False, **how).fit(*views.values())
    for solver in ("direct", "krylov"):
        federation = federated(views)
        model = ours(2, scale=False, solver=solver, random_state=0).fit(federation)
        scores = model.transform(federation).values()
        assert_same_scores(scores, twin.transform(*views.values()))


def test_equals_cca_zoos(secure_sum):
    views = related((6, 4))
    theirs = PLS(1).fit(list(views.values())).transform(list(views.values()))
    federation = federated(views, secure_sum=secure_sum)
    ours = PLSSVD(1, scale=False).fit(federation).transform(federation)
    for z, t in zip(ours.values(), theirs, strict=True):
        z, t = (v[:, 0] - v[:, 0].mean() for v in (z, t))
        # Their unit of length is another.
        assert abs(z @ t) / np.linalg.norm(z) / np.linalg.norm(t) >= 1 - 1e-12


@pytest.mark.parametrize("name", TWINS)
def test_new_rows_are_scored_with_the_kept_weights(name):
    (ours, theirs, how), views = TWINS[name], related((5, 4))
    train, test = federated(views).train_test_split(test_size=0.2, random_state=0)
    model = ours(2, random_state=0).fit(train)
    inside, outside = chosen(train), chosen(test)
    twin = theirs(2, **how).fit(*(X[inside] for X in views.values()))

    theirs_new = twin.transform(*(X[outside] for X in views.values()))
    assert_same_scores(model.transform(test).values(), theirs_new)


def test_what_leaves_is_for_the_parties(secure_sum):
    federation = federated(related((5, 4)), secure_sum=secure_sum)
    planned = plan(PLSCanonical(2), federation)
    PLSCanonical(2).fit(federation)
    left = fields(federation.ledger, "step name shape visibility", direction="out")
    assert left == [
        ("pls.local_image", "image", (N, 5), "veiled"),
        ("pls.local_pairs", "squares", (2,), "summed"),
        ("pls.local_pairs", "correlations", (2,), "summed"),
    ]
    out = [line for line in planned.releases if line.direction == "out"]
    # A second round would follow if bases were nearly dependent.
    assert [(x.step, x.name, x.shape, x.visibility) for x in out] == left * 2
    assert any("solver direct" in note for note in planned.notes)
    # 8 bytes for each number, under a bound that all know; guard words where masked.
    assert out[0].bytes == 8 * N * 5 + (16 if secure_sum == "masked" else 0)


def test_the_coordinator_does_not_open_the_images(monkeypatch):
    seen = images_opened(monkeypatch)
    PLSSVD(2).fit(federated(related((5, 4))))
    assert seen
    assert all(isinstance(value, Veiled) for value in seen)


@pytest.mark.parametrize("name", TWINS)
def test_the_other_party_has_rows_only_up_to_a_rotation(name, monkeypatch):
    views, seen, pairs = related((5, 4)), [], pls_columns.score_pairs
    monkeypatch.setattr(
        pls_columns,
        "score_pairs",
        lambda own, other, k, **how: seen.append(other) or pairs(own, other, k, **how),
    )
    TWINS[name][0](2, solver="direct").fit(federated(views))
    for image, X in zip(reversed(seen), views.values(), strict=True):
        Z, rows = image[:, : X.shape[1]], (X - X.mean(axis=0)) / X.std(axis=0)
        rows /= np.linalg.norm(rows)
        assert_allclose(Z @ Z.T, rows @ rows.T, atol=1e-12)
        cosines = (rows / np.linalg.norm(rows, axis=0)).T @ Z
        assert np.abs(cosines / np.linalg.norm(Z, axis=0)).max() < 0.999


@pytest.mark.slow
def test_order_of_parties_changes_nothing():
    views = related((30, 20))
    turned = dict(reversed(views.items()))
    for solver in ("direct", "krylov"):
        one, other = federated(views), federated(turned)
        how = {"solver": solver, "random_state": 0}
        first = PLSCanonical(2, **how).fit(one).transform(one)
        second = PLSCanonical(2, **how).fit(other).transform(other)
        for party, scores in first.items():
            # Signs too, for the rule does not ask who is first.
            assert_allclose(second[party], scores, atol=1e-7 * np.abs(scores).max())


def test_files_keep_what_the_coordinator_has(tmp_path):
    federation = federated(related((5, 4)))
    model = PLSCanonical(2).fit(federation)
    save(model, tmp_path / "pls.unpooled")
    again = load(tmp_path / "pls.unpooled")
    assert_allclose(again.score_correlations_, model.score_correlations_)
    assert_same_scores(
        again.transform(federation).values(), model.transform(federation).values()
    )
    with pytest.raises(DataError, match="no twin"):
        model.to_sklearn()
    with pytest.raises(DataError, match="transform a Federation"):
        model.transform(np.zeros((3, 5)))


@pytest.mark.parametrize(
    ("model", "sizes", "says"),
    [
        (PLSSVD(5), (5, 4), "upper bound is 4"),
        (PLSSVD(1), (5, 4, 3), "views of 2 parties, not of 3"),
        (PLSSVD(1, solver="gram"), (5, 4), "solver='gram'"),
        (PLSCanonical(1, solver="krylov", max_iter=1), (60, 50), "max_iter"),
    ],
)
def test_what_cannot_be_done_is_refused(model, sizes, says):
    with pytest.raises((DataError, ConvergenceError), match=says):
        model.fit(federated(related(sizes)))


def test_policies_guard_people_and_scores():
    views = related((5, 4))
    with pytest.raises(ReleaseRefusedError, match="allow_row_level"):
        PLSSVD(1).fit(federated(views, policy={"min_parties": 2}))
    rules = {"min_parties": 2, "allow_row_level": True}
    federation = federated(views, policy=rules)
    model = PLSSVD(1).fit(federation)
    with pytest.raises(ReleaseRefusedError, match="allow_disclosed"):
        model.transform(federation)
    views["bank"][3, 2] = np.nan
    with pytest.raises(DataError, match="missing_values"):
        PLSSVD(1).fit(federated(views))


def test_ties_are_not_said_to_be_pairs():
    rng = np.random.default_rng(0)
    Z = rng.standard_normal((N, 2))
    Q = np.linalg.qr(Z - Z.mean(axis=0))[0]
    views = {"a": Q, "b": Q @ [[0.6, -0.8], [0.8, 0.6]]}
    with pytest.raises(ConvergenceError, match="not determined"):
        PLSSVD(1, scale=False).fit(federated(views))


def test_errors_vanish_when_a_basis_is_whole():
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((2, 40, 6))
    whole = score_pairs(X, Y, 3, deflated=(True, True))
    assert errors(X, np.eye(6), whole, deflated=True)[1].max() < 1e-12
    few = extended(np.zeros((6, 0)), rng.standard_normal((6, 3)), 3)
    part = score_pairs(X @ few, Y, 3, deflated=(True, True))
    residuals, sines = errors(X, few, part, deflated=True)
    assert sines.max() > 0.01
    wider = extended(few, residuals, 4)
    assert_allclose(wider.T @ wider, np.diag([1.0] * 6 + [0.0]), atol=1e-12)
