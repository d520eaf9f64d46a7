"""Standard errors of canonical correlations: derivatives by the weights of rows."""

import numpy as np
import pytest
import scipy.linalg
from numpy.testing import assert_allclose

import unpooled as up
from splits import SPLITS
from unpooled.errors import DataError


def data(n=240):
    """Two views with three and two columns, heavy tails, and scales far apart."""
    rng = np.random.default_rng(3)
    Z = rng.standard_t(7, (n, 2))
    X = Z @ rng.standard_normal((2, 3)) + 0.4 * rng.standard_normal((n, 3))
    Y = Z @ rng.standard_normal((2, 2)) + rng.standard_normal((n, 2))
    return np.hstack([X, Y]) * [1e-3, 1.0, 1e4, 1.0, 10.0] + [0, 1, 1e6, 0, 5]


def federated(split, secure_sum="masked", **options):
    rows = data()
    tables = {f"s{k}": rows[own] for k, own in enumerate(SPLITS[split](np.arange(240)))}
    policy = up.Policy.open()
    return up.simulate(tables, policy=policy, secure_sum=secure_sum, **options)


def weighted_correlations(rows, weights):
    """Return canonical correlations of rows with weights that add up to 1."""
    centred = rows - weights @ rows
    S = (centred * weights[:, None]).T @ centred
    roots = [scipy.linalg.cholesky(S[v, v]) for v in (slice(0, 3), slice(3, 5))]
    K = scipy.linalg.solve(roots[0].T, S[:3, 3:]) @ scipy.linalg.inv(roots[1])
    return scipy.linalg.svdvals(K)


@pytest.mark.thinned
@pytest.mark.parametrize("secure_sum", ["masked", "plain"])
@pytest.mark.parametrize("split", ["balanced", "skewed", "one-row", "sorted"])
def test_they_are_the_infinitesimal_jackknife(split, secure_sum):
    """The influence of a row is the derivative by the row's weight."""
    rows = (data() - data().mean(axis=0)) / data().std(axis=0)
    N, step = len(rows), 1e-6
    influences = []
    for row in range(N):
        ends = []
        for sign in (1.0, -1.0):
            weights = np.full(N, (1 - sign * step) / N)
            weights[row] += sign * step
            ends.append(weighted_correlations(rows, weights))
        influences.append((ends[0] - ends[1]) / (2 * step))
    expected = np.sqrt((np.array(influences) ** 2).sum(axis=0)) / N

    found = up.CCA(2, standard_errors=True)
    found.fit(federated(split, secure_sum), y=["x3", "x4"])

    # The model's scores have variance 1 with the denominator N - 1, here with N; the
    # quotient of differences of 1e-6 has an error of 1e-9.
    ours = found.canonical_correlations_se_ * N / (N - 1)
    assert_allclose(ours, expected, rtol=1e-6)
    r = found.canonical_correlations_
    normal = (1 - r**2) / np.sqrt(N)
    assert_allclose(found.canonical_correlations_se_normal_, normal, rtol=1e-9)


@pytest.mark.slow
def test_one_round_more_opens_a_number_for_each_pair():
    federation = federated("balanced", follow=True)
    up.CCA(2).fit(federation, y=["x3", "x4"])
    rounds = federation.ledger[-1].round
    before = len(federation.ledger)

    model = up.CCA(2, standard_errors=True).fit(federation, y=["x3", "x4"])

    lines = federation.ledger[before:]
    assert len({line.round for line in lines}) == rounds + 1
    (line,) = [one for one in lines if one.name == "influences"]
    assert line.step == "cca.local_correlation_influences"
    assert (line.shape, line.visibility) == ((2,), "summed")
    table = model.summary().tables["correlations"]
    assert [c.heading for c in table.columns][:4] == [
        *("Pair", "Correlation", "SE", "SE (normal)")
    ]
    assert table.column("se") == model.canonical_correlations_se_.tolist()


def test_of_normal_rows_both_agree():
    rng = np.random.default_rng(1)
    Z = rng.standard_normal((20000, 4))
    Z[:, 2] = 0.6 * Z[:, 0] + 0.8 * Z[:, 2]
    federation = up.simulate(up.partition_rows(Z, 3), policy=up.Policy.open())

    model = up.CCA(1, standard_errors=True).fit(federation, y=["x2", "x3"])

    # A sum over 20,000 rows has an error of about a hundredth.
    ratio = model.canonical_correlations_se_ / model.canonical_correlations_se_normal_
    assert_allclose(ratio, 1.0, atol=0.04)


@pytest.mark.parametrize(
    "options", [{"regularisation": 0.1}, {"solver": "dgep-eigh"}], ids=str
)
def test_others_have_none(options):
    model = up.CCA(1, standard_errors=True, **options)
    with pytest.raises(DataError, match="exact correlations on a row partition"):
        model.fit(federated("balanced"), y=["x3", "x4"])


def test_columns_of_two_parties_have_those_of_normal_theory():
    rows = data()
    federation = up.simulate(
        {"a": rows[:, :3], "b": rows[:, 3:]},
        partition="columns",
        policy=up.Policy.open(),
    )

    model = up.CCA(2).fit(federation)

    expected = (1 - model.canonical_correlations_**2) / np.sqrt(240)
    assert_allclose(model.canonical_correlations_se_normal_, expected, rtol=1e-12)
