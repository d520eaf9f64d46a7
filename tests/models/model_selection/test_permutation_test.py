"""Permutation tests: statistics of other libraries, and known distributions."""

import numpy as np
import pandas as pd
import pytest
import scipy.stats
from numpy.testing import assert_allclose
from statsmodels.multivariate.manova import MANOVA

import unpooled as up
from line_fields import fields
from splits import SPLITS
from unpooled.errors import DataError, ReleaseRefusedError
from unpooled.models.model_selection.permutation_test import _dealt, local_dealt_rows

VIEW = ["c", "d"]


def frame(n=240, strength=0.35):
    """Four columns and three classes; columns c and d depend on a, a on the class."""
    rng = np.random.default_rng(2)
    kind = rng.integers(0, 3, n)
    X = rng.standard_normal((n, 4))
    X[:, 0] += strength * kind
    X[:, 2] += strength * X[:, 0]
    X = X * [1.0, 100.0, 0.01, 1.0] + [0, 1e4, 0, 5]
    return pd.DataFrame(X, columns=list("abcd")).assign(kind=kind)


def federated(rows, split="balanced", **options):
    places = SPLITS[split](rows["kind"].to_numpy())
    tables = {f"s{k}": rows.iloc[own] for k, own in enumerate(places)}
    options = {"policy": up.Policy.open(), "random_state": 1, **options}
    return up.simulate(tables, label="kind", **options)


def alone(rows):
    """Return a federation of one silo, whose permutations are those of all rows."""
    policy = up.Policy.open()
    return up.simulate({"all": rows}, policy=policy, secure_sum="plain")


@pytest.mark.slow
@pytest.mark.parametrize("secure_sum", ["masked", "plain"])
@pytest.mark.parametrize("split", ["balanced", "skewed", "one-row", "six", "sorted"])
def test_the_statistics_are_those_of_pooled_rows(split, secure_sum):
    rows = frame()
    federation = federated(rows, split, secure_sum=secure_sum)
    X = rows[list("abcd")].to_numpy()

    # Secure sums keep twelve digits of each entry's bound; whitening loses a few.
    lda = up.permutation_test(up.LinearDiscriminantAnalysis(), federation)
    manova = MANOVA.from_formula("a + b + c + d ~ C(kind)", rows).mv_test()
    pillai = manova.results["C(kind)"]["stat"].loc["Pillai's trace", "Value"]
    assert_allclose(lda.statistic_, [pillai], rtol=1e-8)

    R = np.corrcoef(X, rowvar=False)
    both = np.linalg.solve(R[:2, :2], R[:2, 2:]) @ np.linalg.solve(R[2:, 2:], R[2:, :2])
    cca = up.permutation_test(up.CCA(), federation, VIEW)
    assert_allclose(cca.statistic_, [both.trace()], rtol=1e-8)
    pls = up.permutation_test(up.PLSSVD(), federation, VIEW)
    assert_allclose(pls.statistic_, [(R[:2, 2:] ** 2).sum()], rtol=1e-8)
    pca = up.permutation_test(up.PCA(), federation)
    assert_allclose(pca.statistic_, np.linalg.eigvalsh(R)[::-1], rtol=1e-8)
    assert lda.n_samples_ == cca.n_samples_ == 240


@pytest.mark.slow
def test_the_p_value_is_that_of_scipys_permutations():
    """One column in each view and one silo: the squared correlation."""
    rows = frame(60, strength=0.2)[["a", "c"]]
    federation = alone(rows)
    B = 999

    found = up.permutation_test(up.CCA(1), federation, ["c"], n_permutations=B)

    def squared(x):
        return np.corrcoef(x, rows["c"])[0, 1] ** 2

    expected = scipy.stats.permutation_test(
        (rows["a"],),
        squared,
        permutation_type="pairings",
        alternative="greater",
        n_resamples=9999,
        rng=np.random.default_rng(0),
    )
    assert_allclose(found.statistic_, [expected.statistic], rtol=1e-9)
    p = expected.pvalue
    assert 0.01 < p < 0.6
    # Five standard deviations of a share of 999 and of one of 9,999 permutations.
    assert abs(found.p_value_[0] - p) < 5 * np.sqrt(p * (1 - p) * 1.1 / B)
    assert found.p_value_[0] == (1 + found.exceeding_[0]) / (1 + B)


