"""PCA of a scatter that is never opened, by real processes that compute together."""

import numpy as np
import pytest
import sklearn.decomposition
from numpy.testing import assert_allclose

from line_fields import fields
from pooled_pca import correlated_rows, pooled
from twins import assert_same_pca
from unpooled import (
    PCA,
    Policy,
    StandardScaler,
    partition_rows,
    plan,
    simulate,
)
from unpooled.errors import DataError, ReleaseRefusedError
from unpooled.models.pca.components_only import shared_scatter
from unpooled.secure.comparison.shared_eigenpairs import CLOSEST
from wire import silos

pytest.importorskip("mpyc")
K = 2


@pytest.fixture(scope="module")
def rows():
    return correlated_rows()


def secret(k=K, **options):
    return PCA(k, open="components", **options)


def assert_near(ours, theirs):
    # Angles are below 1e-9 (`test_matrix_powers`), variances to 2^-50 of the total.
    assert_allclose(ours.components_, theirs.components_, atol=1e-9)
    assert_allclose(ours.explained_variance_, theirs.explained_variance_, rtol=1e-10)
    for name in ("explained_variance_ratio_", "singular_values_", "noise_variance_"):
        assert_allclose(getattr(ours, name), getattr(theirs, name), rtol=1e-9)
    assert_allclose(ours.mean_, theirs.mean_, rtol=1e-12)


@pytest.mark.slow
def test_is_the_pooled_twin_and_releases_components_and_variances(rows):
    federation = simulate(partition_rows(rows, 3), follow=True)
    expected = plan(secret(), federation)

    model = secret().fit(federation)

    assert_near(model, pooled(rows, K))
    p = rows.shape[1]
    assert fields(federation.ledger, "step name shape visibility", direction="out") == [
        ("pca.local_total", "count", (), "summed"),
        ("pca.local_total", "total", (p,), "summed"),
        ("pca.local_squares", "squares", (p,), "summed"),
        ("pca.shared_scatter", "components", (K, p), "computed"),
        ("pca.shared_scatter", "variances", (K,), "computed"),
    ]
    assert federation.ledger.verify()
    assert expected.rounds == 3 == len({line.round for line in federation.ledger})
    assert expected.numbers == 1 + 2 * p + K * (p + 1)
    (note,) = federation.coordinator.notes
    assert note.startswith("In round 3 the silos' processes computed together, with")
    # Exchanged between processes, about as many messages and bytes as planned.
    messages = int(note.split(" messages")[0].split()[-1].replace(",", ""))
    planned = [x.bytes for x in expected.releases if x.visibility == "computed"]
    declared = shared_scatter.computation
    assert declared is not None
    assert declared.messages("components", (K, p)) == pytest.approx(messages, rel=0.1)
    (spent,) = [x for x in federation.rounds if x.round == 3]
    assert sum(planned) == pytest.approx(spent.bytes_out, rel=0.2)


@pytest.mark.slow
@pytest.mark.parametrize("shares", [(1, 1, 1, 1, 1), (0.02, 0.02, 0.96)])
def test_any_silos_and_standardised_columns(rows, shares):
    cuts = np.cumsum(np.array(shares) / sum(shares) * len(rows)).astype(int)[:-1]
    pieces = {f"s{i}": part for i, part in enumerate(np.split(rows, cuts))}
    here = simulate(pieces, policy=Policy.open())
    model = secret(3).fit(StandardScaler().fit(here).transform(here))

    theirs = pooled((rows - rows.mean(axis=0)) / rows.std(axis=0), 3)
    # Means of standardised columns are rounding.
    assert_allclose(model.mean_, 0.0, atol=1e-12)
    model.mean_ = theirs.mean_
    assert_near(model, theirs)


@pytest.mark.slow
def test_a_committee_computes_for_many_silos(rows):
    pieces = {f"s{i}": part for i, part in enumerate(np.array_split(rows, 7))}
    here = silos(pieces, policy=Policy.open())
    assert_near(secret().fit(here.federation), pooled(rows, K))
    computed = {party for party, _ in here.wire.of_kind("compared")}
    assert computed == {"s0", "s1", "s2", "s3", "s4"}


@pytest.mark.slow
def test_a_component_that_is_not_determined_is_named_and_not_opened():
    rng = np.random.default_rng(3)
    Q = np.linalg.qr(rng.standard_normal((60, 4)) - 0.0)[0]
    Q = np.linalg.qr(Q - Q.mean(axis=0))[0]
    rows = Q * np.sqrt([4.0, 2.0, 2.0 * (1 - CLOSEST / 4), 1.0])
    federation = simulate(partition_rows(rows, 3), policy=Policy.open())
    with pytest.raises(DataError, match=r"Component 2 is not determined.*components=1"):
        secret(3).fit(federation)
    theirs = sklearn.decomposition.PCA(1).fit(rows)
    one = secret(1).fit(federation)
    assert_allclose(np.abs(one.components_ @ theirs.components_.T), 1.0, rtol=1e-12)


def test_two_silos_are_refused(rows):
    federation = simulate(partition_rows(rows, 2), policy={"min_parties": 2})
    for ask in (plan, lambda model, federation: model.fit(federation)):
        with pytest.raises(DataError, match="takes three silos; there are 2"):
            ask(secret(), federation)
    assert len(federation.ledger) == 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"open": "everything"}, 'choose "covariance" or "components"'),
        ({"svd_solver": "krylov"}, "leave svd_solver, privacy"),
        ({"bits": 16}, "leave svd_solver, privacy"),
        ({"standard_errors": True}, "leave svd_solver, privacy"),
        ({"outliers": True}, "leave svd_solver, privacy"),
        ({"n_components": None}, "give a whole number"),
        ({"n_components": 0.9}, "give a whole number"),
        ({"n_components": "parallel"}, "give a whole number"),
    ],
)
def test_what_does_not_go_together_is_refused(rows, options, words):
    federation = simulate(partition_rows(rows, 3))
    with pytest.raises(DataError, match=words):
        PCA(**{"n_components": K, "open": "components", **options}).fit(federation)


def test_columns_beyond_a_hundred_are_refused():
    rows = np.random.default_rng(0).standard_normal((600, 101))
    with pytest.raises(DataError, match="at most 100 columns"):
        secret().fit(simulate(partition_rows(rows, 3)))


@pytest.mark.slow
def test_silos_treat_components_as_pairs_of_columns(rows):
    """All components and variances are the covariance."""
    few = partition_rows(rows[:24], 3)
    strict = simulate(few, policy={"max_feature_ratio": 0.5, "min_rows": 2})
    with pytest.raises(ReleaseRefusedError, match="max_feature_ratio"):
        secret().fit(strict)


def test_an_update_takes_an_open_scatter(rows):
    federation = simulate(partition_rows(rows, 3))
    model = PCA(K).fit(federation)
    model.open = "components"
    with pytest.raises(DataError, match="privacy, bits, rank and open"):
        model.update(federation)
    assert_same_pca(model, pooled(rows, K))
