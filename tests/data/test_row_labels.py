"""Frames of the same people are joined by the labels of their rows, or not at all."""

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose

import unpooled as up
from unpooled.data.row_labels import aligned_by_label
from unpooled.errors import DataError


@pytest.fixture
def pool():
    rng = np.random.default_rng(9)
    X = rng.standard_normal((60, 2)) @ rng.standard_normal((2, 4))
    return pd.DataFrame(X, columns=list("abcd"), index=[f"p{i:02}" for i in range(60)])


def covariance(federation):
    scaler = up.StandardScaler(with_std=False).fit(federation)
    pca = up.PCA(2).fit(scaler.transform(federation))
    return pca.explained_variance_


OPEN: dict[str, Any] = {"policy": up.Policy.open()}


@pytest.mark.thinned(1)
@pytest.mark.parametrize("numbered", [False, True])
def test_a_shuffled_frame_gives_the_pooled_answer(pool, numbered):
    if numbered:
        pool = pool.reset_index(drop=True)
    shuffled = pool[["c", "d"]].sample(frac=1.0, random_state=1)

    whole = up.simulate(
        {"u": pool[["a", "b"]], "v": pool[["c", "d"]]}, "columns", **OPEN
    )
    mixed = up.simulate({"u": pool[["a", "b"]], "v": shuffled}, "columns", **OPEN)

    exact = np.linalg.eigvalsh(np.cov(pool.to_numpy().T))[::-1][:2]
    # Totals of 60 products, rounded to multiples of less than 2^-40 in each silo.
    assert_allclose(covariance(mixed), exact, rtol=1e-9)
    assert_allclose(covariance(mixed), covariance(whole), rtol=1e-9)


def test_the_order_is_that_of_the_first_party(pool):
    shuffled = pool[["a"]].sample(frac=1.0, random_state=1)

    found = aligned_by_label({"u": shuffled, "v": pool[["b"]], "w": pool[["c"]]})

    for frame in found.values():
        assert list(frame.index) == list(shuffled.index)


@pytest.mark.parametrize(
    "change",
    [
        lambda frame: frame.set_axis([f"q{i}" for i in range(60)]),
        lambda frame: frame.set_axis([*frame.index[1:], "p59"]),
    ],
    ids=["others", "twice"],
)
def test_frames_with_other_labels_are_refused(pool, change):
    parts = {"u": pool[["a", "b"]], "v": change(pool[["c", "d"]])}

    with pytest.raises(DataError, match=r"rows of v .* those of u.*reset_index"):
        up.simulate(parts, "columns")


def test_rows_without_labels_keep_their_places(pool):
    numbered = pool[["c"]].reset_index(drop=True)
    parts = {"u": pool[["a"]], "v": numbered, "w": pl.from_pandas(numbered)}

    found = aligned_by_label(parts)

    assert all(found[name] is parts[name] for name in parts)
