"""Sources of large studies: .npy and sparse .npz files, Arrow IPC, blocks of a size."""

import tracemalloc

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pytest
import scipy.sparse
import sklearn.decomposition
from numpy.testing import assert_array_equal

from twins import assert_same_pca
from unpooled import PCA, Policy, SimpleImputer, simulate
from unpooled.data.sources.npy import MappedRows
from unpooled.data.sources.open_source import open_source
from unpooled.errors import DataError

DTYPES = ["float64", "float32", "int16", "bool"]


def read(table, columns=None, **options):
    blocks = list(table.blocks(columns or table.columns, **options))
    assert all(block.X.dtype == np.float64 for block in blocks)
    return np.concatenate([block.X for block in blocks])


@pytest.fixture
def rows():
    return np.random.default_rng(3).poisson(0.7, (50, 6)).astype(float)


# --- .npy ----------------------------------------------------------------------------


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_npy_files_of_any_dtype_and_order(tmp_path, rows, dtype, order):
    X = np.asarray(rows.astype(dtype), order=order)
    np.save(tmp_path / "rows.npy", X)
    table = open_source(tmp_path / "rows.npy", label="x5")
    assert table.columns == ("x0", "x1", "x2", "x3", "x4")
    assert_array_equal(read(table, rows=7), X[:, :5].astype(float))
    assert_array_equal(read(table, ["x3", "x0"]), X[:, [3, 0]].astype(float))
    (first, *_) = table.blocks(["x0"], ["x5"])
    assert_array_equal(first.extra["x5"], X[:, 5])


def test_npy_blocks_cannot_be_written_into(tmp_path, rows):
    np.save(tmp_path / "rows.npy", rows)
    (block,) = open_source(tmp_path / "rows.npy").blocks(["x0", "x1"])
    with pytest.raises(ValueError, match="read-only"):
        block.X[0, 0] = 1.0


def test_npy_files_that_change_between_passes_are_refused(tmp_path, rows):
    np.save(tmp_path / "rows.npy", rows)
    table = open_source(tmp_path / "rows.npy")
    np.save(tmp_path / "rows.npy", rows[:-1])
    with pytest.raises(DataError, match=r"rows.npy changed since it was opened"):
        list(table.blocks(["x0"]))


def test_pickles_are_not_opened(tmp_path):
    np.save(tmp_path / "rows.npy", np.array([[object()]], object), allow_pickle=True)
    with pytest.raises(DataError, match=r"one array of numbers, as numpy\.save"):
        open_source(tmp_path / "rows.npy")


@pytest.mark.parametrize("name", ["rows.npy", "rows.npz"])
def test_files_that_are_something_else(tmp_path, name):
    (tmp_path / name).write_bytes(b"not an array")
    with pytest.raises(DataError, match=f"{name} cannot be read"):
        open_source(tmp_path / name)


def test_npy_files_of_one_axis_are_refused(tmp_path):
    np.save(tmp_path / "rows.npy", np.arange(5.0))
    with pytest.raises(DataError, match="1 axes; two are needed"):
        open_source(tmp_path / "rows.npy")


def test_mapped_rows_know_their_file(tmp_path, rows):
    np.save(tmp_path / "rows.npy", rows)
    mapped = MappedRows(tmp_path / "rows.npy")
    assert (mapped.shape, mapped.ndim, mapped.dtype) == (rows.shape, 2, rows.dtype)
    assert_array_equal(mapped[10:20], rows[10:20])


# --- sparse --------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["csr", "csc", "coo"])
@pytest.mark.parametrize("compressed", [True, False])
def test_npz_files_of_any_form(tmp_path, rows, form, compressed):
    sparse = scipy.sparse.coo_array(rows).asformat(form)
    scipy.sparse.save_npz(tmp_path / "rows.npz", sparse, compressed=compressed)
    table = open_source(tmp_path / "rows.npz")
    assert_array_equal(read(table, rows=7), rows)
    parts = [block.X for block in table.sparse_blocks(["x4", "x1"])]
    assert all(scipy.sparse.issparse(part) for part in parts)
    assert_array_equal(scipy.sparse.vstack(parts).toarray(), rows[:, [4, 1]])


