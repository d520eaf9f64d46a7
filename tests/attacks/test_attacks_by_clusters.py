"""Attacks on one person by cluster-robust errors of two groupings of the rows.

Products of the clusters' sums s of scores, for clusters A and B, and with one person u
of A among B, differ by u vᵀ + v uᵀ with v = s_B - s_A + u: a matrix of rank two, of
which one factor is the person's predictors behind a one, up to scale. Standard errors
by row (HC1) are a grouping too: with one patient who came twice, the difference has
both rows.
"""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import unpooled as up
from unpooled.arrays import Array
from unpooled.errors import ReleaseRefusedError, UnpooledError

COLUMNS, PERSON = ["age", "pressure"], 7
# Columns of clusters; without one, each row is a cluster.
WARDS, VISITS = ("ward", "ward_later"), ("", "patient")


def tables() -> dict[str, pd.DataFrame]:
    """Tables in which one person of b changed wards, and one came twice."""
    rng, made = np.random.default_rng(1), {}
    for name in "abc":
        ward = rng.integers(0, 8, 120).astype(float)
        made[name] = pd.DataFrame(
            {
                "age": rng.integers(20, 90, 120).astype(float),
                "pressure": rng.normal(120, 15, 120).round(),
                "cost": rng.normal(size=120).round(2),
                "days": rng.normal(size=120).round(2),
                "ward": ward,
                # Numbered otherwise, so that the two columns are not alike.
                "ward_later": (3.0 * ward + 1.0) % 8.0,
                "patient": np.arange(120.0),
            }
        )
    made["b"].loc[PERSON, "ward_later"] = (made["b"]["ward_later"][PERSON] + 1) % 8
    made["b"].loc[PERSON + 1, "patient"] = PERSON
    return made


def fitted(federation: up.Federation, clusters: str, y: str = "cost") -> Array:
    """Return the products of scores that a fit's standard errors are made of."""
    view = federation.select([*COLUMNS, y])
    plain = up.LinearRegression().fit(view, y)
    information = plain.sigma_**2 * np.linalg.inv(plain.covariance_)
    N, k = plain.n_samples_, len(information)
    if clusters:
        robust = up.LinearRegression(cov_type="cluster", clusters=clusters)
        robust.fit(federation.select([*COLUMNS, clusters, y]), y)
        G = robust.n_clusters_
        small = G / (G - 1) * (N - 1) / (N - k)
    else:
        robust = up.LinearRegression(cov_type="HC1").fit(view, y)
        small = N / (N - k)
    return information @ robust.covariance_ @ information / small


def candidates(federation: up.Federation, groupings: tuple[str, str]) -> list[Array]:
    """Return both factors of the difference, as records."""
    one, two = (fitted(federation, clusters) for clusters in groupings)
    values, vectors = np.linalg.eigh(two - one)
    a = vectors[:, -1] * np.sqrt(values[-1])
    b = vectors[:, 0] * np.sqrt(-values[0])
    return [(u / u[0])[1:] for u in (a + b, a - b)]


@pytest.mark.slow
@pytest.mark.parametrize("follow", [False, True])
@pytest.mark.parametrize(
    ("groupings", "rule"), [(WARDS, "one_setting"), (VISITS, "few_clusters")]
)
def test_two_groupings_do_not_show_who_is_grouped_otherwise(groupings, rule, follow):
    with pytest.raises(UnpooledError, match=rule):
        candidates(up.simulate(tables(), follow=follow), groupings)


@pytest.mark.slow
def test_nearly_all_rows_in_one_cluster_are_refused():
    data = tables()
    for table in data.values():
        table["ward"] = np.where(table.index < 111, 0.0, table.index)
    with pytest.raises(UnpooledError, match="few_clusters"):
        fitted(up.simulate(data), "ward")


def test_control_two_groupings_show_the_person():
    here = up.simulate(tables(), policy={"allow_disclosed": True})
    found = candidates(here, WARDS)
    record = tables()["b"].loc[PERSON, COLUMNS].to_numpy(float)
    errors = [np.abs(one - record).max() for one in found]
    assert_allclose(min(errors), 0.0, atol=1e-5)


@pytest.mark.slow
def test_one_grouping_is_answered_for_any_model():
    """The same clusters for another response, other predictors and in other units."""
    here = up.simulate(tables(), follow=True)
    for y in ("cost", "days"):
        fitted(here, "ward", y)
    scaled = up.StandardScaler().fit(here).transform(here)
    robust = up.LinearRegression(cov_type="cluster", clusters="ward")
    robust.fit(scaled.select(["age", "days", "ward", "cost"]), "cost")
    with pytest.raises(ReleaseRefusedError, match="one_setting"):
        fitted(here, "ward_later")
