"""CentreBySite: rows about their own silo's means, which never leave it."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.pipeline import make_pipeline

import unpooled as up
from unpooled.data.heart_disease import load
from unpooled.errors import DataError, ReleaseRefusedError
from unpooled.testing import check_estimator

OPEN = up.Policy.open()
ARRAYS = {"check_transform": "an array of rows has no silo, whose means to subtract"}


def made(n=40, seed=0):
    rng = np.random.default_rng(seed)
    return {s: rng.standard_normal((n, 3)) + 5 * i for i, s in enumerate("abc")}


@pytest.fixture(scope="module")
def silos():
    return made()


@pytest.mark.parametrize(
    "check",
    check_estimator(
        up.CentreBySite(),
        exact=False,
        expected_failed_checks=ARRAYS,
        generate_only=True,
    ),
    ids=repr,
)
def test_convention(check):
    check()


@pytest.mark.parametrize("follow", [False, True])
def test_equals_centring_in_each_silo(silos, follow):
    federation = up.simulate(silos, follow=follow)
    pool = np.vstack([rows - rows.mean(axis=0) for rows in silos.values()])

    view = up.CentreBySite().fit_transform(federation)
    pca = up.PCA().fit(view)

    assert_allclose(pca.mean_, 0, atol=1e-12)
    values = np.linalg.eigvalsh(np.cov(pool.T))[::-1]
    assert_allclose(pca.explained_variance_, values, rtol=1e-12)


def test_nothing_leaves(silos):
    federation = up.simulate(silos)
    up.CentreBySite().fit(federation)
    assert {line.visibility for line in federation.ledger} == {"kept"}


def test_heterogeneity_of_means_is_gone(silos):
    view = up.CentreBySite().fit_transform(up.simulate(silos))
    assert_allclose(up.heterogeneity(view, 1).eta_squared_, 0, atol=1e-20)


def test_new_rows_are_centred_by_the_fitted_means(silos):
    first = up.simulate(silos, policy=OPEN, study="first")
    model = up.CentreBySite().fit(first)
    new = made(n=30, seed=1)
    view = model.transform(up.simulate(new, policy=OPEN, study="second"))

    scaler = up.StandardScaler().fit(view)

    pool = np.vstack([new[s] - silos[s].mean(axis=0) for s in silos])
    assert_allclose(scaler.mean_, pool.mean(axis=0), atol=1e-12)
    assert_allclose(scaler.var_, pool.var(axis=0), rtol=1e-12)


def test_missing_cells_of_heart_disease_stay_missing():
    tables = {name: t.to_pandas().drop(columns="num") for name, t in load().items()}
    federation = up.simulate(tables, policy=OPEN)
    pool = pd.concat([t - t.mean() for t in tables.values()])

    scaler = make_pipeline(up.CentreBySite(), up.StandardScaler()).fit(federation)[1]

    assert_allclose(scaler.var_, pool.var(ddof=0), rtol=1e-10)
    assert_allclose(scaler.n_samples_seen_, pool.notna().sum())


def test_arrays_have_no_silo(silos):
    model = up.CentreBySite().fit(up.simulate(silos))
    with pytest.raises(DataError, match="the means of a silo stay there"):
        model.transform(silos["a"])


def test_parts_of_rows_would_tell_the_means(silos):
    federation = up.simulate(silos)
    train, test = federation.train_test_split(random_state=0)
    with pytest.raises(DataError, match="CentreBySite is fitted on all rows"):
        up.CentreBySite().fit(train)
    view = up.CentreBySite().fit_transform(federation)
    with pytest.raises(DataError, match="CentreBySite is fitted on all rows"):
        up.CentreBySite().fit(federation).transform(test)
    part, _ = view.train_test_split(random_state=0)
    with pytest.raises(ReleaseRefusedError, match="partition"):
        up.StandardScaler().fit(part)