def test_npz_files_of_dense_arrays_say_what_to_write(tmp_path, rows):
    np.savez(tmp_path / "rows.npz", rows)
    with pytest.raises(DataError, match=r"scipy\.sparse\.save_npz"):
        open_source(tmp_path / "rows.npz")


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
def test_sparse_and_dense_rows_give_the_same_model(tmp_path, secure_sum, dtype):
    rng = np.random.default_rng(1)
    X = (rng.poisson(0.4, (150, 30)) * rng.integers(1, 9, 30)).astype(dtype)
    parties = {}
    for name, part in zip("abc", np.array_split(X, 3), strict=True):
        parties[name] = tmp_path / f"{name}.npz"
        scipy.sparse.save_npz(parties[name], scipy.sparse.csr_array(part))
    ours = PCA(3, svd_solver="krylov", random_state=0, tol=1e-11).fit(
        simulate(parties, policy=Policy.open(), secure_sum=secure_sum)
    )
    theirs = sklearn.decomposition.PCA(3, svd_solver="arpack", random_state=0)
    assert_same_pca(ours, theirs.fit(X.astype(float)))


@pytest.mark.slow
def test_sparse_rows_are_never_filled_in(monkeypatch):
    # Whoever fills in rows asks for it by this name.
    monkeypatch.setattr(scipy.sparse.csr_array, "toarray", None)
    rng = np.random.default_rng(0)
    X = scipy.sparse.random_array((90, 3000), density=0.01, rng=rng, format="csr")
    X = scipy.sparse.diags_array(0.8 ** np.arange(90)) @ X
    # Of 90 rows alone: products with blocks of directions are many numbers, and some
    # columns are one row's.
    policy = {"max_released_share": 3.0, "max_leverage": 1.0}
    silos = {name: X[i::3] for i, name in enumerate("abc")}
    federation = simulate(silos, policy=policy)
    pca = PCA(2, svd_solver="krylov", random_state=0).fit(federation)
    assert pca.components_.shape == (2, 3000)


# --- Arrow IPC -----------------------------------------------------------------------


@pytest.fixture(params=["feather", "file", "stream"])
def arrow_file(request, tmp_path, rows):
    frame = pa.table({f"c{j}": rows[:, j] for j in range(6)})
    frame = frame.set_column(
        5, "who", pa.array([None if x > 2 else str(x) for x in rows[:, 5]])
    )
    path = tmp_path / "rows.arrow"
    if request.param == "feather":
        path = tmp_path / "rows.feather"
        pyarrow.feather.write_feather(frame, path, chunksize=9)
        return path
    make = pa.ipc.new_file if request.param == "file" else pa.ipc.new_stream
    with make(path, frame.schema) as writer:
        writer.write_table(frame, max_chunksize=9)
    return path


def test_arrow_files_and_streams(arrow_file, rows):
    table = open_source(arrow_file, label="who")
    assert table.n_rows == len(rows)
    assert_array_equal(read(table, ["c2", "c0"], rows=7), rows[:, [2, 0]])
    labels = np.concatenate([b.extra["who"] for b in table.blocks(["c0"], ["who"])])
    assert [x is None for x in labels] == (rows[:, 5] > 2).tolist()


def test_arrow_files_with_text_among_the_features(arrow_file):
    with pytest.raises(DataError, match=r"columns that are not numbers: 'who'"):
        open_source(arrow_file)


def test_arrow_files_that_are_something_else(tmp_path):
    (tmp_path / "rows.arrow").write_bytes(b"ARROW1 and no more")
    with pytest.raises(DataError, match=r"rows.arrow cannot be read"):
        open_source(tmp_path / "rows.arrow")


# --- The size of blocks --------------------------------------------------------------


def test_blocks_are_of_the_size_asked_for(tmp_path):
    np.save(tmp_path / "rows.npy", np.zeros((5000, 64), np.float32))
    table = open_source(tmp_path / "rows.npy", block_mb=0.5)
    assert {len(b.X) for b in table.blocks(table.columns)} == {1024, 904}
    recoded = open_source(table, missing={"x0": [9]})
    assert {len(b.X) for b in recoded.blocks(table.columns)} == {1024, 904}


@pytest.mark.parametrize("block_mb", [0, -1.0, float("nan")])
def test_blocks_of_no_size_are_refused(rows, block_mb):
    with pytest.raises(DataError, match="give a number of megabytes"):
        open_source(rows, block_mb=block_mb)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float64", "float32", "int16"])
def test_no_copy_of_everything_with_missing_cells(dtype):
    X = np.random.default_rng(0).integers(0, 50, (90_000, 20)).astype(dtype)
    if X.dtype.kind == "f":
        X[::7, 3] = np.nan
    parties = dict(zip("abc", np.array_split(X, 3), strict=True))
    federation = simulate(parties, policy=Policy.open(), block_mb=0.5)
    imputer = SimpleImputer().fit(federation)
    view = imputer.transform(federation)
    tracemalloc.start()
    PCA(3).fit(view)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # One silo as float64 is 4.8 MB; a block and what a step makes of it are a few.
    assert peak < 3.5 * 2**20
