"""Canonical correlations between parties with other columns of the same people."""

import numpy as np
import pytest
from cca_zoo.linear import GCCA, MCCA, RidgeCCA
from numpy.testing import assert_allclose

from silo_rows import view_of
from unpooled import CCA, Policy, plan, simulate
from unpooled.errors import DataError, ReleaseRefusedError

N = 150


@pytest.fixture(scope="module")
def views():
    rng = np.random.default_rng(0)
    common = rng.standard_normal((N, 3)) * [2.0, 1.0, 0.5]
    return {
        name: common @ rng.standard_normal((3, p)) + rng.standard_normal((N, p)) + p
        for name, p in {"bank": 5, "shop": 4, "insurer": 6}.items()
    }


def federated(views, **options):
    options = {"policy": Policy.open(), **options}
    return simulate(views, partition="columns", **options)


def two(views):
    return {name: views[name] for name in ("bank", "shop")}


def assert_same_scores(ours, theirs, rtol=1e-8):
    """Compare scores up to each column's sign and scale."""
    for Z, T in zip(ours.values(), theirs, strict=True):
        for z, t in zip((Z - Z.mean(axis=0)).T, (T - T.mean(axis=0)).T, strict=True):
            z, t = z / np.linalg.norm(z), t / np.linalg.norm(t)
            assert np.linalg.norm(z - t * np.sign(z @ t)) <= rtol


@pytest.mark.parametrize("solver", ["gram", "krylov"])
def test_two_parties_equal_pooled_cca(views, solver, secure_sum):
    pair = two(views)
    theirs = RidgeCCA(3).fit(list(pair.values()))
    scores = theirs.transform(list(pair.values()))
    r = [np.corrcoef(scores[0][:, j], scores[1][:, j])[0, 1] for j in range(3)]

    federation = federated(pair, secure_sum=secure_sum)
    ours = CCA(3, solver=solver, random_state=0).fit(federation)

    assert_allclose(ours.canonical_correlations_, r, rtol=1e-8)
    assert_same_scores(ours.transform(federation), scores)
    joint = MCCA(3).fit(list(pair.values())).transform(list(pair.values()))
    assert_same_scores(ours.transform(federation), joint)


@pytest.mark.shapes
@pytest.mark.thinned
@pytest.mark.parametrize("solver", ["gram", "krylov", "exact"])
@pytest.mark.parametrize("c", [0.3, 1.0])
def test_two_parties_with_a_ridge_equal_pooled_cca(views, solver, c, secure_sum):
    pair = two(views)
    federation = federated(pair, secure_sum=secure_sum)
    model = CCA(2, solver=solver, regularisation=c, random_state=0).fit(federation)
    ours = model.transform(federation)
    for peer in (RidgeCCA, MCCA):
        theirs = peer(2, shrinkage=c).fit(list(pair.values()))
        assert_same_scores(ours, theirs.transform(list(pair.values())))
    r = [np.corrcoef(*(Z[:, j] for Z in ours.values()))[0, 1] for j in range(2)]
    assert_allclose(model.canonical_correlations_, r, rtol=1e-9)
    # As on a row partition.
    rows = np.hstack(list(pair.values()))
    silos = simulate({f"silo{i}": rows[i::3] for i in range(3)})
    same = CCA(2, regularisation=c).fit(silos, y=["x5", "x6", "x7", "x8"])
    assert_allclose(same.canonical_correlations_, r, rtol=1e-8)


def test_three_parties_equal_pooled_mcca(views):
    every = list(views.values())
    federation = federated(views)
    ours = CCA(2).fit(federation).transform(federation)
    assert_same_scores(ours, MCCA(2).fit(every).transform(every))


@pytest.mark.shapes
@pytest.mark.thinned
@pytest.mark.parametrize("solver", ["gram", "krylov"])
@pytest.mark.parametrize("c", [0.0, 0.3, 1.0])
def test_any_number_of_parties_equals_pooled_gcca(views, solver, c):
    every = list(views.values())
    theirs = GCCA(2, shrinkage=c).fit(every).transform(every)
    federation = federated(views)
    ours = CCA(2, solver=solver, regularisation=c, random_state=0).fit(federation)
    scores = ours.transform(federation)
    assert_same_scores(scores, theirs)
    # Weights regress one shared variable, so scores have its sign in all parties.
    total = np.sum(list(scores.values()), axis=0)
    assert (total[np.abs(total).argmax(axis=0), [0, 1]] > 0).all()


@pytest.mark.parametrize("c", [0.9, 1.0])
def test_units_of_a_view_break_no_bound(views, c):
    wide = {name: X * 1e4 for name, X in views.items()}
    federation = federated(wide)
    ours = CCA(1, regularisation=c, random_state=0).fit(federation)
    theirs = GCCA(1, shrinkage=c).fit(list(wide.values()))
    assert_same_scores(
        ours.transform(federation), theirs.transform(list(wide.values()))
    )


