from itertools import chain

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from unpooled.data.partition import partition_columns, partition_rows
from unpooled.errors import DataError

KINDS = {
    "array": (lambda X: X, np.asarray),
    "csr": (scipy.sparse.csr_array, lambda part: part.toarray()),
    "csr_matrix": (scipy.sparse.csr_matrix, lambda part: part.toarray()),
    "pandas": (lambda X: frame(X, pd.DataFrame), pd.DataFrame.to_numpy),
    "polars": (lambda X: frame(X, pl.DataFrame), pl.DataFrame.to_numpy),
    "pyarrow": (lambda X: frame(X, pa.table), lambda t: np.column_stack(t.columns)),
}


def frame(X, make):
    return make({f"c{j}": X[:, j] for j in range(X.shape[1])})


@pytest.fixture(params=list(KINDS))
def kind(request):
    return KINDS[request.param]


@pytest.fixture(name="X")
def numbered_rows():
    """Every entry differs, so that a row is known by its first."""
    return np.arange(91.0).reshape(13, 7)


@pytest.fixture
def y():
    return np.array(["healthy"] * 8 + ["ill"] * 4 + ["worse"])


def test_rows_are_cut_evenly_and_in_order(kind, X):
    make, back = kind
    whole = make(X)

    parts = partition_rows(whole, 4)

    assert list(parts) == ["silo1", "silo2", "silo3", "silo4"]
    assert {type(part) for part in parts.values()} == {type(whole)}
    assert [back(part).shape[0] for part in parts.values()] == [4, 3, 3, 3]
    assert_array_equal(np.vstack([back(part) for part in parts.values()]), X)


def test_columns_are_cut_evenly_and_in_order(kind, X):
    make, back = kind
    whole = make(X)

    parts = partition_columns(whole, 3)

    assert list(parts) == ["silo1", "silo2", "silo3"]
    assert {type(part) for part in parts.values()} == {type(whole)}
    assert [back(part).shape for part in parts.values()] == [(13, 3), (13, 2), (13, 2)]
    assert_array_equal(np.hstack([back(part) for part in parts.values()]), X)


@pytest.mark.parametrize("alpha", [None, 0.1, 1])
def test_shuffled_pieces_of_every_kind_are_the_same_rows(kind, X, y, alpha):
    make, back = kind

    parts = partition_rows(make(X), 3, y, alpha=alpha, random_state=5)

    plain = partition_rows(X, 3, y, alpha=alpha, random_state=5)
    for name, part in parts.items():
        assert_array_equal(back(part), plain[name])
    rows = np.vstack([back(part) for part in parts.values()])
    assert_array_equal(rows[rows[:, 0].argsort()], X)
    assert not np.array_equal(rows, X)


def test_even_pieces_of_an_array_are_views(X):
    for parts in (partition_rows(X, 3), partition_columns(X, 3)):
        assert all(np.shares_memory(part, X) for part in parts.values())


@given(data=st.data(), alpha=st.floats(1e-12, 1e12), seed=st.integers(0, 2**32))
def test_no_row_is_lost_or_doubled_and_no_party_is_empty(data, alpha, seed):
    labels = data.draw(st.lists(st.integers(0, 3), min_size=1, max_size=40))
    n_parties = data.draw(st.integers(1, len(labels)))
    X = np.arange(float(len(labels)))[:, None]

    parts = partition_rows(X, n_parties, labels, alpha=alpha, random_state=seed)

    assert len(parts) == n_parties
    assert min(len(part) for part in parts.values()) >= 1
    assert sorted(np.vstack(list(parts.values()))[:, 0]) == X[:, 0].tolist()


@given(size=st.integers(1, 50), data=st.data())
def test_sizes_differ_by_at_most_one(size, data):
    n_parties = data.draw(st.integers(1, size))

    for parts, axis in (
        (partition_rows(np.ones((size, 1)), n_parties), 0),
        (partition_rows(np.ones((size, 1)), n_parties, random_state=0), 0),
        (partition_columns(np.ones((1, size)), n_parties), 1),
    ):
        sizes = [part.shape[axis] for part in parts.values()]
        assert sum(sizes) == size
        assert max(sizes) - min(sizes) <= 1