def test_the_reference_is_that_of_normal_theory():
    """Of independent normal columns a squared correlation has a beta distribution."""
    rng = np.random.default_rng(4)
    X = rng.standard_normal((400, 2))
    federation = alone(X)

    found = up.permutation_test(up.CCA(1), federation, ["x1"], n_permutations=999)

    quantile = scipy.stats.beta(0.5, (400 - 2) / 2).ppf(0.95)
    # The density there is about 5 / quantile: 999 draws have a tenth of it as error.
    assert_allclose(found.reference_, [quantile], rtol=0.35)
    assert found.p_value_[0] > 0.05


def test_differences_between_silos_are_no_association_within():
    """Both columns are larger in the same silo, and independent within each."""
    rng = np.random.default_rng(5)
    shift = np.array([3.0, 2.0])
    tables = {f"s{k}": rng.standard_normal((80, 2)) + k * shift for k in range(3)}
    apart = up.simulate(tables, policy=up.Policy.open())
    together = alone(np.concatenate(list(tables.values())))

    within = up.permutation_test(up.CCA(1), apart, ["x1"])
    pooled = up.permutation_test(up.CCA(1), together, ["x1"])

    assert_allclose(within.statistic_, pooled.statistic_, rtol=1e-9)
    assert within.p_value_[0] > 0.05 > pooled.p_value_[0] == 0.005


# --- Differences between silos -------------------------------------------------------


def apart(sizes=(60, 90, 70), shift=0.15, p=3, policy=None, **options):
    """Silos of skewed rows, of which the last are larger."""
    rng = np.random.default_rng(11)
    tables = {
        f"s{k}": np.exp(rng.standard_normal((n, p))) + shift * k
        for k, n in enumerate(sizes)
    }
    policy = {"allow_disclosed": True} if policy is None else policy
    return up.simulate(tables, policy=policy, random_state=3, **options), tables


@pytest.mark.thinned("masked-False")
@pytest.mark.parametrize("follow", [False, True])
def test_differences_of_silos_are_those_of_manova(follow, secure_sum):
    federation, tables = apart(follow=follow, secure_sum=secure_sum)
    found = up.permutation_test(up.Heterogeneity(), federation, n_permutations=19)
    rows = pd.DataFrame(np.concatenate(list(tables.values())), columns=list("abc"))
    rows["silo"] = np.repeat([0, 1, 2], [60, 90, 70])
    manova = MANOVA.from_formula("a + b + c ~ C(silo)", rows).mv_test()
    pillai = manova.results["C(silo)"]["stat"].loc["Pillai's trace", "Value"]
    assert_allclose(found.statistic_, [pillai], rtol=1e-8)
    analytic = up.heterogeneity(federation).pillai_["statistic"]
    assert_allclose(found.statistic_, [analytic], rtol=1e-8)
    assert found.n_samples_ == 220


@pytest.mark.slow
def test_the_p_value_is_that_of_all_rows_dealt_anew():
    """SciPy moves the rows themselves; the statistic is the share between silos."""
    B = 999
    federation, tables = apart(p=1, shift=0.2)
    found = up.permutation_test(up.Heterogeneity(), federation, n_permutations=B)

    def between(*silos):
        mean = np.concatenate(silos).mean()
        return sum(len(x) * (x.mean() - mean) ** 2 for x in silos)

    expected = scipy.stats.permutation_test(
        [x[:, 0] for x in tables.values()],
        between,
        alternative="greater",
        n_resamples=9999,
        rng=np.random.default_rng(0),
    )
    p = expected.pvalue
    assert 0.01 < p < 0.6
    # Five standard deviations of a share of 999 and of one of 9,999 permutations.
    assert abs(found.p_value_[0] - p) < 5 * np.sqrt(p * (1 - p) * 1.1 / B)
    total = np.sum((np.concatenate(list(tables.values())) - pooled_mean(tables)) ** 2)
    quantile = np.quantile(expected.null_distribution, 0.95) / total
    # Its standard error is about a tenth of it.
    assert_allclose(found.reference_, [quantile], rtol=0.35)


def pooled_mean(tables):
    return np.concatenate(list(tables.values())).mean()


@pytest.mark.slow
def test_groups_are_dealt_as_by_permutations_of_all_rows():
    sizes = np.array([12, 30, 18])
    deals = _dealt(sizes, 4000, np.random.default_rng(0))
    assert (deals.sum(axis=1) == sizes).all()
    assert (deals.sum(axis=2) == sizes).all()
    rng, labels = np.random.default_rng(1), np.repeat(np.arange(3), sizes)
    moved = np.zeros((4000, 3, 3))
    for b in range(4000):
        np.add.at(moved[b], (labels, rng.permutation(labels)), 1)
    # Standard deviations of entries are at most 2.3: five errors of a difference.
    assert_allclose(deals.mean(axis=0), moved.mean(axis=0), atol=5 * 2.3 * 0.0224)
    assert_allclose(deals.var(axis=0), moved.var(axis=0), rtol=5 * 0.0317)


