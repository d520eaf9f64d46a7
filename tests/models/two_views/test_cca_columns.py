"""Canonical correlations between parties with other columns of the same people."""

import numpy as np
import pytest
from cca_zoo.linear import GCCA, MCCA, RidgeCCA
from numpy.testing import assert_allclose

from line_fields import fields
from party_views import federated
from silo_rows import view_of
from unpooled import CCA, PLSSVD, PLSCanonical, Policy, plan, simulate
from unpooled.errors import ConvergenceError, DataError, ReleaseRefusedError
from unpooled.models.two_views import cca_spans

N = 150


@pytest.fixture(scope="module")
def views():
    rng = np.random.default_rng(0)
    common = rng.standard_normal((N, 3)) * [2.0, 1.0, 0.5]
    return {
        name: common @ rng.standard_normal((3, p)) + rng.standard_normal((N, p)) + p
        for name, p in {"bank": 5, "shop": 4, "insurer": 6}.items()
    }


def two(views):
    return {name: views[name] for name in ("bank", "shop")}


def assert_same_scores(ours, theirs, rtol=1e-8):
    """Compare scores up to each column's sign and scale."""
    for Z, T in zip(ours.values(), theirs, strict=True):
        for z, t in zip((Z - Z.mean(axis=0)).T, (T - T.mean(axis=0)).T, strict=True):
            z, t = z / np.linalg.norm(z), t / np.linalg.norm(t)
            assert np.linalg.norm(z - t * np.sign(z @ t)) <= rtol


@pytest.mark.parametrize("solver", ["gram", "krylov", "spans"])
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


def test_two_parties_alone_open_spans_of_few_people_too(views):
    policy = Policy(min_parties=2, allow_row_level="parties")
    federation = federated(two(views), policy=policy, follow=True)
    refused = plan(CCA(2), federation)
    assert {rule for _, _, rule in refused.refusals} == {"allow_row_level"}
    assert 'solver="spans"' in str(refused)
    assert not plan(CCA(2, solver="spans"), federation).refusals

    ours = CCA(2, solver="spans", scores=None).fit(federation)

    opened = [line for line in federation.ledger if N in line.shape]
    assert {line.visibility for line in opened} <= {"veiled", "kept"}
    theirs = RidgeCCA(2).fit(list(two(views).values()))
    Z, T = theirs.transform(list(two(views).values()))
    r = [np.corrcoef(Z[:, j], T[:, j])[0, 1] for j in range(2)]
    assert_allclose(ours.canonical_correlations_, r, rtol=1e-8)


@pytest.mark.parametrize("names", [("bank", "shop"), ("bank", "shop", "insurer")])
def test_spans_are_of_two_parties_without_a_ridge(views, names):
    federation = federated({name: views[name] for name in names})
    c = 0.3 if len(names) == 2 else 0.0
    with pytest.raises(DataError, match="two parties, without regularisation"):
        CCA(2, solver="spans", regularisation=c).fit(federation)


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


@pytest.mark.thinned(1)
@pytest.mark.parametrize(
    "model",
    [
        CCA(2),
        CCA(2, solver="krylov", random_state=0),
        CCA(2, solver="spans"),
        CCA(2, regularisation=0.3, random_state=0),
        PLSCanonical(2),
        PLSSVD(2),
    ],
    ids=str,
)
def test_silos_disclose_correlations_of_their_columns_with_scores(views, model):
    federation = federated(two(views), follow=True)
    ours = model.fit(federation)
    Z = ours.transform(federation)
    before = len(federation.ledger)

    for party, found in (
        ("bank", ours.x_correlations_),
        ("shop", ours.y_correlations_),
    ):
        k = Z[party].shape[1]
        theirs = np.corrcoef(two(views)[party].T, Z[party].T)[:-k, -k:]
        assert_allclose(found, theirs, atol=1e-9)

    lines = federation.ledger[before:]
    assert {line.visibility for line in lines if line.direction == "out"} == {
        "disclosed"
    }
    # Both at once, and with the picture of them.
    assert len({line.round for line in lines}) == 1
    assert "Correlation circle" in str(ours.summary())
    (exhibit,) = [e for e in ours.summary().exhibits if "circle" in e.heading]
    table = exhibit.tables[0]
    found = zip(table.column("view"), table.column("column"), strict=True)
    wanted = [(party, c) for party, own in federation.columns_of.items() for c in own]
    assert sorted(found) == sorted(wanted)
    assert "the columns of bank are blue and the columns of shop orange" in exhibit.text


def test_correlations_with_scores_are_of_two_parties(views):
    ours = CCA(2).fit(federated(views))
    with pytest.raises(DataError, match="are of two parties, not of 3"):
        _ = ours.x_correlations_


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


@pytest.mark.thinned(1)
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


def many(sizes=(5, 4), n=1200):
    rng = np.random.default_rng(1)
    common = rng.standard_normal((n, 2)) * [2.0, 1.0]
    return {
        name: common @ rng.standard_normal((2, p)) + rng.standard_normal((n, p)) + p
        for name, p in zip(("bank", "shop"), sizes, strict=True)
    }


