"""Correlation of columns in different silos, by processes that compute together."""

import numpy as np
import pandas as pd
import pytest
import scipy.stats
from numpy.testing import assert_allclose, assert_array_equal

import unpooled as up
from line_fields import fields
from unpooled.errors import DataError, ReleaseRefusedError
from unpooled.models.correlation.correlation_columns import shared_columns
from unpooled.testing import check_estimator

pytest.importorskip("mpyc")
N = 120
NAMES = list("abcdef")
SPLITS = {
    "three": (["a", "b"], ["c", "d"], ["e", "f"]),
    "one column": (["c"], ["a", "f", "b", "e"], ["d"]),
    "five": (["a"], ["b"], ["c"], ["d"], ["e", "f"]),
}
RULES = {"allow_disclosed": True, "allow_row_level": "parties"}
# Products are rounded to some units of 2^-44, 1e-12 with five silos.
ATOL = 1e-11


def made(n=N, seed=0):
    """Columns with factors in common, in units ten orders of magnitude apart."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 2)) @ rng.standard_normal((2, 6))
    X += rng.standard_normal((n, 6))
    units = np.array([1.0, 1e5, 1e-5, 1.0, 100.0, 1.0])
    return pd.DataFrame(X * units + 10.0 * units, columns=NAMES)


def by_columns(X, split="three", **options):
    parties = {f"p{i}": X[names] for i, names in enumerate(SPLITS[split])}
    options = {"policy": RULES, **options}
    return up.simulate(parties, partition="columns", **options)


@pytest.fixture(scope="module")
def federation():
    return by_columns(made(), follow=True)


@pytest.fixture(scope="module")
def model(federation):
    return up.Correlation().fit(federation)


def assert_is_the_pooled_one(ours, X):
    names = list(ours.feature_names_in_)
    X = X[names]
    assert_allclose(ours.correlation_, np.corrcoef(X.T), atol=ATOL)
    assert ours.n_samples_ == len(X)
    assert_array_equal(ours.n_pairs_, len(X))
    for i, j in ((0, 1), (1, 4), (3, 5)):
        theirs = scipy.stats.pearsonr(X.iloc[:, i], X.iloc[:, j])
        interval = theirs.confidence_interval()
        assert_allclose(ours.p_value_[i, j], theirs.pvalue, rtol=1e-8)
        assert_allclose(ours.confidence_low_[i, j], interval.low, atol=ATOL)
        assert_allclose(ours.confidence_high_[i, j], interval.high, atol=ATOL)


@pytest.mark.slow
def test_is_scipys_and_what_the_row_partition_gives(model):
    X = made()
    assert_is_the_pooled_one(model, X)
    rows = up.simulate(up.partition_rows(X, 3), policy=up.Policy.open())
    theirs = up.Correlation().fit(rows)
    names = [name for name in vars(theirs) if name.endswith("_") and name != "mean_"]
    assert {"partial_correlation_", "variance_inflation_", "p_holm_"} <= set(names)
    for name in set(names) - {"feature_names_in_"}:
        assert_allclose(getattr(model, name), getattr(theirs, name), rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("split", ["one column", "five"])
def test_any_split(split, secure_sum):
    X = made(seed=1)
    ours = up.Correlation().fit(by_columns(X, split, secure_sum=secure_sum))
    assert list(ours.feature_names_in_) == [c for own in SPLITS[split] for c in own]
    assert_is_the_pooled_one(ours, X)


@pytest.mark.slow
def test_releases_correlations_alone(federation, model):
    out = fields(federation.ledger, "step name shape visibility", direction="out")
    assert out == [("correlation.shared_columns", "correlations", (6, 6), "computed")]
    assert federation.ledger.verify()
    planned = up.plan(up.Correlation(), by_columns(made()))
    assert planned.rounds == 1
    assert planned.numbers == 21
    (note,) = federation.coordinator.notes
    declared = shared_columns.computation
    assert declared is not None
    wanted = declared.messages("correlations", (6, 6))
    assert f"with {wanted} messages to each other" in note
    (spent,) = [x for x in federation.rounds if x.round == 1]
    assert planned.bytes == pytest.approx(spent.bytes_out, rel=0.2)


@pytest.mark.slow
def test_a_summary_has_the_tables_of_rows(model):
    tables = model.summary().tables
    assert {"pairs", "correlations", "variance_inflation"} <= set(tables)
    assert not hasattr(model, "mean_")


def test_a_silo_places_its_columns_and_nothing_else():
    X = made(8).to_numpy()[:, :2].copy()
    X[:, 1] = 0.1
    places = {"x": 0, "y": 1}
    cells = shared_columns(X, "y", n_columns=4, places=places)["cells"].reshape(8, 4)
    assert_array_equal(cells[:, [0, 2, 3]], 0.0)  # a constant column is zeros
    assert_allclose(cells[:, 1], scipy.stats.zscore(X[:, 0]) / np.sqrt(8))
    for where in (-1, 3):
        with pytest.raises(DataError, match="no such place"):
            shared_columns(X, "y", n_columns=4, places={"y": where})


@pytest.mark.slow
def test_collinear_and_constant_columns():
    X = made()
    X["c"], X["f"] = X.a + X.d, 0.1
    ours = up.Correlation().fit(by_columns(X))
    assert_allclose(
        ours.correlation_[:5, :5], np.corrcoef(X[list("abcde")].T), atol=ATOL
    )
    assert np.isnan(ours.correlation_[5]).all()
    assert not hasattr(ours, "variance_inflation_")


# --- What follows, and what does not -------------------------------------------------


@pytest.mark.slow
def test_correlations_next_to_a_gram_matrix_determine_every_column(model):
    """Which `PCA` opens of standardised columns: here every cell, but for signs."""
    X = made().to_numpy()
    Z = (X - X.mean(axis=0)) / np.linalg.norm(X - X.mean(axis=0), axis=0)
    values, U = np.linalg.eigh(Z @ Z.T)
    U = U[:, -6:] * np.sqrt(values[-6:])
    _, V = np.linalg.eigh(model.correlation_)
    # A direction's sign is what a person's known row, or a silo's own columns, tell.
    signs = np.sign(np.sum(U * (Z @ V), axis=0))
    assert_allclose((U * signs) @ V.T, Z, atol=1e-6)


def test_control_other_people_have_the_same_correlations(model):
    rng = np.random.default_rng(1)
    X = made()
    Z = (X - X.mean()) / np.linalg.norm(X - X.mean(), axis=0)
    # Orthogonal, and it leaves the means as they are.
    Q = np.linalg.qr(np.c_[np.ones(N), rng.standard_normal((N, N - 1))])[0]
    others = np.roll(Q[:, 1:], 1, axis=1) @ Q[:, 1:].T @ Z
    assert_allclose(np.corrcoef(others.T), model.correlation_, atol=1e-9)
    assert abs(np.corrcoef(others.T, Z.T)[:6, 6:]).max() < 0.9


# --- Who refuses ---------------------------------------------------------------------


def refused(X, fits, **rules):
    federation = by_columns(X, policy={**RULES, **rules})
    model = up.Correlation()
    planned = up.plan(model, federation)
    (rule,) = {rule for _, _, rule in planned.refusals}
    if not fits:
        return rule
    with pytest.raises(ReleaseRefusedError) as refusal:
        model.fit(federation)
    assert refusal.value.rule == rule
    assert len(federation.ledger) == 0
    return rule


@pytest.mark.thinned(1)
@pytest.mark.parametrize("fits", [False, True])
def test_a_silo_allows_its_own_correlations_to_be_seen(fits):
    for about_people in ("parties", True):
        rules = {"allow_disclosed": False, "allow_row_level": about_people}
        assert refused(made(), fits, **rules) == "allow_disclosed"


@pytest.mark.thinned(1)
@pytest.mark.parametrize("fits", [False, True])
def test_columns_of_all_silos_count_against_the_rows(fits):
    X = made(17)
    # A silo's own two columns pass, and the six of all do not.
    assert refused(X, fits) == "max_feature_ratio"


@pytest.mark.slow
def test_silos_share_cells_of_people_only_where_they_allow_rows_to_be_seen():
    assert refused(made(), True, allow_row_level=False) == "allow_row_level"


@pytest.mark.slow
@pytest.mark.parametrize("gram_first", [True, False])
def test_people_and_columns_are_not_both_answered(gram_first):
    """What the two together give is computed above."""
    federation = by_columns(made(), policy={**RULES, "allow_row_level": True})
    first, then = up.PCA(2), up.Correlation()
    if not gram_first:
        first, then = then, first
    first.fit(federation.select(["a", "c", "e"]))

    with pytest.raises(ReleaseRefusedError, match="people_and_columns"):
        then.fit(federation.select(["a", "d", "f"]))

    # Other columns of the same people may be.
    then.fit(federation.select(["b", "d", "f"]))


@pytest.mark.slow
def test_a_row_that_carries_a_column_is_refused():
    X = made()
    X["d"] = np.eye(N)[:, 3]
    federation = by_columns(X)
    with pytest.raises(ReleaseRefusedError, match="max_leverage"):
        up.Correlation().fit(federation)


@pytest.mark.slow
def test_missing_cells_are_imputed_first():
    X = made()
    X.loc[::4, "b"] = np.nan
    federation = by_columns(X)
    with pytest.raises(DataError, match=r"missing|NaN"):
        up.Correlation().fit(federation)
    with pytest.raises(DataError, match="before a silo could judge it"):
        up.Correlation("pairwise").fit(federation)


@pytest.mark.slow
def test_imputed_columns():
    X = made()
    X.loc[::4, "b"] = np.nan
    filled = up.SimpleImputer().fit_transform(by_columns(X))
    assert_is_the_pooled_one(up.Correlation().fit(filled), X.fillna(X.mean()))


def test_two_silos_and_many_cells_are_refused():
    X = made()
    two = {"x": X[NAMES[:3]], "y": X[NAMES[3:]]}
    rules = {**RULES, "min_parties": 2}
    federation = up.simulate(two, partition="columns", policy=rules)
    for ask in (up.plan, lambda model, federation: model.fit(federation)):
        with pytest.raises(
            DataError, match="three silos; there are 2, and of two, one"
        ):
            ask(up.Correlation(), federation)
    many = by_columns(pd.DataFrame(np.ones((200_000, 6)), columns=NAMES))
    with pytest.raises(DataError, match="1,200,000 cells"):
        up.Correlation().fit(many)
    assert len(federation.ledger) == len(many.ledger) == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "check",
    check_estimator(
        up.Correlation(),
        pooled=lambda X, y: {"correlation_": np.corrcoef(X.T), "n_samples_": len(X)},
        partition="columns",
        generate_only=True,
    ),
    ids=repr,
)
def test_convention(check):
    check()
