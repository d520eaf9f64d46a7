"""Dask collections on a cluster of worker processes: only totals come back."""

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import sklearn.decomposition
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.pipeline import make_pipeline

from twins import assert_same_pca
from unpooled import PCA, Policy, SimpleImputer, StandardScaler, simulate
from unpooled.data.sources.open_source import open_source
from unpooled.errors import DataError

pytest.importorskip("distributed", reason="Dask is an extra")

NAMES = [f"c{j}" for j in range(5)]


@pytest.fixture(scope="module")
def client():
    """Two worker processes beside this one."""
    from distributed import Client, LocalCluster

    with warnings.catch_warnings():
        # What a cluster leaves open while it ends is not ours.
        warnings.simplefilter("ignore")
        with (
            LocalCluster(
                n_workers=2,
                threads_per_worker=1,
                processes=True,
                dashboard_address=":0",
            ) as cluster,
            Client(cluster) as client,
        ):
            yield client


# A cluster takes seconds to start.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(4)
    return rng.standard_normal((120, 5)) @ rng.standard_normal((5, 5)) + 10.0


def frame_of(X):
    return pd.DataFrame(X, columns=NAMES)


def frames(X, m=3, npartitions=4):
    import dask.dataframe as dd

    parts = np.array_split(X, m)
    return {
        f"silo{i}": dd.from_pandas(frame_of(part), npartitions=npartitions)
        for i, part in enumerate(parts)
    }


def arrays(X, m=3):
    import dask.array

    da: Any = dask.array
    return {
        f"silo{i}": da.from_array(part, chunks=(11, 2))
        for i, part in enumerate(np.array_split(X, m))
    }


@pytest.fixture
def nothing_here(monkeypatch):
    """Let no row be read in this process; the workers are others."""

    def refuse(*_, **__):
        raise AssertionError("rows were read at the party")

    monkeypatch.setattr("unpooled.data.sources.frames.FrameTable.blocks", refuse)
    monkeypatch.setattr("unpooled.data.table.ArrayTable.blocks", refuse)
    monkeypatch.setattr("unpooled.data.sources.dask.ClusterTable.blocks", refuse)


@pytest.mark.parametrize("collections", [frames, arrays])
@pytest.mark.parametrize("svd_solver", ["covariance_eigh", "krylov"])
@pytest.mark.usefixtures("client", "nothing_here")
def test_only_totals_come_back(collections, svd_solver, rows):
    ours = PCA(2, svd_solver=svd_solver, random_state=0)
    ours.fit(simulate(collections(rows), policy=Policy.open()))
    theirs = sklearn.decomposition.PCA(2, svd_solver="full").fit(rows)
    assert_allclose(ours.components_, theirs.components_, atol=1e-9)
    assert_allclose(ours.explained_variance_, theirs.explained_variance_, rtol=1e-9)


@pytest.mark.usefixtures("client")
def test_transforms_run_on_the_workers(rows, monkeypatch):
    X = rows.copy()
    X[::9, 2] = np.nan
    # Without the rule on leverage, which reads the rows in their order.
    federation = simulate(frames(X), policy=Policy.open())
    monkeypatch.setattr("unpooled.data.sources.dask.ClusterTable.blocks", None)
    model = make_pipeline(SimpleImputer(), StandardScaler(), PCA(3)).fit(federation)
    twin = make_pipeline(
        sklearn.impute.SimpleImputer(),
        sklearn.preprocessing.StandardScaler(),
        sklearn.decomposition.PCA(3, svd_solver="covariance_eigh"),
    )
    assert_same_pca(model[-1], twin.fit(frame_of(X).to_numpy())[-1])


@pytest.mark.usefixtures("client")
def test_codes_that_mean_missing(rows):
    X = rows.copy()
    X[::7, 1] = -9.0
    (source, *_) = frames(X, 1).values()
    table = open_source(source, missing={"c1": [-9]})
    count = table.over_parts(_count)
    assert count is not None
    assert count["there"].tolist() == (~(X == -9.0)).sum(axis=0).tolist()


def _count(table):
    there = sum((~np.isnan(b.X)).sum(axis=0) for b in table.blocks(table.columns))
    return {"there": np.asarray(there)}


@pytest.mark.usefixtures("client")
def test_blocks_joined_are_the_collection(rows):
    for source in (*frames(rows, 1).values(), *arrays(rows, 1).values()):
        table = open_source(source)
        blocks = list(table.blocks(table.columns, rows=7))
        assert [b.start for b in blocks] == np.cumsum(
            [0, *(len(b.X) for b in blocks[:-1])]
        ).tolist()
        assert_array_equal(np.concatenate([b.X for b in blocks]), rows)


@pytest.mark.usefixtures("client")
def test_folds_are_those_of_the_same_rows_in_memory(rows):
    fits = [
        PCA(2).fit(
            simulate(parties, policy=Policy.open()).folds(3, random_state=1)[0][0]
        )
        for parties in (
            frames(rows),
            {n: frame_of(f.compute()) for n, f in frames(rows).items()},
        )
    ]
    assert_allclose(fits[0].components_, fits[1].components_, atol=1e-12)


def test_a_published_data_set_by_its_address(client, rows):
    (source, *_) = frames(rows, 1).values()
    client.publish_dataset(source.persist(), name="patients")
    address = client.scheduler.address.replace("tcp://", "dask://")

    table = open_source(f"{address}/patients")

    assert table.n_rows == len(rows)
    assert table.columns == tuple(NAMES)
    with pytest.raises(DataError, match="Data set 'others' cannot be read"):
        open_source(f"{address}/others")
    with pytest.raises(DataError, match="names no data set"):
        open_source(address)
    # By a client of its own: another silo of a simulation may have another cluster.
    parties = dict.fromkeys("abc", f"{address}/patients")
    pca = PCA(2).fit(simulate(parties, policy=Policy.open()))
    assert_allclose(pca.mean_, rows.mean(axis=0))


@pytest.mark.usefixtures("client")
def test_text_among_the_features_is_refused_by_name(rows):
    import dask.dataframe as dd

    frame = frame_of(rows).assign(who="somebody")
    with pytest.raises(DataError, match="not numbers: 'who'"):
        open_source(dd.from_pandas(frame, npartitions=2))
    table = open_source(dd.from_pandas(frame, npartitions=2), label="who")
    (block, *_) = table.blocks(["c0"], ["who"])
    assert set(block.extra["who"]) == {"somebody"}


@pytest.mark.usefixtures("client")
def test_sparse_chunks_stay_sparse(rows):
    import dask.array

    da: Any = dask.array
    X = np.where(rows > 11.0, rows, 0.0)
    source = da.from_array(X, chunks=(40, 5)).map_blocks(scipy.sparse.csr_array)
    table = open_source(source)
    assert table.n_rows == len(X)
    assert_array_equal(np.concatenate([b.X for b in table.blocks(table.columns)]), X)


def test_other_collections_are_refused():
    import dask.array as da
    import dask.bag as db

    for source in (da.zeros(5), db.from_sequence([1, 2])):
        with pytest.raises(DataError, match="a DataFrame or a two-dimensional array"):
            open_source(source)