def test_new_rows_are_scored_with_the_kept_weights(views):
    pair = two(views)
    federation = federated(pair)
    train, test = federation.train_test_split(test_size=0.2, random_state=0)
    ours = CCA(2).fit(train)
    rows = [view_of(part, part.parties[0]).rows() for part in (train, test)]
    fitted = RidgeCCA(2).fit([X[rows[0]] for X in pair.values()])
    theirs = fitted.transform([X[rows[1]] for X in pair.values()])
    assert_same_scores(ours.transform(test), theirs)


def test_significance_needs_no_further_release(views):
    federation = federated(two(views))
    ours = CCA(1).fit(federation)
    lines = len(federation.ledger)
    found = ours.significance()
    assert len(federation.ledger) == lines
    assert found.dof.tolist() == [20, 12, 6, 2]
    assert found.p_value[0] < 1e-20
    every = RidgeCCA(4).fit(list(two(views).values()))
    Z, T = every.transform(list(two(views).values()))
    r = [np.corrcoef(Z[:, j], T[:, j])[0, 1] for j in range(4)]
    assert_allclose(found.wilks[0], np.prod(1 - np.square(r)), rtol=1e-7)


@pytest.mark.parametrize("criterion", ["maxvar", "sumcor"])
def test_many_people_are_paired_by_the_two_parties(criterion):
    rng = np.random.default_rng(1)
    common = rng.standard_normal((1200, 2))
    pair = {
        name: common @ rng.standard_normal((2, p)) + rng.standard_normal((1200, p))
        for name, p in {"bank": 5, "shop": 4}.items()
    }
    federation = federated(pair)
    ours = CCA(2, criterion=criterion).fit(federation)
    theirs = RidgeCCA(4).fit(list(pair.values()))
    scores = theirs.transform(list(pair.values()))
    r = [np.corrcoef(scores[0][:, j], scores[1][:, j])[0, 1] for j in range(4)]
    assert_same_scores(ours.transform(federation), [Z[:, :2] for Z in scores])
    assert_allclose(ours.canonical_correlations_, r[:2], rtol=1e-9)
    assert_allclose(ours.significance().wilks[0], np.prod(1 - np.square(r)), rtol=1e-9)
    shift = 1.0 if criterion == "maxvar" else 0.0
    assert_allclose(ours.eigenvalues_, np.array(r[:2]) + shift, rtol=1e-9)
    # The coordinator opened nothing about people.
    assert {line.name for line in federation.ledger if line.direction == "out"} == {
        *("image", "squares", "correlations", "scores")
    }


def test_what_leaves_are_totals_about_people(views):
    federation = federated(views)
    planned = plan(CCA(2), federation)
    CCA(2).fit(federation)
    left = [
        (line.step, line.name, line.shape, line.visibility)
        for line in federation.ledger
        if line.direction == "out"
    ]
    assert left == [("cca.local_gram", "gram", (N, N), "summed")]
    assert [x.name for x in planned.releases] == [x.name for x in federation.ledger]
    with pytest.raises(ReleaseRefusedError, match="allow_row_level"):
        CCA(2).fit(federated(views, policy=None))


def test_scores_are_a_disclosure(views):
    federation = federated(views, policy={"allow_row_level": True, "min_rows": 5})
    ours = CCA(2).fit(federation)
    with pytest.raises(ReleaseRefusedError, match="allow_disclosed"):
        ours.transform(federation)
    with pytest.raises(DataError, match="nobody may have them"):
        CCA(2, scores=None).fit(federated(views)).transform(federated(views))


def test_ill_posed_requests_are_refused_with_the_remedy():
    rng = np.random.default_rng(0)
    wide = {"a": rng.standard_normal((30, 20)), "b": rng.standard_normal((30, 15))}
    with pytest.raises(DataError, match="Choose a regularisation"):
        CCA(1).fit(federated(wide))
    three = {name: rng.standard_normal((30, 20)) for name in "abc"}
    with pytest.raises(DataError, match="Choose a regularisation"):
        CCA(1).fit(federated(three))
    ours = CCA(1, regularisation=0.5).fit(federation := federated(wide))
    theirs = RidgeCCA(1, shrinkage=0.5).fit(list(wide.values()))
    assert_same_scores(
        ours.transform(federation), theirs.transform(list(wide.values()))
    )
    with pytest.raises(DataError, match="n_components=16"):
        CCA(16, regularisation=0.5).fit(federation)
    with pytest.raises(DataError, match="solver='dgep-eigh'"):
        CCA(1, solver="dgep-eigh").fit(federation)