@pytest.mark.slow
def test_what_leaves_for_differences_of_silos():
    federation, _ = apart()
    up.permutation_test(up.Heterogeneity(), federation)
    left = fields(federation.ledger, "name shape visibility", direction="out")
    assert left[:1] == [("size", (), "disclosed")]
    assert left[-5:] == [
        ("products", (199, 3, 3), "veiled"),
        ("observed", (), "veiled"),
        ("statistic", (1,), "summed"),
        ("exceeding", (1,), "summed"),
        ("reference", (1,), "summed"),
    ]


def test_sizes_of_silos_are_a_disclosure_and_small_groups_are_refused():
    with pytest.raises(ReleaseRefusedError, match="allow_disclosed"):
        up.permutation_test(up.Heterogeneity(), apart(policy={})[0])
    with pytest.raises(DataError, match="fewer than 10 others"):
        up.permutation_test(up.Heterogeneity(), apart((16, 90, 70))[0])
    # A silo refuses them itself.
    deals = np.array([[[1, 9], [9, 1]]])
    with pytest.raises(DataError) as refused:
        local_dealt_rows.function(
            np.ones((10, 1)), "s0", deals=deals, sizes=np.array([10.0, 10.0]),
            mean=np.zeros(1), first=np.ones((1, 1)), silos=["s0", "s1"], seed=0,
        )  # fmt: skip
    assert refused.value.rule == "min_rows"


@pytest.mark.slow
def test_the_coordinator_opens_three_numbers_whatever_the_permutations():
    """Under the policy of a new silo, where each silo runs the program too."""
    federation = federated(frame(), policy=up.Policy(), follow=True)
    up.LinearDiscriminantAnalysis().fit(federation)
    before = len(federation.ledger)

    found = up.permutation_test(
        up.LinearDiscriminantAnalysis(), federation, n_permutations=49
    )

    lines = federation.ledger[before:]
    (products,) = [
        one for one in lines if one.name == "products" and one.direction == "out"
    ]
    assert products.shape == (50, 4, 3)
    assert products.visibility == "veiled"
    last = [
        one for one in lines if one.round == lines[-1].round and one.direction == "out"
    ]
    assert {one.step for one in last} == {"permutation_test.found_association"}
    assert [(one.name, one.shape) for one in last] == [
        *(("statistic", (1,)), ("exceeding", (1,)), ("reference", (1,)))
    ]
    again = up.permutation_test(
        up.LinearDiscriminantAnalysis(), federation, n_permutations=49
    )
    assert again.reference_ == found.reference_
    assert "Permutation test" in str(found.summary())
    frame_of = found.summary().to_frame()
    assert frame_of["p_value"].tolist() == found.p_value_.tolist()


@pytest.mark.slow
def test_components_of_unassociated_columns_do_not_stand_out():
    rng = np.random.default_rng(6)
    common = rng.standard_normal((300, 1))
    X = np.hstack([common + 0.7 * rng.standard_normal((300, 3)),
                   rng.standard_normal((300, 3))])  # fmt: skip
    federation = up.simulate(up.partition_rows(X, 3), policy=up.Policy.open())

    found = up.permutation_test(up.PCA(), federation)

    assert found.n_components_ == 1
    assert found.p_value_[0] == 0.005
    normal = up.PCA("parallel", random_state=0).fit(federation)
    # 199 permutations and 6 columns: the quantiles are within a few hundredths.
    assert_allclose(found.reference_, normal.parallel_reference_, atol=0.06)


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        (up.StandardScaler(), {}, "A permutation test is of a"),
        (up.CCA(regularisation=0.1), {"y": VIEW}, "without regularisation"),
        (up.LinearDiscriminantAnalysis(solver="dgep-eigh"), {}, "exact and without"),
        (up.PCA(), {"n_permutations": 10}, "number from 19"),
        (up.PCA(), {"n_permutations": 20.0}, "a whole number"),
    ],
)
def test_mistakes_are_named(model, options, message):
    with pytest.raises(DataError, match=message):
        up.permutation_test(model, federated(frame()), **options)


def test_collinear_columns_are_named():
    rows = frame().assign(d=lambda own: 2 * own["c"])
    with pytest.raises(DataError, match="a combination of others"):
        up.permutation_test(up.CCA(1), federated(rows), VIEW)