def test_alpha_governs_how_different_the_classes_are():
    y = np.repeat([0, 1, 2, 3], 500)

    def largest_class_share(alpha):
        parts = partition_rows(y[:, None], 5, y, alpha=alpha, random_state=0).values()
        counts = [np.bincount(part[:, 0], minlength=4) for part in parts]
        return np.mean([count.max() / count.sum() for count in counts])

    # With even classes each has a quarter; a Dirichlet share has a standard deviation
    # of 0.4 / sqrt(5 alpha + 1), which is 0.0006 here, and rounding adds 1 row of 100.
    assert largest_class_share(1e5) < 0.26
    assert largest_class_share(0.05) > 0.6


def test_random_states_as_in_scikit_learn(X, y):
    def rows(random_state):
        parts = partition_rows(X, 3, y, alpha=1.0, random_state=random_state)
        return [part[:, 0].tolist() for part in parts.values()]

    assert rows(3) == rows(3) == rows(np.random.default_rng(3))
    assert rows(np.random.RandomState(3)) == rows(np.random.RandomState(3))
    generator = np.random.default_rng(3)
    assert rows(generator) != rows(generator)
    assert sorted(chain(*rows(None))) == X[:, 0].tolist()


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_classes_may_be_a_column(make):
    cells = {"a": list(range(12)), "sick": ["no", None, "yes"] * 4}

    parts = partition_rows(make(cells), 2, "sick", alpha=0.5, random_state=1)

    direct = partition_rows(make(cells), 2, cells["sick"], alpha=0.5, random_state=1)
    assert [list(p["a"]) for p in parts.values()] == [
        list(p["a"]) for p in direct.values()
    ]


def test_missing_classes_are_a_class_of_their_own():
    X = np.arange(4.0)[:, None]

    for y in ([0.0, np.nan, np.nan, 1.0], ["a", None, None, "b"]):
        parts = partition_rows(X, 2, y, alpha=1.0, random_state=0)
        assert sorted(np.vstack(list(parts.values()))[:, 0]) == [0.0, 1.0, 2.0, 3.0]


def test_pandas_keeps_its_index():
    whole = pd.DataFrame({"a": [1, 2, 3]}, index=["u", "v", "w"])

    parts = partition_rows(whole, 2)

    assert [list(part.index) for part in parts.values()] == [["u", "v"], ["w"]]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_parties": 0}, "Choose from 1 to 13"),
        ({"n_parties": 14}, "n_parties=14, but X has 13 rows"),
        ({"n_parties": True}, "give an integer"),
        ({"alpha": 1.0}, "Give y"),
        ({"alpha": 0.0, "y": range(13)}, "alpha=0.0; give a positive number"),
        ({"alpha": np.nan, "y": range(13)}, "alpha=nan"),
        ({"alpha": np.inf, "y": range(13)}, "alpha=inf"),
        ({"alpha": 1.0, "y": range(12)}, r"y has shape \(12,\)"),
        ({"alpha": 1.0, "y": "sick"}, "X is an array without names"),
        ({"random_state": -1}, "random_state=-1"),
        ({"X": np.ones(3)}, "X has 1 axes"),
        ({"X": {"a": [1]}}, "dict cannot be read"),
        (
            {
                "X": pd.DataFrame({"sick": [1]}),
                "n_parties": 1,
                "alpha": 1.0,
                "y": "sik",
            },
            "Did you mean 'sick'",
        ),
    ],
)
def test_bad_arguments_are_refused(X, arguments, message):
    with pytest.raises(DataError, match=message):
        partition_rows(**{"X": X, "n_parties": 3, **arguments})


def test_more_parties_than_columns_are_refused(X):
    with pytest.raises(DataError, match="X has 7 columns"):
        partition_columns(X, 8)