@pytest.mark.thinned(1)
@pytest.mark.parametrize("criterion", ["maxvar", "sumcor"])
@pytest.mark.parametrize("sizes", [(5, 4), (2, 7)], ids=str)
@pytest.mark.parametrize("follow", [False, True], ids=["", "followed"])
def test_many_people_are_paired_by_the_two_parties(criterion, sizes, follow):
    pair, p = many(sizes), min(sizes)
    federation = federated(pair, follow=follow)
    ours = CCA(2, criterion=criterion).fit(federation)
    theirs = RidgeCCA(p).fit(list(pair.values()))
    scores = theirs.transform(list(pair.values()))
    r = [np.corrcoef(scores[0][:, j], scores[1][:, j])[0, 1] for j in range(p)]
    assert_allclose(ours.canonical_correlations_, r[:2], rtol=1e-9)
    assert_allclose(ours.significance().wilks[0], np.prod(1 - np.square(r)), rtol=1e-9)
    shift = 1.0 if criterion == "maxvar" else 0.0
    assert_allclose(ours.eigenvalues_, np.array(r[:2]) + shift, rtol=1e-9)
    # The coordinator opened nothing about people, in two rounds.
    left = set(fields(federation.ledger, "round name visibility", direction="out"))
    assert left == {
        (1, "image", "veiled"),
        *((2, name, "summed") for name in ("squares", "correlations")),
    }
    own = ours.transform(federation)
    assert_same_scores(own, [Z[:, :2] for Z in scores])
    for Z in own.values():
        assert_allclose(Z.std(axis=0, ddof=1), 1.0, rtol=1e-10)


def test_many_people_whose_columns_are_collinear_or_in_other_units():
    pair = many()
    theirs = RidgeCCA(2).fit(list(pair.values())).transform(list(pair.values()))
    bank = pair["bank"]
    # Thirty orders of magnitude; a copy of a column, and a constant that is no binary
    # fraction, so that rounding is left of it.
    units = 10.0 ** np.linspace(-15.0, 15.0, 5)
    bank = [bank * units, bank[:, :1] / 4.0, np.full((len(bank), 1), 0.1)]
    federation = federated({**pair, "bank": np.hstack(bank)})
    ours = CCA(2).fit(federation)
    assert_same_scores(ours.transform(federation), theirs, rtol=1e-8)
    same = CCA(2).fit(federated(pair))
    assert_allclose(ours.all_correlations_, same.all_correlations_, atol=1e-9)


def test_of_many_people_the_other_party_has_no_column(monkeypatch):
    pair, seen = many(), []
    pairs = cca_spans.score_pairs
    monkeypatch.setattr(
        cca_spans,
        "score_pairs",
        lambda own, other, k, **how: seen.append(other) or pairs(own, other, k, **how),
    )
    CCA(2).fit(federated(pair))
    for image, X in zip(reversed(seen), pair.values(), strict=True):
        Z = image[:, : X.shape[1]]
        centred = X - X.mean(axis=0)
        # Orthonormal, of the span of the columns,
        assert_allclose(Z.T @ Z, np.eye(X.shape[1]), atol=1e-12)
        assert_allclose(Z @ (Z.T @ centred), centred, atol=1e-9)
        # and none of them is a column, a principal component or a whitened column.
        U, _, Vt = np.linalg.svd(centred, full_matrices=False)
        for known in (centred / np.linalg.norm(centred, axis=0), U, U @ Vt):
            assert np.abs(known.T @ Z).max() < 0.999


def test_many_people_with_equal_correlations_are_refused():
    rng = np.random.default_rng(0)
    shared = rng.standard_normal((1200, 2))
    pair = {name: shared @ rng.standard_normal((2, 3)) for name in ("bank", "shop")}
    for X in pair.values():
        X[:, 2] = rng.standard_normal(1200)
    with pytest.raises(ConvergenceError, match="correlations are equal"):
        CCA(1).fit(federated(pair))


def test_many_people_need_what_their_parties_alone_may_see():
    rules = {"min_parties": 2, "allow_row_level": "parties"}
    assert CCA(1).fit(federated(many(), policy=rules)).n_samples_ == 1200
    with pytest.raises(ReleaseRefusedError, match="allow_row_level"):
        CCA(1).fit(federated(many(), policy={"min_parties": 2}))


def test_many_people_with_many_columns_take_blocks():
    wide = many((8, 250), n=1001)
    notes = plan(CCA(1), federated(wide)).notes
    assert any(
        "not to send coordinates along all 250 columns" in note for note in notes
    )


def test_what_leaves_are_totals_about_people(views):
    federation = federated(views)
    planned = plan(CCA(2), federation)
    CCA(2).fit(federation)
    left = fields(federation.ledger, "step name shape visibility", direction="out")
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
    # 11 columns of 12 rows span what their 11 differences do; of 13 they leave one.
    few = {"a": rng.standard_normal((12, 6)), "b": rng.standard_normal((12, 5))}
    with pytest.raises(DataError, match="Choose a regularisation"):
        CCA(1).fit(federated(few))
    CCA(1).fit(federated({n: np.vstack([X, X[:1] ** 2]) for n, X in few.items()}))
    ours = CCA(1, regularisation=0.5).fit(federation := federated(wide))
    theirs = RidgeCCA(1, shrinkage=0.5).fit(list(wide.values()))
    assert_same_scores(
        ours.transform(federation), theirs.transform(list(wide.values()))
    )
    with pytest.raises(DataError, match="n_components=16"):
        CCA(16, regularisation=0.5).fit(federation)
    with pytest.raises(DataError, match="solver='dgep-eigh'"):
        CCA(1, solver="dgep-eigh").fit(federation)
